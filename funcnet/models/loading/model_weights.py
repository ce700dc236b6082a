"""Loading of checkpoint files into models: new heads, mismatches, tied weights, shards for devices."""

import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import nn, tree
from funcnet.models.loading.checkpoint_arrays import RenamedArrays, read_arrays, renamed_names
from funcnet.models.loading.naming import Arrays, Naming
from funcnet.nn.module.initial_arrays import start
from funcnet.nn.state_dict.sliced_array import SlicedArray
from funcnet.nn.state_dict.state_dict import disagreements, entries_of
from funcnet.nn.state_dict.state_dict import load as load_state_dict
from funcnet.parallel import Layout
from funcnet.random import is_key
from funcnet.tree import Tree

__all__ = ["fill", "load"]

SHOWN = 12  # largest number of ignored names, or of bad ones, that a warning lists


def load(
    path: str | Path,
    model: nn.Module,
    naming: Naming | None = None,
    *,
    key: jax.Array | None = None,
    new_heads: bool = True,
    reshape_heads: bool = False,
    layout: Layout | None = None,
) -> tuple[Tree, Tree]:
    """Load the arrays of a model from a checkpoint file, or from a directory that contains one.

    Args:
        path: file or directory, as for `weights.load`.
        model: the model.
        naming: naming of the model's family, such as `resnet.NAMING`. None means that the file has the names of the
            model.
        key: random key for new weights. None means `jax.random.key(0)`.
        new_heads: if True, a head that is missing from the file gets new weights, with a warning. If False, a missing
            head is an error.
        reshape_heads: if True, a head whose shape in the file is different gets new weights too.
        layout: layout from `parallel.make_layout`. Each device then reads only its part of each array, as
            `layout.for_net(model)` shards it, and neither the host nor a device ever has the entire model. None loads
            the arrays on one device.

    Returns:
        (params, state).

    Raises:
        FileNotFoundError: if the file does not exist.
        ValueError: if the file does not contain named arrays, has changed since a run wrote it, or lacks a head
            although `new_heads` is False. The error is also raised if arrays are missing or have the wrong shape (the
            message lists all of them).

    Warns:
        UserWarning: if weights are newly initialised, or the file has weights that the model lacks. One message lists
            all of them. Other warnings name weights that are NaN or infinite, and tied weights that differ in the file.
            Of these, the first one in the order of the model is used, as in transformers.

    Example:
        >>> import tempfile
        >>> from funcnet import nn, weights
        >>> net = nn.Linear(2, 3)
        >>> params, state = net.init(jax.random.key(0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     wrapped = {f"module.{name}": array for name, array in net.state_dict(params, state).items()}
        ...     weights.save(Path(folder, "net.safetensors"), wrapped)
        ...     read, _ = load(Path(folder, "net.safetensors"), net)
        >>> bool((read["weight"] == params["weight"]).all())
        True
    """
    naming, where = naming or Naming(), "models.load"
    arrays = read_arrays(path, naming, where)
    options: dict[str, Any] = {"new_heads": new_heads, "reshape_heads": reshape_heads, "layout": layout}
    return fill(model, arrays, naming, f"{where}: {path}", key=key, **options)


def fill(
    model: nn.Module,
    arrays: Arrays,
    naming: Naming,
    where: str,
    *,
    key: jax.Array | None = None,
    new_heads: bool = True,
    reshape_heads: bool = False,
    layout: Layout | None = None,
) -> tuple[Tree, Tree]:
    """Return the (params, state) of a model, filled with the arrays of a checkpoint file.

    Args:
        model: the model.
        arrays: the arrays of the file, from `read_arrays`.
        naming: names of the model's family.
        where: prefix for messages, such as the name of the caller and the path.
        key, new_heads, reshape_heads, layout: as for `load`, whose errors and warnings are also those of this function.

    Example:
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False))
        >>> file = {"0.weight": jax.numpy.eye(2)}  # a file without a head
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # of the new head
        ...     params, state = fill(net, file, Naming(heads=("1.",)), "load")
        >>> params["0"]["weight"].tolist(), params["1"]["weight"].shape
        ([[1.0, 0.0], [0.0, 1.0]], (1, 2))
    """
    arrays = _prefixed(arrays, model, naming, where)
    found = model.match_state_dict(arrays)
    new = _new_names(model, arrays, found, naming, where, reshape_heads)
    if new and not new_heads:
        raise ValueError(
            f"{where} lacks the head of {type(model).__name__}; expected {', '.join(new)}, got none. Train the "
            "head, or use the class of the model that the file was saved from."
        )
    tied = _tied(model, arrays, where)
    known = {name: name for name in arrays if name not in {*found.unexpected, *new, *tied}}
    key = jax.random.key(0) if key is None else key
    if layout is None:
        into = model.init(key) if new else None
        params, state = model.load_state_dict(RenamedArrays(arrays, known), strict=False, into=into)
    else:
        params, state = _sharded(model, RenamedArrays(arrays, known), new, key, layout.for_net(model))
    _warn(model, arrays, new, [name for name in found.unexpected if naming.head(name) is None], where)
    _warn_of_nan(params, where)
    return params, state


