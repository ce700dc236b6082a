"""Losses against torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T

from funcnet import functional as F
from funcnet import nn

from .oracle import agrees, integers, normal

SHAPES = [(6, 4), (3, 4, 5), (2, 4, 3, 2), (4,)]
REDUCTIONS = ["mean", "sum", "none"]


def class_ids(shape):
    spatial = shape[:1] + shape[2:] if len(shape) > 1 else ()
    ids = integers(0, shape[1] if len(shape) > 1 else shape[0], *spatial)
    if ids.size > 2:
        ids.flat[1] = -100
    return np.asarray(ids)


def classes(shape):
    return shape[0] if len(shape) == 1 else shape[1]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cross_entropy_of_ids(shape, smoothing, reduction):
    options = {"reduction": reduction, "label_smoothing": smoothing}
    x, ids, weight = normal(*shape), class_ids(shape), np.abs(normal(classes(shape))).astype(np.float32)
    ours, theirs = (lambda x, t, lib=lib: lib.cross_entropy(x, t, **options) for lib in (F, T))
    agrees(ours, theirs, x, ids)
    agrees(
        lambda x, t: F.cross_entropy(x, t, jnp.asarray(weight, x.dtype), **options),
        lambda x, t: T.cross_entropy(x, t, torch.tensor(weight, dtype=x.dtype), **options),
        x,
        ids,
        dtypes=(np.float32,),
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_probabilities(smoothing, reduction):
    options = {"reduction": reduction, "label_smoothing": smoothing}
    shares = np.abs(normal(3, 4, 5))
    weight = np.abs(normal(4))
    agrees(
        lambda x, t: F.cross_entropy(x, t, jnp.asarray(weight, x.dtype), **options),
        lambda x, t: T.cross_entropy(x, t, torch.tensor(weight), **options),
        normal(3, 4, 5),
        shares,
        dtypes=(np.float64,),
    )
    agrees(
        lambda x, t: F.cross_entropy(x, t, **options),
        lambda x, t: T.cross_entropy(x, t, **options),
        normal(3, 4, 5),
        shares,
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nll_loss(shape, reduction):
    weight = np.abs(normal(classes(shape)))
    agrees(
        lambda x, t: F.nll_loss(x, t, jnp.asarray(weight, x.dtype), reduction=reduction),
        lambda x, t: T.nll_loss(x, t, torch.tensor(weight, dtype=x.dtype), reduction=reduction),
        normal(*shape),
        class_ids(shape),
        dtypes=(np.float64,),
    )


def test_another_ignore_index_and_large_logits():
    x = np.array([[1e4, -1e4, 0.0], [3.0, 1.0, 2.0]])
    agrees(
        lambda x, t: F.cross_entropy(x, t, ignore_index=2),
        lambda x, t: T.cross_entropy(x, t, ignore_index=2),
        x,
        np.array([1, 2], np.int32),
    )


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.uint32], ids=lambda d: d.__name__)
def test_narrow_labels(name, dtype):
    """-100 is 156 in uint8, and 300 classes are more than int8 or uint8 can count."""
    x, ids = normal(6, 300), np.array([0, 1, 44, 100, 127, 127 if dtype == np.int8 else 156], dtype)
    agrees(getattr(F, name), getattr(T, name), x, ids)
    skipped = {"ignore_index": 127}
    agrees(*(lambda x, t, lib=lib: getattr(lib, name)(x, t, **skipped) for lib in (F, T)), x, ids)


def test_ignored_narrow_labels():
    ids = np.array([3, -100], np.int8)
    agrees(F.cross_entropy, T.cross_entropy, normal(2, 200), ids)


# torch's table of the old names: reduce=False is 'none', whatever size_average says.
OLD = [(a, r) for a in (None, True, False) for r in (None, True, False) if (a, r) != (None, None)]


@pytest.mark.filterwarnings("ignore:size_average and reduce args")
@pytest.mark.parametrize(("size_average", "reduce"), OLD)
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss", "mse_loss", "binary_cross_entropy_with_logits"])
def test_the_old_names_of_reduction(name, size_average, reduce):
    function, labels = getattr(F, name), name in ("cross_entropy", "nll_loss")
    x, t, weight = normal(4, 3), integers(0, 3, 4) if labels else normal(4, 3, seed=1), np.abs(normal(3))
    order = {
        "cross_entropy": (weight, size_average, 1, reduce, "sum"),
        "nll_loss": (weight, size_average, 1, reduce, "sum"),
        "mse_loss": (size_average, reduce, "sum"),
        "binary_cross_entropy_with_logits": (weight, size_average, reduce, "sum", weight),
    }[name]
    tensors = [torch.tensor(a) if isinstance(a, np.ndarray) else a for a in order]
    want = getattr(T, name)(torch.tensor(x), torch.tensor(t).long() if labels else torch.tensor(t), *tensors)
    arrays = [jnp.asarray(a, jnp.float32) if isinstance(a, np.ndarray) else a for a in order]
    with pytest.warns(DeprecationWarning, match=f"F.{name}: size_average and reduce are torch's old names") as caught:
        got = function(jnp.asarray(x, jnp.float32), jnp.asarray(t) if labels else jnp.asarray(t, jnp.float32), *arrays)
    assert caught[0].filename == __file__
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("kind", ["CrossEntropyLoss", "NLLLoss", "MSELoss", "BCEWithLogitsLoss"])
def test_layers_warn_of_the_old_names_too(kind):
    with pytest.warns(DeprecationWarning, match=f"{kind}: .* reduction='sum'") as caught:
        layer = getattr(nn, kind)(size_average=False)
    assert layer.reduction == "sum" and caught[0].filename == __file__


@pytest.mark.parametrize("shape", [(0, 3), (2, 3)])
def test_nothing_that_counts_is_nan(shape):
    ids = jnp.full(shape[0], -100)
    assert np.isnan(F.cross_entropy(jnp.zeros(shape), ids))
    assert F.cross_entropy(jnp.zeros(shape), ids, reduction="sum") == 0
    assert np.isnan(F.mse_loss(jnp.zeros(0), jnp.zeros(0)))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_mse_loss(reduction):
    x, t, w = normal(4, 3), normal(4, 3, seed=1), np.abs(normal(4, 3, seed=2))
    ours, theirs = (lambda x, t, lib=lib: lib.mse_loss(x, t, reduction=reduction) for lib in (F, T))
    agrees(ours, theirs, x, t)
    ours, theirs = (lambda x, t, w, lib=lib: lib.mse_loss(x, t, reduction=reduction, weight=w) for lib in (F, T))
    agrees(ours, theirs, x, t, w)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy_with_logits(reduction):
    x, t = 3 * normal(4, 3), integers(0, 2, 4, 3).astype(float)
    x[0] = [0.0, 200.0, -200.0]
    name = "binary_cross_entropy_with_logits"
    ours, theirs = (lambda x, t, lib=lib: getattr(lib, name)(x, t, reduction=reduction) for lib in (F, T))
    agrees(ours, theirs, x, t)
    weight, positive = np.abs(normal(4, 1)), np.abs(normal(3))
    agrees(
        lambda x, t: F.binary_cross_entropy_with_logits(
            x, t, *_arrays(x, weight), reduction=reduction, pos_weight=_arrays(x, positive)[0]
        ),
        lambda x, t: T.binary_cross_entropy_with_logits(
            x, t, torch.tensor(weight), reduction=reduction, pos_weight=torch.tensor(positive)
        ),
        x,
        t,
        dtypes=(np.float64,),
    )


def _arrays(like, *constants):
    return [jnp.asarray(c, like.dtype) for c in constants]


def test_bfloat16_sums_in_float32():
    x, ids = jnp.zeros((5000, 4), jnp.bfloat16), jnp.zeros(5000, int)
    loss = F.cross_entropy(x, ids, reduction="sum")
    assert loss.dtype == jnp.bfloat16 and abs(float(loss) / (5000 * np.log(4)) - 1) < 2**-8
    assert F.mse_loss(x, x).dtype == F.binary_cross_entropy_with_logits(x, x).dtype == jnp.bfloat16


def test_an_id_out_of_range_is_seen():
    x, ids = jnp.zeros((2, 3)), jnp.array([0, 3])
    with pytest.raises(ValueError, match=r"F.cross_entropy: target is out of range; expected 0 to 2, got 0 to 3"):
        F.cross_entropy(x, ids)
    assert np.isnan(jax.jit(F.cross_entropy)(x, ids))


X, IDS = jnp.zeros((2, 3)), jnp.zeros(2, int)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.cross_entropy(X, IDS, reduction="avg"), ValueError, "reduction is unknown; expected 'none', 'mean'"),
        (
            lambda: F.cross_entropy(X, IDS[:1]),
            ValueError,
            r"F.cross_entropy: target has the wrong shape; expected \(2,\)",
        ),
        (
            lambda: F.cross_entropy(X, X[:1]),
            ValueError,
            r"F.cross_entropy: target has the wrong shape; expected \(2, 3\)",
        ),
        (lambda: F.cross_entropy(X, IDS, jnp.ones(2)), ValueError, "F.cross_entropy: weight has the wrong shape"),
        (lambda: F.cross_entropy(X, IDS, label_smoothing=2.0), ValueError, "label_smoothing is no share"),
        (lambda: F.cross_entropy(jnp.zeros(()), IDS), ValueError, "F.cross_entropy: input has no classes"),
        (lambda: F.cross_entropy(X.astype(int), IDS), TypeError, "F.cross_entropy: input must hold floating-point"),
        (lambda: F.cross_entropy(X, IDS > 0), TypeError, "F.cross_entropy: target must hold integers"),
        (lambda: F.nll_loss(X, X), TypeError, "F.nll_loss: target must hold integers"),
        (lambda: F.mse_loss(X, X[:, :2]), ValueError, r"F.mse_loss: target does not fit input; expected \(2, 3\)"),
        (lambda: F.mse_loss(X, X.astype(jnp.bfloat16)), TypeError, "F.mse_loss: the dtypes differ"),
        (lambda: F.mse_loss(X, X, weight=X[0]), ValueError, "F.mse_loss: weight has the wrong shape"),
        (lambda: F.binary_cross_entropy_with_logits(X, X[0]), ValueError, "target has the wrong shape"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_mse_loss_warns_when_it_broadcasts():
    with pytest.warns(UserWarning, match=r"F.mse_loss: target has shape"):
        assert F.mse_loss(jnp.ones((2, 1)), jnp.zeros(2)) == 1
