"""A bar a step while data are made, and a signal that ends them where the next call goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from funcnet.train import Interruption


class Stopped(Exception):
    """A signal came while data were being made."""


@contextlib.contextmanager
def progress_bars(stop: Interruption) -> Iterator[Callable[[str, int, int], None]]:
    """Gives `progress(step, done, total)`: a bar for each step, in a terminal; it raises `Stopped` after a signal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(step: str, done: int, total: int) -> None:
            if stop.requested:
                raise Stopped
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done, total=total)

        yield progress
