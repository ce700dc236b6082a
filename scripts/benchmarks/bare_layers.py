"""The operations of `layers.py`, written in bare JAX, to measure the cost of XLA itself.

Each entry takes a case and returns a function of (params, *inputs). They compute the same thing in the shortest form
that the JAX documentation shows, without checks, corner cases or accumulated precision.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["BARE"]


def conv(case: Any) -> Callable[..., Any]:
    dims = {1: ("NCH", "OIH", "NCH"), 2: ("NCHW", "OIHW", "NCHW"), 3: ("NCDHW", "OIDHW", "NCDHW")}[int(case.kind[4])]
    n = len(dims[0]) - 2
    stride, padding = case.kwargs.get("stride", 1), case.kwargs.get("padding", 0)

    def run(params: Any, x: Any) -> Any:
        out = lax.conv_general_dilated(
            x,
            params["weight"],
            (stride,) * n,
            [(padding, padding)] * n,
            dimension_numbers=dims,
            feature_group_count=case.kwargs.get("groups", 1),
        )
        return out + params["bias"].reshape(1, -1, *[1] * n) if "bias" in params else out

    return run


def conv_transpose(case: Any) -> Callable[..., Any]:
    n = int(case.kind[-2])
    dims = {1: ("NCH", "IOH", "NCH"), 2: ("NCHW", "IOHW", "NCHW"), 3: ("NCDHW", "IODHW", "NCDHW")}[n]
    kernel, stride, padding = case.args[2], case.kwargs.get("stride", 1), case.kwargs.get("padding", 0)

    def run(params: Any, x: Any) -> Any:
        out = lax.conv_general_dilated(
            x,
            jnp.flip(params["weight"], range(2, 2 + n)),
            (1,) * n,
            [(kernel - 1 - padding,) * 2] * n,
            lhs_dilation=(stride,) * n,
            dimension_numbers=dims,
        )
        return out + params["bias"].reshape(1, -1, *[1] * n)

    return run


def max_pool(case: Any) -> Callable[..., Any]:
    n, kernel = int(case.kind[-2]), case.args[0]
    stride, padding = case.kwargs.get("stride", kernel), case.kwargs.get("padding", 0)
    window = lambda k: (1, 1, *(k,) * n)
    pads = [(0, 0)] * 2 + [(padding, padding)] * n
    return lambda params, x: lax.reduce_window(x, -jnp.inf, lax.max, window(kernel), window(stride), pads)


def avg_pool(case: Any) -> Callable[..., Any]:
    kernel = case.args[0]
    stride, padding = case.kwargs.get("stride", kernel), case.kwargs.get("padding", 0)
    pads = [(0, 0)] * 2 + [(padding, padding)] * 2
    return lambda params, x: (
        lax.reduce_window(x, 0.0, lax.add, (1, 1, kernel, kernel), (1, 1, stride, stride), pads) / kernel**2
    )


def batch_norm(case: Any) -> Callable[..., Any]:
    def run(params: Any, x: Any) -> Any:
        mean, variance = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
        if not case.training:
            mean, variance = jnp.zeros_like(mean), jnp.ones_like(variance)
        wide = lambda p: p[:, None, None]
        return (x - mean) * lax.rsqrt(variance + 1e-5) * wide(params["weight"]) + wide(params["bias"])

    return run


def layer_norm(case: Any) -> Callable[..., Any]:
    def run(params: Any, x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * params["weight"] + params["bias"]

    return run


def group_norm(case: Any) -> Callable[..., Any]:
    def run(params: Any, x: Any) -> Any:
        grouped = x.reshape(len(x), case.args[0], -1)
        centred = grouped - grouped.mean(-1, keepdims=True)
        normal = (centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)).reshape(x.shape)
        return normal * params["weight"][:, None, None] + params["bias"][:, None, None]

    return run


def lstm(case: Any) -> Callable[..., Any]:
    width, layers = case.args[1], case.args[2]
    directions = ("", "_reverse") if case.kwargs.get("bidirectional") else ("",)

    def run(params: Any, x: Any) -> Any:
        def along(x: Any, suffix: str) -> Any:
            w, u, b, c = (params[f"{name}_{suffix}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))

            def step(carry: Any, x: Any) -> Any:
                hidden, cell = carry
                i, f, g, o = jnp.split(x @ w.T + b + hidden @ u.T + c, 4, -1)
                cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
                hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
                return (hidden, cell), hidden

            zeros = jnp.zeros((x.shape[1], width))
            return lax.scan(step, (zeros, zeros), x, reverse=suffix.endswith("reverse"))[1]

        for layer in range(layers):
            x = jnp.concatenate([along(x, f"l{layer}{direction}") for direction in directions], -1)
        return x

    return run


def attention(case: Any) -> Callable[..., Any]:
    width, heads = case.args

    def run(params: Any, q: Any, k: Any, v: Any) -> Any:
        b, t, _ = q.shape
        pieces = zip(jnp.split(params["in_proj_weight"], 3), jnp.split(params["in_proj_bias"], 3), strict=True)
        q, k, v = (
            (x @ w.T + c).reshape(b, t, heads, width // heads).swapaxes(1, 2)
            for x, (w, c) in zip((q, k, v), pieces, strict=True)
        )
        weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) / (width // heads) ** 0.5)
        out = (weights @ v).swapaxes(1, 2).reshape(b, t, width)
        return out @ params["out_proj"]["weight"].T + params["out_proj"]["bias"], weights.mean(1)

    return run


def losses(case: Any) -> Callable[..., Any]:
    def run(params: Any, x: Any, target: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x), target[:, None], 1).mean()

    return run


def smooth_l1(x: Any, y: Any) -> Any:
    away = jnp.abs(x - y)
    return jnp.where(away < 1, 0.5 * away**2, away - 0.5).mean()


def adaptive_max_pool(case: Any) -> Callable[..., Any]:
    bins = case.args[0]
    return lambda params, x: x.reshape(*x.shape[:2], bins, x.shape[2] // bins, bins, x.shape[3] // bins).max((3, 5))


def dropout(case: Any) -> Callable[..., Any]:
    def run(params: Any, x: Any) -> Any:
        shape = (*x.shape[:2], 1, 1) if case.kind == "Dropout2d" else x.shape
        return jnp.where(jax.random.bernoulli(jax.random.key(1), 0.9, shape), x / 0.9, 0.0)

    return run


def upsample(case: Any) -> Callable[..., Any]:
    if case.kwargs["mode"] == "bicubic":
        return None  # type: ignore[return-value]  # jax.image's has another coefficient
    return lambda params, x: jax.image.resize(x, (*x.shape[:2], *(2 * n for n in x.shape[2:])), case.kwargs["mode"])


def channel_shuffle(case: Any) -> Callable[..., Any]:
    return lambda params, x: x.reshape(len(x), case.args[0], -1, *x.shape[2:]).swapaxes(1, 2).reshape(x.shape)


def plain(function: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
    return lambda case: lambda params, *inputs: function(*inputs)


BARE: dict[str, Callable[[Any], Any]] = {
    "Conv1d": conv,
    "Conv2d": conv,
    "Conv3d": conv,
    "ConvTranspose1d": conv_transpose,
    "ConvTranspose2d": conv_transpose,
    "ConvTranspose3d": conv_transpose,
    "MaxPool1d": max_pool,
    "MaxPool2d": max_pool,
    "MaxPool3d": max_pool,
    "AvgPool2d": avg_pool,
    "BatchNorm2d": batch_norm,
    "LayerNorm": layer_norm,
    "LSTM": lstm,
    "MultiheadAttention": attention,
    "Linear": lambda case: lambda params, x: x @ params["weight"].T + params["bias"],
    "Bilinear": lambda case: lambda p, a, b: jnp.einsum("bi,oij,bj->bo", a, p["weight"], b) + p["bias"],
    "Embedding": lambda case: lambda params, ids: jnp.take(params["weight"], ids, axis=0),
    "EmbeddingBag": lambda case: lambda params, ids: jnp.take(params["weight"], ids, axis=0).mean(1),
    "CrossEntropyLoss": losses,
    "NLLLoss": plain(lambda x, target: -jnp.take_along_axis(x, target[:, None], 1).mean()),
    "Softmax": plain(lambda x: jax.nn.softmax(x)),
    "LogSoftmax": plain(lambda x: jax.nn.log_softmax(x)),
    "GELU": plain(lambda x: jax.nn.gelu(x, approximate=False)),
    "ReLU": plain(jax.nn.relu),
    "ReLU6": plain(jax.nn.relu6),
    "SiLU": plain(jax.nn.silu),
    "Mish": plain(jax.nn.mish),
    "ELU": plain(jax.nn.elu),
    "CELU": plain(jax.nn.celu),
    "SELU": plain(jax.nn.selu),
    "Sigmoid": plain(jax.nn.sigmoid),
    "Tanh": plain(jnp.tanh),
    "Softplus": plain(jax.nn.softplus),
    "Softsign": plain(jax.nn.soft_sign),
    "Hardtanh": plain(jax.nn.hard_tanh),
    "Hardswish": plain(jax.nn.hard_swish),
    "Hardsigmoid": plain(jax.nn.hard_sigmoid),
    "LeakyReLU": plain(jax.nn.leaky_relu),
    "LogSigmoid": plain(jax.nn.log_sigmoid),
    "GLU": plain(jax.nn.glu),
    "Tanhshrink": plain(lambda x: x - jnp.tanh(x)),
    "MSELoss": plain(lambda x, y: ((x - y) ** 2).mean()),
    "L1Loss": plain(lambda x, y: jnp.abs(x - y).mean()),
    "ReflectionPad2d": lambda case: lambda params, x: jnp.pad(x, [(0, 0)] * 2 + [(3, 3)] * 2, mode="reflect"),
    "ReplicationPad2d": lambda case: lambda params, x: jnp.pad(x, [(0, 0)] * 2 + [(3, 3)] * 2, mode="edge"),
    "CircularPad2d": lambda case: lambda params, x: jnp.pad(x, [(0, 0)] * 2 + [(3, 3)] * 2, mode="wrap"),
    "ZeroPad2d": lambda case: lambda params, x: jnp.pad(x, [(0, 0)] * 2 + [(3, 3)] * 2),
    "Dropout": dropout,
    "Dropout2d": dropout,
    "GroupNorm": group_norm,
    "AdaptiveAvgPool2d": lambda case: None if case.args[0] > 1 else lambda params, x: x.mean((2, 3), keepdims=True),
    "AdaptiveMaxPool2d": adaptive_max_pool,
    "Softshrink": plain(lambda x: jnp.where(jnp.abs(x) > 0.5, x - 0.5 * jnp.sign(x), 0.0)),
    "Hardshrink": plain(lambda x: jnp.where(jnp.abs(x) > 0.5, x, 0.0)),
    "SmoothL1Loss": plain(smooth_l1),
    "HuberLoss": plain(smooth_l1),
    "BCEWithLogitsLoss": plain(lambda x, y: (jax.nn.softplus(x) - x * y).mean()),
    "Upsample": upsample,
    "ChannelShuffle": channel_shuffle,
}
