"""`funcnet pretrain` and `fill-mask` on the command line: what they write, how they stop, what they refuse."""

import json
import os
import signal
import stat
from pathlib import Path

import jax
import numpy as np
import platformdirs
import pytest

import funcnet.tasks.pretraining.phases as phases_module
import funcnet.tasks.pretraining.task as task_module
import funcnet.train.run as run_module
import funcnet.train.trials as trials_module
from funcnet.models import bert
from funcnet.settings import compose, recorded
from funcnet.tasks.pretraining.settings import PretrainingSettings
from funcnet.tasks.pretraining_data import DataSettings, prepare_data
from funcnet.train import lock_run, open_run, record_facts
from funcnet.train.checkpoints import Checkpoints
from tests.tasks.command import SMALL, metrics, run_here, write_corpus
from tests.train.kill_matrix import killed

RUN = [*SMALL, "--steps", 12, "--devices", 1]


@pytest.fixture(scope="module", autouse=True)
def caches(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        before = jax.config.jax_compilation_cache_dir
        yield
        jax.config.update("jax_compilation_cache_dir", before)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("text") / "corpus")


@pytest.fixture(scope="module")
def finished(corpus, tmp_path_factory):
    """The folder of a small run that has finished."""
    out = tmp_path_factory.mktemp("run") / "out"
    assert run_here("pretrain", "--out", out, "--corpus", corpus, *RUN) == 0
    return out


def test_killed_and_resumed_it_has_the_same_bits(finished, corpus, tmp_path):
    command = ["pretrain", "--out", tmp_path / "out", "--corpus", corpus, *RUN, "--save-every", 4]
    killed("save: some files", 8, tmp_path / "out", Path(os.environ["XDG_CACHE_HOME"]), *command)
    assert run_here(*command, "--resume") == 0
    assert metrics(tmp_path / "out") == metrics(finished)
    for name in ("model.safetensors", "eval.json"):
        assert (tmp_path / "out" / name).read_bytes() == (finished / name).read_bytes()


# --------------------------------------------------------------------------------------------------- what it writes


@pytest.mark.slow
def test_lamb_runs_at_its_own_rates(corpus, tmp_path):
    more = ["--steps", 4, "--devices", 1, "--optimizer", "lamb", "--warmup", 0.5, "--learning-rate", 0.01]
    assert run_here("pretrain", "--out", tmp_path / "run", "--corpus", corpus, *SMALL, *more) == 0
    rates = [row["learning_rate"] for row in metrics(tmp_path / "run")]
    np.testing.assert_allclose(rates, [0.005, 0.01 * 0.5**0.5, 0.005, 0], rtol=1e-5)  # NVIDIA's PolyWarmUpScheduler


def test_the_quick_start_is_the_default_of_adamw():
    kinds = [("adamw", None), ("lamb", None), ("lamb", "quick"), ("adamw", "bert")]
    starts = [compose(PretrainingSettings, out=Path("out"), optimizer=o, start=s).is_quick for o, s in kinds]
    assert starts == [True, False, True, False]


def test_the_run_directory_has_all_files_and_metrics(finished):
    files = {path.name for path in finished.iterdir()}
    assert {"config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json", "model.safetensors"} <= files
    assert {"metrics.jsonl", "eval.json", "report.png", "checkpoints", "tensorboard"} <= files
    names = {"step", "loss", "mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy", "learning_rate"}
    rows = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, 13))
    assert all(names | {"tokens_per_second"} <= set(row) for row in rows)
    evaluation = json.loads((finished / "eval.json").read_text())
    assert {"mlm_loss", "mlm_accuracy", "nsp_accuracy", "unigram_loss", "mlm_positions"} <= set(evaluation)
    assert {"mlm_loss_on_mask", "unigram_loss_on_mask"} <= set(evaluation)
    assert (finished / "report.png").read_bytes().startswith(b"\x89PNG") and any((finished / "tensorboard").iterdir())


@pytest.mark.slow
def test_hugging_face_opens_it_with_equal_logits(finished, corpus):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.BertForPreTraining.from_pretrained(finished).eval()
    tokenizer = transformers.BertTokenizerFast.from_pretrained(finished)
    lines = [line for path in sorted(corpus.iterdir()) for line in path.read_text().splitlines() if line][:16]
    batch = tokenizer(lines, padding=True, truncation=True, max_length=32, return_tensors="np")
    with torch.no_grad():
        reference = model(**{name: torch.tensor(values) for name, values in batch.items()})
    net, params, state = bert.from_pretrained(finished, bert.BertForPreTraining)
    (words, sentence), _ = net.apply(params, state, **{k: v.astype(np.int32) for k, v in batch.items()})
    for ours, theirs in ((words, reference.prediction_logits), (sentence, reference.seq_relationship_logits)):
        theirs = theirs.numpy()
        assert np.abs(np.asarray(ours) - theirs).max() <= 1e-5 * np.abs(theirs).max()


