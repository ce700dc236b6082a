"""Starts the processes of a run, one or several that join each other, and waits for them."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

__all__ = ["AS_A_USER", "FUNCNET", "ROOT", "ended", "environment", "joining", "start", "succeeded", "wait_for"]

_reserved: list[socket.socket] = []  # open until the end of the tests, so that nobody else gets the ports
ROOT = Path(__file__).resolve().parents[1]
AS_A_USER = {"JAX_NUMPY_DTYPE_PROMOTION": "standard", "JAX_DEFAULT_MATMUL_PRECISION": "default"}  # JAX's own settings
FUNCNET = [sys.executable, "-c", "from funcnet.cli import main; main()"]


def environment(cache: Path) -> dict[str, str]:
    """The environment of a process that has a user's devices, not the tests' eight, and its caches in `cache`."""
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if "device_count" not in flag]
    own = {"XLA_FLAGS": " ".join(flags), "XDG_CACHE_HOME": str(cache), "PYTHONUNBUFFERED": "1"}
    return os.environ | own | {"JAX_PLATFORMS": "cpu"}


def start(command: Sequence[Any], cache: Path) -> subprocess.Popen:
    """A process that runs a command in the root of the repository. Its errors are part of its output."""
    return subprocess.Popen(
        [str(part) for part in command],
        cwd=ROOT,
        env=environment(cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def joining(count: int) -> list[list[str]]:
    """The arguments with which each of `count` processes joins the others. One process alone needs none."""
    if count == 1:
        return [[]]
    free = socket.socket()
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):  # with both, process 0 may bind the port too
        free.setsockopt(socket.SOL_SOCKET, option, 1)
    free.bind(("127.0.0.1", 0))
    _reserved.append(free)
    address = f"127.0.0.1:{free.getsockname()[1]}"
    return [["--coordinator", address, "--num-processes", str(count), "--process-id", str(i)] for i in range(count)]


def ended(*processes: subprocess.Popen, timeout: float = 400) -> list[tuple[int, str]]:
    """[(exit code, output)] of each process. After `timeout` seconds, all are killed and the test fails."""
    threads = ThreadPoolExecutor(len(processes))  # a process whose output nobody reads stops when the pipe is full
    try:
        outputs = list(threads.map(lambda process: process.communicate(timeout=timeout)[0], processes))
    finally:
        for process in processes:
            process.kill()
        threads.shutdown()
    return [(process.returncode, output) for process, output in zip(processes, outputs, strict=True)]


def succeeded(*processes: subprocess.Popen, timeout: float = 400) -> list[str]:
    """The output of each process. The test fails if an exit code is not 0."""
    found = ended(*processes, timeout=timeout)
    for code, output in found:
        assert code == 0, output
    return [output for _, output in found]


def wait_for(condition: Callable[[], bool], *processes: subprocess.Popen, timeout: float = 300) -> bool:
    """Wait until `condition()` is true or a process ends; return whether it was true.

    After `timeout` seconds, the test fails.
    """
    end = time.monotonic() + timeout
    while not condition():
        if any(process.poll() is not None for process in processes):
            return False
        assert time.monotonic() < end, f"nothing happened within {timeout} s"
        time.sleep(0.01)
    return True
