"""Workers of a `DataLoader` that are processes. The processes are spawned and never forked.

Each worker receives its tasks in a separate thread, so that the parent can send a task while the worker reads a batch.
If the pipe to the parent is closed, the parent has died, and the worker exits at once.
"""

from __future__ import annotations

import contextlib
import functools
import io
import multiprocessing.connection
import multiprocessing.process
import os
import pickle
import queue
import random
import signal
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from funcnet.data.describe import describe
from funcnet.data.global_draws_warning import WATCHED, generator_states, used_generators
from funcnet.data.shared_memory import Receiver, Sender
from funcnet.data.sharing import unshare_epochs
from funcnet.data.torch_worker_info import answer_torch
from funcnet.data.worker import Fetcher, InitFn, TaskResult, WorkerInfo, work

__all__ = ["ProcessWorkers"]

PATIENCE = 10.0  # seconds to wait for workers to end before they are terminated. A busy machine starts them slowly.


class ProcessWorkers:
    """Processes that make batches. They implement `Workers`.

    Args:
        fetcher: object that makes the batches. Each worker process receives a pickled copy of this object.
        count: number of processes.
        init_fn: function that each worker calls first, with its number.
        context: context of `multiprocessing` that does not fork.

    Attributes:
        processes: the processes.

    Raises:
        TypeError: if the dataset, or another part of the fetcher, cannot be pickled.
    """

    shares_generators = False

    def __init__(self, fetcher: Fetcher, count: int, *, init_fn: InitFn | None, context: BaseContext):
        self._pass = 0
        self._messages: queue.SimpleQueue[Any] = queue.SimpleQueue()  # to workers, for the thread that sends
        self.processes: list[Any] = []
        self._pipes: list[Connection] = []
        self._finalizer = weakref.finalize(self, _end, self.processes, self._pipes, self._messages, os.getpid())
        try:
            with _sigint_blocked():
                for number in range(count):
                    self._start(_Parcel((fetcher, init_fn)), number, count, context)
        except BaseException as error:
            self.close()
            if isinstance(error, pickle.PicklingError | AttributeError | TypeError):
                raise TypeError(
                    "DataLoader: the dataset cannot be sent to worker processes; expected objects that pickle accepts, "
                    f"got '{error}' for {describe(fetcher.dataset)}. Define classes and functions at the top of a "
                    "module, or use threads (multiprocessing_context=None)."
                ) from error
            raise
        self._receivers = [
            Receiver(pipe, functools.partial(_release, self._messages, number))
            for number, pipe in enumerate(self._pipes)
        ]
        threading.Thread(
            target=_send_messages, args=(self._messages, self._pipes), name="funcnet-data-send", daemon=True
        ).start()

    def begin(self, epoch: int, seed: int, states: Sequence[Any]) -> None:
        """Begin a pass over the data in every worker, and drop all results of the previous pass."""
        self._pass += 1
        for number, state in enumerate(states):
            self._messages.put((number, ("begin", self._pass, (epoch, seed + number, state))))

    def submit(self, worker: int, number: int, task: object) -> None:
        """Give a task to a worker. The call returns at once."""
        self._messages.put((worker, ("task", self._pass, (number, task))))

    def get(self, timeout: float | None) -> TaskResult:
        """Wait until any worker has finished a task, and return its result. `Workers.get` lists the errors."""
        end = None if timeout is None else time.monotonic() + timeout
        waiting = [*self._pipes, *(process.sentinel for process in self.processes)]
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            ready = multiprocessing.connection.wait(waiting, left)
            if not ready:
                raise TimeoutError
            pipes = [number for number, pipe in enumerate(self._pipes) if pipe in ready]
            if not pipes:
                dead = next(n for n, process in enumerate(self.processes) if process.sentinel in ready)
                raise self._died(dead)
            for number in pipes[:1]:
                try:
                    current, outcome = self._receivers[number].receive()
                except (EOFError, OSError):
                    raise self._died(number) from None
                if current == self._pass:
                    return outcome  # type: ignore[no-any-return]

    def close(self) -> None:
        """Ask all worker processes to end, and terminate those that do not end."""
        self._finalizer()

    def _start(self, parcel: _Parcel, number: int, count: int, context: Any) -> None:
        here, there = multiprocessing.connection.Pipe(duplex=True)
        try:
            process = context.Process(
                target=_run, args=(parcel, there, number, count), name=f"funcnet-data-{number}", daemon=True
            )
            process.start()
        except BaseException:
            here.close()
            raise
        finally:
            there.close()
        self._pipes.append(here)  # type: ignore[arg-type]
        self.processes.append(process)

    def _died(self, number: int) -> RuntimeError:
        process = self.processes[number]
        process.join(PATIENCE)
        code = process.exitcode
        if code is not None and code < 0:
            name = signal.strsignal(-code) or signal.Signals(-code).name
            why = f"is killed by signal: {name}. It may have used more memory than the machine has"
        else:
            why = (
                f"exited unexpectedly with exit code {code}. Its messages are on the standard error output. A script "
                f"that "
                'uses worker processes needs `if __name__ == "__main__":` around its own code'
            )
        return RuntimeError(f"DataLoader worker (pid {process.pid}) {why} (worker {number} of {len(self.processes)}).")


def _release(messages: queue.SimpleQueue[Any], worker: int, slot: int) -> Callable[[Any], None]:
    """Return a callback that tells a worker that slot `slot` of its shared memory is free. See `Receiver`."""
    return functools.partial(messages.put, (worker, ("free", 0, slot)))  # implemented in C, as `Receiver` requires


class _Parcel:
    """Objects that are sent to a worker. The worker unpickles them only when it calls `open`, so it can catch and
    report an error.
    """

    def __init__(self, content: object):
        self._content = content

    def __reduce__(self) -> Any:
        buffer = io.BytesIO()
        _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(self._content)
        return _Packed, (buffer.getvalue(),)


