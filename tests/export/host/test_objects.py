"""Functions, memories, tables and globals as Python sees them."""

import ml_dtypes
import numpy as np
import pytest

from funcnet.export import host
from tests.export.host.cases import wasm

CODE = wasm(
    """
    (memory (export "memory") 1 3)
    (table (export "table") 3 funcref)
    (table (export "anything") 2 externref)
    (global (export "count") (mut i64) (i64.const 5))
    (global (export "fixed") f32 (f32.const 0.25))
    (global (export "nothing") (mut externref) (ref.null extern))
    (func $divide (export "divide") (param i32 i32) (result i32) (i32.div_s (local.get 0) (local.get 1)))
    (func $inner (param i32) (result i32) (call $divide (i32.const 1) (local.get 0)))
    (func (export "outer") (param i32) (result i32) (call $inner (local.get 0)))
    (func (export "load") (param i32) (result f32) (f32.load (local.get 0)))
    (func (export "grow") (result i32) (memory.grow (i32.const 1)))
    (func (export "top") (result i32) (i32.const -4))
    (func (export "same") (param i64 f32 f64 externref) (result i64 f32 f64 externref)
      (local.get 0) (local.get 1) (local.get 2) (local.get 3))
    (func (export "pick") (param i32) (result funcref) (table.get 0 (local.get 0)))
    (func (export "stop") unreachable)
    (func $deep (export "deep") (call $deep))
    (elem (table 0) (i32.const 0) func $divide)
    """
)


@pytest.fixture
def code():
    return host.link({"code": CODE})["code"]


def test_arrays_share_the_bytes_of_a_memory(code):
    array = code["memory"].array(8, (2, 3), np.float32)
    array[1, 2] = 7.5
    assert code["load"](8 + 5 * 4) == 7.5
    assert np.shares_memory(array, code["memory"].array(8, 24))
    assert code["memory"].array(1, 2, np.int32).tolist() == [0, 0]  # it need not be aligned
    assert code["memory"].array(8, 2, ml_dtypes.bfloat16).dtype == ml_dtypes.bfloat16
    assert code["memory"].array(65536, 0).size == 0


def test_arrays_after_growth(code):
    before = code["memory"].array(0, 65536)
    assert code["grow"]() == 1 and len(code["memory"]) == 2 * 65536
    after = code["memory"].array(0, 2 * 65536)
    before[3] = 9
    assert after[3] == 9
    assert code["memory"].grow(1) == 2 and code["memory"].array(3 * 65536 - 1, 1)[0] == 0


@pytest.mark.parametrize(
    ("pointer", "shape", "text"),
    [
        (65536 - 8, 3, r"shape (3,) and float32 lies outside; expected bytes within 0 to 65536, got 65528 to 65540."),
        (65536, 1, "got 65536 to 65540."),
        (-4, 1, "got 4294967292 to 4294967296."),
        (0, (-1,), "got 0 to -4."),
    ],
)
def test_arrays_outside(code, pointer, shape, text):
    with pytest.raises(ValueError) as caught:
        code["memory"].array(pointer, shape, np.float32)
    assert str(caught.value).startswith("module 'code', memory 'memory': an array of shape")
    assert str(caught.value).endswith(text)


def test_negative_pointers_are_unsigned():
    """A function gives pointers above 2 GiB as negative numbers."""
    linked = host.link(
        {"code": wasm('(memory (export "memory") 65536) (func (export "p") (result i32) (i32.const -4))')}
    )
    linked["code"]["memory"].array(linked["code"]["p"](), 1, np.int32)[0] = 5
    assert linked["code"]["memory"].array((1 << 32) - 4, 1, np.int32)[0] == 5


def test_values_pass_through(code):
    thing = object()
    result = code["same"](-(1 << 63), np.float32(0.1), 0.1, thing)
    assert result == (-(1 << 63), float(np.float32(0.1)), 0.1, thing) and result[3] is thing
    assert code["same"](np.int64(5), 1, np.float64(2), None) == (5, 1.0, 2.0, None)
    assert code["divide"](2**32 - 6, 2) == -3  # the unsigned form of -6


