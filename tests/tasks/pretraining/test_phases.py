"""`funcnet pretrain --data` gives the same model as --corpus; a run in two phases can be stopped at any step."""

import json

import jax
import numpy as np
import pytest

from funcnet.settings import compose
from funcnet.tasks.pretraining.phases import Phase, Phases, boundary, open_phases
from funcnet.tasks.pretraining.settings import PretrainingSettings
from funcnet.tasks.pretraining_data import DataSettings, build, open_data
from funcnet.train import Interruption
from tests.tasks.command import SMALL, metrics, run_here, write_corpus, write_short_documents
from tests.tasks.pretraining.test_task import interrupt

TRAINING = ["--batch-size", "8", "--log-every", "1", "--devices", "1"]


@pytest.fixture(scope="module", autouse=True)
def caches(tmp_path_factory):
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
    build(folder, compose(DataSettings, corpus=(corpus,), vocab_size=200, passes=2, seq_len=(32, 64)))
    return folder


@pytest.mark.slow
def test_a_run_from_data_equals_a_run_from_text(corpus, data, tmp_path):
    text, built = tmp_path / "text", tmp_path / "built"
    assert run_here("pretrain", "--out", text, "--corpus", corpus, *SMALL, "--steps", 6, "--devices", 1) == 0
    assert run_here("pretrain", "--out", built, "--data", data, "--seq-len", 32, "--steps", 6, *TRAINING) == 0
    assert json.loads((text / "eval.json").read_text()) == json.loads((built / "eval.json").read_text())
    assert (text / "model.safetensors").read_bytes() == (built / "model.safetensors").read_bytes()


def test_batches_from_data_are_those_from_text(corpus, data, tmp_path):
    """Compares everything that a run reads; the test above compares the resulting models."""
    small = {"seq_len": 32, "batch_size": 8, "out": tmp_path / "no"}
    options = {"corpus": (corpus,), "vocab_size": 200, "passes": 2}
    with Interruption() as stop:
        text = open_phases(compose(PretrainingSettings, **small, **options), stop)
        built = open_phases(compose(PretrainingSettings, **small, data=data), stop)
    for _, ours, theirs in zip(range(40), text.batches(), built.batches(), strict=False):
        jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    ours, theirs = (phases.phases[0].data for phases in (text, built))
    jax.tree.map(np.testing.assert_array_equal, ours.evaluation[np.arange(9)], theirs.evaluation[np.arange(9)])
    np.testing.assert_array_equal(ours.unigram(), theirs.unigram())


def test_settings_that_the_data_folder_determines_are_refused(data, tmp_path, capsys):
    assert run_here("pretrain", "--out", tmp_path / "no", "--data", data, "--steps", 6, *TRAINING) == 2
    assert "has no rows of 128 tokens; expected one of [32, 64], got 128" in " ".join(capsys.readouterr().err.split())
    assert run_here("pretrain", "--out", tmp_path / "no", "--data", data, "--cased", "--steps", 6) == 2
    assert "--cased cannot be combined with --data; expected only --data" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "no").exists()


def test_phases_resume_at_any_step(data):
    phases = Phases([Phase(open_data(data, seq_len=32), 4, 0), Phase(open_data(data, seq_len=64), 2, 5)])
    whole = [batch["input_ids"] for _, batch in zip(range(9), phases.batches(), strict=False)]
    assert [ids.shape for ids in whole] == [(4, 32)] * 5 + [(2, 64)] * 4
    for step in range(9):
        assert (next(iter(phases.batches(step)))["input_ids"] == whole[step]).all()
    assert [phases.number(step) for step in (0, 4, 5, 8)] == [0, 0, 1, 1]
    assert [boundary(steps, 0.1) for steps in (1_000_000, 10, 1)] == [900_000, 9, 0]


LONGER = ["--seq-len", 32, "--long-seq-len", 64, "--long-share", 0.4, "--long-batch-size", 4, "--steps", 10]
LONGER += ["--save-every", 2, "--evaluate-every", 2, "--packed", *TRAINING]


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    folder = tmp_path_factory.mktemp("short")
    corpus = write_short_documents(folder / "corpus.txt")
    build(folder / "data", compose(DataSettings, corpus=(corpus,), vocab_size=60, passes=2, seq_len=(32, 64)))
    assert (open_data(folder / "data", seq_len=32).packed()[np.arange(10)]["sequence_ids"].max(1) > 1).any()
    return folder / "data"


@pytest.fixture(scope="module")
def whole(short, tmp_path_factory):
    """An uninterrupted run in two phases with packed rows."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert run_here("pretrain", "--out", out, "--data", short, *LONGER) == 0
    return out


@pytest.mark.slow
@pytest.mark.parametrize("last", [4, 6, 7])
def test_two_phases_stopped_before_at_and_after_the_boundary(short, whole, tmp_path, monkeypatch, last):
    import funcnet.train.trials as trials_module

    cut = tmp_path / "cut"
    with monkeypatch.context() as patch:
        interrupt(patch, trials_module.JsonLines, "write", when=lambda self, step, values: step == last)
        assert run_here("pretrain", "--out", cut, "--data", short, *LONGER) == 143
    assert run_here("pretrain", "--out", cut, "--data", short, *LONGER, "--resume") == 0
    assert metrics(cut) == metrics(whole)
    assert (cut / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert json.loads((whole / "eval.json").read_text())["step"] == 10
