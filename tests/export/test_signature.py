"""The arguments of an exported function: every wrong call is refused by the argument's name."""

import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import export
from funcnet.export.signature import ArraySpec, require_arguments

ARGUMENTS = [ArraySpec("ids", ("batch", "length"), "int32"), ArraySpec("mask", ("batch", "length", 4), "float32")]


def call(ids, mask):
    return require_arguments("net", ARGUMENTS, [ids, mask])


def test_what_fits_is_returned():
    ids, mask = np.zeros((2, 3), np.int32), jnp.zeros((2, 3, 4))
    got = call(ids, mask)
    assert got[0] is ids and got[1] is mask


@pytest.mark.parametrize(
    "ids, mask, error, message",
    [
        (np.zeros((2, 3)), np.zeros((2, 3, 4), np.float32), TypeError, "ids has the wrong dtype; expected int32, got"),
        (np.zeros((2, 3), np.int32), [[0.0]], TypeError, "mask is not an array; expected float32, got list"),
        (np.zeros(2, np.int32), np.zeros((2, 3, 4), np.float32), ValueError, r"ids .* \(batch, length\), got \(2,\)"),
        (np.zeros((2, 3), np.int32), np.zeros((2, 3, 5), np.float32), ValueError, r"mask .* got \(2, 3, 5\)"),
        (np.zeros((2, 3), np.int32), np.zeros((2, 7, 4), np.float32), ValueError, "expected length = 3, as in ids"),
    ],
)
def test_what_does_not_fit_is_named(ids, mask, error, message):
    with pytest.raises(error, match=message):
        call(ids, mask)


def test_numbers_of_64_bits_are_narrowed():
    ids, mask = np.array([[1, 2**31 - 1, -(2**31)]]), np.full((1, 3, 4), 0.1)
    got = call(ids, mask)
    assert got[0].dtype == np.int32 and got[1].dtype == np.float32
    np.testing.assert_array_equal(got[0], ids)
    np.testing.assert_array_equal(got[1], np.full((1, 3, 4), 0.1, np.float32))
    for wrong in (2**31, -(2**31) - 1):
        message = f"net: ids has numbers that int32 cannot hold; expected -2147483648 to 2147483647, got .*{wrong}"
        with pytest.raises(ValueError, match=message):
            call(np.array([[1, wrong]]), np.zeros((1, 2, 4)))


TABLE = np.linspace(-2, 2, 15).astype(np.float32).reshape(5, 3)


@pytest.mark.parametrize("form", ["stablehlo", "onnx", "wasm"])
def test_every_form_takes_numbers_of_64_bits(form):
    """As examples and in calls. Tokenizers return ids of int64, and NumPy draws numbers of float64."""
    ids, scale = np.array([[4, 0, 2]]), np.array([[0.1], [0.7]])
    run = lambda ids, scale: jnp.asarray(TABLE)[ids] * scale
    exported = getattr(export, f"to_{form}")(run, ids, scale[:1])
    called = exported
    if form == "wasm":
        called = exported.runner()
    if form == "onnx":
        with tempfile.TemporaryDirectory() as folder:
            exported.save(f"{folder}/net.onnx")
            called = export.load_onnx(f"{folder}/net.onnx")
    for given in ((ids, scale[1:]), (ids.astype(np.int32), scale[1:].astype(np.float32))):
        (got,) = jax.tree.leaves(called(*given))
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, TABLE[ids] * scale[1], rtol=1e-6)
    with pytest.raises(ValueError, match="ids has numbers that int32 cannot hold"):
        called(ids + 2**32, scale[1:])


def test_another_number_of_arrays():
    with pytest.raises(TypeError, match=r"expected 2 \(ids int32 \(batch, length\); mask .*\), got 1"):
        require_arguments("net", ARGUMENTS, [np.zeros((2, 3), np.int32)])


@pytest.mark.parametrize(
    "constraint, holds",
    [
        ("length <= 3", True),
        ("length <= 2", False),
        ("2*batch + 1 >= 5", True),
        ("mod(length, 2) == 0", False),
        ("floordiv(length, 2) == 1", True),
        ("max(batch, length) >= 4", False),
        ("-batch + length == 1", True),
        ("batch^2 == 4", True),
        ("unknown >= 4", True),
    ],
)
def test_constraints(constraint, holds):
    arrays = [np.zeros((2, 3), np.int32), np.zeros((2, 3, 4), np.float32)]
    if holds:
        require_arguments("net", ARGUMENTS, arrays, [constraint])
    else:
        with pytest.raises(ValueError, match=r"net: a size is out of range; expected .*, got .* = "):
            require_arguments("net", ARGUMENTS, arrays, [constraint])
