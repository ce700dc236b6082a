"""A small helper process for each process of a run, which reports why that process has ended.

When another process dies, the JAX runtime may abort this process, which then runs no more Python code.
"""

import atexit
import contextlib
import subprocess
import sys
from typing import Any

__all__ = ["dismiss_watchers", "start_watcher"]

_watchers: list[Any] = []

WATCHER = """
import socket, sys
host, port, index = sys.argv[1:]
if sys.stdin.read() != "done":
    who = "it was killed, or JAX ended it because another process has died (the lines above have its number)"
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        if index != "0":
            who = f"process 0, the coordinator at {host}:{port}, has died"
    print(f"funcnet: process {index}: {who}. Start all processes again with --resume.", file=sys.stderr)
"""


def start_watcher(coordinator: str, index: int) -> None:
    """Start the watcher of this process.

    Args:
        coordinator: address HOST:PORT of process 0.
        index: number of this process.
    """
    host, _, port = coordinator.rpartition(":")
    command = [sys.executable, "-I", "-S", "-c", WATCHER, host, port, str(index)]
    _watchers.append(subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True))
    atexit.register(dismiss_watchers)


def dismiss_watchers() -> None:
    """End the watchers, without a message."""
    for watcher in _watchers:
        with contextlib.suppress(OSError, ValueError):
            watcher.communicate(b"done", timeout=5)
    _watchers.clear()
