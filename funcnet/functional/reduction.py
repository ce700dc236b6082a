"""What the losses share: checks of their arguments, and the sum over their terms."""

import warnings

import jax
import jax.numpy as jnp

from funcnet.functional import checks

__all__ = [
    "EPSILON",
    "broadcast",
    "clamp_at_zero",
    "class_weights",
    "labels",
    "magnitude",
    "matched",
    "reduced",
    "weights",
]


# What torch adds to or clamps at in C++: 1e-12 in single precision, in float64 too.
EPSILON = 9.999999960041972e-13


def reduced(losses: jax.Array, reduction: str, divisor: jax.Array | None = None) -> jax.Array:
    """The terms ('none'), their sum, or ('mean') their sum over `divisor`: the number of terms unless given."""
    if reduction == "none":
        return losses
    total = losses.sum()
    if reduction == "sum":
        return total
    return total / (jnp.asarray(losses.size, losses.dtype) if divisor is None else divisor)


def broadcast(where: str, **arrays: jax.Array) -> tuple[int, ...]:
    """The shape to which all broadcast, else ValueError."""
    shapes = [array.shape for array in arrays.values()]
    try:
        return jnp.broadcast_shapes(*shapes)
    except ValueError:
        names = " and ".join(arrays)
        shown = ", ".join(f"{name} {shape}" for name, shape in zip(arrays, shapes, strict=True))
        raise ValueError(
            f"{where}: {names} do not fit each other; expected shapes that broadcast, got {shown}. Reshape one of them."
        ) from None


def matched(where: str, input: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(input, target) in the dtype to compute in; torch's warning where their shapes differ.

    Call it from the public function itself: the warning points at that function's caller.
    """
    input, target = checks.floating(where, "input", input), checks.floating(where, "target", target)
    checks.one_dtype(where, input=input, target=target)
    if input.shape != target.shape:
        try:
            jnp.broadcast_shapes(input.shape, target.shape)
        except ValueError:
            raise ValueError(
                f"{where}: target does not fit input; expected {input.shape}, got {target.shape}."
            ) from None
        warnings.warn(
            f"{where}: target has shape {target.shape}, input {input.shape}: they are broadcast, which is rarely what "
            "was meant.",
            stacklevel=3,
        )
    dtype = checks.wide_dtype(input)
    return input.astype(dtype), target.astype(dtype)


def labels(where: str, target: jax.Array, input: jax.Array) -> jax.Array:
    """Labels such as 1 and -1 in the dtype to compute in: they may be integers, or of the input's dtype."""
    target = jnp.asarray(target)
    if not jnp.issubdtype(target.dtype, jnp.integer):
        checks.one_dtype(where, input=input, target=checks.floating(where, "target", target))
    return target.astype(checks.wide_dtype(input))


def weights(where: str, name: str, weight: jax.Array, shape: tuple[int, ...], dtype: jax.typing.DTypeLike) -> jax.Array:
    """`weight` in `dtype`, else ValueError where it does not broadcast to `shape`."""
    try:
        fits = jnp.broadcast_shapes(weight.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{where}: {name} does not fit; expected a shape that broadcasts to {shape}, got {weight.shape}. "
            "It holds a number a term."
        )
    return weight.astype(dtype)


def class_weights(where: str, weight: jax.Array | None, input: jax.Array, classes: int) -> jax.Array | None:
    """(C,) weights in the dtype to compute in: they may have that dtype or, as torch requires, the input's."""
    if weight is None:
        return None
    weight = jnp.asarray(weight)
    wide = checks.wide_dtype(input)
    checks.shape_of(where, "weight", weight, (classes,), "It holds one number a class.")
    if weight.dtype != wide:
        checks.one_dtype(where, input=input, weight=weight)
    return weight.astype(wide)


def magnitude(x: jax.Array) -> jax.Array:
    """`|x|`, with torch's derivative 0 at 0 (JAX's is 1)."""
    return x * jax.lax.stop_gradient(jnp.sign(x))


def clamp_at_zero(x: jax.Array) -> jax.Array:
    """`max(x, 0)` with the derivative of torch's clamp, 1 at 0."""
    return jnp.where(x < 0, 0, x)
