"""Files of labelled texts: every form read right, and what is wrong named by file, line and column."""

import json

import pytest

from funcnet.heads.head import learn_labels
from funcnet.heads.reading.examples import Columns, TextExample, read_choices, read_texts, read_tokens
from funcnet.heads.reading.glue import glue_task, read_glue
from funcnet.heads.reading.squad import read_squad
from funcnet.heads.reading.tables import read_table
from funcnet.heads.table import trained_head
from funcnet.heads.text import Classify
from funcnet.heads.tokens import Tokens
from funcnet.settings import compose
from funcnet.tasks.finetuning import directory
from funcnet.tasks.finetuning.data import make_head, split
from funcnet.tasks.finetuning.settings import FinetuningSettings
from tests import real_data


def write(folder, name, content):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", '\ufefftext,label\n"One, ""two""\nthree",x\r\nfour,y\n'),
        ("b.csv", '\ufefftext; label\n"One, ""two""\nthree";x\r\nfour;y\n'),
        ("a.jsonl", '{"text": "One, \\"two\\"\\nthree", "label": "x"}\n\n{"text": "four", "label": "y"}'),
    ],
)
def test_tables_of_every_form(tmp_path, name, content):
    rows = read_table(write(tmp_path, name, content)).rows
    assert [row.values for row in rows] == [{"text": 'One, "two"\nthree', "label": "x"}, {"text": "four", "label": "y"}]
    assert [row.line for row in rows] == ([1, 3] if name == "a.jsonl" else [2, 4])


def test_tabs_do_not_quote_and_plain_lines_are_texts(tmp_path):
    table = read_table(write(tmp_path, "a.tsv", 'text\tlabel\n"quoted" word\tx\n'))
    assert table.rows[0].values == {"text": '"quoted" word', "label": "x"}
    assert [row.values["text"] for row in read_table(write(tmp_path, "a.txt", "one\n\ntwo, three\n")).rows] == [
        "one",
        "two, three",
    ]


def test_oranges_head_is_passed_over():
    rows = read_table(real_data.reuters("train")).rows
    assert len(rows) == 5485 and rows[0].line == 5
    assert set(rows[0].values) == {"Category", "Text"} and rows[0].values["Category"] == "earn"


TABLES = [
    ("a.csv", "text,label\na,b\nc\n",
     r"a.csv, line 3: wrong number of columns; expected 2 columns \(text, label\), got 1: no"),
    ("a.csv", "text,label\na,b,c\n",
     r"line 2: wrong number of columns; .* 'c' in column 3. Put texts with commas in double"),
    ("a.csv", "text;label\na;b;c\n",
     r"line 2: wrong number of columns; .* 'c' in column 3. Put texts with semicolons in double"),
    ("a.tsv", "text\tlabel\na\n",
     r"a.tsv, line 2: wrong number of columns; .* nothing in column 'label'. Fill in the missing"),
    ("a.tsv", "text\tlabel\na\tb\tc\n",
     r"a.tsv, line 2: wrong number of columns; .* 'c' in column 3. Remove tabs from texts"),
    ("a.csv", "text\tlabel\na\tb\n", r"line 1: wrong separator; expected commas, got tabs: .*Save the file with"),
    ("a.tsv", "\ntext,label\na,b\n", r"line 2: wrong separator; expected tabs, got commas: .*or rename it to .csv"),
    ("a.csv", b"PK\x03\x04\xff",
     r"a.csv is not a text file; expected UTF-8 text, got a .* If it is a spreadsheet, save it as CSV"),
    ("a.csv", 'text;label\n"a";b\n"c" d;e\n', r"line 3, character 4: wrong quoting; expected a semicolon or"),
    ("a.csv", 'text,label\na,b\n"c" d,e\n', r"a.csv, line 3, character 4: wrong quoting; .*' ' after the clos"),
    ("a.csv", 'text,label\n"a,b\nc,d\n', r"a.csv, line 2, character 1: wrong quoting; .* a quote that never closes"),
    ("a.csv", 'text,label\na,"b\nc,d\n"e",f\n',
     r"line 4, character 2: .* of the field .* line 2, character 3\. Inside a quoted"),
    ("a.csv", 'text,label\na,"c" d\n', r"line 2, character 6: .*' ' after the closing quote\. Inside a quoted"),
    ("a.csv", b"text,label\nok,x\ncaf\xe9,y\n", r"a.csv, line 3, byte 4: not UTF-8; .* got byte 0xe9"),
    ("a.csv", "text,text\na,b\n", r"line 1: column 'text' occurs more than once"),
    ("a.csv", "text,label\n", r"a.csv has no rows"),
    ("a.csv", "", r"a.csv has no rows"),
    ("a.jsonl", '{"text": "a"}\n{"text": b}\n', r"a.jsonl, line 2, character 10: invalid JSON; .*'Expecting value'"),
    ("a.json", '[\n{"text": "a"}]\n',
     r"line 1, character 2: invalid JSON; .* Write each object on its own line, not inside"),
    ("a.jsonl", '["a"]\n', r"a.jsonl, line 1: not an object; expected a JSON object .*, got list"),
    ("a.jsonl", '{"text": "a"}\n' + "[" * 200_000, r"a.jsonl, line 2.*: invalid JSON; expected one object per line"),
    ("a.jsonl", '{"text": "a", "label": ' + "1" * 5000 + "}", r"line 1: invalid JSON; .* got 'Exceeds the limit"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), TABLES)
