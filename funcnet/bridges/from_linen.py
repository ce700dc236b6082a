"""A flax.linen module inside a funcnet model: its variables are leaves of the description, by their linen names."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import core, errors, linen

from funcnet import tree
from funcnet.bridges.foreign import Foreign, dotted, training_arguments
from funcnet.bridges.trees import whole
from funcnet.nn import Buffer, Parameter
from funcnet.nn.core import binding
from funcnet.nn.core.parts import description_of, frame_of

Tree = dict[str, Any]
Variables = dict[str, Any]

__all__ = ["FromLinen"]

PARAMS = "params"
UNKNOWN = "init_with_an_example_first"  # the leaf in place of all others while these are not known


class FromLinen(Foreign):
    """A flax.linen module inside a funcnet model: `FromLinen(linen.Dense(4))`.

    The collection `params` are parameters, all others (`batch_stats`, `cache`, …) buffers, under linen's names with
    dots: `Dense_0.kernel`. state_dict, patterns, freezing and `Repeat` see them so. If two collections have the
    same name, the later one's has the collection's name before it: `cache.kernel`.

    The leaves are found by an example: the one given here, or else the first that `init` is given, whose shapes
    the description then keeps. Without either the leaves are not known, and nothing can be loaded.

    Args:
        module: a linen module.
        *example_inputs, **kwargs: what its `__call__` takes, arrays or `jax.ShapeDtypeStruct`s: only shapes are used,
            and inits that depend on an input see zeros.

    Call: what the module takes. `linen_method="attend"` runs another of its methods. Training or eval is passed in an
        argument named training, train, is_training, deterministic or use_running_average, unless a field of that name
        is set. The stream `dropout` is `make_rng()`'s key, all others follow from it.

    Raises:
        TypeError: `module` is not a linen module.
        ValueError: the leaves are not known yet; it needs randomness and apply has no `rng`; a call changes which
            variables there are.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from flax import linen
        >>> from funcnet import bridges, nn
        >>> net = nn.Sequential(nn.Linear(3, 4), bridges.FromLinen(linen.BatchNorm()))
        >>> params, state = net.init(jax.random.key(0), jnp.ones((2, 3)))
        >>> y, state = net.apply(params, state, jnp.ones((2, 3)), training=True)
        >>> list(net.state_dict(params, state))
        ['0.weight', '0.bias', '1.bias', '1.scale', '1.mean', '1.var']

    Reference: https://flax-linen.readthedocs.io/en/latest/
    """

    def __init__(self, module: linen.Module, *example_inputs: Any, **kwargs: Any):
        super().__init__()
        if not isinstance(module, linen.Module):
            raise TypeError(
                f"FromLinen: expected a flax.linen module, got {type(module).__name__}. Make it first, "
                "FromLinen(linen.Dense(4)); a flax.nnx module goes in by FromNNX."
            )
        self._module = module.clone(
            parent=None
        )  # a module created in a linen parent's call would belong to that parent
        self._example: Any = None
        self._names: dict[str, tuple[str, ...]] = {}
        self._structures: dict[str, Any] = {}
        self.register_buffer(UNKNOWN, Buffer(None))
        if example_inputs or kwargs:
            self._see(example_inputs, kwargs, None)
            self.settle()

    def extra_repr(self) -> str:
        return type(self._module).__name__

    # ------------------------------------------------------------------------------ which leaves there are, and shapes

    def lazy_shapes(self, *args: Any, linen_method: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """`init` calls it on the example: notes what the module is called with. Only the first call counts."""
        description = description_of(self)
        if description._example is None:
            description._see(args, kwargs, linen_method)
        return {}

    def settle(self) -> None:
        """`init` calls it after the example: the leaves become parts of the description."""
        if self._example is None or not hasattr(self, UNKNOWN):
            return
        variables = jax.eval_shape(self._init_variables, jax.random.key(0))
        self._names = _names(variables)
        self._structures = {name: jax.tree.structure(values) for name, values in variables.items()}
        delattr(self, UNKNOWN)
        leaves: dict[str, tuple[type, Any]] = {
            name: (Parameter if collection == PARAMS else Buffer, value)
            for collection, names in self._names.items()
            for name, value in zip(names, jax.tree.leaves(variables[collection]), strict=True)
        }
        self.mirror(leaves, {}, "FromLinen")

    def _see(self, args: Any, kwargs: Any, method: str | None) -> None:
        arrays, join = tree.arrays_of((args, kwargs))
        args, kwargs = join([jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays])
        kwargs = kwargs | training_arguments(self._method(method), self._module, False, args, kwargs)
        self._example = args, kwargs, method

    def _init_variables(self, key: jax.Array) -> Variables:
        args, kwargs, method = jax.tree.map(_zeros, self._example)
        return linen.unbox(core.unfreeze(self._module.init({PARAMS: key}, *args, method=method, **kwargs)))

    def start_together(self, key: jax.Array) -> dict[str, jax.Array]:
        variables = jax.jit(self._init_variables)(
            key
        )  # compiled, so that what the module computes from the zeros is eliminated
        return self._by_name(variables, "FromLinen")

    def _by_name(self, variables: Mapping[str, Any], where: str) -> dict[str, Any]:
        """{dotted name: array} of some of the collections, which have the leaves that were seen first."""
        named: dict[str, Any] = {}
        for collection, values in variables.items():
            leaves, structure = jax.tree.flatten(values)
            if structure != self._structures.get(collection):
                raise ValueError(
                    f"{where}: the collection {collection!r} of {type(self._module).__name__} has other variables than "
                    f"its init made; expected {self._structures.get(collection)}, got {structure}. A module here keeps "
                    "its variables: make them all at init, and let `sow` write to 'intermediates'."
                )
            named.update(zip(self._names[collection], leaves, strict=True))
        return named

    # ------------------------------------------------------------------------------------------------------- running

    def _method(self, name: str | None) -> Any:
        method = getattr(self._module, name or "__call__", None)
        if not callable(method):
            raise ValueError(
                f"FromLinen: {type(self._module).__name__} has no method {name or '__call__'!r}. Name one that it has: "
                "linen_method='…'."
            )
        return method

    def assembled(self) -> Variables:
        return {
            collection: jax.tree.unflatten(self._structures[collection], [self.value_of(name) for name in names])
            for collection, names in self._names.items()
        }

    def forward(self, *args: Any, linen_method: str | None = None, **kwargs: Any) -> Any:
        method = self._method(linen_method)
        kwargs = kwargs | training_arguments(method, self._module, self.training, args, kwargs)
        key = self.drawn_key()
        rngs = {} if key is None else {"dropout": key, PARAMS: jax.random.fold_in(key, 1)}
        if hasattr(self, UNKNOWN):  # init's look at the example
            return self._module.init_with_output(rngs, *args, method=linen_method, **kwargs)[0]
        variables = self.foreign
        mutable = [collection for collection in variables if collection != PARAMS]
        try:
            out, updated = self._module.apply(
                variables, *args, rngs=rngs, mutable=mutable, method=linen_method, **kwargs
            )
        except errors.InvalidRngError:
            if key is None:
                self.make_rng()  # raises: there is no key
            raise
        self.keep(self._by_name(linen.unbox(core.unfreeze(updated)), frame_of(self).where()))
        return out

    # ------------------------------------------------------------------------------------------------- there and back

    def to_variables(self, params: Tree, state: Tree) -> Variables:
        """linen's variables from (params, state) of this description (`params["1"]`, where it is a net's part "1")."""
        return binding.bind(self, params, state).assembled()

    def trees(self, variables: Mapping[str, Any]) -> tuple[Tree, Tree]:
        """(params, state) of this description from linen's variables: the inverse of `to_variables`."""
        if hasattr(self, UNKNOWN):
            raise ValueError(
                f"FromLinen.trees: the leaves of {type(self._module).__name__} are not known yet. Give FromLinen an "
                "example input, or init the net on one first."
            )
        variables = linen.unbox(core.unfreeze(dict(variables)))
        named = self._by_name({name: variables.get(name) for name in self._names}, "FromLinen.trees")
        params = {name: named.pop(name) for name in self._names.get(PARAMS, ())}
        return whole(self, params, named, "FromLinen.trees")


def _zeros(value: Any) -> Any:
    return jnp.zeros(value.shape, value.dtype) if isinstance(value, jax.ShapeDtypeStruct) else value


def _names(variables: Variables) -> dict[str, tuple[str, ...]]:
    """{collection: dotted names of its leaves}, parameters first; a name in two collections is the first's."""
    leaves: set[str] = set()
    inner: set[str] = set()

    def above(name: str) -> list[str]:
        segments = name.split(".")
        return [".".join(segments[:i]) for i in range(1, len(segments))]

    out = {}
    for collection in sorted(variables, key=lambda name: (name != PARAMS, name)):
        names = [dotted(path) for path, _ in jax.tree_util.tree_flatten_with_path(variables[collection])[0]]
        if any(name in leaves or name in inner or leaves & {*above(name)} for name in names):
            names = [f"{collection}.{name}" for name in names]
        leaves.update(names)
        inner.update(part for name in names for part in above(name))
        out[collection] = tuple(names)
    return out
