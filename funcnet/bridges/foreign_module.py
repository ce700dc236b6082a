"""The base class for modules of other libraries that are used inside a funcnet model.

A foreign module creates its own arrays. In funcnet, these arrays are leaves of a description and have the same names as
in the foreign module. A tree of `Place` modules mirrors the tree of the foreign module. The class `Whole` initialises
all arrays together, from a single key.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from funcnet import random
from funcnet.nn import Module, Parameter
from funcnet.nn.core import binding
from funcnet.nn.core.module_tree import Node, description_of, frame_of
from funcnet.nn.core.parameter import Computed
from funcnet.nn.module import computed_attributes

__all__ = ["Foreign", "Place", "Whole", "dotted", "training_arguments"]

_SAY_EVAL = {
    "deterministic": True,
    "use_running_average": True,
    "training": False,
    "train": False,
    "is_training": False,
}


def dotted(path: Iterable[Any]) -> str:
    """Return the name of a leaf: the keys, attributes and indices of its path in a JAX tree, joined by dots."""
    return jax.tree_util.keystr(tuple(path), simple=True, separator=".")


def training_arguments(
    method: Callable[..., Any], owner: object, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, bool]:
    """Return {argument: flag} for the arguments of `method` that usually select training or evaluation mode.

    An argument is omitted if the caller passes it in `args` or `kwargs`, or if `owner` has a boolean attribute of the
    same name.
    """
    try:
        signature = inspect.signature(method)
        given = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:  # the call itself will raise an error for its arguments
        return {}
    return {
        name: training is not says_eval
        for name, says_eval in _SAY_EVAL.items()
        if name in signature.parameters and name not in given and not isinstance(getattr(owner, name, None), bool)
    }


def _with_the_others(key: jax.Array, shape: tuple[int, ...], dtype: DTypeLike) -> jax.Array:
    """Return zeros for a leaf whose init function the user has not set. `Whole.begin` replaces the zeros."""
    return jnp.zeros(shape, dtype)


class Whole(Computed):
    """The attribute `foreign` of a `Foreign` module, which is computed from the leaves of this module. `Whole.begin`
    initialises all these leaves together.
    """

    def __init__(self, name: str):
        super().__init__(name, Parameter(0), (), jnp.float32)  # it has no original leaf and is not an array

    def value(self, bound: Node) -> Any:
        return bound.assembled()

    def begin(self, bound: Node, draw: Callable[[Any], jax.Array]) -> None:
        foreign = description_of(bound)
        leaves = {name: leaf for name in foreign.places if (leaf := _leaf(foreign, name)).init is _with_the_others}
        for name, leaf in leaves.items():
            if isinstance(leaf, Computed):
                raise ValueError(
                    f"{type(foreign).__name__}: {name!r} is computed, and its original leaf has no init function, "
                    "because the module initialises all its leaves together; expected an init function. Set one first, "
                    f"for example with `nn.init.normal_(module.{name})`."
                )
        values = foreign.start_together(frame_of(bound).call.rng) if leaves else {}
        for name, leaf in leaves.items():
            owner, attribute = _owner(bound, name)
            binding.put(owner, attribute, jnp.array(values[name], jax.dtypes.canonicalize_dtype(leaf.dtype)))

    def __repr__(self) -> str:
        return "the foreign module"


def _owner(module: Node, name: str) -> tuple[Any, str]:
    path, _, attribute = name.rpartition(".")
    return module.get_submodule(path), attribute


def _leaf(module: Node, name: str) -> Any:
    owner, attribute = _owner(module, name)
    return getattr(owner, attribute)


class Place(Module):
    """A placeholder for an inner module of a foreign module. A `Place` has leaves and a training flag, and is never
    called.
    """

    def __init__(self, kind: str = ""):
        super().__init__()
        self._kind = kind

    def extra_repr(self) -> str:
        return self._kind


class Foreign(Module):
    """The base class of `FromNNX` and `FromLinen`.

    A subclass of `Foreign` defines two methods, `start_together` and `assembled`. `start_together(key) -> {name:
    array}` returns the initial arrays of all leaves. `assembled()` is called on a bound copy and returns the foreign
    module (for linen, its variables) with the arrays of that copy.
    """

    places: tuple[str, ...]  # the names of all leaves
    foreign: Any  # inside forward, the foreign module with its arrays in place

    def __init__(self) -> None:
        super().__init__()
        self.places = ()
        computed_attributes.place(self, Whole("foreign"))

    def mirror(self, leaves: Mapping[str, tuple[type, Any]], kinds: Mapping[str, str], where: str) -> None:
        """Add the arrays of the foreign module to this description as parameters and buffers.

        Args:
            leaves: dict from the dotted name of a leaf to a pair (class, value). The class is `Parameter` or `Buffer`,
                and the value is an array or a `jax.ShapeDtypeStruct`.
            kinds: dict from the dotted name of an inner module to the text that `repr` shows for that module.
            where: prefix for error messages, such as the name of the caller.

        Raises:
            TypeError: if a leaf is a random key.
        """
        for path, kind in kinds.items():
            self._place(path, kind)
        for name, (leaf, value) in leaves.items():
            if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
                raise TypeError(
                    f"{where}: {name!r} is a random key stored in the module; expected a numeric array. Draw keys from "
                    "the random streams of the module, which are seeded from the rng of apply."
                )
            path, _, attribute = name.rpartition(".")
            if isinstance(value, jax.ShapeDtypeStruct):
                part = leaf(value.shape, _with_the_others, dtype=value.dtype)
            else:
                part = leaf(value)
            owner = self._place(path, "")
            if leaf is Parameter:
                owner.register_parameter(attribute, part)
            else:
                owner.register_buffer(attribute, part)
        self.places = tuple(leaves)

    def _place(self, path: str, kind: str) -> Module:
        module: Module = self
        for segment in path.split(".") if path else []:
            if not isinstance(getattr(module, segment, None), Module):
                module.add_module(segment, Place())
            module = getattr(module, segment)
        if kind and isinstance(module, Place):
            module._kind = kind
        return module

    def value_of(self, name: str) -> Any:
        """Return the array of the leaf with the dotted name `name`. Only a bound copy has such arrays."""
        owner, attribute = _owner(self, name)
        return getattr(owner, attribute)

    def drawn_key(self) -> jax.Array | None:
        """Return a random key. Return None if `apply` got no `rng`, or inside a JAX transformation that forward
        started. If there is no key although the foreign module needs one, an error is raised later.
        """
        try:
            key = self.make_rng()
        except ValueError:  # inside a transformation of the user's forward
            return None
        return None if isinstance(key, random.MissingKey) else key

    def keep(self, new: dict[str, Any]) -> None:
        """Assign new arrays to the buffers of this bound copy that a call of the foreign module has changed."""
        for name, value in new.items():
            if value is not self.value_of(name):
                owner, attribute = _owner(self, name)
                setattr(owner, attribute, value)