def test_what_is_wrong_with_a_table_is_named(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=message):
        read_table(write(tmp_path, name, content))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no.csv is missing; expected a file"):
        read_table(tmp_path / "no.csv")


TEXTS = [
    (
        "sentence,label\na,b\n",
        {},
        r"line 1: no column 'text'; expected the columns 'text', 'label', got 'sentence', 'label'",
    ),
    (
        '"It was, to me, fine",good\nno,bad\n',
        {},
        r"no column 'text'; .* got 'It was, to me, fine', 'good'. Rename the columns",
    ),
    (
        "sentence,lable\na,b\n",
        {"names": Columns(text="sentense")},
        r"no column 'sentense'; .* got 'sentence', 'lable'\. Nearest: 'sentence'\. Rename the columns"
        r", or pass their names to `funcnet finetune` with --text-column, --second-column and --label-column",
    ),
    ("text,label\na,\n", {}, r"line 2, column 'label': the label is missing; expected a label, got nothing"),
    ("text,label\na,  \n", {}, r"line 2, column 'label': the label is missing; expected a label, got nothing"),
    (
        "text,label\na,1\nb,nan\n",
        {"numbers": True},
        r"line 3, column 'label': invalid number; expected a number between -1e\+37 and 1e\+37, got 'nan'",
    ),
    (
        "text,label\na,1e300\n",
        {"numbers": True},
        r"line 2, column 'label': invalid number; expected a number between .*, got '1e300'",
    ),
    (
        'text,label\na,good\nok, "good"\n',
        {},
        r"line 3, column 'label': a space before a quote .* got ' \"good\"'",
    ),
    ("text,label\na,b\n", {"pairs": True}, r"no column 'text_b'; expected the columns 'text', 'text_b', 'label'"),
]


@pytest.mark.parametrize(("content", "options", "message"), TEXTS)
def test_what_is_wrong_with_texts_is_named(tmp_path, content, options, message):
    with pytest.raises(ValueError, match=message):
        read_texts(write(tmp_path, "a.csv", content), options.pop("names", Columns()), **options)


def test_a_text_that_is_none(tmp_path):
    with pytest.raises(ValueError, match=r"line 1, column 'text': not a string; expected a string, got nothing"):
        read_texts(write(tmp_path, "a.jsonl", '{"text": null, "label": 1}'), Columns())


