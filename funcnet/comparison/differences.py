"""Compute the differences between two runs as rows, and mark the differences that are caused by rounding.

A difference is the largest absolute difference of two corresponding entries, divided by the largest absolute entry of
torch's tensor. In theory, some gradients are zero, such as the gradient of a bias before BatchNorm. In practice, they
are rounding noise, and a small divisor would turn the noise into a large difference. Two rules prevent this. First, all
parameters of a module share one divisor, the largest absolute entry among torch's gradients of these parameters.
Second, the divisor of a gradient is at least a thousandth of the largest gradient of the outputs of the module and of
the modules that contain it. If torch computes no gradient, for example after `detach` or for a frozen parameter, the
gradient is taken to be zero.

For inner modules, only values are compared, not the structure of the output. If one output has additional arrays at the
end or leading dimensions of 1, only a note mentions this, because any effect on the results is visible in later
modules. The output of the entire port must have the same structure as the output of the torch module.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from funcnet import nn
from funcnet.comparison.comparison_table import COLUMNS, CallRow
from funcnet.comparison.recorded_runs import Run

__all__ = ["difference", "make_rows", "mark_rounding"]

_LEAST = 1e-3  # the least divisor of a gradient, as a fraction of the largest gradient around the module
_MOST_NOISE = 100  # a difference may be this many times torch's own rounding, because the order of sums differs


def make_rows(module: nn.Module, torchs: Run, ours: Run) -> Iterator[CallRow]:
    """Yield a row of differences for every call of every module."""
    kinds = {name: type(part).__name__ for name, part in module.named_modules()}
    done: set[str] = set()
    flows: dict[str, float] = {}  # {name of a module: the largest gradient of its outputs}
    for call, gradients in torchs.gradients.items():
        largest = max((float(np.abs(one).max(initial=0.0)) for one in gradients if one is not None), default=0.0)
        flows[torchs.modules[call]] = max(largest, flows.get(torchs.modules[call], 0.0))
    for call in torchs.outputs:
        name = torchs.modules[call]
        own = lambda values, name=name: [n for n in values if n.rpartition(".")[0] == name and name not in done]
        around = [one for one in flows if not one or name == one or name.startswith(f"{one}.")]
        least = _LEAST * max((flows[one] for one in around), default=0.0)
        after = (
            _worst(own(torchs.parameters), torchs.parameters, ours.parameters, least),
            _worst(own(torchs.buffers), torchs.buffers, ours.buffers),
        )
        done.add(name)
        if call not in ours.outputs:
            yield CallRow(call, kinds[name], None, None, *after, "funcnet did not call it")
            continue
        form = _values if name else list
        pairs = zip(ours.gradients[call], torchs.gradients[call], strict=False)
        seen = [(*form([mine]), *form([theirs])) for mine, theirs in pairs if mine is not None and theirs is not None]
        mine, theirs = ours.outputs[call], torchs.outputs[call]
        if name:
            both = min(len(mine), len(theirs))
            mine, theirs = mine[:both], theirs[:both]
        forward = difference(form(mine), form(theirs))
        backward = difference([mine for mine, _ in seen], [theirs for _, theirs in seen], least) if seen else None
        shapes = [[a.shape for a in run.outputs[call]] for run in (ours, torchs)]
        note = f"shapes {shapes[0]}, torch {shapes[1]}" if shapes[0] != shapes[1] else ""
        yield CallRow(call, kinds[name], forward, backward, *after, note)
    for call in ours.outputs:
        if call not in torchs.outputs:
            yield CallRow(call, "", None, None, None, None, "torch did not call it")


def mark_rounding(
    module: nn.Module, rows: list[CallRow], doubled: list[CallRow], runs: tuple[Run, Run, Run], tolerance: float
) -> Iterator[CallRow]:
    """Mark the differences that are caused by rounding, and yield the rows.

    A difference is caused by rounding if it is within tolerance in float64. A difference of outputs must also be at
    most 100 times the rounding error of torch's own output. If a difference is larger, the port loses digits that torch
    keeps, and the difference is not rounding.

    Args:
        module: the torch module.
        rows, doubled: rows of the runs in the original dtypes, and rows of the runs in float64.
        runs: torch's run, funcnet's run, and torch's run in float64.
        tolerance: as in `compare`.
    """
    torchs, ours, exact = runs
    parts, in_double = dict(module.named_modules()), {row.name: row for row in doubled}
    for row in rows:
        if row.name not in in_double or row.forward is None:
            yield row
            continue
        over = [column for column in COLUMNS if row.over(column, tolerance)]
        found = [column for column in over if not in_double[row.name].over(column, tolerance)]
        if "forward" in found and row.forward > _MOST_NOISE * _noise(row.name, torchs, exact):
            found.remove("forward")
        call, kinks = row.name, 0
        if "forward" in found or "forward" not in over:
            kinks = _crossings(parts[torchs.modules[call]], ours.outputs[call], torchs.outputs[call])
        yield dataclasses.replace(row, rounding=", ".join(found), kinks=kinks)


def _noise(call: str, torchs: Run, exact: Run) -> float:
    """Return the rounding error of the output of a torch module: its difference from the output in float64."""
    return difference(torchs.outputs[call], exact.outputs[call]) if call in exact.outputs else 0.0


def _crossings(part: nn.Module, ours: list[np.ndarray], torchs: list[np.ndarray]) -> int:
    """Return how many output entries of an activation are on different sides of a kink in the two runs."""
    if len(ours) != 1 or len(torchs) != 1 or ours[0].shape != torchs[0].shape:
        return 0
    side = lambda x: [np.sign(x - x.dtype.type(kink)) for kink in _kinks(part)]
    apart = [mine != theirs for mine, theirs in zip(side(ours[0]), side(torchs[0]), strict=True)]
    return int(np.count_nonzero(np.any(apart, axis=0))) if apart else 0


def _kinks(part: nn.Module) -> tuple[float, ...]:
    """Return the output values at which the derivative of an activation jumps. Modules other than activations have no
    such values.
    """
    kind = type(part).__name__
    if kind == "Hardtanh":
        return part.min_val, part.max_val
    if kind == "Threshold":
        return part.threshold, part.value
    return _KINKS.get(kind, ())


_KINKS: dict[str, tuple[float, ...]] = {
    "ReLU": (0.0,),
    "ReLU6": (0.0, 6.0),
    "Hardsigmoid": (0.0, 1.0),
    "Hardswish": (0.0, 3.0),
    "LeakyReLU": (0.0,),
    "PReLU": (0.0,),
    "RReLU": (0.0,),
    "Hardshrink": (0.0,),
    "Softshrink": (0.0,),
}


def _values(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Return the arrays without leading dimensions of size 1, because such dimensions broadcast."""
    return [a.reshape(a.shape[next((i for i, size in enumerate(a.shape) if size != 1), a.ndim) :]) for a in arrays]


