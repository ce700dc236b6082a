"""Regularizers and constraints of layers."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from funcnet import tree
from funcnet.tree import PyTree

__all__ = ["L1", "L1L2", "L2", "MaxNorm", "constrained", "regularized"]

EPSILON = 1e-7  # keras.config.epsilon()
Constraint = Callable[[jax.Array], jax.Array]
Path = tuple[str, str]  # (layer, parameter)


@dataclasses.dataclass(frozen=True)
class MaxNorm:
    """A limit on the norms of weights. Longer weight vectors are scaled to the limit after each update.

    Args:
        max_value: the limit.
        axis: the axis of a vector. Axis 0 of the kernel of `Dense` has the weights of one unit.

    Example:
        >>> bool(jnp.linalg.norm(MaxNorm(1.0)(jnp.array([[3.0], [4.0]]))) <= 1)
        True

    Reference: keras.constraints.MaxNorm.
    """

    max_value: float = 2.0
    axis: int = 0

    def __call__(self, weight: jax.Array) -> jax.Array:
        """Return the weight within the limit."""
        norms = jnp.sqrt(jnp.sum(weight**2, axis=self.axis, keepdims=True))
        return weight * (jnp.clip(norms, 0, self.max_value) / (EPSILON + norms))


@dataclasses.dataclass(frozen=True)
class L1L2:
    """A penalty `l1 * sum(|w|) + l2 * sum(w ** 2)` in the loss. The losses in `history_` do not contain it.

    Example:
        >>> L1L2(l2=0.5).gradient(jnp.array([1.0, -2.0]))
        Array([ 1., -2.], dtype=float32)

    Reference: keras.regularizers.L1L2.
    """

    l1: float = 0.0
    l2: float = 0.0

    def gradient(self, weight: jax.Array) -> jax.Array:
        """Return the gradient of the penalty."""
        return self.l1 * jnp.sign(weight) + 2 * self.l2 * weight


def L1(l1: float = 0.01) -> L1L2:
    """Return a penalty `l1 * sum(|w|)`; see `L1L2`.

    Example:
        >>> L1(0.1)
        L1L2(l1=0.1, l2=0.0)

    Reference: keras.regularizers.L1.
    """
    return L1L2(l1=l1)


def L2(l2: float = 0.01) -> L1L2:
    """Return a penalty `l2 * sum(w ** 2)`; see `L1L2`.

    Example:
        >>> L2(0.1)
        L1L2(l1=0.0, l2=0.1)

    Reference: keras.regularizers.L2.
    """
    return L1L2(l2=l2)


def regularized(regularizers: Mapping[Path, L1L2]) -> optax.GradientTransformation:
    """Return a transformation that adds the gradients of the penalties."""
    return _changing({path: lambda grad, w, one=one: grad + one.gradient(w) for path, one in regularizers.items()})


def constrained(constraints: Mapping[Path, Constraint]) -> optax.GradientTransformation:
    """Return a transformation after which the updated parameters satisfy the constraints."""
    return _changing({path: lambda update, w, one=one: one(w + update) - w for path, one in constraints.items()})


def _changing(changes: Mapping[Path, Callable[..., jax.Array]]) -> optax.GradientTransformation:
    """Return a transformation that changes some arrays by functions of (update, parameter)."""

    def update(updates: tree.Tree, state: PyTree, params: tree.Tree | None = None) -> tuple[tree.Tree, Any]:
        assert params is not None
        changed = {layer: dict(arrays) for layer, arrays in updates.items()}
        for (layer, name), change in changes.items():
            changed[layer][name] = change(changed[layer][name], params[layer][name])
        return changed, state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)  # type: ignore[arg-type]
