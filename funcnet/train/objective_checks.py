"""Checks of what an objective returns: its structure when a step is traced, and once before training, whether its
values are sums.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import optax

from funcnet import tree
from funcnet.parallel import Layout, parallelize
from funcnet.train.precision import at_least_float32

__all__ = ["check_optimizer_state", "check_returns_sums", "checked_counts", "checked_output", "checked_sums"]

FORM = '({term: {"loss": sum, metric: sum}}, state), where every sum is a scalar'


def checked_output(output: Any) -> tuple[Any, Any]:
    """Return the (sums, state) of an objective.

    Raises:
        ValueError: if the objective returned anything else, such as only its loss.
    """
    sums, state = output if isinstance(output, tuple) and len(output) == 2 else (None, None)
    if not isinstance(sums, Mapping) or not all(isinstance(terms, Mapping) for terms in sums.values()):
        raise ValueError(
            f"train.make_step: the objective returned a wrong value; expected {FORM}, got {_shown(output)}. Return "
            '({"name": {"loss": losses.sum()}}, state), and let counts(batch) return {"name": number of losses}.'
        )
    return sums, state


def checked_counts(counts: Any) -> Any:
    """Return the counts of a batch.

    Raises:
        ValueError: if they are not a dict of scalars.
    """
    if not isinstance(counts, Mapping) or any(np.ndim(count) for count in counts.values()):
        raise ValueError(
            "train.make_step: counts(batch) returned a wrong value; expected {term: count}, where every count is a "
            f"scalar, got {_shown(counts)}."
        )
    return counts


def checked_sums(sums: Any, totals: Any) -> Any:
    """Return the sums in at least float32.

    Raises:
        ValueError: if a term has no count or no loss, or a sum is not a scalar.
    """
    for term, terms in sums.items():
        if term not in totals or "loss" not in terms:
            raise ValueError(
                f"train.make_step: the objective's term {term!r}; expected a 'loss' in it and a count of the same "
                f"name, got {sorted(terms)} and counts for {sorted(totals)}."
            )
        for metric, value in terms.items():
            if np.ndim(value):
                raise ValueError(
                    f"train.make_step: the objective's {metric!r} of the term {term!r} is not a sum; expected a "
                    f"scalar, got {_shown(value)}. Return its sum over all elements."
                )
    return jax.tree.map(at_least_float32, sums)


def check_optimizer_state(optimizer: optax.GradientTransformation, opt_state: Any, chosen: tree.Tree) -> None:
    """Check that the state of the optimizer is for the trainable parameters.

    Args:
        optimizer: the optimizer of the step.
        opt_state: the state, from `create`.
        chosen: the trainable parameters of the step.

    Raises:
        ValueError: if `create` and `make_step` had different `trainable`.
    """
    expected: Any = jax.tree.structure(jax.eval_shape(optimizer.init, chosen))
    if expected != jax.tree.structure(opt_state):
        names = list(tree.flatten(chosen))
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise ValueError(
            "train.make_step: the optimizer's state does not fit the trainable parameters; expected a state for "
            f"{', '.join(names[:3])}{more}, got a state for other parameters. Pass the same optimizer and the same "
            "trainable= to train.create and train.make_step."
        )


def check_returns_sums(
    step: Callable[..., Any], model: Any, batch: Any, key: jax.Array, layout: Layout, *, where: str
) -> None:
    """Check in eval mode that the values of an objective are sums over the batch, not means.

    The step would divide a mean a second time. The objective runs on a part of the batch, and then on a batch with two
    copies of this part. A sum doubles, and a mean does not change. A loss that compares the rows of a batch with each
    other may do neither, and passes.

    Args:
        step: evaluation step of the objective, from `make_eval_step`.
        model: the model of the step, placed on the devices.
        batch: a host batch. The part is half of its rows, or as many as there are devices.
        key: random key, for an objective that is random in eval mode too.
        layout: layout of the run.
        where: the name of the caller, for the message.

    Raises:
        ValueError: if a value does not grow by more than a half. The message says what to return.
    """
    compiled = parallelize(step, layout)
    run = lambda batch: jax.device_get(compiled(model, layout.shard(batch), layout.place(key)))
    half = len(jax.tree.leaves(batch)[0]) // 2
    rows = max(1, half // layout.batch_parts) * layout.batch_parts
    part = jax.tree.map(lambda x: np.asarray(x)[:rows], batch)
    try:
        once, twice = (run(rows)["sums"] for rows in (part, jax.tree.map(lambda x: np.concatenate([x, x]), part)))
    except (TypeError, ValueError):
        run(batch)  # raises again, unless the objective works with one size of batches only
        return
    for term, terms in once.items():
        for metric, value in terms.items():
            if abs(twice[term][metric]) < 1.5 * abs(value):
                name = f"{metric!r} of the term {term!r}" if term else repr(metric)
                raise ValueError(
                    f"{where}: the objective's {name} is not a sum; expected {2 * value:g} for the rows of a batch "
                    f"repeated twice, because it is {value:g} for these rows, got {twice[term][metric]:g}. Return sums "
                    'over the batch, such as F.cross_entropy(…, reduction="sum"). The step divides them by the counts.'
                )


def _shown(value: Any) -> str:
    """Return the types and shapes in a value."""
    return str(jax.tree.map(lambda leaf: f"{getattr(leaf, 'dtype', type(leaf).__name__)}{list(np.shape(leaf))}", value))
