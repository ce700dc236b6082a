"""The core class, `Module`, which describes a net. `init` makes its params and state, and `apply` runs the net.

- *description*: a plain object without arrays. Its parts are the `Parameter`s, `Buffer`s and `Module`s among its
  attributes, so its `__dict__` is the only registry. `core/description.py` registers the parts, and
  `core/module_tree.py` reads and walks them.
- *params, state*: two nested dicts of arrays that mirror the tree of modules. A leaf that several modules share is
  stored only under its first name.
- *bound copy*: the object that is `self` inside `forward`, with arrays in place of leaves. `apply` makes the copy, runs
  `forward`, reads the buffers back and discards the copy (`core/binding.py`).
"""

import functools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import jax

from funcnet import random, tree
from funcnet.nn.core import abstract_run, binding, method_overrides, pure_calls, stale_traces
from funcnet.nn.core.absent import METHODS
from funcnet.nn.core.call import Training, outermost, refuse_unknown, require_key
from funcnet.nn.core.description import Description
from funcnet.nn.core.forward_attributes import missing
from funcnet.nn.core.inputs_and_outputs import OutputAndState, arrays
from funcnet.nn.core.jit_snapshot import compared_by_description
from funcnet.nn.core.module_tree import description_of, frame_of, leaves, values
from funcnet.nn.core.unbound_calls import call_unbound
from funcnet.nn.inspection.finite_flags import PROBES, flagged_apply
from funcnet.nn.inspection.hooks import Hooks, RemovableHandle
from funcnet.nn.inspection.registered_hooks import Hooked, hooked
from funcnet.nn.module import display, summary
from funcnet.nn.module.dtype_and_device import Placed
from funcnet.nn.module.initial_arrays import restart, start
from funcnet.nn.module.sharding import Sharded, anchored
from funcnet.nn.state_dict import state_dict, state_dict_hooks
from funcnet.nn.state_dict.state_dict import Match
from funcnet.tree import Params, PyTree, State, Tree

__all__ = ["Module"]


