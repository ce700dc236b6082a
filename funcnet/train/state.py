"""What a training step moves: arrays only, in one pytree."""

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax

from funcnet import tree

__all__ = ["TrainState", "create"]


@flax.struct.dataclass
class TrainState:
    """Everything that changes from step to step, and nothing that does not: no functions, no settings.

    Attributes:
        params: nested dict, what the optimizer moves (and what is frozen).
        state: nested dict, the model's buffers.
        opt_state: the optimizer's, for the trainable parameters alone.
        step: int32, the updates made.
    """

    params: Any
    state: Any
    opt_state: Any
    step: jax.Array


def create(
    params: tree.Tree, state: tree.Tree, optimizer: optax.GradientTransformation, *, trainable: tree.Patterns = "**"
) -> TrainState:
    """The state before the first step.

    Args:
        params, state: of `Module.init`.
        optimizer: any optax transformation.
        trainable: patterns of the parameters that train; give `make_step` the same. The optimizer keeps nothing for
            the others.

    Raises:
        ValueError: a pattern matches no parameter.

    Example:
        >>> made = create({"fc": {"weight": jnp.ones(2)}}, {}, optax.sgd(0.1))
        >>> made.step
        Array(0, dtype=int32)
    """
    chosen, _ = tree.partition(params, trainable, where="train.create: trainable")
    return TrainState(params, state, optimizer.init(chosen), jnp.zeros((), jnp.int32))
