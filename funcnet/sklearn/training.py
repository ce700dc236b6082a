"""Training on arrays in memory, as pure functions of one candidate. `vmap` runs them for many candidates at once.

A candidate is a choice of values, such as a dropout rate and a learning rate, and of the rows to train on. Letters: `N
rows of the data, S batches of an epoch, B rows of a batch`.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from funcnet import tree
from funcnet.sklearn.traced_parameters import Blueprint

__all__ = [
    "Batches",
    "Fitting",
    "Recipe",
    "TrainingRows",
    "batches_of",
    "compiled",
    "mean_loss",
    "outputs_of",
    "run_epoch",
    "start",
]

Values = Mapping[str, Any]
RowLosses = Callable[[jax.Array, jax.Array], jax.Array]


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The settings that all candidates of a program have in common. Equal recipes have the same compiled programs.

    Attributes:
        blueprint: how the net and the optimizer are made.
        criterion: a `fingerprint` of the loss.
        loss: function `loss(outputs, targets)`, which returns one loss for each row.
        batch_size: B.
        shuffle: whether each epoch reads the rows in a new order.
        dtype: dtype of the parameters and of the inputs.
        knows_rows: if True, the loss of a batch is divided by its number of rows and not by the sum of their weights,
            and the net gets `mask`, which marks the rows of a batch that count.
        is_padded: whether a batch may have no rows of a candidate, because other candidates have more batches.
    """

    blueprint: Blueprint
    criterion: str
    loss: RowLosses = dataclasses.field(compare=False)
    batch_size: int
    shuffle: bool
    knows_rows: bool
    dtype: str = "float32"
    is_padded: bool = False


class TrainingRows(NamedTuple):
    """The data: inputs (N, …), targets (N, …), and the weights of the rows in the loss (N,)."""

    inputs: Any
    targets: Any
    weights: Any


class Batches(NamedTuple):
    """The batches of an epoch: the numbers of their rows, int32 (S, B), and which of them count, bool (S, B)."""

    numbers: Any
    counted: Any


class Fitting(NamedTuple):
    """The arrays that an epoch changes."""

    params: tree.Tree
    state: tree.Tree
    opt_state: Any


def start(recipe: Recipe, values: Values, key: jax.Array) -> Fitting:
    """Return the arrays before the first epoch.

    Args:
        recipe: the recipe.
        values: the values of the candidate, Python values or traced scalars.
        key: the random key of the candidate.
    """
    params, state = tree.cast(recipe.blueprint.net(values).init(key), recipe.dtype)
    return Fitting(params, state, recipe.blueprint.transformation(values).init(params))


def batches_of(recipe: Recipe, train: np.ndarray, seed: int, epoch: int, steps: int | None = None) -> Batches:
    """Return the batches of an epoch as NumPy arrays.

    The last batch is filled with rows from the beginning of the epoch, whose losses do not count. Layers such as
    BatchNorm see them.

    Args:
        recipe: the recipe.
        train: the numbers of the rows of the candidate.
        seed: the seed of the candidate.
        epoch: number of the epoch, from 0.
        steps: S, which is the number of batches that the rows fill by default.
    """
    count = len(train)
    order = np.random.default_rng([seed, epoch]).permutation(count) if recipe.shuffle else np.arange(count)
    steps = -(-count // recipe.batch_size) if steps is None else steps
    places = np.arange(steps * recipe.batch_size).reshape(steps, recipe.batch_size)
    return Batches(train[order[places % count]].astype(np.int32), places < count)


def run_epoch(
    recipe: Recipe,
    values: Values,
    fitting: Fitting,
    rows: TrainingRows,
    batches: Batches,
    key: jax.Array,
    number: jax.Array,
) -> tuple[Fitting, jax.Array]:
    """Train for one epoch. Return the new arrays, and the mean of the losses, as a scalar.

    Args:
        recipe, values, key: as in `start`.
        fitting: the arrays before the epoch.
        rows: the data.
        batches: the batches of the epoch.
        number: number of the epoch, from 0.
    """
    net, optimizer = recipe.blueprint.net(values), recipe.blueprint.transformation(values)
    drawn = jax.random.fold_in(key, number + 1)
    least = np.finfo(recipe.dtype).tiny

    def step(carry: tuple[Fitting, jax.Array, jax.Array], batch: tuple[Any, ...]) -> tuple[Any, None]:
        (before, total, weight), (place, (chosen, counted)) = carry, batch
        weights = jnp.where(counted, rows.weights[chosen], jnp.zeros((), rows.weights.dtype))
        divisor = counted.sum().astype(weights.dtype) if recipe.knows_rows else weights.sum()
        mask = {"mask": counted} if recipe.knows_rows else {}

        def objective(params: tree.Tree) -> tuple[jax.Array, Any]:
            rng = jax.random.fold_in(drawn, place)
            outputs, state = net.apply(params, before.state, rows.inputs[chosen], training=True, rng=rng, **mask)
            summed = (recipe.loss(outputs, rows.targets[chosen]) * weights).sum()
            return summed / jnp.maximum(divisor, least), (summed, state)

        gradient, (summed, state) = jax.grad(objective, has_aux=True)(before.params)
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer
            updates, opt_state = optimizer.update(gradient, before.opt_state, before.params)
        after = Fitting(optax.apply_updates(before.params, updates), state, opt_state)
        if recipe.is_padded:
            has_rows = counted.any()
            after = jax.tree.map(lambda new, old: jnp.where(has_rows, new, old), after, before)
        return (after, total + summed, weight + divisor), None

    zero = jnp.zeros((), rows.weights.dtype)
    steps = jnp.arange(len(batches.numbers), dtype=jnp.int32)
    (fitting, total, weight), _ = jax.lax.scan(step, (fitting, zero, zero), (steps, batches))
    return fitting, total / jnp.maximum(weight, least)


def mean_loss(recipe: Recipe, values: Values, fitting: Fitting, rows: TrainingRows) -> jax.Array:
    """Return the mean loss of all rows in evaluation mode, weighted by their weights."""
    losses = recipe.loss(outputs_of(recipe, values, fitting, rows.inputs), rows.targets)
    return (losses * rows.weights).sum() / jnp.maximum(rows.weights.sum(), jnp.finfo(rows.weights.dtype).tiny)


def outputs_of(recipe: Recipe, values: Values, fitting: Fitting, inputs: jax.Array) -> jax.Array:
    """Return the outputs of the net for some rows in evaluation mode."""
    outputs: jax.Array = recipe.blueprint.net(values).apply(fitting.params, fitting.state, inputs)[0]
    return outputs


@functools.lru_cache(maxsize=64)
def compiled(function: Callable[..., Any], recipe: Recipe) -> Callable[..., Any]:
    """Return the compiled function of a recipe: one of those in this file. Equal recipes share it."""
    return jax.jit(functools.partial(function, recipe))
