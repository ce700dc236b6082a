"""A funcnet module as a flax.linen module: its leaves are linen variables in torch's names."""

from collections.abc import Mapping
from typing import Any

from flax import core, linen

from funcnet import tree
from funcnet.bridges.trees import check_module, pruned, whole
from funcnet.nn import Module

Tree = dict[str, Any]
Variables = dict[str, Any]

__all__ = ["ToLinen"]

PARAMS, FROZEN, STATE = "params", "frozen_params", "batch_stats"


class ToLinen(linen.Module):
    """A funcnet module as a `flax.linen.Module`, at the top or inside a linen parent.

    `init` gives the collections `params`, `batch_stats` (the buffers) and `frozen_params` (parameters with
    requires_grad=False), those that are not empty, as nested dicts in torch's names. A leaf that is shared stands under
    its first name. Buffers that a call in training changes need `mutable=["batch_stats"]`, as linen's BatchNorm does.
    Keys come from the stream `dropout`, or from `params` where there is none.

    Args:
        net: the description. It must not change afterwards. Lazy modules take their shapes from `init`'s example.

    Call: what `forward` takes, and these keywords:
        training: True, False (the default) or {name pattern: bool}, as in `Module.apply`.
        net_method: the name of another method of the net than `forward`.

    Raises:
        ValueError: buffers change and `batch_stats` is not mutable; no key where one is needed.
        TypeError: net is not a funcnet module.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import bridges, nn
        >>> model = bridges.ToLinen(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)))
        >>> x = jnp.ones((2, 3))
        >>> variables = model.init(jax.random.key(0), x)
        >>> sorted(variables), variables["params"]["0"]["weight"].shape
        (['batch_stats', 'params'], (4, 3))
        >>> y, updated = model.apply(
        ...     variables, x, training=True, rngs={"dropout": jax.random.key(1)}, mutable=["batch_stats"]
        ... )
        >>> int(updated["batch_stats"]["1"]["num_batches_tracked"])
        1

    Reference: https://flax-linen.readthedocs.io/en/latest/
    """

    net: Module

    def __call__(self, *inputs: Any, training: Any = False, net_method: str | None = None, **kwargs: Any) -> Any:
        check_module(self.net, "ToLinen")
        if self.is_initializing() and not self.variables:
            self._put(self.to_variables(*self.net.init(self.make_rng(PARAMS), *inputs, **kwargs)))
        given = {name: core.unfreeze(dict(values)) for name, values in self.variables.items()}
        params = tree.merge(given.get(PARAMS, {}), given.get(FROZEN, {}))
        state = given.get(STATE, {})
        rng = self.make_rng("dropout") if self.has_rng("dropout") or self.has_rng(PARAMS) else None
        try:
            out, new = self.net.apply(params, state, *inputs, training=training, rng=rng, method=net_method, **kwargs)
        except ValueError as error:
            if rng is None and "needs randomness" in str(error):
                error.add_note("ToLinen: give linen's apply a key: rngs={'dropout': jax.random.key(0)}.")
            raise
        if new is not state and not self.is_initializing():
            if not self.is_mutable_collection(STATE):
                raise ValueError(
                    f"ToLinen: the call changes buffers of {type(self.net).__name__}; expected {STATE!r} among the "
                    f"mutable collections. Write model.apply(…, mutable=[{STATE!r}]), which gives (output, updated)."
                )
            self._put({STATE: new})
        return out

    @linen.nowrap
    def _put(self, variables: Variables) -> None:
        for collection, values in variables.items():
            for name, value in values.items():
                self.put_variable(collection, name, value)

    @linen.nowrap
    def to_variables(self, params: Tree, state: Tree) -> Variables:
        """linen's variables from (params, state) of the net."""
        trained, frozen = self.net.partition(params)
        collections = {PARAMS: pruned(trained), FROZEN: pruned(frozen), STATE: pruned(state)}
        return {name: values for name, values in collections.items() if values}

    @linen.nowrap
    def trees(self, variables: Mapping[str, Any]) -> tuple[Tree, Tree]:
        """(params, state) of the net from linen's variables: the inverse of `to_variables`."""
        given = {name: tree.flatten(core.unfreeze(values)) for name, values in variables.items()}
        params = {**given.get(PARAMS, {}), **given.get(FROZEN, {})}
        return whole(self.net, params, given.get(STATE, {}), "ToLinen.trees")

    @linen.nowrap
    def state_dict(self, variables: Mapping[str, Any]) -> Any:
        """{dotted name: array} with torch's names, shapes and order; see `Module.state_dict`."""
        return self.net.state_dict(*self.trees(variables))

    @linen.nowrap
    def load_state_dict(
        self, sd: Mapping[str, Any], strict: bool = True, into: Mapping[str, Any] | None = None
    ) -> Variables:
        """linen's variables from a state_dict; `into` are variables. See `Module.load_state_dict`."""
        return self.to_variables(*self.net.load_state_dict(sd, strict, None if into is None else self.trees(into)))
