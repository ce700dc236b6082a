"""F.pad against torch."""

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

CONSTANT = [((3,), (1, 2)), ((2, 3), (0, 1, 2, 3)), ((2, 3, 4), (-1, 2)), ((2, 3, 4), (1, -2, -1, 1)), ((0, 3), (1, 1))]
OTHERS = [
    ((3, 5), (2, 1)),
    ((2, 3, 5), (0, 0)),
    ((2, 3, 4, 5), (1, 2, 3, 0)),
    ((3, 4, 5), (-1, 2, 1, -2)),
    ((1, 2, 3, 4, 5), (1, 2, 0, 3, 2, 1)),
    ((0, 3, 5), (2, 1)),
]


@pytest.mark.parametrize(("shape", "pad"), CONSTANT)
@pytest.mark.parametrize("value", [None, 1.5])
def test_constant(shape, pad, value):
    agrees(lambda x: F.pad(x, pad, value=value), lambda x: T.pad(x, pad, value=value), normal(*shape))


@pytest.mark.parametrize(("shape", "pad"), OTHERS)
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_other_modes(shape, pad, mode):
    agrees(lambda x: F.pad(x, pad, mode), lambda x: T.pad(x, pad, mode), normal(*shape))


LARGE = [
    ("circular", (-2, 3)),
    ("circular", (5, 5)),
    ("circular", (-3, -2)),
    ("replicate", (-1, 2)),
    ("replicate", (9, 9)),
    ("replicate", (-5, 5)),
    ("replicate", (3, -7)),
    ("reflect", (-2, 4)),
    ("reflect", (4, -8)),
]


@pytest.mark.parametrize(("mode", "pad"), LARGE)
def test_negative_and_large(mode, pad):
    agrees(lambda x: F.pad(x, pad, mode), lambda x: T.pad(x, pad, mode), normal(1, 2, 5))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("dtype", [jnp.int32, jnp.uint8, jnp.bfloat16, jnp.complex64])
def test_other_dtypes_stay(mode, dtype):
    out = F.pad(jnp.array([[1, 2, 3]], dtype), (1, 0), mode)
    assert out.dtype == dtype and out[0, 0] == {"constant": 0, "reflect": 2, "replicate": 1, "circular": 3}[mode]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int32", 7), ("int32", -1.5), ("uint8", 255), ("bool", 2), ("float16", np.inf), ("int8", -128)],
)
def test_values_are_cast(dtype, value):
    got = F.pad(jnp.array([1, 0], dtype), (1, 0), value=value)
    np.testing.assert_array_equal(got, T.pad(torch.tensor([1, 0], dtype=getattr(torch, dtype)), (1, 0), value=value))


@pytest.mark.parametrize(
    ("dtype", "value"), [("uint8", -1), ("uint8", 256), ("int8", 128.5), ("int32", np.nan), ("float16", 1e6)]
)
def test_values_that_the_dtype_does_not_hold(dtype, value):
    with pytest.raises(RuntimeError, match="value cannot be converted"):
        T.pad(torch.tensor([1], dtype=getattr(torch, dtype)), (1, 0), value=value)
    with pytest.raises(ValueError, match=rf"F.pad: value does not fit the input's dtype; expected .* {dtype}, got "):
        F.pad(jnp.array([1], dtype), (1, 0), value=value)


@pytest.mark.parametrize(("size", "pad"), [(2, (3, -3)), (2, (-3, 5)), (0, (1, -1))])
def test_taking_away_what_is_not_there(size, pad):
    with pytest.raises(RuntimeError, match="length must be non-negative"):
        T.pad(torch.ones(size), pad)
    with pytest.raises(ValueError, match=r"F.pad: pad removes more entries than exist"):
        F.pad(jnp.ones(size), pad)


@pytest.mark.slow
@given(data=st.data())
def test_hypothesis_pad(data):
    draw = lambda low, high: data.draw(st.integers(low, high))
    mode = data.draw(st.sampled_from(["constant", "reflect", "replicate", "circular"]))
    x = np.arange(1.0, 1.0 + 5**4).astype(np.float32)
    shape = tuple(draw(0, 4) for _ in range(draw(1, 4)))
    x = x[: int(np.prod(shape))].reshape(shape)
    pad = tuple(draw(-4, 5) for _ in range(draw(0, 6)))
    try:
        expected = T.pad(torch.tensor(x), pad, mode).numpy()
    except (RuntimeError, NotImplementedError):
        with pytest.raises(ValueError, match=r"F.pad: "):
            F.pad(x, pad, mode)
        return
    try:
        out = jax.jit(lambda x: F.pad(x, pad, mode))(x)
    except ValueError as error:  # what is left is wrapped more than once: torch reads what it has not written yet
        assert mode == "circular" and min(pad) < 0 and "pad is too large" in str(error)
        return
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (((1,),), ValueError, "F.pad: pad does not fit input; expected two numbers per dimension"),
        ((1,), ValueError, "F.pad: pad does not fit input; expected two numbers per dimension"),
        (((1, 1, 1, 1, 1, 1, 1, 1),), ValueError, "for at most 3 dimensions, got"),
        (((1.0, 1),), TypeError, "F.pad: pad is not an integer; expected int, got 1.0"),
        (((1, 1), "mirror"), ValueError, "F.pad: mode is unknown; .* got 'mirror'"),
        (
            ((1, 1), "reflect", 2.0),
            ValueError,
            "value requires mode='constant'; expected value=None with mode='reflect'",
        ),
        (
            ((5, 0), "reflect"),
            ValueError,
            "pad is too large for mode='reflect'; expected at most 4 for a dimension of size 5",
        ),
        (
            ((6, 0), "circular"),
            ValueError,
            "too large for mode='circular'; expected at most 5 for a dimension of size 5",
        ),
        (
            ((-4, 5), "circular"),
            ValueError,
            "too large for mode='circular'; expected at most 1 for a dimension of size 1",
        ),
        (((-4, -4),), ValueError, "F.pad: pad removes more entries than exist; expected output sizes of at least 0"),
        (
            ((-3, -2), "replicate"),
            ValueError,
            "pad removes more entries than exist; expected output sizes of at least 1",
        ),
        (((), "reflect"), ValueError, "F.pad: mode 'reflect' does not support this input and pad; .* got 0 for"),
        (((1, 1, 1, 1, 1, 1), "replicate"), ValueError, "expected 2, 4 or 6 numbers, for all spatial dimensions"),
    ],
)
def test_refusals(arguments, error, text):
    with pytest.raises(error, match=text):
        F.pad(jnp.zeros((1, 3, 5)), *arguments)


def test_nothing_to_copy_is_refused():
    with pytest.raises(ValueError, match=r"F.pad: there is nothing to copy; .* got shape \(2, 3, 0\)"):
        F.pad(jnp.zeros((2, 3, 0)), (0, 0), "replicate")
