"""Rows of `loss` and `adaptive`: see row.py."""

from collections.abc import Callable

import numpy as np

from tests.layers.row import HALVES, SUMS, Row, both, classes, floats, ids, pairs


def units(*shape: int, count: int = 1) -> Callable[[int], list[np.ndarray]]:
    """`count` arrays of probabilities; none so near 0 or 1 that torch's own 1e-12 shows in second derivatives."""

    def make(batch: int) -> list[np.ndarray]:
        random = np.random.default_rng(batch)
        return [random.uniform(0.05, 0.95, (batch, *shape)).astype(np.float32) for _ in range(count)]

    return make


def signs(*shape: int) -> Callable[[int], list[np.ndarray]]:
    """1 and -1 in turn, integers of shape (batch, *shape)."""
    return lambda batch: [(1 - 2 * (np.arange(batch * int(np.prod(shape, dtype=int))) % 2)).reshape(batch, *shape)]


def many(*shape: int, count: int) -> Callable[[int], list[np.ndarray]]:
    """`count` different arrays of N(0, 1)."""

    def make(batch: int) -> list[np.ndarray]:
        random = np.random.default_rng(batch)
        return [random.normal(size=(batch, *shape)).astype(np.float32) for _ in range(count)]

    return make


def label_lists(batch: int) -> list[np.ndarray]:
    """Scores of 5 classes, and lists of ids that -1 ends: none, some, one twice, all."""
    lists = np.array([[-1, 1, 2, 3, 4], [3, 0, -1, 1, 1], [2, 2, 1, -1, 0], [4, 3, 2, 1, 0]], np.int32)
    return [*floats(5)(batch), np.resize(lists, (batch, 5))]


def speech(batch: int) -> list[np.ndarray]:
    """Log-probabilities of 6 frames and 4 classes, and up to 2 labels each: all fit, some are none."""
    scores = np.random.default_rng(batch).normal(size=(6, batch, 4))
    log_probs = scores - np.log(np.exp(scores).sum(2, keepdims=True))
    which = np.arange(batch, dtype=np.int32)
    targets = np.stack([1 + which % 3, 1 + which // 2 % 3], 1)
    return [log_probs.astype(np.float32), targets, 6 - which % 3, which % 3]


KL = {"reduction": "batchmean"}
CTC = {"batch_axis": (1, 0, 0, 0)}

ROWS = [
    Row("CrossEntropyLoss", (), classes(5), SUMS),
    Row("CrossEntropyLoss", (), classes(5, 3, ignored=-100), SUMS, {"weight": HALVES, "label_smoothing": 0.1}),
    Row("CrossEntropyLoss", (), classes(5, ignored=2), SUMS, {"reduction": "none", "ignore_index": 2}),
    Row("CrossEntropyLoss", (), pairs(5, target="unit"), SUMS, {"reduction": "sum", "weight": HALVES}),
    Row("NLLLoss", (), classes(5, 2, ignored=-100), SUMS, {"weight": HALVES}),
    Row("NLLLoss", (), classes(5), SUMS, {"size_average": False}),
    Row("CrossEntropyLoss", (), classes(200, dtype=np.uint8), SUMS, note="uint8"),
    Row("CrossEntropyLoss", (), classes(120, 2, ignored=-100, dtype=np.int8), SUMS, note="int8"),
    Row("NLLLoss", (), classes(200, dtype=np.uint8), SUMS, note="uint8"),
    Row("BCEWithLogitsLoss", (), pairs(5, target="unit"), SUMS),
    Row("BCEWithLogitsLoss", (), pairs(5, target="unit"), SUMS, {"weight": HALVES, "pos_weight": HALVES * 2}),
    Row("BCELoss", (), units(5, count=2), SUMS),
    Row("BCELoss", (), units(5, count=2), SUMS, {"weight": HALVES, "reduction": "none"}),
    Row("LinearCrossEntropyLoss", (4, 5), both(floats(4), ids(5)), SUMS, {"bias": True}),
    Row("LinearCrossEntropyLoss", (4, 5), both(floats(4), ids(5, 2)), SUMS, {"out_features": (2,), "weight": HALVES}),
    Row("CTCLoss", (), speech, SUMS, **CTC),
    Row("CTCLoss", (0, "none", True), speech, SUMS, **CTC),
    Row("MSELoss", (), pairs(4), SUMS),
    Row("MSELoss", (), pairs(4), SUMS, {"reduce": False}),
    Row("L1Loss", (), pairs(4), SUMS),
    Row("SmoothL1Loss", (), pairs(4), SUMS, {"beta": 0.5}),
    Row("SmoothL1Loss", (), pairs(4), SUMS, {"beta": 0.0, "reduction": "sum"}),
    Row("HuberLoss", (), pairs(4), SUMS, {"delta": 0.5}),
    Row("HuberLoss", (), pairs(4), SUMS, {"reduction": "none", "delta": 2}),
    Row("KLDivLoss", (), pairs(4, target="unit"), SUMS, KL),
    Row("KLDivLoss", (), pairs(4), SUMS, {"reduction": "none", "log_target": True}),
    Row("PoissonNLLLoss", (), both(floats(4), ids(6, 4)), SUMS, {"full": True}),
    Row("PoissonNLLLoss", (), units(4, count=2), SUMS, {"log_input": False, "eps": 1e-3, "reduction": "sum"}),
    Row("GaussianNLLLoss", (), both(many(4, count=2), units(4)), SUMS, {"full": True, "eps": 0.1}),
    Row("GaussianNLLLoss", (), both(many(4, count=2), units(1)), SUMS, {"reduction": "none", "eps": 0.1}),
    Row("HingeEmbeddingLoss", (), both(floats(4), signs(4)), SUMS, {"margin": 0.5}),
    Row("MarginRankingLoss", (), both(many(4, count=2), signs(4)), SUMS, {"margin": 0.5}),
    Row("SoftMarginLoss", (), both(floats(4), signs(4)), SUMS),
    Row("MultiLabelSoftMarginLoss", (), pairs(5, target="unit"), SUMS, {"weight": HALVES}),
    # Of an empty batch's mean torch leaves the memory as it is.
    Row("MultiMarginLoss", (), classes(5), SUMS, {"reduction": "none"}),
    Row("MultiMarginLoss", (2, 0.5), classes(5), SUMS, {"weight": HALVES, "reduction": "none"}),
    Row("MultiLabelMarginLoss", (), label_lists, SUMS, {"reduction": "none"}),
    Row("CosineEmbeddingLoss", (0.25,), both(many(4, count=2), signs()), SUMS),
    Row("TripletMarginLoss", (), many(4, count=3), SUMS, {"swap": True}),
    Row("TripletMarginLoss", (0.5, 3.0), many(2, 4, count=3), SUMS, {"reduction": "none", "eps": 1e-3}),
    Row("TripletMarginWithDistanceLoss", (), many(4, count=3), SUMS, {"margin": 2.0}),
    Row("AdaptiveLogSoftmaxWithLoss", (8, 12), both(floats(8), ids(12)), SUMS, {"cutoffs": [4, 7], "div_value": 2.0}),
    Row("AdaptiveLogSoftmaxWithLoss", (8, 12), both(floats(8), ids(12)), SUMS, {"cutoffs": [3], "head_bias": True}),
]
