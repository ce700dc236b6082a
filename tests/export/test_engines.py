"""Fill-mask of a pretrained BERT in six engines, by `funcnet export`: the same tokens, and logits within 1e-5.

The engines are JAX, StableHLO in a process that imports no model, ONNX Runtime, wasmtime, Node and headless Chromium.
The model is a short run of the default recipe, or the directory that FUNCNET_DEFAULT_RUN names.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from funcnet import serving, text
from funcnet.cli import main
from funcnet.export.wasm.runner import Runner
from funcnet.models import bert
from tests import real_data
from tests.export.wasm import node
from tests.export.web.browser import in_page

LENGTHS = (32, 128)
MASKS = 3  # in every text

STABLEHLO = """
import sys
import numpy as np
from funcnet.export import load_stablehlo
model = load_stablehlo(sys.argv[1])
rows = np.load(sys.argv[2])
logits = [model(*(rows[f"{i}_{n}"] for n in range(3)))["prediction_logits"] for i in range(len(rows.files) // 3)]
assert not [name for name in sys.modules if name.startswith(("funcnet.nn", "funcnet.models", "torch"))]
np.savez(sys.argv[3], *logits)
"""

CHROMIUM = """
  const { answer, run, tokenizer } = page.funcnet;
  return TEXTS.map((text) => {
    const { ids } = tokenizer.encode(text);
    const masks = ids.flatMap((id, place) => (id === tokenizer.special.mask ? [place] : []));
    return { ids, masks, words: answer(text).masks.map((mask) => mask.map((one) => one.token)),
             logits: [...run(ids, null, masks).values] };
  });
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The directory of a pretraining run."""
    if known := os.environ.get("FUNCNET_DEFAULT_RUN"):
        return Path(known)
    out = tmp_path_factory.mktemp("run") / "default"
    with pytest.raises(SystemExit) as leave:
        main(["pretrain", "--out", str(out), "--steps", "30"])
    assert leave.value.code == 0
    return out


@pytest.fixture(scope="module")
def tokenizer(run):
    return text.load_tokenizer(run)


@pytest.fixture(scope="module")
def texts(tokenizer):
    """Real sentences, of news articles of 1987 that the model has not read, with masks in place of words."""
    draw = np.random.default_rng(0)
    rows = real_data.reuters("test").read_text("utf-8").splitlines()[3:]
    made = []
    for row in rows[:: len(rows) // 60]:
        words = max(row.split("\t"), key=len).split()[: draw.integers(8, 70)]
        for place in draw.choice(len(words), MASKS, replace=False) if len(words) > MASKS else ():
            words[place] = "[MASK]"
        made.append(" ".join(words))
    found = [made for made in made if len(tokenizer.encode(made).ids) <= LENGTHS[-1] and made.count("[MASK]") == MASKS]
    assert len(found) > 30
    return found


@pytest.fixture(scope="module")
def rows(texts, tokenizer):
    """The arrays of each text, padded to one of the lengths."""
    made = []
    for one in texts:
        ids = tokenizer.encode(one).ids
        length = next(length for length in LENGTHS if length >= len(ids))
        row = np.zeros((3, 1, length), np.int32)
        row[0, 0, : len(ids)], row[1, 0, : len(ids)] = ids, 1
        made.append(tuple(row))
    return made


@pytest.fixture(scope="module")
def expected(run, rows, texts, tokenizer):
    """JAX's logits (MASKS, V) at the masks of each text, and the five best tokens, which `funcnet fill-mask` says."""
    net, params, state = bert.from_pretrained(run, bert.BertForPreTraining)
    logits = [at_masks(net.apply(params, state, *row)[0][0], row, tokenizer) for row in rows]
    guesses = serving.inference(run, ahead=False).batch(texts)
    return logits, [[[guess.token for guess in mask] for mask in one] for one in guesses]


def at_masks(logits, row, tokenizer):
    return np.asarray(logits)[0][row[0][0] == tokenizer.token_to_id("[MASK]")]


def require_same(found, expected, tokenizer):
    logits, words = expected
    assert len(found) == len(logits)
    for got, theirs, tokens in zip(found, logits, words, strict=True):
        assert got.shape == theirs.shape == (MASKS, tokenizer.get_vocab_size())
        assert np.abs(got - theirs).max() <= 1e-5 * np.abs(theirs).max()
        best = np.argsort(-got, axis=-1, kind="stable")[:, :5]
        assert [[tokenizer.id_to_token(int(i)) for i in one] for one in best] == tokens


def exported(run, out, *options):
    with pytest.raises(SystemExit) as leave:
        main(["export", str(run), "--out", str(out), *options])
    assert leave.value.code == 0
    return out


@pytest.mark.slow
def test_stablehlo_in_a_fresh_process(run, rows, expected, tokenizer, tmp_path):
    file = exported(run, tmp_path / "m.stablehlo", "--to", "stablehlo")
    np.savez(tmp_path / "rows.npz", **{f"{i}_{n}": one for i, row in enumerate(rows) for n, one in enumerate(row)})
    command = [sys.executable, "-c", STABLEHLO, file, tmp_path / "rows.npz", tmp_path / "logits.npz"]
    subprocess.run([*map(str, command)], check=True)
    logits = np.load(tmp_path / "logits.npz")
    found = [at_masks(logits[f"arr_{i}"], row, tokenizer) for i, row in enumerate(rows)]
    require_same(found, expected, tokenizer)


@pytest.mark.slow
def test_onnx_runtime(run, rows, expected, tokenizer, tmp_path):
    file = exported(run, tmp_path / "m.onnx", "--to", "onnx")
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    names = ("input_ids", "attention_mask", "token_type_ids")
    run_row = lambda row: session.run(["prediction_logits"], dict(zip(names, row, strict=True)))[0]
    require_same([at_masks(run_row(row), row, tokenizer) for row in rows], expected, tokenizer)


@pytest.mark.slow
def test_wasmtime_and_node(run, rows, expected, tokenizer, tmp_path):
    lengths = [*map(str, LENGTHS)]
    file = exported(run, tmp_path / "m.wasm", "--to", "wasm", "--length", *lengths)
    runner = Runner(file.read_bytes())
    require_same([at_masks(runner(*row)[0], row, tokenizer) for row in rows], expected, tokenizer)
    some = slice(0, None, 8)  # Node starts anew for each text
    in_node = [at_masks(node.run([file], row, row[0].shape[1])[0][0], row, tokenizer) for row in rows[some]]
    require_same(in_node, tuple(part[some] for part in expected), tokenizer)


@pytest.mark.slow
def test_chromium(run, texts, expected, tokenizer, tmp_path):
    exported(run, tmp_path / "page", "--to", "web", "--length", *map(str, LENGTHS))
    assert sum(file.stat().st_size for file in (tmp_path / "page").iterdir()) < 5e6
    answers, _ = in_page(tmp_path, CHROMIUM.replace("TEXTS", json.dumps(texts)), tmp_path / "profile")
    assert "error" not in answers, answers
    assert [one["ids"] for one in answers] == [tokenizer.encode(one).ids for one in texts]
    assert [one["words"] for one in answers] == expected[1]
    vocabulary = tokenizer.get_vocab_size()
    found = [np.array(one["logits"], np.float32).reshape(-1, vocabulary)[:MASKS] for one in answers]
    require_same(found, expected, tokenizer)
