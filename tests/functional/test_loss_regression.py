"""Losses of numbers against numbers, beside torch's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from hypothesis import given
from hypothesis import strategies as st

from funcnet import functional as F

from .oracle import agrees, agrees_reduced, as_near_as_torch, integers, normal

X, Y, W = normal(4, 3), normal(4, 3, seed=1), np.abs(normal(4, 3, seed=2))
# Differences of 0, ±½, ±1, ±2: every corner of the bowls below.
CORNERS, ZEROS = np.array([0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0]), np.zeros(7)


def named(name, **options):
    return [lambda *a, lib=lib, **kw: getattr(lib, name)(*a, **options, **kw) for lib in (F, T)]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("l1_loss", {}),
        ("mse_loss", {}),
        ("smooth_l1_loss", {"beta": 0.5}),
        ("smooth_l1_loss", {"beta": 0}),
        ("huber_loss", {"delta": 0.5}),
        ("huber_loss", {"delta": 2}),
    ],
    ids=str,
)
def test_corners(name, options):
    agrees_reduced(*named(name, **options), CORNERS, ZEROS)


@pytest.mark.parametrize("name", ["l1_loss", "mse_loss", "huber_loss"])
def test_weights(name):
    """The means of the first two are over the sum of the weights, huber_loss's over the number of terms."""
    ours, theirs = named(name)
    agrees_reduced(
        lambda x, t, w, **kw: ours(x, t, weight=w, **kw), lambda x, t, w, **kw: theirs(x, t, weight=w, **kw), X, Y, W
    )


@pytest.mark.parametrize("name", ["l1_loss", "mse_loss", "huber_loss", "smooth_l1_loss"])
def test_broadcasting_warns(name):
    with pytest.warns(UserWarning, match=rf"F.{name}: target has shape \(2,\), but input has shape \(2, 1\)") as caught:
        got = getattr(F, name)(jnp.ones((2, 1)), jnp.zeros(2), reduction="none")
    assert caught[0].filename == __file__ and got.shape == (2, 2)


@pytest.mark.parametrize("name", ["l1_loss", "huber_loss", "smooth_l1_loss"])
def test_infinite_differences_have_a_slope(name):
    run = lambda x: getattr(F, name)(x, jnp.zeros(2), reduction="sum")
    slope = jax.grad(run)(jnp.array([jnp.inf, -jnp.inf]))
    assert slope.tolist() == [1, -1]


@pytest.mark.filterwarnings("ignore:F.kl_div", "ignore:reduction:")
def test_kl_div():
    target = np.abs(Y)
    target[0, 0] = 0
    agrees_reduced(
        lambda x, **kw: F.kl_div(x, jnp.asarray(target, x.dtype), **kw),
        lambda x, **kw: T.kl_div(x, torch.tensor(target), **kw),
        X,
    )
    both = lambda lib: lambda x, t: lib.kl_div(x, t, reduction="batchmean") + lib.kl_div(x[0, 0], t[0], reduction="sum")
    agrees(both(F), both(T), X, W, dtypes=(np.float32,))
    agrees_reduced(*named("kl_div", log_target=True), X, Y)
    assert F.kl_div(jnp.float32(1.0), jnp.float32(2.0), reduction="batchmean") == 2 * np.log(np.float32(2)) - 2


def test_kl_div_says_that_its_mean_is_no_divergence():
    with pytest.warns(UserWarning, match="F.kl_div: reduction='mean' divides by the number of elements") as caught:
        F.kl_div(X, X)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("log_input", [False, True])
def test_poisson_nll_loss(log_input, full):
    counts = integers(0, 5, 4, 3)
    counts[0] = [0, 1, 2]
    options = {"log_input": log_input, "full": full, "eps": 1e-3}
    agrees_reduced(
        lambda x, t, **kw: F.poisson_nll_loss(x, t, **options, **kw),
        lambda x, t, **kw: T.poisson_nll_loss(
            x, t.double(), **options, **kw
        ),  # of integers it takes float32 logarithms
        W,
        counts,
    )
    agrees(
        *named("poisson_nll_loss", log_input=log_input, full=full, reduction="none"),
        W,
        W[:1] + 0.5,
        dtypes=(np.float32,),
    )


def test_poisson_nll_loss_of_no_events_has_a_gradient():
    run = lambda t: F.poisson_nll_loss(jnp.zeros(3), t, full=True, reduction="sum")
    assert jax.grad(run)(jnp.array([0.0, 0.5, 1.0])).tolist() == [0, 0, 0]


@pytest.mark.parametrize("shape", [(4, 3), (4, 1), (1, 3), (4,)], ids=str)
def test_gaussian_nll_loss(shape):
    """Variances below eps too: the value is clamped, the gradient not."""
    var = np.abs(normal(*shape))
    var.flat[0], var.flat[1] = 1e-9, 0.0
    agrees_reduced(*named("gaussian_nll_loss", full=True), X, Y, var)


@pytest.mark.parametrize(("name", "option"), [("huber_loss", "delta"), ("smooth_l1_loss", "beta")])
def test_a_bowl_without_an_edge(name, option):
    agrees(*named(name, **{option: float("inf")}), normal(4), normal(4, seed=1))


