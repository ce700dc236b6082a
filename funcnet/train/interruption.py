"""SIGINT and SIGTERM as a wish that the loop reads: finish the step, save, leave."""

import signal
import threading
from typing import Any

__all__ = ["Interruption", "Stopped"]


class Stopped(Exception):
    """A signal came while something slow was under way before the first step."""


class Interruption:
    """While it is open, the first SIGINT or SIGTERM is noted, and the second ends the program at once.

    Open it early: a signal that comes while data are read or a program compiles is then noted too. Outside the main
    thread, where Python delivers no signals, it notes nothing.

    Attributes:
        signal: the number of the signal that came; None before.

    Raises:
        KeyboardInterrupt: at the second signal.

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
        """Whether one came."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """0, or as shells say it: 130 after SIGINT, 143 after SIGTERM."""
        return 0 if self.signal is None else 128 + self.signal

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _note(self, number: int, frame: object) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = int(number)