def test_plain_lines_have_no_columns(tmp_path):
    file = write(tmp_path, "a.txt", "so it goes\n")
    (example,) = read_texts(file, Columns(text="Body"), labelled=False)
    assert example.text == "so it goes"
    with pytest.raises(
        ValueError, match=r"no column 'label'; .* Pass a .csv, .tsv or .jsonl file, because lines of text"
    ):
        read_texts(file, Columns())


def test_blanks_around_a_label_make_no_class(tmp_path):
    file = write(tmp_path, "a.csv", "text, label\na ,good\nb, good \n")
    assert [(e.text, e.label) for e in read_texts(file, Columns())] == [("a ", "good"), ("b", "good")]


@pytest.mark.parametrize(
    ("label", "numbers", "message"),
    [
        ("[1, 2]", True, r"column 'label': invalid number; expected a number between .*, got \[1, 2\]"),
        ("1" + "0" * 400, True, r"column 'label': invalid number; expected a number between .*, got 1000"),
        ('["x", null]', False, r"column 'label': the label is missing; expected a label, got nothing"),
        ('{"a": 1}', False, r"column 'label': not a label; expected .*, got \{'a': 1\}"),
    ],
)
def test_labels_of_another_kind_are_named(tmp_path, label, numbers, message):
    file = write(tmp_path, "a.jsonl", f'{{"text": "a", "label": {label}}}')
    with pytest.raises(ValueError, match=f"a.jsonl, line 1, {message}"):
        read_texts(file, Columns(), numbers=numbers)


def test_pairs_and_single_texts_do_not_mix(tmp_path):
    file = tmp_path / "a.jsonl"
    lines = [{"text": "one", "label": 1}, {"text": "one", "text_b": None, "label": 1}]
    file.write_text("\n".join(map(json.dumps, lines)))
    assert [example.second for example in Classify().read(file, labelled=True)] == [None, None]
    file.write_text("\n".join(map(json.dumps, [*lines, {"text": "one", "text_b": "two", "label": 1}])))
    message = (
        r"a.jsonl, line 3, column 'text_b': this row has a second text; "
        r"expected one in every row or in no row, got none in line 1"
    )
    with pytest.raises(ValueError, match=message):
        Classify().read(file, labelled=True)


@pytest.mark.parametrize("name", ["classify", "regress"])
def test_other_files_are_pairs_where_the_training_file_was(tmp_path, name):
    single, pairs = tmp_path / "single.csv", tmp_path / "pairs.csv"
    single.write_text("text,label\none,1\ntwo,2\n")
    pairs.write_text("text,text_b,label\none,two,1\ntwo,one,2\n")
    head = trained_head(name)(name)
    of_pairs, of_single = (head.learn(head.read(file, labelled=True)) for file in (pairs, single))
    assert of_pairs.describe_columns(pairs) == "pairs of columns text and text_b"
    assert not of_single.describe_columns(single)
    with pytest.raises(
        ValueError,
        match=r"single.csv does not fit the model; expected pairs of texts, as in .* "
        r"got no second text in column 'text_b'",
    ):
        of_pairs.read(single, labelled=False)
    with pytest.raises(
        ValueError, match=r"pairs.csv does not fit the model; expected single texts, .* got a second text in column"
    ):
        of_single.read(pairs, labelled=False)
    assert of_pairs.read(pairs, labelled=True) and of_single.read(single, labelled=True)


def test_an_underscore_is_no_part_of_a_number(tmp_path):
    """Python reads 1_000 as 1000; a table does not."""
    file = write(tmp_path, "a.csv", "text,label\nfine,1_000\n")
    with pytest.raises(ValueError, match=r"a.csv, line 2.*expected a number between .*, got '1_000'"):
        read_texts(file, Columns(), numbers=True, labelled=True)


def test_labels_that_differ_only_in_capitals_are_reported(tmp_path):
    file = write(tmp_path, "a.csv", "text,label\nfine,pos\ngood,POS\nbad,neg\n")
    head = Classify()
    with pytest.warns(UserWarning, match=r"differ only in case, but count as different classes: 'POS', 'pos'\."):
        assert head.learn(head.read(file, labelled=True)).labels == ("POS", "neg", "pos")


