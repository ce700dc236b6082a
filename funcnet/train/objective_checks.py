"""Checks of the value that an objective returns.

The structure of this value is checked whenever a step is traced. Before training, `check_returns_sums` tests whether
the numbers in this value are sums over the batch.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from funcnet.arguments import expect
from funcnet.parallel import Layout, parallelize
from funcnet.train.precision import at_least_float32
from funcnet.train.storable import array_kind, named_leaves
from funcnet.tree import PyTree

__all__ = [
    "check_batch",
    "check_returns_sums",
    "check_same_kinds",
    "check_same_structure",
    "checked_counts",
    "checked_output",
    "checked_sums",
]

FORM = '({term: {"loss": sum, metric: sum}}, state), where every sum is a scalar'


def checked_output(output: object) -> tuple[Any, Any]:
    """Check that the output of an objective is a pair (sums, state), and return the pair.

    Raises:
        ValueError: if the output is not such a pair, for example if it is only a loss.
    """
    sums, state = output if isinstance(output, tuple) and len(output) == 2 else (None, None)
    if not isinstance(sums, Mapping) or not all(isinstance(terms, Mapping) for terms in sums.values()):
        raise ValueError(
            f"train.make_step: the objective returned a wrong value; expected {FORM}, got {_shown(output)}. Return "
            '({"name": {"loss": losses.sum()}}, state), and let counts(batch) return {"name": number of losses}.'
        )
    return sums, state


def checked_counts(counts: object) -> Any:
    """Check that the counts of a batch are a dict of scalars, and return the counts.

    Raises:
        ValueError: if `counts` is not a dict, or one of its values is not a scalar.
    """
    if not isinstance(counts, Mapping) or any(np.ndim(count) for count in counts.values()):
        raise ValueError(
            "train.make_step: counts(batch) returned a wrong value; expected {term: count}, where every count is a "
            f"scalar, got {_shown(counts)}."
        )
    return counts


def checked_sums(sums: Mapping[str, Mapping[str, Any]], totals: Mapping[str, Any]) -> Any:
    """Check that an objective returned one scalar per metric, and return these sums in float32 or a wider type.
    `totals` are the counts of the terms.

    Raises:
        ValueError: if a term has no count or no loss, or a sum is not a scalar.
    """
    for term, terms in sums.items():
        if term not in totals or "loss" not in terms:
            raise ValueError(
                f"train.make_step: the objective's term {term!r} is incomplete; expected a 'loss' in it and a count of "
                f"the same name, got {sorted(terms)} and counts for {sorted(totals)}."
            )
        for metric, value in terms.items():
            if np.ndim(value):
                raise ValueError(
                    f"train.make_step: the objective's {metric!r} of the term {term!r} is not a sum; expected a "
                    f"scalar, got {_shown(value)}. Return its sum over all elements."
                )
    return jax.tree.map(at_least_float32, sums)


def check_same_structure(after: PyTree, before: PyTree) -> None:
    """Check that a step does not change the structure of the train state, because a checkpoint of the changed state
    could not be restored.

    Raises:
        ValueError: if the structure changes. The message has the names of the leaves that only one of both states has.
    """
    structure: Any = jax.tree.structure(before)
    if structure != jax.tree.structure(after):
        expected, got = (named_leaves(one, "train.make_step") for one in (before, after))
        _refuse_change(
            [f"{name} is missing" for name in expected if name not in got]
            + [f"{name} is new" for name in got if name not in expected]
            or ["the types of its containers"]
        )


def check_same_kinds(after: PyTree, before: PyTree) -> None:
    """Check that a step changes neither the structure of the train state nor the shapes and dtypes of its leaves.

    Raises:
        ValueError: if it changes. The message has the names of the leaves.
    """
    check_same_structure(after, before)
    got = named_leaves(after, "train.make_step")
    pairs = [(name, array_kind(leaf), array_kind(got[name])) for name, leaf in named_leaves(before).items()]
    _refuse_change([f"{name} was {kind} and is {new}" for name, kind, new in pairs if kind != new])


def _refuse_change(changes: list[str]) -> None:
    if changes:
        more = f", and {len(changes) - 6} more" if len(changes) > 6 else ""
        raise ValueError(
            "train.make_step: the step changes the form of the train state; expected the structure, shapes and dtypes "
            f"from before the step, got others: {', '.join(changes[:6])}{more}. Start with the form that the optimizer "
            "and the functions of the step return."
        )


def check_batch(batch: PyTree, *, where: str) -> None:
    """Check that a host batch consists of arrays of numbers with rows.

    Raises:
        ValueError: if there is no batch, or a leaf of the batch has no rows.
        TypeError: if a leaf of the batch is not an array of numbers.
    """
    leaves = jax.tree_util.tree_leaves_with_path(batch)
    if not leaves:
        raise ValueError(f"{where}: the data have no batch; expected at least one, got {batch!r:.60}.")
    for path, leaf in leaves:
        name = f"{jax.tree_util.keystr(path, simple=True, separator='.')!r} of a batch" if path else "a batch"
        is_array = hasattr(leaf, "dtype") and hasattr(leaf, "shape") and getattr(leaf.dtype, "kind", "V") not in "OSUMm"
        expect(is_array, where, name, "an array of numbers", leaf)
        if not leaf.shape:
            raise ValueError(
                f"{where}: {name} has no rows; expected an array with one row per example, got a scalar {leaf.dtype}."
            )


def check_returns_sums(
    step: Callable[..., Any],
    model: PyTree,
    batch: PyTree,
    key: jax.Array,
    layout: Layout,
    *,
    where: str,
    own: bool = False,
) -> None:
    """Check that an objective returns sums over the batch and not means, which the training step would divide by the
    counts a second time.

    The objective runs in eval mode, first on a part of the batch, and then on a batch that contains this part twice.
    The second run doubles a sum, but does not change a mean. A sum that compares the rows of a batch with each other
    may grow by a factor other than 2. The check therefore accepts every value that grows by at least a half. If the
    objective accepts only batches of one size, nothing is checked.

    Args:
        step: evaluation step of the objective, from `make_eval_step`.
        model: the model of the step, placed on the devices.
        batch: a host batch. The part that the check uses has at most half of the rows of `batch`, but at least one row
            per shard.
        key: random key, for an objective that is random in eval mode too.
        layout: layout of the run.
        where: the name of the caller, for the message.
        own: whether `batch` has only the rows of this process.

    Raises:
        ValueError: if a value grows by less than a half. The message says what to return.
    """
    compiled = parallelize(step, layout)
    place, parts = (layout.shard_own, len(layout.own_parts)) if own else (layout.shard, layout.batch_parts)
    run = lambda batch: jax.device_get(compiled(model, place(batch), layout.place(key)))
    half = len(jax.tree.leaves(batch)[0]) // 2
    rows = max(1, half // parts) * parts
    part = jax.tree.map(lambda x: np.asarray(x)[:rows], batch)
    try:
        once, twice = (run(rows)["sums"] for rows in (part, jax.tree.map(lambda x: np.concatenate([x, x]), part)))
    except (TypeError, ValueError):
        run(batch)  # raises again, unless the objective accepts only batches of this size
        return
    for term, terms in once.items():
        for metric, value in terms.items():
            if abs(twice[term][metric]) < 1.5 * abs(value):
                name = f"{metric!r} of the term {term!r}" if term else repr(metric)
                raise ValueError(
                    f"{where}: the objective's {name} is not a sum; expected {2 * value:g} for a batch that has each "
                    f"row twice, because it is {value:g} with each row once, got {twice[term][metric]:g}. Return sums "
                    'over the batch, such as F.cross_entropy(…, reduction="sum"). The step divides them by the counts.'
                )


def _shown(value: PyTree) -> str:
    """Describe the types and the shapes in a value, for an error message."""
    return str(jax.tree.map(lambda leaf: f"{getattr(leaf, 'dtype', type(leaf).__name__)}{list(np.shape(leaf))}", value))
