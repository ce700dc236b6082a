"""`funcnet export`: files that other programs run, and one-line errors."""

import shutil

import jax
import numpy as np
import onnxruntime
import pytest
from ai_edge_litert.interpreter import Interpreter

from funcnet import export
from funcnet.cli import main
from funcnet.models import bert
from funcnet.quantization import Int8Model, QuantizedNet, calibrate, convert, save_int8
from tests.export.models import drawn
from tests.export.web.models import saved

NAMES = ("input_ids", "attention_mask", "token_type_ids")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    model = bert.BertForMaskedLM(bert.BertConfig.preset("tiny", vocab_size=60, num_hidden_layers=1))
    bert.save_pretrained(path, model, *drawn(model))
    return path


@pytest.fixture(scope="module")
def int8(folder, tmp_path_factory):
    """The same model in integers, for rows of 8 and 16 tokens, and its nets."""
    path = tmp_path_factory.mktemp("int8")
    model, params, state = bert.from_pretrained(folder, bert.BertForMaskedLM)
    rows = {length: example(length) for length in (8, 16)}
    ranges = calibrate(model, params, state, rows.values())
    nets = {length: convert(model, params, state, ranges, row) for length, row in rows.items()}
    save_int8(path, Int8Model("BertForMaskedLM", NAMES, ("logits",), nets))
    shutil.copy(folder / "config.json", path)
    return path, nets


def example(length):
    ids = np.random.default_rng(0).integers(1, 60, (1, length)).astype(np.int32)
    return ids, np.ones_like(ids), np.zeros_like(ids)


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as leave:
        main(["export", *map(str, arguments)])
    return leave.value.code, capsys.readouterr()


def expected(folder, ids):
    model, params, state = bert.from_pretrained(folder, bert.BertForMaskedLM)
    return jax.jit(model.apply)(params, state, ids, np.ones_like(ids), np.zeros_like(ids))[0]


