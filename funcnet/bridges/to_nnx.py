"""A funcnet module as a flax.nnx module: its leaves are nnx variables in the net's own tree."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from funcnet import tree
from funcnet.bridges.trees import check_module, whole
from funcnet.nn import Buffer, Module, Parameter
from funcnet.nn.core.parts import leaves

Tree = dict[str, Any]

__all__ = ["Branch", "FrozenParam", "ToNNX"]


class FrozenParam(nnx.Variable):
    """A parameter with requires_grad=False: `nnx.grad` and `nnx.Optimizer`, which take `nnx.Param`s, leave it alone."""


class Branch(nnx.Module):
    """A module of a funcnet net in nnx's tree: it holds variables and says whether it trains.

    One flag each, by nnx's names, so that `train()`, `eval()` and `nnx.view` set it: `use_running_average` where the
    module keeps buffers, `deterministic` elsewhere.
    """

    def __init__(self, keeps_buffers: bool):
        if keeps_buffers:
            self.use_running_average = False
        else:
            self.deterministic = False

    def set_view(self, deterministic: bool | None = None, use_running_average: bool | None = None) -> None:
        """What `nnx.view` calls.

        Args:
            deterministic: whether modules without buffers, such as dropout, are in eval.
            use_running_average: whether modules with buffers, such as BatchNorm, are in eval.
        """
        for name, value in (("deterministic", deterministic), ("use_running_average", use_running_average)):
            if value is not None and name in vars(self):
                setattr(self, name, value)


class ToNNX(Branch):
    """A funcnet module as a `flax.nnx.Module`.

    Parameters are `nnx.Param`s (`FrozenParam`s where requires_grad is False), buffers `nnx.BatchStat`s, under torch's
    names: `model.fc.weight`, and `("fc", "weight")` in `nnx.state`. A leaf that is shared stands under its first name.
    Buffers change in place when a call in training changes them. The wrapper, and every module in it, starts in
    training, as nnx's and torch's do: `model.eval()`, `model.encoder.eval()`, `model.train()`.

    Args:
        net: the description. It must not change afterwards.
        *example_inputs, **kwargs: what `net.init` takes; for lazy modules alone.
        rngs: its stream `params` draws the start, its stream `dropout` is forked for all randomness of calls; each
            falls back on the stream `default`.
        values: (params, state) to start from, as `net.init` or `net.load_state_dict` gives them; rngs need no `params`
            then.

    Call: what `forward` takes, and these keywords:
        training: True, False or {name pattern: bool}, as in `Module.apply`; None: what the modules' own flags say.
        rngs: a key, `nnx.RngStream` or `nnx.Rngs` (its stream `dropout`) for this call, in place of the module's own.
        method: the name of another method than `forward`.

    A call in training takes a key from the stream, one in eval takes none and changes nothing: a net that is random in
    eval too (fractional pooling) needs `rngs` for each call.

    Raises:
        ValueError: neither rngs nor values; a part has the name of a part of nnx.Module; no key where one is needed.
        TypeError: net is not a funcnet module.

    Example:
        >>> import jax.numpy as jnp, optax
        >>> from flax import nnx
        >>> from funcnet import bridges, nn
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
        >>> model = bridges.ToNNX(net, rngs=nnx.Rngs(0))
        >>> optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
        >>> @nnx.jit
        ... def step(model, optimizer, x):
        ...     loss, grads = nnx.value_and_grad(lambda model: (model(x) ** 2).mean())(model)
        ...     optimizer.update(model, grads)
        ...     return loss
        >>> loss = step(model, optimizer, jnp.ones((2, 3)))
        >>> model.eval()
        >>> model(jnp.ones((2, 3))).shape, model.state_dict()["1.num_batches_tracked"]
        ((2, 1), array(1))

    Reference: https://flax.readthedocs.io/en/latest/guides/bridge_guide.html
    """

    def __init__(
        self,
        net: Module,
        *example_inputs: Any,
        rngs: nnx.Rngs | None = None,
        values: tuple[Tree, Tree] | None = None,
        **kwargs: Any,
    ):
        check_module(net, "ToNNX")
        if values is None:
            if rngs is None:
                raise ValueError(
                    "ToNNX: nothing to start from; expected rngs or values, got neither. Give rngs=nnx.Rngs(0), or "
                    "values=(params, state)."
                )
            values = net.init(rngs.params(), *example_inputs, **kwargs)
        super().__init__(keeps_buffers=bool(leaves(net, Buffer)))
        self._net = net
        self.rngs = rngs.dropout.fork() if rngs is not None and hasattr(rngs, "dropout") else nnx.data(None)
        flat_params, flat_state = map(tree.flatten, values)
        whole(net, flat_params, flat_state, "ToNNX")
        branches: dict[str, Branch] = {"": self}
        for path, module in net.named_modules():
            if path:
                above, _, name = path.rpartition(".")
                branches[path] = Branch(keeps_buffers=bool(leaves(module, Buffer)))
                _attach(branches[above], name, branches[path], path)
            for kind, flat in ((Parameter, flat_params), (Buffer, flat_state)):
                for name, leaf in leaves(module, kind):
                    dotted_name = f"{path}.{name}" if path else name
                    if dotted_name in flat:
                        variable = nnx.BatchStat if kind is Buffer else nnx.Param if leaf.requires_grad else FrozenParam
                        _attach(branches[path], name, variable(jnp.asarray(flat[dotted_name])), dotted_name)

    def __call__(
        self,
        *inputs: Any,
        training: Any = None,
        rngs: nnx.Rngs | nnx.RngStream | jax.Array | None = None,
        method: str | None = None,
        **kwargs: Any,
    ) -> Any:
        params, state = self.trees()
        if training is None:
            flags = {path: not _in_eval(branch) for path, branch in _branches(self)}
            training = next(iter(flags.values())) if len(set(flags.values())) == 1 else flags
        trains = training if isinstance(training, bool) else any(training.values())
        key = self._key(rngs, trains)
        try:
            out, new = self._net.apply(params, state, *inputs, training=training, rng=key, method=method, **kwargs)
        except ValueError as error:
            if key is None and "needs randomness" in str(error):
                error.add_note(
                    "ToNNX: its own stream serves calls in training, and it has one if it was made with "
                    "rngs=nnx.Rngs(…). Make it so, or give this call a key: model(x, rngs=jax.random.key(0))."
                )
            raise
        if new is not state:
            before = tree.flatten(state)
            for path, value in tree.flatten(new).items():
                if value is not before[path]:
                    _variable(self, path)[...] = value
        return out

    def _key(self, rngs: Any, trains: bool) -> jax.Array | None:
        if rngs is None:
            return self.rngs() if trains and self.rngs is not None else None
        if isinstance(rngs, nnx.Rngs):
            return rngs.dropout()
        return rngs() if isinstance(rngs, nnx.RngStream) else rngs

    def trees(self) -> tuple[Tree, Tree]:
        """(params, state) for `net.apply`, as `net.init` gives them."""
        params: Tree = {}
        state: Tree = {}
        for path, branch in _branches(self):
            for name, value in vars(branch).items():
                if isinstance(value, nnx.Variable):
                    flat = state if isinstance(value, nnx.BatchStat) else params
                    flat[f"{path}.{name}" if path else name] = value[...]
        return whole(self._net, params, state, "ToNNX")

    def set_trees(self, params: Tree, state: Tree) -> None:
        """Takes the arrays of (params, state), in place."""
        params, state = tree.flatten(params), tree.flatten(state)
        whole(self._net, params, state, "ToNNX.set_trees")
        for path, value in (*params.items(), *state.items()):
            _variable(self, path)[...] = jnp.asarray(value)

    def state_dict(self) -> Any:
        """{dotted name: array} with torch's names, shapes and order; see `Module.state_dict`."""
        return self._net.state_dict(*self.trees())

    def load_state_dict(self, sd: Any, strict: bool = True) -> None:
        """Takes the arrays of a state_dict (torch tensors, numpy or JAX arrays), in place.

        With strict=False, what `sd` lacks stays as it is. See `Module.load_state_dict`.
        """
        self.set_trees(*self._net.load_state_dict(sd, strict, into=self.trees()))


def _attach(branch: Branch, name: str, value: Any, path: str) -> None:
    if hasattr(branch, name) or hasattr(type(branch), name):
        raise ValueError(
            f"ToNNX: the part {path!r} has a name that {type(branch).__name__} needs for itself; expected any other, "
            f"got {name!r}. Rename it" + (", or wrap the net: nn.Sequential(net)." if "." not in path else ".")
        )
    setattr(branch, name, value)


def _branches(model: Branch, path: str = "") -> list[tuple[str, Branch]]:
    """[(dotted name, branch)], parents first."""
    found = [(path, model)]
    for name, value in vars(model).items():
        if isinstance(value, Branch):
            found += _branches(value, f"{path}.{name}" if path else name)
    return found


def _in_eval(branch: Branch) -> bool:
    own = vars(branch)
    return bool(own["use_running_average"] if "use_running_average" in own else own["deterministic"])


def _variable(model: Branch, path: str) -> Any:
    value: Any = model
    for segment in path.split("."):
        value = vars(value)[segment]
    return value
