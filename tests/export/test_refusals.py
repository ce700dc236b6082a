"""What StableHLO and ONNX refuse alike: wrong calls and arguments, incomplete files, and weights of another model."""

import numpy as np
import pytest

from funcnet.export.onnx.export import load_onnx, to_onnx
from funcnet.export.stablehlo import load_stablehlo, to_stablehlo
from tests.export.saved import X, saved

FORMS = {"stablehlo": (to_stablehlo, load_stablehlo), "onnx": (to_onnx, load_onnx)}
# {what is wrong: (arrays, error, message)}
CALLS = {
    "a shape": (
        [np.zeros((4, 5), np.float32)],
        ValueError,
        r"input has the wrong shape; expected \(batch, 3\), got \(4, 5\)",
    ),
    "a dtype": ([np.zeros((4, 3), np.int32)], TypeError, "input has the wrong dtype; expected float32, got int32"),
    "no array": ([], TypeError, "the number of arrays is wrong; expected 1"),
    "two arrays": ([X, X], TypeError, "the number of arrays is wrong; expected 1"),
}


@pytest.fixture(scope="module", params=FORMS)
def form(request):
    return FORMS[request.param]


@pytest.fixture(scope="module")
def file(form, tmp_path_factory):
    """A file with its weights inside."""
    path = tmp_path_factory.mktemp("inside") / "net"
    saved(form[0], path)
    return path


@pytest.fixture
def beside(form, tmp_path):
    """A file with its weights beside it, and those of another model."""
    for seed, name in enumerate(("net", "other")):
        saved(form[0], tmp_path / name, seed, weights="beside")
    return tmp_path / "net"


@pytest.mark.parametrize("wrong", CALLS)
def test_calls(form, file, wrong):
    arrays, error, message = CALLS[wrong]
    with pytest.raises(error, match=message):
        form[1](file)(*arrays)


def test_arguments(form):
    with pytest.raises(ValueError, match="weights is unknown; expected 'inside' or 'beside', got 'outside'"):
        form[0](lambda x: x, X, weights="outside")


@pytest.mark.parametrize("kept", [0, 10, 0.3, 0.5, 0.9, 0.99])
def test_a_truncated_file(form, file, tmp_path, kept):
    content = file.read_bytes()
    (tmp_path / "net").write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    with pytest.raises(ValueError, match=r"is not a complete (export|ONNX model)"):
        form[1](tmp_path / "net")


def test_weights_of_another_model(form, beside):
    beside.with_name("other.safetensors").replace(beside.with_name("net.safetensors"))
    with pytest.raises(ValueError, match=r"net.safetensors has other weights than those that were exported"):
        form[1](beside)


def test_no_weights(form, beside):
    beside.with_name("net.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"needs its weights; expected the file .*net.safetensors"):
        form[1](beside)


def test_altered_weights(form, beside):
    weights = beside.with_name("net.safetensors")
    content = bytearray(weights.read_bytes())
    content[-3] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ValueError, match="has other weights"):
        form[1](beside)
