"""ctc_loss beside torch's: every layout of targets, what does not fit, what is empty."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import PartitionSpec

from funcnet import functional as F
from funcnet import nn

from .oracle import normal

# Of six examples with at most six frames and three labels: all fits; repeats that just fit; repeats that lack a frame;
# no label; no frame and no label; a label and no frame.
SCORES = normal(6, 6, 4)
TARGETS = np.array([[1, 2, 3], [1, 1, 1], [2, 2, 1], [3, 1, 1], [1, 1, 1], [2, 3, 1]], np.int32)
FRAMES, LABELS = np.array([6, 5, 3, 4, 0, 0], np.int32), np.array([3, 3, 3, 0, 0, 1], np.int32)
TOGETHER = np.concatenate([row[:n] for row, n in zip(TARGETS, LABELS, strict=True)])


def torchs(scores, targets, frames, labels, cotangent=None, **options):
    """(losses, the gradient by the log-probabilities) in float64."""
    log_probs = torch.tensor(scores, dtype=torch.float64).log_softmax(-1).requires_grad_()
    lengths = [torch.tensor(np.asarray(n)).long() for n in (frames, labels)]
    losses = T.ctc_loss(log_probs, torch.tensor(np.asarray(targets)).long(), *lengths, **options)
    weights = torch.ones_like(losses) if cotangent is None else torch.tensor(cotangent, dtype=torch.float64)
    return losses.detach().numpy(), torch.autograd.grad(losses, log_probs, weights)[0].numpy()


def ours(scores, targets, frames, labels, cotangent=None, **options):
    def run(scores):
        losses, pull = jax.vjp(lambda p: F.ctc_loss(p, targets, frames, labels, **options), jax.nn.log_softmax(scores))
        return losses, pull(jnp.ones_like(losses) if cotangent is None else jnp.asarray(cotangent, losses.dtype))[0]

    return jax.jit(run)(scores)


CASES = [("none", False), ("none", True), ("mean", True), ("sum", False)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "targets", [pytest.param(TARGETS, marks=pytest.mark.slow), TOGETHER], ids=["padded", "together"]
)
def test_ctc_loss(targets):
    given, cotangent = (jnp.asarray(targets), FRAMES, LABELS), normal(6)
    weights = {"none": cotangent, "mean": 2.0, "sum": 3.0}
    with jax.enable_x64(True):

        @jax.jit
        def every(scores):
            return [ours(scores, *given, weights[r], reduction=r, zero_infinity=z) for r, z in CASES]

        for (reduction, zero_infinity), (losses, gradient) in zip(CASES, every(jnp.asarray(SCORES)), strict=True):
            options = {"reduction": reduction, "zero_infinity": zero_infinity}
            want, slope = torchs(SCORES, targets, FRAMES, LABELS, weights[reduction], **options)
            np.testing.assert_allclose(losses, want, rtol=1e-12)
            np.testing.assert_allclose(gradient, slope, rtol=1e-11, atol=1e-13)


@pytest.mark.slow
def test_lengths_may_be_traced():
    """Targets one after the other too, which then are as wide as they are many."""
    run = jax.jit(lambda t, *lengths: ours(jnp.asarray(SCORES, jnp.float32), t, *lengths, reduction="none"))
    want, slope = torchs(SCORES, TARGETS, FRAMES, LABELS, reduction="none")
    for targets in (TARGETS, TOGETHER):
        losses, gradient = run(targets, FRAMES, LABELS)
        np.testing.assert_allclose(losses, want, rtol=1e-6)
        np.testing.assert_allclose(gradient, slope, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [(6, 2), ((6,), np.array([2]))], ids=str)
def test_without_a_batch(lengths):
    scores, target = SCORES[:, 0], np.array([1, 2])
    want, _ = torchs(scores, target, [6], [2], reduction="none")
    got, _ = ours(jnp.asarray(scores, jnp.float32), target, *lengths, reduction="none")
    assert got.shape == want.shape == () and abs(got / want - 1) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 3])
def test_no_labels_at_all(size):
    want, slope = torchs(SCORES, TARGETS[:, :size], FRAMES, np.zeros(6, int), reduction="none")
    losses, gradient = ours(jnp.asarray(SCORES, jnp.float32), TARGETS[:, :size], FRAMES, (0,) * 6, reduction="none")
    np.testing.assert_allclose(losses, want, rtol=1e-6)
    np.testing.assert_allclose(gradient, slope, atol=1e-6)
    assert F.ctc_loss(jnp.zeros((2, 1, 3)), jnp.zeros(0, int), (2,), (0,)) == 0


@pytest.mark.slow
def test_another_blank_and_padding_that_is_no_class():
    targets = np.where(TARGETS == 3, 0, TARGETS)
    want, slope = torchs(SCORES[:, :2], targets[:2], [6, 5], [2, 3], blank=3)
    targets[0, 2] = -1
    losses, gradient = ours(jnp.asarray(SCORES[:, :2], jnp.float32), targets[:2], (6, 5), (2, 3), blank=3)
    np.testing.assert_allclose(losses, want, rtol=1e-6)
    np.testing.assert_allclose(gradient, slope, atol=1e-6)


@pytest.mark.slow
def test_long_inputs_keep_their_digits():
    """torch's float32 gradient is 6e-5 away here: a logarithm of 200 goes in steps of 1.5e-5."""
    scores, targets = 3 * normal(50, 4, 20), np.random.default_rng(0).integers(1, 20, (4, 30))
    frames, labels = np.full(4, 50), np.full(4, 30)
    want, slope = torchs(scores.astype(np.float32), targets, frames, labels, reduction="none", zero_infinity=True)
    narrow = jnp.asarray(scores, jnp.float32)
    losses, gradient = ours(narrow, targets, frames, labels, reduction="none", zero_infinity=True)
    np.testing.assert_allclose(losses, want, rtol=1e-6)
    np.testing.assert_allclose(gradient, slope, atol=5e-6)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_a_frame_of_nan_is_seen_in_the_whole_example(zero_infinity):
    scores = SCORES.copy()
    scores[2, 0] = np.nan
    options = {"reduction": "none", "zero_infinity": zero_infinity}
    given = (TARGETS, np.where(FRAMES == 6, 5, FRAMES), LABELS)
    want, slope = torchs(scores, *given, **options)
    losses, gradient = ours(jnp.asarray(scores, jnp.float32), *given, **options)
    np.testing.assert_allclose(losses, want, rtol=1e-6)
    np.testing.assert_allclose(gradient[:, 0], slope[:, 0])
    np.testing.assert_allclose(gradient[:, 1], slope[:, 1], atol=1e-6)


