"""Display of the progress of a run: a progress bar in a terminal, plain lines elsewhere."""

from collections.abc import Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

__all__ = ["TrainingProgress"]


class TrainingProgress:
    """A progress bar with the latest metrics and the remaining time. Without a terminal, one line is printed per logged
    step.

    This class is a `Logger` for `train` (`write`, `sync`, `rewind`). `after_step` moves the bar. `say` prints a
    line above the bar.

    Args:
        total_steps: number of steps in the run, or None if it is not known.
        step: the number of steps made so far.
        show: {label: name of the metric}, in the order of display. A metric that was not measured at a step is omitted.
        evaluated: prefix of the labels for the metrics of an evaluation.
        console: a rich console. The default prints to standard output.

    Example:
        >>> progress = TrainingProgress(100, show={"loss": "loss"}, console=Console(force_terminal=False))
        >>> with progress:
        ...     progress.write(20, {"loss": 2.5, "tokens_per_second": 12345.0})
        step 20/100  loss 2.500  tokens/s 12,345
    """

    def __init__(
        self,
        total_steps: int | None,
        *,
        step: int = 0,
        show: Mapping[str, str] | None = None,
        evaluated: str = "held-out",
        console: Console | None = None,
    ):
        self.total_steps, self.evaluated = total_steps, evaluated
        self.show = {"loss": "loss"} if show is None else dict(show)
        self.console = Console() if console is None else console
        self._bar: Progress | None = None
        if self.console.is_terminal:
            self._bar = Progress(
                TextColumn("[bold]{task.description}"),
                BarColumn(bar_width=None),
                MofNCompleteColumn(),
                _Values(),
                TimeRemainingColumn(compact=True),
                console=self.console,
                refresh_per_second=4,
                expand=True,
                speed_estimate_period=60,
            )
            self._task = self._bar.add_task("training", total=total_steps, completed=step, values="")

    def __enter__(self) -> "TrainingProgress":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def after_step(self, step: int) -> None:
        """Move the bar.

        Args:
            step: the number of the finished step.
        """
        if self._bar is not None:
            self._bar.update(self._task, completed=step)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Show the metrics of a step. An evaluation is also printed as a line above the bar.

        Args:
            step: the number of the step.
            values: the metrics of the step.
        """
        evaluated = {f"{self.evaluated} {label}": f"eval_{name}" for label, name in self.show.items()}
        held_out = self._text(values, evaluated)
        speeds = {f"{name.removesuffix('_per_second')}/s": name for name in values if name.endswith("_per_second")}
        text = self._text(values, self.show) + self._text(values, speeds)
        place = f"step {step:,}" if self.total_steps is None else f"step {step:,}/{self.total_steps:,}"
        if self._bar is None:
            self.say(f"{place}{text}{held_out}")
            return
        self._bar.update(self._task, completed=step, values=text.strip())
        if held_out:
            self.say(f"{place}{held_out}")

    def sync(self) -> None:
        """Do nothing, because the progress display does not buffer its output."""

    def rewind(self, step: int) -> None:
        """Move the bar back."""
        self.after_step(step)

    def say(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _text(self, values: Mapping[str, float], show: Mapping[str, str]) -> str:
        return "".join(f"  {label} {_number(values[name])}" for label, name in show.items() if name in values)


class _Values(ProgressColumn):
    """The latest metrics as plain text."""

    def render(self, task: Task) -> Text:
        return Text(task.fields["values"], no_wrap=True)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"
