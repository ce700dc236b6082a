"""Each step is logged once, even after kills."""

import json
import os

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from funcnet import train


def test_lines_after_the_resumed_step_and_half_a_line_are_cut(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with train.JsonLines(path, 0) as log:
        for step in range(1, 6):
            log.write(step, {"loss": 1.0 / step})
        log.sync()
    with open(path, "ab") as file:
        file.write(b'{"step": 6, "lo')  # killed in the middle of a write
    with train.JsonLines(path, 3) as log:
        assert [row["step"] for row in train.read_metrics(path)] == [1, 2, 3]
        log.write(4, {"loss": 0.0})
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 3, 4]
    train.JsonLines(path, 0).close()
    assert path.read_text() == ""


def test_half_a_line_that_happens_to_be_json_is_cut_too(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}')
    train.JsonLines(path, 5).close()
    assert path.read_text() == '{"step": 1}\n'


def test_a_broken_line_in_the_middle_is_reported(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\nnonsense\n{"step": 2}\n')
    with pytest.raises(
        train.RunError,
        match=r"metrics.jsonl, line 2 is not a metrics record; expected a JSON object with a 'step', got b'nonse",
    ):
        train.JsonLines(path, 5)


def test_a_file_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        train.RunError, match=r"train.JsonLines: cannot write .*expected a writable folder with free space"
    ):
        train.JsonLines(tmp_path / "file" / "metrics.jsonl", 0)
    with pytest.raises(train.RunError, match=r"train.TensorBoard: cannot write"):
        train.TensorBoard(tmp_path / "file" / "events", 0)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux's device that is always full")
def test_a_full_disk_is_reported():
    log = train.JsonLines.__new__(train.JsonLines)
    log.path, log._file = "/dev/full", open("/dev/full", "wb", buffering=0)  # noqa: SIM115
    with pytest.raises(
        train.RunError, match=r"cannot write /dev/full; .*No space left on device. Files that were complete"
    ):
        log.write(1, {"loss": 1.0})
    log.close()


def test_tensorboard_shows_each_step_once(tmp_path):
    for start, stop in ((0, 6), (3, 8)):  # killed after 5, resumed from 3
        with train.TensorBoard(tmp_path, start) as log:
            for step in range(start + 1, stop):
                log.write(step, {"loss": float(step), "eval_loss": 2.0 * step})
            log.sync()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [1, 2, 3, 4, 5, 6, 7]
    assert events.Scalars("eval/loss")[-1].value == 14.0