def test_classes_that_cannot_be():
    """A log-probability of -inf: torch's gradient there is NaN."""
    log_probs = jnp.log(jnp.array([[[0.5, 0.5, 0.0]], [[0.25, 0.5, 0.25]]]))
    run = lambda p, label: F.ctc_loss(p, jnp.array([[label]]), (2,), (1,), reduction="sum")
    value, slope = jax.jit(jax.value_and_grad(run), static_argnums=1)(log_probs, 1)
    np.testing.assert_allclose(value, -np.log(0.25 + 0.125 + 0.25), rtol=1e-6)
    assert np.isfinite(slope).all() and slope[0, 0, 2] == 0
    np.testing.assert_allclose(jax.jit(run, static_argnums=1)(log_probs, 2), -np.log(0.5 * 0.25), rtol=1e-6)


@pytest.mark.slow
def test_behind_a_softmax_it_is_a_function_like_any_other():
    """Gradient, forward mode and second derivatives against differences, in float64."""
    frames, labels, targets = (4, 3, 2), (2, 1, 0), TARGETS[:3, :2]
    with jax.enable_x64(True):
        x, dx = jnp.asarray(SCORES[:4, :3]), jnp.asarray(normal(4, 3, 4, seed=1))
        loss = lambda x: F.ctc_loss(jax.nn.log_softmax(x), targets, frames, labels)
        slope = jax.grad(loss)

        @jax.jit
        def all_ways(x):
            step = 1e-5
            by_difference = (loss(x + step * dx) - loss(x - step * dx)) / (2 * step)
            second = (slope(x + step * dx) - slope(x - step * dx)) / (2 * step)
            return (
                by_difference,
                jax.jvp(loss, (x,), (dx,))[1],
                (slope(x) * dx).sum(),
                second,
                jax.jvp(slope, (x,), (dx,)),
            )

        by_difference, pushed, pulled, second, (_, curved) = all_ways(x)
        np.testing.assert_allclose([pushed, pulled], by_difference, rtol=1e-8)
        np.testing.assert_allclose(curved, second, atol=1e-9)


