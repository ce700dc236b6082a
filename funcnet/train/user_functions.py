"""Calls of the functions that a user passes to a step. Their errors name the argument."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import optax

from funcnet import tree
from funcnet.tree import PyTree

__all__ = ["calling", "optimizer_updates"]

_UNTRACEABLE = (  # if, while and float(); functions of numpy; range and indices
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


@contextlib.contextmanager
def calling(where: str, name: str) -> Iterator[None]:
    """Name the argument whose function raises an error. Say what to do if JAX cannot trace the function.

    >>> with calling("train.fit", "schedule"):
    ...     jax.eval_shape(lambda step: 0.1 if step < 10 else 0.01, 0)
    Traceback (most recent call last):
    TypeError: train.fit: schedule cannot be compiled; expected code that computes with jax.numpy, because ...
    """
    try:
        yield
    except _UNTRACEABLE as error:
        reason = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        raise TypeError(
            f"{where}: {name} cannot be compiled; expected code that computes with jax.numpy, because its arguments "
            f"are traced, got code that needs their values ({reason}). Use jnp.where in place of if, and functions of "
            "jax.numpy in place of those of numpy and math."
        ) from error
    except Exception as error:
        error.add_note(f"in the argument {name} of {where}")
        raise


def optimizer_updates(
    optimizer: optax.GradientTransformation, grads: PyTree, opt_state: PyTree, chosen: tree.Tree, loss: jax.Array
) -> tuple[Any, Any]:
    """Return the updates of an optimizer and its new state. An optimizer that needs the loss, such as
    `optax.contrib.reduce_on_plateau`, receives it as `value`.

    Raises:
        ValueError: if `create` and `make_step` were called with different optimizers or values of `trainable`.
    """
    try:
        with calling("train.make_step", "optimizer"):
            return optax.with_extra_args_support(optimizer).update(grads, opt_state, chosen, value=loss)
    except Exception as error:
        _check_state(optimizer, opt_state, chosen)  # the usual cause of the error
        if isinstance(error, TypeError | AttributeError) and error.__cause__ is None:
            error.add_note(
                "The step calls update(grads, opt_state, params, value=loss). An optimizer that needs more than that, "
                "such as optax.lbfgs or optax.lookahead, cannot be used."
            )
        raise


def _check_state(optimizer: optax.GradientTransformation, opt_state: PyTree, chosen: tree.Tree) -> None:
    """Raise a ValueError if the state of the optimizer does not belong to the trainable parameters `chosen`."""
    expected: Any = jax.tree.structure(jax.eval_shape(optimizer.init, chosen))
    if expected != jax.tree.structure(opt_state):
        names = list(tree.flatten(chosen))
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise ValueError(
            "train.make_step: the optimizer's state does not fit the trainable parameters; expected a state for "
            f"{', '.join(names[:3])}{more}, got a state for other parameters. Pass the same optimizer and the same "
            "trainable= to train.create and train.make_step."
        )
