"""The training step and the evaluation step, for any number of devices.

A task provides two pure functions:

- `counts(batch) -> {term: count}`: the number of elements over which each term of the loss is averaged;
- `objective(params, state, batch, *, training, rng) -> ({term: {"loss": sum, metric: sum, …}}, state)`: sums over
  these elements.

The loss is Σ_term loss_sum / count, where both are summed over all devices and micro-batches. The loss is therefore the
mean over all tokens, not a mean of means, even if devices or micro-batches differ in their number of tokens. A term
with a count of 0 contributes 0.

If the parameters, the buffers or the state of the optimizer would not be finite after a step, the step is skipped. A
skipped step is counted, but parameters, buffers and the state of the optimizer keep their values, as with torch's
`GradScaler`. What is checked is the result of the update, and not the loss or the gradient. An optimizer can therefore
replace a NaN, as `optax.zero_nans` does. An entry that was not finite before the step, such as a start of infinity, is
not checked.

A parameter on which the loss does not depend keeps its value, even if the optimizer has weight decay. In torch, the
`grad` of such a parameter is None. The loss does not depend on a parameter that the objective does not use, or uses
only behind `lax.stop_gradient`, as a module does after `requires_grad_(False)`.

Letters: A micro-batches, N devices.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from funcnet import tree
from funcnet.arguments import boolean, choice, expect, function, integer, patterns, transformation
from funcnet.parallel import average_over, check_batch_size, first_over, fold_in_device, sum_over
from funcnet.train.means import means, share
from funcnet.train.nan_trace import PROBES, find_probes, only_if, split_flags
from funcnet.train.objective_checks import (
    check_same_kinds,
    check_same_structure,
    checked_counts,
    checked_output,
    checked_sums,
)
from funcnet.train.precision import FLOAT32, Precision
from funcnet.train.state import TrainState
from funcnet.train.unused_parameters import restore_unused, watch
from funcnet.train.user_functions import calling, optimizer_updates
from funcnet.tree import PyTree, State

__all__ = ["Buffers", "Counts", "Objective", "UpdateExtra", "evaluate", "make_eval_step", "make_step"]

Batch = Mapping[str, jax.Array]
Buffers = Literal["synced", "averaged", "first"]
Counts = Callable[[Batch], dict[str, jax.Array]]
Gradient = Callable[..., Any]  # returns the gradients and the sums of a micro-batch
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
    buffers: Buffers = "synced",
    update_extra: UpdateExtra | None = None,
    metrics_as: Literal["means", "sums"] = "means",
    nan_trace: bool = False,
) -> Callable[..., tuple[TrainState, dict[str, Any]]]:
    """Make a training step for `parallelize`: `step(train_state, batch, key, *, axis_name=None)`.

    Args:
        objective: function that returns the loss and the metrics of the task, as sums; see `funcnet.train.step`. If the
            train state has `extra`, the objective receives it as the keyword argument `extra`.
        counts: function that returns the counts by which the sums are divided; see `funcnet.train.step`.
        optimizer: an optax transformation, which includes gradient clipping, if any. An optimizer that accepts
            additional arguments receives the loss as `value`. Optimizers that compute the loss again, such as
            `optax.lbfgs`, cannot be used.
        schedule: learning rate schedule of the optimizer, to report the metric `learning_rate`. The updates themselves
            do not depend on this argument.
        accumulate: A, the number of micro-batches per update. The step needs the memory of one micro-batch and computes
            the gradients of the complete batch. Micro-batch a consists of rows a, a + A, …, so every row stays on its
            device.
        precision: the precision policy. The objective receives the parameters in `precision.compute`.
        trainable: patterns for the names of the trainable parameters. No gradients are computed for parameters that no
            pattern matches.
        buffers: "synced" if the model keeps its buffers equal on all devices (SyncBatchNorm). With "averaged" and
            "first", each device has its own statistics (under pmap and shard_map). After a step, all devices get the
            same buffers: with "averaged", the means of floating buffers over the devices, and the maxima of other
            buffers; with "first", the buffers of the first device, as with torch's `DistributedDataParallel`.
        update_extra: function `update_extra(train_state, metrics)` that returns the new `extra`, from the train state
            after the update and the metrics as means. None leaves `extra` unchanged.
        metrics_as: "means" returns `loss` and `{term}_{metric}`. "sums" returns `sums` and `counts` instead, as the
            evaluation step does, so that `RunningMeans` can compute means over several steps.
        nan_trace: whether to add the metric `trace`: (flags of the outputs, flags of their gradients) for
            `describe_broken`, which names the first module whose output or gradient is not finite. A step whose update
            or loss is not finite computes its gradient a second time, for the flags. Other steps do not compute the
            flags, which are then zeros.

    Returns:
        The step, which returns (train state, metrics). The metrics are scalars: `loss`, `{term}_{metric}`, `grad_norm`
        (before clipping), `skipped` (1 if the step is skipped, because its update is not finite; otherwise 0) and, with
        a schedule, `learning_rate`. `key` is the key of the run, into which the step folds the number of the step. If
        the train state has the moving average `ema`, the step adds the updated parameters to this average.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if `accumulate` is below 1, or `buffers` or `metrics_as` is unknown. The first call of the step also
            raises a ValueError if the batch cannot be divided into micro-batches, if the objective does not return
            sums, if a term has no loss or no count, if `create` was called with a different optimizer or `trainable`,
            if the step changes the structure, a shape or a dtype of the train state, or if the objective ignores the
            flags of `nan_trace`.

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
    given = (objective, counts, optimizer, schedule, accumulate, precision, trainable, buffers, update_extra)
    _check_step(*given, metrics_as, nan_trace)
    agreed = _agreement(buffers)

    def step(
        train_state: TrainState, batch: Batch, key: jax.Array, *, axis_name: str | None = None
    ) -> tuple[TrainState, dict[str, jax.Array]]:
        rng = fold_in_device(jax.random.fold_in(key, train_state.step), axis_name)
        chosen, frozen = tree.partition(train_state.params, trainable, where="train.make_step: trainable")
        totals = sum_over(checked_counts(counts(batch)), axis_name)
        unused = set(tree.flatten(chosen))  # all names; tracing the backward pass removes those of used parameters

        def loss_of_sums(trained, state, micro_batch, rng):
            chosen, probes = trained
            params = precision.cast(tree.merge(watch(chosen, unused), frozen)) | probes
            output = objective(params, state, micro_batch, training=True, rng=rng, **_keyword(train_state.extra))
            sums, state = checked_output(output)
            state, flags = split_flags(state, probes)
            sums = checked_sums(sums, totals)
            return sum(share(terms["loss"], totals[term]) for term, terms in sums.items()), ((sums, flags), state)

        gradient = jax.grad(loss_of_sums, has_aux=True)
        inputs = train_state.state, *_micro_batches(batch, accumulate), rng
        (grads, _), (sums, _), state = _accumulated(gradient, (chosen, {}), *inputs)
        (grads, sums), state = sum_over((grads, sums), axis_name), agreed(state, axis_name)
        others: dict[str, Any] = _learning_rate(schedule, train_state) | {"grad_norm": optax.tree.norm(grads)}
        loss = means(sums, totals)["loss"]
        updates, opt_state = optimizer_updates(optimizer, grads, train_state.opt_state, chosen, loss)
        moved = restore_unused(optax.apply_updates(chosen, updates), chosen, unused)
        ema = _averaged(train_state.ema, moved, state)
        params, extra, number = tree.merge(moved, frozen), train_state.extra, train_state.step + 1
        after = TrainState(params, state, opt_state, number, ema, extra, train_state.skipped)
        check_same_kinds(after, train_state)
        is_finite = _stays_finite(after, train_state)
        others["skipped"] = 1 - is_finite.astype(jnp.float32)
        if nan_trace:
            probes = find_probes(loss_of_sums, chosen, train_state.state, inputs[1], rng)
            again = functools.partial(_flags, gradient, (chosen, probes), *inputs, axis_name)
            others["trace"] = only_if(~(is_finite & jnp.isfinite(loss)), again)
        if update_extra is not None:
            after = _with_new_extra(after, update_extra, means(sums, totals) | others)
        after = _unless_skipped(is_finite, after, train_state)
        return after, _reported(sums, totals, metrics_as) | others

    return step


