"""Rows, tables, dumps and compressed files to documents; what is broken or has no text is named with its place."""

import bz2
import gzip
import json
import lzma
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from funcnet.text import compressed, open_corpus, plain_text, read_corpus, readers

TEXTS = ["One. Two.", "", "Drei.\r\nVier é 你.", None, " \n", "Last."]
KEPT = ["One. Two.", "Drei.\nVier é 你.", "Last."]


def refused(path, error=ValueError, **settings):
    with pytest.raises(error) as caught:
        read_corpus(path, **settings)
    return str(caught.value)


@pytest.mark.parametrize("suffix,opener", [("", open), (".gz", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)])
def test_json_lines_and_text_plain_and_compressed(tmp_path, suffix, opener):
    file = tmp_path / f"rows.jsonl{suffix}"
    with opener(file, "wb") as out:
        out.write(b"\n".join(json.dumps({"id": 1, "body": text}).encode() for text in TEXTS) + b"\n\n")
    assert read_corpus(file, field="body") == KEPT and read_corpus(tmp_path, field="body") == KEPT
    with opener(tmp_path / f"text.txt{suffix}", "wb") as out:
        out.write("First.\n\nSecond é.".encode())
    assert read_corpus(tmp_path / f"text.txt{suffix}") == ["First.", "Second é."]
    if suffix:
        file.write_bytes(file.read_bytes()[:-8])
        said = refused(file, field="body")
        assert "rows.jsonl" in said and f"cannot be decompressed; expected a complete {suffix[1:]} file" in said
        file.write_bytes(b"no such thing as that at all")
        assert "cannot be decompressed" in refused(file, field="body")


@pytest.mark.parametrize("suffix,opener", [("", open), (".gz", gzip.open)])
def test_the_fraction_of_a_file_that_has_been_read(tmp_path, suffix, opener):
    file = tmp_path / f"text.txt{suffix}"
    with opener(file, "wb") as out:
        out.write(np.random.default_rng(0).bytes(4 * compressed.BLOCK))  # gzip cannot make them shorter
    said: list[float] = []
    with compressed.open_bytes(file, said.append) as stream:
        while compressed.read_block(stream, compressed.BLOCK, file):
            pass
    assert said == sorted(said) and said[-1] == 1
    np.testing.assert_allclose(sorted(set(said))[:3], [1 / 4, 2 / 4, 3 / 4], atol=0.01)


def test_bad_json_lines_are_named_by_line(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "a"}\n{"text": \n')
    assert (
        "rows.jsonl, line 2, character 10: not valid JSON; expected "
        "one object per line, got 'Expecting value'" in refused(file)
    )
    file.write_text('{"text": "a"}\n' + "[" * 200_000)
    assert "rows.jsonl, line 2: not valid JSON; expected one object per line, got 'maximum recursion" in refused(file)
    file.write_text('{"text": "a"}\n\n{"body": "b", "id": 3}\n')
    assert (
        "line 3 has no field 'text'; expected an object with the "
        "text in this field, got the fields 'body', 'id'" in refused(file)
    )
    file.write_text('["a"]\n')
    assert (
        "line 1: not a JSON object; expected one object per line, "
        "got list. Write each object on its own line" in refused(file)
    )
    file.write_text("{}")
    assert (
        "line 1 has no field 'text'; expected an object with the "
        "text in this field, got the fields (none). " in refused(file)
    )
    file.write_text('{"text": ["a"]}\n')
    assert "line 1: 'text' is not a string; expected a string, got list" in refused(file)
    file.write_text('{"text": "half \\ud800 a pair"}\n')
    assert read_corpus(file) == ["half ? a pair"]


@pytest.mark.parametrize("length", [900, 5000])
def test_a_json_line_that_is_too_long_is_named_and_not_cut(tmp_path, monkeypatch, length):
    monkeypatch.setattr(readers, "LONGEST_DOCUMENT", 800)
    monkeypatch.setattr(readers._blocks, "__defaults__", (500,))
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "a"}\n' + json.dumps({"text": "x" * length}) + "\n")
    said = refused(file)
    assert "rows.jsonl, line 2 is too long; expected one object per line, of at most 800 characters, got more. " in said
    file.write_text(json.dumps({"text": "x" * 700}) + "\n" + json.dumps({"text": "y" * 788}))
    assert list(map(len, read_corpus(file))) == [700, 788]


