"""Keras's layers. A layer describes what `Sequential.net` makes when the shape of the data is known.

Letters: `B rows of a batch, F features, U units`.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from funcnet import functional as F
from funcnet import nn
from funcnet.sklearn.keras.constraints import L1, L1L2, L2, Constraint, MaxNorm

__all__ = [
    "Activation",
    "BatchNormalization",
    "Dense",
    "Dropout",
    "Flatten",
    "Input",
    "Layer",
    "MaskedLayer",
    "snake_case",
]

Shape = tuple[int, ...]
ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "linear": lambda x: x,
    "elu": F.elu,
    "exponential": jnp.exp,
    "gelu": F.gelu,
    "hard_sigmoid": F.hardsigmoid,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "mish": F.mish,
    "relu": F.relu,
    "relu6": F.relu6,
    "selu": F.selu,
    "sigmoid": F.sigmoid,
    "silu": F.silu,
    "softmax": lambda x: F.softmax(x, dim=-1),
    "softplus": F.softplus,
    "softsign": F.softsign,
    "swish": F.silu,
    "tanh": F.tanh,
}
_INITIALIZERS = jax.nn.initializers
INITIALIZERS: dict[str, Any] = {
    "glorot_normal": _INITIALIZERS.glorot_normal(),
    "glorot_uniform": _INITIALIZERS.glorot_uniform(),
    "he_normal": _INITIALIZERS.he_normal(),
    "he_uniform": _INITIALIZERS.he_uniform(),
    "lecun_normal": _INITIALIZERS.lecun_normal(),
    "lecun_uniform": _INITIALIZERS.lecun_uniform(),
    "normal": _INITIALIZERS.normal(0.05),
    "ones": _INITIALIZERS.ones,
    "orthogonal": _INITIALIZERS.orthogonal(),
    "random_normal": _INITIALIZERS.normal(0.05),
    "random_uniform": nn.init.uniform(-0.05, 0.05),
    "truncated_normal": nn.init.trunc_normal(0.0, 0.05, -0.1, 0.1),
    "uniform": nn.init.uniform(-0.05, 0.05),
    "zeros": _INITIALIZERS.zeros,
}
PENALTIES = {"l1": L1(), "l2": L2(), "l1_l2": L1L2(0.01, 0.01)}
CONSTRAINTS = {"max_norm": MaxNorm()}


@dataclasses.dataclass(kw_only=True)
class Layer:
    """The base class of layers.

    Attributes:
        input_shape: declared shape of a row before this layer. It is compared with the data. An entry None means any
            size.
        input_dim: number of features, for `input_shape=(input_dim,)`.
        name: name of the layer in the parameters.
    """

    input_shape: Shape | None = None
    input_dim: int | None = None
    name: str | None = None

    def module(self, shape: Shape) -> nn.Module | None:
        """Return the module for rows of a shape, or None if the layer is the identity."""
        return None

    def shape(self, shape: Shape) -> Shape:
        """Return the shape of the rows after this layer."""
        return shape

    def expected(self) -> Shape | None:
        """Return the declared shape of the rows before this layer, or None."""
        if self.input_dim is not None:
            return (self.input_dim,)
        return None if self.input_shape is None else tuple(self.input_shape)


class Input(Layer):
    """The declared shape of a row. It is compared with the data.

    Args:
        shape: the shape, without the batch.
        batch_size: ignored.
        name: name of the layer.

    Example:
        >>> Input((8,)).expected()
        (8,)

    Reference: keras.Input.
    """

    def __init__(self, shape: Shape, batch_size: int | None = None, *, name: str | None = None):
        if isinstance(shape, int):
            raise ValueError(f"Input: the shape is wrong; expected a tuple such as ({shape},), got {shape}.")
        super().__init__(name=name, input_shape=tuple(shape))


@dataclasses.dataclass
class Dense(Layer):
    """A linear layer with an activation.

    Args:
        units: U.
        activation: name of an activation, or a function.
        use_bias: whether to add a bias.
        kernel_initializer, bias_initializer: name of an initializer, or a function of (key, shape, dtype).
        kernel_regularizer, bias_regularizer: "l1", "l2", "l1_l2", or `L1`, `L2` or `L1L2`.
        kernel_constraint, bias_constraint: `MaxNorm`, or a function that is applied after each update.
        input_shape, input_dim, name: see `Layer`.

    Params: kernel (F, U) and bias (U,).
    Call: (B, …, F) -> (B, …, U).

    Example:
        >>> Dense(12, activation="relu").shape((8,))
        (12,)

    Reference: keras.layers.Dense.
    """

    units: int
    activation: Any = None
    use_bias: bool = True
    kernel_initializer: Any = "glorot_uniform"
    bias_initializer: Any = "zeros"
    _: dataclasses.KW_ONLY
    kernel_regularizer: L1L2 | str | None = None
    bias_regularizer: L1L2 | str | None = None
    kernel_constraint: Constraint | None = None
    bias_constraint: Constraint | None = None

    def module(self, shape: Shape) -> nn.Module:
        return _Dense(self, shape[-1])

    def shape(self, shape: Shape) -> Shape:
        return (*shape[:-1], self.units)

    def regularizers(self) -> dict[str, L1L2]:
        """Return {name of a parameter: its regularizer}."""
        given = {"kernel": self.kernel_regularizer, "bias": self.bias_regularizer if self.use_bias else None}
        found = {name: _by_name(PENALTIES, one) for name, one in given.items() if one is not None}
        for name, one in found.items():
            if not isinstance(one, L1L2):
                raise ValueError(
                    f"Dense: {name}_regularizer is wrong; expected L1(…), L2(…) or L1L2(…) of "
                    f"funcnet.sklearn.keras, or {', '.join(PENALTIES)}, got {given[name]!r}."
                )
        return found

    def constraints(self) -> dict[str, Constraint]:
        """Return {name of a parameter: the function that is applied after each update}."""
        given = {"kernel": self.kernel_constraint, "bias": self.bias_constraint if self.use_bias else None}
        found = {name: _by_name(CONSTRAINTS, one) for name, one in given.items() if one is not None}
        for name, one in found.items():
            if not callable(one) or isinstance(one, type):
                raise ValueError(
                    f"Dense: {name}_constraint is wrong; expected MaxNorm(…) of funcnet.sklearn.keras, a function of "
                    f"the array, or {', '.join(CONSTRAINTS)}, got {given[name]!r}."
                )
        return found


@dataclasses.dataclass
class Dropout(Layer):
    """Dropout.

    Args:
        rate: share of the entries that become zero.
        seed: ignored: the estimator's `random_state` is the seed.
        input_shape, input_dim, name: see `Layer`.

    Example:
        >>> Dropout(0.2).module((8,))
        Dropout(p=0.2, inplace=False)

    Reference: keras.layers.Dropout.
    """

    rate: float
    _: dataclasses.KW_ONLY
    seed: int | None = None

    def module(self, shape: Shape) -> nn.Module:
        return nn.Dropout(self.rate)


@dataclasses.dataclass
class Activation(Layer):
    """An activation.

    Args:
        activation: name of an activation, or a function.
        input_shape, input_dim, name: see `Layer`.

    Example:
        >>> Activation("relu").shape((8,))
        (8,)

    Reference: keras.layers.Activation.
    """

    activation: Any

    def module(self, shape: Shape) -> nn.Module:
        return _Activation(activation_of(self.activation))


@dataclasses.dataclass
class Flatten(Layer):
    """Flattens each row: (B, …) -> (B, F).

    Example:
        >>> Flatten().shape((8, 8))
        (64,)

    Reference: keras.layers.Flatten.
    """

    def module(self, shape: Shape) -> nn.Module:
        return nn.Flatten()

    def shape(self, shape: Shape) -> Shape:
        return (math.prod(shape),)


@dataclasses.dataclass
class BatchNormalization(Layer):
    """BatchNorm over the last axis, with a biased running variance, as in Keras.

    Rows that only fill the last batch of an epoch do not count.

    Args:
        axis: -1, the axis of the features.
        momentum: share of the running statistics that an update keeps.
        epsilon: number that is added to the variance.
        center, scale: whether to learn beta and gamma.
        input_shape, input_dim, name: see `Layer`.

    Params: gamma (F,) and beta (F,).
    State: moving_mean (F,) and moving_variance (F,).

    Example:
        >>> BatchNormalization().shape((8,))
        (8,)

    Reference: keras.layers.BatchNormalization.
    """

    axis: int = -1
    momentum: float = 0.99
    epsilon: float = 1e-3
    center: bool = True
    scale: bool = True

    def module(self, shape: Shape) -> nn.Module:
        if self.axis not in (-1, len(shape)):
            raise ValueError(f"BatchNormalization: axis is wrong; expected -1 or {len(shape)}, got {self.axis!r}.")
        return _BatchNormalization(self, shape[-1])


def snake_case(name: str) -> str:
    """Return a name as Keras writes functions: BinaryCrossentropy -> binary_crossentropy, L2 -> l2.

    Example:
        >>> snake_case("HeNormal"), snake_case("MSE"), snake_case("relu")
        ('he_normal', 'mse', 'relu')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def activation_of(activation: object) -> Callable[[jax.Array], jax.Array]:
    """Return the function of an activation that is given by its name, by a function, or as None.

    Raises:
        ValueError: if the name is unknown.
    """
    return _found("activation", ACTIVATIONS, "linear" if activation is None else activation)