@pytest.mark.slow
@pytest.mark.parametrize("placed", ["inside", pytest.param("beside", marks=pytest.mark.slow)])
def test_onnx(folder, tmp_path, capsys, placed):
    code, said = run(capsys, folder, "--to", "onnx", "--out", tmp_path / "m.onnx", "--weights", placed)
    assert code == 0, said.err
    assert "as onnx: BertForMaskedLM; largest difference" in said.out and "operators" in said.out
    assert said.out.count("wrote ") == (2 if placed == "beside" else 1)
    ids = np.arange(1, 22, dtype=np.int32).reshape(3, 7)  # another batch and length than those of the example
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    feed = dict(zip(NAMES, (ids, np.ones_like(ids), np.zeros_like(ids)), strict=True))
    (got,) = session.run(["logits"], feed)
    np.testing.assert_allclose(got, expected(folder, ids), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_stablehlo(folder, tmp_path, capsys):
    code, said = run(capsys, folder, "--to", "stablehlo", "--out", tmp_path / "m.stablehlo")
    assert code == 0, said.err
    assert "as stablehlo: BertForMaskedLM; largest difference" in said.out and "cpu, cuda, tpu" in said.out
    ids = np.arange(1, 22, dtype=np.int32).reshape(3, 7)
    loaded = export.load_stablehlo(tmp_path / "m.stablehlo")
    got = loaded(ids, np.ones_like(ids), np.zeros_like(ids))["logits"]
    np.testing.assert_allclose(got, expected(folder, ids), rtol=0, atol=1e-5)
    long = np.ones((1, 513), np.int32)
    with pytest.raises(ValueError, match="expected length <= 512, got length = 513"):
        loaded(long, long, long)


def test_fixed_sizes(folder, tmp_path, capsys):
    sizes = ["--batch-size", 1, "--length", 8]
    code, said = run(capsys, folder, "--to", "onnx", "--out", tmp_path / "m.onnx", *sizes)
    assert code == 0, said.err
    assert export.load_onnx(tmp_path / "m.onnx").arguments[0].shape == (1, 8)


@pytest.mark.slow
def test_wasm(folder, tmp_path, capsys):
    sizes = ["--length", 8, 16]
    code, said = run(capsys, folder, "--to", "wasm", "--out", tmp_path / "m.wasm", *sizes, "--weights", "module")
    assert code == 0, said.err
    assert "kB of code; lengths 8, 16" in said.out and "m.weights.wasm" in said.out
    runner = export.load_wasm(tmp_path / "m.wasm")
    ids = np.arange(1, 17, dtype=np.int32)[None]
    (got,) = runner(ids, np.ones_like(ids), np.zeros_like(ids))
    np.testing.assert_allclose(got, expected(folder, ids), rtol=0, atol=1e-5)


def test_web(tmp_path, capsys):
    model = saved(tmp_path / "model", "BertForMaskedLM")
    said_by_page = ["--task", "similarity", "--title", "Two <texts>", "--examples", "one\nanother"]
    code, said = run(capsys, model, "--to", "web", "--out", tmp_path / "page", "--length", 8, *said_by_page)
    assert code == 0, said.err
    assert "as web: similarity; largest difference" in said.out
    page = (tmp_path / "page" / "index.html").read_text("utf-8")
    assert "<h1>Two &lt;texts&gt;</h1>" in page and '"examples":["one\\nanother"]' in page


def test_a_page_has_one_text_at_a_time(folder, tmp_path, capsys):
    code, said = run(capsys, folder, "--to", "web", "--out", tmp_path / "page", "--batch-size", 2)
    assert code == 2 and "export: --batch-size is out of range; expected 1 for a web page, got 2" in said.err
    assert not (tmp_path / "page").exists()


@pytest.mark.slow
def test_integers_as_tflite(int8, tmp_path, capsys, monkeypatch):
    path, nets = int8
    opened = []
    load = QuantizedNet.load
    monkeypatch.setattr(QuantizedNet, "load", lambda file: opened.append(file) or load(file))
    code, said = run(capsys, path, "--to", "tflite", "--out", tmp_path / "m.tflite", "--length", 8)
    assert code == 0, said.err
    assert len(opened) == len(nets)  # each file is read once
    assert "as tflite: BertForMaskedLM; 0 of 480 values differ from LiteRT's; rows of 8 tokens" in said.out
    signature = Interpreter(str(tmp_path / "m.tflite")).get_signature_runner()
    got = signature(**dict(zip(NAMES, example(8), strict=True)))["logits"]
    np.testing.assert_array_equal(got, nets[8](*example(8)))


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [(), ("--length", 16, 8, 16)])
def test_integers_as_wasm(int8, tmp_path, capsys, lengths):
    path, nets = int8
    code, said = run(capsys, path, "--to", "wasm", "--out", tmp_path / "m.wasm", *lengths)
    assert code == 0, said.err
    assert "kB of code; lengths 8, 16" in said.out
    runner = export.load_wasm(tmp_path / "m.wasm")
    for length, net in nets.items():
        np.testing.assert_array_equal(runner(*example(length))[0], net(*example(length)))


@pytest.mark.parametrize(
    "to, more, message",
    [
        ("onnx", [], "has an int8 model; expected --to wasm or tflite, got onnx"),
        ("tflite", ["--weights", "beside"], "--weights beside is for other forms; expected inside, got --to tflite"),
        ("tflite", ["--length", "9"], "has no net of this --length; expected one of 8, 16, got 9"),
        ("wasm", ["--length", "9", "16"], "has no net of this --length; expected one of 8, 16, got 9"),
        ("wasm", ["--batch-size", "2"], "--batch-size is out of range; expected 1 for an int8 model, got 2"),
    ],
)
def test_what_integers_cannot_be(int8, tmp_path, capsys, to, more, message):
    code, said = run(capsys, int8[0], "--to", to, "--out", tmp_path / f"m.{to}", *more)
    assert code == 2 and message in said.err and said.err.count("\n") == 1


def test_real_numbers_are_quantized_first(folder, tmp_path, capsys):
    code, said = run(capsys, folder, "--to", "tflite", "--out", tmp_path / "m.tflite")
    assert code == 2 and f"Run funcnet quantize {folder} first." in said.err


@pytest.mark.parametrize(
    "more, message",
    [
        (["--length", "600"], "export: --length is out of range; expected 1 to 512, got 600."),
        (["--length", "8", "16"], "--length has several values; expected one for onnx, got 2"),
        (["--weights", "module"], "--weights module is for wasm; expected inside or beside, got --to onnx"),
        (["--title", "A page"], "--title is for a web page; expected --to web, got --to onnx"),
        (["--batch-size", "0"], "--batch-size"),
        (["--out", "no/such/folder/m.onnx"], "expected a file in an existing folder"),
    ],
)
def test_wrong_arguments(folder, tmp_path, capsys, more, message):
    code, said = run(capsys, folder, "--to", "onnx", "--out", tmp_path / "m.onnx", *more)
    assert code == 2 and message in said.err and said.err.count("\n") == 1
    assert not (tmp_path / "m.onnx").exists()