def test_lists_and_single_labels_do_not_mix(tmp_path):
    rows = '{"text": "a", "label": ["good", "cheap"]}\n{"text": "b", "label": "good"}\n'
    mixed = read_texts(write(tmp_path, "a.jsonl", rows), Columns())
    one = Classify(labels=("cheap", "good"))
    with pytest.raises(
        ValueError,
        match=r"line 1, column 'label': the label is a list; expected a single .* got \('good', 'cheap'\). Give every",
    ):
        one.scores(mixed, [{"label": "good"}] * 2)


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        (["10", "9", "-1"], ("-1", "9", "10")),
        (["--1", "2"], ("--1", "2")),
        (["1", "01", "0"], ("0", "01", "1")),
    ],
)
def test_labels_that_look_like_numbers(given, labels):
    assert learn_labels([(name,) for name in given]) == labels


def test_oranges_head_is_passed_over_in_its_own_files_alone(tmp_path):
    content = "text\tlabel\nd\tc\nfine\tgood\n"
    assert [len(read_table(write(tmp_path, name, content)).rows) for name in ("a.tab", "a.tsv")] == [1, 2]


def test_utf_16_is_named(tmp_path):
    (tmp_path / "a.csv").write_bytes("text,label\na,b\n".encode("utf-16"))
    with pytest.raises(ValueError, match=r"line 1, byte 1: not UTF-8; .*iconv -f utf-16 -t utf-8"):
        read_table(tmp_path / "a.csv")


HALF = r"line 2: half of a surrogate pair, \\ud83d; expected complete characters"


def test_half_of_an_emoji_is_named(tmp_path):
    """As texts have them that were cut in JavaScript: UTF-8 has no bytes for it."""
    lines = '{"text": "\\\\ud83d \\ud83d\\ude00"}\n{"text": "\\ud83d"}\n'
    with pytest.raises(ValueError, match=rf"a.jsonl, {HALF}"):
        read_table(write(tmp_path, "a.jsonl", lines))
    with pytest.raises(ValueError, match=rf"a.json, {HALF}"):
        read_squad(write(tmp_path, "a.json", '{"data":\n "\\ud83d"}'))


def test_a_file_is_no_model(tmp_path):
    with pytest.raises(
        ValueError, match=r"a.txt is a file; expected the directory of a model. Pass the directory first"
    ):
        directory.load(write(tmp_path, "a.txt", "so it goes\n"))


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected a file, got a folder"):
        read_table(tmp_path)


def test_quotes_that_are_part_of_a_label(tmp_path):
    """Said so in a CSV, and letters in a TSV; with a blank before them they are a slip in both."""
    (example,) = read_texts(write(tmp_path, "a.csv", 'text,label\na,"""good"""\n'), Columns())
    (other,) = read_texts(write(tmp_path, "a.tsv", 'text\tlabel\na\t"good"\n'), Columns())
    assert example.label == other.label == '"good"'
    for name, content in (("a.tsv", 'text\tlabel\na\t "good"\n'), ("b.csv", 'text,label\na, "x|y"\n')):
        with pytest.raises(ValueError, match=rf"{name}, line 2, column 'label': a space before a quote makes the quo"):
            read_texts(write(tmp_path, name, content), Columns(separator="|"))
    with pytest.raises(
        ValueError, match=r"line 2: wrong number of columns; .* in double quotes, without a space before them\."
    ):
        read_texts(write(tmp_path, "c.csv", 'label,text\ngood, "well, yes"\n'), Columns())


def test_labels_are_learned_and_unseen_ones_named(tmp_path):
    train = read_texts(write(tmp_path, "a.csv", "text,label\na,10\nb,9\n"), Columns())
    head = Classify().learn(train)
    assert head.labels == ("9", "10")
    other = read_texts(write(tmp_path, "b.csv", "text,Class\na,9\nb,11\n"), Columns(label="Class"))
    with pytest.raises(
        ValueError, match=r"b.csv, line 3, column 'Class': label '11' did not occur in training; .* '10'"
    ):
        head.scores(other, [{"label": "9"}, {"label": "9"}])


