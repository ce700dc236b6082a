"""Progress bars for the build of data. The function that updates the bars also stops the build after SIGINT or
SIGTERM.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from funcnet.train import Interruption, Stopped

__all__ = ["progress_bars"]


@contextlib.contextmanager
def progress_bars(stop: Interruption) -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar for each step of a build in a terminal. Yield the function `progress(step, done, total)`,
    which raises `Stopped` after a signal.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, transient=True) as bars:
        numbers: dict[str, TaskID] = {}

        def progress(step: str, done: int, total: int) -> None:
            if stop.requested:
                raise Stopped
            if step not in numbers:
                numbers[step] = bars.add_task(step, total=total)
            bars.update(numbers[step], completed=done, total=total)

        yield progress
