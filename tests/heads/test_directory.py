"""The head of a directory: settings of this release and of the last one, names that fit, one encoding for all uses."""

import json

import jax
import numpy as np
import pytest

from funcnet.export.web.forms import open_form
from funcnet.heads import HEADS, TRAINED, TextEncoder, open_head
from funcnet.heads.table import trained_head
from funcnet.models import bert
from funcnet.parallel import make_layout
from funcnet.serving import inference
from funcnet.tasks.features import FeatureExtractor
from funcnet.tasks.finetuning import directory
from funcnet.tasks.finetuning.predict import evaluate, predict
from funcnet.tasks.finetuning.rows import encode_rows
from funcnet.tasks.quantizing.texts import TextsTask
from funcnet.text import load_tokenizer, save_tokenizer, train_wordpiece
from funcnet.train import Context, Interruption
from funcnet.train.precision import FLOAT32
from tests.tasks.command import run_here
from tests.tasks.small_bert import all_texts, near, write_model, write_task

COLUMNS = {"text": None, "second": None, "label": None, "separator": None}
TEXT = {"columns": COLUMNS, "several": False, "long_texts": "cut", "metric": "accuracy", "pairs": False}
# finetuning.json as the release before wrote it.
BEFORE = {
    "classify": {"seq_len": 32, "name": "classify", **TEXT},
    "pairs": {"seq_len": 32, "name": "pairs", **TEXT, "pairs": True},
    "regress": {"seq_len": 32, "name": "regress", **TEXT, "metric": "pearson"},
    "tokens": {"seq_len": 32, "columns": COLUMNS, "name": "tokens"},
    "choice": {"seq_len": 32, "columns": COLUMNS, "name": "choice", "metric": "accuracy"},
    "answer": {
        "seq_len": 24,
        "doc_stride": 8,
        "n_best": 5,
        "max_answer": 30,
        "null_threshold": 0.0,
        "no_answers": False,
        "name": "answer",
        "metric": "f1",
    },
}
ITEMS = {
    "pairs": lambda e: (e.text, e.second),
    "tokens": lambda e: e.words,
    "choice": lambda e: (e.text, e.choices),
    "answer": lambda e: (e.question, e.context),
}


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"), all_texts())


def fine_tuned(pretrained, folder, name):
    """(directory, file): a new head for a task, its settings those of the release before."""
    file = write_task(folder, name, 12)
    head = trained_head(name)(name)
    head = head.learn(head.read(file, labelled=True))
    net, params, state = directory.start(pretrained, head)
    params = jax.tree.map(lambda a: a + 0.2 * jax.random.normal(jax.random.key(a.size), a.shape), params)
    directory.save(folder / "m", directory.FineTuned(head, load_tokenizer(pretrained), net, params, state, 32))
    (folder / "m/finetuning.json").write_text(json.dumps(BEFORE[name]))
    return folder / "m", file


@pytest.mark.slow
@pytest.mark.parametrize("name", BEFORE)
def test_directories_of_the_release_before(pretrained, tmp_path, name):
    path, file = fine_tuned(pretrained, tmp_path, name)
    opened = directory.load(path)
    assert (opened.head.name, opened.seq_len) == (name, BEFORE[name]["seq_len"])
    found, _ = predict(path, file)
    examples = opened.head.read(file, labelled=True)
    items = [ITEMS.get(name, lambda e: e.text)(example) for example in examples]
    serve = inference(path, ahead=False)
    assert serve.task == name
    for one, other in zip(found, serve.batch(items), strict=True):
        assert near({key: one[key] for key in other if key != "text"}, {k: v for k, v in other.items() if k != "text"})
    assert {*opened.head.figures, "loss"} <= evaluate(path, file).keys()
    if name == "answer":
        assert (opened.head.doc_stride, opened.head.n_best) == (8, 5)


@pytest.mark.parametrize("name", BEFORE)
def test_a_row_of_a_file_and_a_served_item_are_encoded_alike(pretrained, tmp_path, name):
    path, file = fine_tuned(pretrained, tmp_path, name)
    head, tokenizer, seq_len = open_head(path, bert.BertConfig.load(path), None, "here", heads=TRAINED)
    examples = head.read(file, labelled=True)
    rows = encode_rows(head, examples, tokenizer, seq_len, labelled=True)
    items = [head.example(ITEMS.get(name, lambda e: e.text)(example), "") for example in examples]
    served = [row for one in head.encode(items, TextEncoder(tokenizer, seq_len)) for row in one.rows]
    np.testing.assert_array_equal(rows.tokens, [token for row in served for token in row.ids])
    np.testing.assert_array_equal(rows.types, [kind for row in served for kind in row.type_ids])