@pytest.mark.slow
def test_under_vmap_and_shard_map():
    scores = jax.nn.log_softmax(jnp.asarray(SCORES, jnp.float32))
    run = lambda p, t, f, n: F.ctc_loss(p, t, f, n, reduction="none", zero_infinity=True)
    slope = lambda *a: jax.grad(lambda p: run(p, *a[1:]).sum())(a[0])
    given = (scores, jnp.asarray(TARGETS), jnp.asarray(FRAMES), jnp.asarray(LABELS))
    want = jax.jit(lambda: (run(*given), slope(*given)))()
    one = jax.vmap(lambda p, t, f, n: run(p[:, None], t[None], f[None], n[None])[0], in_axes=(1, 0, 0, 0))
    np.testing.assert_allclose(jax.jit(one)(*given), want[0], rtol=1e-6)
    mesh = jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    second, first = PartitionSpec(None, "data"), PartitionSpec("data")
    cut = {"mesh": mesh, "in_specs": (second, first, first, first), "out_specs": (first, second)}
    losses, gradient = jax.jit(jax.shard_map(lambda *a: (run(*a), slope(*a)), **cut))(*given)
    np.testing.assert_allclose(losses, want[0], rtol=1e-6)
    np.testing.assert_allclose(gradient, want[1], atol=1e-6)


@pytest.mark.slow
def test_half_precision_is_computed_in_float32(half=jnp.bfloat16):
    scores = jax.nn.log_softmax(jnp.asarray(SCORES, jnp.float32)).astype(half)
    given = (TARGETS[:2], FRAMES[:2], LABELS[:2])
    run = jax.jit(lambda p: F.ctc_loss(p[:, :2], *given))
    got, want = run(scores), run(scores.astype(jnp.float32))
    assert got.dtype == half and got == want.astype(half)


@pytest.mark.slow
def test_what_is_wrong_is_seen_under_jit():
    run = jax.jit(lambda t, f, n: F.ctc_loss(jnp.zeros((3, 3, 3)), t, f, n, reduction="none"))
    targets, frames, labels = np.ones((3, 2), np.int32), np.array([3, 3, 3]), np.array([1, 1, 1])
    assert not np.isnan(run(targets, frames, labels)).any()
    targets[0, 0] = 3
    assert np.isnan(run(targets, [3, 4, -1], labels)).all()
    assert np.isnan(run(targets, frames, [0, 3, -1])).tolist() == [False, True, True]
    assert np.isnan(run(np.ones(4, np.int32), frames, labels)).all()


@pytest.mark.slow
def test_the_module():
    ours, theirs = nn.CTCLoss(blank=3, zero_infinity=True), torch.nn.CTCLoss(blank=3, zero_infinity=True)
    assert repr(ours) == repr(theirs) and ours.state_dict({}, {}) == {}
    targets = np.where(TARGETS == 3, 0, TARGETS)
    want = theirs(
        *(
            torch.tensor(a).log_softmax(-1) if a.dtype == float else torch.tensor(a)
            for a in (SCORES, targets, FRAMES, LABELS)
        )
    )
    scores = jax.nn.log_softmax(jnp.asarray(SCORES, jnp.float32))
    got, _ = jax.jit(lambda p: ours.apply({}, {}, p, targets, FRAMES, LABELS))(scores)
    np.testing.assert_allclose(got, want, rtol=1e-6)


