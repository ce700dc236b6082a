"""Handling of SIGINT and SIGTERM: after such a signal, the training loop finishes its step, saves a checkpoint and
returns.
"""

import signal
import threading
import time
from typing import Any

from funcnet.parallel import Proposal, process_count

__all__ = ["Interruption", "Stopped", "interruption"]

AHEAD = 3  # steps; no process is ever this far ahead of another one


class Stopped(Exception):
    """Raised if SIGINT or SIGTERM arrived before the first step, while data were read or built."""


class Interruption:
    """A context manager that handles SIGINT and SIGTERM. Inside the `with` block, the first signal only sets a flag,
    and the second one raises KeyboardInterrupt.

    Enter the `with` block early, so that signals during the reading of data and the first compilation are caught too.
    Python delivers signals only to the main thread. In any other thread, the context manager does nothing.

    Attributes:
        signal: the number of the signal that arrived, or None.
        arrived: when the signal arrived, as `time.monotonic()`, or None.

    Raises:
        KeyboardInterrupt: if a second signal arrives.

    Example:
        >>> import os
        >>> with Interruption() as stop:
        ...     os.kill(os.getpid(), signal.SIGTERM)
        ...     stop.requested, stop.exit_code
        (True, 143)
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.arrived: float | None = None
        self._before: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether a signal arrived."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """The exit code: 0 without a signal; otherwise the code that shells use, 130 for SIGINT and 143 for SIGTERM."""
        return 0 if self.signal is None else 128 + self.signal

    def at_step(self, step: int) -> None:
        """Tell this object that step `step` is about to begin. All processes of a run call this method before each
        step.

        In a run of one process, calling this method does nothing.
        """

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _receive(self, number: int, frame: object) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal, self.arrived = int(number), time.monotonic()


class SharedInterruption(Interruption):
    """Stops a run of several processes after a signal. If one process gets a signal, all processes stop after the same
    step.

    A signal that arrives before the first step takes effect within the first few steps.
    """

    def __init__(self) -> None:
        super().__init__()
        self._agreed: int | None = None
        self._proposal = Proposal()
        self._has_proposed = False

    @property
    def requested(self) -> bool:
        """Whether all processes of the run have agreed to stop, and this process has reached the agreed step."""
        return self._agreed is not None

    @property
    def exit_code(self) -> int:
        """The exit code: 0 if the processes have not agreed to stop, otherwise the code of the signal that caused the
        stop.
        """
        return 0 if self._agreed is None else 128 + self._agreed

    def at_step(self, step: int) -> None:
        """If this process has received a signal, propose a later step at which all processes stop. If several processes
        make proposals, only the first proposal is valid. When the proposed step is reached, `requested` becomes True.
        """
        if self.signal is not None and not self._has_proposed:
            self._has_proposed = True
            self._proposal.make({"step": step + AHEAD, "signal": self.signal})
        proposed = self._proposal.find()
        if proposed is not None and step >= proposed["step"]:
            self._agreed = proposed["signal"]


def interruption() -> Interruption:
    """Return the `Interruption` of a run of one process, or the `SharedInterruption` of a run of several processes."""
    return Interruption() if process_count() == 1 else SharedInterruption()
