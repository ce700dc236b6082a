"""Features against transformers' hidden states, and the files that they are written to."""

import json
import os
import shutil
import signal
import subprocess
import sys
import warnings

import numpy as np
import pyarrow as pa
import pytest
import torch
import transformers

from funcnet import text
from funcnet.tasks.features import FeatureExtractor, Features, write_features
from funcnet.tasks.features.command import FeaturesArguments, features
from tests import real_data
from tests.models.transformers_bert import make_reference
from tests.tasks.command import run_here
from tests.tracing import traced

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "vocab_size": 60,
    "max_position_embeddings": 40,
}
TEXTS = [
    "the cat sat",
    ("the dog lay by the door", "rain fell"),
    "",
    "the cat sat on the mat and the dog lay by the door " * 9,
    *(f"{'the cat ' * n}sat" for n in range(1, 18)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bert")
    words = ["the cat sat on the mat and the dog lay by the door while rain fell on the roof"] * 3
    text.save_tokenizer(text.train_wordpiece(words, vocab_size=60), path, max_length=40)
    make_reference(SIZES, transformers.BertModel).save_pretrained(path)
    return path


def theirs(path, texts, layers):
    """[(tokens, (L, T, D))] by transformers, a text at a time."""
    model = transformers.BertModel.from_pretrained(path).eval()
    tokenizer = transformers.BertTokenizerFast.from_pretrained(path)
    found = []
    for one in texts:
        pair = one if isinstance(one, tuple) else (one,)
        encoded = tokenizer(*pair, truncation=True, max_length=40, return_tensors="pt")
        with torch.inference_mode():
            hidden = model(**encoded, output_hidden_states=True).hidden_states
        values = np.stack([hidden[layer][0].numpy() for layer in layers])
        found.append((tokenizer.convert_ids_to_tokens(encoded["input_ids"][0]), values))
    return found


POOLED = {
    "none": lambda values: values,
    "cls": lambda values: values[:, 0],
    "mean": lambda values: values.mean(1),
    "max": lambda values: values.max(1),
}


@pytest.mark.slow
@pytest.mark.parametrize(("pool", "layers"), [("none", (-1, 0, 2)), ("mean", (-2,)), ("cls", (-1, 1)), ("max", (0,))])
def test_any_layers_of_texts_of_all_lengths(folder, pool, layers):
    extract = FeatureExtractor(folder, layers=layers, pool=pool, tokens=96)
    found = list(extract(iter(TEXTS)))
    for one, (tokens, values) in zip(found, theirs(folder, TEXTS, layers), strict=True):
        assert one.tokens == tokens
        np.testing.assert_allclose(one.values, POOLED[pool](values), rtol=2e-5, atol=2e-5)
    assert extract.truncated == 1
    if pool != "none":
        stacked = extract.array(TEXTS[:3])
        assert stacked.shape == ((3, 16) if len(layers) == 1 else (3, len(layers), 16))
        assert extract.array([]).shape == (0, *stacked.shape[1:])


def test_layers_above_are_not_run(folder):
    extract = FeatureExtractor(folder, layers=(1,))
    assert sorted(extract.model[0]["encoder"]["layer"]) == ["0"] and "pooler" not in extract.model[0]


def test_a_pooler_that_the_file_lacks_is_no_matter(folder, tmp_path):
    """No feature comes from it: nothing is to be said of new weights."""
    shutil.copytree(folder, tmp_path / "model")
    sizes = SIZES | {"num_hidden_layers": 1}
    make_reference(sizes, transformers.BertForMaskedLM).save_pretrained(tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert FeatureExtractor(tmp_path / "model", pool="cls").array(["the cat"]).shape == (1, 16)


@pytest.mark.slow
def test_no_program_is_compiled_after_the_first_of_each_length(folder):
    extract = FeatureExtractor(folder, tokens=96)
    extract.run.function, traces = traced(extract.run.function.__wrapped__)
    extract.run.compile(extract.model)
    random = np.random.default_rng(0)
    for _ in range(20):
        list(extract(["the cat " * int(n) for n in random.integers(0, 60, random.integers(1, 9))]))
    assert len(traces) == len(extract.run.shapes()) == 8


@pytest.mark.parametrize(("pool", "layers"), [("none", (-1, 0)), ("mean", (-1,)), ("none", (-1,)), ("mean", (-1, 0))])
def test_files_hold_what_was_found(folder, tmp_path, pool, layers):
    extract = FeatureExtractor(folder, layers=layers, pool=pool)
    found = list(extract(TEXTS))
    for suffix in (".npy", ".arrow", ".jsonl"):
        assert write_features(tmp_path / f"a{suffix}", iter(found), layers) == len(TEXTS)
    every = pool == "none"
    expected = [np.moveaxis(one.values, 1, 0) if every else one.values[None] for one in found]  # rows, L, D
    array = np.load(tmp_path / "a.npy", mmap_mode="r")
    whole = np.concatenate(expected)
    np.testing.assert_array_equal(array, whole[:, 0] if len(layers) == 1 else whole)
    if every:
        starts = np.load(tmp_path / "a.starts.npy")
        assert starts.tolist() == np.cumsum([0, *(len(one.tokens) for one in found)]).tolist()
    with pa.memory_map(str(tmp_path / "a.arrow")) as source:
        table = pa.ipc.open_file(source).read_all()
    assert table.column_names == ["tokens", *(f"layer_{layer}" for layer in layers)]
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text("utf-8").split("\n")[:-1]]
    for index, one in enumerate(found):
        assert table["tokens"][index].as_py() == one.tokens
        for place, layer in enumerate(layers):
            np.testing.assert_array_equal(np.float32(table[f"layer_{layer}"][index].as_py()), one.values[place])
        line = lines[index]
        assert line["linex_index"] == index
        if every:  # {"linex_index", "features": [{"token", "layers": [{"index", "values"}]}]}: Google's own form
            assert [feature["token"] for feature in line["features"]] == one.tokens
            values = [[layer["values"] for layer in feature["layers"]] for feature in line["features"]]
            np.testing.assert_allclose(np.moveaxis(np.array(values), 0, 1), one.values, atol=1e-6)
            assert [layer["index"] for layer in line["features"][0]["layers"]] == list(layers)
        else:
            np.testing.assert_allclose([layer["values"] for layer in line["layers"]], one.values, atol=1e-6)


def test_starts_do_not_outlive_the_vectors_that_they_are_of(tmp_path):
    """Beside pooled vectors a file of starts would be another run's."""
    every = [Features(["[CLS]", "[SEP]"], np.zeros((1, 2, 4), np.float32))]
    write_features(tmp_path / "a.npy", every, [-1])
    assert np.load(tmp_path / "a.starts.npy").tolist() == [0, 2]
    write_features(tmp_path / "a.npy", [Features(["[CLS]"], np.zeros((1, 4), np.float32))], [-1])
    assert [file.name for file in tmp_path.iterdir()] == ["a.npy"]


def test_an_empty_file_gives_an_empty_one(tmp_path):
    for suffix in (".npy", ".arrow", ".jsonl"):
        assert write_features(tmp_path / f"a{suffix}", [], [-1]) == 0
    assert len(np.load(tmp_path / "a.npy")) == 0 and (tmp_path / "a.jsonl").read_bytes() == b""
    assert pa.ipc.open_file(str(tmp_path / "a.arrow")).read_all().num_rows == 0


def test_the_command(folder, tmp_path, capsys):
    lines = tmp_path / "texts.txt"
    lines.write_bytes("\ufeffthe cat sat\r\nthe dog ||| lay ||| rain fell\n\nthe roof".encode())
    code = features(FeaturesArguments(folder, (lines,), tmp_path / "out.npy", layers=(-1, 0)))
    expected = theirs(folder, ["the cat sat", ("the dog ||| lay", "rain fell"), "", "the roof"], (-1, 0))
    assert code == 0 and "4 texts" in capsys.readouterr().out
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), [v.mean(1) for _, v in expected], rtol=2e-5, atol=2e-5)


