"""Plans of normalizations and of dropout."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.operators.graph.function_plans.single_operations import Plan
from funcnet.operators.graph.torch_operations.composite_operations import contiguous
from funcnet.operators.graph.torch_operations.tape import Results, Tape, TapeValue

__all__ = ["NORMS", "dropped"]


def _statistics(x: NDArray[Any], axes: tuple[int, ...], eps: float, keepdims: bool = False) -> tuple[Any, Any]:
    """Return the mean and 1/√(variance + eps), in at least float32."""
    wide = x.astype(np.float64)
    mean, variance = wide.mean(axes, keepdims=keepdims), wide.var(axes, keepdims=keepdims)
    dtype = np.promote_types(x.dtype, np.float32) if x.dtype.kind == "f" else np.float32
    return mean.astype(dtype), (1 / np.sqrt(variance + eps)).astype(dtype)


def layer_norm(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    normalized_shape: int | Sequence[int],
    weight: TapeValue | None,
    bias: TapeValue | None,
    eps: float,
) -> TapeValue:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    axes = tuple(range(input.ndim - len(shape), input.ndim))
    mean, scale = _statistics(input.array, axes, eps, keepdims=True)
    settings = {"normalized_shape": shape, "result1": mean, "result2": scale}
    return tape.run("native_layer_norm", input, weight, bias, out=result, **settings)


def group_norm(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    num_groups: int,
    weight: TapeValue | None,
    bias: TapeValue | None,
    eps: float,
) -> TapeValue:
    n, c = input.shape[:2]
    mean, scale = _statistics(input.array.reshape(n, num_groups, -1), (2,), eps)
    settings = {"N": n, "C": c, "HxW": math.prod(input.shape[2:]), "group": num_groups, "eps": eps}
    x = contiguous(tape, input)
    return tape.run("native_group_norm", x, weight, bias, out=(result, mean, scale), **settings)[0]


def _batch_norm(
    tape: Tape,
    result: NDArray[Any],
    x: TapeValue,
    weight: TapeValue | None,
    bias: TapeValue | None,
    mean: TapeValue | NDArray[Any] | None,
    var: TapeValue | NDArray[Any] | None,
    training: bool,
    eps: float,
) -> TapeValue:
    empty = np.zeros((0,), x.dtype)
    found = (empty, empty)
    if training:
        found = _statistics(x.array, tuple(axis for axis in range(x.ndim) if axis != 1), eps)
    settings = {"training": training, "eps": eps, "result1": found[0], "result2": found[1]}
    return tape.run("native_batch_norm", x, weight, bias, mean, var, out=result, **settings)


def batch_norm(
    tape: Tape,
    result: Results,
    function: Callable[..., Any],
    input: TapeValue,
    running_mean: TapeValue | None,
    running_var: TapeValue | None,
    **others: Any,
) -> Any:
    weight, bias, training, eps = (others[name] for name in ("weight", "bias", "training", "eps"))
    # In training, torch has updated the running statistics by the time that its node is read.
    mean, var = (result[1], result[2]) if training and running_mean is not None else (running_mean, running_var)
    if input.shape == (0,):
        return (tape.run("clone", input), *result[1:])
    y = _batch_norm(tape, result[0], input, weight, bias, mean, var, training, eps)
    return (y, *result[1:])


def instance_norm(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    running_mean: TapeValue | None,
    running_var: TapeValue | None,
    **others: Any,
) -> Any:
    n, c = input.shape[:2]
    repeated = lambda one: None if one is None else tape.run("repeat", one, repeats=(n,))
    weight, bias = repeated(others["weight"]), repeated(others["bias"])
    mean, var = (None if one is None else np.tile(one.array, n) for one in (running_mean, running_var))
    if (
        mean is not None and var is not None and others["use_input_stats"]
    ):  # torch has updated them by the time that its node is read
        values, rate = input.array.reshape(n * c, -1), float(getattr(others["momentum"], "array", others["momentum"]))
        mean = ((1 - rate) * mean + rate * values.mean(1)).astype(mean.dtype)
        var = ((1 - rate) * var + rate * values.var(1, ddof=1)).astype(mean.dtype)
    x = tape.run("view", contiguous(tape, input), size=(1, n * c, *input.shape[2:]))
    flat = result[0].reshape(x.shape)
    y = _batch_norm(tape, flat, x, weight, bias, mean, var, others["use_input_stats"], others["eps"])
    return (tape.run("view", y, size=input.shape), *result[1:])


def rms_norm(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    normalized_shape: int | Sequence[int],
    weight: TapeValue | None,
    eps: float | None,
) -> TapeValue:
    count = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    eps = float(np.finfo(input.dtype).eps) if eps is None else eps
    square = tape.run("pow.Tensor_Scalar", input, exponent=2)
    mean = tape.run("mean.dim", square, dim=tuple(range(input.ndim - 1, input.ndim - 1 - count, -1)), keepdim=True)
    scale = tape.run("rsqrt", tape.run("add.Scalar", mean, eps))
    y = tape.run("mul.Tensor", input, scale)
    return y if weight is None else tape.run("mul.Tensor", y, weight, out=result)


def local_response_norm(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    size: int,
    alpha: float,
    beta: float,
    k: float,
) -> TapeValue:
    sides = (size // 2, (size - 1) // 2)
    pool: dict[str, Any] = {"ceil_mode": False, "count_include_pad": True}
    square = tape.run("mul.Tensor", input, input)
    if input.ndim == 3:
        padded = tape.run("constant_pad_nd", tape.run("unsqueeze", square, dim=1), pad=(0, 0, *sides))
        shape: dict[str, Any] = {"kernel_size": (size, 1), "stride": (1, 1), "padding": (0, 0)}
        mean = tape.run("squeeze.dim", tape.run("avg_pool2d", padded, **shape, **pool), dim=1)
    else:
        sizes = input.shape
        square = tape.run("view", square, size=(sizes[0], 1, sizes[1], sizes[2], -1))
        padded = tape.run("constant_pad_nd", square, pad=(0, 0, 0, 0, *sides))
        window: dict[str, Any] = {"kernel_size": (size, 1, 1), "stride": (1, 1, 1), "padding": (0, 0, 0)}
        mean = tape.run("squeeze.dim", tape.run("avg_pool3d", padded, **window, **pool), dim=1)
        mean = tape.run("view", mean, size=sizes)
    total = tape.run("add.Tensor", tape.run("mul.Tensor", mean, alpha), k, alpha=1)
    return tape.run("div.Tensor", input, tape.run("pow.Tensor_Scalar", total, exponent=beta), out=result)


def normalize(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    p: float,
    dim: int | Sequence[int],
    eps: float,
    **_: object,
) -> TapeValue:
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    norm = tape.run("linalg_vector_norm", input, ord=p, dim=dims, keepdim=True)
    below = tape.run("expand", tape.run("clamp_min", norm, min=eps), size=input.shape)
    return tape.run("div.Tensor", input, below, out=result)


# ------------------------------------------------------------------------------------------------------------ dropout


def dropped(
    tape: Tape,
    result: NDArray[Any] | None,
    x: TapeValue,
    p: float,
    noise: NDArray[Any] | None,
    shift: NDArray[Any] | None = None,
) -> TapeValue:
    """Multiply by random numbers: zeros, and `1 / (1 - p)` where an entry is kept."""
    if p == 1:
        return tape.run("mul.Tensor", x, np.zeros((), x.dtype), out=result)
    if shift is None:
        return tape.run("mul.Tensor", x, noise, out=result)
    return tape.run("add.Tensor", tape.run("mul.Tensor", x, noise), shift, out=result, alpha=1)


def _dropout(is_feature: bool = False, is_alpha: bool = False, dims: int = 0) -> Plan:
    def plan(
        tape: Tape,
        result: NDArray[Any],
        function: Callable[..., Any],
        input: TapeValue,
        p: TapeValue | float,
        training: bool,
        rng: object,
        **_: object,
    ) -> TapeValue:
        rate = float(p.array if isinstance(p, TapeValue) else p)
        x, missing = input, dims and input.ndim == dims + 1
        if missing:
            x = tape.run("unsqueeze", input, dim=0)
        if rate == 0 or not training or not input.array.size:
            return tape.run("squeeze.dim", x, dim=0) if missing else x
        key = rng.array if isinstance(rng, TapeValue) else rng
        on = lambda fill: np.asarray(function(np.full_like(x.array, fill), rate, True, rng=key))
        noise = shift = None
        if rate < 1:
            shift = on(0) if is_alpha else None
            noise = on(1) - (shift if is_alpha else 0)
            if is_feature:
                first: tuple[Any, ...] = (..., *(slice(0, 1),) * (x.ndim - 2))  # the same for a whole channel
                noise, shift = (one if one is None else one[first] for one in (noise, shift))
        found = dropped(tape, result[None] if missing else result, x, rate, noise, shift)
        return tape.run("squeeze.dim", found, dim=0) if missing else found

    return plan


NORMS: dict[str, Plan] = {
    "layer_norm": layer_norm,
    "group_norm": group_norm,
    "batch_norm": batch_norm,
    "batch_norm_and_count": batch_norm,
    "instance_norm": instance_norm,
    "rms_norm": rms_norm,
    "local_response_norm": local_response_norm,
    "normalize": normalize,
    "dropout": _dropout(),
    "dropout1d": _dropout(is_feature=True, dims=1),
    "dropout2d": _dropout(is_feature=True),
    "dropout3d": _dropout(is_feature=True, dims=3),
    "alpha_dropout": _dropout(is_alpha=True),
    "feature_alpha_dropout": _dropout(is_feature=True, is_alpha=True),
}