def test_json_is_json_lines(tmp_path):
    """As C4 ships; what is an array, or one object over several lines, is refused and not learned as prose."""
    rows = [{"text": "First.", "url": "a"}, {"text": "Second.", "url": "b"}]
    with gzip.open(tmp_path / "c4-train.00000.json.gz", "wt") as out:
        out.write("".join(json.dumps(row) + "\n" for row in rows))
    assert read_corpus(tmp_path) == read_corpus(tmp_path / "c4-train.00000.json.gz") == ["First.", "Second."]
    (tmp_path / "prose.txt").write_text("Third.")
    file = tmp_path / "list.json"
    advice = "Write each object on its own line, not inside a list, or omit the file."
    file.write_text(json.dumps(rows))
    assert (said := refused(file)).endswith(advice) and "list.json, line 1: not a JSON object; expected one" in said
    file.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")
    assert (said := refused(file)).endswith(advice) and "list.json, line 1, character 2: not valid JSON; expec" in said
    file.write_text(json.dumps(rows[0], indent=2))
    assert (said := refused(file)).endswith(advice) and "list.json, line 1, character 2: not valid JSON; expec" in said
    file.write_text('{"version": 3}')
    assert (
        "list.json, line 1 has no field 'text'; expected an object "
        "with the text in this field, got the fields 'v" in (said := refused(file))
    )
    assert said.endswith("Pass the name of the text field with --field, or omit the file.")


def test_what_datasets_writes_beside_its_tables_is_no_text(tmp_path):
    """A folder over saved ones, and over a table that is there with its description."""
    save_to_disk(tmp_path / "all" / "saved", pa.table({"text": TEXTS}))
    (tmp_path / "all" / "dataset_infos.json").write_text('{"default": {}}')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_corpus(tmp_path / "all") == KEPT


def test_parquet(tmp_path):
    file = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"id": range(6), "text": TEXTS}), file, row_group_size=2)
    assert read_corpus(file) == KEPT
    names = [document.name for document in open_corpus(file).documents()]
    assert names[-1].endswith("rows.parquet:6")
    assert (
        "has no column 'body'; expected a column of this name "
        "with the text, got the columns 'id', 'text'" in refused(file, field="body")
    )
    assert "row 1: 'id' is not a string; expected a string, got int" in refused(file, field="id")
    file.write_bytes(file.read_bytes()[:-30])
    assert "rows.parquet cannot be read; expected a complete Parquet file" in refused(file)


def save_to_disk(folder, table, shards=2):
    """The layout of `datasets.Dataset.save_to_disk`: Arrow streams and state.json; see `test_a_saved_dataset`."""
    folder.mkdir(parents=True)
    names = [f"data-{i:05}-of-{shards:05}.arrow" for i in range(shards)]
    for name, rows in zip(names, np.array_split(np.arange(len(table)), shards), strict=True):
        part = table.take(rows)
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_table(part)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text("{}")


