"""Keras's optimizers, with Keras's formulas and default values.

optax has some of them with other formulas: its Adam adds epsilon to the corrected square root, Keras's to the square
root before the correction.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from funcnet.tree import PyTree

__all__ = ["SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Nadam", "Optimizer", "RMSprop", "optimizer_of"]

Rule = Callable[..., tuple[jax.Array, ...]]


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """The base class of optimizers.

    Attributes:
        learning_rate: the learning rate.
    """

    learning_rate: float = 0.001

    def transformation(self) -> optax.GradientTransformation:
        """Return the optax transformation."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class SGD(Optimizer):
    """Gradient descent, with momentum.

    Example:
        >>> SGD(learning_rate=0.1, momentum=0.9)
        SGD(learning_rate=0.1, momentum=0.9, nesterov=False)

    Reference: keras.optimizers.SGD.
    """

    learning_rate: float = 0.01
    momentum: float = 0.0
    nesterov: bool = False

    def transformation(self) -> optax.GradientTransformation:
        return optax.sgd(self.learning_rate, self.momentum, self.nesterov)


@dataclasses.dataclass(frozen=True)
class RMSprop(Optimizer):
    """RMSprop.

    Example:
        >>> RMSprop().rho
        0.9

    Reference: keras.optimizers.RMSprop.
    """

    rho: float = 0.9
    momentum: float = 0.0
    epsilon: float = 1e-7

    def transformation(self) -> optax.GradientTransformation:
        return optax.rmsprop(self.learning_rate, self.rho, self.epsilon, momentum=self.momentum)


@dataclasses.dataclass(frozen=True)
class Adagrad(Optimizer):
    """Adagrad.

    Example:
        >>> Adagrad().initial_accumulator_value
        0.1

    Reference: keras.optimizers.Adagrad.
    """

    initial_accumulator_value: float = 0.1
    epsilon: float = 1e-7

    def transformation(self) -> optax.GradientTransformation:
        return optax.adagrad(self.learning_rate, self.initial_accumulator_value, self.epsilon)


@dataclasses.dataclass(frozen=True)
class Adadelta(Optimizer):
    """Adadelta.

    Example:
        >>> Adadelta().rho
        0.95

    Reference: keras.optimizers.Adadelta.
    """

    rho: float = 0.95
    epsilon: float = 1e-7

    def transformation(self) -> optax.GradientTransformation:
        return optax.adadelta(self.learning_rate, self.rho, self.epsilon)


@dataclasses.dataclass(frozen=True)
class Adam(Optimizer):
    """Adam.

    Example:
        >>> Adam().epsilon
        1e-07

    Reference: keras.optimizers.Adam.
    """

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    amsgrad: bool = False

    def transformation(self) -> optax.GradientTransformation:
        def rule(
            step: jax.Array, gradient: jax.Array, m: jax.Array, v: jax.Array, largest: jax.Array
        ) -> tuple[jax.Array, ...]:
            m, v = _moments(gradient, m, v, self.beta_1, self.beta_2)
            largest = jnp.maximum(largest, v) if self.amsgrad else v
            rate = self.learning_rate * jnp.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)
            return -rate * m / (jnp.sqrt(largest) + self.epsilon), m, v, largest

        return _by_rule(rule, 3)


