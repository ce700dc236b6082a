"""The check of an export: what counts as a difference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet.export.check import ExportCheck, compare, require_agreement
from funcnet.export.onnx import export as onnx_export
from funcnet.export.stablehlo import to_stablehlo
from funcnet.export.wasm import module as wasm_module


def largest(got, expected):
    return compare(["y"], [np.asarray(got)], [np.asarray(expected)]).largest


def test_the_difference_is_relative_to_the_largest_entry():
    assert largest(np.float32([1, 10]), np.float32([2, 10])) == 0.1
    assert largest(np.int32([1, 2]), np.int32([1, 2])) == 0


def test_the_worst_output_is_named():
    found = compare(["a", "b"], [np.float32([1]), np.float32([1, 2])], [np.float32([1]), np.float32([1, 4])])
    assert found == ExportCheck(0.5, "b")
    assert str(found) == "largest difference 0.5 (relative to the largest entry), in b"


@pytest.mark.parametrize(
    "got, expected",
    [
        (np.float32([1]), np.float64([1])),
        (np.float32([1]), np.float32([[1]])),
        (np.float32([np.nan, 1]), np.float32([1, 1])),
        (np.float32([1, 1]), np.float32([1, np.nan])),
        (np.float32([np.inf, 1]), np.float32([2, 1])),
    ],
)
def test_what_cannot_be_compared_differs_infinitely(got, expected):
    assert largest(got, expected) == np.inf


def test_equal_infinities_and_nans_are_equal():
    assert largest(np.float32([np.inf, np.nan, 3]), np.float32([np.inf, np.nan, 3])) == 0


def test_nothing_to_compare():
    assert compare([], [], []).largest == 0 and largest(np.zeros((0, 3)), np.zeros((0, 3))) == 0


def test_another_number_of_outputs():
    with pytest.raises(ValueError, match="expected 1 arrays for 1 names, got 2"):
        compare(["a"], [np.zeros(1)] * 2, [np.zeros(1)])


def required(got, expected, dtype="float32"):
    program = jax.make_jaxpr(lambda x: jax.jit(lambda y: y.astype(dtype) + 1)(x).astype(jnp.float32))(np.float32(1))
    return require_agreement("test", program.jaxpr, ["a", "y"], [np.zeros(1), got], [np.zeros(1), expected])


@pytest.mark.parametrize(
    "got, expected, found",
    [
        (np.float32([1, 4.1]), np.float32([1, 4]), "0.025"),
        (np.float32([1, np.nan]), np.float32([1, 4]), "inf"),
        (np.float32([1, 4]), np.float32([[1, 4]]), "inf"),
        (np.float32([1e-3, 4e-3]), np.float32([1e-3, 3e-3]), "0.33"),
        (np.array([True, False]), np.array([True, True]), "1"),
        (np.int32([5, 6]), np.int32([5, 7]), "0.14"),
        (np.uint8([5, 6]), np.uint8([5, 7]), "0.14"),
    ],
)
def test_wrong_exports_are_refused(got, expected, found):
    message = rf"test: the export of y is wrong; expected at most .* got {found}. This is a defect of funcnet"
    with pytest.raises(ValueError, match=message):
        required(got, expected)


def test_rounding_is_no_error():
    assert required(np.float32([1, 4.001]), np.float32([1, 4])).where == "y"
    required(np.float32([1e-7]), np.float32([-1e-7]))  # what cancelled
    required(np.float32([1e-7, np.inf]), np.float32([-1e-7, np.inf]))
    required(np.uint8([5, 254]), np.uint8([5, 255]))
    with pytest.raises(ValueError, match=r"expected at most 0\.001"):
        required(np.float32([1, 4.1]), np.float32([1, 4]))
    required(np.float32([1, 4.1]), np.float32([1, 4]), "bfloat16")  # whose unit in the last place is 0.0078
    with pytest.raises(ValueError, match=r"expected at most 0\.016"):
        required(np.float32([1, 4.1]), np.float32([1, 4]), "float16")


def test_every_form_requires_it(monkeypatch):
    x = np.float32([1, 2, 3])
    monkeypatch.setattr(jax.export.Exported, "call", lambda self, weights, x: jnp.sin(x))
    with pytest.raises(ValueError, match="to_stablehlo: the export of output is wrong"):
        to_stablehlo(jnp.cos, x)
    monkeypatch.setattr(onnx_export.OnnxSession, "__call__", lambda self, x: [np.sin(x)])
    with pytest.raises(ValueError, match="to_onnx: the export of output is wrong"):
        onnx_export.to_onnx(jnp.cos, x)
    monkeypatch.setattr(wasm_module.Runner, "__call__", lambda self, x: [np.sin(x)])
    with pytest.raises(ValueError, match="to_wasm: the export of output is wrong"):
        wasm_module.to_wasm(jnp.cos, x)