def _sharded(model: nn.Module, arrays: Arrays, new: list[str], key: jax.Array, layout: Layout) -> tuple[Tree, Tree]:
    """Load a state_dict such that each device reads only its part. Draw only the new weights with `key`."""
    both = jax.eval_shape(model.init, key)
    shapes, shardings = (tree.flatten(a) | tree.flatten(b) for a, b in (both, layout.shardings(both)))
    entries = [*entries_of(model)]
    homes = {entry.home for entry in entries if entry.name in arrays} - {e.home for e in entries if e.name in new}
    # arrays of the right shape that need no memory; the others are drawn
    read = {name: np.broadcast_to(np.zeros((), shapes[name].dtype), shapes[name].shape) for name in homes}

    def put(name: str, array: jax.Array | np.ndarray | SlicedArray) -> jax.Array:
        if isinstance(array, SlicedArray):
            return jax.make_array_from_callback(array.shape, shardings[name], array.__getitem__)
        return layout.place(array, shardings[name])

    return load_state_dict(model, arrays, False, start(model, key, {}, read) if new else None, put=put)


def _prefixed(arrays: Arrays, model: nn.Module, naming: Naming, where: str) -> Arrays:
    """Rename the arrays of a file to the names of the model: remove or add the prefix of the encoder, such as
    "bert.".
    """
    prefix = naming.prefix
    if not prefix:
        return arrays
    file_has = any(name.startswith(prefix) for name in arrays)
    model_has = any(name.startswith(prefix) for name, _ in model.named_parameters())
    if file_has and not model_has:
        return RenamedArrays(arrays, renamed_names(arrays, lambda name: name.removeprefix(prefix), where))
    if model_has and not file_has:
        rename = lambda name: prefix + name if name.startswith(naming.encoder) else name
        return RenamedArrays(arrays, renamed_names(arrays, rename, where))
    return arrays


def _new_names(
    model: nn.Module, arrays: Arrays, found: Any, naming: Naming, where: str, reshape_heads: bool
) -> list[str]:
    """Return the names of the model's arrays that get new weights instead of weights from the file. If any other array
    is missing or has the wrong shape, raise an error that lists all such arrays.

    A head gets new weights if the file has none of its arrays or, with `reshape_heads`, if their shapes are different.
    """
    shapes = {entry.name: entry.shape for entry in entries_of(model)}
    firsts = {(entry.home, entry.layer): entry.name for entry in reversed([*entries_of(model)])}.values()
    new = set(found.missing)
    reshaped = {naming.head(name) for name in found.mis_shaped} if reshape_heads else set()
    for head in {naming.head(name) for name in found.missing} | reshaped:
        whole = {name for name in firsts if head and name.startswith(head)}
        if whole & set(found.mis_shaped) and reshape_heads:
            new |= whole
        elif head is None or whole - set(found.missing):
            new -= {name for name in found.missing if naming.head(name) == head}
    lines = [f"missing: {name}" for name in found.missing if name not in new]
    for name in found.mis_shaped:
        if name not in new:
            lines.append(f"mis-shaped: {name} expected {shapes[name]}, got {tuple(arrays[name].shape)}")
    if lines:
        raise ValueError(
            f"{where}: the weights do not fit this {type(model).__name__}.\n  "
            + "\n  ".join(lines)
            + "\n  Use the weights that belong to the config, or the config that fits the weights."
        )
    return [name for name in shapes if name in new]


def _tied(model: nn.Module, arrays: Arrays, where: str) -> list[str]:
    """Return the names in the file that are further names of a tied array. Warn if the file has other values there."""
    entries = [entry for entry in entries_of(model) if entry.name in arrays]
    different = [f"{other} is not equal to {name}" for name, other in disagreements(entries, arrays)]
    if different:
        warnings.warn(
            f"{where}: {type(model).__name__} has one array for weights that differ in the file; expected equal "
            f"weights, got others: {', '.join(different)}. The first one of the model is used, as in transformers.",
            stacklevel=4,
        )
    first = {(entry.home, entry.layer): entry.name for entry in reversed(entries)}
    return [entry.name for entry in entries if first[entry.home, entry.layer] != entry.name]


def _warn_of_nan(params: Tree, where: str) -> None:
    """Warn if weights are NaN or infinite, for example after a training run that diverged."""
    flat = {name: array for name, array in tree.flatten(params).items() if not is_key(array)}
    wrong = [name for name, array in flat.items() if not _is_finite(array)]
    if wrong:
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        warnings.warn(
            f"{where}: weights are NaN or infinite in {', '.join(wrong[:SHOWN])}{more}, so the model's outputs "
            "will be NaN. Use an earlier checkpoint.",
            stacklevel=4,
        )


def _is_finite(array: jax.Array) -> bool:
    if array.is_fully_replicated:
        return bool(np.isfinite(np.asarray(array, np.float32)).all())
    return bool(jnp.isfinite(array).all())  # the host does not gather an array that is sharded


def _warn(model: nn.Module, arrays: Arrays, new: list[str], ignored: list[str], where: str) -> None:
    """Give one warning that names all weights that are new and all weights of the file that are ignored."""
    lines = []
    if new:
        why = lambda name: f" (the file's is {tuple(arrays[name].shape)})" if name in arrays else ""
        shown = ", ".join(f"{name}{why(name)}" for name in new)
        lines.append(f"{type(model).__name__} has new weights, which must be trained: {shown}.")
    if ignored:
        more = f" and {len(ignored) - SHOWN} more" if len(ignored) > SHOWN else ""
        lines.append(f"Ignored weights that the model does not have: {', '.join(ignored[:SHOWN])}{more}.")
    if lines:
        warnings.warn(f"{where}: {' '.join(lines)}", stacklevel=4)
