"""The result of `layer_losses`: a table with one row per operation, and histograms with the chosen ranges."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from funcnet import table
from funcnet.arguments import integer
from funcnet.figures import COLOURS, GREY, new_figure, write_figure
from funcnet.quantization.observers import HistogramState, histogram_bins

__all__ = ["LayerLoss", "LayerLosses"]

_BARS = 100
_BLUE, _RED = COLOURS[:2]


@dataclass(frozen=True)
class LayerLoss:
    """The loss of one operation of a quantized net. Ratios are signal-to-quantization-noise ratios in decibels, and are
    infinite if there is no error.

    Attributes:
        name: name of the array, under which `calibrate` returns its range, such as "conv1:conv".
        module: dotted name of the module, or "" for an input and for an operation outside of all layers.
        operation: the operation, such as "conv + relu".
        dtype: dtype of the output. In transformers, some arrays stay float32.
        low, high: the smallest and the largest number that the integers can represent, or None for float32.
        net: ratio of the integer net's output, with all errors since the input.
        alone: ratio if only this operation is computed in integers, from the rounded arrays of the floating-point net.
        rounding: ratio if the floating-point output is only rounded to the integers of the range.
        clipped: share of the floating-point values outside of the range, from 0 to 1.
        lossless: whether the operation itself adds no loss, because it only moves or selects entries, or computes in
            float32.
    """

    name: str
    module: str
    operation: str
    dtype: str
    low: float | None
    high: float | None
    net: float
    alone: float
    rounding: float
    clipped: float
    lossless: bool


@dataclass(frozen=True, eq=False)
class LayerLosses:
    """The result of `layer_losses`. Terminals and notebooks show it as a table. Programs can read `rows`.

    The columns say why a layer loses. If `rounding` is about as low as `alone`, the range of the output is the cause:
    outliers make it wide, or it clips values. `PercentileObserver` and `MeanSquaredErrorObserver` choose narrower
    ranges than `MinMaxObserver`. If only `alone` is low, the cause is the weight or the range of an input. The row of
    the operation that computes this input shows its range.

    Attributes:
        rows: the losses, in the order in which the operations run.
        kernel: the kernels of the integer net.
        histograms: {name of a row: histogram of the floating-point values}; see `observers.py`.
    """

    rows: tuple[LayerLoss, ...]
    kernel: str
    histograms: Mapping[str, HistogramState]

    def worst(self, n: int = 5) -> tuple[LayerLoss, ...]:
        """Return the rows that lose most by themselves, the lowest `alone` first.

        Args:
            n: number of rows. Operations that add no loss (`lossless`) are left out.

        Raises:
            TypeError: if `n` is not an int.
            ValueError: if `n` is below 1.

        Example:
            >>> row = lambda name, ratio: LayerLoss(name, "", "add", "int8", 0.0, 1.0, ratio, ratio, ratio, 0.0, False)
            >>> losses = LayerLosses((row("a", 40.0), row("b", 20.0), row("c", 30.0)), "reference", {})
            >>> [row.name for row in losses.worst(2)]
            ['b', 'c']
        """
        n = integer("LayerLosses.worst", "n", n, low=1)
        return tuple(sorted((row for row in self.rows if not row.lossless), key=lambda row: row.alone)[:n])

    def to_dataframe(self) -> Any:
        """Return a pandas.DataFrame with one row per operation.

        Raises:
            ImportError: if pandas is not installed.
        """
        return table.dataframe(self.rows, "LayerLosses.to_dataframe")

    def draw(self, path: str | Path, layers: int | str | Sequence[str] = 4) -> None:
        """Draw histograms of floating-point values with the chosen range of the integers, and write the picture.

        Args:
            path: the PNG file to write.
            layers: number of the worst rows to draw, or the names of rows or of modules to draw.

        Raises:
            OSError: if the file cannot be written.
            TypeError: if `layers` is neither a number nor names.
            ValueError: if there is no row with such a name, or the number is below 1.

        Example:
            >>> import tempfile
            >>> import jax
            >>> from funcnet import nn
            >>> from funcnet.quantization import calibrate, convert, layer_losses
            >>> net, x = nn.Linear(4, 8), jax.random.normal(jax.random.key(1), (16, 4))
            >>> params, state = net.init(jax.random.key(0))
            >>> quantized = convert(net, params, state, calibrate(net, params, state, [x]), x)
            >>> losses = layer_losses(net, params, state, quantized, [x])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = Path(folder) / "ranges.png"
            ...     losses.draw(path)
            ...     path.stat().st_size > 10_000
            True
        """
        rows = self._chosen(layers)
        across = min(2, len(rows))
        down = -(-len(rows) // across)
        figure = new_figure(6.4 * across, 0.4 + 2.8 * down)
        axes = list(figure.subplots(down, across, squeeze=False).flat)
        for axis, row in zip(axes, rows, strict=False):
            _draw(axis, row, self.histograms[row.name])
        for axis in axes[len(rows) :]:
            axis.set_axis_off()
        write_figure(figure, path)

    def _chosen(self, layers: int | str | Sequence[str]) -> Sequence[LayerLoss]:
        names = [layers] if isinstance(layers, str) else layers
        if not isinstance(names, list | tuple):
            number = integer("LayerLosses.draw", "layers", names, low=1)
            return self.worst(number) or self.rows[:number]
        chosen = [row for row in self.rows if row.name in names or (row.module and row.module in names)]
        known = {name for row in chosen for name in (row.name, row.module)}
        missing = [name for name in names if name not in known]
        if missing or not chosen:
            some = ", ".join(row.name for row in self.rows[:6])
            raise ValueError(
                f"LayerLosses.draw: unknown layers; expected names such as {some}, got "
                f"{', '.join(map(repr, missing)) or 'none'}."
            )
        return chosen

    def _cells(self) -> list[list[str]]:
        worst = self.worst(1) if self.rows else ()
        return [["module", "operation", "dtype", "range", "net", "alone", "rounding", "clipped", ""]] + [
            [
                row.module or ("" if row.operation == "input" else "(root)"),
                row.operation,
                row.dtype,
                "" if row.low is None else f"{row.low:.4g} to {row.high:.4g}",
                *map(_ratio, (row.net, row.alone, row.rounding)),
                "" if row.low is None else _percent(row.clipped),
                "<- loses most" if row in worst else "",
            ]
            for row in self.rows
        ]

    def _legend(self) -> str:
        return (
            f"net, alone, rounding: signal-to-quantization-noise ratio in dB, with the {self.kernel} kernels,\n"
            "of the whole net up to this output, of this operation alone, and of rounding its output only"
        )

    def __str__(self) -> str:
        return f"{table.text(self._cells(), left=3)}\n{self._legend()}"

    def _repr_html_(self) -> str:
        worst = self.worst(1) if self.rows else ()
        marked = [i for i, row in enumerate(self.rows) if row in worst]
        return f"{table.html(self._cells(), marked)}<pre>{self._legend()}</pre>"

    __repr__ = __str__


def _ratio(ratio: float) -> str:
    return "exact" if ratio == math.inf else f"{ratio:.1f}"


def _percent(share: float) -> str:
    return "0 %" if share == 0 else f"{100 * share:.2g} %"


def _draw(axis: Any, row: LayerLoss, histogram: HistogramState) -> None:
    """Draw the histogram of one array on a logarithmic scale, because outliers are few."""
    counts, edges = histogram_bins(histogram)
    held = np.flatnonzero(counts)
    if held.size:
        count, limits = min(_BARS, held[-1] - held[0] + 1), (edges[held[0]], edges[held[-1] + 1])
        bars, ends = np.histogram((edges[:-1] + edges[1:]) / 2, count, limits, weights=counts)
        axis.stairs(bars, ends, fill=True, color=_BLUE, alpha=0.8)
        axis.set_yscale("log")
        axis.set_ylim(bottom=0.7)
    if row.low is not None:
        axis.axvspan(row.low, row.high, color=GREY, alpha=0.12, zorder=0)
        for end in (row.low, row.high):
            axis.axvline(end, color=_RED, linestyle="--", linewidth=1.4)
        axis.lines[-1].set_label(f"range {row.low:.3g} to {row.high:.3g}, clips {_percent(row.clipped)}")
        axis.legend(loc="upper right", fontsize=8, edgecolor="none", framealpha=0.8)
    title = f"{row.module} {row.operation}".strip()
    axis.set_title(f"{title}: {_ratio(row.alone)} dB alone", loc="left", fontsize=11)
    axis.set_xlabel("value in the floating-point net")
    axis.set_ylabel("number of values")
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
