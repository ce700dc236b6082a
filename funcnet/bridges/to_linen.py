"""Use a funcnet module as a flax.linen module. The parameters and buffers of the funcnet module become linen variables
with torch's names.
"""

from collections.abc import Mapping
from typing import Any

from flax import core, linen

from funcnet import tree
from funcnet.bridges.nested_dicts import check_module, pruned, whole
from funcnet.nn import Module
from funcnet.tree import PyTree, Tree

Variables = dict[str, Any]

__all__ = ["ToLinen"]

PARAMS, FROZEN, STATE = "params", "frozen_params", "batch_stats"


class ToLinen(linen.Module):
    """A funcnet module as a `flax.linen.Module`, for use alone or inside another linen module.

    `init` returns the collections `params`, `batch_stats` (the buffers) and `frozen_params` (the parameters with
    requires_grad=False), as nested dicts with torch's names. Empty collections are omitted. A shared leaf is stored
    under its first name. As with linen's BatchNorm, a training call that changes buffers requires
    `mutable=["batch_stats"]`. Random keys are drawn from the stream `dropout`, or from the stream `params` if there is
    no stream `dropout`.

    Args:
        net: description of the net. Do not change the net after it has been passed. Lazy modules infer their shapes
            from the example inputs that are passed to `init`.

    Call: accepts the arguments of `forward`, and these keywords:
        training: True, False (the default) or {name pattern: bool}, as in `Module.apply`.
        net_method: name of a method of the net to call instead of `forward`.

    Raises:
        ValueError: if buffers change but `batch_stats` is not mutable, or if a call needs a random key but has none.
        TypeError: if `net` is not a funcnet module.

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

    def __call__(
        self,
        *inputs: PyTree,
        training: bool | Mapping[str, bool] = False,
        net_method: str | None = None,
        **kwargs: Any,
    ) -> Any:
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
                error.add_note("ToLinen: pass a key to linen's apply: `rngs={'dropout': jax.random.key(0)}`.")
            raise
        if new is not state and not self.is_initializing():
            if not self.is_mutable_collection(STATE):
                raise ValueError(
                    f"ToLinen: the call changes buffers of {type(self.net).__name__}; expected {STATE!r} among the "
                    f"mutable collections. Use `model.apply(…, mutable=[{STATE!r}])`, which returns `(output, "
                    "updated)`."
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
        """Convert (params, state) of the net to linen's variables."""
        trained, frozen = self.net.partition(params)
        collections = {PARAMS: pruned(trained), FROZEN: pruned(frozen), STATE: pruned(state)}
        return {name: values for name, values in collections.items() if values}

    @linen.nowrap
    def trees(self, variables: Mapping[str, Any]) -> tuple[Tree, Tree]:
        """Convert linen's variables to (params, state) of the net. This is the inverse of `to_variables`."""
        given = {name: tree.flatten(core.unfreeze(values)) for name, values in variables.items()}
        params = {**given.get(PARAMS, {}), **given.get(FROZEN, {})}
        return whole(self.net, params, given.get(STATE, {}), "ToLinen.trees")

    @linen.nowrap
    def state_dict(self, variables: Mapping[str, Any]) -> Any:
        """Return {dotted name: array} with torch's names, shapes and order. See `Module.state_dict`."""
        return self.net.state_dict(*self.trees(variables))

    @linen.nowrap
    def load_state_dict(
        self, sd: Mapping[str, Any], strict: bool = True, into: Mapping[str, Any] | None = None
    ) -> Variables:
        """Convert a state_dict to linen's variables. If `into` is given, it must be linen variables. See
        `Module.load_state_dict`.
        """
        return self.to_variables(*self.net.load_state_dict(sd, strict, None if into is None else self.trees(into)))
