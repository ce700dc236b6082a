"""Compares torch with a port that works only without `jit`: outputs, buffers and gradients of the parameters."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from funcnet import nn, tree
from funcnet.comparison.torch_objects import TorchModule, TorchTensor
from funcnet.tree import Params

__all__ = ["NOT_TRACED", "Differences", "eager_differences"]

NOT_TRACED = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


@dataclasses.dataclass(frozen=True)
class Differences:
    """The largest differences between the results of a port and those of the torch model.

    The difference of an output or a buffer is relative to the largest entry of torch's tensor. The difference of a
    gradient is relative to the largest gradient in the same module.
    """

    forward: float
    gradients: float
    buffers: float

    @property
    def largest(self) -> float:
        return max(self.forward, self.gradients, self.buffers)


def eager_differences(
    torch: ModuleType,
    model: TorchModule,
    net: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    training: bool,
    double: bool,
) -> Differences:
    """Run a torch model and its port without `jit`, and compare them.

    Args:
        torch: the module torch.
        model: the torch model.
        net: the port.
        args, kwargs: the arguments of `forward`, with torch tensors.
        training: whether both models run in training mode.
        double: whether both models compute in float64 instead of float32.
    """
    dtype = jnp.float64 if double else jnp.float32
    params, state = (tree.cast(one, dtype) for one in net.load_state_dict(model.state_dict()))
    theirs = copy.deepcopy(model).train(training).to(torch.float64 if double else torch.float32)
    args, kwargs = _cast(args, theirs), _cast(dict(kwargs), theirs)
    outputs = _leaves(theirs(*args, **kwargs))
    weights = [np.random.default_rng(7).normal(size=tuple(one.shape)) for one in outputs]
    pairs = [(one, weight) for one, weight in zip(outputs, weights, strict=True) if one.is_floating_point()]
    loss = sum((one * torch.as_tensor(weight).to(one)).sum() for one, weight in pairs)
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        loss.backward()
    arrays, named = _arrays(args), _arrays(kwargs)

    def total(params: Params) -> Any:
        out, new = net.apply(params, state, *arrays, training=training, rng=jax.random.key(0), **named)
        found = _leaves(out)
        value = jnp.zeros((), dtype)
        for one, weight in zip(found, weights, strict=True):
            if jnp.issubdtype(one.dtype, jnp.floating):
                value = value + jnp.sum(one * weight).astype(dtype)
        return value, (found, new)

    gradients, (found, new) = jax.grad(total, has_aux=True, allow_int=True)(params)
    ours = net.state_dict(params, new)
    gradient_of = {name: one.grad for name, one in theirs.named_parameters() if one.grad is not None}
    flat = net.state_dict(gradients, new)
    largest: dict[str, float] = {}  # by module, because the gradient of a bias before BatchNorm is only rounding
    for name, one in gradient_of.items():
        module = name.rpartition(".")[0]
        largest[module] = max(largest.get(module, 0.0), float(one.abs().max()) if one.numel() else 0.0)
    return Differences(
        max((_difference(a, b) for a, b in zip(found, outputs, strict=True)), default=0.0),
        max((_difference(flat[n], one, largest[n.rpartition(".")[0]]) for n, one in gradient_of.items()), default=0.0),
        max((_difference(ours[name], one) for name, one in theirs.state_dict().items()), default=0.0),
    )


def _cast(value: Any, like: Any) -> Any:
    """Return the arguments of a torch model with floating-point tensors cast to the dtype of its weights."""
    if isinstance(value, dict):
        return {key: _cast(one, like) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_cast(one, like) for one in value)
    weight = next((one for one in like.parameters() if one.is_floating_point()), None)
    floats = weight is not None and hasattr(value, "is_floating_point") and value.is_floating_point()
    return value.to(weight.dtype) if floats else value  # type: ignore[union-attr]


def _arrays(value: Any) -> Any:
    """Return the arguments of a torch model with JAX arrays in place of torch tensors."""
    if hasattr(value, "detach"):
        return jnp.asarray(value.detach().numpy())
    if isinstance(value, dict):
        return {key: _arrays(one) for key, one in value.items()}
    return type(value)(map(_arrays, value)) if type(value) in (list, tuple) else value


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [leaf for key in value for leaf in _leaves(value[key])]
    if isinstance(value, list | tuple):
        return [leaf for one in value for leaf in _leaves(one)]
    return [value] if hasattr(value, "shape") else []


def _difference(ours: ArrayLike, theirs: TorchTensor, least: float = 1e-6) -> float:
    one, other = np.asarray(ours), theirs.detach().numpy()
    if one.shape != other.shape:
        return float("inf")
    scale = max(float(np.abs(other).max(initial=0.0)), least, 1e-6) if other.dtype != bool else 1.0
    return float(np.abs(one.astype(complex) - other.astype(complex)).max(initial=0.0)) / scale
