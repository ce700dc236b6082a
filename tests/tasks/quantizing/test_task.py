"""`funcnet quantize`: the run of each command becomes an int8 directory, which other commands read."""

import contextlib
import io
import json
import shutil

import jax
import numpy as np
import pytest
import safetensors.torch
import torch

from funcnet.export.tflite import to_tflite
from funcnet.files import read_json, write_json
from funcnet.quantization import is_int8, open_int8
from funcnet.serving import inference
from funcnet.tasks.finetuning.predict import evaluate, predict
from tests.tasks.command import SMALL, run_here, write_corpus
from tests.tasks.small_bert import all_texts, write_model, write_task

TASKS = ["classify", "labels", "regress", "pairs", "tokens", "answer"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a small BERT."""
    made = tmp_path_factory.mktemp("quantizing")
    write_model(made / "model", all_texts())
    return made


def finetuned(folder, task):
    """The output of a run that has learned the task, which takes longer where every label is a question of its own."""
    out = folder / f"tuned-{task}"
    if not out.exists():
        paths = ["--model", folder / "model", "--train", write_task(folder / task, task), "--out", out]
        epochs = "30" if task in ("labels", "regress") else "8"
        small = [
            "--seq-len",
            "32",
            "--batch-size",
            "8",
            "--epochs",
            epochs,
            "--split",
            "0.25",
            "--learning-rate",
            "3e-3",
        ]
        assert run_here("finetune", task, *paths, *small) == 0
    return out


@pytest.fixture(scope="module")
def tuned(folder):
    return finetuned(folder, "classify")


@pytest.fixture(scope="module")
def quantized(folder, tuned):
    """The int8 model of `tuned`, for 24 tokens and for the 32 of its training, which pads rows to 16 or 32."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run_here("quantize", tuned, "--out", folder / "int8", "--batch-size", "8", "--length", "24") == 0
    (folder / "printed.txt").write_text(printed.getvalue())
    return folder / "int8"


@pytest.mark.slow
def test_it_prints_the_layers_that_lose_most(folder, quantized):
    _, worst = (folder / "printed.txt").read_text().split("The layers that lose most, whose values ranges.png shows:\n")
    header, _, *rows = worst.splitlines()[:7]
    assert header.split()[:3] == ["module", "operation", "dtype"] and rows[0].endswith("<- loses most")
    assert all(" int8 " in row for row in rows)
    assert (quantized / "ranges.png").read_bytes().startswith(b"\x89PNG")


def test_the_directory_has_the_integers_and_both_metrics(tuned, quantized):
    values = read_json(quantized / "eval.json")
    assert values["float"]["accuracy"] == read_json(tuned / "eval.json")["accuracy"] == 1.0
    assert values["int8"]["accuracy"] == 1.0
    assert abs(values["int8"]["loss"] - values["float"]["loss"]) < 0.05
    assert values["steps"] == 0 and values["int8"]["bytes"] == sum(
        file.stat().st_size for file in quantized.glob("*.safetensors")
    )
    for name in ("config.json", "vocab.txt", "tokenizer.json", "finetuning.json"):
        assert (quantized / name).read_bytes() == (tuned / name).read_bytes()


def test_lengths_share_their_weights(quantized):
    model = open_int8(quantized)
    assert list(model.nets) == [24, 32] and model.inputs == ("input_ids", "attention_mask", "token_type_ids")
    short, long = model.nets.values()
    same = [number for number, array in short.constants.items() if array is long.constants.get(number)]
    own = short.size - sum(short.constants[number].nbytes for number in same)
    assert own == 24 * 32 * 4  # the rows of the table of positions, float32, added to the rows of token types
    assert (quantized / "length-24.safetensors").stat().st_size < (quantized / "model.safetensors").stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize("length", [24, 32])
def test_the_nets_are_litert_byte_for_byte(quantized, tmp_path, length):
    ids = np.random.default_rng(0).integers(0, 100, (1, length)).astype(np.int32)
    mask = (np.arange(length) < length - 3).astype(np.int32)[None]
    to_tflite(open_int8(quantized).nets[length], tmp_path / "model.tflite", ids, mask, np.zeros_like(ids))


@pytest.mark.slow
def test_predict_and_serving_read_it(folder, tuned, quantized):
    file = write_task(folder / "classify", "classify")
    real, integers = predict(tuned, file)[0], predict(quantized, file)[0]
    assert [one["label"] for one in real] == [one["label"] for one in integers]
    assert evaluate(quantized, file)["accuracy"] == evaluate(tuned, file)["accuracy"]
    text = "the soup number 3 was really great"
    answer = inference(quantized, lengths=[16, 24], ahead=False)(text)
    assert answer["probabilities"] == pytest.approx(inference(tuned, ahead=False)(text)["probabilities"], abs=0.05)


def test_what_needs_real_numbers_refuses_it(quantized, tmp_path, capsys):
    lines = tmp_path / "lines.txt"
    lines.write_text("a soup\n")
    assert run_here("features", quantized, lines, "--out", tmp_path / "x.npy") == 2
    assert "holds an int8 model" in capsys.readouterr().err
    assert run_here("quantize", quantized, "--out", tmp_path / "again") == 2
    assert "holds an int8 model" in capsys.readouterr().err


@pytest.mark.slow
def test_training_aware_of_the_rounding_goes_through_the_run(folder, tuned, tmp_path, capsys):
    out, small = tmp_path / "out", ["--steps", "4", "--batch-size", "8", "--length", "32", "--log-every", "1"]
    assert run_here("quantize", tuned, "--out", out, *small) == 0
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 3, 4] and "eval_accuracy" in rows[-1]
    assert (out / "report.png").exists() and read_json(out / "run.json")["finished"]
    assert read_json(out / "eval.json")["int8"]["accuracy"] == 1.0
    printed = capsys.readouterr().out
    assert "metric" in printed and "float" in printed and "int8" in printed
    assert run_here("quantize", tuned, "--out", out, *small, "--resume") == 0
    assert "has finished" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS[1:])
