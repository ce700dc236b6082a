"""Affine maps of the last dimension: `linear` and `bilinear`. Letters: `I in_features, O out_features`."""

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.functional import checks

__all__ = ["bilinear", "linear"]


def linear(input: jax.Array, weight: jax.Array, bias: jax.Array | None = None) -> jax.Array:
    """Multiply the last dimension by a matrix: `y = x Aᵀ + b`, where A is the weight and b is the bias.

    Args:
        input: floating-point array of shape (*, I).
        weight: array of the input's dtype and of shape (O, I) or (I,). If the weight has shape (I,), there is a single
            output, and the result has no dimension O.
        bias: array of shape (O,), or one number of shape () or (1,) that is added to all outputs. If the weight has
            shape (I,), the bias must have shape ().

    Returns:
        An array of shape (*, O) in the input's dtype.

    Raises:
        ValueError: if the shapes do not match.
        TypeError: if the inputs are not floating-point, or their dtypes differ.

    Example:
        >>> linear(jnp.ones((2, 3)), jnp.ones((4, 3)), jnp.zeros(4)).shape
        (2, 4)

    Reference: torch.nn.functional.linear.
    """
    input = checks.floating("F.linear", "input", input)
    weight = checks.floating("F.linear", "weight", weight)
    checks.one_dtype("F.linear", input=input, weight=weight, bias=bias)
    if weight.ndim not in (1, 2):
        raise ValueError(
            f"F.linear: weight has the wrong rank; expected (out_features, in_features), got {weight.shape}. "
            "Reshape weight to a matrix."
        )
    if input.ndim == 0 or input.shape[-1] != weight.shape[-1]:
        raise ValueError(
            f"F.linear: input does not fit weight; expected (*, {weight.shape[-1]}), got {input.shape}. "
            f"The shape of weight is {weight.shape} = (out_features, in_features)."
        )
    if bias is not None and (weight.ndim == 1 or bias.shape not in ((), (1,))):
        checks.shape_of("F.linear", "bias", bias, weight.shape[:-1], "Pass one number per output.")
    out = lax.dot_general(input, weight, (((input.ndim - 1,), (weight.ndim - 1,)), ((), ())))
    return out if bias is None else out + bias


def bilinear(input1: jax.Array, input2: jax.Array, weight: jax.Array, bias: jax.Array | None = None) -> jax.Array:
    """Compute one bilinear form per output: `y_o = x1ᵀ A_o x2 + b_o`, where A is the weight and b is the bias.

    Args:
        input1: floating-point array of shape (*, I1).
        input2: floating-point array of shape (*, I2), with the same leading dimensions as `input1`.
        weight: array of shape (O, I1, I2).
        bias: array of shape (O,).

    Returns:
        An array of shape (*, O) in the input's dtype.

    Raises:
        ValueError: if the shapes do not match.
        TypeError: if the inputs are not floating-point, or their dtypes differ.

    Example:
        >>> bilinear(jnp.ones((2, 3)), jnp.ones((2, 5)), jnp.ones((4, 3, 5)))[0]
        Array([15., 15., 15., 15.], dtype=float32)

    Reference: torch.nn.functional.bilinear.
    """
    input1 = checks.floating("F.bilinear", "input1", input1)
    input2 = checks.floating("F.bilinear", "input2", input2)
    checks.one_dtype("F.bilinear", input1=input1, input2=input2, weight=weight, bias=bias)
    if weight.ndim != 3:
        raise ValueError(
            f"F.bilinear: weight has the wrong rank; expected (out_features, in1_features, in2_features), "
            f"got {weight.shape}."
        )
    shapes = (*input1.shape[:-1], weight.shape[1]), (*input1.shape[:-1], weight.shape[2])
    if (input1.shape, input2.shape) != shapes:
        raise ValueError(
            f"F.bilinear: the inputs do not fit weight or each other; expected {shapes[0]} and {shapes[1]}, got "
            f"{input1.shape} and {input2.shape}. The shape of weight is (out_features, in1_features, in2_features)."
        )
    checks.shape_of("F.bilinear", "bias", bias, weight.shape[:1], "Pass one number per output.")
    out = jnp.einsum("...i,oij,...j->...o", input1, weight, input2)
    return out if bias is None else out + bias
