"""Functions that return arrays of initial values, with the distributions of torch.nn.init.

`init.py` binds the keyword arguments of these functions, so that only (key, shape, dtype) remain. The shapes of weights
are in torch's order, (out, in, *kernel).

Reference: https://docs.pytorch.org/docs/stable/nn.init.html
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

Shape = tuple[int, ...]

__all__ = [
    "calculate_gain",
    "constant",
    "dirac",
    "eye",
    "fans",
    "kaiming_normal",
    "kaiming_uniform",
    "normal",
    "orthogonal",
    "sparse",
    "trunc_normal",
    "uniform",
    "xavier_normal",
    "xavier_uniform",
]


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the gain that torch recommends for a nonlinearity.

    Args:
        nonlinearity: 'linear', 'conv1d' … 'conv_transpose3d', 'sigmoid', 'tanh', 'relu', 'leaky_relu' or 'selu'.
        param: negative slope of leaky_relu; 0.01 by default.

    Raises:
        ValueError: if the nonlinearity is unknown, or the negative slope is not a number.

    >>> calculate_gain("tanh")
    1.6666666666666667
    """
    linear = {"linear", *(f"conv{t}{d}d" for t in ("", "_transpose") for d in (1, 2, 3)), "sigmoid"}
    if nonlinearity in linear:
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise ValueError(f"init.calculate_gain: expected a number as the negative slope, got {slope!r}.")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(
        f"init.calculate_gain: unknown nonlinearity {nonlinearity!r}; expected 'linear', 'conv1d' … "
        "'conv_transpose3d', 'sigmoid', 'tanh', 'relu', 'leaky_relu' or 'selu'."
    )


def fans(shape: Shape, where: str = "fans") -> tuple[int, int]:
    """Return (fan in, fan out): the number of inputs per output of a layer with this weight, and the number of outputs
    per input.

    Args:
        shape: shape of the weight, of at least two dimensions: (outputs, inputs, *kernel).
        where: name of the caller, for the error message.

    Raises:
        ValueError: if the shape has fewer than two dimensions.

    Reference: torch.nn.init._calculate_fan_in_and_fan_out.

    >>> fans((4, 3, 5, 5))
    (75, 100)
    """
    if len(shape) < 2:
        raise ValueError(f"init.{where}: fan in and fan out require at least 2 dimensions, got shape {shape}.")
    receptive = math.prod(shape[2:])
    return shape[1] * receptive, shape[0] * receptive


def _fan(shape: Shape, mode: str, where: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"init.{where}: expected mode 'fan_in' or 'fan_out', got {mode!r}.")
    return fans(shape, where)[mode == "fan_out"]


def _draw(
    sample: Callable[..., jax.Array], key: jax.Array, shape: Shape, dtype: DTypeLike, **bounds: float
) -> jax.Array:
    """Draw a matrix with `sample` and reshape it to `shape`. On the CPU, XLA takes four times as long to compile the
    direct draw of a 4-D array. XLA can divide a matrix along both dimensions, but not a flat array along dimension 1 of
    its later shape.
    """
    drawn = shape if len(shape) < 3 else (shape[0], math.prod(shape[1:]))
    return sample(key, shape=drawn, dtype=dtype, **bounds).reshape(shape)


def uniform(key, shape, dtype, *, a, b):
    return _draw(jax.random.uniform, key, shape, dtype, minval=a, maxval=b)


def normal(key, shape, dtype, *, mean, std):
    return mean + std * _draw(jax.random.normal, key, shape, dtype)


def trunc_normal(key, shape, dtype, *, mean, std, a, b):
    low, high = (a - mean) / std, (b - mean) / std
    drawn = _draw(jax.random.truncated_normal, key, shape, dtype, lower=low, upper=high)
    return jnp.clip(mean + std * drawn, a, b)


def constant(key, shape, dtype, *, val):
    return jnp.full(shape, val, dtype)


def eye(key, shape, dtype):
    if len(shape) != 2:
        raise ValueError(f"init.eye_: expected 2 dimensions, got shape {shape}.")
    return jnp.eye(*shape, dtype=dtype)


def dirac(key, shape, dtype, *, groups):
    if len(shape) not in (3, 4, 5):
        raise ValueError(f"init.dirac_: expected 3, 4 or 5 dimensions, got shape {shape}.")
    if shape[0] % groups:
        raise ValueError(
            f"init.dirac_: expected the size of dimension 0 to be divisible by groups={groups}, got {shape[0]}."
        )
    out = shape[0] // groups
    channel = jnp.arange(min(out, shape[1]))
    centre = tuple(n // 2 for n in shape[2:])
    weight = jnp.zeros(shape, dtype)
    for group in range(groups):
        weight = weight.at[(group * out + channel, channel, *centre)].set(1)
    return weight


def xavier_uniform(key, shape, dtype, *, gain):
    bound = gain * math.sqrt(6.0 / sum(fans(shape, "xavier_uniform_")))
    return uniform(key, shape, dtype, a=-bound, b=bound)


def xavier_normal(key, shape, dtype, *, gain):
    return normal(key, shape, dtype, mean=0.0, std=gain * math.sqrt(2.0 / sum(fans(shape, "xavier_normal_"))))


def kaiming_uniform(key, shape, dtype, *, a, mode, nonlinearity):
    if 0 in shape:
        return jnp.zeros(shape, dtype)
    bound = math.sqrt(3.0) * calculate_gain(nonlinearity, a) / math.sqrt(_fan(shape, mode, "kaiming_uniform_"))
    return uniform(key, shape, dtype, a=-bound, b=bound)


def kaiming_normal(key, shape, dtype, *, a, mode, nonlinearity):
    if 0 in shape:
        return jnp.zeros(shape, dtype)
    std = calculate_gain(nonlinearity, a) / math.sqrt(_fan(shape, mode, "kaiming_normal_"))
    return normal(key, shape, dtype, mean=0.0, std=std)


def orthogonal(key, shape, dtype, *, gain):
    if len(shape) < 2:
        raise ValueError(f"init.orthogonal_: expected at least 2 dimensions, got shape {shape}.")
    if 0 in shape:
        return jnp.zeros(shape, dtype)
    rows, columns = shape[0], math.prod(shape[1:])
    compute = dtype if jnp.finfo(dtype).bits > 32 else jnp.float32  # QR does not support 16-bit floats
    q, r = jnp.linalg.qr(jax.random.normal(key, (max(rows, columns), min(rows, columns)), compute))
    q = q * jnp.sign(jnp.diagonal(r))
    return (gain * (q.T if rows < columns else q)).reshape(shape).astype(dtype)


def sparse(key, shape, dtype, *, sparsity, std):
    if len(shape) != 2:
        raise ValueError(f"init.sparse_: expected 2 dimensions, got shape {shape}.")
    values_key, order_key = jax.random.split(key)
    zeros = math.ceil(sparsity * shape[0])
    rank = jnp.argsort(jnp.argsort(jax.random.uniform(order_key, shape), axis=0), axis=0)
    return jnp.where(rank < zeros, 0, std * jax.random.normal(values_key, shape, dtype)).astype(dtype)
