"""The 30 models that every form of export must hold: rows of the layer tests, BERT, ResNet-18.

Each gives a pure function of arrays, example arrays, its weights, and which sizes may be symbolic.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from funcnet import nn, tree
from funcnet.models import bert, resnet
from tests.layers import TABLE
from tests.layers.row import Row

__all__ = ["FAST", "MODELS", "Model", "at_other_sizes", "drawn"]

BATCH = 3


@dataclass(frozen=True)
class Model:
    """A model that is exported.

    Attributes:
        name: its name in the tests.
        make: function that returns (pure function, example arrays, (params, state)).
        dynamic: symbolic sizes that all forms with symbolic sizes can hold, or None.
    """

    name: str
    make: Callable[[], tuple[Callable[..., Any], list[np.ndarray], Any]]
    dynamic: str | Sequence[str | None] | None = None

    def __str__(self) -> str:
        return self.name


def of(net: nn.Module, inputs: Sequence[Any], seed: int = 0) -> tuple[Callable[..., Any], list[np.ndarray], Any]:
    """The inference of a module, with weights and running statistics that are not those of a start."""
    params, state = drawn(net, inputs, seed)
    arrays, structure = jax.tree.flatten(list(inputs))

    def run(*arrays: jax.Array) -> Any:
        return net.apply(params, state, *jax.tree.unflatten(structure, arrays))[0]

    return run, [np.asarray(array) for array in arrays], (params, state)


def drawn(net: nn.Module, inputs: Sequence[Any] = (), seed: int = 0) -> tuple[Any, Any]:
    """Parameters and buffers of a module, drawn by NumPy, which compiles nothing. Variances are positive."""
    random = np.random.default_rng(seed)

    def draw(name: str, leaf: jax.ShapeDtypeStruct) -> jax.Array:
        if not jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating):
            return jax.numpy.zeros(leaf.shape, leaf.dtype)
        fan = np.prod(leaf.shape[1:]) if len(leaf.shape) > 1 else 100
        numbers = random.normal(size=leaf.shape) / np.sqrt(fan) + (len(leaf.shape) == 1 and name.endswith("weight"))
        return jax.numpy.asarray(np.abs(numbers) + 0.5 if name.endswith("var") else numbers, leaf.dtype)

    shapes = jax.eval_shape(net.init, jax.random.key(0), *inputs)
    params, state = (tree.map_with_name(draw, one) for one in shapes)
    return params, state


def row(kind: str, number: int = 0, dynamic: Any = None) -> Model:
    """The model of a row of the table of layers: the `number`th row of its kind."""
    one: Row = [one for one in TABLE if one.kind == kind][number]
    return Model(str(one), lambda: of(one.ours(), one.inputs(BATCH)), dynamic)


def tokens(words: int, length: int = 16) -> list[np.ndarray]:
    """ids, mask and token types of a padded batch."""
    random = np.random.default_rng(1)
    ids = random.integers(5, words, size=(BATCH, length)).astype(np.int32)
    mask = np.ones_like(ids)
    mask[1, length // 2 :] = mask[2] = 0  # the last row has nothing to attend to
    types = (np.arange(length) > length // 3) * mask
    return [ids, mask, types.astype(np.int32)]


def tiny(kind: Any) -> Any:
    config = bert.BertConfig.preset("tiny", vocab_size=300, num_labels=3)
    return of(kind(config), tokens(300))


def images(net: nn.Module, channels: int, size: int) -> Any:
    return of(net, [np.random.default_rng(2).normal(size=(2, channels, size, size)).astype(np.float32)])


B = "batch, ..."
MODELS = [
    row("Conv1d", 1, B),
    row("Conv2d", 0, B),
    row("Conv2d", 4, B),
    row("Conv2d", 6, B),
    row("Conv2d", 5, B),
    row("Conv3d", 0, B),
    row("ConvTranspose2d", 0, B),
    row("ConvTranspose2d", 1, B),
    row("MaxPool2d", 0, B),
    row("AvgPool2d", 0, B),
    row("AdaptiveAvgPool2d", 0, B),
    row("LSTM", 0, ["time, _, _", None, None]),
    row("GRU", 0, ["time, _, _", None]),
    row("RNN", 1, "time, batch, _"),
    row("LSTMCell", 0, B),
    row("GRUCell", 0, B),
    row("BatchNorm2d", 0, B),
    row("InstanceNorm1d", 0, B),
    row("LayerNorm", 0, B),
    row("LayerNorm", 4, B),
    row("GroupNorm", 0, B),
    row("RMSNorm", 0, B),
    row("LocalResponseNorm", 0, B),
    row("MultiheadAttention", 0, B),
    row("TransformerEncoderLayer", 1, "batch, length, _"),
    row("TransformerDecoderLayer", 0, B),
    row("Embedding", 0, B),
    Model("BertForPreTraining", lambda: tiny(bert.BertForPreTraining), "batch, length"),
    Model("BertForSequenceClassification", lambda: tiny(bert.BertForSequenceClassification), "batch, length"),
    Model("ResNet-18", lambda: images(resnet.resnet18(num_classes=10), 3, 64), B),
]
assert len(MODELS) == 30

FAST = ("Conv2d(3,4,3,padding=1)", "GRUCell(3,4)", "Embedding(7,3)")


def at_other_sizes(model: Model, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The example arrays with one more entry along each symbolic size."""
    written = [model.dynamic] * len(arrays) if isinstance(model.dynamic, str | None) else list(model.dynamic)
    return [_longer(array, one) for array, one in zip(arrays, written, strict=True)]


def _longer(array: np.ndarray, written: str | None) -> np.ndarray:
    for axis, size in enumerate([] if written is None else written.split(",")):
        if size.strip() not in ("_", "..."):
            array = np.take(array, [*range(array.shape[axis]), 0], axis)
    return array
