"""Checks of the arguments of `fit`, and functions that make error messages of `fit`."""

import inspect
import re
from typing import Any

import jax
import numpy as np

from funcnet import nn
from funcnet.data import DataLoader

__all__ = ["check_arguments", "hidden_names", "in_python", "is_function", "rows_per_step"]


def check_arguments(net: Any, loss: Any, data: Any, optimizer: Any, validation: Any, schedule: Any) -> None:
    """Check the types of the arguments of `fit`.

    Raises:
        TypeError: if an argument has the wrong type. The message says what to pass.
    """
    for name, value, is_right, expected in (
        ("net", net, isinstance(net, nn.Module), "a module, such as nn.Linear(2, 1)"),
        ("loss", loss, callable(loss), "a function loss(model, batch)"),
        (
            "optimizer",
            optimizer,
            hasattr(optimizer, "init") and hasattr(optimizer, "update"),
            "an optax transformation, such as optax.adamw(1e-3)",
        ),
        ("schedule", schedule, schedule is None or callable(schedule), "a function of the step, or None"),
    ):
        if not is_right:
            advice = " A constant learning rate needs no schedule." if name == "schedule" else ""
            raise TypeError(f"train.fit: {name} has the wrong type; expected {expected}, got {value!r:.60}.{advice}")
    _check_data("data", data, "data(start_step)", 0)
    _check_data("validation", validation, "validation()")


def _check_data(name: str, data: Any, form: str, *arguments: Any) -> None:
    shapes = [np.shape(one) for one in data[:3] if hasattr(one, "shape")] if type(data) in (tuple, list) else []
    if shapes and (type(data) is tuple or len(set(shapes)) > 1):  # arrays of equal shapes can be a dataset
        raise TypeError(
            f"train.fit: {name} is a {type(data).__name__} of arrays, which is not a dataset; expected a dict of "
            f"arrays or a dataset, got arrays of shapes {', '.join(map(str, shapes))}. Pass {{'x': x, 'y': y}}, or "
            "data.TensorDataset(x, y) of funcnet."
        )
    if is_function(data):
        try:
            inspect.signature(data).bind(*arguments)
        except TypeError as error:
            raise TypeError(
                f"train.fit: {name} is a function with the wrong arguments; expected {form}, which returns an iterable "
                f"of batches, got {name}{inspect.signature(data)}."
            ) from error
        except ValueError:  # a function written in C has no signature
            pass


def is_function(data: Any) -> bool:
    """Return whether `data` is a function that returns batches, and not a dataset or a loader."""
    return callable(data) and not hasattr(data, "__getitem__") and not isinstance(data, DataLoader)


def rows_per_step(data: Any, batch_size: int) -> int:
    """Return the number of rows per batch: the batch size of the loader, the size of the function's first batch, or
    `batch_size` for other data.

    Raises:
        ValueError: if a function returns no batch.
    """
    if isinstance(data, DataLoader):
        return data.batch_size or batch_size
    if not is_function(data):
        return batch_size
    leaves = jax.tree.leaves(next(iter(data(0)), None))
    if not leaves or not hasattr(leaves[0], "shape"):
        raise ValueError(
            "train.fit: data(0) returned no batch; expected an iterable of batches, each a dict of arrays, got "
            f"{'none' if not leaves else type(leaves[0]).__name__}."
        )
    return len(leaves[0])


def in_python(message: str) -> str:
    """Return an error message of a run in the terms of `fit`: with the prefix "train.fit", and with arguments instead
    of flags.

    >>> in_python("train.open_run: the folder is full; expected another one. Use another --out, or add --resume.")
    'train.fit: the folder is full; expected another one. Use another out, or add resume=True.'
    """
    message = re.sub(r"^train\.[\w.]+:", "train.fit:", message).replace("--resume", "resume=True")
    return re.sub(r"(?<!\S)--([a-z]+(?:-[a-z]+)*)\b", lambda flag: flag[1].replace("-", "_"), message)


def hidden_names(net: nn.Module) -> str:
    """Return sentences for an error message that name the parameters that the optimizer does not get, and say why.

    The sentences name at most three shared and three frozen parameters.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, bias=False))
    >>> net[1].weight = net[0].weight
    >>> _ = net[0].bias.requires_grad_(False)
    >>> hidden_names(net)
    " '1.weight' is shared with '0.weight'; use that name. '0.bias' is frozen; the optimizer does not get it."
    """
    first: dict[int, str] = {}
    leaves = list(net.named_parameters(remove_duplicate=False))
    pairs = [(name, first.setdefault(id(leaf), name)) for name, leaf in leaves]
    shared = [f" {name!r} is shared with {home!r}; use that name." for name, home in pairs if name != home]
    frozen = [f" {name!r} is frozen; the optimizer does not get it." for name, leaf in leaves if not leaf.requires_grad]
    return "".join(shared[:3] + frozen[:3])
