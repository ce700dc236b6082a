"""Several processes in one run: how they join, agree, and notice that one of them has died.

`jax.distributed` connects the processes to the coordinator, which is process 0. All processes run the same program on
the same arrays. Host values, such as a decision or a configuration, are exchanged through the coordinator and not
through the devices, so any thread may exchange them.
"""

import atexit
import contextlib
import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax

from funcnet.arguments import integer
from funcnet.parallel.coordinator import coordinator_client, exchange_numbers, process_state
from funcnet.parallel.errors import ProcessError
from funcnet.parallel.launchers import JOINING, argument_names, process_of_environment
from funcnet.parallel.watchers import dismiss_watchers, start_watcher

__all__ = [
    "check_equal",
    "first_decides",
    "is_first",
    "join_processes",
    "leave",
    "process_count",
    "process_name",
    "wait_for_all",
    "watch_processes",
]

HEARTBEAT = 20  # seconds without a sign of life after which a process counts as dead
LEAVING = 30  # seconds for which process 0 waits until the others have left, when all end with the same error


def process_count() -> int:
    """Return the number of processes of this run.

    Example:
        >>> process_count()  # no other process has joined
        1
    """
    return process_state().num_processes or 1


def is_first() -> bool:
    """Return whether this is process 0, which writes the files and prints the messages of a run.

    Example:
        >>> is_first()  # the only process of a run is the first
        True
    """
    return not process_state().process_id


def process_name() -> str:
    """Return the prefix of messages: "process I: ", or "" in a run of one process.

    Example:
        >>> print(f"{process_name()}the data end early")
        the data end early
    """
    return "" if coordinator_client() is None else f"process {process_state().process_id}: "


def join_processes(
    coordinator: str | None = None,
    count: int | None = None,
    index: int | None = None,
    *,
    timeout: float = 120,
    where: str = JOINING,
) -> None:
    """Join the other processes of a run. Call this function before JAX makes an array or lists its devices.

    A command joins by itself. A script calls this function first, once in each process.

    If `coordinator`, `count` and `index` are None, their values come from the environment variables of Slurm (srun),
    Open MPI (mpirun) or a Kubernetes JobSet like `scripts/launch/jobset.yaml`. Without such variables, the run has one
    process.

    Args:
        coordinator: address HOST:PORT of process 0.
        count: number of processes.
        index: number of this process, 0 to count - 1.
        timeout: seconds to wait for the coordinator, or for the other processes.
        where: prefix for error messages. A command passes its name, and the messages then name its options.

    Raises:
        TypeError: if `count` or `index` is not an integer.
        ProcessError: if only some of the values are given, if a value or an environment variable is not valid, if the
            port of the coordinator is in use, or if not all processes join in time.

    Example:
        >>> join_processes()  # one process, because no launcher has set the environment variables
        >>> process_count()
        1
    """
    if coordinator_client() is not None:
        return
    names = argument_names(where)
    given = dict(zip(names, (coordinator, count, index), strict=True))
    missing = [name for name, value in given.items() if value is None]
    if len(missing) == len(given):
        found = process_of_environment(os.environ, where)
        if found is None:
            return
        coordinator, count, index = found
    elif missing:
        raise ProcessError(
            f"{where}: {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; expected all of "
            f"{names[0]} HOST:PORT, {names[1]} N and {names[2]} I, or none of them."
        )
    count, index = integer(where, names[1], count), integer(where, names[2], index)
    if count < 1 or not 0 <= index < count:
        raise ProcessError(
            f"{where}: {names[2]} is out of range; expected 0 to {max(count, 1) - 1} for {count} processes, got "
            f"{index}."
        )
    if count > 1:
        _initialize(coordinator, count, index, timeout, where)