def test_lines_are_read_as_googles_script_reads_them(folder, tmp_path):
    """extract_features.py strips a line, then takes its last " ||| " apart; an empty line is a text."""
    (tmp_path / "a.txt").write_text("  the cat \n\n \nthe cat ||| the dog ||| rain\nthe cat ||| \n ||| the cat\n")
    assert run_here("features", folder, tmp_path / "a.txt", "--out", tmp_path / "out.jsonl", "--pool", "none") == 0
    told = [json.loads(line)["features"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    pairs = ["the cat", "", "", ("the cat ||| the dog", "rain"), "the cat |||", "||| the cat"]
    assert [[one["token"] for one in line] for line in told] == [tokens for tokens, _ in theirs(folder, pairs, (-1,))]


def test_the_starts_are_named(folder, tmp_path, capsys):
    """And a suffix in capitals is one too."""
    (tmp_path / "a.txt").write_text("the cat\nthe cat sat\n")
    assert run_here("features", folder, tmp_path / "a.txt", "--out", tmp_path / "a.NPY", "--pool", "none") == 0
    said = "".join(capsys.readouterr().out.split())
    assert said.endswith(f"Written:{tmp_path / 'a.NPY'},{tmp_path / 'a.starts.npy'}")
    assert np.load(tmp_path / "a.NPY").shape == (9, 16) and np.load(tmp_path / "a.starts.npy").tolist() == [0, 4, 9]
    assert run_here("features", folder, tmp_path / "a.txt", "--out", tmp_path / "a.NPY") == 0
    assert ".starts." not in capsys.readouterr().out and not (tmp_path / "a.starts.npy").exists()


@pytest.mark.parametrize(
    ("suffix", "names"),
    [
        (".csv", "names and separators of the columns"),
        (".TSV", "names and separators of the columns"),
        (".jsonl", "keys and punctuation of JSON"),
    ],
)
def test_a_table_read_as_lines_is_told(folder, tmp_path, suffix, names):
    (tmp_path / f"a{suffix}").write_text("text\nthe cat\n")
    with pytest.warns(
        UserWarning, match=rf"a{suffix} is read as plain text. Each line is one text, including the {names}"
    ):
        features(FeaturesArguments(folder, (tmp_path / f"a{suffix}",), tmp_path / "out.npy"))
    assert len(np.load(tmp_path / "out.npy")) == 2


def test_a_fine_tuned_run_is_read_at_its_own_length(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model/finetuning.json").write_text('{"seq_len": 7}')
    lengths = [
        len(next(FeatureExtractor(tmp_path / "model", max_length=given, pool="none")([TEXTS[3]])).tokens)
        for given in (None, 9)
    ]
    assert lengths == [7, 9]


def test_help_tells_the_output(capsys):
    assert run_here("features", "--help") == 0
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for part in (
        " ||| ",
        "NAME.starts.npy",
        "(N, L, D)",
        "layer_-1",
        "with which the model was fine-tuned",
        "empty line",
        ".csv",
    ):
        assert part in told


@pytest.mark.filterwarnings("default:BertConfig")
def test_a_warning_is_a_line(folder, tmp_path, capsys):
    shutil.copytree(folder, tmp_path / "model")
    file = tmp_path / "model/config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"frobnicate": 3}))
    (tmp_path / "a.txt").write_text("the cat\n")
    assert run_here("features", tmp_path / "model", tmp_path / "a.txt", "--out", tmp_path / "a.npy") == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("funcnet: BertConfig: ") and "got frobnicate" in line


@pytest.mark.slow
def test_the_command_line_reads_standard_input(folder, tmp_path):
    out = tmp_path / "out.jsonl"
    program = "from funcnet.cli import main; main()"
    command = [sys.executable, "-c", program, "features", str(folder), "-", "--out", str(out), "--layers", "-1"]
    subprocess.run(command, input=b"the cat\nthe mat\n", check=True, capture_output=True)
    assert len(out.read_text().splitlines()) == 2


def test_the_command_tells_how_many_texts_were_cut(folder, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("the cat\n" + "the cat sat on the mat\n" * 2)
    assert features(FeaturesArguments(folder, (tmp_path / "a.txt",), tmp_path / "out.npy", seq_len=6)) == 0
    assert "per second; 2 were cut to 6 tokens. Written: " in " ".join(capsys.readouterr().out.split())


ONE = [Features(["[CLS]"], np.zeros((1, 2), np.float32))]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda f: FeatureExtractor(f, pool="sum"),
            "features: pool is unknown; expected one of mean, max, cls",
        ),
        (lambda f: FeatureExtractor(f, layers=(4,)), "features: layer is out of range; expected -4 to 3"),
        (lambda f: FeatureExtractor(f, layers=()), "features: layers is empty; expected at least one layer"),
        (lambda f: FeatureExtractor(f, max_length=41), "features: max_length is out of range; expected 3 to 40"),
        (
            lambda f: FeatureExtractor(f, pool="none").array(["a"]),
            "features: without pooling, texts of different lengths do not fit into one array; expected another pool",
        ),
        (lambda f: write_features(f / "a.txt", ONE, [-1]), r"a.txt: unknown format; expected .arrow, .npy"),
    ],
)
def test_refusals(folder, call, message):
    with pytest.raises(ValueError, match=message):
        call(folder)


def test_a_line_that_is_not_utf8_is_named(folder, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"good\nb\xffd\n")
    with pytest.raises(ValueError, match=r"a.txt, line 2 is not UTF-8; .* got byte 0xff"):
        features(FeaturesArguments(folder, (tmp_path / "a.txt",), tmp_path / "out.npy"))
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"files": []}, r"features: no input file; expected at least one .*, got none"),
        ({"files": ["no.txt"]}, r"no.txt is missing; expected a text file"),
        ({"files": ["."]}, r"is a folder; expected a text file"),
        ({"files": ["empty.txt"]}, r"empty.txt: the input is empty; expected at least one line"),
        ({"out": "none/a.npy"}, r"features: --out .*none/a.npy; expected a file in an existing folder"),
        ({"layers": (-1, 0, -1)}, r"features: --layers has duplicates; expected each layer once, got -1 0 -1"),
        ({"batch_tokens": 0}, r"features: --batch-tokens is out of range; expected at least 1, got 0"),
    ],
)
def test_what_is_wrong_is_said_before_the_work(folder, tmp_path, given, message):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "a.txt").write_text("the cat\n")
    files = tuple(tmp_path / name for name in given.pop("files", ["a.txt"]))
    out = tmp_path / given.pop("out", "a.npy")
    with pytest.raises((ValueError, OSError), match=message):
        features(FeaturesArguments(folder, files, out, **given))
    assert not out.exists()