def test_one_class_is_refused(tmp_path):
    train = read_texts(write(tmp_path, "a.csv", "text,label\na,x\nb,x\n"), Columns())
    with pytest.raises(
        ValueError, match=r"a.csv, line 2, column 'label': all 2 training examples have the same class, 'x'"
    ):
        Classify().learn(train)


def test_several_labels_in_a_cell_or_a_list(tmp_path):
    cells = read_texts(write(tmp_path, "a.csv", "text,label\na,x|y\nb,\n"), Columns(separator="|"))
    lists = read_texts(write(tmp_path, "a.jsonl", '{"text":"a","label":["x","y"]}\n{"text":"b","label":[]}'), Columns())
    assert [e.label for e in cells] == [e.label for e in lists] == [("x", "y"), ()]


GLUE = {
    "CoLA": ("gj04\t1\t\tOur friend.\ngj05\t0\t*\tThem buy.\n", [("Our friend.", None, "1"), ("Them buy.", None, "0")]),
    "SST-2": ("sentence\tlabel\nfine film \t1\n", [("fine film ", None, "1")]),
    "MRPC": ("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tHe said \"x\tShe said\n",
             [('He said "x', "She said", "1")]),
    "STS-B": ("index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
              "0\tg\tf\t2012\t1\tn\tn\ta plane\tan air plane\t5.000\n", [("a plane", "an air plane", 5.0)]),
    "QQP": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tHow?\tWhy?\t0\n4\t5\n",
            [("How?", "Why?", "0")]),
    "MNLI": ("index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\t"
             "sentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
             "0\t3\t3n\tg\t(\t(\t(R\t(R\tp\th\tneutral\tentailment\n", [("p", "h", "entailment")]),
    "QNLI": ("index\tquestion\tsentence\tlabel\n0\tq?\ts\tnot_entailment\n", [("q?", "s", "not_entailment")]),
    "RTE": ("index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n", [("a", "b", "entailment")]),
    "WNLI": ("index\tsentence1\tsentence2\tlabel\n0\ta\tb\t1\n", [("a", "b", "1")]),
}  # fmt: skip


@pytest.mark.parametrize("name", GLUE)
def test_glues_columns(tmp_path, name):
    content, expected = GLUE[name]
    file = write(tmp_path, f"{name}/train.tsv", content)
    examples, left_out = read_glue(file, glue_task(file))
    assert [(e.text, e.second, e.label) for e in examples] == expected
    assert left_out == ([3] if name == "QQP" else [])


def test_a_label_of_glues_that_training_never_saw(tmp_path):
    file = write(tmp_path, "MNLI/train.tsv", GLUE["MNLI"][0])
    head = Classify("pairs", labels=("contradiction", "neutral"))
    with pytest.raises(ValueError, match=r"train.tsv, line 2, column 'gold_label': label 'entailment' did not occur"):
        head.scores(head.read(file, labelled=True), [{"label": "neutral"}])


