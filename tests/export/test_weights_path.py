"""Files whose own name is that of their weights are refused, and nothing is written."""

import numpy as np
import pytest

from funcnet.export.onnx.export import to_onnx
from funcnet.export.stablehlo import to_stablehlo
from funcnet.export.wasm.module import to_wasm
from funcnet.export.weights_path import weights_beside
from tests.export.saved import X, saved


@pytest.mark.parametrize("form", [to_onnx, to_stablehlo])
@pytest.mark.parametrize("name", ["net.safetensors", "net.SafeTensors"])
def test_safetensors(tmp_path, form, name):
    with pytest.raises(ValueError, match=r"save: the path is that of the weights; expected another suffix than .safe"):
        saved(form, tmp_path / name, weights="beside")
    assert not list(tmp_path.iterdir())
    saved(form, tmp_path / name, weights="inside")
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_wasm(tmp_path):
    weight = np.ones((3, 5), np.float32)
    beside = to_wasm(lambda x: x @ weight, X, weights="beside")
    with pytest.raises(
        ValueError, match=r"save: the path is that of the weights; expected another suffix than .weight"
    ):
        beside.save(tmp_path / "net.weights")
    assert not list(tmp_path.iterdir())


def test_other_paths(tmp_path):
    assert weights_beside("save", tmp_path / "net.v2.onnx", ".safetensors") == tmp_path / "net.v2.safetensors"
    assert weights_beside("save", tmp_path / "net", ".weights") == tmp_path / "net.weights"