def test_the_models_own_weights_are_not_overwritten(folder, tmp_path, capsys):
    out = folder / "model.onnx"  # beside it would be model.safetensors
    code, said = run(capsys, folder, "--to", "onnx", "--out", out, "--weights", "beside")
    assert code == 2 and "is also an input file" in said.err


@pytest.mark.parametrize(
    "form, placed, names",
    [
        ("stablehlo", "inside", ["m"]),
        ("stablehlo", "beside", ["m", "m.safetensors"]),
        ("onnx", "inside", ["m"]),
        ("onnx", "beside", ["m", "m.safetensors"]),
        ("wasm", "inside", ["m"]),
        ("wasm", "beside", ["m", "m.weights"]),
        ("wasm", "module", ["m", "m.weights.wasm"]),
        ("web", "inside", ["m/index.html"]),
        ("web", "beside", ["m/index.html", "m/model.wasm", "m/model.weights"]),
        ("tflite", "inside", ["m"]),
    ],
)
def test_no_file_is_replaced(folder, int8, tmp_path, capsys, form, placed, names):
    model = int8[0] if form == "tflite" else folder
    for number, name in enumerate(names):
        file = tmp_path / str(number) / name
        file.parent.mkdir(parents=True)
        file.write_text("mine")
        out = tmp_path / str(number) / "m"
        code, said = run(capsys, model, "--to", form, "--out", out, "--weights", placed)
        message = f"export: --out {file} exists; expected a new file, got an existing one. Delete it, or choose"
        assert code == 2 and message in said.err and said.err.count("\n") == 1 and not said.out
        assert file.read_text() == "mine"
        assert [p for p in (tmp_path / str(number)).rglob("*") if p.is_file()] == [file]


@pytest.mark.parametrize("form", ["stablehlo", "onnx", "wasm", "web", "tflite"])
def test_a_folder_is_no_file_and_a_file_no_folder(folder, int8, tmp_path, capsys, form):
    out = tmp_path / "m"
    (out.touch if form == "web" else out.mkdir)()
    code, said = run(capsys, int8[0] if form == "tflite" else folder, "--to", form, "--out", out)
    message = "expected a folder, got a file" if form == "web" else "expected a file, got a folder"
    assert code == 2 and f"export: --out {out}; {message}" in said.err and said.err.count("\n") == 1


@pytest.mark.slow
def test_a_page_may_be_in_an_existing_folder(tmp_path, capsys):
    model = saved(tmp_path / "model", "BertForMaskedLM")
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "mine.html").touch()
    code, said = run(capsys, model, "--to", "web", "--out", tmp_path / "page", "--length", 8)
    assert code == 0, said.err
    assert sorted(file.name for file in (tmp_path / "page").iterdir()) == ["index.html", "mine.html"]


@pytest.mark.parametrize("form", ["stablehlo", "onnx", "wasm", "web", "tflite"])
def test_packages_that_are_not_installed(folder, tmp_path, capsys, monkeypatch, form):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, said = run(capsys, folder, "--to", form, "--out", tmp_path / "m")
    assert code == 2 and 'Run pip install "funcnet[export]"' in said.err and said.err.count("\n") == 1


def test_what_is_no_text(tmp_path, capsys):
    code, said = run(capsys, tmp_path / "none", "--to", "onnx", "--out", tmp_path / "m.onnx")
    assert code == 2 and "none does not exist; expected the directory of a model" in said.err
    (tmp_path / "images.json").write_text("{}")
    code, said = run(capsys, tmp_path, "--to", "web", "--out", tmp_path / "page")
    assert code == 2 and "has a model of images; expected a BERT for --to web" in said.err
    code, said = run(capsys, tmp_path, "--to", "onnx", "--out", tmp_path / "m.onnx")
    assert code == 2 and "images.json is invalid" in said.err


def test_no_model(tmp_path, capsys):
    code, said = run(capsys, tmp_path, "--to", "stablehlo", "--out", tmp_path / "m")
    assert code == 2 and "has no model; expected config.json" in said.err


def test_help_names_the_forms(capsys):
    code, said = run(capsys, "--help")
    assert code == 0 and "load_stablehlo" in said.out and "ONNX Runtime" in said.out