def test_glues_test_files_have_no_labels(tmp_path):
    file = write(tmp_path, "cola/test.tsv", "index\tsentence\n0\tBill ate.\n")
    assert read_glue(file, glue_task(file), labelled=False)[0][0].text == "Bill ate."
    with pytest.raises(
        ValueError, match=r"test.tsv, line 1: no column 'label'; expected CoLA's columns .* with labels"
    ):
        read_glue(file, glue_task(file))
    file = write(tmp_path, "AX/diagnostic.tsv", "index\tsentence1\tsentence2\n0\ta\tb\n")
    assert read_glue(file, glue_task(file), labelled=False)[0][0].second == "b"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("RTE", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\n",
         "train.tsv, line 2: wrong number of columns; expected 4 columns"),
        ("RTE", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\t\n", "line 2, column 'label': the label is missing"),
        ("STS-B", "sentence1\tsentence2\tscore\na\tb\tx\n", "line 2, column 'score': invalid number; .*, got 'x'"),
        ("STS-B", "sentence1\tsentence2\tscore\na\tb\tnan\n", "line 2, column 'score': .* got 'nan'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_of_glues_is_named(tmp_path, name, content, message):
    file = write(tmp_path, f"{name}/train.tsv", content)
    with pytest.raises(ValueError, match=message):
        read_glue(file, glue_task(file))


def test_a_folder_may_be_called_as_one_of_glues(tmp_path):
    for name in ("rte", "cola", "STS-B"):
        file = write(tmp_path, f"{name}/train.tsv", "text\tlabel\nfine\tgood\n")
        (example,) = Classify().read(file, labelled=True)
        assert (example.text, example.label) == ("fine", "good")
        config = compose(FinetuningSettings, task="classify", model=tmp_path, train=file, out=tmp_path)
        assert make_head(config).metric in Classify(labels=("a", "b")).figures
    with pytest.raises(FileNotFoundError, match=r"none.tsv is missing"):
        Classify().read(tmp_path / "rte" / "none.tsv", labelled=True)


def test_the_wrong_task_for_a_folder_of_glues(tmp_path):
    file = write(tmp_path, "RTE/dev.tsv", GLUE["RTE"][0])
    with pytest.raises(ValueError, match=r"is GLUE's RTE; expected the task `pairs`, got `classify`"):
        Classify().read(file, labelled=True)


def test_conlls_columns(tmp_path):
    content = "-DOCSTART- -X- -X- O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\nPeter NNP I-NP I-PER\n"
    first, second = read_tokens(write(tmp_path, "eng.train", content), Columns())
    assert (first.words, first.tags) == (["EU", "rejects"], ["I-ORG", "O"])
    assert (second.words, second.tags, second.where[-6:]) == (["Peter"], ["I-PER"], "line 6")
    row = json.dumps({"tokens": ["EU"], "tags": ["I-ORG"]})
    assert read_tokens(write(tmp_path, "a.jsonl", row), Columns())[0].tags == ["I-ORG"]
    (line,) = read_tokens(write(tmp_path, "a.txt", "EU rejects.\n"), Columns(), labelled=False)
    assert line.words == "EU rejects.", "the tokenizer splits it"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.conll",
            "EU NNP I-ORG\nrejects O\n",
            r"line 2: wrong number of columns; expected 3 columns, got 2: 'rejects O'",
        ),
        ("a.conll", "EU\n", r"line 1: the tag is missing; expected a word and its tag, .*, got 'EU'"),
        ("a.conll", "\n\n", r"has no sentences"),
        (
            "a.jsonl",
            '{"tokens": ["a"], "tags": []}',
            r"line 1: the numbers of .* differ; expected one tag per word, got 1 words and 0 tags",
        ),
        ("a.jsonl", '{"tokens": "a", "tags": []}', r"line 1, column 'tokens': not a list; expected a list, got 'a'"),
    ],
)
def test_what_is_wrong_with_tagged_words_is_named(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=message):
        read_tokens(write(tmp_path, name, content), Columns())


@pytest.mark.parametrize("value", ["null", "[1]", "{}"])
def test_words_that_are_none(tmp_path, value):
    file = write(tmp_path, "a.jsonl", f'{{"tokens": ["a", {value}]}}')
    with pytest.raises(
        ValueError, match=r"line 1, column 'tokens': not a list of words; expected only words, got the item "
    ):
        read_tokens(file, Columns(), labelled=False)


def test_no_row_of_conlls_is_lost(tmp_path):
    """A document may begin right above its first sentence, and a no-break space is a letter."""
    file = write(tmp_path, "a.conll", "-DOCSTART- O\nEU\u00a0! B-ORG\nrules O\n-DOCSTART- O\nok O\n")
    assert [example.words for example in read_tokens(file, Columns())] == [["EU\u00a0!", "rules"], ["ok"]]


