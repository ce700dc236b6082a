"""`funcnet pretrain --data`: what a run from text learns, and a run in two phases, cut off anywhere."""

import json

import pytest

from funcnet.tasks.pretraining import DataSettings, build, open_data
from funcnet.tasks.pretraining.phases import Phase, Phases, boundary
from tests.tasks.command import SMALL, metrics, run_here, write_corpus
from tests.tasks.test_pretrain_command import interrupt

TRAINING = ["--batch-size", "8", "--log-every", "1", "--devices", "1"]


@pytest.fixture(scope="module", autouse=True)
def caches(tmp_path_factory):
    import jax

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        before = jax.config.jax_compilation_cache_dir
        yield
        jax.config.update("jax_compilation_cache_dir", before)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("text") / "corpus", documents=16)


@pytest.fixture(scope="module")
def data(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "data"
    build(folder, DataSettings(corpus=(corpus,), vocab_size=200, passes=2, seq_len=(32, 64)))
    return folder


def test_a_run_from_data_learns_what_one_from_text_does(corpus, data, tmp_path, capsys):
    text, built = tmp_path / "text", tmp_path / "built"
    assert run_here("pretrain", "--out", text, "--corpus", corpus, *SMALL, "--steps", 6, "--devices", 1) == 0
    assert run_here("pretrain", "--out", built, "--data", data, "--seq-len", 32, "--steps", 6, *TRAINING) == 0
    assert json.loads((text / "eval.json").read_text()) == json.loads((built / "eval.json").read_text())
    assert (text / "model.safetensors").read_bytes() == (built / "model.safetensors").read_bytes()
    capsys.readouterr()
    assert run_here("pretrain", "--out", tmp_path / "no", "--data", data, "--steps", 6, *TRAINING) == 2
    assert "has no rows of 128 tokens; expected one of [32, 64], got 128" in " ".join(capsys.readouterr().err.split())
    assert run_here("pretrain", "--out", tmp_path / "no", "--data", data, "--cased", "--steps", 6) == 2
    assert "--cased together with --data; expected it to be left out" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "no").exists()


def test_phases_go_on_from_any_step(data):
    phases = Phases([Phase(open_data(data, seq_len=32), 4, 0), Phase(open_data(data, seq_len=64), 2, 5)])
    whole = [batch["input_ids"] for _, batch in zip(range(9), phases.batches(), strict=False)]
    assert [ids.shape for ids in whole] == [(4, 32)] * 5 + [(2, 64)] * 4
    for step in range(9):
        assert (next(iter(phases.batches(step)))["input_ids"] == whole[step]).all()
    assert [phases.number(step) for step in (0, 4, 5, 8)] == [0, 0, 1, 1]
    assert [boundary(steps, 0.1) for steps in (1_000_000, 10, 1)] == [900_000, 9, 0]


@pytest.mark.slow
@pytest.mark.parametrize("last", [4, 6, 7])
def test_two_phases_cut_off_before_on_and_after_the_boundary(data, tmp_path, monkeypatch, last):
    import funcnet.tasks.pretraining.run as run_module

    more = ["--seq-len", 32, "--long-seq-len", 64, "--long-share", 0.4, "--long-batch-size", 4, "--steps", 10]
    more += ["--save-every", 2, "--evaluate-every", 2, "--data", data, *TRAINING]
    assert run_here("pretrain", "--out", tmp_path / "whole", *more) == 0
    with monkeypatch.context() as patch:
        interrupt(patch, run_module.JsonLines, "write", when=lambda self, step, values: step == last)
        assert run_here("pretrain", "--out", tmp_path / "cut", *more) == 143
    assert run_here("pretrain", "--out", tmp_path / "cut", *more, "--resume") == 0
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")
    whole, cut = (tmp_path / name / "model.safetensors" for name in ("whole", "cut"))
    assert whole.read_bytes() == cut.read_bytes()
    assert json.loads((tmp_path / "whole" / "eval.json").read_text())["step"] == 10