def wait_for_all(name: str, timeout: float = 600) -> None:
    """Wait until all processes have called this function with the same name.

    Args:
        name: what the processes wait for. The message of an error has this name.
        timeout: seconds to wait.

    Raises:
        ProcessError: if a process does not call this function within `timeout` seconds. The message names the missing
            process.

    Example:
        >>> wait_for_all("the data are written")  # in a run of one process, this returns at once
    """
    client = coordinator_client()
    if client is None:
        return
    try:
        client.wait_at_barrier(f"funcnet/{name}", int(timeout * 1000))
    except jax.errors.JaxRuntimeError as error:
        raise ProcessError(
            f"parallel.wait_for_all: processes are missing at {name!r}; expected all {process_count()} within "
            f"{timeout:g} seconds, still waiting for: {_late(error) or 'unknown'}. See their messages."
        ) from error


def first_decides(decide: Callable[[], Any], *, timeout: float = 600) -> Any:
    """Call a function in process 0 only, and return its result in all processes.

    Args:
        decide: a function that returns a JSON value.
        timeout: seconds for which the other processes wait for the result.

    Raises:
        ProcessError: in the other processes, if the function raises an exception in process 0, or takes too long.

    Example:
        >>> first_decides(lambda: 2 + 2)
        4
    """
    client = coordinator_client()
    if client is None:
        return decide()
    name = f"funcnet/decision/{next(exchange_numbers)}"
    if is_first():
        try:
            result = decide()
        except BaseException as error:
            client.key_value_set(name, json.dumps({"error": str(error) or type(error).__name__}))
            _let_others_leave()
            raise
        client.key_value_set(name, json.dumps({"result": result}))
        return result
    try:
        answer = json.loads(client.blocking_key_value_get(name, int(timeout * 1000)))
    except jax.errors.JaxRuntimeError as error:
        raise ProcessError(
            f"parallel.first_decides: process 0 does not answer; expected an answer within {timeout:g} seconds, got "
            "none. See its messages."
        ) from error
    if "error" in answer:
        raise ProcessError(f"process 0 has ended with an error: {answer['error']}")
    return answer["result"]


def check_equal(facts: Mapping[str, Any], *, where: str, name: str = "", advice: str = "") -> None:
    """Check that all processes have the same facts, such as their configuration, their code and their data.

    Args:
        facts: {name: JSON value}.
        where: prefix for error messages.
        name: name of the exchange, if its place among the exchanges of a process depends on the timing of threads. Each
            name can be used once in a run.
        advice: a sentence for the message, which says what to do.

    Raises:
        ProcessError: in every process, if a process differs from process 0. The message names the fact, the process,
            and the values of the fact in this process and in process 0.

    Example:
        >>> check_equal({"seed": 0, "rows": 500}, where="pretrain")  # a run of one process always agrees
    """
    client = coordinator_client()
    if client is None:
        return
    folder, own = f"funcnet/facts/{name or next(exchange_numbers)}", json.dumps(facts, sort_keys=True, default=str)
    client.key_value_set(f"{folder}/{process_state().process_id}", own)
    everyone = [json.loads(client.blocking_key_value_get(f"{folder}/{i}", 600_000)) for i in range(process_count())]
    wait_for_all(folder)  # if this process, the coordinator, ended now, the others could not read the facts
    for number, other in enumerate(everyone):
        for fact in everyone[0] | other:
            expected, found = everyone[0].get(fact), other.get(fact)
            if expected != found:
                _let_others_leave()
                advice = advice or "Start all processes with the same command, code and data."
                raise ProcessError(
                    f"{where}: the processes disagree; expected {fact} = {expected!r} as in process 0, got {found!r} "
                    f"in process {number}. {advice}"
                )


@contextlib.contextmanager
def watch_processes() -> Iterator[None]:
    """If a collective operation fails inside the block, raise an error that names the process that has died.

    If the coordinator has died, or a collective operation does not end, the JAX runtime ends this process. In this
    case, a small helper process prints the reason.

    Raises:
        ProcessError: if a process has died.

    Example:
        >>> with watch_processes():
        ...     total = jax.numpy.arange(3).sum()
        >>> int(total)
        3
    """
    try:
        yield
    except Exception as error:
        is_lost = re.search("Gloo|UNAVAILABLE|DEADLINE_EXCEEDED|NCCL|coordination", str(error))
        if is_lost and coordinator_client() is not None:
            late = _missing()
            if late:
                raise ProcessError(f"process {late} has died. Start all processes again with --resume.") from error
        raise


