"""Split the inputs of a net over devices, and gather its outputs: `torch.nn.parallel.scatter_gather`.

See `funcnet.parallel.data_parallel` for the use of these functions. Both functions can be differentiated.

Letters: B batch, N devices, K parts (at most N).
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from funcnet.arguments import expect, integer
from funcnet.parallel.mesh import Device, find_device, find_devices
from funcnet.tree import PyTree

__all__ = ["gather", "scatter"]


def scatter(inputs: PyTree, devices: Sequence[Device], dim: int = 0) -> list[Any]:
    """Split every array as `torch.chunk` does, and copy each chunk to its device.

    An array with B rows becomes chunks of ceil(B / N) rows. The last chunk may be smaller, and there may be fewer
    chunks than devices: 5 rows on 4 devices become chunks of 2, 2 and 1 rows.

    Args:
        inputs: JAX or NumPy arrays in lists, tuples, named tuples, dicts or other pytrees, nested in any way. Each part
            gets all other values (numbers, strings, None) unchanged.
        devices: the N devices, or their numbers in `jax.local_devices()`.
        dim: dimension to split.

    Returns:
        A list of K parts, each nested like `inputs`. If `inputs` contains no arrays, there are N parts.

    Raises:
        ValueError: if there are no devices, a device does not exist, an array has no dimension `dim` or no rows, or two
            arrays have different numbers of chunks.

    Differs from torch: `scatter` always returns a list. `scatter` also splits NumPy arrays. A batch without rows is an
    error. Arrays with different numbers of chunks are an error; torch silently omits rows.

    Example:
        >>> parts = scatter({"x": np.arange(5), "flag": True}, devices=[0, 1, 2, 3])
        >>> [(part["x"].tolist(), part["flag"]) for part in parts]
        [([0, 1], True), ([2, 3], True), ([4], True)]

    Reference: `torch.nn.parallel.scatter_gather.scatter`.
    """
    where = "parallel.scatter"
    chosen, dim = find_devices(devices, where), integer(where, "dim", dim)
    counts: dict[int, tuple[int, ...]] = {}
    for array in filter(_is_array, _leaves(inputs)):
        counts.setdefault(_chunks(array, len(chosen), dim), array.shape)
    if len(counts) > 1:
        (most, one), (fewest, other) = max(counts.items()), min(counts.items())
        raise ValueError(
            f"{where}: the arrays have different numbers of chunks along dimension {dim}; expected the same number for "
            f"all of them, got {most} chunks for shape {one} and {fewest} for shape {other}. If an array belongs to "
            "all rows, repeat it for every row, or do not pass it through scatter."
        )

    def part(value: PyTree, index: int, device: jax.Device) -> Any:
        container = _open(value)
        if container is not None:
            return container.rebuild([part(child, index, device) for child in container.children.values()])
        return jax.device_put(_chunk(value, len(chosen), dim, index), device) if _is_array(value) else value

    return [part(inputs, index, device) for index, device in enumerate(chosen[: next(iter(counts), len(chosen))])]


def gather(outputs: Sequence[Any], device: Device, dim: int = 0) -> Any:
    """Concatenate the outputs of all replicas on one device.

    Args:
        outputs: K outputs with the same nesting: arrays or None in lists, tuples, named tuples, dicts or other pytrees.
        device: the device of the result, or its number in `jax.local_devices()`.
        dim: dimension along which arrays are concatenated. With 0, K scalars become a vector (K,).

    Returns:
        One object that is nested like each output and contains the concatenated arrays. The length of an array along
        `dim` is the sum of the outputs' lengths.

    Raises:
        ValueError: if there are no outputs, the device does not exist, or the outputs differ in structure, in dtype, or
            in a dimension other than `dim`.
        TypeError: if a value in an output is neither an array nor None.

    Differs from torch: `gather` takes `device` instead of `target_device`, and gathers scalars without a warning.
    Outputs of different dtypes are an error.

    Example:
        >>> outputs = [{"y": jnp.ones((2, 3)), "loss": jnp.zeros(())}, {"y": jnp.ones((1, 3)), "loss": jnp.ones(())}]
        >>> gathered = gather(outputs, 0)
        >>> gathered["y"].shape, gathered["loss"].tolist()
        ((3, 3), [0.0, 1.0])

    Reference: `torch.nn.parallel.scatter_gather.gather`.
    """
    is_list = isinstance(outputs, list | tuple)
    expect(is_list, "parallel.gather", "outputs", "a list with the output of each replica", outputs)
    target, dim = find_device(device, "parallel.gather"), integer("parallel.gather", "dim", dim)
    if not outputs:
        raise ValueError("parallel.gather: there are no outputs; expected at least one, got none.")
    return _gathered(list(outputs), target, dim, "output")


def _gathered(values: list[Any], device: jax.Device, dim: int, name: str) -> Any:
    """Gather one value from all replicas. `name` is the place of the value in the output, for error messages."""
    containers = [_open(value) for value in values]
    for index, container in enumerate(containers):
        if _kind(container) != _kind(containers[0]):
            raise ValueError(
                f"parallel.gather: the structure of {name} differs between replicas; expected {_kind(containers[0])} "
                f"as in replica 0, got {_kind(container)} in replica {index}."
            )
    opened = [container for container in containers if container is not None]
    if not opened:
        return _concatenated(values, device, dim, name)
    columns = {key: [container.children[key] for container in opened] for key in opened[0].children}
    return opened[0].rebuild([_gathered(column, device, dim, f"{name}[{key!r}]") for key, column in columns.items()])


def _concatenated(values: list[Any], device: jax.Device, dim: int, name: str) -> jax.Array:
    for index, value in enumerate(values):
        if not _is_array(value):
            raise TypeError(
                f"parallel.gather: {name} cannot be gathered; expected an array or None, got {type(value).__name__} "
                f"in replica {index}."
            )
    first, moved = values[0], [jax.device_put(value, device) for value in values]
    if dim == 0 and all(value.ndim == 0 for value in values):
        return jnp.stack(moved)
    if not -first.ndim <= dim < first.ndim:
        raise ValueError(
            f"parallel.gather: {name} has no dimension {dim}; expected arrays with at least "
            f"{dim + 1 if dim >= 0 else -dim} dimension(s), got shape {first.shape}."
        )
    fixed = lambda value: (value.dtype, value.ndim, *np.delete(value.shape, dim if value.ndim == first.ndim else []))
    for index, value in enumerate(values):
        if fixed(value) != fixed(first):
            raise ValueError(
                f"parallel.gather: {name} of replica {index} does not match; expected {first.dtype} and shape "
                f"{first.shape} as in replica 0 (dimension {dim} may differ), got {value.dtype} and shape "
                f"{value.shape}."
            )
    return jnp.concatenate(moved, axis=dim)


# ------------------------------------------------------------------------------------------------ arrays and containers


class _Container(NamedTuple):
    children: dict[Any, Any]
    rebuild: Callable[[list[Any]], Any]  # makes a container of this kind from new children
    kind: str  # what must be equal in all replicas, besides the keys


def _open(value: PyTree) -> _Container | None:
    """Return a container with its children, or None for an array or another single value. The value None is a container
    without children.

    `jax.tree` alone would sort the keys of dicts, and does not know subclasses of dict, list and tuple.
    """
    if value is None:
        return _Container({}, lambda new: None, "None")
    kind = type(value).__name__
    if isinstance(value, dict):
        return _Container(dict(value), lambda new: _like(value, new), kind)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _Container(value._asdict(), value._make, kind)  # type: ignore[attr-defined]
    if isinstance(value, list | tuple):
        return _Container(dict(enumerate(value)), type(value), kind)
    leaves, structure = jax.tree.flatten(value)
    if jax.tree_util.treedef_is_leaf(structure):
        return None
    return _Container(dict(enumerate(leaves)), lambda new: jax.tree.unflatten(structure, new), str(structure))


def _like(value: dict[Any, Any], new: list[Any]) -> dict[Any, Any]:
    """Return a copy of a dict, an OrderedDict or a defaultdict, with new values."""
    made = copy.copy(value)
    made.update(zip(value, new, strict=True))
    return made


def _kind(container: _Container | None) -> str:
    """Return a text with the type and keys of a container. Containers can be gathered if their texts are equal."""
    if container is None:
        return "an array"
    keys = ", ".join(sorted(map(repr, container.children)))
    return f"{container.kind} with {keys}" if keys else container.kind


def _leaves(value: PyTree) -> Iterator[Any]:
    container = _open(value)
    if container is None:
        yield value
        return
    for child in container.children.values():
        yield from _leaves(child)


def _is_array(value: PyTree) -> bool:
    return isinstance(value, jax.Array | np.ndarray)


def _chunks(array: jax.Array | np.ndarray, parts: int, dim: int) -> int:
    """Return the number of chunks into which `scatter` splits an array, at most `parts`."""
    if not -array.ndim <= dim < array.ndim:
        raise ValueError(
            f"parallel.scatter: an array has no dimension {dim}; expected arrays to split, got shape {array.shape}."
        )
    rows = array.shape[dim]
    if rows == 0:
        raise ValueError(
            f"parallel.scatter: an array is empty along dimension {dim}; expected at least one row, got shape "
            f"{array.shape}."
        )
    return -(-rows // -(-rows // parts))


def _chunk(array: jax.Array | np.ndarray, parts: int, dim: int, index: int) -> Any:
    """Return chunk `index` of an array. A chunk of a NumPy array is not copied to the default device first."""
    rows = array.shape[dim]
    size = -(-rows // parts)
    start, end = index * size, min((index + 1) * size, rows)
    if isinstance(array, np.ndarray):
        return array[(*[slice(None)] * (dim % array.ndim), slice(start, end))]
    return lax.slice_in_dim(array, start, end, axis=dim)
