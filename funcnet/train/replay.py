"""Repeat a step that failed in a run, and find the first layer that broke."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from funcnet.parallel import check_batch_size
from funcnet.settings import differences, recorded
from funcnet.train.checkpoints import Checkpoints
from funcnet.train.continuation import Continuation
from funcnet.train.errors import RunError
from funcnet.train.interruption import interruption
from funcnet.train.means import RunningMeans
from funcnet.train.nan_trace import describe_broken
from funcnet.train.recovery import Bundle, batch_arrays, describe_net
from funcnet.train.run import NOT_RECORDED
from funcnet.train.setting_groups import open_layout
from funcnet.train.task_interface import Context, Task
from funcnet.train.trials import TrainingSettings, Trials
from funcnet.train.versions import versions

__all__ = ["replay_step"]


def replay_step(
    open_task: Callable[[Any, Context], Task],
    settings: TrainingSettings,
    bundle: Bundle,
    *,
    say: Callable[[str], None] = print,
) -> bool:
    """Repeat the failed step of a bundle, on the same mesh and with the same data, and print the first layer that
    broke.

    The steps between the bundle's checkpoint and the failed step are repeated first. The failed step then starts from
    parameters with the same bits as in the run. The failed step runs twice: once as in the run, and once with the flags
    of all layers (`nan_trace` of `make_step`).

    Args:
        open_task: as for `run_task`.
        settings: the settings of the run.
        bundle: a bundle from `read_bundle`.
        say: function that prints a line.

    Returns:
        True if the loss and the gradient norm of the repeated step have the same bits as in the run.

    Raises:
        RunError: if the settings, the net or the data differ from those of the run, or the run's checkpoint is missing.

    Example: see `funcnet replay --help`.
    """
    where, fault = f"replay ({bundle.where})", bundle.fault
    config = recorded(settings, leave_out=NOT_RECORDED)
    if changes := differences(bundle.config, {name: config.get(name) for name in bundle.config}):
        raise RunError(
            f"{where}: the settings differ from those of the run; expected the same, got others: {'; '.join(changes)}."
        )
    layout = open_layout(settings.device, where)
    with interruption() as stop:
        check_batch_size(settings.loop.batch_size, layout.batch_parts, settings.loop.accumulate, where=where)
        context = Context(layout, settings.device.policy, stop)
        trials = Trials(open_task(settings, context), settings, config, context, where)
        layout = trials.layout
        _check_net(trials, bundle)
        if changes := differences(bundle.versions, {**bundle.versions, **versions()} if bundle.versions else {}):
            say(f"The versions differ from those of the run, so the bits may differ too: {'; '.join(changes)}.")
        state, about = _start(trials, bundle)
        key, step = layout.place(jax.random.key(bundle.seed)), trials.compiled(state)
        count = fault.step - bundle.start
        if count > 1:
            say(f"Repeating {count - 1:,} steps from step {bundle.start:,}.")
        source = _batches(trials.task.batches(bundle.seed), about, bundle)
        for _ in range(count - 1):
            state, _ = step(state, layout.shard(next(source)), key)
        batch = layout.shard(next(source))
        _check_batch(bundle, batch_arrays(layout, batch))
        for name, array in bundle.batch.items():
            if np.issubdtype(array.dtype, np.inexact) and not np.isfinite(array).all():
                say(f"Entries of the batch in {name!r} that are not finite: {np.sum(~np.isfinite(array)):,}.")
        traced = trials.compiled(state, nan_trace=True, donate=False)
        flags = jax.device_get(traced(state, batch, key)[1]["trace"])
        found = dict(step(state, batch, key)[1])
        found.pop("trace", None)
        values = RunningMeans().add(found)
    loss, grad_norm = values["loss"], values["grad_norm"]
    is_same = _same(loss, fault.loss) and _same(grad_norm, fault.grad_norm)
    compared = "as in the run" if is_same else f"in the run {fault.loss!r} and {fault.grad_norm!r}"
    say(f"Step {fault.step:,}, batch {fault.batch:,}: loss {loss!r}, gradient norm {grad_norm!r}; {compared}.")
    if math.isfinite(loss) and math.isfinite(grad_norm):
        say("All outputs of layers and their gradients are finite.")
    else:
        say(f"{describe_broken(*flags)}.".capitalize())
    return is_same


def _check_net(trials: Trials, bundle: Bundle) -> None:
    """Raise a RunError if the net differs from that of the run."""
    if bundle.net is None:
        return
    net = describe_net(getattr(trials.task, "net", None), trials.start.shapes(bundle.seed))
    missing = [line for line in bundle.net if line not in set(net)]
    added = [line for line in net if line not in set(bundle.net)]
    if missing or added:
        raise RunError(
            f"replay: the net differs from that of the run; expected {_first(missing)}, got {_first(added)}. Repeat "
            "the step with the net of the run."
        )


def _first(lines: list[str]) -> str:
    more = f" and {len(lines) - 1} more lines" if len(lines) > 1 else ""
    return f"{lines[0].strip()!r}{more}" if lines else "none of these lines"


def _start(trials: Trials, bundle: Bundle) -> tuple[Any, Any]:
    """Return (the train state from which the step is repeated, placed on the devices; the `about` of its
    checkpoint).
    """
    if not bundle.start:
        return trials.start(bundle.seed), {}
    first = trials.start.shapes(bundle.seed)
    with Checkpoints(bundle.checkpoints) as checkpoints:
        restored = checkpoints.restore(first, trials.layout.shardings(first))
    if restored is None or restored.step != bundle.start:
        raise RunError(
            f"replay: {bundle.checkpoints} has no usable checkpoint of step {bundle.start}; expected the one that the "
            f"run has kept, got {'none' if restored is None else f'step {restored.step}'}."
        )
    return restored.state, restored.about


def _batches(batches: Callable[..., Iterable[Any]], about: Mapping[str, Any], bundle: Bundle) -> Iterator[Any]:
    """Return the batches with the index `first_batch` and later. If the checkpoint has a position in the data, read
    from this position on, and drop the batches before `first_batch`.
    """
    begun, first = Continuation.read(about, bundle.start), bundle.first_batch
    if begun.position is None:
        return iter(batches(first))
    return itertools.islice(begun.batches(batches), first - begun.next_batch, None)


def _check_batch(bundle: Bundle, found: dict[str, np.ndarray]) -> None:
    """Raise a RunError if the batch that was read again, `found`, differs from the batch that the bundle stores."""
    kept = bundle.batch
    wrong = [name for name in kept if name not in found or found[name].tobytes() != kept[name].tobytes()]
    if wrong or found.keys() != kept.keys():
        raise RunError(
            f"replay: the data have changed since the run; expected batch {bundle.fault.batch} as in {bundle.folder}, "
            f"got a different {', '.join(wrong) or 'structure'}. Restore the data."
        )


def _same(found: float, recorded: float) -> bool:
    return found == recorded or (math.isnan(found) and math.isnan(recorded))