def _reported(sums: Mapping[str, Any], totals: Mapping[str, Any], metrics_as: str) -> dict[str, Any]:
    if metrics_as == "means":
        return means(sums, totals)
    return {"sums": sums, "counts": jax.tree.map(jnp.asarray, totals)}


def _learning_rate(schedule: optax.Schedule | None, train_state: TrainState) -> dict[str, jax.Array]:
    if schedule is None:
        return {}
    with calling("train.make_step", "schedule"):
        return {"learning_rate": jnp.asarray(schedule(train_state.step - train_state.skipped))}


def _with_new_extra(train_state: TrainState, update_extra: UpdateExtra, metrics: Mapping[str, jax.Array]) -> TrainState:
    """Replace `extra`, whose leaves keep their dtypes."""
    with calling("train.make_step", "update_extra"):
        new = update_extra(train_state, metrics)
    check_same_structure({"extra": new}, {"extra": train_state.extra})
    own = jax.tree.map(lambda before, value: jnp.asarray(value, before.dtype), train_state.extra, new)
    check_same_kinds({"extra": own}, {"extra": train_state.extra})
    return train_state.replace(extra=own)  # type: ignore[attr-defined, no-any-return]


def make_eval_step(
    objective: Objective, counts: Counts, *, precision: Precision = FLOAT32
) -> Callable[..., dict[str, dict[str, jax.Array]]]:
    """Make an evaluation step for `parallelize`: `step((params, state), batch, key=None, *, axis_name=None)`.

    If the objective needs the `extra` of a train state, pass (params, state, extra) as the model.

    Args:
        objective: as for `make_step`. The step calls the objective with `training=False`.
        counts: as for `make_step`.
        precision: as for `make_step`.

    Returns:
        The step, which returns `{"sums": …, "counts": …}` summed over all devices. The function `evaluate` adds up
        these sums and counts over all batches.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: at the first call of the step, if the objective does not return sums, or a term has no loss or no
            count.

    Example:
        >>> objective = lambda params, state, batch, **keywords: ({"fit": {"loss": batch["x"].sum()}}, state)
        >>> step = jax.jit(make_eval_step(objective, lambda batch: {"fit": batch["x"].size}))
        >>> step(({}, {}), {"x": jnp.array([1.0, 3.0])})["sums"]
        {'fit': {'loss': Array(4., dtype=float32)}}
    """
    _check_functions("train.make_eval_step", objective, counts, precision)

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
        TypeError: if `model` is not a tuple, or `step` does not return sums and counts.
        ValueError: if `batches` is empty.

    Example:
        >>> sums = lambda params, x: {"fit": {"loss": jnp.sum((x - params["mean"]) ** 2)}}
        >>> objective = lambda params, state, batch, **keywords: (sums(params, batch["x"]), state)
        >>> step = jax.jit(make_eval_step(objective, lambda batch: {"fit": batch["x"].size}))
        >>> evaluate(step, ({"mean": jnp.array(2.0)}, {}), [{"x": jnp.array([1.0, 3.0])}, {"x": jnp.array([2.0, 6.0])}])
        {'loss': 4.5, 'fit_loss': 4.5}
    """
    function("train.evaluate", "step", step, "step(model, batch, key)", 3)
    is_model = isinstance(model, tuple | list) and len(model) in (2, 3)
    expect(is_model, "train.evaluate", "model", "(params, state) or (params, state, extra)", model)
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


def _check_step(
    objective: object, counts: object, optimizer: object, schedule: object, accumulate: object, precision: object,
    trainable: object, buffers: object, update_extra: object, metrics_as: object, nan_trace: object,
) -> None:  # fmt: skip
    """Raise the errors of `make_step`."""
    where = "train.make_step"
    _check_functions(where, objective, counts, precision)
    transformation(where, "optimizer", optimizer)
    if schedule is not None:
        function(where, "schedule", schedule, "schedule(step)", 1)
    if update_extra is not None:
        function(where, "update_extra", update_extra, "update_extra(train_state, metrics)", 2)
    integer(where, "accumulate", accumulate, 1)
    patterns(where, "trainable", trainable)
    choice(where, "buffers", buffers, get_args(Buffers))
    choice(where, "metrics_as", metrics_as, ("means", "sums"))
    boolean(where, "nan_trace", nan_trace)


def _check_functions(where: str, objective: object, counts: object, precision: object) -> None:
    form = "objective(params, state, batch, *, training, rng)"
    function(where, "objective", objective, form, 3, "training", "rng", sometimes="extra")
    function(where, "counts", counts, "counts(batch)", 1)
    advice = "Use train.BFLOAT16 or train.FLOAT32." if isinstance(precision, str) else ""
    expect(isinstance(precision, Precision), where, "precision", "a Precision", precision, advice)


def _agreement(buffers: Buffers) -> Callable[[Any, Any], Any]:
    """Return the function `agreed(state, axis_name)`, which makes the buffers of the model equal on all devices."""
    return {"synced": lambda state, axis_name: state, "averaged": average_over, "first": first_over}[buffers]


def _accumulated(
    gradient: Gradient, trained: PyTree, state: State, first: Batch, micro_batches: PyTree, rng: jax.Array
) -> tuple[Any, Any, Any]:
    """Return (gradients, metric sums, state). Gradients and metrics are summed over A micro-batches, which update the
    buffers one after the other, as in torch.
    """
    if micro_batches is None:
        grads, (sums, state) = gradient(trained, state, first, rng)
        return grads, sums, state

    def one(carry, xs):
        grads, sums, state = carry
        index, micro_batch = xs
        more_grads, (more_sums, state) = gradient(trained, state, micro_batch, jax.random.fold_in(rng, index))
        return (*jax.tree.map(jnp.add, (grads, sums), (more_grads, more_sums)), state), None

    grads, (sums, _) = jax.eval_shape(gradient, trained, state, first, rng)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (grads, sums))
    numbers = jnp.arange(len(jax.tree.leaves(micro_batches)[0]))
    (grads, sums, state), _ = lax.scan(one, (*zeros, state), (numbers, micro_batches))
    return grads, sums, state


def _flags(
    gradient: Gradient, trained: PyTree, state: State, first: Batch, micro_batches: PyTree, rng: jax.Array, axis: Any
) -> tuple[Any, Any]:
    """Return (flags of the outputs, flags of their gradients); `trained` has probes."""
    (_, backward), (_, forward), _ = _accumulated(gradient, trained, state, first, micro_batches, rng)
    return sum_over((forward, backward.get(PROBES, {})), axis)  # type: ignore[no-any-return]


def _stays_finite(after: TrainState, before: TrainState) -> jax.Array:
    """Return whether every number of the model and the optimizer that was finite before the step is finite after it."""
    model = lambda train_state: jax.tree.leaves((train_state.params, train_state.state, train_state.opt_state))
    parts = [
        (jnp.isfinite(new) | ~jnp.isfinite(old)).all()
        for new, old in zip(model(after), model(before), strict=True)
        if new is not old and jnp.issubdtype(new.dtype, jnp.inexact)
    ]
    return jnp.stack([jnp.ones((), bool), *parts]).all()  # a step may change nothing


def _unless_skipped(is_finite: jax.Array, after: TrainState, before: TrainState) -> TrainState:
    """Return the train state from before the step if the step is skipped, otherwise the train state after the step. The
    number of steps increases in both cases.
    """
    kept = jax.tree.map(lambda new, old: jnp.where(is_finite, new, old), after, before)
    skipped = before.skipped + jnp.where(is_finite, 0, 1)
    return kept.replace(step=before.step + 1, skipped=skipped)  # type: ignore[attr-defined]


def _micro_batches(batch: Batch, accumulate: int) -> tuple[Batch, Any]:
    """Split a batch of B rows into A = `accumulate` micro-batches. Row r becomes part of micro-batch r mod A, so each
    micro-batch spans all devices.

    Return the first micro-batch, and a pytree of all micro-batches with arrays (A, B/A, …). If A is 1, return the batch
    and None.
    """
    if accumulate == 1:
        return batch, None
    batch = dict(batch) if isinstance(batch, Mapping) else batch  # a Mapping need not be a pytree
    check_batch_size(len(jax.tree.leaves(batch)[0]), 1, accumulate, where="train.make_step")
    split = jax.tree.map(lambda x: jnp.swapaxes(x.reshape(-1, accumulate, *x.shape[1:]), 0, 1), batch)
    return jax.tree.map(lambda x: x[0], split), split


def _averaged(ema: Any, moved: tree.Tree, state: tree.Tree) -> Any:
    """Add the updated parameters to their moving average. Frozen parameters are constant, and are not averaged."""
    if ema is None:
        return None
    own, constant = tree.divide(ema.params, tree.flatten(moved))
    average = ema.replace(params=own).update_parameters(moved, state)
    return average.replace(params=tree.merge(average.params, constant))


def _keyword(extra: PyTree) -> dict[str, Any]:
    return {} if extra is None else {"extra": extra}
