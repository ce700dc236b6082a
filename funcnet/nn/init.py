"""Initialisers, as in torch.nn.init.

Functions with a trailing underscore replace the init of a parameter. Functions without an underscore make an init:

    nn.init.normal_(self.weight, std=0.02)          # in a constructor, as in torch
    nn.Parameter((3, 4), nn.init.normal(std=0.02))  # the same

An init is called as ``init(key, shape, dtype)`` and returns an array. Shapes are in torch's order, (out, in, *kernel).
The random numbers come from JAX, so the distributions are those of torch but the drawn values differ.

Reference: https://docs.pytorch.org/docs/stable/nn.init.html
"""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Init = Callable[[jax.Array, tuple[int, ...], Any], jax.Array]
Shape = tuple[int, ...]

__all__ = [
    "Init",
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros",
    "zeros_",
]

# ------------------------------------------------------------------------------------------------- helpers


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


def _fans(shape: Shape, where: str) -> tuple[int, int]:
    if len(shape) < 2:
        raise ValueError(f"init.{where}: fan in and fan out require at least 2 dimensions, got shape {shape}.")
    receptive = math.prod(shape[2:])
    return shape[1] * receptive, shape[0] * receptive


def _fan(shape: Shape, mode: str, where: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"init.{where}: expected mode 'fan_in' or 'fan_out', got {mode!r}.")
    return _fans(shape, where)[mode == "fan_out"]


def _draw(sample: Callable[..., jax.Array], key: jax.Array, shape: Shape, dtype: Any, **bounds: Any) -> jax.Array:
    """Draw in one dimension and reshape, because on CPU XLA compiles 4-D draws four times slower."""
    return sample(key, shape=(math.prod(shape),), dtype=dtype, **bounds).reshape(shape)


# ---------------------------------------------------------------------------------- the initialisers themselves


def _uniform(key, shape, dtype, *, a, b):
    return _draw(jax.random.uniform, key, shape, dtype, minval=a, maxval=b)


def _normal(key, shape, dtype, *, mean, std):
    return mean + std * _draw(jax.random.normal, key, shape, dtype)


def _trunc_normal(key, shape, dtype, *, mean, std, a, b):
    low, high = (a - mean) / std, (b - mean) / std
    drawn = _draw(jax.random.truncated_normal, key, shape, dtype, lower=low, upper=high)
    return jnp.clip(mean + std * drawn, a, b)


def _constant(key, shape, dtype, *, val):
    return jnp.full(shape, val, dtype)


def _eye(key, shape, dtype):
    if len(shape) != 2:
        raise ValueError(f"init.eye_: expected 2 dimensions, got shape {shape}.")
    return jnp.eye(*shape, dtype=dtype)


def _dirac(key, shape, dtype, *, groups):
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


def _xavier_uniform(key, shape, dtype, *, gain):
    bound = gain * math.sqrt(6.0 / sum(_fans(shape, "xavier_uniform_")))
    return _uniform(key, shape, dtype, a=-bound, b=bound)


def _xavier_normal(key, shape, dtype, *, gain):
    return _normal(key, shape, dtype, mean=0.0, std=gain * math.sqrt(2.0 / sum(_fans(shape, "xavier_normal_"))))


def _kaiming_uniform(key, shape, dtype, *, a, mode, nonlinearity):
    if 0 in shape:
        return jnp.zeros(shape, dtype)
    bound = math.sqrt(3.0) * calculate_gain(nonlinearity, a) / math.sqrt(_fan(shape, mode, "kaiming_uniform_"))
    return _uniform(key, shape, dtype, a=-bound, b=bound)


def _kaiming_normal(key, shape, dtype, *, a, mode, nonlinearity):
    if 0 in shape:
        return jnp.zeros(shape, dtype)
    std = calculate_gain(nonlinearity, a) / math.sqrt(_fan(shape, mode, "kaiming_normal_"))
    return _normal(key, shape, dtype, mean=0.0, std=std)


def _orthogonal(key, shape, dtype, *, gain):
    if len(shape) < 2:
        raise ValueError(f"init.orthogonal_: expected at least 2 dimensions, got shape {shape}.")
    if 0 in shape:
        return jnp.zeros(shape, dtype)
    rows, columns = shape[0], math.prod(shape[1:])
    compute = dtype if jnp.finfo(dtype).bits > 32 else jnp.float32  # QR does not support 16-bit floats
    q, r = jnp.linalg.qr(jax.random.normal(key, (max(rows, columns), min(rows, columns)), compute))
    q = q * jnp.sign(jnp.diagonal(r))
    return (gain * (q.T if rows < columns else q)).reshape(shape).astype(dtype)


def _sparse(key, shape, dtype, *, sparsity, std):
    if len(shape) != 2:
        raise ValueError(f"init.sparse_: expected 2 dimensions, got shape {shape}.")
    values_key, order_key = jax.random.split(key)
    zeros = math.ceil(sparsity * shape[0])
    rank = jnp.argsort(jnp.argsort(jax.random.uniform(order_key, shape), axis=0), axis=0)
    return jnp.where(rank < zeros, 0, std * jax.random.normal(values_key, shape, dtype)).astype(dtype)


