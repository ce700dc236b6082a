"""Annotations: the kinds that they name."""

import libcst as cst
import pytest

from funcnet.porting.analysis.annotations import annotated
from funcnet.porting.reading.expressions import code


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("torch.Tensor", "tensor"), ("torch.LongTensor", "tensor"), ("'Tensor'", "tensor"),
        ("'torch.Tensor'", "tensor"), ("Optional[torch.Tensor]", "tensor none"), ("typing.Optional[int]", "int none"),
        ("torch.Tensor | None", "tensor none"), ("Union[int, float]", "int float"), ("List[torch.Tensor]", "list"),
        ("dict[str, int]", "dict"), ("tuple[int, ...]", "tuple"), ("torch.nn.Module", "module"),
        ("torch.dtype", "dtype"), ("torch.Size", "tuple"), ("Callable", "function"), ("Config", ""),
        ("Optional[Config]", ""), ("'Config'", ""), ("int | Config", ""),
    ],
)  # fmt: skip
def test_kinds(text, found):
    qualified = lambda node: code(node) if code(node).startswith("torch.") else None
    assert set(annotated(cst.parse_expression(text), qualified).kinds) == set(found.split())


def test_items():
    fact = annotated(cst.parse_expression("Tuple[int, torch.Tensor]"), code)
    assert [set(one.kinds) for one in fact.items] == [{"int"}, {"tensor"}]