def test_the_evaluation_is_that_of_transformers(finished, corpus):
    """Computes the values of eval.json with the model of transformers and numpy, one example at a time."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    evaluation = json.loads((finished / "eval.json").read_text())
    settings = {"seq_len": (32,), "vocab_size": 200, "passes": 2}
    data = prepare_data(
        compose(DataSettings, corpus=(corpus,), **settings), platformdirs.user_cache_path("funcnet") / "data"
    )
    counted = np.bincount(np.asarray(data.train.tokens), minlength=200) + 1
    unigram = np.log(counted / counted.sum())
    model = transformers.BertForPreTraining.from_pretrained(finished).eval()
    words, on_mask, right = [], [], []
    for i in range(len(data.evaluation)):
        batch = {name: values[0] for name, values in data.evaluation[np.array([i])].items()}
        inputs = {name: torch.tensor(batch[name][None]) for name in ("input_ids", "attention_mask", "token_type_ids")}
        with torch.no_grad():
            out = model(**inputs)
        right.append(int(out.seq_relationship_logits[0].argmax()) == batch["next_sentence_label"])
        log_probabilities = out.prediction_logits[0].log_softmax(-1).numpy()
        for place, label, weight in zip(
            batch["masked_positions"], batch["masked_ids"], batch["masked_weights"], strict=True
        ):
            if weight:
                words.append((-log_probabilities[place, label], -unigram[label]))
                if batch["input_ids"][place] == data.tokenizer.token_to_id("[MASK]"):
                    on_mask.append(words[-1])
    assert evaluation["mlm_positions"] == len(words) > 40
    assert evaluation["nsp_accuracy"] == pytest.approx(np.mean(right))
    np.testing.assert_allclose([evaluation["mlm_loss"], evaluation["unigram_loss"]], np.mean(words, 0), rtol=1e-5)
    found = [evaluation["mlm_loss_on_mask"], evaluation["unigram_loss_on_mask"]]
    np.testing.assert_allclose(found, np.mean(on_mask, 0), rtol=1e-5)


def test_guesses_for_masked_words(finished, capsys):
    assert run_here("fill-mask", finished, "the [MASK] of the united states .", "[MASK] and [MASK]", "--top", 3) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and all(line.count("%") == 3 for line in lines if line.startswith("  "))


def test_a_finished_run_says_so(finished, corpus, capsys):
    again = ["pretrain", "--out", finished, "--corpus", corpus, *SMALL, "--steps", 12, "--devices", 1, "--resume"]
    assert run_here(*again) == 0
    assert "has finished" in capsys.readouterr().out


def test_two_processes_do_not_run_in_one_folder(finished, capsys):
    with lock_run(finished):
        assert run_here("pretrain", "--resume", "--out", finished) == 2
    assert f"{finished} is locked by another process;" in capsys.readouterr().err
    assert run_here("pretrain", "--resume", "--out", finished) == 0


def test_a_corpus_that_was_changed_is_named(corpus, tmp_path, capsys):
    small = {"seq_len": 32, "vocab_size": 200, "batch_size": 8, "passes": 2, "devices": 1}
    out = tmp_path / "out"
    settings = compose(PretrainingSettings, out=out, corpus=(corpus,), **small)
    record_facts(open_run(out, recorded(settings, leave_out=run_module.NOT_RECORDED)), {"corpus": "of another text"})
    assert run_here("pretrain", "--resume", "--out", out) == 2
    message = f"expected the original ones, got changed ones: {corpus} (corpus). Restore"
    assert message in capsys.readouterr().err


def test_a_resumed_run_keeps_the_settings_that_are_left_out(finished, tmp_path, capsys):
    record = json.loads((finished / "run.json").read_text())["config"]
    assert (record["steps"], record["vocab_size"]) == (12, 200), "not the defaults"
    for out in ("--out", str(finished)), (f"--out={finished}",):
        assert run_here("pretrain", "--resume", *out) == 0
        assert "has finished" in capsys.readouterr().out
    assert run_here("pretrain", "--resume", "--out", finished, "--save-every", 3, "--keep", 1) == 0
    capsys.readouterr()
    assert run_here("pretrain", "--resume", "--out", finished, "--steps", 13) == 2
    assert "got different ones: steps was 12, now 13." in capsys.readouterr().err
    assert run_here("pretrain", "--resume", "--out", tmp_path / "none") == 2
    assert "there is no run to resume" in capsys.readouterr().err
    assert run_here("pretrain", "--resume", "--out") == 2


def test_edited_settings_are_refused(finished, tmp_path, capsys):
    record = json.loads((finished / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**record, "config": {**record["config"], "corpus": [5]}}))
    assert run_here("pretrain", "--resume", "--out", tmp_path) == 2
    assert "corpus was [5], now None" in capsys.readouterr().err


def test_an_empty_list_of_files_is_not_the_default_corpus(tmp_path, capsys):
    assert "no paths; expected at least one file or folder" in refused(capsys, tmp_path / "out", "--corpus")
    assert run_here("data", "build", "--out", tmp_path / "data", "--corpus") == 2
    assert "no paths; expected at least one file or folder" in capsys.readouterr().err


@pytest.mark.slow
def test_a_given_cased_vocabulary(finished, corpus, tmp_path):
    transformers = pytest.importorskip("transformers")
    first, second = tmp_path / "first", tmp_path / "second"
    common = ["--corpus", corpus, *SMALL, "--steps", 2, "--devices", 1, "--cased"]
    assert run_here("pretrain", "--out", first, *common) == 0
    own = [word for word in common if word not in ("--vocab-size", "200")]
    assert run_here("pretrain", "--out", second, *own, "--vocab", first) == 0
    assert (first / "vocab.txt").read_bytes() == (second / "vocab.txt").read_bytes()
    tokenizer = transformers.BertTokenizerFast.from_pretrained(second)
    assert tokenizer.convert_ids_to_tokens(tokenizer("The Union").input_ids)[1].startswith("T")


# ------------------------------------------------------------------------------------------------------ how it stops


def stopped_run(corpus, out, *more):
    return run_here("pretrain", "--out", out, "--corpus", corpus, *SMALL, "--steps", 12, "--devices", 1, *more)


def interrupt(monkeypatch, owner, name, *, when=lambda *args: True):
    """Send SIGTERM at the first call of `owner.name`."""
    original, sent = getattr(owner, name), []

    def wrapped(*args, **kwargs):
        if not sent and when(*args):
            sent.append(True)
            os.kill(os.getpid(), signal.SIGTERM)
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, wrapped)
    return sent


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["preparing", "compiling", "training", "evaluating", "saving"])
def test_sigterm(moment, corpus, finished, tmp_path, monkeypatch, capsys):
    where = {
        "preparing": (phases_module, "prepare_data"),
        "compiling": (trials_module, "parallelize"),
        "training": (trials_module.JsonLines, "write"),
        "evaluating": (task_module, "evaluate"),
        "saving": (Checkpoints, "_write"),
    }[moment]
    out = tmp_path / "out"
    often = ["--save-every", "3", "--evaluate-every", "3"]
    with monkeypatch.context() as patch:
        sent = interrupt(patch, *where)
        assert stopped_run(corpus, out, *often) == 143
    assert sent
    said = capsys.readouterr().out
    assert "Continue with --resume" in said
    assert not (out / "model.safetensors").exists()
    assert stopped_run(corpus, out, *often, "--resume") == 0
    whole = [row for row in metrics(finished) if row["step"] < 12]
    again = [{k: v for k, v in row.items() if not k.startswith("eval_")} for row in metrics(out) if row["step"] < 12]
    assert again == whole
    evaluated = [row["step"] for row in metrics(out) if "eval_loss" in row]
    assert evaluated == [3, 6, 9, 12] and json.loads((out / "eval.json").read_text())["step"] == 12
    assert (out / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()


# ---------------------------------------------------------------------------------------------------- what it refuses


def refused(capsys, out, *arguments):
    """The error message of a run that is refused."""
    code = run_here("pretrain", "--out", out, *arguments)
    printed = capsys.readouterr()
    assert code == 2
    assert "Traceback" not in printed.err and len(printed.err.strip().splitlines()) <= 3, printed.err
    return " ".join(printed.err.split())


def test_bad_text(tmp_path, capsys, corpus):
    def text(name, content):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    small = [*SMALL, "--steps", "2", "--devices", "1"]

    def line(number, *arguments):
        return refused(capsys, tmp_path / f"out{number}", *small, *arguments)

    assert "empty" in line(0, "--corpus", text("empty.txt", b" \n"))
    one = b"This is a sentence. Here is another one. And a third one.\n"
    assert "document" in line(1, "--corpus", text("one.txt", one), "--documents", "file")
    latin = text("latin.txt", "caf\xe9. Ol\xe9.".encode("latin-1"))
    assert "latin.txt" in line(2, "--corpus", latin) and "UTF-8" in line(3, "--corpus", latin)
    assert "missing.txt" in line(4, "--corpus", tmp_path / "missing.txt")
    few = text("few.txt", b"\n\n".join(b"One is here. Two is there. Three %d." % i for i in range(6)))
    assert "batch" in line(5, "--corpus", few, "--held-out", "0.2", "--batch-size", "64")
    vocab = text("vocab.txt", b"[PAD]\n[UNK]\nthe\n")
    assert "[MASK]" in line(6, "--corpus", corpus, "--vocab", vocab, "--vocab-size", 4096)
    assert not list(tmp_path.glob("out*")), "a refused run leaves no files"


@pytest.mark.slow
def test_bad_settings(tmp_path, capsys, corpus, finished):
    small = ["--corpus", corpus, *SMALL, "--steps", "2"]

    def line(*arguments):
        return refused(capsys, tmp_path / "out", *small, *arguments)

    assert "512" in line("--devices", "1", "--seq-len", "1024")
    assert "--vocab-size 200 cannot be combined with --vocab; expected one of them" in line("--vocab", finished)
    assert "8" in line("--devices", "8", "--batch-size", "12")
    assert "devices" in line("--devices", "64", "--batch-size", "64")
    for flag, value, expected in [
        ("--steps", "0", "at least 1"),
        ("--accumulate", "0", "at least 1"),
        ("--batch-size", "-4", "at least 1"),
        ("--keep", "0", "at least 1"),
        ("--evaluate-every", "-1", "at least 0"),
        ("--learning-rate", "-1", "at least 0"),
        ("--warmup", "2", "from 0 to below 1"),
        ("--dropout", "1", "from 0 to below 1"),
        ("--devices", "100000", "1 to 4096"),
        ("--seed", "99999999999999999999", "0 to 2**62"),
    ]:
        assert f"{flag} is out of range; expected {expected}" in line(flag, value)
    for flag, value in ("--long-share", "0.5"), ("--long-batch-size", "4"):
        assert (
            f"{flag} {value} has no effect without a second phase; expected --long-seq-len as well, got none. Add "
            "--long-seq-len" in line(flag, value)
        )
    assert not (tmp_path / "out").exists(), "a refused run leaves no files"
    assert "there is no run to resume" in line("--devices", "1", "--resume")
    assert "--resume" in refused(capsys, finished, *small, "--devices", "1")
    other = refused(capsys, finished, *small, "--devices", "1", "--resume")
    assert "steps was 12, now 2" in other


def test_another_text_under_the_same_name(tmp_path, capsys, monkeypatch):
    corpus = write_corpus(tmp_path / "corpus", documents=12)
    with monkeypatch.context() as patch:
        interrupt(patch, trials_module.JsonLines, "write")
        assert stopped_run(corpus, tmp_path / "out") == 143
    (corpus / "one_more.txt").write_text("It is new. It was not there. It changes what is learned.")
    capsys.readouterr()
    said = refused(capsys, tmp_path / "out", "--corpus", corpus, *SMALL, "--steps", "12", "--devices", "1", "--resume")
    assert "corpus" in said


def test_a_directory_that_cannot_be_written(tmp_path, capsys, corpus):
    if os.geteuid() == 0:  # root can write everywhere, but a file in place of the directory stops root too
        (tmp_path / "file").write_text("in the way")
        out = tmp_path / "file" / "out"
    else:
        tmp_path.chmod(stat.S_IREAD | stat.S_IEXEC)
        out = tmp_path / "out"
    said = refused(capsys, out, "--corpus", corpus, *SMALL, "--steps", "2", "--devices", "1")
    assert str(out) in said


@pytest.mark.slow
def test_a_damaged_checkpoint_is_skipped(corpus, finished, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    often = ["--save-every", "3", "--evaluate-every", "3"]
    with monkeypatch.context() as patch:
        interrupt(patch, trials_module.JsonLines, "write", when=lambda self, step, values: step == 7)
        assert stopped_run(corpus, out, *often) == 143
    newest = max((out / "checkpoints").iterdir())
    largest = max((path for path in newest.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    capsys.readouterr()
    assert stopped_run(corpus, out, *often, "--resume") == 0
    assert "damaged" in capsys.readouterr().out
    assert (out / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()
