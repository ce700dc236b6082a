"""Files written whole; what is no file stays what it is."""

import errno
import os
import stat
import subprocess
import sys
import threading

import pytest

from funcnet.files import (
    check_digests,
    lock_folder,
    read_json,
    replacing,
    require_folder,
    require_new,
    require_other,
    write_digests,
    write_json,
)
from funcnet.models.bert import BertConfig
from funcnet.tasks.pretraining_data.manifest import lock_build


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
    with pytest.raises(IsADirectoryError, match=r"predict: --out .*; expected a file, got a folder."):
        require_folder(tmp_path, "predict: --out")
    with pytest.raises(FileNotFoundError, match=r"a.csv; expected a file in an existing folder. Create"):
        require_folder(tmp_path / "no" / "a.csv", "predict: --out")
    require_folder(tmp_path / "a.csv", "predict: --out")


def test_no_file_is_written_over_what_is_read(tmp_path):
    file, hard, soft = (tmp_path / name for name in ("a.csv", "hard.csv", "soft.csv"))
    file.write_text("text\n")
    os.link(file, hard)
    soft.symlink_to(file)
    for other in (file, hard, soft, tmp_path / "." / "a.csv"):
        with pytest.raises(
            ValueError, match=r"predict: --out .* is also an input file; expected a different file, got the same"
        ):
            require_other(other, [tmp_path / "none.csv", file], "predict: --out")
    require_other(tmp_path / "none.csv", [file], "predict: --out")
    require_other(os.devnull, [os.devnull], "predict: --out")


def test_no_file_is_replaced(tmp_path):
    file, link = tmp_path / "a.onnx", tmp_path / "link.onnx"
    file.touch()
    link.symlink_to(file)
    for existing in (file, link):
        with pytest.raises(FileExistsError, match=r"export: --out .*onnx exists; expected a new file, got an existing"):
            require_new(existing, "export: --out")
    for other in (tmp_path / "none.onnx", tmp_path, os.devnull):
        require_new(other, "export: --out")


def test_brackets_within_brackets_are_no_json(tmp_path):
    """Nor is a traceback what somebody gets to read: the parser has no stack for so many."""
    file = tmp_path / "config.json"
    file.write_text("[" * 200_000)
    assert read_json(file) is None
    with pytest.raises(ValueError, match=r"config.json is not valid JSON; expected a JSON object, got"):
        BertConfig.load(tmp_path)


# ---------------------------------------------------------------------------------------------------- a locked folder

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such lock")


@posix
def test_a_locked_folder_is_refused_or_waited_for_and_free_when_the_process_dies(tmp_path):
    code = (
        "import sys, time; from funcnet.files import lock_folder\n"
        "with lock_folder(sys.argv[1]): print('locked', flush=True); time.sleep(60)"
    )
    looks = []
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"locked\n"
            with pytest.raises(BlockingIOError), lock_folder(tmp_path):
                pass
            with lock_folder(tmp_path, lambda: looks.append(process.poll()) or len(looks) < 3 or process.kill()):
                assert looks[:3] == [None] * 3 and process.wait() != 0
        finally:
            process.kill()
    assert not list(tmp_path.iterdir())


@posix
def test_a_build_of_data_waits_and_says_so(tmp_path):
    said = []
    with pytest.raises(TimeoutError), lock_folder(tmp_path), lock_build(tmp_path, lambda *told: give_up(said, told)):
        pass
    assert said == [("waiting for another build", 0, 1)]


def give_up(said, told):
    said.append(told)
    raise TimeoutError


@posix
def test_a_file_system_without_locks(tmp_path, monkeypatch):
    import fcntl

    def none(*_):
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", none)
    with lock_folder(tmp_path), lock_folder(tmp_path), lock_build(tmp_path, None):
        pass


def test_a_system_without_locks(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as Windows, where importing it fails
    with lock_folder(tmp_path), lock_folder(tmp_path):
        pass


@posix
def test_no_folder_to_lock(tmp_path):
    with pytest.raises(FileNotFoundError), lock_folder(tmp_path / "none"):
        pass


def test_a_file_that_has_changed_since_its_digest_was_written(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"abc")
    write_digests(tmp_path, ["a.bin", "absent"])
    check_digests(tmp_path, "here")
    (tmp_path / "a.bin").write_bytes(b"abd")
    check_digests(tmp_path, "here", ["other"])
    with pytest.raises(
        ValueError, match=r"^here: .*a.bin has changed since it was written; expected SHA-256 .* delete"
    ):
        check_digests(tmp_path, "here")
    (tmp_path / "a.bin").unlink()
    with pytest.raises(ValueError, match=r"^here: .*a.bin is missing; expected it by digests.json, got no file"):
        check_digests(tmp_path, "here")
    (tmp_path / "digests.json").unlink()
    check_digests(tmp_path, "here")
