"""An unchanged corpus, and data that were checked before, are not read again; what has changed is."""

import os
import subprocess
import sys

import pytest

from funcnet.settings import compose
from funcnet.tasks.pretraining_data import DataSettings, build_state, manifest, prepare_data
from tests.tasks.command import write_corpus


@pytest.fixture
def corpus(tmp_path):
    folder = write_corpus(tmp_path / "corpus")
    for file in folder.iterdir():
        os.utime(file, (1e9, 1e9))
    return folder


@pytest.fixture
def read(monkeypatch):
    """The names of the files that are read to the end: of the corpus, and of the data."""
    found = {"corpus": [], "data": []}

    def digest(path):
        found["corpus"].append(path.name)
        return file_digest(path)

    def problem(path, *rest, **options):
        found["data"].append(path.name)
        return file_problem(path, *rest, **options)

    file_digest, file_problem = manifest.file_digest, build_state.file_problem
    monkeypatch.setattr(manifest, "file_digest", digest)
    monkeypatch.setattr(build_state, "file_problem", problem)
    return found


def prepared(corpus, tmp_path, read):
    """(the data, names of the corpus files that were read, names of the data files that were read)"""
    read["corpus"].clear()
    read["data"].clear()
    data = prepare_data(
        compose(DataSettings, corpus=(corpus,), seq_len=(32,), passes=1, vocab_size=200), tmp_path / "cache"
    )
    names = {file.name for file in corpus.iterdir()}
    return data, sorted(names.intersection(read["corpus"])), sorted(read["data"])


def test_what_has_not_changed_is_not_read_again(corpus, tmp_path, read):
    everything = sorted(file.name for file in corpus.iterdir())
    data, texts, files = prepared(corpus, tmp_path, read)
    assert texts == everything and len(read["corpus"]) < 2 * len(everything) and files == []
    assert prepared(corpus, tmp_path, read)[1:] == ([], [])
    (tmp_path / "cache" / "known-files.json").write_text("{")  # only an aid
    again, texts, files = prepared(corpus, tmp_path, read)
    assert again.directory == data.directory and texts == everything and "counts.arrow" in files
    assert prepared(corpus, tmp_path, read)[1:] == ([], [])


OPENING = """
import sys
from pathlib import Path

opened = []
sys.addaudithook(lambda event, given: event == "open" and opened.append(str(given[0])))
from funcnet.settings import compose
from funcnet.tasks.pretraining_data import DataSettings, prepare_data

for number in range(2):
    opened.clear()
    settings = compose(DataSettings, corpus=(Path(sys.argv[1]),), seq_len=(32,), passes=1, vocab_size=200)
    prepare_data(settings, sys.argv[2])
    print(len({file for file in opened if file.startswith(sys.argv[1])}))
"""


@pytest.mark.slow
def test_no_file_of_an_unchanged_corpus_is_opened_again(corpus, tmp_path):
    """Not even to guess its layout."""
    command = [sys.executable, "-c", OPENING, str(corpus), str(tmp_path / "cache")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(list(corpus.iterdir()))), "0"]


def test_a_changed_text_is_other_data(corpus, tmp_path, read):
    data, texts, _ = prepared(corpus, tmp_path, read)
    first = corpus / texts[0]
    content = first.read_bytes()
    first.write_bytes(content.replace(b"the", b"her", 1))  # of the same size, a moment ago
    other, read_now, _ = prepared(corpus, tmp_path, read)
    assert other.directory != data.directory and read_now == [first.name]
    assert prepared(corpus, tmp_path, read)[1] == [first.name]  # another change may have the same time
    first.write_bytes(content)
    os.utime(first, (1e9, 1e9))
    assert prepared(corpus, tmp_path, read)[0].directory == data.directory


def test_changed_data_are_checked_and_made_again(corpus, tmp_path, read):
    data = prepared(corpus, tmp_path, read)[0]
    file = data.directory / "tokens-00000.arrow"
    content = file.read_bytes()
    file.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
    assert prepared(corpus, tmp_path, read)[2] == [file.name]
    assert file.read_bytes() == content
    (data.directory / "counts.arrow").unlink()
    assert prepared(corpus, tmp_path, read)[2] == ["counts.arrow"]
