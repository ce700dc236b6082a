"""Plans of losses.

Reference: aten/src/ATen/native/Loss.cpp and LossNLL.cpp of torch.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.operators.graph.function_plans.class_losses import cross_entropy
from funcnet.operators.graph.function_plans.distances import pairwise
from funcnet.operators.graph.function_plans.single_operations import Plan
from funcnet.operators.graph.torch_operations.composite_operations import linear, reduced
from funcnet.operators.graph.torch_operations.tape import Tape, TapeValue

__all__ = ["LOSSES"]

NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def _reduction(given: Mapping[str, Any]) -> str:
    """Return the reduction, which older programs pass as two booleans."""
    average, reduce = given.get("size_average"), given.get("reduce")
    if average is None and reduce is None:
        return str(given["reduction"])
    if reduce is False:
        return "none"
    return "sum" if average is False else "mean"


def _single(operation: str, *tensors: str, settings: tuple[str, ...] = ()) -> Plan:
    """Return the plan of a loss that is a single operation, including the reduction."""

    def plan(
        tape: Tape,
        result: NDArray[Any],
        function: Callable[..., Any],
        input: TapeValue,
        target: TapeValue,
        **given: Any,
    ) -> TapeValue:
        more = {name: given[name] for name in settings}
        number = NUMBERS[_reduction(given)]
        others = [given[name] for name in tensors]
        if operation == "binary_cross_entropy" and others[0] is not None:
            others = [np.broadcast_to(others[0].array, input.shape)]
        return tape.run(operation, input, target, *others, out=result, reduction=number, **more)

    return plan


def _weighted(operation: Plan, unweighted: Callable[..., TapeValue], divides: bool) -> Plan:
    """Return the plan of a loss whose entries may have weights."""

    def plan(
        tape: Tape,
        result: NDArray[Any],
        function: Callable[..., Any],
        input: TapeValue,
        target: TapeValue,
        **given: Any,
    ) -> TapeValue:
        weight = given["weight"]
        if weight is None:
            return operation(tape, result, function, input, target, **given)
        loss = tape.run("mul.Tensor", unweighted(tape, input, target, given), weight)
        reduction = _reduction(given)
        if reduction != "mean" or not divides:
            return reduced(tape, loss, reduction)
        return tape.run("div.Tensor", tape.run("sum", loss), tape.run("sum", weight), out=result)

    return plan


def _absolute(tape: Tape, input: TapeValue, target: TapeValue, given: Mapping[str, Any]) -> TapeValue:
    return tape.run("abs", tape.run("sub.Tensor", input, target, alpha=1))


def _squared(tape: Tape, input: TapeValue, target: TapeValue, given: Mapping[str, Any]) -> TapeValue:
    return tape.run("pow.Tensor_Scalar", tape.run("sub.Tensor", input, target, alpha=1), exponent=2)


def _huber(tape: Tape, input: TapeValue, target: TapeValue, given: Mapping[str, Any]) -> TapeValue:
    apart, delta = np.abs(input.array - target.array), given["delta"]
    out = np.where(apart < delta, apart**2 / 2, delta * (apart - delta / 2)).astype(input.dtype)
    return tape.run("huber_loss", input, target, out=out, reduction=0, delta=delta)


def _l1(
    tape: Tape, result: NDArray[Any], function: Callable[..., Any], input: TapeValue, target: TapeValue, **given: Any
) -> TapeValue:
    return reduced(tape, _absolute(tape, input, target, given), _reduction(given))


def smooth_l1_loss(
    tape: Tape, result: NDArray[Any], function: Callable[..., Any], input: TapeValue, target: TapeValue, **given: Any
) -> TapeValue:
    if given["beta"] == 0:
        return _l1(tape, result, function, input, target, **given)
    return _single("smooth_l1_loss", settings=("beta",))(tape, result, function, input, target, **given)


def kl_div(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    target: TapeValue,
    log_target: bool,
    **given: Any,
) -> TapeValue:
    if log_target:
        apart = tape.run("sub.Tensor", target, input, alpha=1)
        loss = tape.run("mul.Tensor", tape.run("exp", target), apart)
    else:
        second = tape.run("mul.Tensor", target, input)
        loss = tape.run("sub.Tensor", tape.run("xlogy.Tensor", target, target), second, alpha=1)
    if (reduction := _reduction(given)) == "batchmean":
        return tape.run("div.Tensor", tape.run("sum", loss), input.shape[0], out=result)
    return reduced(tape, loss, reduction)


def poisson_nll_loss(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    target: TapeValue,
    log_input: bool,
    full: bool,
    **given: Any,
) -> TapeValue:
    if target.dtype.kind in "iub":
        target = TapeValue(target.array.astype(input.dtype))
    if log_input:
        product = tape.run("mul.Tensor", target, input)
        loss = tape.run("sub.Tensor", tape.run("exp", input), product, alpha=1)
    else:
        logarithm = tape.run("log", tape.run("add.Scalar", input, given["eps"]))
        loss = tape.run("sub.Tensor", input, tape.run("mul.Tensor", target, logarithm), alpha=1)
    if full:
        loss = tape.run("add.Tensor", loss, _stirling(tape, target), alpha=1)
    return reduced(tape, loss, _reduction(given))


def _stirling(tape: Tape, x: TapeValue) -> TapeValue:
    """Stirling's approximation of log(x!), `x·log(x) - x + log(2πx)/2` for x over 1."""
    last = tape.run("log", tape.run("mul.Scalar", x, other=2 * math.pi))
    last = tape.run("mul.Scalar", last, other=0.5)
    first = tape.run("sub.Tensor", tape.run("mul.Tensor", x, tape.run("log", x)), x, alpha=1)
    total = tape.run("add.Tensor", first, last, alpha=1)
    return tape.run("masked_fill.Scalar", total, x.array <= 1, value=0)


