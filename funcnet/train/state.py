"""The train state: all arrays that a training step takes and returns, in one pytree."""

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax

from funcnet import tree
from funcnet.optim import swa_utils

__all__ = ["TrainState", "create"]


@flax.struct.dataclass
class TrainState:
    """All arrays that a training step takes and returns. Functions and settings are not part of the state.

    Attributes:
        params: nested dict of the parameters, trainable and frozen.
        state: nested dict of the model's buffers.
        opt_state: state of the optimizer, for the trainable parameters only.
        step: int32 scalar, the number of steps made, including the skipped ones.
        skipped: int32 scalar, the number of steps that were skipped because the loss or the gradient was not finite.
        ema: `swa_utils.AveragedModel` with the exponential moving average of the weights, or None.
        extra: the user's own values, any pytree of arrays, or None. See `make_step`.
    """

    params: Any
    state: Any
    opt_state: Any
    step: jax.Array
    ema: Any = None
    extra: Any = None
    skipped: Any = 0


def create(
    params: tree.Tree,
    state: tree.Tree,
    optimizer: optax.GradientTransformation,
    *,
    trainable: tree.Patterns = "**",
    ema: float | None = None,
    extra: Any = None,
) -> TrainState:
    """Return the train state before the first step.

    Args:
        params: parameters from `Module.init`.
        state: buffers from `Module.init`.
        optimizer: any optax transformation.
        trainable: patterns for the names of the trainable parameters. Pass the same patterns to `make_step`. The
            optimizer has no state for parameters that no pattern matches.
        ema: decay rate of the moving average of the weights, such as 0.999. None keeps no average.
        extra: initial values of `TrainState.extra`.

    Returns:
        A `TrainState` with `step` 0.

    Raises:
        ValueError: if a pattern matches no parameter, or `ema` is not in [0, 1].

    Example:
        >>> made = create({"fc": {"weight": jnp.ones(2)}}, {}, optax.sgd(0.1))
        >>> made.step
        Array(0, dtype=int32)
    """
    chosen, _ = tree.partition(params, trainable, where="train.create: trainable")
    average = None if ema is None else swa_utils.AveragedModel.create(params, state, swa_utils.get_ema_avg_fn(ema))
    own = None if extra is None else jax.tree.map(jnp.asarray, extra)
    zero = jnp.zeros((), jnp.int32)
    return TrainState(params, state, optimizer.init(chosen), zero, average, own, zero)