@pytest.mark.parametrize(
    ("name", "args", "error", "text"),
    [
        ("divide", (1,), TypeError, "the number of arguments is wrong; expected 2, got 1."),
        ("divide", (1.0, 2), TypeError, "a value has the wrong type; expected i32, got float."),
        ("divide", (1 << 32, 2), ValueError, "a value is out of range; expected i32, got 4294967296."),
        ("divide", (-(1 << 31) - 1, 2), ValueError, "a value is out of range; expected i32, got -2147483649."),
        ("load", ("1",), TypeError, "a value has the wrong type; expected i32, got str."),
        ("same", (1, "x", 1.0, 0), TypeError, "a value has the wrong type; expected f32, got str."),
    ],
)
def test_wrong_arguments(code, name, args, error, text):
    with pytest.raises(error) as caught:
        code[name](*args)
    assert str(caught.value) == f"module 'code', function '{name}': {text}"


@pytest.mark.parametrize(
    ("name", "args", "reason", "frames"),
    [
        ("outer", (0,), "integer divide by zero", ("divide", "inner", "function 8")),
        ("load", (65536,), "out of bounds memory access", None),
        ("stop", (), "wasm `unreachable` instruction executed", None),
        ("deep", (), "call stack exhausted", None),
    ],
)
def test_traps_name_the_functions(code, name, args, reason, frames):
    with pytest.raises(host.WasmTrap) as caught:
        code[name](*args)
    assert caught.value.reason == reason
    assert str(caught.value).startswith(f"module 'code', function '{name}': {reason}, in ")
    if frames is not None:
        assert caught.value.frames[:2] == frames[:2]


def test_vectors_stay_inside():
    """wasmtime's C interface aborts the process when it is asked for the type of such a function."""
    vectors = wasm(
        '(func $f (export "f") (param v128)) (func (export "g") (result v128) (v128.const i32x4 1 2 3 4))'
        ' (table (export "table") 1 funcref) (elem (i32.const 0) func $f)'
        ' (global (export "v") (mut v128) (v128.const i32x4 1 2 3 4))'
    )
    code = host.link({"code": vectors})["code"]
    for call in (lambda: code["f"](1), lambda: code["g"](), lambda: code["v"].value):
        with pytest.raises(TypeError, match="expected n"):
            call()
    with pytest.raises(TypeError, match="a reference to a function cannot be read; expected modules without v128"):
        code["table"][0]
    with pytest.raises(TypeError, match="a value has the wrong type; expected v128, got int"):
        code["v"].value = 1


def test_tables(code):
    table = code["table"]
    assert len(table) == 3 and table[1] is None
    assert table[0](7, 2) == 3 and table[0].type == host.FunctionType(("i32", "i32"), ("i32",))
    table[1] = code["top"]
    assert code["pick"](1)() == -4 and code["pick"](2) is None
    table[1] = None
    assert table[1] is None
    with pytest.raises(IndexError, match="table 'table': the index is out of range; expected less than 3, got 3"):
        table[3]
    with pytest.raises(IndexError, match="got -1"):
        table[-1] = None
    with pytest.raises(TypeError, match="table 'table': a value has the wrong type; expected funcref, got int"):
        table[0] = 1
    code["anything"][0] = {"any": "thing"}
    assert code["anything"][0] == {"any": "thing"} and code["anything"][1] is None


def test_globals(code):
    code["count"].value = 1 << 40
    assert code["count"].value == 1 << 40
    with pytest.raises(
        ValueError, match="global 'count': a value is out of range; expected i64, got 1180591620717411303424"
    ):
        code["count"].value = 1 << 70
    assert code["fixed"].value == 0.25
    with pytest.raises(TypeError, match="'fixed': it cannot be assigned; expected a mutable global, got global f32"):
        code["fixed"].value = 1.0
    assert code["nothing"].value is None
    code["nothing"].value = "something"
    assert code["nothing"].value == "something"


def test_what_python_shows(code):
    assert repr(code["divide"]) == "<module 'code', function 'divide': function (i32, i32) -> (i32)>"