def _worst(
    names: list[str], torchs: dict[str, np.ndarray], ours: dict[str, np.ndarray], least: float = 0.0
) -> float | None:
    names = [name for name in names if name in ours]
    least = max([least, *(np.abs(torchs[name]).max(initial=0.0) for name in names)])
    return max((difference([ours[name]], [torchs[name]], least) for name in names), default=None)


def difference(ours: list[np.ndarray], torchs: list[np.ndarray], least: float = 0.0) -> float:
    """Return the largest difference divided by torch's largest absolute entry, or by `least` if `least` is larger.

    The result is infinite if the shapes differ, or if infinities or NaNs are at different positions.
    """
    if [a.shape for a in ours] != [a.shape for a in torchs]:
        return float("inf")
    worst = 0.0
    for mine, theirs in zip(ours, torchs, strict=True):
        mine, theirs = mine.astype(np.float64), theirs.astype(np.float64)
        strange = ~np.isfinite(theirs)
        if not np.array_equal(mine[strange], theirs[strange], equal_nan=True) or not np.isfinite(mine[~strange]).all():
            return float("inf")
        apart = np.abs(mine[~strange] - theirs[~strange]).max(initial=0.0)
        largest = np.abs(theirs[~strange]).max(initial=least)
        worst = max(worst, float(apart / largest) if largest else float(apart))
    return worst
