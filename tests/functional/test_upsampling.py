"""interpolate against torch."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from hypothesis import assume, given
from hypothesis import strategies as st

from funcnet import functional as F

from .oracle import agrees, normal

CASES = [
    ((2, 3, 5), {"scale_factor": 2, "mode": "linear"}),
    ((2, 3, 5), {"size": 7, "mode": "linear", "align_corners": True}),
    ((2, 2, 4, 3), {"scale_factor": 2, "mode": "bilinear", "align_corners": True}),
    ((2, 2, 8, 6), {"size": (7, 3), "mode": "bilinear"}),
    ((2, 2, 4, 3), {"scale_factor": (1.7, 0.6), "mode": "bilinear"}),
    ((2, 2, 4, 3), {"scale_factor": 1.7, "mode": "bilinear", "recompute_scale_factor": True}),
    ((1, 2, 4, 3), {"scale_factor": (2, 3), "mode": "bicubic"}),
    ((1, 2, 4, 1), {"size": [1, 5], "mode": "bicubic", "align_corners": True}),
    ((1, 2, 3, 2, 4), {"size": (6, 2, 3), "mode": "trilinear"}),
    ((1, 2, 7, 5), {"size": (3, 8), "mode": "bilinear", "antialias": True}),
    ((1, 2, 7, 5), {"size": (3, 2), "mode": "bicubic", "antialias": True, "align_corners": True}),
    ((1, 2, 7, 5), {"scale_factor": 0.4, "mode": "lanczos", "antialias": True}),
    ((1, 2, 7, 5), {"scale_factor": (0.5, 1.7), "mode": "area"}),
    ((1, 2, 7), {"size": 3}),
    ((1, 2, 4, 6), {"size": (6, 3)}),
    ((1, 2, 4, 3), {"scale_factor": (2.3, 0.7), "mode": "nearest-exact"}),
    ((1, 2, 2, 3, 2), {"scale_factor": 2, "mode": "nearest-exact"}),
    ((0, 2, 4, 3), {"scale_factor": 2, "mode": "bilinear"}),
    ((1, 2, 4, 3), {"scale_factor": (1.15, 2), "mode": "bilinear"}),
    ((1, 2, 4, 3), {"scale_factor": (1.15, 2.4), "mode": "bilinear", "antialias": True, "align_corners": True}),
    ((1, 2, 4, 3), {"scale_factor": (1.15, 2.4), "mode": "bicubic"}),
]


@pytest.mark.parametrize(
    ("shape", "options"), [c if n % 3 == 0 else pytest.param(*c, marks=pytest.mark.slow) for n, c in enumerate(CASES)]
)
def test_interpolate(shape, options):
    agrees(lambda x: F.interpolate(x, **options), lambda x: T.interpolate(x, **options), normal(*shape))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nearest_is_torchs_to_the_pixel(mode, dtype):
    """Of one dimension: in two, torch takes shortcuts in small images that its other sizes and ranks do not."""
    with jax.enable_x64(True):
        for n in (5, 28):
            x = np.arange(n, dtype=dtype)[None, None]
            factors = (0.34, 0.9999, 1.7, 2.05)
            for option in [{"size": m} for m in (1, 11, n, 33)] + [{"scale_factor": f} for f in factors if int(n * f)]:
                expected = T.interpolate(torch.tensor(x), mode=mode, **option)
                np.testing.assert_array_equal(F.interpolate(x, mode=mode, **option), expected, err_msg=f"{n} {option}")


@pytest.mark.parametrize("options", [{}, {"mode": "bilinear"}, {"mode": "bicubic", "align_corners": True}])
def test_a_nan_stays_where_it_is(options):
    x = np.zeros((1, 1, 9, 9), np.float32)
    x[0, 0, 4, 4] = np.nan
    for size in ((18, 7), (9, 13)):
        out, expected = (
            jax.jit(lambda x, size=size: F.interpolate(x, size, **options))(x),
            T.interpolate(torch.tensor(x), size, **options),
        )
        np.testing.assert_array_equal(np.isnan(out), torch.isnan(expected).numpy())


def test_half_precision_is_computed_in_float32_and_uint8_is_picked():
    x = jnp.asarray(normal(1, 1, 5, 4) + 3, jnp.bfloat16)
    exact = T.interpolate(torch.tensor(np.asarray(x, np.float64)), (9, 7), mode="bicubic").numpy()
    out = F.interpolate(x, (9, 7), mode="bicubic")
    assert out.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(out, np.float64), exact, rtol=2**-8)
    picked = F.interpolate(jnp.array([[[1, 200]]], jnp.uint8), 4)
    assert picked.dtype == jnp.uint8 and picked.ravel().tolist() == [1, 1, 200, 200]


def test_old_names_warn_and_are_torchs():
    x = normal(1, 2, 3, 4).astype(np.float32)
    calls = [
        lambda lib: lib.upsample(x_of(lib, x), scale_factor=2, mode="bicubic", align_corners=True),
        lambda lib: lib.upsample_nearest(x_of(lib, x), size=(4, 5)),
        lambda lib: lib.upsample_bilinear(x_of(lib, x), scale_factor=2),
    ]
    for call in calls:
        with pytest.warns(DeprecationWarning, match=r"is deprecated. Use F.interpolate") as caught:
            out = call(F)
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.testing.assert_allclose(out, call(T), rtol=1e-5, atol=1e-6)


def x_of(lib, x):
    return torch.tensor(x) if lib is T else x


MODES = [("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3), ("nearest", 1), ("area", 2)]
MODES += [("aa bilinear", 2), ("aa bicubic", 2), ("lanczos", 2)]


@pytest.mark.slow
@given(data=st.data())
def test_hypothesis_interpolate(data):
    mode, rank = data.draw(st.sampled_from(MODES))
    shape = (1, 2, *(data.draw(st.integers(1, 6)) for _ in range(rank)))
    options = {"mode": mode.removeprefix("aa "), "antialias": mode.startswith(("aa", "lanczos"))}
    if mode not in ("nearest", "area", "lanczos"):
        options["align_corners"] = data.draw(st.booleans())
    if data.draw(st.booleans()):
        options["size"] = [data.draw(st.integers(0, 13)) for _ in range(rank)]
    else:
        options["scale_factor"] = [data.draw(st.floats(0.2, 3.5)) for _ in range(rank)]
        options["recompute_scale_factor"] = data.draw(st.booleans())
    x = normal(*shape)
    try:
        expected = T.interpolate(torch.tensor(x), **options)
    except RuntimeError:
        with pytest.raises(ValueError, match=r"F.interpolate: the input or the result is empty"):
            F.interpolate(x, **options)
        return
    assume(not options["antialias"] or expected.shape[-1] > 1)  # torch repeats the first row: see the next test
    with jax.enable_x64(True):
        np.testing.assert_allclose(F.interpolate(x, **options), expected, rtol=1e-10, atol=1e-10)


def test_an_image_one_pixel_wide_is_resized():
    """torch 2.13 on CPU repeats its first row, but for antialias=False, whose result is the same for an enlargement."""
    x = np.array([[[[0.0], [1.0], [4.0]]]], np.float32)
    enlarged = F.interpolate(x, scale_factor=(2.0, 1.0), mode="bilinear", antialias=True)
    expected = T.interpolate(torch.tensor(x), scale_factor=(2.0, 1.0), mode="bilinear")
    np.testing.assert_allclose(enlarged, expected, rtol=1e-6)


X = jnp.zeros((2, 3, 5, 7))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({}, ValueError, "F.interpolate: the new size is ambiguous or missing; expected either size or scale_factor"),
        ({"size": 3, "scale_factor": 2}, ValueError, "F.interpolate: the new size is ambiguous or missing"),
        ({"size": (3,)}, ValueError, r"size has the wrong length; expected one number or 2, got \(3,\)"),
        ({"scale_factor": (2, 2, 2)}, ValueError, "scale_factor has the wrong length; expected one number or 2"),
        ({"size": 3.0}, TypeError, "F.interpolate: size is not an integer; expected int, got 3.0"),
        ({"size": 0}, ValueError, r"the input or the result is empty; .* new sizes \(0, 0\)"),
        ({"scale_factor": 0.1}, ValueError, "the input or the result is empty"),
        (
            {"scale_factor": float("nan")},
            ValueError,
            "F.interpolate: scale_factor is invalid; expected a finite number, got nan",
        ),
        (
            {"scale_factor": (2, "a")},
            ValueError,
            "F.interpolate: scale_factor is invalid; expected a finite number, got 'a'",
        ),
        (
            {"size": 3, "recompute_scale_factor": True},
            ValueError,
            "recompute_scale_factor cannot be combined with size",
        ),
        ({"size": 3, "align_corners": False}, ValueError, "align_corners requires a mode that interpolates"),
        ({"size": 3, "mode": "cubic"}, ValueError, "F.interpolate: mode is unknown; .* got 'cubic'"),
        (
            {"size": 3, "mode": "linear"},
            ValueError,
            "mode 'linear' does not support this input; .* with 1 spatial dimensions",
        ),
        ({"size": 3, "antialias": True}, ValueError, "antialias requires mode 'bilinear', 'bicubic' or 'lanczos'"),
        (
            {"size": 3, "mode": "lanczos"},
            ValueError,
            "mode 'lanczos' requires antialias and does not support align_corners",
        ),
    ],
)
def test_refusals(options, error, text):
    with pytest.raises(error, match=text):
        F.interpolate(X, **options)


def test_refusals_of_the_input():
    with pytest.raises(TypeError, match=r"F.interpolate: input must hold floating-point numbers"):
        F.interpolate(X.astype(jnp.uint8), 3, mode="bilinear")
    with pytest.raises(TypeError, match=r"F.interpolate: input must hold floating-point numbers"):
        F.interpolate(X.astype(int), 3)
    with pytest.raises(ValueError, match="the input or the result is empty"):
        F.interpolate(X[:, :0], 3)
    with pytest.raises(ValueError, match=r"with 1 or 2 or 3 spatial dimensions, got \(5, 7\)"):
        F.interpolate(X[0, 0], 3)