# ------------------------------------------------------------------ functions that make or replace an init


def uniform(a: float = 0.0, b: float = 1.0) -> Init:
    """Return an init that draws from U(a, b)."""
    return functools.partial(_uniform, a=a, b=b)


def normal(mean: float = 0.0, std: float = 1.0) -> Init:
    """Return an init that draws from N(mean, std²)."""
    return functools.partial(_normal, mean=mean, std=std)


def trunc_normal(mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Init:
    """Return an init that draws from N(mean, std²) truncated to [a, b].

    As in torch, the bounds a and b are absolute, not multiples of std.
    """
    return functools.partial(_trunc_normal, mean=mean, std=std, a=a, b=b)


def constant(val: float) -> Init:
    """Return an init that fills the array with `val`."""
    return functools.partial(_constant, val=val)


def ones() -> Init:
    """Return an init that fills the array with ones."""
    return constant(1.0)


def zeros() -> Init:
    """Return an init that fills the array with zeros."""
    return constant(0.0)


def eye() -> Init:
    """Return an init that creates the identity matrix, for 2-D shapes."""
    return _eye


def dirac(groups: int = 1) -> Init:
    """Return an init for 3-D to 5-D shapes that makes a convolution the identity on as many channels as possible."""
    return functools.partial(_dirac, groups=groups)


def xavier_uniform(gain: float = 1.0) -> Init:
    """Return an init that draws from U(±gain·√(6/(fan_in + fan_out))). Reference: Glorot & Bengio 2010."""
    return functools.partial(_xavier_uniform, gain=gain)


def xavier_normal(gain: float = 1.0) -> Init:
    """Return an init that draws from N(0, gain²·2/(fan_in + fan_out)). Reference: Glorot & Bengio 2010."""
    return functools.partial(_xavier_normal, gain=gain)


def kaiming_uniform(a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Init:
    """Return an init that draws from U(±√3·gain/√fan). Reference: He et al. 2015."""
    return functools.partial(_kaiming_uniform, a=a, mode=mode, nonlinearity=nonlinearity)


def kaiming_normal(a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Init:
    """Return an init that draws from N(0, gain²/fan). Reference: He et al. 2015."""
    return functools.partial(_kaiming_normal, a=a, mode=mode, nonlinearity=nonlinearity)


def orthogonal(gain: float = 1) -> Init:
    """Return an init that creates a (semi-)orthogonal matrix, with trailing dimensions flattened into its columns.

    Reference: Saxe et al. 2013.
    """
    return functools.partial(_orthogonal, gain=gain)


def sparse(sparsity: float, std: float = 0.01) -> Init:
    """Return an init that draws from N(0, std²) and sets a fraction `sparsity` of each column to 0.

    Reference: Martens 2010.
    """
    return functools.partial(_sparse, sparsity=sparsity, std=std)


def _replace(make: Callable[..., Init], name: str, random: bool = True) -> Callable[..., Any]:
    """Return torch's in-place function `name`. Random functions accept torch's argument `generator` and ignore it."""
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    first = inspect.Parameter("tensor", either)
    last = [inspect.Parameter("generator", either, default=None)] if random else []
    signature = inspect.Signature([first, *inspect.signature(make).parameters.values(), *last])

    def in_place(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        tensor = given.pop("tensor")
        given.pop("generator", None)
        if not hasattr(tensor, "init") or hasattr(tensor, "named_parameters"):
            raise TypeError(
                f"init.{name}: expected the description of a parameter, got {type(tensor).__name__}. Arrays cannot "
                f"change in place, so call nn.init.{name.rstrip('_')}(…)(key, shape, dtype) for a new array."
            )
        tensor.init = make(**given)
        return tensor

    in_place.__name__ = in_place.__qualname__ = name
    in_place.__signature__ = signature  # type: ignore[attr-defined]
    in_place.__doc__ = f"Replace the init of a description with `{name.rstrip('_')}(…)`, and return the description."
    return in_place


uniform_ = _replace(uniform, "uniform_")
normal_ = _replace(normal, "normal_")
trunc_normal_ = _replace(trunc_normal, "trunc_normal_")
constant_ = _replace(constant, "constant_", random=False)
ones_ = _replace(ones, "ones_", random=False)
zeros_ = _replace(zeros, "zeros_", random=False)
eye_ = _replace(eye, "eye_", random=False)
dirac_ = _replace(dirac, "dirac_", random=False)
xavier_uniform_ = _replace(xavier_uniform, "xavier_uniform_")
xavier_normal_ = _replace(xavier_normal, "xavier_normal_")
kaiming_uniform_ = _replace(kaiming_uniform, "kaiming_uniform_")
kaiming_normal_ = _replace(kaiming_normal, "kaiming_normal_")
orthogonal_ = _replace(orthogonal, "orthogonal_")
sparse_ = _replace(sparse, "sparse_")
