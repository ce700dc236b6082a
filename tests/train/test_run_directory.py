"""Whether a run may start or resume in a directory, and the errors if not."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from funcnet import train
from funcnet.files import read_json, write_json
from funcnet.settings import differences
from funcnet.train.run_directory import check_facts

CONFIG = {"steps": 100, "model": {"layers": 2, "name": "tiny"}}


def test_a_run_from_its_start_to_its_end(tmp_path):
    out = train.open_run(tmp_path / "deep" / "run", CONFIG)
    train.record_facts(out, {"corpus": "ab12"})
    assert not train.is_finished(out)
    assert train.open_run(out, CONFIG, resume=True) == out
    train.record_facts(out, {"corpus": "ab12", "vocabulary": "cd34"})
    train.finish(out)
    assert train.is_finished(train.open_run(out, CONFIG, resume=True))


def test_a_second_run_needs_resume(tmp_path):
    train.open_run(tmp_path, CONFIG)
    with pytest.raises(
        train.RunError, match=r"already contains a run; expected a new or empty folder, got .*Add --resume"
    ):
        train.open_run(tmp_path, CONFIG)


def test_files_that_would_be_overwritten_are_named(tmp_path):
    (tmp_path / "model.safetensors").write_text("precious")
    (tmp_path / "log.txt").write_text("harmless")
    with pytest.raises(train.RunError, match=r"already contains model.safetensors; expected a new or empty folder"):
        train.open_run(tmp_path, CONFIG, writes=("config.json", "model.safetensors"))
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["log.txt", "model.safetensors"]


@pytest.mark.parametrize(("name", "what"), [("none", "no such folder"), (".", "a folder without run.json")])
def test_nothing_to_resume(tmp_path, name, what):
    with pytest.raises(
        train.RunError, match=f"there is no run to resume in .*; expected a folder with run.json, got {what}. Omit"
    ):
        train.open_run(tmp_path / name, CONFIG, resume=True)


def test_another_configuration_is_listed(tmp_path):
    train.open_run(tmp_path, CONFIG)
    other = {"steps": 200, "model": {"layers": 2, "name": "base"}, "seed": 1}
    text = "different ones: steps was 100, now 200; model.name was 'tiny', now 'base'; seed was absent, now 1. Resume"
    with pytest.raises(train.RunError, match=f"got {text}"):
        train.open_run(tmp_path, other, resume=True)
    train.record_facts(tmp_path, {"corpus": "ab12"})
    with pytest.raises(train.RunError, match=r"^train.record_facts: .*corpus was 'ab12', now 'ff00'"):
        train.record_facts(tmp_path, {"corpus": "ff00"})
    with pytest.raises(
        train.RunError, match=r"expected the original ones, got changed ones: a.txt \(corpus\). Restore the files"
    ):
        train.record_facts(tmp_path, {"corpus": "ff00", "more": 1}, {"corpus": "a.txt", "more": "b.txt"})


def test_the_error_for_a_changed_file_names_all_facts_and_the_folder(tmp_path, monkeypatch):
    out, absolute = tmp_path / "run", str(tmp_path / "b.txt")
    monkeypatch.chdir(tmp_path)
    train.record_facts(train.open_run(out, CONFIG), {"words": "a", "corpus": "b", "test": "c"})
    others = {"words": "1", "corpus": "2", "test": "3"}, {"words": "a.txt", "corpus": "a.txt", "test": absolute}
    with pytest.raises(train.RunError) as error:
        train.record_facts(out, *others)
    said = str(error.value)
    assert f"a.txt (words, corpus) and {absolute} (test). Restore" in said and said.endswith("with another --out.")
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    with pytest.raises(train.RunError) as error:
        train.record_facts(out, *others)
    hint = f" The run started in {tmp_path}; if a.txt is relative to it, change to that folder first."
    assert str(error.value) == said + hint
    with pytest.raises(train.RunError, match=r"b.txt \(test\). Restore .*with another --out.$"):
        train.record_facts(out, {"test": "3"}, {"test": absolute})


def test_a_comparison_of_facts_writes_nothing(tmp_path):
    out = train.open_run(tmp_path, CONFIG)
    train.record_facts(out, {"corpus": "ab12", "rows": 3})
    before = (out / "run.json").read_bytes()
    check_facts(out, {"corpus": "ab12", "vocabulary": "cd34"}, where="quantize")
    with pytest.raises(train.RunError, match=r"^quantize: .* changed ones: a.txt \(corpus\)\. Restore the files\.$"):
        check_facts(out, {"corpus": "ff00"}, {"corpus": "a.txt"}, where="quantize")
    with pytest.raises(train.RunError, match=r"^quantize: .* rows was 3, now 4\. Restore the original values\.$"):
        check_facts(out, {"rows": 4}, where="quantize")
    assert (out / "run.json").read_bytes() == before


def test_where_a_run_began(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = train.open_run(tmp_path / "run", CONFIG)
    assert train.began_in(out) == str(tmp_path)
    record = read_json(out / "run.json")
    del record["began_in"]  # as older releases wrote it
    write_json(out / "run.json", record)
    assert train.began_in(out) is None
    monkeypatch.chdir(out)
    train.record_facts(out, {"corpus": "a"})
    with pytest.raises(train.RunError, match=r"with another --out.$"):
        train.record_facts(out, {"corpus": "b"}, {"corpus": "a.txt"})


def test_tuples_are_lists_in_a_file():
    assert differences({"corpus": ["a", "b"]}, {"corpus": ("a", "b")}) == []


def test_a_file_that_is_not_a_run_record(tmp_path):
    for text in ("{}", '{"config": 5, "facts": {}, "finished": false}'):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(
            train.RunError, match=r"run.json is not a run record; expected an object with config, facts and finished"
        ):
            train.open_run(tmp_path, CONFIG, resume=True)


def test_a_folder_without_a_run(tmp_path):
    for function in (train.is_finished, train.finish):
        with pytest.raises(train.RunError, match=r"has no run; expected run.json, got no such file"):
            function(tmp_path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch, number):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "mkdir", refuse)
    message = rf"train.open_run: cannot write .*expected a writable folder .*, got \[Errno {number}\] "
    with pytest.raises(train.RunError, match=message + os.strerror(number)):
        train.open_run(tmp_path / "run", CONFIG)


@pytest.mark.skipif(not os.access("/sys", os.F_OK), reason="Linux has this folder")
def test_a_file_system_that_refuses_every_write(tmp_path):
    with pytest.raises(train.RunError, match=r"cannot write /sys/run; expected a writable folder with free space"):
        train.open_run("/sys/run", CONFIG)


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("name", ["file", "file/run"])
def test_a_file_is_no_folder(tmp_path, name, resume):
    (tmp_path / "file").write_text("")
    with pytest.raises(train.RunError, match=r"file( is|, which is) a file; expected a folder, got a file. Use ano"):
        train.open_run(tmp_path / name, CONFIG, resume=resume)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such lock")
def test_one_process_runs_in_a_folder_until_it_dies(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from funcnet import train\n"
        "with train.lock_run(train.open_run(Path(sys.argv[1]), {})): print('locked', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"locked\n"
        for start in (lambda: train.open_run(tmp_path, {}), lambda: train.lock_run(tmp_path).__enter__()):
            with pytest.raises(
                train.RunError,
                match=r"^train.lock_run: .* is locked by another process; .* Wait for the process to end, or use anot",
            ):
                start()
    finally:
        process.kill()
        process.communicate()
    with train.lock_run(train.open_run(tmp_path, {}, resume=True)):
        assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    with train.lock_run(tmp_path):  # released
        pass
