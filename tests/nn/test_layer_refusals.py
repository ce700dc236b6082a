"""What layers refuse when they are built, and in which words."""

import jax
import jax.numpy as jnp
import pytest
import torch

from funcnet import nn

KEY = jax.random.key(0)

REFUSALS = [
    (lambda: nn.Dropout(1.5), ValueError, "p is not a probability; expected a number from 0 to 1, got 1.5"),
    (lambda: nn.Dropout2d("half"), ValueError, "Dropout2d: p is not a probability; .* got .half."),
    (lambda: nn.AlphaDropout(-0.1), ValueError, "AlphaDropout: p is not a probability; expected a number from 0 to 1"),
    (lambda: nn.Embedding(3, 2, padding_idx=3), ValueError, "padding_idx is out of range for num_embeddings"),
    (lambda: nn.Embedding(3, 2, _weight=jnp.ones((2, 3))), ValueError, "shape of weight does not match"),
    (
        lambda: nn.Embedding.from_pretrained(jnp.ones(3)),
        ValueError,
        "the table has the wrong rank; expected 2 dimensions",
    ),
    (lambda: nn.Bilinear(0, 2, 3), ValueError, "in1_features must be > 0, got 0"),
    (lambda: nn.GroupNorm(4, 6), ValueError, "num_channels must be divisible by num_groups; got 6 channels in 4"),
    (lambda: nn.Conv1d(4, 4, 3, groups=0), ValueError, "groups must be a positive integer, got 0"),
    (lambda: nn.Conv1d(4, 4, 3, groups=3), ValueError, "in_channels must be divisible by groups; got 4 channels"),
    (lambda: nn.Conv2d(4, 5, 3, groups=4), ValueError, "out_channels must be divisible by groups; got 5 channels"),
    (lambda: nn.Conv2d(3, 4, 3, padding="full"), ValueError, "expected padding 'same', 'valid' or numbers"),
    (lambda: nn.Conv2d(3, 4, 3, stride=2, padding="same"), ValueError, "not supported for strided convolutions"),
    (lambda: nn.Conv3d(3, 4, 3, padding_mode="wrap"), ValueError, "padding_mode must be one of .* got 'wrap'"),
    (lambda: nn.Flatten(2).apply({}, {}, jnp.ones((2, 3))), ValueError, "expected -2 to 1, got 2"),
    (lambda: nn.Flatten(1, 0).apply({}, {}, jnp.ones((2, 3))), ValueError, "start_dim cannot come after end_dim"),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSALS, ids=[text for *_, text in REFUSALS])
def test_refusals_say_why(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_scalars_flatten_to_one_element_as_in_torch():
    assert nn.Flatten(0).apply({}, {}, jnp.float32(3))[0].shape == tuple(torch.nn.Flatten(0)(torch.tensor(3.0)).shape)
