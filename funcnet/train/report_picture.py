"""The report of a run, report.png: its curves in one picture."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from funcnet.arguments import expect
from funcnet.figures import COLOURS, GREY, new_figure, plain, write_figure
from funcnet.train.errors import cannot_write

if TYPE_CHECKING:  # the import takes half a second
    from matplotlib.axes import Axes

__all__ = ["Matrix", "Panel", "draw_report"]


@dataclasses.dataclass(frozen=True)
class Panel:
    """One plot with several curves over the steps.

    Args:
        title: title of the plot.
        unit: label of the vertical axis.
        curves: {label: name of the metric}. Metrics that only a few steps have (evaluations) are drawn as points on a
            line. Other metrics are drawn as a faint curve, with their running mean as a strong curve on top.
        lines: {label: value} of simple baselines, which are drawn as horizontal lines.
        smooth: whether to draw the running mean.
        from_zero: whether the vertical axis starts at 0.
    """

    title: str
    unit: str
    curves: Mapping[str, str]
    lines: Mapping[str, float] = dataclasses.field(default_factory=dict)
    smooth: bool = True
    from_zero: bool = False


@dataclasses.dataclass(frozen=True)
class Matrix:
    """A confusion matrix, with one row per actual class and one column per predicted class.

    Args:
        title: title of the plot.
        names: names of the classes.
        counts: integers (C, C), the number of examples in each cell.
    """

    title: str
    names: Sequence[str]
    counts: np.ndarray


def draw_report(
    path: str | Path,
    rows: Sequence[Mapping[str, Any]],
    panels: Sequence[Panel | Matrix],
    *,
    title: str,
    subtitle: str = "",
) -> None:
    """Draw the panels, two per row, and write the picture.

    Args:
        path: the PNG file to write.
        rows: the rows of metrics.jsonl (`read_metrics`).
        panels: plots of the picture. Curves whose metric was never logged are omitted. Without panels, no file is
            written.
        title: title of the picture.
        subtitle: a line below the plots, such as the settings and the result.

    Raises:
        RunError: if the file cannot be written.

    Example:
        >>> import tempfile
        >>> rows = [{"step": step, "loss": 4.0 / step} for step in range(1, 50)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "report.png"
        ...     draw_report(path, rows, [Panel("Loss", "nats", {"training": "loss"})], title="A run")
        ...     path.stat().st_size > 10_000
        True
    """
    is_list = isinstance(panels, list | tuple) and all(isinstance(panel, Panel | Matrix) for panel in panels)
    expect(is_list, "train.draw_report", "panels", "a list of Panels and Matrices", panels)
    if not panels:
        return
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    figure = new_figure(6.4 * across, 1.0 + 3.6 * down)
    figure.suptitle(plain(title), x=0.01, ha="left", fontsize=15, fontweight="bold")
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    for axis, panel in zip(axes, panels, strict=False):
        if isinstance(panel, Matrix):
            _draw_matrix(axis, panel)
        else:
            _draw(axis, rows, panel)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    if subtitle:
        figure.supxlabel(plain(subtitle), x=0.01, ha="left", fontsize=9, color=GREY)
    path = Path(path)
    try:
        write_figure(figure, path)
    except OSError as error:
        raise cannot_write("train.draw_report", path, error) from error


def _draw(axis: "Axes", rows: Sequence[Mapping[str, Any]], panel: Panel) -> None:
    for (label, name), colour in zip(panel.curves.items(), COLOURS * len(panel.curves), strict=False):
        points = [(row["step"], row[name]) for row in rows if isinstance(row.get(name), int | float)]
        if not points:
            continue
        steps, values = np.array(points, np.float64).T
        sparse = len(points) <= 0.5 * len(rows) or len(points) < 8
        if sparse or not panel.smooth:
            axis.plot(steps, values, color=colour, linewidth=1.8, marker="o" if sparse else None, ms=4)
        else:
            axis.plot(steps, values, color=colour, linewidth=0.8, alpha=0.3)
            values = _running_mean(values)
            axis.plot(steps, values, color=colour, linewidth=2)
        axis.lines[-1].set_label(f"{label} (last {_short(values[-1])})")
    for label, value in panel.lines.items():
        axis.axhline(value, color=GREY, linestyle="--", linewidth=1.2, label=f"{label} ({_short(value)})")
    axis.set_title(panel.title, loc="left", fontsize=11)
    axis.set_xlabel("step")
    axis.set_ylabel(panel.unit)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.02)
    if panel.from_zero:
        axis.set_ylim(bottom=0)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(frameon=False, fontsize=8)


def _draw_matrix(axis: "Axes", panel: Matrix) -> None:
    """Shade each cell of a confusion matrix by its share of the row. Print the count in each cell if there are at most
    20 classes.
    """
    counts = np.asarray(panel.counts)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    places = np.arange(len(counts))
    few = len(counts) <= 20
    names = [plain(name if len(name) <= 14 else f"{name[:13]}…") for name in panel.names]
    axis.set_xticks(places if few else [], names if few else [], rotation=45, ha="right", fontsize=8)
    axis.set_yticks(places if few else [], names if few else [], fontsize=8)
    for row, column in np.argwhere(counts > 0) if few else []:
        colour = "white" if shares[row, column] > 0.5 else "black"
        axis.text(column, row, f"{counts[row, column]:,}", ha="center", va="center", color=colour, fontsize=8)
    axis.set_title(panel.title, loc="left", fontsize=11)
    axis.set_xlabel("predicted")
    axis.set_ylabel("actual")


def _running_mean(values: np.ndarray) -> np.ndarray:
    """Smooth a curve with exponential weights for earlier and later steps, so that the result does not lag behind a
    falling curve.
    """
    width = max(2.0, len(values) / 40)
    distance = np.exp(-np.arange(len(values)) / width)
    weight = np.concatenate([distance[:0:-1], distance])
    here = slice(len(values) - 1, 2 * len(values) - 1)
    return np.convolve(values, weight)[here] / np.convolve(np.ones_like(values), weight)[here]


def _short(value: float) -> str:
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2e}" if 0 < size < 0.001 else f"{value:.3g}"