def _by_name(table: Mapping[str, Any], given: object) -> Any:
    return table.get(snake_case(given)) if isinstance(given, str) else given


def _found(what: str, table: Mapping[str, Any], given: object) -> Any:
    found = _by_name(table, given)
    if not callable(found) or isinstance(found, type) or type(found).__module__.startswith("keras."):
        raise ValueError(f"layer: unknown {what}; expected {', '.join(table)}, or a function, got {given!r}.")
    return found


class _Dense(nn.Module):
    kernel: Any
    bias: Any

    def __init__(self, layer: Dense, features: int):
        super().__init__()
        start = _found("kernel_initializer", INITIALIZERS, layer.kernel_initializer)
        self.kernel = nn.Parameter((features, layer.units), start)
        bias = _found("bias_initializer", INITIALIZERS, layer.bias_initializer)
        self.register_parameter("bias", nn.Parameter((layer.units,), bias) if layer.use_bias else None)
        self.activation = activation_of(layer.activation)

    def forward(self, x: jax.Array) -> jax.Array:
        y = x @ self.kernel
        return self.activation(y if self.bias is None else y + self.bias)


class _Activation(nn.Module):
    def __init__(self, activation: Callable[[jax.Array], jax.Array]):
        super().__init__()
        self.activation = activation

    def forward(self, x: jax.Array) -> jax.Array:
        return self.activation(x)


