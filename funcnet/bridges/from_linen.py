"""Use a flax.linen module inside a funcnet model. The variables of the linen module become leaves of the funcnet model
and keep linen's names.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import core, errors, linen

from funcnet import tree
from funcnet.bridges.foreign_module import Foreign, dotted, training_arguments
from funcnet.bridges.nested_dicts import whole
from funcnet.nn import Buffer, Parameter
from funcnet.nn.core import binding
from funcnet.nn.core.module_tree import description_of, frame_of
from funcnet.tree import Tree

Variables = dict[str, Any]

__all__ = ["FromLinen"]

PARAMS = "params"
UNKNOWN = "init_with_an_example_first"  # the only leaf while the actual leaves are unknown


class FromLinen(Foreign):
    """A flax.linen module inside a funcnet model, for example `FromLinen(linen.Dense(4))`.

    The variables of the collection `params` become parameters, and the variables of all other collections
    (`batch_stats`, `cache`, …) become buffers. The name of a parameter or buffer is its path in linen, joined by dots,
    for example `Dense_0.kernel`. `state_dict`, name patterns, freezing and `Repeat` use these names. If a name of one
    collection conflicts with a name of an earlier collection, all names of the later collection are prefixed with the
    name of that collection, for example `cache.kernel`.

    An example input determines the leaves and their shapes. Pass the example to this constructor, or to `init`. Until
    an example is given, the leaves are unknown, and no weights can be loaded.

    Args:
        module: a linen module.
        *example_inputs, **kwargs: arguments of the module's `__call__`, as arrays or `jax.ShapeDtypeStruct`s. Only the
            shapes and dtypes of these arguments are used. Initialisers that depend on an input receive zeros.

    Call: accepts the arguments of the module's `__call__`. `linen_method="attend"` calls the method `attend` instead.
        The training or eval mode is passed as the argument `training`, `train`, `is_training`, `deterministic` or
        `use_running_average`, if the method has such an argument and the module has no boolean field of the same name.
        The random stream `dropout` uses the key of `make_rng()`, and all other streams are derived from the same key.

    Raises:
        TypeError: if `module` is not a linen module.
        ValueError: if the leaves are not known yet, if the module needs a random key but `apply` has no `rng`, if the
            module has no method `linen_method`, or if a call adds or removes variables.

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
                "FromLinen: module has the wrong type; expected an instance of a flax.linen module, such as "
                f"linen.Dense(4), got {type(module).__name__}. For a flax.nnx module, use FromNNX."
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

    # ------------------------------------------------------------------------------------------- the leaves and shapes

    def lazy_shapes(self, *args: Any, linen_method: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """Record the arguments as the example inputs, if no example is known yet. `init` calls this method with the
        example inputs.
        """
        description = description_of(self)
        if description._example is None:
            description._see(args, kwargs, linen_method)
        return {}

    def settle(self) -> None:
        """Add the variables of the linen module to the description as parameters and buffers. `init` calls this method
        after it has run the example inputs.
        """
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

    def _see(self, args: tuple[Any, ...], kwargs: dict[str, Any], method: str | None) -> None:
        arrays, join = tree.arrays_of((args, kwargs))
        args, kwargs = join([jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays])
        kwargs = kwargs | training_arguments(self._method(method), self._module, False, args, kwargs)
        self._example = args, kwargs, method

    def _init_variables(self, key: jax.Array) -> Variables:
        args, kwargs, method = jax.tree.map(_zeros, self._example)
        return linen.unbox(core.unfreeze(self._module.init({PARAMS: key}, *args, method=method, **kwargs)))

    def start_together(self, key: jax.Array) -> dict[str, jax.Array]:
        variables = jax.jit(self._init_variables)(key)  # compiled, so that the computation on the zeros is eliminated
        return self._by_name(variables, "FromLinen")

    def _by_name(self, variables: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the arrays of linen's `variables` as {dotted name: array}. The collections must have the same
        structure as after `init`.
        """
        named: dict[str, Any] = {}
        for collection, values in variables.items():
            leaves, structure = jax.tree.flatten(values)
            if structure != self._structures.get(collection):
                raise ValueError(
                    f"{where}: the variables in the collection {collection!r} of {type(self._module).__name__} differ "
                    f"from those after init; expected {self._structures.get(collection)}, got {structure}. Create all "
                    "variables in init, and call `sow` only with the collection 'intermediates'."
                )
            named.update(zip(self._names[collection], leaves, strict=True))
        return named

    # ------------------------------------------------------------------------------------------------------- running

    def _method(self, name: str | None) -> Any:
        method = getattr(self._module, name or "__call__", None)
        if not callable(method):
            raise ValueError(
                f"FromLinen: {type(self._module).__name__} has no method {name or '__call__'!r}; expected linen_method "
                "to be the name of a method of the module."
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
        if hasattr(self, UNKNOWN):  # init runs the example
            return self._module.init_with_output(rngs, *args, method=linen_method, **kwargs)[0]
        variables = self.foreign
        mutable = [collection for collection in variables if collection != PARAMS]
        try:
            out, updated = self._module.apply(
                variables, *args, rngs=rngs, mutable=mutable, method=linen_method, **kwargs
            )
        except errors.InvalidRngError:
            if key is None:
                jax.random.uniform(self.make_rng())  # raises an error, because there is no key
            raise
        self.keep(self._by_name(linen.unbox(core.unfreeze(updated)), frame_of(self).where()))
        return out

    # ---------------------------------------------------------------------------------------------------- conversions

    def to_variables(self, params: Tree, state: Tree) -> Variables:
        """Convert (params, state) of this description to linen's variables.

        If this module is the submodule "1" of a net, pass `params["1"]` and `state["1"]`.
        """
        return binding.bind(self, params, state).assembled()

    def trees(self, variables: Mapping[str, Any]) -> tuple[Tree, Tree]:
        """Convert linen's variables to (params, state) of this description. This is the inverse of `to_variables`."""
        if hasattr(self, UNKNOWN):
            raise ValueError(
                f"FromLinen.trees: the leaves of {type(self._module).__name__} are not known yet; expected an example "
                "input before this call. Pass an example input to FromLinen, or to the init method of the net."
            )
        variables = linen.unbox(core.unfreeze(dict(variables)))
        named = self._by_name({name: variables.get(name) for name in self._names}, "FromLinen.trees")
        params = {name: named.pop(name) for name in self._names.get(PARAMS, ())}
        return whole(self, params, named, "FromLinen.trees")


def _zeros(value: object) -> Any:
    return jnp.zeros(value.shape, value.dtype) if isinstance(value, jax.ShapeDtypeStruct) else value


def _names(variables: Variables) -> dict[str, tuple[str, ...]]:
    """Return {collection: dotted names of its leaves}, with the collection `params` first.

    If a name of one collection conflicts with a name of an earlier collection, all names of the later collection are
    prefixed with the name of that collection.
    """
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