def test_every_task_can_be_int8(folder, tmp_path, task):
    out = tmp_path / "out"
    small = ["--batch-size", "8", "--length", "32", "--log-every", "1", "--steps", "2"]
    assert run_here("quantize", finetuned(folder, task), "--out", out, *small) == 0
    values = read_json(out / "eval.json")
    metric = {"labels": "f1_macro", "regress": "pearson", "tokens": "f1", "answer": "f1"}.get(task, "accuracy")
    size = 100 if task == "answer" else 1
    assert values["float"][metric] > 0.8 * size  # a model that guesses would tell nothing
    assert values["int8"][metric] > values["float"][metric] - 0.05 * size


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--packed",), ("--scan-layers",), ("--long-seq-len", "64")], ids=str)
def test_a_pretrained_model_fills_masks(tmp_path, capsys, more):
    run, out = tmp_path / "run", tmp_path / "out"
    corpus = write_corpus(tmp_path / "corpus")
    assert run_here("pretrain", "--corpus", corpus, "--out", run, *SMALL, "--steps", "30", *more) == 0
    assert run_here("quantize", run, "--out", out, "--batch-size", "8", "--steps", "3") == 0
    values = read_json(out / "eval.json")
    assert abs(values["float"]["mlm_loss"] - values["int8"]["mlm_loss"]) < 0.05
    capsys.readouterr()
    assert run_here("fill-mask", out, "the [MASK] of the [MASK]") == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.slow
def test_images(tmp_path):
    """Accuracy is compared in `test_accuracy.py`: after 30 steps, the scores of half of the images are nearly equal."""
    small = ["--steps", "30", "--batch-size", "32"]
    assert run_here("train-images", "--out", tmp_path / "run", *small) == 0
    assert run_here("quantize", tmp_path / "run", "--out", tmp_path / "out") == 0
    values = read_json(tmp_path / "out" / "eval.json")
    assert values["float"]["accuracy"] == read_json(tmp_path / "run" / "eval.json")["accuracy"]
    assert values["int8"].keys() == values["float"].keys()
    assert values["int8"]["accuracy"] > 0.2  # guesses are right for a tenth of the images
    assert values["int8"]["bytes"] < 0.26 * values["float"]["bytes"]


