"""grid_sample and affine_grid against torch."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from hypothesis import given
from hypothesis import strategies as st

from funcnet import functional as F

from .oracle import agrees, normal

PADDINGS = ("zeros", "border", "reflection")


def points(*shape):
    """Of [-3, 3]: inside, and outside to be reflected more than once; the corners and the centre among them."""
    grid = np.random.default_rng(0).uniform(-3, 3, shape)
    flat = grid.reshape(-1, shape[-1])
    flat[: 2 ** shape[-1]] = np.stack(np.meshgrid(*[[-1, 1]] * shape[-1]), -1).reshape(-1, shape[-1])
    flat[-1] = 0
    return grid


SAMPLES = list(itertools.product(["bilinear", "nearest", "bicubic"], PADDINGS, [False, True]))
OFTEN = [("bilinear", p, p == "zeros") for p in PADDINGS] + [
    ("nearest", "zeros", False),
    ("bicubic", "reflection", False),
]


@pytest.mark.parametrize(
    ("mode", "padding_mode", "align_corners"),
    [case if case in OFTEN else pytest.param(*case, marks=pytest.mark.slow) for case in SAMPLES],
)
def test_grid_sample(mode, padding_mode, align_corners):
    options = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    # In float32 alone points at a pixel's edge fall to its other side: the oracle is float64.
    agrees(
        lambda x, g: F.grid_sample(x, g, **options),
        lambda x, g: T.grid_sample(x, g, **options),
        normal(2, 3, 4, 5),
        points(2, 3, 4, 2),
        dtypes=(np.float64,),
    )


@pytest.mark.parametrize("padding_mode", ["zeros", *(pytest.param(p, marks=pytest.mark.slow) for p in PADDINGS[1:])])
def test_volumes(padding_mode):
    options = {"padding_mode": padding_mode, "align_corners": padding_mode == "border"}
    agrees(
        lambda x, g: F.grid_sample(x, g, **options),
        lambda x, g: T.grid_sample(x, g, **options),
        normal(2, 2, 3, 4, 2),
        points(2, 2, 3, 4, 3),
        dtypes=(np.float64,),
    )


def test_float32_inside():
    options = {"padding_mode": "border", "align_corners": False}
    grid = np.random.default_rng(1).uniform(-0.7, 0.7, (1, 5, 6, 2))
    ours, theirs = (lambda x, g, lib=lib: lib.grid_sample(x, g, **options) for lib in (F, T))
    agrees(ours, theirs, normal(1, 2, 6, 7), grid, dtypes=(np.float32,))


@pytest.mark.slow
@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("align_corners", [False, True])
def test_gradients_at_the_borders_are_torchs(padding_mode, align_corners):
    """-1 and 1 and the centres of pixels: where clips and reflections have their corners; an image of one pixel too."""
    line = np.linspace(-1.5, 1.5, 25)  # steps of an eighth: exact
    grid = np.stack(np.meshgrid(line, line), -1)[None]
    options = {"padding_mode": padding_mode, "align_corners": align_corners}
    for shape in ((1, 1, 4, 2), (1, 1, 1, 3)):
        ours, theirs = (lambda x, g, lib=lib: lib.grid_sample(x, g, **options) for lib in (F, T))
        agrees(ours, theirs, normal(*shape), grid, dtypes=(np.float64,))


@pytest.mark.parametrize("padding_mode", ["zeros", *(pytest.param(p, marks=pytest.mark.slow) for p in PADDINGS[1:])])
def test_points_that_are_no_numbers_read_nothing_outside(padding_mode):
    """torch crashes on them: here the value is what a point outside sees, or NaN, and the others are untouched."""

    @jax.jit
    def run(grid):
        out, pull = jax.vjp(lambda x, g: F.grid_sample(x, g, padding_mode=padding_mode), jnp.ones((1, 1, 3, 3)), grid)
        return out.ravel(), pull(jnp.array([[[[0.0, 1.0]]]]))[1]

    for value in (np.nan, np.inf, -np.inf, 1e30):
        (strange, usual), slope = run(jnp.array([[[[value, 0.0], [0.0, 0.0]]]]))
        assert usual == 1 and (np.isnan(strange) or strange in (0, 1))
        assert np.isfinite(slope[0, 0, 1]).all()


@pytest.mark.parametrize("padding_mode", PADDINGS[1:])
def test_where_outside_is_inside_no_number_is_the_first_pixel(padding_mode):
    image, bad = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3), [np.nan, np.inf, -np.inf]
    grid = np.array([[[[v, 0.0] for v in bad], [[0.5, v] for v in bad]]], np.float32)
    for mode in ("bilinear", "nearest"):
        options = {"mode": mode, "padding_mode": padding_mode, "align_corners": False}
        np.testing.assert_array_equal(
            F.grid_sample(image, grid, **options), T.grid_sample(torch.tensor(image), torch.tensor(grid), **options)
        )
    np.testing.assert_array_equal(
        F.grid_sample(image, grid, "bicubic", padding_mode),
        T.grid_sample(torch.tensor(image), torch.tensor(grid), "bicubic", padding_mode, align_corners=False),
    )


def test_an_empty_batch():
    image, grid = np.zeros((0, 1, 2, 2), np.float32), np.zeros((0, 3, 2, 2), np.float32)
    want = T.grid_sample(torch.tensor(image), torch.tensor(grid), align_corners=False)
    assert F.grid_sample(image, grid).shape == want.shape


def test_half_precision_is_computed_in_float32():
    x, g = jnp.asarray(normal(1, 2, 9, 9), jnp.bfloat16), jnp.asarray(points(1, 3, 4, 2) / 4, jnp.bfloat16)
    exact = T.grid_sample(*(torch.tensor(np.asarray(a, np.float64)) for a in (x, g)), align_corners=False).numpy()
    out = jax.jit(F.grid_sample)(x, g)
    assert out.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(out, np.float64), exact, rtol=2**-8, atol=1e-5)
    theta = jnp.ones((1, 2, 3), jnp.bfloat16)
    assert F.affine_grid(theta, (1, 1, 300, 2)).dtype == jnp.bfloat16


def test_forward_mode_and_vmap():
    x, g, v = (jnp.asarray(a, jnp.float32) for a in (normal(1, 2, 4, 5), points(1, 3, 3, 2), normal(1, 3, 3, 2)))
    run = jax.jit(lambda x, g: F.grid_sample(x, g, padding_mode="reflection"))
    out, moved = jax.jvp(lambda g: run(x, g), (g,), (v,))
    pulled = jax.jit(lambda g, c: jax.vjp(lambda g: run(x, g), g)[1](c)[0])(g, out)
    np.testing.assert_allclose((out * moved).sum(), (pulled * v).sum(), rtol=1e-4)
    mapped = jax.vmap(run)(jnp.stack([x, 2 * x]), jnp.stack([g, g]))
    np.testing.assert_allclose(mapped, [out, 2 * out], rtol=1e-6)


AFFINE = [((2, 2, 3), (2, 1, 4, 5)), ((1, 2, 3), (1, 2, 1, 3)), ((2, 3, 4), (2, 1, 3, 1, 4))]


@pytest.mark.filterwarnings("ignore:Since version 1.3.0, affine_grid behavior has changed")
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize(("shape", "size"), AFFINE)
def test_affine_grid(shape, size, align_corners):
    ours, theirs = (lambda t, lib=lib: lib.affine_grid(t, size, align_corners) for lib in (F, T))
    agrees(ours, theirs, normal(*shape))


@pytest.mark.slow
@given(data=st.data())
def test_hypothesis_grid_sample(data):
    mode = data.draw(st.sampled_from(["bilinear", "nearest", "bicubic"]))
    options = {"mode": mode, "padding_mode": data.draw(st.sampled_from(PADDINGS))}
    options["align_corners"] = data.draw(st.booleans())
    sizes = [data.draw(st.integers(1, 4)) for _ in range(2)]
    coordinate = st.floats(-4, 4).filter(lambda v: abs(v) > 1e-3)
    grid = np.array([data.draw(coordinate) for _ in range(6)]).reshape(1, 1, 3, 2)
    x = normal(1, 2, *sizes)
    expected = T.grid_sample(torch.tensor(x), torch.tensor(grid), **options)
    with jax.enable_x64(True):
        np.testing.assert_allclose(F.grid_sample(x, grid, **options), expected, rtol=1e-10, atol=1e-10)


X, G, A = jnp.zeros((2, 3, 5, 7)), jnp.zeros((2, 4, 6, 2)), jnp.zeros((2, 2, 3))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.grid_sample(X, G, mode="cubic"), ValueError, "F.grid_sample: mode is unknown; .* got 'cubic'"),
        (lambda: F.grid_sample(X, G, padding_mode="wrap"), ValueError, "padding_mode is unknown; .* got 'wrap'"),
        (lambda: F.grid_sample(X[:, 0], G), ValueError, r"input has the wrong shape; .* got \(2, 5, 7\)"),
        (lambda: F.grid_sample(X[:, :, :0], G), ValueError, "without empty spatial dimensions"),
        (lambda: F.grid_sample(X[:1], G), ValueError, r"grid does not match .* expected \(1, h, w, 2\)"),
        (lambda: F.grid_sample(X, G[..., :1]), ValueError, "F.grid_sample: grid does not match input"),
        (lambda: F.grid_sample(X, G[:, 0]), ValueError, "F.grid_sample: grid does not match input"),
        (
            lambda: F.grid_sample(X[..., None], jnp.zeros((2, 1, 1, 1, 3)), mode="bicubic"),
            ValueError,
            "mode 'bicubic' supports only images; expected an input of 4 dimensions",
        ),
        (lambda: F.grid_sample(X.astype(int), G), TypeError, "F.grid_sample: input must hold floating-point numbers"),
        (lambda: F.grid_sample(X, G.astype(jnp.bfloat16)), TypeError, "F.grid_sample: the dtypes differ"),
        (lambda: F.affine_grid(A, (2, 1, 3)), ValueError, "F.affine_grid: size does not fit; .* got .2, 1, 3"),
        (lambda: F.affine_grid(A, (2, 0, 3, 4)), ValueError, "F.affine_grid: size does not fit; .* all at least 1"),
        (lambda: F.affine_grid(A, (3, 1, 3, 4)), ValueError, r"theta has the wrong shape; expected \(3, 2, 3\)"),
        (lambda: F.affine_grid(A, (2, 1, 3, 4, 5)), ValueError, r"theta has the wrong shape; expected \(2, 3, 4\)"),
        (lambda: F.affine_grid(A.astype(int), (2, 1, 3, 4)), TypeError, "theta must hold floating-point numbers"),
        (lambda: F.affine_grid(A, (2, 1, 3, 4.0)), TypeError, "F.affine_grid: size is not an integer"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()
