"""The table of torch's operations beside torch's own, which its wheel contains."""

import functools
import re
from pathlib import Path

import pytest
import torchgen
from torchgen.packaged.autograd.load_derivatives import load_derivatives

from funcnet.operators.graph.torch_operations.aten_operations import ATEN
from funcnet.operators.graph.torch_operations.aten_values import VALUES
from tests.operators.graph.torch_graph import UNSAVED

GRADIENTS = re.compile(r"_is_|_device|_defined|^grad|_dtype$|_conj|_numel|_layout")  # what belongs to the gradient


@functools.cache
def torchs_table():
    folder = Path(torchgen.__file__).parent / "packaged"
    native = folder / "ATen" / "native"
    infos, _ = load_derivatives(
        str(folder / "autograd" / "derivatives.yaml"), str(native / "native_functions.yaml"), str(native / "tags.yaml")
    )
    return {str(kinds["Default"].func.func.name): kinds["Default"] for kinds in infos.values() if "Default" in kinds}


@pytest.mark.slow
def test_every_row_is_torchs():
    for name, row in ATEN.items():
        info = torchs_table()[name]
        assert row.node == info.op, name
        differentiable = [one.name for one in info.args_with_derivatives]
        assert [one for one in row.inputs if one not in row.fixed] == differentiable, name
        saved = set()
        for derivative in info.derivatives:
            for one in (*derivative.saved_inputs, *derivative.saved_outputs):
                saved.add(str(getattr(one.nctype.name, "name", one.nctype.name)))
        saved = {one for one in saved if not UNSAVED.search(one) and not GRADIENTS.search(one)}
        assert set(row.saved) - {"source"} == saved - {"source"}, name


def test_values_are_of_operations():
    assert VALUES.keys() <= ATEN.keys()
    for row in ATEN.values():
        assert all(needed is None or needed in row.inputs for needed in row.saved.values())
        assert row.fixed <= set(row.inputs)
