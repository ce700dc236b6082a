"""The training step and the evaluation step, each written once for one device and for many.

A task is two pure functions:

- `counts(batch) -> {term: count}`: over how many things each term of the loss is averaged;
- `objective(params, state, batch, *, training, rng) -> ({term: {"loss": sum, metric: sum, …}}, state)`: sums.

The loss is Σ_term loss_sum / count, both over all devices and micro-batches: the mean over all tokens, never a mean of
means, however ragged the parts. A term that counts nothing in a batch adds nothing to it.

Letters: A micro-batches, N devices.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from funcnet import tree
from funcnet.parallel import average_over, check_batch_size, fold_in_device, sum_over
from funcnet.train.precision import FLOAT32, Precision, at_least_float32
from funcnet.train.state import TrainState

__all__ = ["Counts", "Objective", "evaluate", "make_eval_step", "make_step"]

Batch = Mapping[str, jax.Array]
Counts = Callable[[Batch], dict[str, jax.Array]]
Objective = Callable[..., tuple[dict[str, dict[str, jax.Array]], tree.Tree]]


def make_step(
    objective: Objective,
    counts: Counts,
    optimizer: optax.GradientTransformation,
    *,
    schedule: optax.Schedule | None = None,
    accumulate: int = 1,
    precision: Precision = FLOAT32,
    trainable: tree.Patterns = "**",
    buffers: Literal["synced", "averaged"] = "synced",
) -> Callable[..., tuple[TrainState, dict[str, jax.Array]]]:
    """The step `step(train_state, batch, key, *, axis_name=None) -> (train_state, metrics)`, for `parallelize`.

    Args:
        objective, counts: the task, as above.
        optimizer: an optax transformation; clipping belongs to it.
        schedule: reported as `learning_rate`; give the one that the optimizer follows.
        accumulate: A, micro-batches one after the other with one update at the end: the memory of a part, the
            gradients of the whole. Micro-batch a takes rows a, a + A, …, so no row changes its device.
        precision: the policy; the objective gets parameters in `precision.compute`.
        trainable: patterns of the parameters that train. The others are not differentiated, which costs nothing.
        buffers: "synced" when the model itself keeps its buffers equal on all devices (SyncBatchNorm); "averaged" when
            each device has statistics of its own (under pmap and shard_map): floats are averaged, integers take
            the largest.

    Returns:
        The step. Its metrics are scalars: `loss`, `{term}_{metric}` for each, `grad_norm` (before clipping), and
        `learning_rate` with a schedule. `key` is the run's: `fold_in(key, step)` is drawn here.

    Raises:
        ValueError: `accumulate` below 1; at the first call, a batch that does not divide, or a term without a count.
    """
    if accumulate < 1:
        raise ValueError(f"train.make_step: accumulate; expected at least 1, got {accumulate}. Use 1 for none.")

    def step(
        train_state: TrainState, batch: Batch, key: jax.Array, *, axis_name: str | None = None
    ) -> tuple[TrainState, dict[str, jax.Array]]:
        rng = fold_in_device(jax.random.fold_in(key, train_state.step), axis_name)
        chosen, frozen = tree.partition(train_state.params, trainable, where="train.make_step: trainable")
        totals = sum_over(counts(batch), axis_name)

        def loss_of_sums(chosen, state, micro_batch, rng):
            params = precision.cast(tree.merge(chosen, frozen))
            sums, state = objective(params, state, micro_batch, training=True, rng=rng)
            sums = _checked(sums, totals)
            return sum(_share(terms["loss"], totals[term]) for term, terms in sums.items()), (sums, state)

        gradient = jax.grad(loss_of_sums, has_aux=True)
        grads, sums, state = _accumulated(gradient, chosen, train_state.state, batch, rng, accumulate)
        grads, sums = sum_over((grads, sums), axis_name)
        if buffers == "averaged":
            state = average_over(state, axis_name)

        metrics = _means(sums, totals) | {"grad_norm": optax.tree.norm(grads)}
        if schedule is not None:
            metrics["learning_rate"] = jnp.asarray(schedule(train_state.step))
        updates, opt_state = optimizer.update(grads, train_state.opt_state, chosen)
        moved = optax.apply_updates(chosen, updates)
        return TrainState(tree.merge(moved, frozen), state, opt_state, train_state.step + 1), metrics

    return step


def make_eval_step(
    objective: Objective, counts: Counts, *, precision: Precision = FLOAT32
) -> Callable[..., dict[str, dict[str, jax.Array]]]:
    """The step `step((params, state), batch, key=None, *, axis_name=None) -> {"sums": …, "counts": …}`.

    Sums over all devices with `training=False` and no randomness; `evaluate` adds them up over batches. Args as
    `make_step`.
    """

    def step(
        model: tuple[tree.Tree, tree.Tree], batch: Batch, key: None = None, *, axis_name: str | None = None
    ) -> dict[str, dict[str, jax.Array]]:
        params, state = model
        sums, _ = objective(precision.cast(params), state, batch, training=False, rng=key)
        totals = counts(batch)
        return sum_over({"sums": _checked(sums, totals), "counts": totals}, axis_name)

    return step


def evaluate(
    step: Callable[[Any, Any, Any], dict[str, dict[str, jax.Array]]],
    model: tuple[tree.Tree, tree.Tree],
    batches: Iterable[Any],
    *,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, float]:
    """The means over all batches: `loss` and `{term}_{metric}`, added up in float64 on the host.

    Args:
        step: `parallelize(make_eval_step(…), plan)`.
        model: (params, state), as placed.
        batches: as placed by `plan.shard`.
        should_stop: asked between batches; True ends with what there is so far.

    Returns:
        Python floats.

    Raises:
        ValueError: there was no batch.
    """
    added: Any = None
    for batch in batches:
        out = jax.tree.map(lambda x: np.asarray(x, np.float64), step(model, batch, None))
        added = out if added is None else jax.tree.map(np.add, added, out)
        if should_stop():
            break
    if added is None:
        raise ValueError(
            "train.evaluate: batches; expected at least one, got none. Hold out more, or use a smaller batch."
        )
    return {name: float(value) for name, value in _means(added["sums"], added["counts"], np.maximum).items()}


def _accumulated(
    gradient: Callable[..., Any], chosen: Any, state: Any, batch: Batch, rng: jax.Array, accumulate: int
) -> tuple[Any, Any, Any]:
    """(gradients, metric sums, state) over A micro-batches; the buffers pass from each to the next, as in torch."""
    if accumulate == 1:
        grads, (sums, state) = gradient(chosen, state, batch, rng)
        return grads, sums, state

    def one(carry, xs):
        grads, sums, state = carry
        index, micro_batch = xs
        more_grads, (more_sums, state) = gradient(chosen, state, micro_batch, jax.random.fold_in(rng, index))
        return (*jax.tree.map(jnp.add, (grads, sums), (more_grads, more_sums)), state), None

    micro_batches = jax.tree.map(functools.partial(_split, accumulate=accumulate), dict(batch))
    first = jax.tree.map(lambda x: x[0], micro_batches)
    grads, (sums, _) = jax.eval_shape(gradient, chosen, state, first, rng)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (grads, sums))
    (grads, sums, state), _ = lax.scan(one, (*zeros, state), (jnp.arange(accumulate), micro_batches))
    return grads, sums, state


def _split(x: jax.Array, accumulate: int) -> jax.Array:
    """(B, …) -> (A, B/A, …), row r in micro-batch r mod A: neighbours share a device, and spread over all."""
    check_batch_size(x.shape[0], 1, accumulate, where="train.make_step")
    return jnp.swapaxes(x.reshape(-1, accumulate, *x.shape[1:]), 0, 1)


def _share(total, count, maximum=jnp.maximum):
    return total / maximum(count, 1).astype(total.dtype)


def _means(sums: Any, totals: Any, maximum: Callable[..., Any] = jnp.maximum) -> dict[str, Any]:
    means = {
        f"{term}_{metric}": _share(value, totals[term], maximum)
        for term, terms in sums.items()
        for metric, value in terms.items()
    }
    return {"loss": sum(means[f"{term}_loss"] for term in sums), **means}


def _checked(sums, totals):
    """The objective's sums in at least float32, once every term is known to have a count and a loss."""
    for term, terms in sums.items():
        if term not in totals or "loss" not in terms:
            raise ValueError(
                f"train.make_step: objective's term {term!r}; expected a 'loss' in it and a count of that name, got "
                f"{sorted(terms)} and counts of {sorted(totals)}. Let objective and counts name the same terms."
            )
    return jax.tree.map(at_least_float32, sums)
