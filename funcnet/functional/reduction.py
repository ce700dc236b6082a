"""Code shared by the losses: checks of their arguments, and the reduction of their terms."""

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


# The constant that torch's C++ code adds or uses as a bound. It is 1e-12 in float32, even for float64 inputs.
EPSILON = 9.999999960041972e-13


def reduced(losses: jax.Array, reduction: str, divisor: jax.Array | None = None) -> jax.Array:
    """Return the terms of a loss for 'none', their sum for 'sum', or their sum divided by `divisor` for 'mean'. The
    default divisor is the number of terms.
    """
    if reduction == "none":
        return losses
    total = losses.sum()
    if reduction == "sum":
        return total
    return total / (jnp.asarray(losses.size, losses.dtype) if divisor is None else divisor)


def broadcast(where: str, **arrays: jax.Array) -> tuple[int, ...]:
    """Return the shape to which all arrays broadcast, or raise a ValueError."""
    shapes = [array.shape for array in arrays.values()]
    try:
        return jnp.broadcast_shapes(*shapes)
    except ValueError:
        names = " and ".join(arrays)
        shown = ", ".join(f"{name} {shape}" for name, shape in zip(arrays, shapes, strict=True))
        raise ValueError(
            f"{where}: {names} do not match; expected shapes that broadcast, got {shown}. Reshape one of the arrays."
        ) from None


def matched(where: str, input: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the input and the target of a loss in the dtype of the computation. As in torch, issue a warning if their
    shapes differ.

    Only public functions may call `matched` directly, because the warning is reported at the line that called the
    public function.
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
            f"{where}: target has shape {target.shape}, but input has shape {input.shape}. The two are broadcast, "
            "which is rarely intended.",
            stacklevel=4,  # the wrapper of the public name is a level
        )
    dtype = checks.wide_dtype(input)
    return input.astype(dtype), target.astype(dtype)


def labels(where: str, target: jax.Array, input: jax.Array) -> jax.Array:
    """Cast the labels of a loss, such as 1 and -1, to the dtype of the computation. Floating-point labels must have the
    input's dtype.
    """
    target = jnp.asarray(target)
    if not jnp.issubdtype(target.dtype, jnp.integer):
        checks.one_dtype(where, input=input, target=checks.floating(where, "target", target))
    return target.astype(checks.wide_dtype(input))


def weights(where: str, name: str, weight: jax.Array, shape: tuple[int, ...], dtype: jax.typing.DTypeLike) -> jax.Array:
    """Cast the weights of a loss to `dtype`, or raise a ValueError if they do not broadcast to `shape`."""
    try:
        fits = jnp.broadcast_shapes(weight.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{where}: {name} does not fit; expected a shape that broadcasts to {shape}, got {weight.shape}. Pass one "
            "number per term of the loss."
        )
    return weight.astype(dtype)


def class_weights(where: str, weight: jax.Array | None, input: jax.Array, classes: int) -> jax.Array | None:
    """Cast class weights (C,) to the dtype of the computation. The class weights must have the dtype of the computation
    or, as in torch, the dtype of the input.
    """
    if weight is None:
        return None
    weight = jnp.asarray(weight)
    wide = checks.wide_dtype(input)
    checks.shape_of(where, "weight", weight, (classes,), "Pass one number per class.")
    if weight.dtype != wide:
        checks.one_dtype(where, input=input, weight=weight)
    return weight.astype(wide)


def magnitude(x: jax.Array) -> jax.Array:
    """Return `|x|`. The derivative at 0 is 0, as in torch, whereas the derivative of `jnp.abs` is 1."""
    return x * jax.lax.stop_gradient(jnp.sign(x))


def clamp_at_zero(x: jax.Array) -> jax.Array:
    """Return `max(x, 0)` with the derivative of torch's clamp, which is 1 at 0."""
    return jnp.where(x < 0, 0, x)
