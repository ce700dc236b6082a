"""Turn a class written for `torch.autograd.Function` into a JAX function with a custom derivative."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from funcnet.tree import PyTree

__all__ = ["autograd_function"]

Class = TypeVar("Class", bound=type)


class _Context(SimpleNamespace):
    """The data that `forward` keeps for `backward`: saved arrays and attributes."""

    saved_tensors: tuple[Any, ...] = ()
    needs_input_grad: tuple[bool, ...] = ()

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """Return `saved_tensors`. torch keeps this property for old code."""
        return self.saved_tensors

    def save_for_backward(self, *arrays: object) -> None:
        self.saved_tensors = arrays

    def mark_non_differentiable(self, *arrays: object) -> None:
        """Do nothing. JAX determines which results have gradients."""

    def mark_dirty(self, *arrays: object) -> None:
        """Do nothing. JAX arrays do not change in place."""

    def set_materialize_grads(self, value: bool) -> None:
        """Do nothing. Gradients are always arrays in JAX."""


def autograd_function(cls: Class) -> Class:
    """Add the function `apply` to a class with the static methods `forward(ctx, …)` and `backward(ctx, …)`.

    `apply` uses `jax.custom_vjp`. Arguments that are not arrays are static. `ctx` has `save_for_backward`,
    `saved_tensors` and all attributes that `forward` sets, as in torch. `setup_context(ctx, inputs, output)` is called
    if the class defines this method.

    Args:
        cls: the class. The class needs no base class.

    Returns:
        The class, with the static method `apply`.

    Differs from torch: `backward` runs while JAX traces the gradient, so it must use only JAX's functions. As in torch,
    second derivatives differentiate `backward`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> import funcnet.torchlike as tl
        >>> @tl.autograd_function
        ... class Clipped:
        ...     @staticmethod
        ...     def forward(ctx, x, bound):
        ...         ctx.bound = bound
        ...         return x
        ...     @staticmethod
        ...     def backward(ctx, gradient):
        ...         return gradient.clip(-ctx.bound, ctx.bound), None
        >>> float(jax.grad(lambda x: 5 * Clipped.apply(x, 2.0))(1.0))
        2.0

    Reference: https://docs.pytorch.org/docs/stable/autograd.html#torch.autograd.Function
    """
    cls.apply = staticmethod(functools.partial(_apply, cls))  # type: ignore[attr-defined]
    return cls


def _apply(cls: Any, *arguments: PyTree) -> Any:
    leaves, structure = jax.tree.flatten(list(arguments))
    moving = [place for place, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
    arrays = [jnp.asarray(leaves[place]) for place in moving]
    fixed = [jax.lax.stop_gradient(one) for one in arrays]  # `forward` runs without gradients, as in torch
    given = jax.tree.unflatten(structure, _filled(leaves, moving, fixed))
    context = _Context(needs_input_grad=tuple(isinstance(one, jax.Array) for one in given))
    if hasattr(cls, "setup_context"):
        output = cls.forward(*given)
        cls.setup_context(context, tuple(given), output)
    else:
        output = cls.forward(context, *given)
    items = list(output) if isinstance(output, tuple | list) else [output]
    places = [place for place, one in enumerate(items) if isinstance(one, jax.Array)]
    outputs = [items[place] for place in places]
    kept = {name: value for name, value in vars(context).items() if _is_arrays(value)}
    static = {name: value for name, value in vars(context).items() if name not in kept}
    own, kept_structure = jax.tree.flatten(kept)
    sources = [_place_of(one, [*fixed, *outputs]) for one in own]

    @jax.custom_vjp
    def attached(arrays: list[jax.Array], outputs: list[jax.Array], own: list[jax.Array]) -> list[jax.Array]:
        return outputs

    def forward(arrays: list[jax.Array], outputs: list[jax.Array], own: list[jax.Array]) -> tuple[Any, Any]:
        # For second derivatives: a saved value depends on the arguments if it is an argument or a result.
        found = attached(arrays, outputs, own)
        places = zip(sources, own, strict=True)
        saved = [one if source is None else [*arrays, *found][source] for source, one in places]
        return found, (saved, arrays, outputs, own)

    def backward(residuals: tuple[Any, ...], gradients: list[Any]) -> tuple[Any, ...]:
        saved, *inputs = residuals
        each: list[Any] = [None] * len(items)
        for place, one, like in zip(places, gradients, inputs[1], strict=True):
            each[place] = jnp.zeros(like.shape) if one.dtype == jax.dtypes.float0 else one
        found = cls.backward(_Context(**{**static, **jax.tree.unflatten(kept_structure, saved)}), *each)
        by_leaf = _by_leaf(jax.tree.unflatten(structure, range(len(leaves))), found)
        first = [_gradient(by_leaf.get(place), one) for place, one in zip(moving, inputs[0], strict=True)]
        return first, *([_gradient(None, one) for one in part] for part in inputs[1:])

    attached.defvjp(forward, backward)
    found = _filled(items, places, attached(arrays, outputs, own))
    return type(output)(found) if isinstance(output, tuple | list) else found[0]


def _filled(items: list[Any], places: list[int], values: list[Any]) -> list[Any]:
    """Return a copy of `items` with `values` at the positions `places`."""
    result = list(items)
    for place, value in zip(places, values, strict=True):
        result[place] = value
    return result


def _place_of(array: jax.Array, known: list[jax.Array]) -> int | None:
    """Return the position of an array in a list, or None if the list does not contain this array."""
    return next((place for place, one in enumerate(known) if one is array), None)


def _by_leaf(spread: list[Any], found: PyTree) -> dict[int, Any]:
    """Return {number of an array argument: its gradient from `backward`}. Leave out containers of arrays."""
    given = list(found) if isinstance(found, tuple | list) else [found]
    return {part: gradient for part, gradient in zip(spread, given, strict=False) if isinstance(part, int)}


def _is_arrays(value: PyTree) -> bool:
    """Return whether a value that `forward` saved in `ctx` consists only of arrays, which JAX then has to trace."""
    leaves = jax.tree.leaves(value)
    return bool(leaves) and all(isinstance(leaf, jax.Array) for leaf in leaves)


def _gradient(given: ArrayLike | None, like: jax.Array) -> Any:
    if not jnp.issubdtype(like.dtype, jnp.inexact):
        return np.zeros(like.shape, jax.dtypes.float0)
    return jnp.zeros_like(like) if given is None else jnp.asarray(given, like.dtype)
