"""Keras's losses, with one loss for each row."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from funcnet.sklearn.criteria import by_row
from funcnet.sklearn.keras.constraints import EPSILON
from funcnet.sklearn.keras.layers import snake_case

__all__ = ["cross_entropy", "mean_squared_error", "of_one_hot", "row_loss"]

RowLoss = Callable[[jax.Array, jax.Array], jax.Array]


def binary_crossentropy(probabilities: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the binary cross-entropy of probabilities (B, 1) or (B,) and targets 0 and 1, as (B,)."""
    p, targets = _pair(probabilities, targets)
    p = jnp.clip(p, EPSILON, 1 - EPSILON)
    return -(targets * jnp.log(p) + (1 - targets) * jnp.log(1 - p)).mean(1)


def categorical_crossentropy(probabilities: jax.Array, codes: jax.Array) -> jax.Array:
    """Return the cross-entropy of probabilities (B, classes) and the numbers of the classes (B,), as (B,)."""
    if probabilities.ndim != 2 or probabilities.shape[1] < 2:
        raise ValueError(
            "loss: a categorical cross-entropy needs a probability for each class; expected outputs (B, classes), "
            f"got {('B', *probabilities.shape[1:])}. Use binary_crossentropy for one output."
        )
    p = probabilities / probabilities.sum(1, keepdims=True)
    p = jnp.clip(p, EPSILON, 1 - EPSILON)
    return -jnp.log(jnp.take_along_axis(p, codes.astype(jnp.int32).reshape(-1, 1), axis=1))[:, 0]


def mean_squared_error(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the mean squared error of each row."""
    outputs, targets = _pair(outputs, targets)
    return ((outputs - targets) ** 2).mean(1)


def mean_absolute_error(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the mean absolute error of each row."""
    outputs, targets = _pair(outputs, targets)
    return jnp.abs(outputs - targets).mean(1)


def mean_squared_logarithmic_error(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the mean squared difference of log(1 + y) of each row, with negative values as 0."""
    outputs, targets = (jnp.log(jnp.maximum(one, EPSILON) + 1) for one in _pair(outputs, targets))
    return ((outputs - targets) ** 2).mean(1)


def mean_absolute_percentage_error(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the mean absolute error of each row in percent of the targets."""
    outputs, targets = _pair(outputs, targets)
    return 100 * jnp.abs((targets - outputs) / jnp.maximum(jnp.abs(targets), EPSILON)).mean(1)


def huber(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the Huber loss of each row, which is linear beyond 1."""
    outputs, targets = _pair(outputs, targets)
    error = jnp.abs(outputs - targets)
    return jnp.where(error <= 1, 0.5 * error**2, error - 0.5).mean(1)


def log_cosh(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the mean of log(cosh(error)) of each row."""
    outputs, targets = _pair(outputs, targets)
    error = outputs - targets
    return (error + jax.nn.softplus(-2 * error) - jnp.log(jnp.asarray(2, error.dtype))).mean(1)


def hinge(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the mean of max(0, 1 - y · output) of each row, for targets 0 or -1, and 1."""
    outputs, targets = _pair(outputs, targets)
    return jnp.maximum(1 - jnp.where(targets == 0, -1, targets).astype(outputs.dtype) * outputs, 0).mean(1)


def cross_entropy(probabilities: jax.Array, codes: jax.Array) -> jax.Array:
    """Return the binary or the categorical cross-entropy of each row, by the number of outputs."""
    is_binary = probabilities.ndim == 1 or probabilities.shape[1] == 1
    return (binary_crossentropy if is_binary else categorical_crossentropy)(probabilities, codes)


LOSSES: dict[str, RowLoss] = {
    "binary_crossentropy": binary_crossentropy,
    "categorical_crossentropy": categorical_crossentropy,
    "sparse_categorical_crossentropy": categorical_crossentropy,
    "mean_squared_error": mean_squared_error,
    "mse": mean_squared_error,
    "mean_absolute_error": mean_absolute_error,
    "mae": mean_absolute_error,
    "mean_squared_logarithmic_error": mean_squared_logarithmic_error,
    "msle": mean_squared_logarithmic_error,
    "mean_absolute_percentage_error": mean_absolute_percentage_error,
    "mape": mean_absolute_percentage_error,
    "huber": huber,
    "log_cosh": log_cosh,
    "hinge": hinge,
}


def row_loss(loss: object) -> RowLoss:
    """Return a function of (outputs, targets) that computes one loss for each row.

    Args:
        loss: the name of a loss, which may be the name of Keras's class, or a function `loss(y_true, y_pred)`.

    Raises:
        ValueError: if the name is unknown.

    Example:
        >>> row_loss("mse")(jnp.array([[1.0], [3.0]]), jnp.array([[1.0], [1.0]]))
        Array([0., 4.], dtype=float32)
    """
    found = LOSSES.get(snake_case(loss)) if isinstance(loss, str) else loss
    if not callable(found):
        raise ValueError(
            f"compile: unknown loss; expected {', '.join(LOSSES)}, or a function of (y_true, y_pred), got {loss!r}."
        )
    return found if isinstance(loss, str) else _swapped(found)


@functools.lru_cache(maxsize=64)
def of_one_hot(loss: RowLoss, count: int) -> RowLoss:
    """Return a loss of (outputs, numbers of the classes) that gives one-hot targets to `loss`, unless `loss` is a
    categorical cross-entropy.

    Example:
        >>> of_one_hot(mean_squared_error, 2)(jnp.array([[0.5, 0.5], [0.0, 1.0]]), jnp.array([0, 0]))
        Array([0.25, 1.  ], dtype=float32)
    """
    if loss in (cross_entropy, categorical_crossentropy):
        return loss
    return lambda outputs, codes: loss(outputs, jax.nn.one_hot(codes, count, dtype=outputs.dtype))


@functools.lru_cache(maxsize=64)
def _swapped(loss: Callable[[Any, Any], jax.Array]) -> RowLoss:
    return by_row(lambda outputs, targets: loss(targets, outputs))


def _pair(outputs: jax.Array, targets: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return outputs and targets as (B, targets), in the dtype of the outputs."""
    if outputs.size != targets.size:
        raise ValueError(
            "loss: the numbers of outputs and targets differ; expected for each row the number of its targets, "
            f"{targets.size // max(len(targets), 1)}, got {outputs.size // max(len(outputs), 1)} outputs. Class "
            "numbers with an output for each class need sparse_categorical_crossentropy."
        )
    return outputs.reshape(len(outputs), -1), targets.astype(outputs.dtype).reshape(len(outputs), -1)