def leave(code: int) -> None:
    """End this process at once if the run has several. A normal exit waits for the others, which may be dead.

    Args:
        code: the exit code.

    Example:
        >>> leave(2)  # in a run of one process, this does nothing, so that an ordinary exit follows
    """
    if coordinator_client() is not None:
        dismiss_watchers()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        _say_left()
        os._exit(code)


def _say_left() -> None:
    """Tell process 0 that this process has printed its messages and ends."""

    client, own = coordinator_client(), f"funcnet/left/{process_state().process_id}"
    if client is None:  # the script has disconnected
        return

    def say() -> None:
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            client.key_value_set(own, "")

    said = threading.Thread(target=say, daemon=True)  # a thread, because a dead coordinator does not answer
    said.start()
    said.join(5)


def _let_others_leave() -> None:
    """In process 0, wait until the other processes have printed the same error. JAX aborts them when process 0 ends."""
    end = time.monotonic() + LEAVING
    for number in range(1, process_count() if is_first() else 0):
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # it is too late, or it is dead
            left = max(1, int((end - time.monotonic()) * 1000))
            coordinator_client().blocking_key_value_get(f"funcnet/left/{number}", left)


def _late(error: Exception) -> str:
    """Return the numbers of the late processes, which an error message of the coordinator lists one per line."""
    return ", ".join(re.findall(r"^(\d+)$", str(error), re.MULTILINE))


def _missing() -> str:
    """Return the numbers of the processes that do not answer within a few seconds."""
    time.sleep(1)
    try:
        coordinator_client().wait_at_barrier(f"funcnet/alive/{next(exchange_numbers)}", 5000)
    except jax.errors.JaxRuntimeError as error:
        return _late(error)
    return ""


# --------------------------------------------------------------------------------------------------------- to join


def _initialize(coordinator: str | None, count: int, index: int, timeout: float, where: str) -> None:
    if coordinator is not None:
        _check_address(coordinator, index, timeout, where)
    try:
        jax.distributed.initialize(
            coordinator, count, index, initialization_timeout=int(timeout), heartbeat_timeout_seconds=HEARTBEAT,
            shutdown_timeout_seconds=HEARTBEAT,
        )  # fmt: skip
    except jax.errors.JaxRuntimeError as error:
        raise ProcessError(
            f"{where}: the {count} processes did not all join the run; expected all of them at "
            f"{coordinator or 'the coordinator'} within {timeout:g} seconds, got: {str(error).splitlines()[0]}"
        ) from error
    atexit.register(_say_left)  # for a script that does not call `leave`; JAX disconnects only afterwards
    if coordinator is not None:
        start_watcher(coordinator, index)


def _check_address(coordinator: str, index: int, timeout: float, where: str) -> None:
    """Wait until the coordinator answers. In process 0, which becomes the coordinator, check that its port is free."""
    host, _, port = str(coordinator).rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        name = argument_names(where)[0]
        raise ProcessError(f"{where}: {name} is not an address; expected HOST:PORT, got {coordinator!r}.")
    if index == 0:
        with socket.socket(socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", int(port)))
            except OSError as error:
                raise ProcessError(
                    f"{where}: port {port} of the coordinator {coordinator} is in use; expected a free port, got: "
                    f"{error.strerror}. It may be the coordinator of another run. Choose another port."
                ) from error
        return
    end = time.monotonic() + timeout
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                raise ProcessError(
                    f"{where}: the coordinator at {coordinator} does not answer; expected process 0 there within "
                    f"{timeout:g} seconds, got: {error}. Start process 0, and check the address and the firewall."
                ) from error
            time.sleep(0.2)
