"""Use a flax.nnx module inside a funcnet model. The variables of the nnx module become leaves of the funcnet model and
keep nnx's names.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen, nnx

from funcnet import random
from funcnet.bridges.foreign_module import Foreign, dotted, training_arguments
from funcnet.nn import Buffer, Module, Parameter
from funcnet.nn.core import binding
from funcnet.tree import Tree

__all__ = ["FromNNX"]


class FromNNX(Foreign):
    """A flax.nnx module inside a funcnet model, for example `FromNNX(nnx.Linear, 3, 4)`.

    Every `nnx.Param` becomes a parameter, and every other variable (`BatchStat`, `Cache`, …) becomes a buffer. The name
    of a parameter or buffer is its path in nnx, joined by dots, for example `layers.0.kernel`. `state_dict`, name
    patterns, freezing and `Repeat` use these names. The random streams of the module are reseeded from `make_rng()` in
    each call.

    Args:
        module: an nnx module, or a class or function that returns one. The arrays of an nnx module are the initial
            values of the leaves. A class or function is called with `args` and `kwargs`. A class or function with an
            argument `rngs` also receives random streams, which are made from the key of `init`.
        *args, **kwargs: arguments of the constructor.

    Call: accepts the arguments of the module's `__call__`. `nnx_method="attend"` calls the method `attend` instead. The
        training flag of each inner module sets the attributes `deterministic` and `use_running_average` of that inner
        module, as nnx's `train()` and `eval()` do. The mode is also passed as the argument `training`, `train`,
        `is_training`, `deterministic` or `use_running_average`, if the method has such an argument and the module has
        no boolean attribute of the same name.

    Raises:
        TypeError: if `module` has an unsupported type, or if `module` is an nnx module and constructor arguments are
            given.
        ValueError: if the module needs a random key but `apply` has no `rng`, or has no method `nnx_method`.

    Differs from nnx: if a call assigns a value to an `nnx.Param` or adds a variable (`sow`), the change is discarded.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from flax import nnx
        >>> from funcnet import bridges, nn
        >>> net = nn.Sequential(nn.Linear(3, 4), bridges.FromNNX(nnx.BatchNorm, 4))
        >>> params, state = net.init(jax.random.key(0))
        >>> y, state = net.apply(params, state, jnp.ones((2, 3)), training=True)
        >>> list(net.state_dict(params, state))
        ['0.weight', '0.bias', '1.bias', '1.scale', '1.mean', '1.var']

    Reference: https://flax.readthedocs.io/en/latest/nnx_basics.html
    """

    def __init__(self, module: nnx.Module | Callable[..., nnx.Module], *args: Any, **kwargs: Any):
        super().__init__()
        if isinstance(module, nnx.Module):
            if args or kwargs:
                raise TypeError(
                    f"FromNNX: {type(module).__name__} is already an instance; expected no arguments for its "
                    f"constructor, got {len(args) + len(kwargs)}. Pass the class, or omit the arguments."
                )
            fixed, states = _split(module)
            states = jax.tree.map(jnp.asarray, states)
        elif callable(module) and not isinstance(module, (Module, linen.Module)):
            if "rngs" in kwargs:
                raise TypeError(
                    "FromNNX: rngs is not allowed, because init makes the rngs from its key; expected no rngs, got "
                    "one. Omit rngs."
                )
            self._make = functools.partial(_make, module, args, kwargs)
            noted: list[Any] = []

            def abstract(key: jax.Array) -> Any:
                made = self._make(key)
                _no_plain_arrays(made)
                fixed, states = _split(made)
                noted.append(fixed)
                return states

            states = jax.eval_shape(abstract, jax.random.key(0))
            (fixed,) = noted
        else:
            raise TypeError(
                "FromNNX: module has the wrong type; expected a class of flax.nnx or an nnx module, got "
                f"{type(module).__name__}. For a linen module, use FromLinen."
            )
        self._graphdef, self._kinds = fixed
        params, streams, buffers = states
        self._structures = jax.tree.structure(params), jax.tree.structure(buffers)
        self._streams = jax.tree.flatten(jax.eval_shape(lambda streams: streams, streams))
        named = _named(params), _named(buffers)
        self._names = tuple(named[0]), tuple(named[1])
        leaves: dict[str, tuple[type, Any]] = {name: (Parameter, value) for name, value in named[0].items()}
        leaves |= {name: (Buffer, value) for name, value in named[1].items()}
        self.mirror(leaves, self._kinds, "FromNNX")

    def extra_repr(self) -> str:
        return self._kinds[""]

    def start_together(self, key: jax.Array) -> dict[str, jax.Array]:
        _, (params, _, buffers) = _split(self._make(key))
        return _named(params) | _named(buffers)

    def assembled(self) -> nnx.Module:
        params, buffers = (
            jax.tree.unflatten(structure, [self.value_of(name) for name in names])
            for structure, names in zip(self._structures, self._names, strict=True)
        )
        streams, structure = self._streams
        return nnx.merge(self._graphdef, params, jax.tree.unflatten(structure, streams), buffers)

    def forward(self, *args: Any, nnx_method: str | None = None, **kwargs: Any) -> Any:
        module = self.foreign
        for path, inner in nnx.iter_modules(module):
            training = self.get_submodule(".".join(map(str, path))).training
            for name in ("deterministic", "use_running_average"):
                if hasattr(inner, name):
                    setattr(inner, name, not training)
        method = getattr(module, nnx_method or "__call__", None)
        if not callable(method):
            raise ValueError(
                f"FromNNX: {type(module).__name__} has no method {nnx_method or '__call__'!r}; expected nnx_method "
                "to be the name of a method of the module."
            )
        key = self.drawn_key()
        _reseed(module, lambda tag: random.key_for_name(jax.random.key(0) if key is None else key, tag))
        counts = jax.tree.leaves(nnx.state(module, nnx.RngCount))
        out = method(*args, **kwargs, **training_arguments(method, module, self.training, args, kwargs))
        if key is None and _drawn(counts, module):
            jax.random.uniform(self.make_rng())  # raises an error, because there is no key
        _, (_, _, buffers) = _split(module)
        new = _named(buffers)
        self.keep({name: new[name] for name in self._names[1]})
        return out

    def to_nnx(self, params: Tree, state: Tree, rngs: nnx.Rngs | None = None) -> nnx.Module:
        """Return the nnx module with the arrays of `params` and `state`.

        Args:
            params, state: params and state of this description. If this module is the submodule "1" of a net, pass
                `params["1"]` and `state["1"]`.
            rngs: random streams. Each stream of the module is reseeded from the stream of `rngs` with the same name.
                The default is `nnx.Rngs(0)`.
        """
        bound = binding.bind(self, params, state)
        module = bound.assembled()
        given = nnx.Rngs(0) if rngs is None else rngs
        _reseed(module, lambda tag: given[tag]())
        return module


def _make(
    module: nnx.Module | Callable[..., nnx.Module], args: tuple[Any, ...], kwargs: dict[str, Any], key: jax.Array
) -> nnx.Module:
    made = module(*args, **kwargs, **({"rngs": nnx.Rngs(key)} if _takes_rngs(module) else {}))
    if not isinstance(made, nnx.Module):
        raise TypeError(
            "FromNNX: module has the wrong type; expected a class of flax.nnx or an nnx module, got a callable that "
            f"returns {type(made).__name__}. For a linen module, use FromLinen."
        )
    return made


def _takes_rngs(module: nnx.Module | Callable[..., nnx.Module]) -> bool:
    while isinstance(module, functools.partial):
        module = module.func
    is_class = isinstance(module, type)  # the signature of a class may be its metaclass's
    function = inspect.getattr_static(module, "__init__") if is_class else module
    if function is object.__init__:
        return False
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == "rngs" or p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


def _no_plain_arrays(made: nnx.Module) -> None:
    """Raise a TypeError if an attribute is a plain array, because flax would treat a traced array as a constant."""
    for path, inner in nnx.iter_modules(made):
        for name, value in vars(inner).items():
            if isinstance(value, jax.core.Tracer):
                raise TypeError(
                    f"FromNNX: {'.'.join([*map(str, path), name])!r} of {type(made).__name__} is a plain array; "
                    "expected an nnx.Variable, which flax can trace. Wrap it in nnx.Variable(array), or pass an "
                    "instance of the module to FromNNX."
                )


def _split(module: nnx.Module) -> tuple[Any, Any]:
    """Split an nnx module into its static description and its arrays: ((graphdef, {module name: class name}),
    (parameters, random streams, buffers)).
    """
    graphdef, *states = nnx.split(module, nnx.Param, nnx.RngState, ...)
    kinds = {".".join(map(str, path)): type(inner).__name__ for path, inner in nnx.iter_modules(module)}
    return (graphdef, kinds), tuple(states)


def _named(state: Any) -> dict[str, Any]:
    """Return the arrays of an nnx state as {dotted name: array}, in the order of the leaves. If a variable contains
    several arrays, each of these arrays has its own name.
    """
    is_variable = lambda item: isinstance(item, nnx.Variable)
    named = {}
    for path, item in jax.tree_util.tree_flatten_with_path(state, is_leaf=is_variable)[0]:
        value = item.get_value() if is_variable(item) else item
        for within, leaf in jax.tree_util.tree_flatten_with_path(value)[0]:
            named[dotted((*path, *within))] = leaf
    return named


def _reseed(module: nnx.Module, key_of: Callable[[str], jax.Array]) -> None:
    """Reseed the random streams. All streams with the same tag use the same key, `key_of(tag)`."""
    tags = {stream.key.tag for _, stream in nnx.iter_graph(module) if isinstance(stream, nnx.RngStream)}
    if tags:
        keys: dict[str, Any] = {tag: key_of(tag) for tag in sorted(tags)}
        nnx.reseed(module, policy="match_shape", **keys)


def _drawn(before: list[Any], module: nnx.Module) -> bool:
    """Return whether a call of the nnx module drew a random key. During tracing, the result may be True even if no key
    was drawn.
    """
    after = jax.tree.leaves(nnx.state(module, nnx.RngCount))
    moved = [new for old, new in zip(before, after, strict=True) if new is not old]
    return any(isinstance(count, jax.core.Tracer) or bool((count != 0).any()) for count in moved)