def test_gaussian_nll_loss_of_an_infinite_variance():
    for var in ([np.inf, 1.0], [np.inf, 0.0]):
        got = F.gaussian_nll_loss(jnp.ones(2), jnp.zeros(2), jnp.array(var), reduction="none")
        want = T.gaussian_nll_loss(torch.ones(2), torch.zeros(2), torch.tensor(var), reduction="none")
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_gaussian_nll_loss_of_one_variance():
    agrees(*named("gaussian_nll_loss", var=0.5), X, Y[:1], dtypes=(np.float32,))
    assert F.gaussian_nll_loss(jnp.ones(2), jnp.zeros(2), 1) == 0.5


def test_a_negative_variance_is_seen_under_jit():
    losses = jax.jit(lambda v: F.gaussian_nll_loss(jnp.ones(3), jnp.zeros(3), v, reduction="none"))(
        jnp.array([1.0, -1.0, 0.0])
    )
    assert np.isnan(losses).tolist() == [False, True, False]


A = jnp.zeros((2, 3))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.mse_loss(A, A[:, :2]), ValueError, r"F.mse_loss: target does not fit input; expected \(2, 3\)"),
        (lambda: F.l1_loss(A, A.astype(jnp.bfloat16)), TypeError, "F.l1_loss: the dtypes differ"),
        (lambda: F.l1_loss(A, A, weight=A[0]), ValueError, r"F.l1_loss: weight has the wrong shape; expected \(2, 3\)"),
        (lambda: F.huber_loss(A, A, weight=A[0]), ValueError, "F.huber_loss: weight has the wrong shape"),
        (lambda: F.huber_loss(A, A, delta=0), ValueError, "F.huber_loss: delta is not positive; .* got 0"),
        (lambda: F.smooth_l1_loss(A, A, beta=-1.0), ValueError, "F.smooth_l1_loss: beta is negative; .* got -1.0"),
        (
            lambda: F.kl_div(A, A[:, :2], reduction="sum"),
            ValueError,
            r"expected shapes that broadcast, got input \(2, 3",
        ),
        (lambda: F.poisson_nll_loss(A, A[:, :2]), ValueError, "F.poisson_nll_loss: input and target do not match"),
        (lambda: F.poisson_nll_loss(A, A > 0), TypeError, "F.poisson_nll_loss: target must hold floating-point"),
        (lambda: F.gaussian_nll_loss(A, A, A - 1), ValueError, "var has a negative entry; expected at least 0, got -1"),
        (lambda: F.gaussian_nll_loss(A, A, -1.0), ValueError, "var has a negative entry"),
        (
            lambda: F.gaussian_nll_loss(A, A, A[:1, :1]),
            ValueError,
            r"var has the wrong shape; expected \(2, 3\), \(2,\)",
        ),
        (lambda: F.gaussian_nll_loss(A, A, A[0]), ValueError, "var has the wrong shape"),
        (lambda: F.gaussian_nll_loss(A, A[:, :2], A), ValueError, "F.gaussian_nll_loss: input and target do not match"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


LOSSES = [
    *(("l1_loss", {}), ("mse_loss", {}), ("smooth_l1_loss", {"beta": 0}), ("smooth_l1_loss", {"beta": 0.5})),
    *(("huber_loss", {"delta": 0.5}), ("huber_loss", {"delta": 2.0}), ("kl_div", {})),
    *(("poisson_nll_loss", {"full": full}) for full in (False, True)),
]


@functools.cache
def compared(number, reduction):
    """The loss beside the sum of its terms' sizes, in one array: a sum that cancels keeps the roundings of its terms.

    Poisson's of targets of 1e4 is -5000 + 5000.85 + …: no order of adding has more than three digits of that.
    """
    name, options = LOSSES[number]
    ours, theirs = named(name, **options)
    if reduction == "none":
        return [functools.partial(loss, reduction=reduction) for loss in (ours, theirs)]

    def our_sizes(x, y):
        return jnp.stack(
            [ours(x, y, reduction=reduction), jax.lax.stop_gradient(jnp.abs(ours(x, y, reduction="none")).sum())]
        )

    def their_sizes(x, y):
        return torch.stack([theirs(x, y, reduction=reduction), theirs(x, y, reduction="none").abs().sum().detach()])

    return our_sizes, their_sizes


@pytest.mark.slow
@given(
    st.integers(0, len(LOSSES) - 1),
    st.sampled_from(["mean", "sum", "none"]),
    st.lists(st.sampled_from([0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 1e-6, 3.7, -40.0]), min_size=6, max_size=6),
    st.lists(st.sampled_from([0.0, 0.5, -0.5, 1.0, -1.0, 2.0, 1e-6, 1e4]), min_size=6, max_size=6),
)
def test_hypothesis_kinks_and_sizes(number, reduction, input, target):
    ours, theirs = compared(number, reduction)
    x, y = np.array(input), np.array(target)
    if LOSSES[number][0] in ("kl_div", "poisson_nll_loss"):  # in the latter torch's gradient of a target of 0 is NaN
        y = np.abs(y) + 0.25 * (LOSSES[number][0] == "poisson_nll_loss")
    as_near_as_torch(ours, theirs, x, y)
