"""Fusion of a BatchNorm into the layer before it, for inference, as in torch/nn/utils/fusion.py."""

import copy
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from funcnet.functional import checks
from funcnet.nn import init
from funcnet.nn.core.parameter import Buffer, Parameter
from funcnet.nn.module.module import Module
from funcnet.tree import Tree

Fused = tuple[jax.Array, jax.Array]

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def fuse_conv_bn_eval(
    conv: Module, bn: Module, conv_params: Tree, bn_params: Tree, bn_state: Tree, transpose: bool = False
) -> tuple[Any, Tree]:
    """Return (conv, params) of one convolution that replaces a convolution followed by a BatchNorm in eval mode.

    Args:
        conv: description of a convolution. It is not changed.
        bn: description of the BatchNorm.
        conv_params, bn_params: params of the convolution and of the BatchNorm.
        bn_state: state of the BatchNorm, with the running statistics.
        transpose: whether `conv` is a transposed convolution.

    Returns:
        (description, params) of a convolution with a bias. If `conv` had no bias, the new bias is frozen, as in torch.

    Raises:
        ValueError: if there are no running statistics, a leaf is computed or stored in another module, or a transposed
            convolution has groups.

    Differs from torch: the function takes and returns params. The function does not check that the modules are in eval
    mode, because a description has no mode.

    Example:
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3))
        >>> params, state = net.init(jax.random.key(0))
        >>> conv, fused = fuse_conv_bn_eval(net[0], net[1], params["0"], params["1"], state["1"])
        >>> x = jnp.ones((1, 2, 4))
        >>> bool(jnp.allclose(conv.apply(fused, {}, x)[0], net.apply(params, state, x)[0]))
        True

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fuse_conv_bn_eval.html
    """
    where = "utils.fuse_conv_bn_eval"
    if transpose and conv.groups != 1:
        raise ValueError(
            f"{where}: a grouped transposed convolution cannot be fused, because its weight has no single dimension "
            f"for the output channels; expected groups=1, got {conv.groups}."
        )
    return _fuse(where, fuse_conv_bn_weights, conv, bn, conv_params, bn_params, bn_state, transpose)


def fuse_conv_bn_weights(
    conv_w: jax.Array,
    conv_b: jax.Array | None,
    bn_rm: jax.Array,
    bn_rv: jax.Array,
    bn_eps: float,
    bn_w: jax.Array | None,
    bn_b: jax.Array | None,
    transpose: bool = False,
) -> Fused:
    """Return `(weight · s, (bias - mean) · s + shift)` with `s = scale / sqrt(variance + eps)`.

    Args:
        conv_w: weight, (out, in, *kernel), or (in, out, *kernel) if transposed.
        conv_b: bias, (out,). None means 0.
        bn_rm, bn_rv: running mean and variance, (out,).
        bn_eps: value added to the variance.
        bn_w, bn_b: scale and shift, (out,). If they are None, the scale is 1 and the shift is 0.
        transpose: if True, the output channels are dimension 1 of the weight, else dimension 0.

    Returns:
        (weight, bias) of the fused convolution, in the dtypes of the given convolution. The computation uses at least
        float32.

    Example:
        >>> one = jnp.ones(1)
        >>> fuse_conv_bn_weights(jnp.full((1, 1, 1), 3.0), None, 2 * one, 4 * one, 0.0, None, None)
        (Array([[[1.5]]], dtype=float32), Array([-1.], dtype=float32))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fuse_conv_bn_weights.html
    """
    shape = [-1 if i == int(transpose) else 1 for i in range(conv_w.ndim)]
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_eval(
    linear: Module, bn: Module, linear_params: Tree, bn_params: Tree, bn_state: Tree
) -> tuple[Any, Tree]:
    """Return (linear, params) of one layer that replaces a linear layer followed by a BatchNorm in eval mode.

    Args:
        linear: description of a linear layer. It is not changed.
        bn: description of the BatchNorm. The BatchNorm must have as many features as the linear layer has outputs, or 1
            feature.
        linear_params, bn_params: params of the linear layer and of the BatchNorm.
        bn_state: state of the BatchNorm, with the running statistics.

    Returns:
        (description, params) of a layer with a bias. If `linear` had no bias, the new bias is frozen, as in torch.

    Raises:
        ValueError: if there are no running statistics, the number of features is wrong, or a leaf is computed or stored
            in another module.

    Differs from torch: the differences are those of `fuse_conv_bn_eval`. In addition, a BatchNorm without scale and
    shift can be fused.

    Example:
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Linear(2, 3, bias=False), nn.BatchNorm1d(3))
        >>> params, state = net.init(jax.random.key(0))
        >>> linear, fused = fuse_linear_bn_eval(net[0], net[1], params["0"], params["1"], state["1"])
        >>> linear
        Linear(in_features=2, out_features=3, bias=True)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fuse_linear_bn_eval.html
    """
    where = "utils.fuse_linear_bn_eval"
    if bn.num_features not in (linear.out_features, 1):
        raise ValueError(
            f"{where}: the BatchNorm has the wrong number of features; expected {linear.out_features}, or 1 for all "
            f"outputs together, got {bn.num_features}."
        )
    return _fuse(where, fuse_linear_bn_weights, linear, bn, linear_params, bn_params, bn_state)


