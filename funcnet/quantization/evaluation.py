"""Evaluation of a layer graph in floating point, and the definition of each of its operations.

Calibration and training evaluate the same graph that `convert` turns into integers. Calibration therefore observes a
range exactly where the integer net rounds.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.quantization.graph import LayerGraph, LayerNode, LayerValue

__all__ = ["OPERATIONS", "evaluate", "softmax_limit", "softmax_range"]

_NEGLIGIBLE = 12.0

Tap = Callable[[LayerValue, jax.Array], jax.Array]


def evaluate(graph: LayerGraph, arrays: Sequence[Any], tap: Tap | None = None) -> list[jax.Array]:
    """Compute the outputs of a graph in floating point.

    Args:
        graph: the graph.
        arrays: inputs of the graph.
        tap: function `tap(value, array)`, whose result replaces the array. `tap` is called for every floating-point
            input of the graph, every floating-point constant that a node reads (such as a weight or a bias), and every
            output of a node.

    Returns:
        The list of the outputs, in the order of `graph.outputs`.

    Example:
        >>> import numpy as np
        >>> graph = LayerGraph([LayerValue((2,), np.dtype(np.float32))])
        >>> graph.outputs = [graph.add("table", graph.inputs, (2,), function="tanh")]
        >>> evaluate(graph, [jnp.zeros(2)], lambda value, x: x + 1)
        [Array([1.7615942, 1.7615942], dtype=float32)]
    """
    tap = tap or (lambda _, array: array)
    seen: dict[int, jax.Array] = {}
    for value, array in zip(graph.inputs, arrays, strict=True):
        seen[id(value)] = tap(value, jnp.asarray(array)) if value.real else jnp.asarray(array)
    for node in graph.nodes:
        for value in node.inputs:
            if value.constant is not None and id(value) not in seen:
                constant = jnp.asarray(value.constant)
                seen[id(value)] = tap(value, constant) if value.real else constant
        out = OPERATIONS[node.op](node, *(seen[id(value)] for value in node.inputs))
        seen[id(node.output)] = tap(node.output, out) if node.output.real else out
    return [seen[id(value)] for value in graph.outputs]


def _activated(node: LayerNode, x: jax.Array) -> jax.Array:
    limits = {None: None, "relu": (0, None), "relu6": (0, 6), "relu_n1_to_1": (-1, 1)}[node.settings.get("activation")]
    return x if limits is None else jnp.clip(x, *limits)


def _conv(node: LayerNode, x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    settings = node.settings
    out = lax.conv_general_dilated(
        x,
        weight,
        settings["stride"],
        settings["padding"],
        rhs_dilation=settings["dilation"],
        feature_group_count=settings["groups"],
    )
    return _activated(node, out + bias.reshape(1, -1, *[1] * (x.ndim - 2)))


def _max_pool(node: LayerNode, x: jax.Array) -> jax.Array:
    # lax has a gradient rule for windows with lax.max if the initial value is the constant -inf
    return lax.reduce_window(x, -jnp.inf, lax.max, *_windows(node))


def _windows(node: LayerNode) -> tuple[Any, Any, Any]:
    settings = node.settings
    pads = [(0, 0), (0, 0), *map(tuple, settings["padding"])]
    return (1, 1, *settings["kernel_size"]), (1, 1, *settings["stride"]), pads


def _avg_pool(node: LayerNode, x: jax.Array) -> jax.Array:
    windows = _windows(node)
    counts = lax.reduce_window(jnp.ones((1, 1, *x.shape[2:]), x.dtype), 0.0, lax.add, *windows)
    return lax.reduce_window(x, 0.0, lax.add, *windows) / counts


def _table(node: LayerNode, x: jax.Array) -> jax.Array:
    return _FUNCTIONS[node.settings["function"]](x)


def _layer_norm(node: LayerNode, x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + node.settings["eps"]) * weight + bias


def _crop(node: LayerNode, x: jax.Array) -> jax.Array:
    begin = node.settings["begin"]
    return lax.slice(x, begin, [start + size for start, size in zip(begin, node.output.shape, strict=True)])


def _hide(node: LayerNode, scores: jax.Array, shown: jax.Array) -> jax.Array:
    """Replace scores that a mask hides by the lower limit of `softmax_range`. Their probability rounds to 0."""
    seen = jnp.broadcast_to(shown.reshape(node.settings["mask_shape"]).astype(jnp.int32) > 0, scores.shape)
    limited = softmax_range(jnp.where(seen, scores, -jnp.inf))
    return jnp.where(seen.any(), limited, scores)


def softmax_range(scores: jax.Array) -> jax.Array:
    """Return scores in which every score below a lower limit is raised to this limit.

    The lower limit is the smallest row maximum minus 12. The probability of a raised score is at most exp(-12), which
    is 2 thousandths of an int8 step. Without the limit, a wide range of scores would make the int8 steps of the scores
    coarse. Rows in which every score is -inf do not affect the limit.

    Example:
        >>> softmax_range(jnp.array([[9.0, -50.0], [5.0, 4.0]]))
        Array([[ 9., -7.],
               [ 5.,  4.]], dtype=float32)
    """
    return jnp.maximum(scores, softmax_limit(scores))


def softmax_limit(scores: jax.Array) -> jax.Array:
    """Return the lower limit of `softmax_range`.

    Example:
        >>> float(softmax_limit(jnp.array([[9.0, -50.0], [5.0, 4.0]])))
        -7.0
    """
    top = jnp.max(scores, -1)
    return jnp.min(jnp.where(jnp.isneginf(top), jnp.inf, top)) - _NEGLIGIBLE


_FUNCTIONS: Mapping[str, Callable[[jax.Array], jax.Array]] = MappingProxyType(
    {
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "gelu_tanh": lambda x: jax.nn.gelu(x, approximate=True),
        "sigmoid": jax.nn.sigmoid,
        "tanh": jnp.tanh,
    }
)

OPERATIONS: Mapping[str, Callable[..., jax.Array]] = MappingProxyType(
    {
        "add": lambda node, a, b: _activated(node, a + b),
        "avg_pool": _avg_pool,
        "batch_matmul": lambda node, a, b: jnp.einsum("...mk,...nk->...mn", a, b),
        "concat": lambda node, *arrays: jnp.concatenate(arrays, node.settings["axis"]),
        "conv": _conv,
        "crop": _crop,
        "embedding": lambda node, weight, ids: jnp.take(weight, ids, axis=0, mode="clip"),
        "hide": _hide,
        "layer_norm": _layer_norm,
        "linear": lambda node, x, weight, bias: _activated(node, jnp.matmul(x, weight.T) + bias),
        "max_pool": _max_pool,
        "pad": lambda node, x: jnp.pad(x, node.settings["padding"]),
        "quantize": lambda node, x: x,  # only training and the integer net round here
        "real_add": lambda node, a, b: a + b,
        "relu": _activated,
        "reshape": lambda node, x: x.reshape(node.output.shape),
        "scale": lambda node, x, factors: x * factors,
        "softmax": lambda node, x: jax.nn.softmax(x, axis=-1),
        "table": _table,
        "transpose": lambda node, x: x.transpose(node.settings["order"]),
    }
)
"""{name of an operation: function of the node and of the arrays that the node reads}."""