@pytest.fixture(scope="module")
def one_type(tmp_path_factory):
    """A pretrained model with one token type."""
    return write_model(tmp_path_factory.mktemp("one"), all_texts(), type_vocab_size=1)


REFUSED = r"reads two texts in a row; expected a model with type_vocab_size >= 2 in config\.json, got 1"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pairs", "choice", "answer"])
def test_a_task_of_two_texts_needs_two_token_types(one_type, tmp_path, name, capsys):
    """In a compiled program, the second type is read from beyond the table: NaN."""
    path, file = fine_tuned(one_type, tmp_path, name)
    assert run_here("finetune", name, "--model", one_type, "--train", file, "--out", tmp_path / "out") == 2
    assert f"the task {name!r} reads two texts in a row; expected" in capsys.readouterr().err
    for opened in (inference, open_form, directory.load, lambda path: predict(path, file)):
        with pytest.raises(ValueError, match=f"{name!r} {REFUSED}"):
            opened(path)


def test_a_model_of_one_token_type_takes_single_texts(one_type, tmp_path):
    path, _ = fine_tuned(one_type, tmp_path, "classify")
    (path / "finetuning.json").unlink()  # a directory of Hugging Face, which does not say what it was trained on
    serve = inference(path, ahead=False)
    assert 0 < serve("the soup was fine")["probability"] < 1
    with pytest.raises(TypeError, match="item 0 has the wrong type; expected one text"):
        serve(("the soup", "was fine"))
    with pytest.raises(ValueError, match=f"'pairs' {REFUSED}"):
        inference(path, "pairs", ahead=False)
    with pytest.raises(ValueError, match=r"does not fit the model; expected single texts, .* got a second text"):
        predict(path, write_task(tmp_path, "pairs"))
    extract = FeatureExtractor(path)
    assert np.isfinite(extract.array(["the soup", "was fine"])).all()
    with pytest.raises(ValueError, match=r"one token type; expected single texts, .* got the pair \('the soup', 'was"):
        extract.array(["the soup", ("the soup", "was fine")])


OPENED = {
    "finetune": lambda path, file: run_here("finetune", "classify", "--model", path, "--train", file, "--out", "no"),
    "predict": lambda path, file: predict(path, file),
    "serve": lambda path, file: inference(path, ahead=False),
    "features": lambda path, file: FeatureExtractor(path),
    "page": lambda path, file: open_form(path),
    "page of similarity": lambda path, file: open_form(path, "similarity"),
    "quantize": lambda path, file: TextsTask(
        path, file, 8, 16, Context(make_layout({"data": 1}), FLOAT32, Interruption())
    ),
}


@pytest.mark.parametrize("how", OPENED)
def test_a_vocabulary_that_is_larger_than_the_model(pretrained, tmp_path, how, capsys):
    path, file = fine_tuned(pretrained, tmp_path, "classify")
    save_tokenizer(train_wordpiece(["".join(map(chr, range(0x3041, 0x3141)))], 600, min_frequency=1), path)
    try:
        OPENED[how](path, file)
        said = capsys.readouterr().err
    except ValueError as error:
        said = str(error)
    assert "the vocabulary does not fit the model's word table; expected ids below" in said


@pytest.mark.parametrize("how", ["predict", "serve", "features"])
def test_rows_that_are_longer_than_the_position_table(pretrained, tmp_path, how):
    path, file = fine_tuned(pretrained, tmp_path, "classify")
    settings = path / "finetuning.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"seq_len": 513}))
    with pytest.raises(
        ValueError, match=r"out of range; expected \d to 512 \(the size of the position table.*, got 513"
    ):
        OPENED[how](path, file)


def test_the_table_names_each_head_once():
    trained = [name for head in TRAINED for name in head.names]
    assert {*trained} >= BEFORE.keys()
    assert all(head.architecture in bert.ARCHITECTURES for head in HEADS)
    assert len({head.names[0] for head in HEADS}) == len(HEADS)
