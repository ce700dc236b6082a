"""The leaves of a train state in the form in which a checkpoint stores them.

A checkpoint stores one array per leaf, under the path of the leaf. A typed random key is stored as its data, and a
number as an array without dimensions. Whatever a checkpoint could not restore is refused before anything is written.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from funcnet.arguments import shown
from funcnet.random import is_key, wrap_keys
from funcnet.tree import PyTree

__all__ = [
    "accepted_kinds",
    "array_kind",
    "named_leaves",
    "restored_form",
    "storable_leaves",
    "stored_form",
    "stored_shape",
]

# The dtypes that orbax can store. They do not include some dtypes of JAX, such as uint4.
_FLOAT8 = ("e3m4", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
_DTYPES = frozenset({
    *("bool", "int2", "int4", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "float4_e2m1fn"),
    *(f"float8_{name}" for name in _FLOAT8),
})  # fmt: skip
_NUMBERS = (bool, int, float, complex, np.generic)


def named_leaves(tree: PyTree, where: str = "train.Checkpoints") -> dict[str, Any]:
    """Return the leaves of a pytree by their paths, such as "params.fc.weight".

    Raises:
        ValueError: if two leaves have the same path, or a dict has keys that cannot be sorted, such as 1 and "1".

    Example:
        >>> named_leaves({"fc": [1.0, 2.0]})
        {'fc.0': 1.0, 'fc.1': 2.0}
    """
    named: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree, is_leaf=_is_unsortable):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        if _is_unsortable(leaf):
            kinds = " and ".join(sorted({type(key).__name__ for key in leaf}))
            raise ValueError(
                f"{where}: the keys of {repr(name) if name else 'the state'} cannot be sorted; expected keys of one "
                f"type, got {kinds}. Use strings."
            )
        if name in named:
            raise ValueError(
                f"{where}: two leaves have the name {name!r}; expected a different name for each leaf, got this name "
                "twice. Rename one of the keys that lead to them, for example a key that contains a dot."
            )
        named[name] = leaf
    return named


def storable_leaves(tree: PyTree, where: str) -> dict[str, Any]:
    """Return the leaves of a pytree by their paths, after checking that a checkpoint can store and restore them.

    Raises:
        ValueError: as `named_leaves`.
        TypeError: if a leaf is neither an array nor a number, or has a dtype that a checkpoint cannot store. The
            message has the name of the leaf.

    Example:
        >>> storable_leaves({"note": "text"}, "here")
        Traceback (most recent call last):
        TypeError: here: 'note' cannot be saved; expected an array or a number, got str. Leave it out of the state.
    """
    named = named_leaves(tree, where)
    for name, leaf in named.items():
        is_array = isinstance(leaf, jax.Array) or type(leaf) in (np.ndarray, np.memmap)  # no subclasses with a mask
        if not is_array and not isinstance(leaf, _NUMBERS):
            raise TypeError(
                f"{where}: {name!r} cannot be saved; expected an array or a number, got {type(leaf).__name__}. Leave "
                "it out of the state."
            )
        dtype = stored_shape(leaf).dtype
        if dtype.name not in _DTYPES:
            raise TypeError(
                f"{where}: {name!r} has a dtype that a checkpoint cannot store; expected booleans, numbers of at most "
                f"64 bits per part or random keys, got {shown(leaf) if isinstance(leaf, int) else dtype}. Convert it."
            )
    return named


def array_kind(leaf: Any) -> str:
    """Return the dtype and the shape of a leaf, such as "float32[2, 3]" or "key<fry>[]"."""
    if is_key(leaf):
        return f"{leaf.dtype}{list(leaf.shape)}"
    about = stored_shape(leaf)
    return f"{about.dtype}{list(about.shape)}"


def accepted_kinds(leaf: Any, on_device: bool) -> set[str]:
    """Return the kinds of stored arrays from which a leaf can be restored.

    The data of a random key are accepted too, because older releases did not save the kind of a key. On a device, an
    array has JAX's dtype: a float64 leaf was stored as float32 if x64 is disabled in JAX.
    """
    data = stored_shape(leaf)
    kinds = {array_kind(leaf), array_kind(data)}
    if on_device:
        kinds.add(f"{jax.dtypes.canonicalize_dtype(data.dtype)}{list(data.shape)}")
    return kinds


def stored_shape(leaf: Any) -> jax.ShapeDtypeStruct:
    """Return the shape and the dtype of the array that is stored for a leaf."""
    if is_key(leaf):
        return jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(leaf.shape, leaf.dtype))
    array = leaf if hasattr(leaf, "dtype") else np.asarray(leaf)
    return jax.ShapeDtypeStruct(array.shape, np.dtype(array.dtype).newbyteorder("="))


def stored_form(leaf: Any) -> Any:
    """Return a copy of a leaf as the array that is stored for it, in the layout of the leaf."""
    if is_key(leaf):
        return jax.random.key_data(leaf).copy()
    return leaf.copy() if isinstance(leaf, jax.Array) else np.array(leaf)


def restored_form(array: Any, leaf: Any) -> Any:
    """Return a stored array in the form of a leaf of the template: as a random key, a number, or an array."""
    if is_key(leaf):
        return wrap_keys(array, leaf.dtype)
    if isinstance(array, jax.Array) or not isinstance(leaf, np.ndarray | np.generic | bool | int | float | complex):
        return array
    if isinstance(leaf, np.ndarray):
        return array.astype(leaf.dtype, copy=False)  # the byte order of the template
    return array[()] if isinstance(leaf, np.generic) else type(leaf)(array.item())


def _is_unsortable(node: object) -> bool:
    """Return whether `node` is a dict whose keys cannot be sorted. JAX sorts the keys of every dict."""
    if not isinstance(node, Mapping) or isinstance(node, OrderedDict):
        return False
    try:
        sorted(node)
    except TypeError:
        return True
    return False
