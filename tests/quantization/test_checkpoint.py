"""The files of an int8 model: what is written is read back, and a damaged directory is refused."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from funcnet.models import bert
from funcnet.quantization import Int8Model, calibrate, convert, is_int8, open_int8, refuse_int8, save_int8

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def row(length):
    ids = np.arange(length, dtype=np.int32)[None] % 40
    return ids, np.ones_like(ids), np.zeros_like(ids)


@pytest.fixture(scope="module")
def model():
    net = bert.BertForMaskedLM(bert.BertConfig.preset("tiny", vocab_size=40, num_hidden_layers=1))
    params, state = net.init(jax.random.key(0))
    ranges = calibrate(net, params, state, [row(32)])
    nets = {length: convert(net, params, state, ranges, row(length)) for length in (8, 16, 32)}
    return Int8Model("BertForMaskedLM", INPUTS, ("logits",), nets)


@pytest.fixture
def folder(model, tmp_path):
    save_int8(tmp_path, model)
    return tmp_path


@pytest.mark.slow
def test_every_net_gives_the_same_bytes_after_reading(model, folder):
    opened = open_int8(folder)
    assert (opened.kind, opened.inputs, opened.outputs) == (model.kind, model.inputs, model.outputs)
    assert list(opened.nets) == [8, 16, 32]
    for length, net in opened.nets.items():
        np.testing.assert_array_equal(net(*row(length)), model.nets[length](*row(length)))
        assert {n: array.tobytes() for n, array in net.constants.items()} == {
            n: np.asarray(array).tobytes() for n, array in model.nets[length].constants.items()
        }


@pytest.mark.slow
def test_shorter_nets_share_the_weights(folder):
    *shorter, longest = open_int8(folder).nets.values()
    for net in shorter:
        own = [array for number, array in net.constants.items() if array is not longest.constants.get(number)]
        assert sum(array.nbytes for array in own) <= 4 * 16 * 128  # the positions, which depend on the length
    weights = (folder / "model.safetensors").stat().st_size
    assert weights > 200_000 and (folder / "length-8.safetensors").stat().st_size < 0.5 * weights


@pytest.mark.slow
def test_a_directory_is_int8_only_when_all_files_are_written(model, tmp_path):
    assert not is_int8(tmp_path)
    refuse_int8(tmp_path, "here")
    (tmp_path / "length-8.safetensors").mkdir()  # cannot be written
    with pytest.raises(OSError):
        save_int8(tmp_path, model)
    assert not is_int8(tmp_path)
    with pytest.raises(FileNotFoundError, match="has no int8 model"):
        open_int8(tmp_path)


def test_damaged_directories_are_refused(model, folder):
    about = json.loads((folder / "int8.json").read_text())
    changes = ({"format": 99}, {"lengths": []}, {"lengths": "many"}, {"lengths": [16, 8]}, {"kind": None})
    for change in (*changes, {"kind": ""}, {"inputs": None}, {"outputs": [""]}, {"outputs": []}, {"digests": None}):
        (folder / "int8.json").write_text(json.dumps({**about, **change}))
        with pytest.raises(ValueError, match=r"int8\.json is invalid"):
            open_int8(folder)
    (folder / "int8.json").write_text("[]")
    with pytest.raises(ValueError, match=r"int8\.json is invalid"):
        open_int8(folder)
    (folder / "int8.json").write_text(json.dumps({**about, "format": 1}))
    with pytest.raises(ValueError, match=r"is of an older version; expected format 2, got 1\. Run funcnet quantize"):
        open_int8(folder)
    (folder / "int8.json").write_text(json.dumps(about)[:40])
    with pytest.raises(ValueError, match=r"open_int8: .*int8\.json is not valid JSON"):
        open_int8(folder)
    with pytest.raises(ValueError, match=r"here: .* holds an int8 model"):
        refuse_int8(folder, "here")


def test_files_that_are_mixed_or_altered_are_refused(folder):
    files = {name: (folder / name).read_bytes() for name in ("model.safetensors", "length-8.safetensors")}
    flipped = bytearray(files["model.safetensors"])
    flipped[-1] ^= 1
    for name, data in (("model.safetensors", bytes(flipped)), ("length-8.safetensors", files["model.safetensors"])):
        (folder / name).write_bytes(data)
        with pytest.raises(ValueError, match=rf"{name} does not belong to int8\.json; expected SHA-256"):
            open_int8(folder)
        (folder / name).write_bytes(files[name])
    (folder / "length-8.safetensors").unlink()
    with pytest.raises(ValueError, match=r"length-8\.safetensors does not belong .* got no file"):
        open_int8(folder)


def test_nets_that_do_not_fit_are_refused(model, tmp_path):
    """The files are as they were written, and the nets are not those of the description."""
    swapped = dataclasses.replace(model, nets={8: model.nets[16], 32: model.nets[32]})
    fewer = dataclasses.replace(model, outputs=("logits", "more"))
    for wrong in (swapped, fewer):
        save_int8(tmp_path, wrong)
        with pytest.raises(ValueError, match=r"does not fit int8\.json; expected inputs input_ids, .* got \[\(1, "):
            open_int8(tmp_path)
    (number, *_) = model.nets[32].constants
    rest = {n: array for n, array in model.nets[32].constants.items() if n != number}
    save_int8(tmp_path, dataclasses.replace(model, nets={32: dataclasses.replace(model.nets[32], constants=rest)}))
    with pytest.raises(ValueError, match=r"is not complete; expected all constants .* got 1 that are in neither"):
        open_int8(tmp_path)


def test_no_nets_are_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no net"):
        save_int8(tmp_path, Int8Model("x", (), (), {}))
