"""Losses of scores against classes, beside torch's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T

from funcnet import functional as F

from .oracle import agrees, agrees_reduced, integers, normal

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


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cross_entropy_of_ids(shape, smoothing):
    x, ids, weight = normal(*shape), class_ids(shape), np.abs(normal(classes(shape))).astype(np.float32)
    ours, theirs = (
        lambda x, t, lib=lib, **kw: lib.cross_entropy(x, t, label_smoothing=smoothing, **kw) for lib in (F, T)
    )
    agrees_reduced(ours, theirs, x, ids)
    agrees_reduced(
        lambda x, t, **kw: ours(x, t, weight=jnp.asarray(weight, x.dtype), **kw),
        lambda x, t, **kw: theirs(x, t, weight=torch.tensor(weight, dtype=x.dtype), **kw),
        x,
        ids,
        dtypes=(np.float32,),
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_probabilities(smoothing):
    x, shares, weight = normal(3, 4, 5), np.abs(normal(3, 4, 5)), np.abs(normal(4))
    ours, theirs = (
        lambda x, t, lib=lib, **kw: lib.cross_entropy(x, t, label_smoothing=smoothing, **kw) for lib in (F, T)
    )
    agrees_reduced(
        lambda x, t, **kw: ours(x, t, weight=jnp.asarray(weight, x.dtype), **kw),
        lambda x, t, **kw: theirs(x, t, weight=torch.tensor(weight), **kw),
        x,
        shares,
        dtypes=(np.float64,),
    )
    agrees_reduced(ours, theirs, x, shares, dtypes=(np.float32,))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nll_loss(shape):
    weight = np.abs(normal(classes(shape)))
    agrees_reduced(
        lambda x, t, **kw: F.nll_loss(x, t, jnp.asarray(weight, x.dtype), **kw),
        lambda x, t, **kw: T.nll_loss(x, t, torch.tensor(weight, dtype=x.dtype), **kw),
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
@pytest.mark.parametrize(
    "dtype",
    [np.int8, np.uint8, *(pytest.param(d, marks=pytest.mark.slow) for d in (np.int16, np.uint16, np.uint32))],
)
def test_narrow_labels(name, dtype):
    """-100 is 156 in uint8, and 300 classes are more than int8 or uint8 can count."""
    x, ids = normal(6, 300), np.array([0, 1, 44, 100, 127, 127 if dtype == np.int8 else 156], dtype)
    both = lambda lib: lambda x, t: getattr(lib, name)(x, t) + 2 * getattr(lib, name)(x, t, ignore_index=127)
    agrees(both(F), both(T), x, ids, dtypes=(np.float32,))


def test_ignored_narrow_labels():
    ids = np.array([3, -100], np.int8)
    agrees(F.cross_entropy, T.cross_entropy, normal(2, 200), ids)


@pytest.mark.parametrize("shape", [(0, 3), (2, 3)])
def test_nothing_that_counts_is_nan(shape):
    ids = jnp.full(shape[0], -100)
    assert np.isnan(F.cross_entropy(jnp.zeros(shape), ids))
    assert F.cross_entropy(jnp.zeros(shape), ids, reduction="sum") == 0


def test_binary_cross_entropy_with_logits():
    x, t = 3 * normal(4, 3), integers(0, 2, 4, 3).astype(float)
    x[0] = [0.0, 200.0, -200.0]
    agrees_reduced(F.binary_cross_entropy_with_logits, T.binary_cross_entropy_with_logits, x, t)
    weight, positive = np.abs(normal(4, 1)), np.abs(normal(3))
    agrees_reduced(
        lambda x, t, **kw: F.binary_cross_entropy_with_logits(
            x, t, *_arrays(x, weight), pos_weight=_arrays(x, positive)[0], **kw
        ),
        lambda x, t, **kw: T.binary_cross_entropy_with_logits(
            x, t, torch.tensor(weight), pos_weight=torch.tensor(positive), **kw
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
    assert F.binary_cross_entropy_with_logits(x, x).dtype == jnp.bfloat16


def test_an_id_out_of_range_is_seen():
    x, ids = jnp.zeros((2, 3)), jnp.array([0, 3])
    with pytest.raises(
        ValueError,
        match=r"F.cross_entropy: target is out of range; expected values from 0 to 2, got values from 0 to 3",
    ):
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
        (lambda: F.cross_entropy(X, IDS, label_smoothing=2.0), ValueError, "label_smoothing is out of range"),
        (lambda: F.cross_entropy(jnp.zeros(()), IDS), ValueError, "F.cross_entropy: input has no class dimension"),
        (lambda: F.cross_entropy(X.astype(int), IDS), TypeError, "F.cross_entropy: input must hold floating-point"),
        (lambda: F.cross_entropy(X, IDS > 0), TypeError, "F.cross_entropy: target must hold integers"),
        (lambda: F.nll_loss(X, X), TypeError, "F.nll_loss: target must hold integers"),
        (lambda: F.binary_cross_entropy_with_logits(X, X[0]), ValueError, "target has the wrong shape"),
        (
            lambda: F.binary_cross_entropy_with_logits(X, X, pos_weight=jnp.ones((4, 2, 3))),
            ValueError,
            r"pos_weight does not fit; expected a shape that broadcasts to \(2, 3\), got \(4, 2, 3\)",
        ),
        (lambda: F.binary_cross_entropy(X, X[0]), ValueError, "F.binary_cross_entropy: target has the wrong shape"),
        (lambda: F.binary_cross_entropy(X, X, X[:, :2]), ValueError, "F.binary_cross_entropy: weight does not fit"),
        (
            lambda: F.binary_cross_entropy(X + 1.5, X),
            ValueError,
            "input does not hold probabilities; .* got values from 1.5 to 1.5",
        ),
        (lambda: F.binary_cross_entropy(X + jnp.nan, X), ValueError, "input does not hold probabilities"),
        (
            lambda: F.binary_cross_entropy(X, X - 1),
            ValueError,
            "target does not hold probabilities; expected values between 0 and 1",
        ),
        (lambda: F.binary_cross_entropy(X, IDS), TypeError, "F.binary_cross_entropy: target must hold floating-point"),
        (lambda: F.cross_entropy(X, X, ignore_index=1), ValueError, "ignore_index has no meaning for probabilities"),
        (
            lambda: F.cross_entropy(X, IDS, jnp.ones(3, jnp.float16)),
            TypeError,
            "the dtypes differ; expected one dtype, got input float32, weight float16",
        ),
        (lambda: F.nll_loss(X, IDS, jnp.ones(3, int)), TypeError, "F.nll_loss: the dtypes differ"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_large_logits_keep_their_differences():
    """float32 near 1e4 goes in steps of 1e-3: what is left of a difference must not be one of them."""
    x = 1e4 + np.arange(12, dtype=np.float32).reshape(3, 4) / 8
    losses = F.cross_entropy(x, jnp.array([0, 3, 1]), reduction="none")
    want = T.cross_entropy(torch.tensor(x, dtype=torch.float64), torch.tensor([0, 3, 1]), reduction="none")
    np.testing.assert_allclose(losses, want, rtol=1e-6)


def test_an_infinite_logit_makes_nan_and_an_impossible_class_does_not():
    x = np.array([[np.inf, 0, 1], [-np.inf, 0, 1], [-np.inf] * 3], np.float32)
    for ids in ([1, 1, 1], [0, 0, 0]):
        got = F.cross_entropy(x, jnp.array(ids), reduction="none")
        np.testing.assert_allclose(got, T.cross_entropy(torch.tensor(x), torch.tensor(ids), reduction="none"))


def test_weights_may_be_as_wide_as_the_sum():
    x, ids, weight = normal(3, 4).astype(np.float32), jnp.array([0, 1, 3]), np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    got = F.cross_entropy(jnp.asarray(x, jnp.bfloat16), ids, weight, reduction="sum")
    rounded = torch.tensor(x).bfloat16().double()
    want = T.cross_entropy(rounded, torch.tensor([0, 1, 3]), torch.tensor(weight).double(), reduction="sum")
    assert got.dtype == jnp.bfloat16 and abs(float(got) / want.item() - 1) < 2**-8


def test_binary_cross_entropy():
    """Also at 0 and 1, where the logarithm is clamped at -100 and the slope at 1e12."""
    x = np.array([[0.0, 1.0, 0.5, 1e-30], [1e-3, 0.25, 0.75, 1.0]])
    t = np.array([[0.0, 0.5, 0.25, 1.0], [1.0, 0.0, 0.5, 0.0]])
    weight = np.array([0.5, 2.0, 1.0, 3.0])
    agrees_reduced(
        lambda x, **kw: F.binary_cross_entropy(x, jnp.asarray(t, x.dtype), *_arrays(x, weight), **kw),
        lambda x, **kw: T.binary_cross_entropy(x, torch.tensor(t), torch.tensor(weight), **kw),
        x,
    )
    agrees_reduced(F.binary_cross_entropy, T.binary_cross_entropy, x[1:, :3], t[1:, :3])


def test_binary_cross_entropy_under_jit():
    """What is no probability is seen, and one without a tangent leaves no NaN: its slope is infinite at 0."""
    run = jax.jit(lambda x, t: F.binary_cross_entropy(x, t, reduction="none"))
    wrong = run(jnp.array([1.5, -0.5, 0.5, 0.5]), jnp.array([1.0, 1.0, 1.5, -0.5]))
    assert np.isnan(wrong).all()
    t = jnp.array([0.0, 1.0])
    _, tangent = jax.jvp(lambda x: run(x, t), (jnp.array([0.0, 1.0]),), (jnp.ones(2),))
    assert tangent.tolist() == [0, 0]
