"""Plans of the losses of class ids: `nll_loss` and `cross_entropy`.

Letters: `N examples, C classes`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.operators.graph.function_plans.single_operations import Plan
from funcnet.operators.graph.torch_operations.composite_operations import contiguous
from funcnet.operators.graph.torch_operations.tape import Tape, TapeValue

__all__ = ["CLASSES", "cross_entropy"]

NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def _reduction(given: Mapping[str, Any]) -> str:
    average, reduce = given.get("size_average"), given.get("reduce")
    if average is None and reduce is None:
        return str(given["reduction"])
    if reduce is False:
        return "none"
    return "sum" if average is False else "mean"


def nll(
    tape: Tape, x: TapeValue, target: TapeValue, weight: TapeValue | None, reduction: str, ignored: int
) -> TapeValue:
    """The negative of the scores of the targets. Scores (N, C, …) become (N, C, 1, …) with one dimension."""
    ids, losses, total = _losses(x.array, target.array, weight, ignored)
    out = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / total if total else np.nan}[reduction]
    out = np.asarray(out, x.dtype)
    saved = np.asarray(total if reduction != "none" else 0, x.dtype)
    settings = {"reduction": NUMBERS[reduction], "ignore_index": ignored, "total_weight": saved}
    if x.ndim <= 2:
        return tape.run("nll_loss_forward", x, ids, weight, out=out, **settings)
    shape = x.shape
    if x.ndim != 4:
        x = tape.run("view", contiguous(tape, x), size=(shape[0], shape[1], 1, -1))
        ids, out = ids.reshape(shape[0], 1, -1), out if reduction != "none" else out.reshape(shape[0], 1, -1)
    found = tape.run("nll_loss2d_forward", x, ids, weight, out=out, **settings)
    if reduction == "none" and len(shape) != 4:
        return tape.run("view", found, size=(shape[0], *shape[2:]))
    return found


def _losses(x: NDArray[Any], target: NDArray[Any], weight: TapeValue | None, ignored: int) -> tuple[Any, Any, float]:
    """Return the targets, the loss of each, and the sum of the weights."""
    ids = target.astype(np.int64)
    shown = ids != ignored
    axis = 1 if x.ndim > 1 else 0
    safe = np.expand_dims(np.where(shown, ids, 0), axis)
    scale = np.ones(x.shape[axis], x.dtype) if weight is None else weight.array
    each = np.where(shown, scale[np.where(shown, ids, 0)], 0)
    return ids, -np.take_along_axis(x, safe, axis).squeeze(axis) * each, float(each.sum())


def nll_loss(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    target: TapeValue,
    weight: TapeValue | None,
    ignore_index: int,
    **given: Any,
) -> TapeValue:
    return nll(tape, input, target, weight, _reduction(given), ignore_index)


def cross_entropy(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any] | None,
    input: TapeValue,
    target: TapeValue,
    weight: TapeValue | None,
    ignore_index: int,
    **given: Any,
) -> TapeValue:
    reduction, smoothing = _reduction(given), given["label_smoothing"]
    dim = 0 if input.ndim == 1 else 1
    scores = tape.run("_log_softmax", input, dim=dim)
    spread = None
    if weight is not None:
        size = [1] * input.ndim
        size[dim] = -1
        spread = TapeValue(weight.array.reshape(size))
    if target.shape == input.shape:
        return _of_probabilities(tape, scores, target, spread, smoothing, reduction, dim)
    loss = nll(tape, scores, target, weight, reduction, ignore_index)
    if smoothing == 0:
        return loss
    all_of = scores if spread is None else tape.run("mul.Tensor", scores, spread)
    smooth = tape.run("neg", tape.run("sum.dim_IntList", all_of, dim=(dim,), keepdim=False))
    hidden = target.array == ignore_index
    smooth = tape.run("masked_fill.Scalar", smooth, hidden, value=0)
    if reduction != "none":
        smooth = tape.run("sum", smooth)
    if reduction == "mean":
        total = _losses(scores.array, target.array, weight, ignore_index)[2]
        smooth = tape.run("div.Tensor", smooth, np.asarray(total, scores.dtype))
    share = smoothing / input.shape[dim]
    second = tape.run("mul.Scalar", smooth, other=share)
    first = tape.run("mul.Scalar", loss, other=1 - smoothing)
    return tape.run("add.Tensor", first, second, alpha=1)


def _of_probabilities(
    tape: Tape,
    scores: TapeValue,
    target: TapeValue,
    weight: TapeValue | None,
    smoothing: float,
    reduction: str,
    dim: int,
) -> TapeValue:
    if smoothing > 0:
        kept = tape.run("mul.Scalar", target, other=1 - smoothing)
        target = tape.run("add.Scalar", kept, smoothing / scores.shape[dim])
    product = tape.run("mul.Tensor", scores, target)
    product = product if weight is None else tape.run("mul.Tensor", product, weight)
    if reduction == "none":
        return tape.run("neg", tape.run("sum.dim_IntList", product, dim=(dim,), keepdim=False))
    total = tape.run("neg", tape.run("sum", product))
    count = scores.array.size / scores.shape[dim]
    return tape.run("div.Scalar", total, other=count) if reduction == "mean" else total


CLASSES: dict[str, Plan] = {"nll_loss": nll_loss, "cross_entropy": cross_entropy}
