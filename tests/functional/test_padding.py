"""F.pad against torch."""

import jax.numpy as jnp
import pytest
import torch.nn.functional as T

from funcnet import functional as F

from .oracle import agrees, normal

CONSTANT = [((3,), (1, 2)), ((2, 3), (0, 1, 2, 3)), ((2, 3, 4), (-1, 2)), ((2, 3, 4), (1, -2, -1, 1)), ((0, 3), (1, 1))]
OTHERS = [((2, 3, 5), (2, 1)), ((2, 3, 5), (0, 0)), ((2, 3, 4, 5), (1, 2, 3, 0)), ((1, 2, 3, 4, 5), (1, 2, 0, 3, 2, 1))]


@pytest.mark.parametrize(("shape", "pad"), CONSTANT)
@pytest.mark.parametrize("value", [None, 1.5])
def test_constant(shape, pad, value):
    agrees(lambda x: F.pad(x, pad, value=value), lambda x: T.pad(x, pad, value=value), normal(*shape))


@pytest.mark.parametrize(("shape", "pad"), OTHERS)
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_other_modes(shape, pad, mode):
    agrees(lambda x: F.pad(x, pad, mode), lambda x: T.pad(x, pad, mode), normal(*shape))


@pytest.mark.parametrize(
    ("mode", "pad"), [("circular", (-1, 2)), ("circular", (5, 5)), ("replicate", (-1, 2)), ("replicate", (9, 9))]
)
def test_negative_and_large(mode, pad):
    agrees(lambda x: F.pad(x, pad, mode), lambda x: T.pad(x, pad, mode), normal(1, 2, 5))


def test_integers_stay():
    assert F.pad(jnp.array([1, 2]), (1, 0), value=7).tolist() == [7, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (((1,),), "F.pad: pad does not fit input; expected two numbers a dimension"),
        (((1, 1, 1, 1, 1, 1, 1, 1),), "for at most 3, got"),
        (((1, 1), "mirror"), "F.pad: mode is unknown; .* got 'mirror'"),
        (((1, 1), "reflect", 2.0), "F.pad: value is for constant padding; expected None with mode='reflect', got 2.0"),
        (((5, 0), "reflect"), "F.pad: pad is too large for mode='reflect'; expected at most 4 for a dimension of 5"),
        (((6, 0), "circular"), "F.pad: pad is too large for mode='circular'; expected at most 5 for a dimension of 5"),
        (((-4, -4),), "F.pad: pad takes away more than there is"),
    ],
)
def test_refusals(arguments, text):
    with pytest.raises(ValueError, match=text):
        F.pad(jnp.zeros((1, 3, 5)), *arguments)
