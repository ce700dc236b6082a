"""A label comes back from a file as it was written, or is refused: null, NaN, and empty or blank cells are missing."""

import csv
import json
import math
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funcnet.heads.reading.examples import Columns, read_choices, read_texts, read_tokens
from funcnet.heads.reading.glue import glue_task, read_glue
from funcnet.heads.text import Classify

ROWS = {
    "classify": (read_texts, '{{"text": "a", "label": {}}}'),
    "labels": (read_texts, '{{"text": "a", "label": ["x", {}]}}'),
    "regress": (lambda *given: read_texts(*given, numbers=True), '{{"text": "a", "label": {}}}'),
    "tokens": (read_tokens, '{{"tokens": ["a", "b"], "tags": ["O", {}]}}'),
    "choice": (read_choices, '{{"text": "a", "choices": ["x", "y"], "label": {}}}'),
}
REFUSED = "the label is missing; expected a label, got|invalid number; expected|the label is out of range; expected"


@pytest.mark.every_row
@pytest.mark.parametrize("missing", ["null", "NaN", "Infinity", '""', '" \\t"', '"\\u00a0"'])
def test_a_missing_label_in_json_is_refused(tmp_path, missing):
    file = tmp_path / "a.jsonl"
    for read, row in ROWS.values():
        good = row.format("0")
        file.write_text(f"{good}\n{row.format(missing)}\n")
        with pytest.raises(ValueError, match=rf"a\.jsonl, line 2, column '(label|tags)': ({REFUSED})"):
            read(file, Columns())


def test_a_word_that_is_missing_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"tokens": ["a", NaN], "tags": ["O", "O"]}')
    with pytest.raises(
        ValueError, match=r"column 'tokens': not a list of words; expected only words, got the item nan"
    ):
        read_tokens(tmp_path / "a.jsonl", Columns())


@pytest.mark.parametrize("missing", [None, math.nan, pd.NA, pd.NaT])
def test_a_missing_label_of_pandas_is_refused(tmp_path, missing):
    table = pd.DataFrame({"text": ["a", "b"], "label": ["x", missing]})
    table.to_csv(tmp_path / "a.csv", index=False)
    table.to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    table.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    for name in ("a.csv", "a.tsv", "a.jsonl"):
        with pytest.raises(
            ValueError, match=r"line [23], column 'label': the label is missing; expected a label, got n"
        ):
            read_texts(tmp_path / name, Columns())


@pytest.mark.parametrize("cell", ["", " ", "\u3000"])
def test_a_missing_label_of_glue_is_refused(tmp_path, cell):
    (tmp_path / "RTE").mkdir()
    file = tmp_path / "RTE/train.tsv"
    file.write_text(f"index\tsentence1\tsentence2\tlabel\n0\ta\tb\tx\n1\ta\tb\t{cell}\n")
    with pytest.raises(
        ValueError, match=r"line 3, column 'label': the label is missing; expected a label, got nothing"
    ):
        read_glue(file, glue_task(file))


@pytest.mark.parametrize("name", ["nan", "NaN", "<NA>", "NaT", "null"])
def test_a_class_that_looks_like_a_missing_value_is_warned_of(tmp_path, name):
    """It may be a class, such as the language code of Min Nan."""
    (tmp_path / "a.csv").write_text(f"text,label\na,x\nb,{name}\n")
    examples = read_texts(tmp_path / "a.csv", Columns())
    with pytest.warns(
        UserWarning, match=rf"classify: the class '{name}' looks like a missing value that was written as"
    ):
        assert name in Classify().learn(examples).labels


@pytest.mark.parametrize(
    ("one", "other"), [("1", "1.0"), ("0", "-0.0"), ("-3", "-3.00"), ("1000", "1e3"), ('"7"', "7.0")]
)
def test_equal_numbers_of_json_are_one_class(tmp_path, one, other):
    file = tmp_path / "a.jsonl"
    for read, row in [ROWS["classify"], ROWS["labels"], ROWS["tokens"]]:
        file.write_text(f"{row.format(one)}\n{row.format(other)}\n{row.format('1.5')}\n")
        first, second, third = (getattr(example, "label", None) or example.tags for example in read(file, Columns()))
        assert first == second != third and "1.5" in third


@pytest.mark.parametrize("index", ["1_0", "1_1", "0_1", "_1", "1_", "1__0", "1.0", "1e1", "x", "12", "-1"])
def test_an_index_that_is_no_index_is_refused(tmp_path, index):
    choices = json.dumps([f"c{number}" for number in range(12)])
    (tmp_path / "a.jsonl").write_text(f'{{"text": "a", "choices": {choices}, "label": "{index}"}}')
    with pytest.raises(
        ValueError, match=rf"column 'label': the label is out of range; expected .* 0 to 11, got '{index}'"
    ):
        read_choices(tmp_path / "a.jsonl", Columns())


@pytest.mark.parametrize("label", ["true", "false"])
def test_true_is_neither_a_number_nor_an_index(tmp_path, label):
    for task in ("regress", "choice"):
        read, row = ROWS[task]
        (tmp_path / "a.jsonl").write_text(row.format(label))
        with pytest.raises(ValueError, match=rf"line 1, column 'label': .*, got {label.title()}\."):
            read(tmp_path / "a.jsonl", Columns())


def write(file, labels) -> None:
    """Write a table of labels. The text is always the same."""
    if file.suffix == ".jsonl":
        file.write_text("".join(json.dumps({"text": "a", "label": one}) + "\n" for one in labels), "utf-8")
    elif file.suffix == ".tsv":
        lines = "".join(f"a\t{'' if one is None else one}\n" for one in labels)
        file.write_bytes(f"text\tlabel\n{lines}".encode())
    else:
        with file.open("w", encoding="utf-8", newline="") as out:
            csv.writer(out).writerows([("text", "label"), *(("a", one) for one in labels)])


@given(
    st.lists(st.text() | st.none() | st.booleans() | st.integers() | st.floats(), min_size=1),
    st.sampled_from([".csv", ".tsv", ".jsonl"]),
)
def test_labels_come_back_or_are_refused(tmp_path_factory, labels, suffix):
    if suffix == ".tsv":  # which cannot have these characters in a cell
        labels = [re.sub(r"[\t\n\r]", "x", one) if isinstance(one, str) else one for one in labels]
    file = tmp_path_factory.mktemp("labels") / f"a{suffix}"
    write(file, labels)
    # In CSV, the line ends of all systems are one.
    names = ["" if one is None else str(one) for one in labels]
    names = [one if suffix == ".jsonl" else re.sub(r"\r\n?", "\n", one) for one in names]
    numbers = [one for one in labels if isinstance(one, float) and suffix == ".jsonl"]
    wrong = not all(map(str.strip, names)) or not all(map(math.isfinite, numbers))
    try:
        found = [example.label for example in read_texts(file, Columns())]
    except ValueError as error:
        assert f"a{suffix}, line " in str(error) and "expected" in str(error)
        assert wrong or any(re.fullmatch(r'\s+".*"\s*', name, re.DOTALL) for name in names)
    else:
        same = lambda one: isinstance(one, float) and one.is_integer() and abs(one) < 2**53 and suffix == ".jsonl"
        names = [str(int(one)) if same(one) else name for one, name in zip(labels, names, strict=True)]
        assert found == [*map(str.strip, names)] and not wrong