class Module(Description, Hooked, Placed, Sharded, state_dict_hooks.LoadsStateDict):
    """A description of a computation with parameters and buffers, as in torch, that runs as a pure function.

    Subclass it as in torch: assign layers, `nn.Parameter`s and buffers in `__init__`, and compute in `forward`.

    Differs from torch: a module has no arrays. `init` returns arrays, and `apply` takes them. `training`, randomness
    and hooks are arguments of `apply`. As in torch, a plain list registers no modules. Here, modules with parameters
    must be registered to be called; use `nn.ModuleList`. Plain lists, tuples, dicts, partials, methods and lambdas
    among the attributes may refer to registered modules. `apply` copies the lists, dicts, sets and deques, including
    nested ones, so changes that `forward` makes to them are lost after the call, and a warning reports them. The value
    of an attribute that `forward` sets lasts until the end of the call, unless the attribute is a buffer. `forward`
    should not store arrays in other objects, because under `jit` these would keep tracers. A module without parameters
    and buffers may be called as a function, in eval mode: `nn.MSELoss()(x, y)`. `forward` may create and call a
    container of the net's modules, in which new modules are in training mode: `nn.Sequential(self.a, nn.ReLU())(x)`.

    A description may change between calls (`net.act = nn.Tanh()`, `nn.init.zeros_(net.fc.weight)`,
    `net.fc.requires_grad_(False)`). A function that is already jitted keeps its program, so jit it again after a
    change. If a module, a leaf or an attribute changes after `jit`, a warning reports it. A new `jax.jit(net.apply)` or
    `jax.jit(net.init)` compiles again if a module, a leaf, an attribute, or an item of a plain list, dict or set has
    changed. Otherwise, the new function reuses the earlier program. JAX does not notice deeper changes, such as a new
    value in a field of a configuration object. Assign a new object instead.

    Example:
        >>> import jax
        >>> from funcnet import nn
        >>> class Block(nn.Module):
        ...     def __init__(self, width):
        ...         super().__init__()
        ...         self.fc = nn.Linear(width, width)
        ...         self.drop = nn.Dropout(0.1)
        ...     def forward(self, x):
        ...         return x + self.drop(self.fc(x))
        >>> net = Block(4)
        >>> params, state = net.init(jax.random.key(0))
        >>> x = jax.numpy.ones((2, 4))
        >>> y, state = net.apply(params, state, x, training=True, rng=jax.random.key(1))
        >>> y.shape
        (2, 4)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html
    """

    training = False  # the mode inside forward; defined on the class so that no part can take this name

    _version = 1  # the version of the state_dict's layout, as in torch

    def __new__(cls, *args: object, **kwargs: object) -> Any:
        method_overrides.refuse_device(cls, kwargs)
        return super().__new__(cls)

    def __init__(self) -> None:
        method_overrides.refuse_ignored(type(self))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: the class does not define forward. Define forward(self, …).")

    # ----------------------------------------------------------------------------------------------- trees of values

    @compared_by_description
    def init(self, rng: jax.Array, *example_inputs: PyTree, **kwargs: object) -> tuple[Params, State]:
        """Initialise the arrays of this module.

        Args:
            rng: a key. Each leaf's key is derived from `rng` and its dotted name, so a new layer changes no other leaf.
            *example_inputs, **kwargs: arguments of `forward`, needed only for lazy modules. Only shapes are used.

        Returns:
            (params, state): nested dicts of arrays that mirror the tree of modules.

        Raises:
            ValueError: if a leaf has no init, or a leaf is lazy and there is no example input.
            TypeError: if `rng` is not a key.
        """
        require_key(rng, f"{type(self).__name__}.init")
        shapes = abstract_run.infer(self, example_inputs, kwargs) if example_inputs or kwargs else {}
        return start(self, rng, shapes, {})

    def reinit(self, rng: jax.Array, values: Tree, patterns: tree.Patterns) -> Tree:
        """Return params (or state) with new initial values for some leaves, such as those of a head to fine-tune.

        Args:
            rng: a key. Every chosen leaf gets the value that `init(rng)` would give it.
            values: params or state, as returned by `init` or `load_state_dict`.
            patterns: names of leaves or modules, see `funcnet.tree`.

        Raises:
            ValueError: if a pattern matches nothing, or a leaf has no init.

        Example:
            >>> import jax
            >>> from funcnet import nn
            >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
            >>> params, state = net.init(jax.random.key(0))
            >>> fresh = net.reinit(jax.random.key(1), params, "1")
            >>> bool((fresh["0"]["weight"] == params["0"]["weight"]).all()), bool((fresh["1"]["bias"] == 0).all())
            (True, False)
        """
        require_key(rng, f"{type(self).__name__}.reinit")
        return restart(self, rng, values, patterns)

    def partition(self, params: Tree) -> tuple[Tree, Tree]:
        """Split params into (trainable, frozen) by `requires_grad`. `tree.merge` joins them again.

        Differentiate only with respect to the trainable params. Frozen params need no gradients or optimizer state.

        >>> import jax
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        >>> _ = net[0].requires_grad_(False)
        >>> trainable, frozen = net.partition(net.init(jax.random.key(0))[0])
        >>> sorted(trainable["0"]), sorted(trainable["1"]), sorted(frozen["0"])
        ([], ['bias', 'weight'], ['bias', 'weight'])
        """
        trained = [name for name, leaf in self.named_parameters() if leaf.requires_grad]
        return tree.divide(params, trained, where=f"{type(self).__name__}.partition")

    def subtree(self, name: str, params: Tree | None = None, state: Tree | None = None) -> tuple[Tree, Tree]:
        """Return (params, state) of the child `name`, including leaves that are stored under another module's name.

        Inside `forward`, `params` and `state` may be left out, because the arrays of the call are used.

        >>> import jax
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        >>> net[1].weight = net[0].weight
        >>> params, state = net.init(jax.random.key(0))
        >>> sorted(params["1"]), sorted(net.subtree("1", params, state)[0])
        (['bias'], ['bias', 'weight'])
        """
        if params is not None and state is not None:
            return values(binding.bind(self, params, state).get_submodule(name))
        if frame_of(self) is None:
            raise TypeError(f"{type(self).__name__}.subtree: a description holds no arrays. Pass params and state.")
        return values(self.get_submodule(name))

    # -------------------------------------------------------------------------------------------------------- running

    @compared_by_description
    def apply(
        self,
        params: PyTree,
        state: State | None = None,
        *inputs: PyTree,
        training: Training = False,
        rng: jax.Array | None = None,
        hooks: Hooks | None = None,
        method: str | None = None,
        **kwargs: object,
    ) -> Any:
        """Run `forward` as a pure function. With a single callable, `apply(fn)` calls it on every module, as in torch.

        Args:
            params, state: params and state, as returned by `init`.
            *inputs, **kwargs: arguments of `forward`.
            training: if True, dropout and normalisation are in training mode. In a dict {name pattern: bool}, the
                last match wins, and modules without a match are in eval mode. `training` is static, so under `jit` use
                `jax.jit(functools.partial(net.apply, training=True))`.
            rng: a key, needed if a module uses randomness.
            hooks: an `nn.Hooks`, or None.
            method: name of another method to run in place of `forward`.

        Returns:
            (output, state). The new state has the new values of the buffers in the structure of the given `state`.

        Raises:
            ValueError: if params or state do not fit the description, `rng` is missing but randomness is used, a buffer
                changes its shape, or there is no such `method`.
            TypeError: if an argument has the wrong type or an unknown name, or an argument that `forward` and `apply`
                have in common is passed to `forward` by keyword.
        """
        if state is None and not inputs and callable(params):
            for child in self.children():
                child.apply(params)
            params(self)
            return self
        if not isinstance(params, dict) or not isinstance(state, dict):
            raise TypeError(
                f"{type(self).__name__}.apply: expected params and state, two dicts as `init` returns them, got "
                f"{type(params).__name__} and {type(state).__name__}. Call net.apply(params, state, *inputs)."
            )
        net = description_of(self)
        if method is None:
            refuse_unknown(net, kwargs)
        if PROBES in params:
            return flagged_apply(net, params, state, inputs, kwargs, method, training=training, rng=rng, hooks=hooks)
        call = outermost(net, "apply", inputs, method, training, rng, anchored(hooks, (inputs, kwargs)))
        if call.is_eager:
            given = binding.run(net, params, state, arrays(inputs), arrays(kwargs), call, method)
            return OutputAndState(*given[:2])
        if stale_traces.is_abstract((params, state, inputs, kwargs)):
            stale_traces.TRACED.add(part for one in net.modules() for part in (one, *dict(leaves(one)).values()))
        out, state, _ = binding.run(net, params, state, arrays(inputs), arrays(kwargs), call, method)
        return out, state

    def __call__(self, *args: PyTree, **kwargs: object) -> Any:
        frame = frame_of(self)
        if frame is None:
            return call_unbound(self, args, kwargs)
        call = frame.call
        forward = functools.partial(binding.computing, self, self.forward) if frame.computed else self.forward
        forward = pure_calls.recomputed(self, forward)
        out = call.run(frame, hooked(call.hooks, self, frame.name, forward), *args, **kwargs)
        return call.record(frame, out)

    def __getattr__(self, name: str) -> Any:
        """Return the array of a computed attribute of this bound module, whose own `forward` is not running.

        If `name` is a method that only torch's Module has, the AttributeError says what to use instead.
        """
        frame = frame_of(self)
        if frame is not None and name in frame.computed:
            return frame.computed[name].value(self)
        if name in METHODS and not hasattr(type(self), name):
            raise AttributeError(
                f"{type(self).__name__}.{name} does not exist here. {METHODS[name]}", name=name, obj=self
            )
        if frame is not None and name not in vars(self) and not hasattr(type(self), name):
            raise missing(self, name)
        return object.__getattribute__(self, name)  # raises the usual error, or that of a property

    def make_rng(self) -> jax.Array:
        """Return a new random key, derived from the module's name and a counter. Use it only inside `forward`.

        If `apply` got no `rng`, the returned object raises ValueError when a random function uses it. So a function
        that is random only in training, such as `F.dropout`, may get `rng=self.make_rng()` in both modes.

        Raises:
            ValueError: if the call is inside a transformation that `forward` itself started, such as scan or vmap.
            TypeError: outside of `forward`.
        """
        frame = frame_of(self)
        if frame is None:
            raise TypeError(f"{type(self).__name__}.make_rng: this method can only be called inside forward.")
        if frame.call.rng is None:
            message = f"{frame.where()}: the module needs randomness. Pass apply(…, rng=jax.random.key(0))."
            return random.MissingKey(message)  # type: ignore[return-value]
        frame.same_trace("randomness is used")
        return random.key_for_name(frame.call.rng, f"{frame.path}#{next(frame.draws)}")

    def train(self, mode: bool = True) -> Any:
        """Set the mode of this module and its children. `apply` calls this method if a class overrides it.

        An override works as in torch, for example `super().train(mode)` and then `self.bn.eval()` for a frozen
        BatchNorm.

        Raises:
            AttributeError, ValueError: if called outside of `apply` or inside `forward`. Pass the mode to `apply`.
        """
        return method_overrides.set_mode(self, mode)

    def eval(self) -> Any:
        """Set eval mode. This is the same as `train(False)`."""
        return self.train(False)

    # ------------------------------------------------------------------------------------------------ stacks of layers

    def stack(self, params: Tree) -> Tree:
        """Return params, state or gradients of this net with the layers of every `Repeat` stacked. See `nn.Repeat`."""
        return state_dict.restack(self, params, stacked=True)

    def unstack(self, params: Tree) -> Tree:
        """Return params, state or gradients with one subtree per layer of every `Repeat`, as the inverse of `stack`."""
        return state_dict.restack(self, params, stacked=False)

    # --------------------------------------------------------------------------------------------------- checkpoints

    def state_dict(self, params: Tree, state: Tree, prefix: str = "") -> OrderedDict[str, Any]:
        """Return {dotted name: array} with torch's names, shapes and order.

        Tied arrays appear under all their names, and counters are int64. The dict has an attribute `_metadata` with the
        layout version of every module, as in torch.
        """
        return state_dict.dump(binding.bind(self, params, state), prefix)

    def load_state_dict(
        self, sd: Mapping[str, Any], strict: bool = True, into: tuple[Tree, Tree] | None = None
    ) -> tuple[Tree, Tree]:
        """Return (params, state) from {dotted name: NumPy, JAX or torch array}, cast as torch's `copy_` does.

        Args:
            sd: state_dict with torch's names and shapes. One name of a tied array is enough. The last one counts.
            strict: whether missing, unexpected and different tied names raise an error. If not, the latter only warn.
            into: (params, state) that supply the dtypes, and the values that `sd` lacks if not `strict`.

        Raises:
            ValueError: if an array does not fit. The message lists all names that are wrong.
            TypeError: if `sd` is not a mapping, or `into` is not a pair.
        """
        return state_dict.load(self, sd, strict, into)

    def match_state_dict(self, sd: Mapping[str, Any]) -> Match:
        """Return the missing, unexpected and mis-shaped names of `sd`, without loading anything."""
        return state_dict.match(self, sd)

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Register `hook(module, prefix, keep_vars)` to run before `state_dict` reads the module."""
        return state_dict_hooks.register(self, state_dict_hooks.PRE, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Register `hook(module, state_dict, prefix, local_metadata)` to run after `state_dict` has read the module.

        The hook may change the dict in place.
        """
        return state_dict_hooks.register(self, state_dict_hooks.POST, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Register a hook that runs before the module reads its part of the state_dict.

        ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`` may
        change the dict in place. Strings that it adds to `error_msgs` become part of the error.
        """
        return state_dict_hooks.register(self, state_dict_hooks.LOAD_PRE, hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Register `hook(module, incompatible_keys)`, which may remove names from the two lists in place."""
        return state_dict_hooks.register(self, state_dict_hooks.LOAD_POST, hook)

    def absent_before(self, version: int) -> tuple[str, ...]:
        """Return leaf names that state_dicts of layout `version` (0: none) lack. The leaves keep initial values."""
        return ()

    # ----------------------------------------------------------------------------------------------------- displaying

    def summary(
        self, *example_inputs: PyTree, training: Training = False, rng: jax.Array | None = None, **kwargs: object
    ) -> summary.Summary:
        """Return the name, class, output, parameters, buffers, FLOPs and bytes of every module, from shapes alone.

        Args:
            *example_inputs, **kwargs: arguments of `forward`, as arrays or `jax.ShapeDtypeStruct`s.
            training, rng: as in `apply`.

        Returns:
            a table that can be printed or displayed in a notebook, with `rows`, `total()` and `to_dataframe()`.

        Example:
            >>> import jax.numpy as jnp
            >>> from funcnet import nn
            >>> print(nn.Sequential(nn.Linear(4, 8), nn.ReLU()).summary(jnp.ones((2, 4))))
            name    kind        output    parameters  buffers  flops  bytes  frozen
            -----------------------------------------------------------------------
            (root)  Sequential  f32[2,8]           0        0      0      0       0
            0       Linear      f32[2,8]          40        0    128    160       0
            1       ReLU        f32[2,8]           0        0      0      0       0
            -----------------------------------------------------------------------
            total   Sequential  f32[2,8]          40        0    128    160       0
        """
        return summary.summarize(self, example_inputs, kwargs, training, rng)

    def extra_repr(self) -> str:
        """Return the text that `repr` shows in parentheses after the class name."""
        return ""

    def __repr__(self) -> str:
        return display.text(self)

    def _repr_html_(self) -> str:
        return display.html(self)