def test_conlls_columns_in_a_txt_are_no_sentences(tmp_path):
    file = write(tmp_path, "test.txt", "EU NNP B-ORG\nrejects VBZ O\n\nPeter NNP O\n")
    found = [Tokens(labels=labels).read(file, labelled=False) for labels in (("B-ORG", "O"), ("X", "Y"))]
    assert [len(examples) for examples in found] == [2, 3] and found[0][0].words == ["EU", "rejects"]


def test_one_tag_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"line 1: all training words have the same tag, 'O'; expected at least two"):
        Tokens().learn(read_tokens(write(tmp_path, "a.conll", "a O\nb O\n"), Columns()))


def test_choices(tmp_path):
    swag = "sent1,sent2,ending0,ending1,label\nHe ran.,He,fell,sang,1\n"
    columns = Columns(text="sent1", second="sent2")
    (example,) = read_choices(write(tmp_path, "a.csv", swag), columns)
    assert (example.text, example.choices, example.label) == ("He ran.", ["He fell", "He sang"], 1)


def test_choices_are_counted_by_their_names(tmp_path):
    content = "text,choice10,choice2,choice1,label\na,ten,two,one,2\n"
    (example,) = read_choices(write(tmp_path, "a.csv", content), Columns())
    assert example.choices == ["one", "two", "ten"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"text":"a","choices":["x","y"],"label":2}',
         r"line 1, column 'label': the label is out of range; expected an index from 0 to 1, got 2"),
        ('{"text":"a","choices":["x"],"label":0}',
         r"line 1: wrong number of choices; expected at least 2 choices, got 1 choices"),
        ('{"text":"a","choices":["x","y"],"label":0}\n{"text":"a","choices":["x","y","z"],"label":0}',
         r"line 2: wrong number of choices; expected 2 choices, got 3 choices"),
        ('{"text":"a","choices":["x",null],"label":0}',
         r"line 1, column 'choices': a choice is not a string; expected strings, got None"),
        ('{"text":"a","choices":["x","y"],"label":0.5}',
         r"line 1, column 'label': the label is out of range; expected an index from 0 to 1, got 0.5"),
        ('{"text":"a","choice0":"x","choice1":"y","label":0}\n{"text":"a","choice0":"x","label":0}',
         r"line 2, column 'choice1': not a string; expected a string, got nothing"),
        ('{"text":"a","label":0}', r"no choices; expected a column 'choices' \(lists\) or the columns choice0"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_choices_is_named(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_choices(write(tmp_path, "a.jsonl", content), Columns())


def squad_file(folder, answers, indent=1, **more):
    qa = {"id": "q7", "question": "Who?", "answers": answers, **more}
    data = {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "The cat sat.", "qas": [qa]}]}]}
    return write(folder, "squad.json", json.dumps(data, indent=indent))


def test_squads_fixtures_are_read_and_stand_where_they_say():
    questions = read_squad(real_data.squad())
    assert len(questions) > 4 and len({question.id for question in questions}) == len(questions)
    for question in questions:
        assert question.answers and question.has_answer is None
        assert all(question.context[start : start + len(text)] == text for text, start in question.answers)


def test_an_answer_that_is_not_at_its_offset(tmp_path):
    file = squad_file(tmp_path, [{"text": "cat", "answer_start": 5}])
    message = r"squad.json: the answers of 1 questions are wrong; [\s\S]*line 11, character 8, question 'q7': "
    with pytest.raises(ValueError, match=message + r"expected 'cat' at character 5 of its context, got 'at '"):
        read_squad(file)