def test_a_saved_dataset(tmp_path):
    table = pa.table({"text": TEXTS})
    save_to_disk(tmp_path / "one", table)
    assert read_corpus(tmp_path / "one") == KEPT
    save_to_disk(tmp_path / "many" / "train", table)
    save_to_disk(tmp_path / "many" / "test", table.slice(0, 1), 1)
    (tmp_path / "many" / "dataset_dict.json").write_text('{"splits": ["test", "train"]}')
    assert read_corpus(tmp_path / "many") == KEPT
    assert read_corpus(tmp_path / "many" / "test") == KEPT[:1]
    (tmp_path / "many" / "dataset_dict.json").write_text('{"splits": ["test", "valid"]}')
    assert "has several splits but no 'train' split; expected one split or a split 'train', got test, valid" in refused(
        tmp_path / "many"
    )
    (tmp_path / "one" / "state.json").write_text("{}")
    assert "one is not a valid saved dataset; expected dataset_dict.json or state.json" in refused(tmp_path / "one")
    lost = tmp_path / "many" / "test" / "data-00000-of-00001.arrow"
    whole = lost.read_bytes()
    lost.write_bytes(whole.replace(b"One.", b"On\xff."))
    assert "data-00000-of-00001.arrow cannot be read; expected a complete Arrow file, got ''utf-8' codec" in refused(
        lost
    )
    lost.unlink()
    assert "test is incomplete; expected all files that its state.json lists, got no data-0" in refused(lost.parent)
    arrow = tmp_path / "many" / "train" / "data-00000-of-00002.arrow"
    with pa.OSFile(str(tmp_path / "file.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    assert read_corpus(tmp_path / "file.arrow") == KEPT
    assert "has no column 'body'" in refused(arrow, field="body")
    arrow.write_bytes(arrow.read_bytes()[:200])
    assert "data-00000-of-00002.arrow cannot be read; expected a complete Arrow file" in refused(arrow)


# ------------------------------------------------------------------------------------------------------ Wikipedia

DUMP = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">
  <siteinfo><sitename>Wikipedia</sitename></siteinfo>
  <page><title>Anna</title><ns>0</ns><id>1</id><revision><id>7</id>
    <text xml:space="preserve">{{Infobox|name={{lang|la|Anna}}}}
'''Anna''' is a [[given name|name]].&lt;ref name="a"&gt;A book.&lt;/ref&gt; It is [[Latin]].

== History ==
* [[File:x.jpg|thumb|A [[picture]] of her]]It was &amp;amp; is [https://x.org used].
{| class="t"
| a || b
|}
[[Category:Names]]</text></revision></page>
  <page><title>Ann</title><ns>0</ns><redirect title="Anna" /><revision><text>#REDIRECT [[Anna]]</text></revision></page>
  <page><title>Talk:Anna</title><ns>1</ns><revision><text>Chatter.</text></revision></page>
  <page><title>Bob</title><ns>0</ns><revision><text>Bob is short.</text></revision></page>
</mediawiki>"""


def test_a_wikipedia_dump(tmp_path):
    file = tmp_path / "enwiki-pages-articles.xml.bz2"
    file.write_bytes(bz2.compress(DUMP.encode()))
    documents = list(open_corpus(file).documents())
    assert [document.name.rsplit(":", 1)[1] for document in documents] == ["Anna", "Bob"]
    assert [plain_text(document.text) for document in documents] == [
        "Anna is a name. It is Latin.\n\nHistory\n\nIt was & is used.",
        "Bob is short.",
    ]
    (tmp_path / "cut.xml").write_text(DUMP[:-60])
    assert "cut.xml is not complete XML; expected a Wikipedia dump (pages-articles)" in refused(tmp_path / "cut.xml")
    file.write_bytes(file.read_bytes()[:-20])
    assert "cannot be decompressed; expected a complete bz2 file" in refused(file)


@pytest.mark.parametrize(
    "markup,plain",
    [
        ("a {{b|{{c}}|d}} e", "a e"),
        ("{{unclosed a [[link]]", "{{unclosed a link"),
        ("[[a|b]]s and [[c]]s [[d (e)|]]", "bs and cs"),
        ("[[Datei:x.jpg|mini|[[y]] ''z'']]t", "t"),
        ("x<!-- [[y]] -->z<ref name=q />!", "xz!"),
        ("a<br />b <span style='x'>c</span>", "a b c"),
        ("{| a\n{| b\n|}\n|}\nafter", "after"),
        ("__NOTOC__\n=== H ===\n# one\n# two", "H\n\none two"),
        ("a<ref>b</REF >c<ref name='x'/>d<ref>e", "acde"),
        ("a<Math>b<ref>c</math>d</ref>e", "ade"),
        ("a <!-- b --> c <!-- d\n\ne", "a c"),
        ("== a = b == \n====\n= =\n==c=\n=d", "a = b\n\nc\n\n=d"),
        ("[http://a b] [http://c [//d e\nf]", "b [http://c [//d e f]"),
        ("5 &lt; 6 &nbsp;&mdash; '''''both'''''", "5 < 6 — both"),
    ],
)
def test_markup(markup, plain):
    assert plain_text(markup) == plain


@pytest.mark.parametrize(
    ("broken", "end"),
    [
        *((markup, "x") for markup in ("<ref>words ", "[//x words\n", "=" * 20, "{{words ", "{{words {", "[[words [")),
        *((markup, "x") for markup in ("[[words [[a]] ", "{|\n|}\n|}\n", "! words\n", "<br", "__A_", "a{{b}}", "}}]]")),
        ("| words\n", "x"),
        ("<!-- words ", ""),
    ],
    ids=repr,
)
def test_broken_markup_takes_no_longer(broken, end):
    """Looking for an end anew at each of many beginnings took minutes to hours for such a page."""
    assert plain_text(broken * 50_000 + "x")[-1:] == end