class _Packed:
    """The form in which a worker receives a `_Parcel`: its objects as pickled bytes."""

    def __init__(self, packed: bytes):
        self._packed = packed

    def open(self) -> Any:
        """Return the unpickled objects."""
        return pickle.loads(self._packed)


class _Pickler(ForkingPickler):
    """Pickles a memory map as the name of its file, so that the content of the file is not copied."""

    def reducer_override(self, value: object) -> Any:
        if type(value) is np.memmap and value.filename is not None and not isinstance(value.base, np.ndarray):
            mode = "r" if value.mode in ("r", "c") else "r+"
            order = "C" if value.flags.c_contiguous else "F"
            return np.memmap, (value.filename, value.dtype, mode, value.offset, value.shape, order)
        return NotImplemented


@contextlib.contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block SIGINT while workers start. Workers inherit the block, so Ctrl-C does not make them print a traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _send_messages(messages: queue.SimpleQueue[Any], pipes: Sequence[Connection]) -> None:
    """Send the messages in a queue to the workers. This function runs in a thread of the parent."""
    while True:
        message = messages.get()
        if message is None:
            return
        number, content = message
        with contextlib.suppress(OSError, ValueError):  # a worker has died (`get` reports this), or the pipe is closed
            pipes[number].send_bytes(pickle.dumps(content, protocol=5))


def _end(processes: list[Any], pipes: list[Connection], messages: queue.SimpleQueue[Any], parent: int) -> None:
    """End all workers and close the pipes. If this process is a fork of the parent, do nothing."""
    if os.getpid() != parent:
        return
    for number in range(len(pipes)):
        messages.put((number, ("stop", 0, None)))
    messages.put(None)
    patience = time.monotonic() + PATIENCE
    for process in processes:
        process.join(max(0.0, patience - time.monotonic()))
    for process in processes:
        if process.exitcode is None:
            process.terminate()
    patience = time.monotonic() + PATIENCE
    for process in processes:
        process.join(max(0.0, patience - time.monotonic()))
        if process.exitcode is None:
            process.kill()
            process.join()
    for pipe in pipes:
        pipe.close()


def _run(packed: _Packed, pipe: Connection, number: int, count: int) -> None:
    """Run the tasks of a worker. If the worker or a pass over the data cannot start, the error is the result of each
    task.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    sender = Sender(pipe, os.getppid())
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    newest = [0]  # number of the newest pass
    threading.Thread(target=_receive, args=(pipe, sender, tasks, newest), daemon=True).start()
    fetcher: Any = None
    problem: BaseException | None = None
    configured, watched = False, 0
    while True:
        kind, current, content = tasks.get()
        if kind == "stop":
            return
        if kind == "begin":
            epoch, seed, state = content
            try:
                answer_torch()
                if fetcher is None:
                    opened, init_fn = packed.open()
                    unshare_epochs(opened.dataset)
                    configured = init_fn is not None
                    _set_info(WorkerInfo(number, count, seed, opened.dataset, is_configured=configured))
                    if init_fn is not None:
                        init_fn(number)
                    fetcher = opened
                else:
                    _set_info(WorkerInfo(number, count, seed, fetcher.dataset, is_configured=configured))
                problem = None
                fetcher.begin(epoch, state)
            except Exception as error:
                error.add_note(f"in worker {number} of DataLoader, {'in a new pass' if fetcher else 'at its start'}")
                problem = error
        elif current == newest[0]:
            if problem is not None:
                outcome = TaskResult(content[0], number, error=problem)
            else:
                before = generator_states() if watched < WATCHED else None
                watched += 1
                outcome = work(fetcher, number, *content, where=f"in worker {number} of DataLoader")
                outcome.drew_from = () if before is None else used_generators(before)
            _reply(sender, current, outcome)


def _receive(pipe: Connection, sender: Sender, tasks: queue.SimpleQueue[Any], newest: list[int]) -> None:
    """Receive the messages of the parent. This function runs in a thread of the worker."""
    try:
        while True:
            message = pickle.loads(pipe.recv_bytes())
            if message[0] == "free":
                sender.release(message[2])
                continue
            if message[0] == "begin":
                newest[0] = message[1]
            tasks.put(message)
    except (EOFError, OSError):
        os._exit(1)  # the parent has died


def _set_info(info: WorkerInfo) -> None:
    """Set what `get_worker_info` returns in this process, and seed the global random generators, as torch does."""
    process: Any = multiprocessing.process.current_process()
    process.worker_info = info
    random.seed(info.seed)
    np.random.seed(info.seed % 2**32)  # noqa: NPY002  datasets written for torch use this generator
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(info.seed)


def _reply(sender: Sender, current: int, outcome: TaskResult) -> None:
    if outcome.error is not None:
        outcome.error = _portable(outcome.error)
    try:
        sender.send((current, outcome))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        error.add_note(
            f"while sending a batch from worker {outcome.worker}; collate_fn must return what pickle accepts"
        )
        sender.send((current, TaskResult(outcome.number, outcome.worker, error=_portable(error))))


def _portable(error: BaseException) -> BaseException:
    """Return `error`, or a RuntimeError if it cannot be pickled, with the traceback in the worker as a note."""
    text = "".join(traceback.format_exception(error)).rstrip()
    try:
        same = pickle.loads(pickle.dumps(error))
        portable = error if type(same) is type(error) and str(same) == str(error) else None
    except Exception:  # for any class of exception
        portable = None
    if portable is None:
        portable = RuntimeError(f"{type(error).__name__}: {error}")
    portable.add_note(f"Traceback in the worker process:\n{text}")
    return portable
