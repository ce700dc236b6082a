"""Handling of SIGINT and SIGTERM: the training loop finishes its step, saves a checkpoint and returns."""

import signal
import threading
from typing import Any

from funcnet.parallel import Proposal, process_count

__all__ = ["Interruption", "Stopped", "interruption"]

AHEAD = 3  # steps; no process is ever as far ahead of another one


class Stopped(Exception):
    """A signal arrived before the first step, while data were read or built."""


class Interruption:
    """A context manager. In its block, the first SIGINT or SIGTERM only sets a flag, and the second one ends the
    program.

    Enter the block early, so that signals during the reading of data and the first compilation are caught too. Python
    delivers signals only to the main thread. In any other thread, the context manager does nothing.

    Attributes:
        signal: the number of the signal that arrived, or None.

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
        """Note that step `step` is about to begin. All processes of a run call this method before each step."""

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
        self.signal = int(number)


class SharedInterruption(Interruption):
    """The interruption of a run of several processes, which stop after the same step when one of them gets a signal.

    A signal that arrives before the first step takes effect at the first steps.
    """

    def __init__(self) -> None:
        super().__init__()
        self._agreed: int | None = None
        self._proposal = Proposal()
        self._has_proposed = False

    @property
    def requested(self) -> bool:
        """Whether the processes have agreed to stop."""
        return self._agreed is not None

    @property
    def exit_code(self) -> int:
        """The exit code of the signal that one of the processes got."""
        return 0 if self._agreed is None else 128 + self._agreed

    def at_step(self, step: int) -> None:
        """Propose a step to stop at after a signal, and stop when the step that was proposed first has come."""
        if self.signal is not None and not self._has_proposed:
            self._has_proposed = True
            self._proposal.make({"step": step + AHEAD, "signal": self.signal})
        proposed = self._proposal.find()
        if proposed is not None and step >= proposed["step"]:
            self._agreed = proposed["signal"]


def interruption() -> Interruption:
    """Return the interruption of a run: of this process, or of all processes."""
    return Interruption() if process_count() == 1 else SharedInterruption()
