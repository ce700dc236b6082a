"""One row a layer: how it is built, what it is given, how near torch it must come and why no nearer.

The same arguments build ours and torch's: `getattr(nn, row.kind)(*row.args, **row.kwargs)`. The oracle is torch in
float64 on the same float32 numbers, so every difference is ours. Differences are relative to the largest entry.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from funcnet import nn

EXACT = (0.0, "values are picked, not computed")
ROUNDING = (3e-7, "a few roundings to float32, whose half unit in the last place is 6e-8")
SUMS = (1e-6, "sums of up to a hundred products, each rounded to float32")
TANH = (3e-6, "the derivative 1 - tanh² cancels where tanh is near 1, and GELU multiplies it by x up to 8")
ROUNDED_MEAN = (1e-3, "float32 near 1e4 goes in steps of 1e-3, the mean too; torch's own float32 is 2e-3 away")
LARGE_MEAN = (2e-6, "float32 inputs near 1e4 are given exactly; only the two passes over them round")


@dataclass(frozen=True)
class Row:
    kind: str
    args: tuple[Any, ...]
    inputs: Callable[[int], Sequence[np.ndarray]]  # of the batch size
    tolerance: tuple[float, str]
    kwargs: dict[str, Any] = field(default_factory=dict)
    modes: tuple[bool, ...] = (False,)  # values of `training`
    oracle: torch.dtype = torch.float64
    note: str = ""

    def __str__(self) -> str:
        words = [*self.args, *(f"{k}={v if np.ndim(v) == 0 else '…'}" for k, v in self.kwargs.items()), self.note]
        return f"{self.kind}({','.join(str(w) for w in words if w != '')})".replace(" ", "")

    def ours(self) -> nn.Module:
        return getattr(nn, self.kind)(*self.args, **self.kwargs)

    def theirs(self) -> torch.nn.Module:
        kwargs = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in self.kwargs.items()}
        torch.manual_seed(0)
        module = getattr(torch.nn, self.kind)(*self.args, **kwargs)
        with torch.no_grad():  # weights of one and biases of zero would hide a mistake
            for parameter in module.parameters():
                if isinstance(parameter, torch.nn.UninitializedParameter):
                    continue
                parameter.add_(torch.randn_like(parameter) * 0.3)
        return module


def floats(*shape: int, mean: float = 0.0) -> Callable[[int], list[np.ndarray]]:
    """Numbers of N(mean, 1), of shape (batch, *shape)."""
    return lambda batch: [(_random(batch).normal(size=(batch, *shape)) + mean).astype(np.float32)]


def kinks(*shape: int) -> Callable[[int], list[np.ndarray]]:
    """Steps of a half from -4 to 8: among them every point where an activation has a corner."""
    return lambda batch: [np.resize(np.arange(-8, 17) / 2, (batch, *shape)).astype(np.float32)]


def ids(size: int, *shape: int, dtype: Any = np.int32) -> Callable[[int], list[np.ndarray]]:
    return lambda batch: [_random(batch).integers(size, size=(batch, *shape)).astype(dtype)]


def classes(
    count: int, *shape: int, ignored: int | None = None, dtype: Any = np.int32
) -> Callable[[int], list[np.ndarray]]:
    """Logits (batch, count, *shape) and target classes (batch, *shape), the first two of them `ignored`."""

    def make(batch: int) -> list[np.ndarray]:
        random = _random(batch)
        target = random.integers(count, size=(batch, *shape)).astype(dtype)
        if ignored is not None:
            target.flat[:2] = ignored
        return [random.normal(size=(batch, count, *shape)).astype(np.float32), target]

    return make


def pairs(*shape: int, target: str = "normal") -> Callable[[int], list[np.ndarray]]:
    def make(batch: int) -> list[np.ndarray]:
        random = _random(batch)
        draw = {"normal": random.normal, "unit": random.random}[target]
        return [a.astype(np.float32) for a in (random.normal(size=(batch, *shape)), draw(size=(batch, *shape)))]

    return make


def both(first: Callable[[int], Sequence[np.ndarray]], second: Callable[[int], Sequence[np.ndarray]]) -> Any:
    return lambda batch: [*first(batch), *second(batch)]


def _random(batch: int) -> np.random.Generator:
    return np.random.default_rng(batch)


BOTH = (False, True)
HALVES = np.array([0.5, 1.5, 2.0, 0.25, 1.0], np.float32)

LINEAR = [
    Row("Identity", (), floats(3), EXACT),
    Row("Linear", (5, 4), floats(5), SUMS),
    Row("Linear", (5, 4), floats(2, 3, 5), SUMS, {"bias": False}),
    Row("Bilinear", (3, 4, 5), both(floats(3), floats(4)), SUMS),
    Row("Bilinear", (3, 4, 5), both(floats(3), floats(4)), SUMS, {"bias": False}),
    Row("Flatten", (), floats(3, 2, 4), EXACT),
    Row("Flatten", (-3, -2), floats(3, 2, 4), EXACT),
]

EMBEDDING = [
    Row("Embedding", (7, 3), ids(7, 5), EXACT),
    Row("Embedding", (7, 3), ids(7, 5), EXACT, {"padding_idx": -2}),
    Row("Embedding", (7, 3), ids(7, 5), ROUNDING, {"scale_grad_by_freq": True}),
    Row("Embedding", (300, 3), ids(7, 5, dtype=np.uint8), EXACT, {"padding_idx": 259}, note="uint8"),
    Row("Embedding", (7, 3), ids(7, 5), ROUNDING, {"padding_idx": 0, "norm_type": 1.0, "sparse": False}),
]

NORMS = [
    Row("LayerNorm", (6,), floats(4, 6), SUMS),
    Row("LayerNorm", ((4, 6),), floats(4, 6), SUMS, {"eps": 1e-12}),
    Row("LayerNorm", (6,), floats(4, 6), SUMS, {"elementwise_affine": False}),
    Row("LayerNorm", (6,), floats(4, 6), SUMS, {"bias": False}),
    Row("LayerNorm", (64,), floats(64, mean=1e4), ROUNDED_MEAN, note="mean=1e4"),
    Row("GroupNorm", (2, 6), floats(6, 5), SUMS),
    Row("GroupNorm", (1, 6), floats(6), SUMS, {"affine": False}),
    Row("GroupNorm", (6, 6), floats(6, 4, 3), SUMS, {"bias": False}),
    Row("GroupNorm", (2, 4), floats(4, 32, mean=1e4), ROUNDED_MEAN, note="mean=1e4"),
    # eps=None is the machine epsilon of the dtype, so the oracle runs in float32 here.
    Row("RMSNorm", (6,), floats(4, 6), SUMS, oracle=torch.float32),
    Row("RMSNorm", ((4, 6),), floats(4, 6), SUMS, {"eps": 1e-3}),
    Row("RMSNorm", (6,), floats(4, 6), SUMS, {"eps": 1e-6, "elementwise_affine": False}),
]

BATCH_NORMS = [
    Row("BatchNorm1d", (3,), floats(3), SUMS, modes=BOTH),
    Row("BatchNorm1d", (3,), floats(3, 4), SUMS, {"momentum": None, "eps": 1e-3}, modes=BOTH),
    Row("BatchNorm1d", (3,), floats(3), SUMS, {"affine": False}, modes=BOTH),
    Row("BatchNorm1d", (3,), floats(3), SUMS, {"bias": False}, modes=BOTH),
    Row("BatchNorm1d", (3,), floats(3), SUMS, {"track_running_stats": False}, modes=BOTH),
    Row("BatchNorm1d", (3,), floats(3, 50, mean=1e4), LARGE_MEAN, modes=(True,), note="mean=1e4"),
    Row("BatchNorm2d", (3,), floats(3, 4, 2), SUMS, modes=BOTH),
    Row("BatchNorm3d", (3,), floats(3, 2, 2, 2), SUMS, modes=BOTH),
    Row("SyncBatchNorm", (3,), floats(3, 4), SUMS, modes=BOTH),
]

# In training only p = 0 and p = 1 leave nothing to chance; what lies between is in test_layers.py, mask by mask.
DROPOUTS = [
    Row(kind, (p,), floats(*shape), EXACT, modes=(mode,))
    for kind, shape in [
        ("Dropout", (3,)),
        ("Dropout1d", (3, 2)),
        ("Dropout2d", (3, 2, 2)),
        ("Dropout3d", (3, 2, 2, 2)),
        ("AlphaDropout", (3,)),
        ("FeatureAlphaDropout", (3, 2)),
    ]
    for p, mode in [(0.5, False), (0.0, True), (1.0, True)]
]

CONVOLUTIONS = [
    Row("Conv1d", (4, 6, 3), floats(4, 9), SUMS, {"stride": 2, "padding": 1, "groups": 2}),
    Row("Conv1d", (2, 3, 4), floats(2, 9), SUMS, {"padding": "same", "dilation": 2, "bias": False}),
    Row("Conv1d", (2, 3, 4), floats(2, 9), SUMS, {"padding": "same", "padding_mode": "circular"}),
    Row("Conv2d", (3, 4, 3), floats(3, 6, 5), SUMS, {"padding": 1}),
    Row("Conv2d", (3, 4, (3, 2)), floats(3, 6, 5), SUMS, {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}),
    Row("Conv2d", (4, 4, 3), floats(4, 5, 5), SUMS, {"groups": 4, "padding": "valid", "bias": False}),
    Row("Conv2d", (2, 3, 3), floats(2, 5, 4), SUMS, {"padding": (2, 1), "padding_mode": "reflect"}),
    Row("Conv2d", (2, 3, 3), floats(2, 5, 4), SUMS, {"padding": (2, 1), "padding_mode": "replicate", "stride": 2}),
    Row("Conv3d", (2, 3, 2), floats(2, 3, 4, 4), SUMS, {"stride": (1, 2, 1), "padding": 1}),
    Row("Conv3d", (2, 2, 2), floats(2, 3, 3, 3), SUMS, {"padding": "same", "padding_mode": "replicate"}),
]

POOLS = [
    Row("MaxPool1d", (2,), floats(3, 7), EXACT),
    Row("MaxPool1d", (3,), kinks(2, 8), EXACT, {"stride": 2, "padding": 1, "ceil_mode": True}),
    Row("MaxPool2d", (3,), floats(2, 7, 6), EXACT, {"stride": 2, "padding": 1}),
    Row("MaxPool2d", ((2, 3),), floats(2, 7, 8), EXACT, {"stride": (1, 2), "dilation": (2, 1), "ceil_mode": True}),
    Row("MaxPool3d", (2,), floats(2, 4, 5, 4), EXACT),
    Row("AvgPool1d", (3,), floats(2, 7), ROUNDING, {"stride": 2, "padding": 1, "ceil_mode": True}),
    Row("AvgPool2d", ((2, 3),), floats(2, 6, 7), ROUNDING, {"padding": (1, 0), "count_include_pad": False}),
    Row("AvgPool2d", (2,), floats(2, 6, 6), ROUNDING, {"stride": (1, 2), "divisor_override": 3}),
    Row("AvgPool3d", (2,), floats(2, 4, 4, 5), ROUNDING, {"ceil_mode": True}),
    Row("AdaptiveAvgPool1d", (3,), floats(2, 7), ROUNDING),
    Row("AdaptiveAvgPool2d", ((3, None),), floats(2, 7, 5), ROUNDING),
    Row("AdaptiveAvgPool2d", (1,), floats(2, 5, 5), ROUNDING),
    Row("AdaptiveAvgPool3d", ((2, 1, 3),), floats(2, 5, 3, 4), ROUNDING),
]

ACTIVATIONS = [
    Row("ReLU", (), kinks(25), EXACT),
    Row("ReLU", (), kinks(25), EXACT, {"inplace": False}),
    Row("ReLU6", (), kinks(25), EXACT),
    Row("SiLU", (), kinks(25), ROUNDING),
    Row("GELU", (), kinks(25), ROUNDING),
    Row("GELU", ("tanh",), kinks(25), TANH),
    Row("Tanh", (), kinks(25), TANH),
    Row("Sigmoid", (), kinks(25), ROUNDING),
    Row("Softmax", (-1,), floats(4, 5), ROUNDING),
    Row("Softmax", (1,), kinks(25), ROUNDING),
    Row("LogSoftmax", (1,), floats(4, 5), ROUNDING),
]

LOSSES = [
    Row("CrossEntropyLoss", (), classes(5), SUMS),
    Row("CrossEntropyLoss", (), classes(5, 3, ignored=-100), SUMS, {"weight": HALVES, "label_smoothing": 0.1}),
    Row("CrossEntropyLoss", (), classes(5, ignored=2), SUMS, {"reduction": "none", "ignore_index": 2}),
    Row("CrossEntropyLoss", (), pairs(5, target="unit"), SUMS, {"reduction": "sum", "weight": HALVES}),
    Row("NLLLoss", (), classes(5, 2, ignored=-100), SUMS, {"weight": HALVES}),
    Row("NLLLoss", (), classes(5), SUMS, {"size_average": False}),
    Row("CrossEntropyLoss", (), classes(200, dtype=np.uint8), SUMS, note="uint8"),
    Row("CrossEntropyLoss", (), classes(120, 2, ignored=-100, dtype=np.int8), SUMS, note="int8"),
    Row("NLLLoss", (), classes(200, dtype=np.uint8), SUMS, note="uint8"),
    Row("MSELoss", (), pairs(4), SUMS),
    Row("MSELoss", (), pairs(4), SUMS, {"reduce": False}),
    Row("BCEWithLogitsLoss", (), pairs(5, target="unit"), SUMS),
    Row("BCEWithLogitsLoss", (), pairs(5, target="unit"), SUMS, {"weight": HALVES, "pos_weight": HALVES * 2}),
]

TABLE = [
    *LINEAR,
    *EMBEDDING,
    *NORMS,
    *BATCH_NORMS,
    *DROPOUTS,
    *CONVOLUTIONS,
    *POOLS,
    *ACTIVATIONS,
    *LOSSES,
]
