"""The dimensions of operators: the shapes of their results, and declarations and arrays that are wrong."""

import pytest

from funcnet.operators.dimensions import parse_dimensions
from funcnet.operators.schema_parsing import parse

NORM = parse("norm(Tensor x, Tensor? weight=None, float eps=1e-5) -> (Tensor, Tensor)")
DIMS = parse_dimensions("... d, d -> ... d, ...", NORM)


def test_shapes():
    assert DIMS.results("norm", [0, 1], [(2, 3, 4), (4,)]) == ((2, 3, 4), (2, 3))
    assert DIMS.results("norm", [0], [(4,)]) == ((4,), ())
    outer = parse_dimensions("... n, ... m -> ... n m 2", parse("outer(Tensor a, Tensor b) -> Tensor"))
    assert outer.results("outer", [0, 1], [(5, 2), (5, 3)]) == ((5, 2, 3, 2),)
    whole = parse_dimensions("n, n -> n", parse("add(Tensor a, Tensor b) -> Tensor"))
    assert not whole.is_mapped and whole.results("add", [0, 1], [(2,), (2,)]) == ((2,),)
    square = parse_dimensions("... 3 -> ...", parse("length(Tensor a) -> Tensor"))
    assert square.results("length", [0], [(7, 3)]) == ((7,),)


@pytest.mark.parametrize(
    ("dims", "error"),
    [
        ("... d -> ... d, ...", "dims do not fit the signature; expected entries for x, weight and for 2 results"),
        ("... d, d", "dims do not fit the signature"),
        ("d ..., d -> d, d", "dims have a wrong entry; .* got '...' in"),
        ("... d-1, d -> ... d, ...", "dims have a wrong entry; .* got 'd-1' in"),
        ("... d, d -> ... e, ...", "dims have a result whose size is unknown; expected one of d, which .* got 'e'"),
        ("... d, d -> ... d, d", "some results have no '...'; expected it in all results"),
        ("... d, d -> d, d", "some results have no '...'"),
    ],
)
def test_wrong_declarations(dims, error):
    with pytest.raises(ValueError, match=f"operators.define: norm: {error}"):
        parse_dimensions(dims, NORM)


@pytest.mark.parametrize(
    ("shapes", "error"),
    [
        ([(2, 4), (3,)], "dimension d of dims '... d, d -> ... d, ...' has two sizes; expected 4, got 3"),
        ([(), (3,)], r"the wrong number of dimensions; expected at least 1 by dims '.*', got the shape \(\)"),
        ([(2, 4), (1, 4)], r"the wrong number of dimensions; expected 1 by dims '.*', got the shape \(1, 4\)"),
    ],
)
def test_wrong_arrays(shapes, error):
    with pytest.raises(ValueError, match=f"norm: .*{error}"):
        DIMS.results("norm", [0, 1], shapes)


def test_an_argument_that_may_be_left_out_determines_no_shape():
    with pytest.raises(ValueError, match="expected one of d, which arguments that are never left out have, got 'e'"):
        parse_dimensions("... d, e d -> ... e", parse("linear(Tensor x, Tensor? weight=None) -> Tensor"))


def test_mapped_dimensions_must_agree():
    outer = parse_dimensions("... n, ... m -> ... n m", parse("outer(Tensor a, Tensor b) -> Tensor"))
    with pytest.raises(ValueError, match=r"the dimensions \.\.\. of dims .* differ; expected \(5,\), got \(6,\)"):
        outer.results("outer", [0, 1], [(5, 2), (6, 3)])