@pytest.mark.parametrize(
    ("identity", "written"),
    [(7, "7"), ("q\u00e9", '"q\u00e9"'), ("q\u00e9", '"q\\u00E9"'), ('a"b/', '"a\\"b\\/"'), ("-7", '"-7"')],
)
def test_the_line_of_a_question_however_its_id_is_written(tmp_path, identity, written):
    file = squad_file(tmp_path, [{"text": "cat", "answer_start": 5}])
    other = '\n "id": 71, "id": "q7, ", "id": '
    write(tmp_path, "squad.json", file.read_text().replace('"id": "q7"', f'"id": 0,{other}{written}'))
    with pytest.raises(ValueError, match=r"\n  line 12, character 26, question ") as error:
        read_squad(file)
    assert f"question {str(identity)!r}: expected 'cat'" in str(error.value)


def test_questions_without_answers(tmp_path):
    with pytest.raises(ValueError, match=r"question 'q7': expected an answer, got none"):
        read_squad(squad_file(tmp_path, []))
    assert read_squad(squad_file(tmp_path, []), labelled=False)[0].answers == ()
    (question,) = read_squad(squad_file(tmp_path, [], is_impossible=True))
    assert question.has_answer is False


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"line 1, character 2: invalid JSON"),
        ("[" * 200_000, r"squad.json, line 1.*: invalid JSON; expected SQuAD's format"),
        ("{}", r"not SQuAD's format; expected the file to have 'data', a list, got \{\}"),
        ("[1]", r"expected the file to have 'data', a list, got \[1\]"),
        ('{"data": [{}]}', r"expected an article of data to have 'paragraphs', a list, got \{\}"),
        ('{"data": [{"paragraphs": [{"context": null, "qas": [{}]}]}]}', r"a paragraph to have 'context', a string"),
        (
            '{"data": [{"paragraphs": [{"context": "So", "qas": [{}]}]}]}',
            r"question 1 of the context 'So' to have 'id'",
        ),
        ('{"data": []}', r"has no questions"),
    ],
)
def test_what_is_wrong_with_a_file_of_questions_is_named(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        read_squad(write(tmp_path, "squad.json", content))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"question": None}, r"question 'q7' to have 'question', a string, got None"),
        ({"is_impossible": "no"}, r"question 'q7' to have 'is_impossible', true or false, got 'no'"),
        ({"answers": {"text": ["cat"]}}, r"question 'q7' to have 'answers', a list, got \{'text': \['cat'\]\}"),
        (
            {"answers": [{"text": 3, "answer_start": 0}]},
            r"each answer of question 'q7' to have 'text', a string, got 3",
        ),
        ({"answers": [{"text": "cat", "answer_start": "4"}]}, r"to have 'answer_start', an integer, got '4'"),
    ],
)
def test_a_field_of_another_kind_is_named_with_its_line(tmp_path, more, message):
    file = squad_file(tmp_path, **{"answers": []} | more)
    with pytest.raises(
        ValueError, match=r"squad.json: line 11, character 8, not SQuAD's format; expected .*" + message
    ):
        read_squad(file)


def test_a_question_that_is_there_twice(tmp_path):
    qa = {"id": "q", "question": "Who?", "answers": [{"text": "The", "answer_start": 0}]}
    data = {"data": [{"paragraphs": [{"context": "The cat", "qas": [qa, qa]}]}]}
    with pytest.raises(
        ValueError, match=r"line 1, character .*question 'q' .* expected each id once, got this id 2 times"
    ):
        read_squad(write(tmp_path, "squad.json", json.dumps(data)))


def test_a_split_keeps_copies_of_a_text_on_one_side():
    examples = [TextExample(f"text {number % 20}", None, "x", "") for number in range(60)]
    train, held_out = split(examples, 0.25, seed=3)
    assert len(train) + len(held_out) == 60 and 15 <= len(held_out) <= 17
    assert not {e.text for e in train} & {e.text for e in held_out}
    assert split(examples, 0.25, seed=3) == (train, held_out) != split(examples, 0.25, seed=4)
    with pytest.raises(ValueError, match=r"too few different texts to hold out some .*; expected at least two, got 1"):
        split(examples[:1], 0.5, seed=0)