def fuse_linear_bn_weights(
    linear_w: jax.Array,
    linear_b: jax.Array | None,
    bn_rm: jax.Array,
    bn_rv: jax.Array,
    bn_eps: float,
    bn_w: jax.Array | None,
    bn_b: jax.Array | None,
) -> Fused:
    """Return `(weight · s, (bias - mean) · s + shift)` with `s = scale / sqrt(variance + eps)`.

    Args:
        linear_w: weight, (out, in).
        linear_b: bias, (out,). None means 0.
        bn_rm, bn_rv: running mean and variance, (out,) or (1,).
        bn_eps: value added to the variance.
        bn_w, bn_b: scale and shift, (out,) or (1,). If they are None, the scale is 1 and the shift is 0.

    Returns:
        (weight, bias) of the fused linear layer, in the dtypes of the given layer. The computation uses at least
        float32.

    Example:
        >>> one = jnp.ones(1)
        >>> fuse_linear_bn_weights(jnp.full((1, 1), 3.0), None, 2 * one, 4 * one, 0.0, None, None)
        (Array([[1.5]], dtype=float32), Array([-1.], dtype=float32))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fuse_linear_bn_weights.html
    """
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _fused(
    w: jax.Array,
    b: jax.Array | None,
    mean: jax.Array | None,
    var: jax.Array | None,
    eps: float,
    scale: jax.Array | None,
    shift: jax.Array | None,
    shape: list[int],
) -> Fused:
    arrays = [array for array in (w, b, mean, var, scale, shift) if array is not None]
    wide = max((checks.wide_dtype(array) for array in arrays), key=lambda dtype: dtype.itemsize)
    raised = lambda array, default: jnp.asarray(default, wide) if array is None else array.astype(wide)
    factor = raised(scale, 1) * jax.lax.rsqrt(raised(var, 1) + eps)
    bias = (raised(b, 0) - raised(mean, 0)) * factor + raised(shift, 0)
    return (raised(w, 0) * factor.reshape(shape)).astype(w.dtype), bias.astype(w.dtype if b is None else b.dtype)


def _own(where: str, module: Module, given: Tree, name: str) -> Any:
    """Return the array of the leaf `name` of a module, or None if the module has no such leaf. If `given` lacks the
    array, because the leaf is computed or is stored in another module, raise ValueError.
    """
    leaf = getattr(module, name)
    if leaf is None or (name in given and isinstance(leaf, Parameter | Buffer)):
        return given.get(name)
    raise ValueError(
        f"{where}: the params or state of the {type(module).__name__} do not contain its {name}; expected an entry "
        f"{name!r}, got {sorted(given)}. If {name} is computed, remove the computation first. If it is shared, get the "
        "arrays with net.subtree(…)."
    )


def _fuse(
    where: str,
    weights: Callable[..., Any],
    layer: Module,
    bn: Module,
    params: Tree,
    bn_params: Tree,
    bn_state: Tree,
    *rest: Any,
) -> Any:
    old_bias = _own(where, layer, params, "bias")
    mean, var = (_own(where, bn, bn_state, name) for name in ("running_mean", "running_var"))
    if mean is None or var is None:
        raise ValueError(
            f"{where}: the BatchNorm keeps no running statistics; expected running_mean and running_var in bn_state, "
            f"got {sorted(bn_state)}. Only a BatchNorm with fixed statistics in eval mode can be fused."
        )
    scale, shift = (_own(where, bn, bn_params, name) for name in ("weight", "bias"))
    weight, bias = weights(_own(where, layer, params, "weight"), old_bias, mean, var, bn.eps, scale, shift, *rest)
    fused = copy.deepcopy(layer)
    if old_bias is None:
        fused.bias = Parameter(bias.shape, init.zeros(), dtype=bias.dtype, requires_grad=False)
    return fused, {"weight": weight, "bias": bias}