@dataclasses.dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam with weight decay of all parameters.

    Example:
        >>> AdamW().weight_decay
        0.004

    Reference: keras.optimizers.AdamW.
    """

    weight_decay: float = 0.004
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7
    amsgrad: bool = False

    def transformation(self) -> optax.GradientTransformation:
        adam = Adam(self.learning_rate, self.beta_1, self.beta_2, self.epsilon, self.amsgrad)
        return optax.chain(adam.transformation(), optax.add_decayed_weights(-self.learning_rate * self.weight_decay))


@dataclasses.dataclass(frozen=True)
class Adamax(Optimizer):
    """Adamax.

    Example:
        >>> Adamax().beta_2
        0.999

    Reference: keras.optimizers.Adamax.
    """

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7

    def transformation(self) -> optax.GradientTransformation:
        def rule(step: jax.Array, gradient: jax.Array, m: jax.Array, u: jax.Array) -> tuple[jax.Array, ...]:
            m = m + (gradient - m) * (1 - self.beta_1)
            u = jnp.maximum(self.beta_2 * u, jnp.abs(gradient))
            return -self.learning_rate * m / ((1 - self.beta_1**step) * (u + self.epsilon)), m, u

        return _by_rule(rule, 2)


@dataclasses.dataclass(frozen=True)
class Nadam(Optimizer):
    """Adam with Nesterov momentum.

    Example:
        >>> Nadam().beta_1
        0.9

    Reference: keras.optimizers.Nadam.
    """

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7

    def transformation(self) -> optax.GradientTransformation:
        def momentum(step: jax.Array) -> jax.Array:
            return self.beta_1 * (1 - 0.5 * 0.96**step)

        def rule(
            step: jax.Array, gradient: jax.Array, m: jax.Array, v: jax.Array, log_product: jax.Array
        ) -> tuple[jax.Array, ...]:
            m, v = _moments(gradient, m, v, self.beta_1, self.beta_2)
            now, then = momentum(step), momentum(step + 1)
            log_product = log_product + jnp.log(now)  # of the momenta so far
            product = jnp.exp(log_product)
            mean = then * m / (1 - product * then) + (1 - now) * gradient / (1 - product)
            square = v / (1 - self.beta_2**step)
            return -self.learning_rate * mean / (jnp.sqrt(square) + self.epsilon), m, v, log_product

        return _by_rule(rule, 3)


OPTIMIZERS: dict[str, type[Optimizer]] = {
    one.__name__.lower(): one for one in (Adadelta, Adagrad, Adam, Adamax, AdamW, Nadam, RMSprop, SGD)
}


def optimizer_of(optimizer: Any, **changes: Any) -> optax.GradientTransformation:
    """Return the transformation of an optimizer that is given as in `Sequential.compile`.

    Args:
        optimizer: the name of an optimizer (case does not matter), an `Optimizer` or its class, or an optax
            transformation.
        **changes: arguments of the optimizer that are set or replaced.

    Raises:
        ValueError: if the optimizer or a parameter is unknown.

    Example:
        >>> len(optimizer_of("adam", learning_rate=0.01))
        2
    """
    if isinstance(optimizer, optax.GradientTransformation):
        if changes:
            raise ValueError(
                f"compile: an optax transformation has no parameters; expected an optimizer of funcnet.sklearn.keras "
                f"with {', '.join(changes)}, got an optax transformation."
            )
        return optimizer
    found = OPTIMIZERS.get(optimizer.lower()) if isinstance(optimizer, str) else optimizer
    if isinstance(found, type) and issubclass(found, Optimizer):
        found = found()
    if not isinstance(found, Optimizer):
        names = ", ".join(one.__name__ for one in OPTIMIZERS.values())
        raise ValueError(
            f"compile: unknown optimizer; expected {names}, or an optax transformation, got {optimizer!r}."
        )
    known = [field.name for field in dataclasses.fields(found)]
    for name in changes:
        if name not in known:
            raise ValueError(
                f"compile: unknown parameter {name!r} of {type(found).__name__}; expected one of {', '.join(known)}."
            )
    return dataclasses.replace(found, **changes).transformation()


def _moments(
    gradient: jax.Array, m: jax.Array, v: jax.Array, beta_1: float, beta_2: float
) -> tuple[jax.Array, jax.Array]:
    return m + (gradient - m) * (1 - beta_1), v + (gradient**2 - v) * (1 - beta_2)


def _by_rule(rule: Rule, slots: int) -> optax.GradientTransformation:
    """Return a transformation that applies a rule to each array.

    Args:
        rule: function `rule(step, gradient, *arrays)`, with the number of the step from 1. It returns (update,
            *arrays).
        slots: number of arrays that are kept for each parameter. They begin as zeros.
    """

    def init(params: PyTree) -> Any:
        return jnp.zeros((), jnp.int32), [jax.tree.map(jnp.zeros_like, params) for _ in range(slots)]

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> Any:
        (count, kept), (leaves, structure) = state, jax.tree.flatten(updates)
        columns = [leaves, *map(jax.tree.leaves, kept)]
        found = [rule((count + 1).astype(leaves[0].dtype), *row) for row in zip(*columns, strict=True)]
        first, *others = (jax.tree.unflatten(structure, column) for column in zip(*found, strict=True))
        return first, (count + 1, others)

    return optax.GradientTransformation(init, update)