@pytest.mark.slow
def test_a_hugging_face_directory_needs_texts(folder, tmp_path, capsys):
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(all_texts()))
    model = folder / "model"
    for more, message in (
        ((), "expected --texts FILE"),
        (("--texts", texts, "--steps", "2"), "expected --texts FILE, and no --steps"),
    ):
        assert run_here("quantize", model, "--out", tmp_path / "out", *more) == 2
        assert message in capsys.readouterr().err
    assert run_here("quantize", model, "--out", tmp_path / "out", "--texts", texts, "--length", "16") == 0
    nets = open_int8(tmp_path / "out").nets
    ids = np.full((1, 16), 5, np.int32)
    assert jax.tree.map(np.shape, nets[16](ids, ids * 0 + 1, ids * 0))[0][:2] == (1, 16)
    texts.write_text("\n\n")
    assert run_here("quantize", model, "--out", tmp_path / "empty", "--texts", texts) == 2
    assert "has no text" in capsys.readouterr().err


def test_bad_directories(folder, tuned, tmp_path, capsys):
    (tmp_path / "nothing").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for arguments, message in (
        ((tmp_path / "nothing", "--out", tmp_path / "out"), "has no run; expected run.json"),
        ((tmp_path / "no_such", "--out", tmp_path / "out"), "is not a directory"),
        ((tuned, "--out", tuned / "int8"), "is inside the model's directory"),
        ((tuned, "--out", tuned), "is inside the model's directory"),
        ((tuned, "--out", tmp_path / "full"), "is not empty"),
        ((tuned, "--out", tmp_path / "out", "--texts", tmp_path / "full" / "file"), "expected no texts"),
        ((tuned, "--out", tmp_path / "out", "--length", "4096"), "--length is out of range"),
        ((tuned, "--out", tmp_path / "out", "--calibration-batches", "0"), "--calibration-batches is out of range"),
    ):
        assert run_here("quantize", *arguments) == 2, arguments
        assert message in capsys.readouterr().err, arguments
    assert not (tmp_path / "out").exists()


def test_data_that_have_changed_are_refused(folder, tuned, tmp_path, capsys):
    file = folder / "classify" / "train.csv"
    before = file.read_text()
    try:
        file.write_text(before.replace("soup", "film"))
        assert run_here("quantize", tuned, "--out", tmp_path / "out") == 2
        error = capsys.readouterr().err
        assert "quantize: files have changed since the run" in error and "--out" not in error
        file.unlink()
        assert run_here("quantize", tuned, "--out", tmp_path / "out") == 2
        assert "does not exist; expected the data of the run" in capsys.readouterr().err
    finally:
        file.write_text(before)


@pytest.mark.slow
def test_the_run_is_only_read(tuned, tmp_path):
    record = read_json(tuned / "run.json")
    older = {**record, "facts": dict(list(record["facts"].items())[1:])}  # an older release recorded less
    try:
        write_json(tuned / "run.json", older)
        assert run_here("quantize", tuned, "--out", tmp_path / "out", "--batch-size", "8", "--length", "32") == 0
        assert record != older == read_json(tuned / "run.json")
    finally:
        write_json(tuned / "run.json", record)


@pytest.mark.slow
def test_a_copy_that_fails_leaves_no_int8_model(tuned, tmp_path, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    assert run_here("quantize", tuned, "--out", tmp_path / "out", "--batch-size", "8", "--length", "32") != 0
    assert not is_int8(tmp_path / "out")


@pytest.mark.slow
def test_the_size_of_a_model_in_torch_s_format(folder, tmp_path):
    copy, texts = tmp_path / "copy", tmp_path / "texts.txt"
    shutil.copytree(folder / "model", copy)
    arrays = safetensors.torch.load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    torch.save(arrays, copy / "pytorch_model.bin")
    texts.write_text("\n".join(all_texts()))
    assert run_here("quantize", copy, "--out", tmp_path / "out", "--texts", texts, "--length", "16") == 0
    size = sum(array.nbytes for array in arrays.values())
    assert read_json(tmp_path / "out" / "eval.json")["float"]["bytes"] == pytest.approx(size, rel=0.05)


def test_an_architecture_without_integers_is_named(folder, tmp_path, capsys):
    copy = tmp_path / "relative"
    shutil.copytree(folder / "model", copy)
    config = read_json(copy / "config.json")
    (copy / "config.json").write_text(json.dumps({**config, "architectures": ["BertForMultipleChoice"]}))
    texts = tmp_path / "texts.txt"
    texts.write_text("soup\n" * 9)
    assert run_here("quantize", copy, "--out", tmp_path / "out", "--texts", texts) == 2
    assert "BertForMultipleChoice" in capsys.readouterr().err
