"""The data of `fit`: what may be passed as `data` and `validation`, and the loader that reads it."""

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeGuard

import jax
import numpy as np

from funcnet import nn
from funcnet.arguments import expect, shown
from funcnet.data import ArrayDataset, DataLoader, Subset, TensorDataset, default_collate
from funcnet.data.gather import Arrays, Items, items_of, reader_of
from funcnet.data.loader_arguments import is_iterable_style
from funcnet.files import bytes_digest
from funcnet.train.batch_shapes import describe_shapes, digest_of_arrays
from funcnet.train.batches import OpenedBatches

__all__ = [
    "check_data",
    "check_shared",
    "divides_rows",
    "epoch_length",
    "is_function",
    "length_of",
    "make_loader",
    "open_function",
    "rows_per_step",
    "what_is_read",
]

# What `fit` reads: a dict of arrays, a dataset, a `DataLoader`, or a function that returns batches.
TrainingData = Mapping[str, Any] | Items | Iterable[Any] | Callable[..., Any]
EXPECTED = "a dict of arrays, a dataset, a DataLoader of funcnet.data, or a function that returns batches"
ARRAYS = "Convert torch tensors with .numpy()."


def make_loader(data: Any, batch_size: int, seed: int, *, training: bool = True, name: str = "data") -> Any:
    """Return a loader of the data, or `data` itself if it is a loader or a function that returns batches.

    Args:
        data: see `fit`.
        batch_size: number of rows per batch.
        seed: seed for the order of the rows.
        training: whether to shuffle the rows, and to omit the last batch of an epoch if it has fewer rows. The rows of
            a stream are not shuffled.
        name: name of the argument, for messages.

    Raises:
        ValueError: if there are fewer rows than in a batch, or a loader has no position.
        TypeError: if a `DataLoader` cannot read the data.

    Example:
        >>> [len(batch["x"]) for batch in make_loader({"x": np.arange(5)}, 2, 0, training=False).epoch()]
        [2, 2, 1]
    """
    if is_function(data):
        return data
    try:
        if not isinstance(data, DataLoader):
            rows = ArrayDataset(data) if isinstance(data, Mapping) else data
            shuffle = training and not is_iterable_style(rows)
            data = DataLoader(rows, batch_size, shuffle=shuffle, seed=seed, drop_last=training)
        data.require_batches()
        data.state_dict()
    except (TypeError, ValueError) as error:
        error.args = (f"train.fit: {name}: {error}",)
        raise
    return data


def is_function(data: object) -> TypeGuard[Callable[..., Iterable[Any]]]:
    """Return whether `data` is a function that returns batches, and not a dataset or a loader."""
    return callable(data) and not hasattr(data, "__getitem__") and not isinstance(data, DataLoader)


def open_function(data: Callable[[int], Iterable[Any]]) -> OpenedBatches:
    """Return the batches of a function `data(start_step)`. The position in the iterable that it returns is not saved,
    because the function can begin at any step.
    """

    def batches(start_step: int) -> Iterator[Any]:
        yield from data(start_step)

    return OpenedBatches(batches)


def rows_per_step(data: object, batch_size: int) -> int:
    """Return the number of rows per batch: the batch size of the loader, the size of the first batch of a function, or
    `batch_size` for other data.

    Args:
        data: data of `fit`, after `open_function` if it is a function.
        batch_size: see `fit`.

    Raises:
        ValueError: if a function returns no batch.
    """
    if isinstance(data, DataLoader):
        return data.batch_size or batch_size
    if not isinstance(data, OpenedBatches):
        return batch_size
    first = data.first()
    leaves = jax.tree.leaves(first)
    if not leaves or not np.ndim(leaves[0]):
        data.close()
        raise ValueError(
            "train.fit: data(0) returned no batch; expected an iterable of batches, each a dict of arrays, got "
            f"{'none' if first is None else shown(first)}."
        )
    return len(leaves[0])


def epoch_length(loader: object) -> int | None:
    """Return the number of batches of an epoch, or None if it is not known. It is not known for streams, and only the
    samplers of `funcnet.data` have a reliable length.
    """
    if not isinstance(loader, DataLoader) or loader.is_iterable or loader.state_dict()["resumes"] != "position":
        return None
    return len(loader)


def divides_rows(loader: object) -> bool:
    """Return whether each process of a run can read only its own rows of a batch. The order of the rows must be known
    in advance, and the shape of a batch must not depend on its rows, as it does if `collate_fn` pads them.

    >>> divides_rows(DataLoader(np.arange(4), 2)), divides_rows(DataLoader(np.arange(4), 2, collate_fn=list))
    (True, False)
    """
    if not isinstance(loader, DataLoader) or loader.is_iterable or loader.batch_size is None:
        return False
    return (
        loader.collate_fn is default_collate
        and loader.state_dict()["resumes"] == "position"
        and _stacks(loader.dataset)
    )


def _stacks(dataset: Any) -> bool:
    """Return whether a batch of a dataset consists of stacked items. A method `__getitems__` may do something else."""
    items = items_of(dataset)
    if isinstance(items, Subset):
        return _stacks(items.dataset)
    known = {kind.__getitems__ for kind in (ArrayDataset, TensorDataset, Arrays)}
    return reader_of(items) is None or getattr(type(items), "__getitems__", None) in known