def gaussian_nll_loss(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    target: TapeValue,
    var: TapeValue | float,
    full: bool,
    **given: Any,
) -> TapeValue:
    if not isinstance(var, TapeValue):
        var = TapeValue(np.full(input.shape, var, input.dtype))
    if var.shape != input.shape and var.shape == input.shape[:-1]:
        var = tape.run("unsqueeze", var, dim=-1)
    copy = tape.run("clone", var)
    var = TapeValue(np.maximum(copy.array, np.asarray(given["eps"], copy.dtype)), copy.edge)
    logarithm = tape.run("log", var)
    square = tape.run("pow.Tensor_Scalar", tape.run("sub.Tensor", input, target, alpha=1), exponent=2)
    total = tape.run("add.Tensor", logarithm, tape.run("div.Tensor", square, var), alpha=1)
    loss = tape.run("mul.Tensor", total, 0.5)
    if full:
        loss = tape.run("add.Tensor", loss, 0.5 * math.log(2 * math.pi), alpha=1)
    return reduced(tape, loss, given["reduction"])


def hinge_embedding_loss(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    target: TapeValue,
    margin: float,
    **given: Any,
) -> TapeValue:
    apart = tape.run("sub.Tensor", np.asarray(margin, input.dtype), input, alpha=1)
    clamped, zeros = tape.run("clamp_min", apart, min=0), np.zeros_like(input.array)
    first = tape.run("where.self", target.array != 1, clamped, zeros)
    second = tape.run("where.self", target.array != -1, input, zeros)
    return reduced(tape, tape.run("add.Tensor", first, second, alpha=1), _reduction(given))


def margin_ranking_loss(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input1: TapeValue,
    input2: TapeValue,
    target: TapeValue,
    margin: float,
    **given: Any,
) -> TapeValue:
    apart = tape.run("sub.Tensor", input1, input2, alpha=1)
    sign = tape.run("neg", target) if target.requires_grad else (-target.array).astype(input1.dtype)
    loss = tape.run("add.Scalar", tape.run("mul.Tensor", sign, apart), margin)
    return reduced(tape, tape.run("clamp_min", loss, min=0), _reduction(given))


def multilabel_margin_loss(
    tape: Tape, result: NDArray[Any], function: Callable[..., Any], input: TapeValue, target: TapeValue, **given: Any
) -> TapeValue:
    """The node saves which classes are targets."""
    rows = np.atleast_2d(target.array)
    is_target = np.zeros(rows.shape, input.dtype)
    for row, labels in enumerate(rows):
        ended = np.argmax(labels < 0) if (labels < 0).any() else len(labels)
        is_target[row, labels[:ended]] = 1
    settings = {"reduction": NUMBERS[_reduction(given)], "is_target": is_target.reshape(target.shape)}
    return tape.run("multilabel_margin_loss_forward", input, target, out=result, **settings)


def multilabel_soft_margin_loss(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    target: TapeValue,
    weight: TapeValue | None,
    **given: Any,
) -> TapeValue:
    log_of = lambda x: tape.run("log_sigmoid_forward", x, buffer=np.exp(-np.abs(x.array)))
    first = tape.run("mul.Tensor", target, log_of(input))
    rest = tape.run("rsub.Scalar", target, other=1, alpha=1)
    second = tape.run("mul.Tensor", rest, log_of(tape.run("neg", input)))
    loss = tape.run("neg", tape.run("add.Tensor", first, second, alpha=1))
    loss = loss if weight is None else tape.run("mul.Tensor", loss, weight)
    total = tape.run("sum.dim_IntList", loss, dim=(input.ndim - 1,), keepdim=False)
    return reduced(tape, tape.run("div.Tensor", total, input.shape[-1]), _reduction(given))


def _cosine_parts(tape: Tape, x: TapeValue, y: TapeValue, dim: int, more: float = 0.0) -> TapeValue:
    total = tape.run("sum.dim_IntList", tape.run("mul.Tensor", x, y), dim=(dim,), keepdim=False)
    return tape.run("add.Scalar", total, more) if more else total