@pytest.mark.parametrize(
    ("name", "out", "where"), [("f.jsonl", "f.jsonl", "--out"), ("f.starts.npy", "f.npy", "the second output file")]
)
def test_the_input_is_not_written_over(folder, tmp_path, capsys, name, out, where):
    (tmp_path / name).write_text("the cat sat\n")
    assert run_here("features", folder, tmp_path / name, "--out", tmp_path / out) == 2
    told = f"features: {where} {tmp_path / name} is also an input file; expected a different file, got the same one."
    assert told in capsys.readouterr().err and (tmp_path / name).read_text() == "the cat sat\n"


def test_standard_input_is_read_once(folder, tmp_path, capsys):
    assert run_here("features", folder, "-", "-", "--out", tmp_path / "y.npy") == 2
    assert 'features: "-" occurs more than once; expected standard input at most once' in capsys.readouterr().err


@pytest.mark.slow
def test_a_real_encoder():
    """MiniLM, trained so that texts of one meaning are near each other: the features say so too."""
    extract = FeatureExtractor(real_data.minilm())
    vectors = extract.array(["A man is eating food.", "Someone has a meal.", "The stock market fell sharply today."])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    near, far = unit[0] @ unit[1], unit[0] @ unit[2]
    assert near > 0.5 > 0.2 > far


def test_terminated_it_leaves_nothing_half_written(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(FeatureExtractor, "__call__", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    (tmp_path / "texts.txt").write_text("A text.\n")
    assert run_here("features", folder, tmp_path / "texts.txt", "--out", tmp_path / "f.npy") == 143
    assert [file.name for file in tmp_path.iterdir()] == ["texts.txt"]
