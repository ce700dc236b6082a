"""Files written whole; what is no file stays what it is."""

import os
import stat
import threading

import pytest

from funcnet.files import read_json, replacing, require_folder, require_other, write_json
from funcnet.models.bert import BertConfig


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
def test_a_pipe_or_a_device_is_written_to_and_never_replaced(tmp_path):
    """`--out /dev/null`, by root."""
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text("utf-8")))
    reader.start()
    write_json(pipe, {"a": 1})
    reader.join(10)
    assert read == ['{\n  "a": 1\n}\n'] and stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_file_is_as_it_was_when_the_writer_fails(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("before")
    with pytest.raises(ZeroDivisionError), replacing(file) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert file.read_text() == "before" and list(tmp_path.iterdir()) == [file]


def test_where_no_file_can_be(tmp_path):
    with pytest.raises(IsADirectoryError, match=r"predict: --out .*; expected a file, got a folder. Name a file"):
        require_folder(tmp_path, "predict: --out")
    with pytest.raises(FileNotFoundError, match=r"a.csv; expected a file in a folder that is there, got none. Make"):
        require_folder(tmp_path / "no" / "a.csv", "predict: --out")
    require_folder(tmp_path / "a.csv", "predict: --out")


def test_no_file_is_written_over_what_is_read(tmp_path):
    file, hard, soft = (tmp_path / name for name in ("a.csv", "hard.csv", "soft.csv"))
    file.write_text("text\n")
    os.link(file, hard)
    soft.symlink_to(file)
    for other in (file, hard, soft, tmp_path / "." / "a.csv"):
        with pytest.raises(ValueError, match=r"predict: --out .* is the input; expected another file, got the one th"):
            require_other(other, [tmp_path / "none.csv", file], "predict: --out")
    require_other(tmp_path / "none.csv", [file], "predict: --out")
    require_other(os.devnull, [os.devnull], "predict: --out")


def test_brackets_within_brackets_are_no_json(tmp_path):
    """Nor is a traceback what somebody gets to read: the parser has no stack for so many."""
    file = tmp_path / "config.json"
    file.write_text("[" * 200_000)
    assert read_json(file) is None
    with pytest.raises(ValueError, match=r"config.json is no JSON; expected an object, got"):
        BertConfig.load(tmp_path)