class MaskedLayer(nn.Module):
    """The base class of modules whose `forward` takes `mask` (B,), the rows that count."""


class _BatchNormalization(MaskedLayer):
    moving_mean: Any
    moving_variance: Any

    def __init__(self, layer: BatchNormalization, features: int):
        super().__init__()
        self.momentum, self.epsilon = layer.momentum, layer.epsilon
        self.register_parameter("gamma", nn.Parameter((features,), nn.init.ones()) if layer.scale else None)
        self.register_parameter("beta", nn.Parameter((features,), nn.init.zeros()) if layer.center else None)
        self.moving_mean = nn.Buffer((features,), nn.init.zeros())
        self.moving_variance = nn.Buffer((features,), nn.init.ones())

    def forward(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        mean, variance = self.moving_mean, self.moving_variance
        if self.training:
            axes = tuple(range(x.ndim - 1))
            counted = None if mask is None else mask.reshape(-1, *[1] * (x.ndim - 1))  # (B, 1, …)
            mean, variance = x.mean(axes, where=counted), x.var(axes, where=counted)
            self.moving_mean = self.moving_mean * self.momentum + mean * (1 - self.momentum)
            self.moving_variance = self.moving_variance * self.momentum + variance * (1 - self.momentum)
        y = (x - mean) * jax.lax.rsqrt(variance + self.epsilon)
        y = y if self.gamma is None else y * self.gamma
        return y if self.beta is None else y + self.beta
