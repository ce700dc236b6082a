"""What the table of layers does not say of convolutions: output sizes, starts, lazy shapes, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn

KEY = jax.random.key(0)


@pytest.mark.parametrize(("given", "size"), [((6, 7), (6, 7)), ([1, 3, 5, 8], (5, 8)), (None, (5, 7)), ((7, 7), None)])
def test_output_size_chooses_among_the_sizes_of_a_stride(given, size):
    layer = nn.ConvTranspose2d(2, 3, 3, stride=2, padding=(1, 0))
    theirs = torch.nn.ConvTranspose2d(2, 3, 3, stride=2, padding=(1, 0))
    params, state = layer.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).normal(size=(1, 2, 3, 3)).astype(np.float32)
    if size is None:
        with pytest.raises(ValueError, match=r"requested an output size"):
            theirs(torch.tensor(x), given)
        with pytest.raises(
            ValueError, match=r"is impossible for this input; expected sizes from \(5, 7\) to \(6, 8\), got \(7, 7\)"
        ):
            layer.apply(params, state, x, output_size=given)
        return
    out = layer.apply(params, state, x, given)[0]
    assert out.shape == (1, 3, *size)
    np.testing.assert_allclose(out, theirs(torch.tensor(x), given).detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.apply(params, state, x[0], given and given[-2:])[0], out[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "args", "shape"),
    [
        ("LazyConv1d", (400, 3), (1, 8, 5)),
        ("LazyConv3d", (200, 2), (4, 2, 2, 2)),
        ("LazyConvTranspose2d", (8, 3), (1, 500, 3, 3)),
        ("ConvTranspose1d", (300, 10, 4), None),
    ],
)
def test_starts_within_torchs_bounds(kind, args, shape):
    """Weight and bias are uniform within 1/√fan_in; of transposed ones fan_in counts the outputs."""
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(*args)
    if shape is not None:
        theirs(torch.ones(shape))
    examples = () if shape is None else (jnp.ones(shape),)
    params, _ = getattr(nn, kind)(*args).init(KEY, *examples)
    for name, tensor in theirs.named_parameters():
        ours, bound = np.asarray(params[name]), torch.nn.init._calculate_fan_in_and_fan_out(theirs.weight)[0] ** -0.5
        assert ours.shape == tuple(tensor.shape)
        assert np.abs(ours).max() <= bound and tensor.abs().max() <= bound
        if ours.size > 100:
            assert np.abs(ours).max() > 0.98 * bound and abs(ours.std() / bound * 3**0.5 - 1) < 0.1


def test_lazy_ones_keep_their_dtype_and_start():
    layer = nn.LazyConvTranspose1d(2, 3, dtype=jnp.bfloat16)
    nn.init.ones_(layer.bias)
    params, _ = layer.init(KEY, jnp.ones((1, 3, 4), jnp.bfloat16))
    assert params["bias"].tolist() == [1, 1] and params["weight"].dtype == jnp.bfloat16
    assert params["weight"].shape == (3, 2, 3)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: nn.ConvTranspose1d(2, 3, 3, padding_mode="circular"),
            "ConvTranspose1d: only zero padding is supported; .* got",
        ),
        (lambda: nn.LazyConvTranspose3d(3, 3, padding_mode="reflect"), "LazyConvTranspose3d: only zero padding"),
        (lambda: nn.ConvTranspose2d(4, 6, 3, groups=4), "ConvTranspose2d: out_channels must be divisible by groups"),
        (lambda: nn.LazyConv2d(4, 3).init(KEY, jnp.ones((3, 4))), "LazyConv2d: input has the wrong rank; expected 4"),
        (
            lambda: nn.LazyConv1d(4, 3, groups=2).init(KEY, jnp.ones((3, 4))),
            "LazyConv1d: in_channels must be divisible",
        ),
        (
            lambda: nn.ConvTranspose1d(1, 1, 2).apply(
                *nn.ConvTranspose1d(1, 1, 2).init(KEY), jnp.ones((1, 3)), (1, 2, 4, 5)
            ),
            r"ConvTranspose1d: output_size has the wrong length; expected 1 spatial size\(s\), or 2 sizes for an",
        ),
        (lambda: nn.CircularPad1d(1).apply({}, {}, jnp.ones((1, 2, 3, 4))), "CircularPad1d: input has the wrong rank"),
    ],
)
def test_refusals(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_transposed_padding_is_numbers():
    with pytest.raises(TypeError, match="ConvTranspose1d: padding is not an integer"):
        nn.ConvTranspose1d(2, 3, 3, padding="same")


@pytest.mark.parametrize(
    ("args", "shape", "error", "text"),
    [
        ((1, 6), (2, 6), TypeError, "Unflatten: unflattened_size is not a tuple of ints; expected ints, got 6"),
        ((1, (2.0, 3)), (2, 6), TypeError, "Unflatten: unflattened_size is not a tuple of ints"),
        ((1, (("a", 2), ("b", 3))), (2, 6), TypeError, "named dimensions are not supported"),
        (("a", (2, 3)), (2, 6), TypeError, "Unflatten: dim is a name; expected an int, got 'a'"),
        ((1.0, (2, 3)), (2, 6), TypeError, "Unflatten: dim is not an integer"),
        ((2, (2, 3)), (2, 6), ValueError, "Unflatten: dimension out of range; expected -2 to 1, got 2"),
        (
            (1, (4, 2)),
            (2, 6),
            ValueError,
            "the product of the sizes is not the size of dimension 1; expected a product of 6",
        ),
        ((1, (-1, 4)), (2, 6), ValueError, "Unflatten: the product of the sizes is not the size of dimension"),
        ((1, (-1, -1)), (2, 6), ValueError, "Unflatten: the product of the sizes is not the size of dimension"),
        ((1, (-1, 0)), (2, 0), ValueError, "Unflatten: the product of the sizes is not the size of dimension"),
        ((1, ()), (2, 1), ValueError, "Unflatten: the product of the sizes is not the size of dimension"),
    ],
)
def test_unflatten_refuses(args, shape, error, text):
    with pytest.raises(error, match=text):
        nn.Unflatten(*args).apply({}, {}, jnp.ones(shape))
    with pytest.raises((RuntimeError, TypeError, IndexError)):
        torch.nn.Unflatten(*args)(torch.ones(shape))
