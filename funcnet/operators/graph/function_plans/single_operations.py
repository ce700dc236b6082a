"""Plans of functions that are one operation of torch, and of activations that consist of a few operations."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jax.typing import DTypeLike
from numpy.typing import NDArray

from funcnet.operators.graph.torch_operations.tape import Tape, TapeValue

__all__ = ["SINGLE"]

Plan = Callable[..., Any]


def single(operation: str, *settings: str, **fixed: float) -> Plan:
    """Return the plan of a function of one array that is one operation.

    Args:
        operation: its name in torch.
        *settings: parameters of the function whose values the node saves.
        **fixed: other values that it saves.
    """

    def plan(
        tape: Tape, result: NDArray[Any], function: Callable[..., Any], input: TapeValue, **arguments: Any
    ) -> TapeValue:
        return tape.run(operation, input, out=result, **{name: arguments[name] for name in settings}, **fixed)

    return plan


def logsigmoid(tape: Tape, result: NDArray[Any], function: Callable[..., Any], input: TapeValue) -> TapeValue:
    buffer = np.exp(-np.abs(input.array))
    return tape.run("log_sigmoid_forward", input, out=result, buffer=buffer)


def softsign(tape: Tape, result: NDArray[Any], function: Callable[..., Any], input: TapeValue) -> TapeValue:
    below = tape.run("add.Tensor", tape.run("abs", input), 1, alpha=1)
    return tape.run("div.Tensor", input, below, out=result)


def tanhshrink(tape: Tape, result: NDArray[Any], function: Callable[..., Any], input: TapeValue) -> TapeValue:
    return tape.run("sub.Tensor", input, tape.run("tanh", input), out=result, alpha=1)


def prelu(
    tape: Tape, result: NDArray[Any], function: Callable[..., Any], input: TapeValue, weight: TapeValue
) -> TapeValue:
    size = [1] * input.ndim
    if input.ndim > 1:
        size[1] = weight.array.size
    spread = weight if weight.shape == tuple(size) else tape.run("view", weight, size=size)
    return tape.run("_prelu_kernel", input, spread, out=result)


def rrelu(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    lower: float,
    upper: float,
    training: bool,
    **others: Any,
) -> TapeValue:
    noise = np.zeros_like(input.array)
    if training:
        rng = getattr(others["rng"], "array", others["rng"])
        slopes = -np.asarray(function(np.full_like(input.array, -1), lower, upper, True, rng=rng))
        noise = np.where(input.array <= 0, slopes, 1).astype(input.dtype)
    settings = {"lower": lower, "upper": upper, "training": training}
    return tape.run("rrelu_with_noise", input, noise, out=result, **settings)


def default_dim(ndim: int) -> int:
    """Return the dimension over which torch takes a softmax if none is given."""
    return 0 if ndim in (0, 1, 3) else 1


def _softmax_of(operation: str, negates: bool = False) -> Plan:
    def plan(
        tape: Tape,
        result: NDArray[Any],
        function: Callable[..., Any],
        input: TapeValue,
        dim: int | None = None,
        dtype: DTypeLike | None = None,
        **_: object,
    ) -> TapeValue:
        x = tape.run("neg", input) if negates else input
        if dtype is not None and np.dtype(dtype) != x.dtype:
            x = tape.run("_to_copy", x, out=x.array.astype(dtype))
        return tape.run(operation, x, out=result, dim=default_dim(input.ndim) if dim is None else dim)

    return plan


def gumbel_softmax(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    logits: TapeValue,
    tau: float,
    hard: bool,
    dim: int,
    **others: Any,
) -> TapeValue:
    rng = others["rng"].array if isinstance(others["rng"], TapeValue) else others["rng"]
    soft = np.asarray(function(logits.array, tau, False, dim=dim, rng=rng)) if hard else result
    noisy = tape.run("add.Tensor", logits, np.zeros_like(logits.array), alpha=1)
    value = tape.run("_softmax", tape.run("div.Tensor", noisy, tau), out=soft, dim=dim)
    return tape.run("add.Tensor", TapeValue(result - soft), value, out=result, alpha=1) if hard else value


SINGLE: Mapping[str, Plan] = {
    "relu": single("relu"),
    "relu6": single("hardtanh", min_val=0.0, max_val=6.0),
    "hardtanh": single("hardtanh", "min_val", "max_val"),
    "threshold": single("threshold", "threshold"),
    "hardsigmoid": single("hardsigmoid"),
    "hardswish": single("hardswish"),
    "hardshrink": single("hardshrink", "lambd"),
    "softshrink": single("softshrink", "lambd"),
    "leaky_relu": single("leaky_relu", "negative_slope"),
    "elu": single("elu", "alpha", scale=1, input_scale=1),
    "selu": single("elu", alpha=1.6732632423543772, scale=1.0507009873554805, input_scale=1),
    "celu": single("celu", "alpha"),
    "silu": single("silu"),
    "mish": single("mish"),
    "gelu": single("gelu", "approximate"),
    "tanh": single("tanh"),
    "sigmoid": single("sigmoid"),
    "softplus": single("softplus", "beta", "threshold"),
    "glu": single("glu", "dim"),
    "pixel_shuffle": single("pixel_shuffle", "upscale_factor"),
    "pixel_unshuffle": single("pixel_unshuffle", "downscale_factor"),
    "channel_shuffle": single("channel_shuffle", "groups"),
    "native_channel_shuffle": single("channel_shuffle", "groups"),
    "pdist": single("_pdist_forward", "p"),
    "softmax": _softmax_of("_softmax"),
    "log_softmax": _softmax_of("_log_softmax"),
    "softmin": _softmax_of("_softmax", negates=True),
    "logsigmoid": logsigmoid,
    "softsign": softsign,
    "tanhshrink": tanhshrink,
    "prelu": prelu,
    "rrelu": rrelu,
    "gumbel_softmax": gumbel_softmax,
}
