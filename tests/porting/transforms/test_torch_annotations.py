"""Annotations of results, against what the run saw."""

import pytest

from ..ported import check, module, port_text


@pytest.mark.parametrize(
    ("annotation", "value", "written"),
    [
        ("Dict[str, torch.Tensor]", "x", "jax.Array"),
        ("None", "x * 2", "jax.Array"),
        ("Dict[str, torch.Tensor]", "{'x': x}", "Dict[str, jax.Array]"),
        ("tuple[torch.Tensor, ...]", "(x, x)", "tuple[jax.Array, ...]"),
        ("Tuple[torch.Tensor, torch.Tensor]", "x.max(1)", "Tuple[jax.Array, jax.Array]"),
        ("torch.Tensor", "x", "jax.Array"),
        ("float", "x.sum().item()", "float"),
    ],
)
def test_written(annotation, value, written, tmp_path):
    text = module("return self.f(x)", more=f"def f(self, x) -> {annotation}:\n    return {value}")
    text = "from typing import Dict, Tuple\n" + text
    assert f"def f(self, x) -> {written}:" in port_text(tmp_path, text, "Net()", "torch.randn(2, 3)").text


@pytest.mark.parametrize(
    ("annotation", "written"),
    [
        ("_size_3_t", "int | tuple[int, ...]"),
        ("Optional[nn.common_types._size_2_opt_t]", "Optional[int | tuple[int, ...]]"),
        ("_ratio_2_t", "float | tuple[float, ...]"),
        ("Union[Type[_DropoutNd], None]", "Union[Type[nn.Module], None]"),
        ("_DropoutNd | None", "nn.Module | None"),
        ("nn.modules.conv._ConvNd", "nn.conv.Convolution"),
        ("Optional[torch.cuda.Stream]", "Optional[Any]"),
        ("torch.futures.Future[torch.Tensor]", "Any"),
        ("nn.modules.lazy.LazyModuleMixin", "nn.Module"),
    ],
)
@pytest.mark.parametrize("more", ["", ", Any"])
def test_types_that_funcnet_lacks(annotation, written, more, tmp_path):
    before = f"from typing import Optional, Type, Union{more}\n"
    before += "from torch.nn.common_types import _size_3_t, _ratio_2_t\n"
    before += "from torch.nn.modules.dropout import _DropoutNd\n"
    text = before + module("return self.f(x)", more=f"def f(self, x, y: {annotation} = None):\n    return x * 2")
    ported, _ = check(tmp_path, text)
    assert f"y: {written} = None" in ported.text
    imports = [line for line in ported.text.splitlines() if "import" in line and "Any" in line]
    assert len(imports) == ("Any" in written)


def test_such_a_name_outside_of_an_annotation_blocks(tmp_path):
    text = module("return x if isinstance(self.scale, torch.nn.modules.dropout._DropoutNd) else x * 2")
    assert port_text(tmp_path, text).levels == {"blocks"}
