"""The core: a `Module` is a description; `init` makes its params and state, `apply` runs it as a pure function.

- *description*: a plain object. The `Parameter`s, `Buffer`s and `Module`s among its attributes are its parts: its
  `__dict__` is the only registry. It has no arrays.
- *params, state*: two nested dicts of arrays that mirror the tree of modules. A leaf that several modules share is only
  under its first name.
- *bound copy*: what `self` is inside `forward`. `apply` makes it, with arrays in place of descriptions, runs `forward`,
  reads the buffers back and discards it (`binding.py`).

`description.py` registers the parts, `parts.py` reads and walks them.
"""

import functools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import jax

from funcnet import random, tree
from funcnet.nn.core import binding, display, lazy, pure, state_dict, state_dict_hooks, summary
from funcnet.nn.core.absent import METHODS
from funcnet.nn.core.call import Training, outermost
from funcnet.nn.core.description import Description
from funcnet.nn.core.hooks import RemovableHandle
from funcnet.nn.core.parts import description_of, frame_of, values
from funcnet.nn.core.snapshot import compared_by_description
from funcnet.nn.core.start import start
from funcnet.nn.core.state_dict import Match

Tree = dict[str, Any]

__all__ = ["Module"]


class Module(Description):
    """Describes a computation with parameters and buffers, as `torch.nn.Module` does, and runs it purely.

    Subclass it as in torch: assign layers, `nn.Parameter`s and buffers in `__init__`, compute in `forward`.

    Differs from torch: a module has no arrays: `init` returns them and `apply` takes them. `training`, randomness and
    hooks are arguments of `apply`. Modules in a plain list cannot be called (use `nn.ModuleList`). Lists, dicts, sets
    and deques among the attributes, nested ones too, are copied for each `apply`, so what `forward` puts into them is
    gone afterwards. `forward` should put no arrays into other objects: under `jit` tracers would stay there.

    A description may change between calls (`net.act = nn.Tanh()`, `nn.init.zeros_(net.fc.weight)`,
    `net.fc.requires_grad_(False)`). A function that is already jitted keeps its program: jit it again after a change.
    `jax.jit(net.apply)` and `jax.jit(net.init)` notice changes of modules and leaves, of their attributes, and of the
    items of plain lists, dicts and sets; without a change they reuse their program. They do not notice deeper changes
    (a field of a configuration object): assign a new object.

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

    training = False  # inside forward, the mode of this `apply`; a class attribute so that no part takes the name

    _version = 1  # of the layout of the state_dict, as in torch

    def __init__(self) -> None:
        pass

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: has no forward. Define forward(self, …).")

    # ----------------------------------------------------------------------------------------------- trees of values

    @compared_by_description
    def init(self, rng: jax.Array, *example_inputs: Any, **kwargs: Any) -> tuple[Tree, Tree]:
        """Makes the arrays.

        Args:
            rng: a key. Every leaf draws from its own, folded from its dotted name: adding a layer moves no other's.
            *example_inputs, **kwargs: the arguments of `forward`; needed only for lazy modules. Only shapes are used.

        Returns:
            (params, state): nested dicts of arrays that mirror the tree of modules.

        Raises:
            ValueError: a leaf without an init, or a lazy one without an example.
        """
        shapes = lazy.infer(self, example_inputs, kwargs) if example_inputs or kwargs else {}
        return start(self, rng, shapes, {})

    def partition(self, params: Tree) -> tuple[Tree, Tree]:
        """(trainable, frozen) params by their `requires_grad`; `tree.merge` joins them again.

        Differentiate only with respect to the first: the second then needs no gradient and no optimizer state.

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
        """(params, state) of the child `name`, with the leaves it borrows from elsewhere filled in.

        Inside `forward`, `params` and `state` are not needed: the arrays of this call are used.

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
            raise TypeError(f"{type(self).__name__}.subtree: a description holds no arrays. Give params and state.")
        return values(self.get_submodule(name))

    # -------------------------------------------------------------------------------------------------------- running

    @compared_by_description
    def apply(
        self,
        params: Any,
        state: Tree | None = None,
        *inputs: Any,
        training: Training = False,
        rng: jax.Array | None = None,
        hooks: Any = None,
        method: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Runs `forward` as a pure function. With a single callable, `apply(fn)` visits the modules as in torch.

        Args:
            params, state: as `init` returns them.
            *inputs, **kwargs: what `forward` takes.
            training: True for training behaviour of dropout and normalisation; or {name pattern: bool}, where the
                last match wins and modules without a match are in eval. Static: close over it under `jit`.
            rng: a key; needed if something random runs.
            hooks: an `nn.Hooks`, or None.
            method: the name of another method to run in place of `forward`.

        Returns:
            (output, state): the buffers' new values in a dict of the same structure as `state`.

        Raises:
            ValueError: params or state do not fit the description, randomness without `rng`, a buffer changes shape.
            TypeError: params or state are missing; `forward` has an argument with the name of one of these.
        """
        if state is None and not inputs and callable(params):
            for child in self.children():
                child.apply(params)
            params(self)
            return self
        if not isinstance(params, dict) or not isinstance(state, dict):
            raise TypeError(
                f"{type(self).__name__}.apply: expected params and state, two dicts as `init` gives them, got "
                f"{type(params).__name__} and {type(state).__name__}. Call net.apply(params, state, *inputs)."
            )
        net = description_of(self)
        call = outermost(net, "apply", inputs, method, training, rng, hooks)
        out, state, _ = binding.run(net, params, state, inputs, kwargs, call, method)
        return out, state

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        frame = frame_of(self)
        if frame is None:
            raise TypeError(
                f"{type(self).__name__}: a description holds no arrays and cannot be called by itself. Call "
                "net.apply(params, state, x); inside forward, call a child that is an attribute or sits in an "
                "nn.ModuleList (a plain list or dict, a functools.partial of a method, or a lambda over self hides it: "
                "keep the method itself, self.act = self.method, and make the partial or lambda in forward)."
            )
        call = frame.call
        forward = functools.partial(binding.computing, self, self.forward) if frame.computed else self.forward
        forward = pure.recomputed(self, forward)
        if call.hooks is None:
            out = call.run(frame, forward, *args, **kwargs)
        else:
            out = call.run(frame, call.hooks.run, self, frame.name, forward, args, kwargs)
        return call.record(frame, out)

    def __getattr__(self, name: str) -> Any:
        """Inside forward, a computed attribute of a module that is not running. For a method that only torch has, the
        error says what to use."""
        frame = frame_of(self)
        if frame is not None and name in frame.computed:
            return frame.computed[name].value(self)
        if name in METHODS and not hasattr(type(self), name):
            raise AttributeError(
                f"{type(self).__name__}.{name} does not exist here. {METHODS[name]}", name=name, obj=self
            )
        return object.__getattribute__(self, name)  # raises the usual error, or that of a property

    def make_rng(self) -> jax.Array:
        """A new key, derived from the module's name and the count of calls. Only inside `forward`.

        Raises:
            ValueError: `apply` has no `rng`, or the call is inside a scan or vmap of the forward itself.
        """
        frame = frame_of(self)
        if frame is None:
            raise TypeError(f"{type(self).__name__}.make_rng: can only be called inside forward.")
        if frame.call.rng is None:
            raise ValueError(f"{frame.where()}: needs randomness. Give apply a key: apply(…, rng=jax.random.key(0)).")
        frame.same_trace("randomness")
        return random.key_for_name(frame.call.rng, f"{frame.path}#{next(frame.draws)}")

    # ------------------------------------------------------------------------------------------------ stacks of layers

    def stack(self, params: Tree) -> Tree:
        """The tree of this net with every `Repeat`'s layers stacked: params, state or gradients (see `nn.Repeat`)."""
        return state_dict.restack(self, params, stacked=True)

    def unstack(self, params: Tree) -> Tree:
        """The inverse of `stack`: every layer of every `Repeat` a subtree of its own."""
        return state_dict.restack(self, params, stacked=False)

    # --------------------------------------------------------------------------------------------------- checkpoints

    def state_dict(self, params: Tree, state: Tree, prefix: str = "") -> OrderedDict[str, Any]:
        """{dotted name: array} with torch's names, shapes and order; ties under all their names; counters as int64.

        Its attribute `_metadata` holds the version of every module's layout, as in torch; `weights.save` writes it.
        """
        return state_dict.dump(binding.bind(self, params, state), prefix)

    def load_state_dict(
        self, sd: Mapping[str, Any], strict: bool = True, into: tuple[Tree, Tree] | None = None
    ) -> tuple[Tree, Tree]:
        """(params, state) from {dotted name: numpy, JAX or torch array}, cast as torch's `copy_` does.

        Args:
            sd: torch's names and shapes; any one name of a tie is enough.
            strict: whether missing and unexpected names are errors.
            into: (params, state) for the names that `sd` lacks when not strict, and for the dtypes.

        Raises:
            ValueError: lists every missing, unexpected and mis-shaped name.
        """
        return state_dict.load(self, sd, strict, into)

    def match_state_dict(self, sd: Mapping[str, Any]) -> Match:
        """The missing, unexpected and mis-shaped names of `sd`; loads nothing."""
        return state_dict.match(self, sd)

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` runs before `state_dict` reads the module."""
        return state_dict_hooks.register(self, state_dict_hooks.PRE, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` may change the dict, in place, after the module."""
        return state_dict_hooks.register(self, state_dict_hooks.POST, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)` may
        change the dict, in place, before the module reads its part; its additions to `error_msgs` become part of the
        error."""
        return state_dict_hooks.register(self, state_dict_hooks.LOAD_PRE, hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """`hook(module, incompatible_keys)` may take names out of its two lists, in place."""
        return state_dict_hooks.register(self, state_dict_hooks.LOAD_POST, hook)

    def absent_before(self, version: int) -> tuple[str, ...]:
        """The leaves that state_dicts of this version (0: without version) do not have; they keep their start."""
        return ()

    # ----------------------------------------------------------------------------------------------------- displaying

    def summary(
        self, *example_inputs: Any, training: Training = False, rng: jax.Array | None = None, **kwargs: Any
    ) -> summary.Summary:
        """Name, class, output, parameters, buffers, FLOPs and bytes of every module, from shapes alone.

        Args:
            *example_inputs, **kwargs: what `forward` takes: arrays or `jax.ShapeDtypeStruct`s.
            training, rng: as in `apply`.

        Returns:
            A table that can be printed and shown in a notebook, with `rows`, `total()` and `to_dataframe()`.

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
        """The text between the brackets in `repr`."""
        return ""

    def __repr__(self) -> str:
        return display.text(self)

    def _repr_html_(self) -> str:
        return display.html(self)
