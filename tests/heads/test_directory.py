"""The head of a directory: settings of this release and of the last one, names that fit, one encoding for all uses."""

import json

import jax
import numpy as np
import pytest

from funcnet.heads import HEADS, TRAINED, TextEncoder, open_head
from funcnet.heads.table import trained_head
from funcnet.models import bert
from funcnet.serving import inference
from funcnet.tasks.finetuning import directory
from funcnet.tasks.finetuning.predict import evaluate, predict
from funcnet.tasks.finetuning.rows import encode_rows
from funcnet.text import load_tokenizer
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


def test_the_table_names_each_head_once():
    trained = [name for head in TRAINED for name in head.names]
    assert {*trained} >= BEFORE.keys()
    assert all(head.architecture in bert.ARCHITECTURES for head in HEADS)
    assert len({head.names[0] for head in HEADS}) == len(HEADS)