def cosine_embedding_loss(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input1: TapeValue,
    input2: TapeValue,
    target: TapeValue,
    margin: float,
    **given: Any,
) -> TapeValue:
    dim = target.ndim
    product = _cosine_parts(tape, input1, input2, dim)
    first = _cosine_parts(tape, input1, input1, dim, 1e-12)
    second = _cosine_parts(tape, input2, input2, dim, 1e-12)
    below = tape.run("sqrt", tape.run("mul.Tensor", first, second))
    cosine = tape.run("div.Tensor", product, below)
    zeros = np.zeros_like(cosine.array)
    apart = tape.run("sub.Tensor", np.ones((), cosine.dtype), cosine, alpha=1)
    near = tape.run("clamp_min", tape.run("sub.Scalar", cosine, margin), min=0)
    positive = tape.run("where.self", target.array == 1, apart, zeros)
    negative = tape.run("where.self", target.array == -1, near, zeros)
    return reduced(tape, tape.run("add.Tensor", positive, negative, alpha=1), _reduction(given))


def triplet_margin_loss(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    anchor: TapeValue,
    positive: TapeValue,
    negative: TapeValue,
    **given: Any,
) -> TapeValue:
    p, eps, is_python = given.get("p", 2.0), given.get("eps", 1e-6), "distance_function" in given
    near, far = pairwise(tape, anchor, positive, p, eps), pairwise(tape, anchor, negative, p, eps)
    if given["swap"]:
        far = tape.run("minimum", far, pairwise(tape, positive, negative, p, eps))
    margin = given["margin"]
    more = tape.run("add.Tensor", near, margin, alpha=1) if is_python else tape.run("add.Scalar", near, margin)
    loss = tape.run("clamp_min", tape.run("sub.Tensor", more, far, alpha=1), min=0)
    return reduced(tape, loss, _reduction(given))


def ctc_loss(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    log_probs: TapeValue,
    targets: TapeValue,
    **given: Any,
) -> TapeValue:
    lengths = {
        name: tuple(int(n) for n in np.ravel(getattr(given[name], "array", given[name])))
        for name in ("input_lengths", "target_lengths")
    }
    bare = {name: getattr(given[name], "array", given[name]) for name in ("input_lengths", "target_lengths", "blank")}
    losses = np.asarray(function(log_probs.array, targets.array, **bare, reduction="none"))
    zero, reduction = given["zero_infinity"], given["reduction"]
    settings = {**lengths, "blank": given["blank"], "zero_infinity": zero}
    loss = tape.run("_ctc_loss", log_probs, targets, out=losses, **settings)
    if zero:
        loss = tape.run("where.self", np.isinf(losses), np.zeros((), losses.dtype), loss)
    if reduction == "mean":
        sizes = np.maximum(np.asarray(lengths["target_lengths"]), 1).astype(losses.dtype)
        return tape.run("mean", tape.run("div.Tensor", loss, sizes), out=result)
    return reduced(tape, loss, reduction)


def linear_cross_entropy(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    linear_weight: TapeValue,
    target: TapeValue,
    **given: Any,
) -> TapeValue:
    classes, spread = linear_weight.shape[0], linear_weight.shape[1:-1]
    bias = given["linear_bias"]
    weight = linear_weight
    if spread:
        weight = tape.run("view", weight, size=(-1, weight.shape[-1]))
        bias = None if bias is None else tape.run("view", bias, size=(-1,))
    logits = tape.run("view", linear(tape, input, weight, bias), size=(*input.shape[:-1], classes, *spread))
    ignored = -100 if given["ignore_index"] is None else given["ignore_index"]
    settings = {name: given[name] for name in ("weight", "reduction", "label_smoothing")}
    return cross_entropy(tape, result, None, logits, target, ignore_index=ignored, **settings)


LOSSES: dict[str, Plan] = {
    "mse_loss": _weighted(_single("mse_loss"), _squared, True),
    "l1_loss": _weighted(_l1, _absolute, True),
    "huber_loss": _weighted(_single("huber_loss", settings=("delta",)), _huber, False),
    "smooth_l1_loss": smooth_l1_loss,
    "soft_margin_loss": _single("soft_margin_loss"),
    "binary_cross_entropy": _single("binary_cross_entropy", "weight"),
    "binary_cross_entropy_with_logits": _single("binary_cross_entropy_with_logits", "weight", "pos_weight"),
    "multi_margin_loss": _single("multi_margin_loss", "weight", settings=("p", "margin")),
    "multilabel_margin_loss": multilabel_margin_loss,
    "multilabel_soft_margin_loss": multilabel_soft_margin_loss,
    "kl_div": kl_div,
    "poisson_nll_loss": poisson_nll_loss,
    "gaussian_nll_loss": gaussian_nll_loss,
    "hinge_embedding_loss": hinge_embedding_loss,
    "margin_ranking_loss": margin_ranking_loss,
    "cosine_embedding_loss": cosine_embedding_loss,
    "triplet_margin_loss": triplet_margin_loss,
    "triplet_margin_with_distance_loss": triplet_margin_loss,
    "ctc_loss": ctc_loss,
    "linear_cross_entropy": linear_cross_entropy,
}