lists = st.lists(st.lists(st.integers(1, 2), min_size=3, max_size=3), min_size=2, max_size=2)
both_lengths = st.tuples(*[st.tuples(st.integers(0, most), st.integers(0, most)) for most in (5, 3)])


@jax.jit
def padded(scores, targets, frames, labels):
    return ours(scores, targets, frames, labels, reduction="none")


@pytest.mark.slow
@given(lists, both_lengths, st.integers(0, 5))
def test_hypothesis_ctc_loss(targets, lengths, seed):
    scores = normal(5, 2, 3, seed=seed)
    want, slope = torchs(scores, targets, *lengths, reduction="none")
    losses, gradient = padded(jnp.asarray(scores, jnp.float32), np.array(targets), *map(np.array, lengths))
    np.testing.assert_allclose(losses, want, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(gradient, slope, atol=2e-6)


P, ONE = jnp.zeros((3, 2, 4)), jnp.ones((2, 1), int)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.ctc_loss(P[0, 0], ONE, (3, 3), (1, 1)), ValueError, r"log_probs has the wrong shape; .* got \(4,\)"),
        (
            lambda: F.ctc_loss(P[:0], ONE, (0, 0), (1, 1)),
            ValueError,
            "log_probs has the wrong shape; .* without empty dimensions",
        ),
        (
            lambda: F.ctc_loss(P, ONE, (3, 3), (1, 1), blank=4),
            ValueError,
            "blank is out of range; expected 0 to 3, got 4",
        ),
        (lambda: F.ctc_loss(P, ONE, (3,), (1, 1)), ValueError, r"input_lengths has the wrong shape; expected \(2,\)"),
        (lambda: F.ctc_loss(P, ONE, (3, 3), (1,)), ValueError, r"target_lengths has the wrong shape; expected \(2,\)"),
        (
            lambda: F.ctc_loss(P, ONE, (3, 4), (1, 1)),
            ValueError,
            "input_lengths is out of range; expected lengths from 0 to 3, got lengths from 3 to",
        ),
        (
            lambda: F.ctc_loss(P, ONE, (3, -1), (1, 1)),
            ValueError,
            "input_lengths is out of range; .* got lengths from -1 to 3",
        ),
        (
            lambda: F.ctc_loss(P, ONE, (3, 3), (1, 2)),
            ValueError,
            "target_lengths is out of range; expected lengths from 0 to 1, got lengths from 1",
        ),
        (
            lambda: F.ctc_loss(P, ONE[:1], (3, 3), (1, 1)),
            ValueError,
            r"targets has the wrong shape; expected \(2, length",
        ),
        (lambda: F.ctc_loss(P, ONE[0], (3, 3), (1, 1)), ValueError, "targets has the wrong size; expected 2, .* got 1"),
        (
            lambda: F.ctc_loss(P, ONE * 4, (3, 3), (1, 1)),
            ValueError,
            "targets is out of range; expected values from 0 to 3, got values from 4",
        ),
        (lambda: F.ctc_loss(P, P[0], (3, 3), (1, 1)), TypeError, "F.ctc_loss: targets must hold integers"),
        (lambda: F.ctc_loss(P, ONE, (3.0, 3.0), (1, 1)), TypeError, "F.ctc_loss: input_lengths must hold integers"),
        (lambda: F.ctc_loss(ONE, ONE, (3, 3), (1, 1)), TypeError, "F.ctc_loss: log_probs must hold floating-point"),
        (lambda: F.ctc_loss(P, ONE, (3, 3), (1, 1), reduction="avg"), ValueError, "F.ctc_loss: reduction is unknown"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()
