"""Signatures of host functions, written out or by annotations."""

import numpy as np
import pytest

from funcnet.export import host


def test_signatures_by_annotation():
    @host.function
    def several(a: np.int32, b: np.int64, c: float) -> tuple[np.float32, np.float64]:
        return a + b, c

    assert several.type == host.FunctionType(("i32", "i64", "f64"), ("f32", "f64"))
    assert several(1, 2, 3.0) == (3, 3.0)

    @host.function
    def nothing() -> None:
        pass

    assert nothing.type == host.FunctionType()


def test_annotations_that_have_no_value_type():
    with pytest.raises(TypeError, match=r"function: an annotation of f is wrong; expected one of int32, .*, got .*int"):

        @host.function
        def f(x: int) -> None:
            pass

    with pytest.raises(TypeError, match=r"an annotation of g is wrong; expected one of int32, .*, got None"):

        @host.function
        def g(x):
            pass


def test_a_function_that_does_not_take_its_signature():
    with pytest.raises(
        TypeError, match=r"f does not fit its signature; expected one that takes 2 arguments, got \(x\)"
    ):

        @host.function("i32", "i32")
        def f(x):
            pass

    with pytest.raises(TypeError, match=r"expected one that takes 1 arguments, got \(\)"):
        host.function(linked=True)(lambda: None)
    assert host.function("i32", "i32", returns="i32")(max).type.params == ("i32", "i32")


@pytest.mark.parametrize("kind", ["int32", "v128", "I32"])
def test_value_types_that_do_not_exist(kind):
    with pytest.raises(ValueError, match=f"function: a value type does not exist; expected one of .*, got '{kind}'"):
        host.function("i32", kind)
    with pytest.raises(ValueError, match=f"got '{kind}'"):
        host.function("i32", returns=kind)


def test_types_of_items():
    assert host.HostMemory(1, 2).type == host.MemoryType(1, 2)
    assert host.HostTable(1, 2, "externref").type == host.TableType("externref", 1, 2)
    assert host.HostGlobal("i64", 5).type == host.GlobalType("i64")
