"""The result of `funcnet.compare`: a table with one row per call of a module, and a verdict."""

from dataclasses import dataclass
from typing import Any

from funcnet import table

__all__ = ["COLUMNS", "CallRow", "Comparison"]

COLUMNS = ("forward", "backward", "parameters", "buffers")


@dataclass(frozen=True)
class CallRow:
    """The differences between torch and the port in one call of one module. A difference is None if there is nothing to
    compare.
    """

    name: str  # "fc:1" is the second call of "fc"
    kind: str  # name of the torch class
    forward: float | None  # difference of the outputs
    backward: float | None  # difference of the gradients with respect to the outputs
    parameters: float | None  # difference of the gradients of the module's own parameters
    buffers: float | None  # difference of the module's own buffers after the call
    note: str = ""
    rounding: str = ""  # the differences that are only rounding, such as "backward, parameters"
    kinks: int = 0  # number of outputs that are on different sides of a kink in the two libraries

    def over(self, column: str, tolerance: float) -> bool:
        """Return whether the difference in a column is over `tolerance`, even if rounding causes the difference."""
        difference = getattr(self, column)
        return difference is not None and not difference <= tolerance


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`. Terminals and notebooks show a `Comparison` as a table. Programs can read `rows`.

    Example:
        >>> import torch, funcnet
        >>> from funcnet import nn
        >>> theirs, net = torch.nn.Linear(3, 2), nn.Linear(3, 2)
        >>> params, state = net.load_state_dict(theirs.state_dict())
        >>> comparison = funcnet.compare(theirs, net, params, state, torch.ones(4, 3).numpy())
        >>> comparison.ok, comparison.first, [row.kind for row in comparison.rows]
        (True, None, ['Linear'])
    """

    rows: tuple[CallRow, ...]  # in the order in which the calls of torch's forward returned
    weights: dict[str, float]  # differences of the state_dicts before the run, if over tolerance
    tolerance: float
    precision: str  # the matmul precision of both libraries
    check: str = ""  # why the check in float64 failed, if it was needed and failed

    @property
    def first(self) -> str | None:
        """Name of the first module with a difference over tolerance that is not only rounding, or None.

        The search covers outputs in forward order, then the gradients with respect to the outputs in backward order,
        then the gradients of parameters, then buffers.
        """
        backwards = self.rows[::-1]
        orders = {"forward": self.rows, "backward": backwards, "parameters": backwards, "buffers": self.rows}
        for column, rows in orders.items():
            for row in rows:
                if row.over(column, self.tolerance) and column not in row.rounding:
                    return row.name
        return None

    @property
    def ok(self) -> bool:
        """True if the weights agreed before the run, and every difference over tolerance is only rounding."""
        return not self.weights and self.first is None

    def to_dataframe(self) -> Any:
        """Return a pandas.DataFrame with one row per call."""
        return table.dataframe(self.rows, "Comparison.to_dataframe")

    def _verdict(self) -> str:
        lines = [f"tolerance {self.tolerance:g}; {self.precision}"]
        if self.weights:
            worst = sorted(self.weights.items(), key=lambda item: -item[1])[:5]
            shown = ", ".join(f"{name} {value:.1e}" for name, value in worst)
            lines.append(f"{len(self.weights)} weights differ before the run: {shown}. Load torch's state_dict.")
        lines += self._about_rounding()
        if self.check:
            lines.append(self.check)
        first = self.first
        named = "the root" if first == "" else first
        apart = ", apart from rounding" if any(row.rounding for row in self.rows) else ""
        whole = "the run is within tolerance, but the weights are not" if self.weights else "all within tolerance"
        lines.append(f"{whole}{apart}" if first is None else f"first over tolerance: {named}")
        return "\n".join(lines)

    def _about_rounding(self) -> list[str]:
        rounded = [row for row in self.rows if row.rounding]
        if not rounded:
            return []
        worst = max(getattr(row, column) for row in rounded for column in row.rounding.split(", "))
        lines = [f"rounding: {len(rounded)} calls differ by up to {worst:.1e}, but are within tolerance in float64"]
        if crossed := [row for row in self.rows if row.kinks]:
            shown = ", ".join(f"{row.kinks} in {row.name or 'the root'} ({row.kind})" for row in crossed[:5])
            more = f", … ({len(crossed)} calls in all)" if len(crossed) > 5 else ""
            lines.append(
                "rounding at a kink: some values are on different sides of a kink in torch and funcnet, so their "
                f"gradients differ: {shown}{more}"
            )
        return lines

    def _mark(self, row: CallRow) -> str:
        if row.note or row.name == self.first:
            return row.note or "<- first over tolerance"
        return "rounding at a kink" if row.kinks else "rounding" if row.rounding else ""

    def _cells(self) -> list[list[str]]:
        show = lambda value: "" if value is None else f"{value:.1e}"
        return [["module", "class", "forward", "backward", "parameters", "buffers", ""]] + [
            [
                row.name or "(root)",
                row.kind,
                *map(show, (row.forward, row.backward, row.parameters, row.buffers)),
                self._mark(row),
            ]
            for row in self.rows
        ]

    def __str__(self) -> str:
        return f"{table.text(self._cells(), left=2)}\n{self._verdict()}"

    def _repr_html_(self) -> str:
        marked = [i for i, row in enumerate(self.rows) if row.name == self.first]
        return f"{table.html(self._cells(), marked)}<pre>{self._verdict()}</pre>"

    __repr__ = __str__