def what_is_read(loader: DataLoader) -> dict[str, Any]:
    """Return facts about a loader, by name, that must be equal in all processes if each process reads only its own
    rows.
    """
    indices = DataLoader(np.arange(len(loader.dataset)), loader.batch_size, sampler=loader.sampler).batch(0).tolist()  # type: ignore[arg-type]
    first = next(iter(DataLoader(loader.dataset, 1, sampler=indices[:1], seed=loader.seed)))
    digest = bytes_digest(str(indices).encode())
    return {
        "the order of the rows": json.dumps(loader.position(0), default=str),
        "the first batch": f"rows {str(indices[:8])[1:-1]}{', …' * (len(indices) > 8)} (SHA-256 {digest:.12}…)",
        "the first row": f"{describe_shapes(first)}, SHA-256 {digest_of_arrays(first):.12}…",
    }


def length_of(loader: Any) -> int | None:
    """Return the number of items in the dataset of a loader, or None if it is not known."""
    try:
        return len(loader.dataset)
    except Exception:  # a stream, or a function
        return None


def check_data(name: str, data: Any, form: str, *arguments: object) -> None:
    """Check that `data` can be read.

    Args:
        name: name of the argument, "data" or "validation".
        data: its value.
        form: how a function is called, such as "data(start_step)".
        *arguments: arguments with which a function is called.

    Raises:
        TypeError: if the value has the wrong type. The message says what to pass.
    """
    _refuse_other_libraries(name, data)
    expect(not isinstance(data, type), "train.fit", name, EXPECTED, data, "Pass an instance of the class.")
    is_optimizer = hasattr(data, "init") and hasattr(data, "update")
    is_wrong = isinstance(data, str | bytes | nn.Module) or is_optimizer
    is_readable = any(hasattr(data, way) for way in ("__getitem__", "__getitems__", "__iter__")) or callable(data)
    expect(is_readable and not is_wrong, "train.fit", name, EXPECTED, data)
    if hasattr(data, "__next__"):
        advice = f"Pass the function itself, {name}=function." if inspect.isgenerator(data) else ""
        expect(False, "train.fit", name, f"{EXPECTED}, all of which can be read several times", data, advice)
    shapes = [np.shape(one) for one in data[:3] if hasattr(one, "shape")] if type(data) in (tuple, list) else []
    if shapes and (type(data) is tuple or len(set(shapes)) > 1):  # arrays of equal shapes can be a dataset
        raise TypeError(
            f"train.fit: {name} is a {type(data).__name__} of arrays, which is not a dataset; expected a dict of "
            f"arrays or a dataset, got arrays of shapes {', '.join(map(str, shapes))}. Pass {{'x': x, 'y': y}}, or "
            "data.TensorDataset(x, y) of funcnet."
        )
    if is_function(data):
        _check_signature(name, data, form, arguments)


def _refuse_other_libraries(name: str, data: object) -> None:
    library = type(data).__module__.partition(".")[0]
    if library == "torch" and hasattr(data, "batch_sampler"):
        advice = "Change the import: from funcnet.data import DataLoader."
        expect(False, "train.fit", name, EXPECTED, data, advice)
    expect(not (library == "torch" and hasattr(data, "shape")), "train.fit", name, EXPECTED, data, ARRAYS)
    advice = "Pass {name: table[name].to_numpy() for name in table.columns}."
    expect(library not in ("pandas", "polars"), "train.fit", name, EXPECTED, data, advice)
    for key, column in data.items() if isinstance(data, Mapping) else ():
        is_array = hasattr(column, "shape") and type(column).__module__.partition(".")[0] not in ("torch", "pandas")
        advice = ARRAYS if hasattr(column, "shape") else "Convert it with np.asarray."
        expect(is_array, "train.fit", f"{name}[{key!r}]", "an array", column, advice)


def _check_signature(name: str, data: Callable[..., Any], form: str, arguments: tuple[Any, ...]) -> None:
    try:
        inspect.signature(data).bind(*arguments)
    except TypeError as error:
        raise TypeError(
            f"train.fit: {name} is a function with the wrong arguments; expected {form}, which returns an iterable "
            f"of batches, got {name}{inspect.signature(data)}."
        ) from error
    except ValueError:  # a function written in C has no signature
        pass


def check_shared(data: object, validation: object) -> None:
    """Check that an evaluation does not change the position in the training data.

    Raises:
        ValueError: if both arguments read the same object, and that object keeps its position or its epoch.
    """
    own, other = (one.dataset if isinstance(one, DataLoader) else one for one in (data, validation))
    keeps = [name for name in ("state_dict", "load_state_dict", "set_epoch") if hasattr(own, name)]
    is_stream = not is_function(own) and not isinstance(own, Mapping) and is_iterable_style(own)
    if own is other and is_stream and keeps:
        raise ValueError(
            f"train.fit: data and validation are the same {type(own).__name__}, which keeps its position ({keeps[0]}); "
            "expected two objects, got one. Make a second one for validation."
        )
