"""Use a funcnet module as a flax.nnx module. The parameters and buffers of the funcnet module become nnx variables with
torch's names.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from funcnet import tree
from funcnet.bridges.nested_dicts import check_module, whole
from funcnet.nn import Buffer, Module, Parameter
from funcnet.nn.core.module_tree import leaves
from funcnet.tree import PyTree, Tree

__all__ = ["Branch", "FrozenParam", "ToNNX"]


class FrozenParam(nnx.Variable):
    """A parameter with requires_grad=False. A `FrozenParam` is not an `nnx.Param`, so `nnx.grad` and `nnx.Optimizer`
    ignore it.
    """


class Branch(nnx.Module):
    """The nnx counterpart of one module of a funcnet net. An instance contains variables and a flag for training or
    eval mode.

    The flag has one of nnx's names, so that `train()`, `eval()` and `nnx.view` set it. The name is
    `use_running_average` if the module has buffers, and `deterministic` otherwise.
    """

    def __init__(self, keeps_buffers: bool):
        if keeps_buffers:
            self.use_running_average = False
        else:
            self.deterministic = False

    def set_view(self, deterministic: bool | None = None, use_running_average: bool | None = None) -> None:
        """Set the flag. `nnx.view` calls this method.

        Args:
            deterministic: whether modules without buffers, such as dropout, are in eval mode.
            use_running_average: whether modules with buffers, such as BatchNorm, are in eval mode.
        """
        for name, value in (("deterministic", deterministic), ("use_running_average", use_running_average)):
            if value is not None and name in vars(self):
                setattr(self, name, value)


class ToNNX(Branch):
    """A funcnet module as a `flax.nnx.Module`.

    Parameters are `nnx.Param`s (or `FrozenParam`s if requires_grad is False), and buffers are `nnx.BatchStat`s. The
    variables have torch's names. For example, the variable `model.fc.weight` has the path `("fc", "weight")` in
    `nnx.state`. A shared leaf is stored under its first name. A training call updates buffers in place. As in
    nnx and torch, the wrapper and all its modules are initially in training mode. Use `model.eval()`,
    `model.encoder.eval()` or `model.train()` to change the mode.

    Args:
        net: description, which must not change afterwards.
        *example_inputs, **kwargs: arguments of `net.init`, needed only for lazy modules.
        rngs: random streams. The stream `params` initialises the parameters. A fork of the stream `dropout` provides
            the random keys of calls. If one of these streams is missing, the stream `default` is used instead.
        values: initial (params, state), as returned by `net.init` or `net.load_state_dict`. With `values`, `rngs` does
            not need the stream `params`.

    Call: accepts the arguments of `forward`, and these keywords:
        training: True, False or {name pattern: bool}, as in `Module.apply`. With `training=None`, each module uses its
        own training flag.
        rngs: key, `nnx.RngStream` or `nnx.Rngs` (with a stream `dropout`) for this call, instead of the model's stream.
        method: name of a method of the net to call instead of `forward`.

    A training call draws a key from the model's stream. An eval call draws no key and changes no state. Some nets need
    a key even in eval mode, for example for fractional pooling. For nets that need a key in eval mode, pass `rngs` in
    each eval call.

    Raises:
        ValueError: if neither `rngs` nor `values` is given, if a part of the net has the same name as an attribute of
            `nnx.Module`, or if a call needs a random key but has none.
        TypeError: if `net` is not a funcnet module.

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
        *example_inputs: PyTree,
        rngs: nnx.Rngs | None = None,
        values: tuple[Tree, Tree] | None = None,
        **kwargs: Any,
    ):
        check_module(net, "ToNNX")
        if values is None:
            if rngs is None:
                raise ValueError(
                    "ToNNX: there are no initial values; expected rngs or values, got neither. Pass "
                    "rngs=nnx.Rngs(0), or values=(params, state)."
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
        *inputs: PyTree,
        training: bool | Mapping[str, bool] | None = None,
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
                    "ToNNX: only training calls draw keys from the model's own stream, which requires `ToNNX(net, "
                    "rngs=nnx.Rngs(0))`. Pass rngs to ToNNX, or pass a key to this call: `model(x, "
                    "rngs=jax.random.key(0))`."
                )
            raise
        if new is not state:
            before = tree.flatten(state)
            for path, value in tree.flatten(new).items():
                if value is not before[path]:
                    _variable(self, path)[...] = value
        return out

    def _key(self, rngs: nnx.Rngs | nnx.RngStream | jax.Array | None, trains: bool) -> jax.Array | None:
        if rngs is None:
            return self.rngs() if trains and self.rngs is not None else None
        if isinstance(rngs, nnx.Rngs):
            return rngs.dropout()
        return rngs() if isinstance(rngs, nnx.RngStream) else rngs

    def trees(self) -> tuple[Tree, Tree]:
        """Return (params, state) for `net.apply`, in the structure of `net.init`."""
        params: Tree = {}
        state: Tree = {}
        for path, branch in _branches(self):
            for name, value in vars(branch).items():
                if isinstance(value, nnx.Variable):
                    flat = state if isinstance(value, nnx.BatchStat) else params
                    flat[f"{path}.{name}" if path else name] = value[...]
        return whole(self._net, params, state, "ToNNX")

    def set_trees(self, params: Tree, state: Tree) -> None:
        """Set all variables, in place, to the arrays of (params, state)."""
        params, state = tree.flatten(params), tree.flatten(state)
        whole(self._net, params, state, "ToNNX.set_trees")
        for path, value in (*params.items(), *state.items()):
            _variable(self, path)[...] = jnp.asarray(value)

    def state_dict(self) -> Any:
        """Return {dotted name: array} with torch's names, shapes and order. See `Module.state_dict`."""
        return self._net.state_dict(*self.trees())

    def load_state_dict(self, sd: Mapping[str, Any], strict: bool = True) -> None:
        """Load the arrays of a state_dict (torch tensors, numpy or JAX arrays), in place.

        With strict=False, variables that are missing in `sd` keep their values. See `Module.load_state_dict`.
        """
        self.set_trees(*self._net.load_state_dict(sd, strict, into=self.trees()))


def _attach(branch: Branch, name: str, value: PyTree, path: str) -> None:
    if hasattr(branch, name) or hasattr(type(branch), name):
        raise ValueError(
            f"ToNNX: {path!r} has the same name as an attribute of {type(branch).__name__}; expected a different name, "
            f"got {name!r}. Rename {path!r}" + (", or wrap the net: `nn.Sequential(net)`." if "." not in path else ".")
        )
    setattr(branch, name, value)


def _branches(model: Branch, path: str = "") -> list[tuple[str, Branch]]:
    """Return the list of (dotted name, branch) pairs, with parents before their children."""
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
