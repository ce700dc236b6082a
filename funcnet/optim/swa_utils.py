"""Average weights over training, as in torch/optim/swa_utils.py: exponentially (EMA) or as an unweighted mean (SWA).

    average = swa_utils.AveragedModel.create(params, state, swa_utils.get_ema_avg_fn(0.999))
    average = average.update_parameters(params, state)   # after every step, also inside jit
    net.apply(average.params, average.state, x)

`nn.utils.update_bn` recomputes BatchNorm's statistics for averaged weights. Instead of torch's SWALR, use
`optax.cosine_decay_schedule(rate, steps, swa_lr / rate)` or `optax.linear_schedule`.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from funcnet.arguments import boolean, function, mapping, number
from funcnet.tree import Tree

AvgFn = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]

__all__ = ["AveragedModel", "get_ema_avg_fn", "get_swa_avg_fn"]


def get_ema_avg_fn(decay: float = 0.999) -> AvgFn:
    """Return a function that computes the exponential average ``decay · averaged + (1 - decay) · current``.

    Args:
        decay: decay rate, in [0, 1].

    Returns:
        A function (averaged, current, num_averaged) -> averaged.

    Raises:
        TypeError: if `decay` is not a number.
        ValueError: if `decay` is not in [0, 1].

    Differs from torch: there is no `get_ema_multi_avg_fn`, which computes the same average for many arrays at once.
    `optax.ema` starts at zero and corrects the resulting bias, whereas the average of this function starts at the first
    params.

    Example:
        >>> float(get_ema_avg_fn(0.75)(jnp.array(4.0), jnp.array(8.0), jnp.array(1)))
        5.0

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.optim.swa_utils.get_ema_multi_avg_fn.html
    """
    advice = "For example, 0.999 averages over about a thousand steps."
    number("swa_utils.get_ema_avg_fn", "decay", decay, 0, 1, advice=advice)
    return _Exponential(decay)


def get_swa_avg_fn() -> AvgFn:
    """Return a function that computes the mean, ``averaged + (current - averaged) / (num_averaged + 1)``.

    >>> float(get_swa_avg_fn()(jnp.array(4.0), jnp.array(8.0), jnp.array(3)))
    5.0
    """
    return _Equal()


@dataclasses.dataclass(frozen=True)
class _Exponential:
    decay: float

    def __call__(self, averaged: jax.Array, current: jax.Array, num_averaged: jax.Array) -> jax.Array:
        return self.decay * averaged + (1 - self.decay) * current


@dataclasses.dataclass(frozen=True)
class _Equal:
    def __call__(self, averaged: jax.Array, current: jax.Array, num_averaged: jax.Array) -> jax.Array:
        return averaged + (current - averaged) / (num_averaged + 1).astype(averaged.dtype)


@struct.dataclass
class AveragedModel:
    """Averaged params and the matching state, as a pytree. Use `create` to make an `AveragedModel`.

    Args:
        params, state: averaged params, and the state to pass to `net.apply` with the averaged params.
        n_averaged: number of updates of the average so far, as an int32 scalar.
        avg_fn: function (averaged, current, num_averaged) -> averaged, called for each leaf in at least float32.
        use_buffers: if True, the state is averaged too. If `use_buffers` is False, the latest state is kept.

    Differs from torch: an `AveragedModel` is immutable, and `update_parameters` returns a new one. The average keeps
    the dtypes of the params that `create` received. If the net trains in bfloat16, pass `tree.cast(params,
    jnp.float32)` to `create`. Otherwise, small changes are lost, because bfloat16 has only 8 significant bits.

    Example:
        >>> average = AveragedModel.create({"weight": jnp.array(1.0)}, {})
        >>> for weight in (2.0, 4.0):
        ...     average = average.update_parameters({"weight": jnp.array(weight)}, {})
        >>> float(average.params["weight"]), int(average.n_averaged)
        (3.0, 2)

    Reference: Izmailov et al., 2018, "Averaging Weights Leads to Wider Optima and Better Generalization".
    """

    params: Any
    state: Any
    n_averaged: Any
    avg_fn: AvgFn = struct.field(pytree_node=False)
    use_buffers: bool = struct.field(pytree_node=False)

    @classmethod
    def create(
        cls, params: Tree, state: Tree, avg_fn: AvgFn | None = None, use_buffers: bool = False
    ) -> "AveragedModel":
        """Return an `AveragedModel` with `n_averaged` 0 and copies of the arrays. As in torch, the first update of the
        average replaces these copies.

        Args:
            params, state: params and state of the net.
            avg_fn: function that computes the average, `get_swa_avg_fn()` by default.
            use_buffers: whether to average the state too.

        Raises:
            TypeError: if an argument has the wrong type.
        """
        where = "AveragedModel.create"
        mapping(where, "params", params, "a nested dict of arrays, as net.init returns it")
        mapping(where, "state", state, "a nested dict of arrays, as net.init returns it")
        if avg_fn is not None:
            function(where, "avg_fn", avg_fn, "avg_fn(averaged, current, num_averaged)", 3)
        boolean(where, "use_buffers", use_buffers)
        params, state = jax.tree.map(jnp.array, (params, state))
        return cls(params, state, jnp.zeros((), jnp.int32), get_swa_avg_fn() if avg_fn is None else avg_fn, use_buffers)

    def update_parameters(self, params: Tree, state: Tree) -> "AveragedModel":
        """Return a new `AveragedModel` that also averages `params` and `state`."""

        def average(averaged: jax.Array, current: jax.Array) -> jax.Array:
            floating = jnp.issubdtype(averaged.dtype, jnp.inexact)
            wide = averaged.dtype if floating and jnp.finfo(averaged.dtype).bits > 32 else jnp.float32
            current = jnp.asarray(current)
            new = self.avg_fn(averaged.astype(wide), current.astype(wide), self.n_averaged)
            return jnp.where(self.n_averaged == 0, current.astype(averaged.dtype), new.astype(averaged.dtype))

        def latest(averaged: jax.Array, current: jax.Array) -> jax.Array:
            return jnp.asarray(current).astype(averaged.dtype)

        return self.replace(  # type: ignore[attr-defined]
            params=jax.tree.map(average, self.params, params),
            state=jax.tree.map(average if self.use_buffers else latest, self.state, state),
            n_averaged=self.n_averaged + 1,
        )

    def state_dict(self, net: Any) -> dict[str, Any]:
        """Return a state_dict with torch's names: `n_averaged`, and the net's names with the prefix `module.`."""
        own = net.state_dict(self.params, self.state)
        return {"n_averaged": self.n_averaged, **{f"module.{name}": value for name, value in own.items()}}

    def load_state_dict(self, net: Any, sd: Mapping[str, Any]) -> "AveragedModel":
        """Return the average with the values of a state_dict of torch's AveragedModel. `avg_fn` does not change.

        Raises:
            ValueError: if `n_averaged` is missing, or if the other names differ from the net's names.
        """
        if "n_averaged" not in sd:
            raise ValueError(
                f"AveragedModel.load_state_dict: 'n_averaged' is missing; expected 'n_averaged' and 'module.…', got "
                f"{list(sd)[:3]}. For the state_dict of a plain net, use `net.load_state_dict`."
            )
        own = {name.removeprefix("module."): value for name, value in sd.items() if name != "n_averaged"}
        params, state = net.load_state_dict(own, into=(self.params, self.state))
        return self.replace(  # type: ignore[attr-defined]
            params=params, state=state, n_averaged=jnp.asarray(int(sd["n_averaged"]), jnp.int32)
        )
