"""The training step and the evaluation step, for any number of devices.

A task provides two pure functions:

- `counts(batch) -> {term: count}`: the number of elements over which each term of the loss is averaged;
- `objective(params, state, batch, *, training, rng) -> ({term: {"loss": sum, metric: sum, …}}, state)`: sums over
  these elements.

The loss is Σ_term loss_sum / count, where both are summed over all devices and micro-batches. This is the mean over all
tokens, not a mean of means, even if devices or micro-batches differ in their number of tokens. A term with a count of 0
contributes 0.

A parameter on which the loss does not depend keeps its value, even if the optimizer has weight decay. In torch, the
`grad` of such a parameter is None. The loss does not depend on a parameter that the objective does not use, or uses
only behind `lax.stop_gradient`, as a module does after `requires_grad_(False)`.

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
from funcnet.train.means import means, share
from funcnet.train.objective_checks import check_optimizer_state, checked_counts, checked_output, checked_sums
from funcnet.train.precision import FLOAT32, Precision
from funcnet.train.state import TrainState
from funcnet.train.unused import restore_unused, watch

__all__ = ["Counts", "Objective", "UpdateExtra", "evaluate", "make_eval_step", "make_step"]

Batch = Mapping[str, jax.Array]
Counts = Callable[[Batch], dict[str, jax.Array]]
Objective = Callable[..., tuple[dict[str, dict[str, jax.Array]], tree.Tree]]
UpdateExtra = Callable[[TrainState, Mapping[str, jax.Array]], Any]


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
    update_extra: UpdateExtra | None = None,
    metrics_as: Literal["means", "sums"] = "means",
) -> Callable[..., tuple[TrainState, dict[str, Any]]]:
    """Make a training step for `parallelize`: `step(train_state, batch, key, *, axis_name=None)`.

    Args:
        objective: function that returns the loss and the metrics of the task, as sums; see above. If the train state
            has `extra`, the objective receives it as the keyword argument `extra`.
        counts: function that returns the counts by which the sums are divided; see above.
        optimizer: an optax transformation, which includes gradient clipping, if any.
        schedule: learning rate schedule of the optimizer, to report the metric `learning_rate`. It does not change the
            updates.
        accumulate: A, the number of micro-batches per update. The step needs the memory of one micro-batch and computes
            the gradients of the complete batch. Micro-batch a consists of rows a, a + A, …, so every row stays on its
            device.
        precision: the precision policy. The objective receives the parameters in `precision.compute`.
        trainable: patterns for the names of the trainable parameters. No gradients are computed for other parameters.
        buffers: "synced" if the model keeps its buffers equal on all devices (SyncBatchNorm). "averaged" if each device
            has its own statistics (under pmap and shard_map). The step then averages floating buffers over the devices,
            and takes the maximum of other buffers.
        update_extra: function `update_extra(train_state, metrics)` that returns the new `extra`, from the train state
            after the update and the metrics as means. None leaves `extra` unchanged.
        metrics_as: "means" returns `loss` and `{term}_{metric}`. "sums" returns `sums` and `counts` instead, as the
            evaluation step does, so that `RunningMeans` can compute means over several steps.

    Returns:
        The step, which returns (train state, metrics). The metrics are scalars: `loss`, `{term}_{metric}`, `grad_norm`
        (before clipping) and, with a schedule, `learning_rate`. `key` is the key of the run. The step folds its number
        into the key. If the train state has an `ema`, the step adds the updated parameters to it.

    Raises:
        ValueError: if `accumulate` is below 1. The first call of the step raises it too, if the batch cannot be divided
            into micro-batches, the objective does not return sums, a term has no loss or no count, or `create` had
            another `trainable`.

    Example:
        >>> from funcnet.train import create
        >>> counts = lambda batch: {"fit": batch["x"].shape[0]}
        >>> def objective(params, state, batch, *, training, rng):
        ...     return {"fit": {"loss": jnp.sum((batch["x"] - params["mean"]) ** 2)}}, state
        >>> optimizer = optax.sgd(0.5)
        >>> step = jax.jit(make_step(objective, counts, optimizer))
        >>> state = create({"mean": jnp.zeros(())}, {}, optimizer)
        >>> state, metrics = step(state, {"x": jnp.array([1.0, 3.0])}, jax.random.key(0))
        >>> float(state.params["mean"]), float(metrics["loss"])
        (2.0, 5.0)
    """
    if accumulate < 1:
        raise ValueError(f"train.make_step: accumulate; expected at least 1, got {accumulate}.")

    def step(
        train_state: TrainState, batch: Batch, key: jax.Array, *, axis_name: str | None = None
    ) -> tuple[TrainState, dict[str, jax.Array]]:
        rng = fold_in_device(jax.random.fold_in(key, train_state.step), axis_name)
        chosen, frozen = tree.partition(train_state.params, trainable, where="train.make_step: trainable")
        totals = sum_over(checked_counts(counts(batch)), axis_name)
        unused = set(tree.flatten(chosen))  # until the backward pass is traced

        def loss_of_sums(chosen, state, micro_batch, rng):
            params = precision.cast(tree.merge(watch(chosen, unused), frozen))
            output = objective(params, state, micro_batch, training=True, rng=rng, **_keyword(train_state.extra))
            sums, state = checked_output(output)
            sums = checked_sums(sums, totals)
            return sum(share(terms["loss"], totals[term]) for term, terms in sums.items()), (sums, state)

        gradient = jax.grad(loss_of_sums, has_aux=True)
        grads, sums, state = _accumulated(gradient, chosen, train_state.state, batch, rng, accumulate)
        grads, sums = sum_over((grads, sums), axis_name)
        if buffers == "averaged":
            state = average_over(state, axis_name)

        scalars = {"grad_norm": optax.tree.norm(grads)}
        if schedule is not None:
            scalars["learning_rate"] = jnp.asarray(schedule(train_state.step))
        try:
            updates, opt_state = optimizer.update(grads, train_state.opt_state, chosen)
        except Exception:
            check_optimizer_state(optimizer, train_state.opt_state, chosen)  # the usual reason
            raise
        moved = restore_unused(optax.apply_updates(chosen, updates), chosen, unused)
        ema = _averaged(train_state.ema, moved, state)
        params, extra = tree.merge(moved, frozen), train_state.extra
        after = TrainState(params, state, opt_state, train_state.step + 1, ema, extra)
        if update_extra is not None:
            new = update_extra(after, means(sums, totals) | scalars)
            own = jax.tree.map(lambda before, value: jnp.asarray(value, before.dtype), extra, new)
            after = after.replace(extra=own)  # type: ignore[attr-defined]
        if metrics_as == "sums":
            return after, {"sums": sums, "counts": jax.tree.map(jnp.asarray, totals)} | scalars
        return after, means(sums, totals) | scalars

    return step


def make_eval_step(
    objective: Objective, counts: Counts, *, precision: Precision = FLOAT32
) -> Callable[..., dict[str, dict[str, jax.Array]]]:
    """Make an evaluation step for `parallelize`: `step((params, state), batch, key=None, *, axis_name=None)`.

    The model may also be (params, state, extra), with the `extra` of a train state for the objective.

    Args:
        objective: as for `make_step`. It is called with `training=False`.
        counts: as for `make_step`.
        precision: as for `make_step`.

    Returns:
        The step, which returns `{"sums": …, "counts": …}` summed over all devices. `evaluate` adds these results over
        all batches.

    Raises:
        ValueError: at the first call of the step, if a term has no loss or no count.
    """

    def step(
        model: tuple[Any, ...], batch: Batch, key: jax.Array | None = None, *, axis_name: str | None = None
    ) -> dict[str, dict[str, jax.Array]]:
        params, state, *extra = model
        keyword = _keyword(extra[0] if extra else None)
        sums, _ = checked_output(objective(precision.cast(params), state, batch, training=False, rng=key, **keyword))
        totals = checked_counts(counts(batch))
        return sum_over({"sums": checked_sums(sums, totals), "counts": totals}, axis_name)

    return step


def evaluate(
    step: Callable[[Any, Any, Any], dict[str, dict[str, jax.Array]]],
    model: tuple[Any, ...],
    batches: Iterable[Any],
    *,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[str, float]:
    """Return the mean metrics over all batches, accumulated in float64 on the host.

    Args:
        step: the compiled step, `parallelize(make_eval_step(…), layout)`.
        model: (params, state) or (params, state, extra), placed on the devices.
        batches: batches placed by `layout.shard`.
        should_stop: function that is called after each batch. If it returns True, the evaluation ends, and the result
            covers only the batches so far.

    Returns:
        `loss` and `{term}_{metric}`, as Python floats.

    Raises:
        ValueError: if there are no batches.
    """
    added: Any = None
    for batch in batches:
        out = jax.tree.map(lambda x: np.asarray(x, np.float64), step(model, batch, None))
        added = out if added is None else jax.tree.map(np.add, added, out)
        if should_stop():
            break
    if added is None:
        raise ValueError(
            "train.evaluate: there are no batches; expected at least one, got none. Hold out more data, or use a "
            "smaller batch size."
        )
    return {name: float(value) for name, value in means(added["sums"], added["counts"], np.maximum).items()}


def _accumulated(
    gradient: Callable[..., Any], chosen: Any, state: Any, batch: Batch, rng: jax.Array, accumulate: int
) -> tuple[Any, Any, Any]:
    """Return (gradients, metric sums, state) over A micro-batches, which update the buffers one after the other, as in
    torch.
    """
    if accumulate == 1:
        grads, (sums, state) = gradient(chosen, state, batch, rng)
        return grads, sums, state

    def one(carry, xs):
        grads, sums, state = carry
        index, micro_batch = xs
        more_grads, (more_sums, state) = gradient(chosen, state, micro_batch, jax.random.fold_in(rng, index))
        return (*jax.tree.map(jnp.add, (grads, sums), (more_grads, more_sums)), state), None

    batch = dict(batch) if isinstance(batch, Mapping) else batch  # any mapping, which need not be a pytree
    micro_batches = jax.tree.map(functools.partial(_split, accumulate=accumulate), batch)
    first = jax.tree.map(lambda x: x[0], micro_batches)
    grads, (sums, _) = jax.eval_shape(gradient, chosen, state, first, rng)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (grads, sums))
    (grads, sums, state), _ = lax.scan(one, (*zeros, state), (jnp.arange(accumulate), micro_batches))
    return grads, sums, state


def _split(x: jax.Array, accumulate: int) -> jax.Array:
    """Split (B, …) into (A, B/A, …). Row r is in micro-batch r mod A, so each micro-batch spans all devices."""
    check_batch_size(x.shape[0], 1, accumulate, where="train.make_step")
    return jnp.swapaxes(x.reshape(-1, accumulate, *x.shape[1:]), 0, 1)


def _averaged(ema: Any, moved: tree.Tree, state: tree.Tree) -> Any:
    """Add the updated parameters to the moving average. The other parameters are constant, and not averaged."""
    if ema is None:
        return None
    own, constant = tree.divide(ema.params, tree.flatten(moved))
    average = ema.replace(params=own).update_parameters(moved, state)
    return average.replace(params=tree.merge(average.params, constant))


def _keyword(extra: Any) -> dict[str, Any]:
    return {} if extra is None else {"extra": extra}
