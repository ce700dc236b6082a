"""`funcnet finetune`, `predict` and `evaluate` as a person uses them: every task learns, what is written opens
elsewhere, runs stop and go on, and what is wrong is said."""

import csv
import json
import os
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
import torch
import transformers

import funcnet.train.trials as trials_module
from funcnet.heads.text import Classify
from funcnet.models import bert
from funcnet.settings import compose, recorded
from funcnet.tasks.finetuning import directory
from funcnet.tasks.finetuning.data import make_head, read_data, split
from funcnet.tasks.finetuning.settings import FinetuningSettings
from funcnet.text import load_tokenizer, vocabulary
from funcnet.train import Interruption, lock_run, open_run
from funcnet.train.run import NOT_RECORDED
from funcnet.weights import load
from tests.tasks.command import metrics, run_here
from tests.tasks.small_bert import all_texts, sentence, write_model, write_task
from tests.train.kill_matrix import killed

slow = pytest.mark.slow
TASKS = ["classify", "regress", "pairs", "tokens", "choice", "answer"]
FAST = ["--learning-rate", "5e-3", "--batch-size", "8", "--seq-len", "32", "--devices", "1", "--buckets", "1"]
VALIDATED = ["--epochs", "6", "--split", "0.2"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"), all_texts())


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Compiled programs of one test serve the next."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def finetune(task, model, train, out, *more):
    return run_here("finetune", task, "--model", model, "--train", train, "--out", out, *FAST, *more)


def refused(capsys, *arguments):
    """What stands on standard error when a command ends with 2."""
    assert run_here(*arguments) == 2
    return capsys.readouterr().err


@slow
@pytest.mark.parametrize("task", TASKS)
def test_every_task_learns_and_its_directory_predicts(task, model, tmp_path, capsys):
    train, out = write_task(tmp_path, task), tmp_path / "out"
    assert finetune(task, model, train, out, "--epochs", "8", "--split", "0", "--test", train) == 0
    values = json.loads((out / "eval.json").read_text())
    right = {"regress": "test_pearson", "tokens": "test_f1", "answer": "test_exact"}.get(task, "test_accuracy")
    assert values[right] > (98 if task == "answer" else 0.98), values
    assert (out / "report.png").stat().st_size > 10_000 and not (out / "checkpoints").exists()

    capsys.readouterr()
    assert run_here("evaluate", out, train, "--out", tmp_path / "figures.json") == 0
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures == json.loads(capsys.readouterr().out)
    assert figures[right.removeprefix("test_")] == pytest.approx(values[right])
    assert run_here("predict", out, train) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == figures.get("examples", figures.get("total"))
    keys = {"regress": "value", "tokens": "tags", "answer": "n_best", "choice": "probabilities"}
    assert keys.get(task, "probabilities") in lines[0]


@pytest.fixture(scope="module")
def classified(model, tmp_path_factory):
    """A finished run of `classify` with validation."""
    folder = tmp_path_factory.mktemp("classified")
    train = write_task(folder, "classify", 60)
    assert finetune("classify", model, train, folder / "out", *VALIDATED) == 0
    return folder / "out"


def test_killed_and_resumed_it_has_the_same_bits(classified, model, tmp_path):
    out, train = tmp_path / "out", classified.parent / "train.csv"
    command = ["finetune", "classify", "--model", model, "--train", train, "--out", out, *FAST, *VALIDATED]
    killed("end: half of the model file", 36, out, Path(os.environ["XDG_CACHE_HOME"]), *command)
    assert run_here(*command, "--resume") == 0
    assert metrics(out) == metrics(classified)
    for name in ("model.safetensors", "eval.json"):
        assert (out / name).read_bytes() == (classified / name).read_bytes()


@slow
def test_checkpoints_are_saved_as_often_as_one_likes(classified, model, tmp_path):
    out, train = tmp_path / "out", classified.parent / "train.csv"
    command = ["finetune", "classify", "--model", model, "--train", train, "--out", out, *FAST, *VALIDATED]
    cache = Path(os.environ["XDG_CACHE_HOME"])
    killed("step: metrics read", 30, out, cache, *command, "--save-every", "8")
    assert max(folder.name for folder in (out / "checkpoints").glob("step-*")) == "step-00000024"
    assert run_here(*command, "--resume", "--save-every", "3") == 0
    assert metrics(out) == metrics(classified)
    assert (out / "model.safetensors").read_bytes() == (classified / "model.safetensors").read_bytes()


def test_new_lines_of_text(classified, tmp_path, capsys):
    """A new user's way: a text file in, a label a line out, as JSON or as a table."""
    lines = tmp_path / "new.txt"
    lines.write_text('the soup was great\nreally cold soup, "awful"\n')
    capsys.readouterr()
    assert run_here("predict", classified, lines) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["text"], first["label"], second["label"]) == ("the soup was great", "good", "bad")
    assert first["probability"] == max(first["probabilities"].values()) > 0.5
    assert sum(first["probabilities"].values()) == pytest.approx(1)
    assert run_here("predict", classified, lines, "--out", tmp_path / "out.csv") == 0
    rows = list(csv.DictReader((tmp_path / "out.csv").open(newline="")))
    assert [row["label"] for row in rows] == ["good", "bad"] and rows[1]["text"] == 'really cold soup, "awful"'
    assert float(rows[0]["probability of good"]) == pytest.approx(first["probability"])


CLASSES = {
    "classify": transformers.AutoModelForSequenceClassification,
    "tokens": transformers.AutoModelForTokenClassification,
    "choice": transformers.AutoModelForMultipleChoice,
    "answer": transformers.AutoModelForQuestionAnswering,
}


@slow
@pytest.mark.parametrize("task", CLASSES)
def test_transformers_opens_it_and_says_the_same(task, model, tmp_path):
    train, out = write_task(tmp_path, task, 16), tmp_path / "out"
    assert finetune(task, model, train, out, "--epochs", "1", "--split", "0") == 0
    theirs = CLASSES[task].from_pretrained(out).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    net, params, state = bert.from_pretrained(out, bert.ARCHITECTURES[directory.load(out).head.architecture])
    texts = [sentence(number, "good") for number in range(4)]
    given = tokenizer(texts, padding=True, return_tensors="pt")
    assert given["input_ids"][0].tolist()[:5] == load_tokenizer(out).encode(texts[0]).ids[:5]
    if task == "choice":
        given = {name: value[None] for name, value in given.items()}
    with torch.no_grad():
        expected = theirs(**given)
    ours, _ = net.apply(params, state, **{name: value.numpy() for name, value in given.items()})
    told = (expected.start_logits, expected.end_logits) if task == "answer" else (expected.logits,)
    for a, b in zip(ours if task == "answer" else (ours,), told, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-4, atol=1e-5)
    if task == "classify":
        assert theirs.config.id2label == {0: "bad", 1: "good"}
        assert theirs.config.problem_type == "single_label_classification"


def test_what_a_run_writes(classified):
    values = json.loads((classified / "eval.json").read_text())
    rows = metrics(classified)
    assert [row["step"] for row in rows] == sorted({row["step"] for row in rows})
    assert {"loss", "label_accuracy", "learning_rate", "grad_norm"} <= set(rows[0])
    evaluated = [row for row in rows if "eval_accuracy" in row]
    assert len(evaluated) == 6
    best = max(row["eval_accuracy"] for row in evaluated)
    least = min(row["eval_loss"] for row in evaluated if row["eval_accuracy"] == best)
    assert sum(row["eval_accuracy"] == best for row in evaluated) > 1, "equal ones are told apart by their loss"
    kept = next(row for row in evaluated if (row["eval_accuracy"], row["eval_loss"]) == (best, least))
    assert (values["accuracy"], values["best_step"]) == (best, kept["step"])
    assert values["loss"] == pytest.approx(least, rel=1e-5)
    assert max(row["learning_rate"] for row in rows) == pytest.approx(5e-3, rel=0.1), "as given"


@pytest.mark.slow
def test_a_narrow_model_learns_at_a_higher_rate(model, tmp_path):
    train = write_task(tmp_path, "classify", 12)
    width = json.loads((model / "config.json").read_text())["hidden_size"]
    small = [*FAST[2:], "--split", "0", "--epochs", "2", "--warmup", "0", "--log-every", "1"]
    assert run_here("finetune", "classify", "--model", model, "--train", train, "--out", tmp_path / "out", *small) == 0
    assert metrics(tmp_path / "out")[0]["learning_rate"] == pytest.approx(min(2e-4, 5e-5 * 768 / width))


def test_a_new_head_is_named(model, tmp_path, capsys):
    head = Classify(labels=("a", "b", "c"))
    directory.start(model, head)
    assert "classifier.weight, classifier.bias" in capsys.readouterr().out


@pytest.mark.slow
def test_a_vocabulary_much_smaller_than_the_table_is_told_once(tmp_path, capsys):
    model, train = write_model(tmp_path / "model", all_texts(), vocab_size=600), write_task(tmp_path, "classify", 12)
    small = [*FAST[2:], "--split", "0.5", "--epochs", "1"]
    assert run_here("finetune", "classify", "--model", model, "--train", train, "--out", tmp_path / "out", *small) == 0
    said = capsys.readouterr()
    assert (said.out + said.err).count("the model's word table has 600 rows. Padding alone does not explain") == 1


def test_a_run_that_has_finished_does_nothing_more(classified, capsys):
    config = json.loads((classified / "run.json").read_text())["config"]
    again = ["--epochs", "6", "--split", "0.2", "--resume"]
    assert finetune("classify", config["model"], config["train"], classified, *again) == 0
    assert "has finished" in capsys.readouterr().out
    assert run_here("finetune", "--resume", "--out", classified) == 0
    assert "has finished" in capsys.readouterr().out
    assert run_here("finetune", "--resume", "--out", classified, "--seed", 7) == 2
    assert "got different ones: seed was 0, now 7." in capsys.readouterr().err


def test_two_processes_do_not_run_in_one_folder(model, tmp_path, capsys):
    config = compose(
        FinetuningSettings,
        task="classify",
        model=model,
        train=write_task(tmp_path, "classify", 12),
        out=tmp_path / "out",
    )
    out = open_run(config.run.out, recorded(config, leave_out=NOT_RECORDED))
    with lock_run(out):
        assert f"{out} is locked by another process;" in refused(capsys, "finetune", "--resume", "--out", out)


def test_a_path_that_is_meant_from_another_folder(model, tmp_path, monkeypatch, capsys):
    write_task(tmp_path, "classify", 12)
    monkeypatch.chdir(tmp_path)
    config = compose(FinetuningSettings, task="classify", model=model, train=Path("train.csv"), out=tmp_path / "out")
    record = open_run(config.run.out, recorded(config, leave_out=NOT_RECORDED)) / "run.json"
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    resume = ["finetune", "--resume", "--out", tmp_path / "out"]
    said = "train.csv is missing; expected a file, got nothing. The run's --train train.csv is relative to"
    assert f"{said} {tmp_path}: change to that folder first." in refused(capsys, *resume)
    known = json.loads(record.read_text())
    del known["began_in"]  # as older releases wrote it
    record.write_text(json.dumps(known))
    said = "train.csv is missing; expected a file, got nothing. The run's --train train.csv is relative to"
    assert f"{said} the folder where it started: change to that folder first." in refused(capsys, *resume)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.csv").unlink()
    record.write_text(json.dumps(known | {"began_in": str(tmp_path)}))
    assert "is relative to" not in refused(capsys, *resume)


@pytest.mark.slow
def test_a_run_does_not_go_on_with_other_examples(model, tmp_path, capsys):
    train, out = write_task(tmp_path, "classify", 12), tmp_path / "out"
    more = ["--epochs", "1", "--split", "0"]
    assert finetune("classify", model, train, out, *more) == 0
    record = json.loads((out / "run.json").read_text())
    (out / "run.json").write_text(json.dumps(record | {"finished": False}))
    train.write_text(train.read_text() + "more soup,good\n")
    capsys.readouterr()
    assert finetune("classify", model, train, out, *more, "--resume") == 2
    said = capsys.readouterr().err
    assert f"got changed ones: {train} (digest of the training examples). Restore the files" in said


@pytest.mark.slow
def test_a_run_does_not_go_on_with_another_vocabulary(model, tmp_path, capsys):
    """Every row follows from it, and yet the files of examples are not to blame."""
    own, train, out = shutil.copytree(model, tmp_path / "model"), write_task(tmp_path, "classify", 12), tmp_path / "out"
    more = ["--epochs", "1", "--split", "0.5"]
    assert finetune("classify", own, train, out, *more) == 0
    record = json.loads((out / "run.json").read_text())
    (out / "run.json").write_text(json.dumps(record | {"finished": False}))
    words = vocabulary(load_tokenizer(own))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (own / name).unlink(missing_ok=True)
    (own / "vocab.txt").write_text("".join(f"{word}\n" for word in [*words[:5], *words[:4:-1]]))
    capsys.readouterr()
    assert finetune("classify", own, train, out, *more, "--resume") == 2
    said = capsys.readouterr().err
    assert f"got changed ones: {own} (vocabulary). Restore the files" in said and str(train) not in said


@slow
def test_stopped_and_resumed_it_ends_with_the_same_bits(classified, tmp_path, monkeypatch, capsys):
    config = json.loads((classified / "run.json").read_text())["config"]
    arguments = ["classify", config["model"], config["train"], tmp_path / "out", "--epochs", "6", "--split", "0.2"]
    write, stops = trials_module.JsonLines.write, []

    def stopping(self, step, values):
        write(self, step, values)
        if step == 20:
            stops[0]._receive(15, None)

    made = Interruption.__init__
    with monkeypatch.context() as patch:
        patch.setattr(trials_module.JsonLines, "write", stopping)
        patch.setattr(Interruption, "__init__", lambda self: (made(self), stops.append(self))[0])
        assert finetune(*arguments) == 143
    assert run_here("finetune", "--resume", "--out", tmp_path / "out") == 0
    assert metrics(tmp_path / "out") == metrics(classified)
    assert (tmp_path / "out/model.safetensors").read_bytes() == (classified / "model.safetensors").read_bytes()


@slow
def test_what_is_frozen_stays_and_layers_learn_at_their_rates(model, tmp_path):
    train = write_task(tmp_path, "classify", 16)
    out = tmp_path / "out"
    frozen = ["--freeze", "bert.embeddings", "bert.encoder.layer.0", "bert.**.LayerNorm", "--layer-decay", "0.5"]
    assert finetune("classify", model, train, out, "--epochs", "1", "--split", "0", *frozen) == 0
    before, after = load(model / "model.safetensors"), load(out / "model.safetensors")
    moved = {name for name in after if name in before and not np.array_equal(before[name], after[name])}
    assert moved and not any("embeddings" in name or "layer.0." in name or "LayerNorm" in name for name in moved)
    assert "bert.encoder.layer.1.output.dense.weight" in moved


@slow
def test_a_run_ends_when_it_has_been_good_for_long(model, tmp_path):
    train = write_task(tmp_path, "classify")
    out = tmp_path / "out"
    assert finetune("classify", model, train, out, "--epochs", "40", "--patience", "2", "--validation", train) == 0
    values = json.loads((out / "eval.json").read_text())
    rows = [row for row in metrics(out) if "eval_accuracy" in row]
    assert values["steps"] == rows[-1]["step"] < 6 * 40
    best = [row["eval_accuracy"] for row in rows].index(max(row["eval_accuracy"] for row in rows))
    assert len(rows) - 1 - best == 2 and values["accuracy"] == rows[best]["eval_accuracy"]


@slow
def test_seeds_are_repeated_with_mean_and_spread(model, tmp_path):
    train = write_task(tmp_path, "classify", 24)
    out = tmp_path / "out"
    more = ["--epochs", "2", "--split", "0", "--test", train, "--seeds", "2", "--seed", "5"]
    assert finetune("classify", model, train, out, *more) == 0
    values = json.loads((out / "eval.json").read_text())
    runs = [json.loads((out / f"seed-{seed}/eval.json").read_text()) for seed in (5, 6)]
    losses = [run["test_loss"] for run in runs]
    assert values["mean"]["test_loss"] == pytest.approx(np.mean(losses)) and losses[0] != losses[1]
    assert values["spread"]["test_loss"] == pytest.approx(np.std(losses, ddof=1))
    best = out / f"seed-{values['best_seed']}"
    assert (out / "model.safetensors").read_bytes() == (best / "model.safetensors").read_bytes()


@slow
def test_nothing_is_compiled_after_the_first_epoch(model, tmp_path, monkeypatch):
    train = write_task(tmp_path, "classify")
    compiled, steps = [], []
    note = lambda name, seconds, **more: compiled.append(1) if name.endswith("backend_compile_duration") else None
    jax.monitoring.register_event_duration_secs_listener(note)
    write = trials_module.JsonLines.write
    count = lambda self, step, values: (write(self, step, values), steps.append((step, len(compiled))))[0]
    monkeypatch.setattr(trials_module.JsonLines, "write", count)
    more = ["--epochs", "4", "--validation", train, "--buckets", "3", "--log-every", "1"]
    assert finetune("classify", model, train, tmp_path / "out", *more) == 0
    counts = dict(steps)
    assert counts[1] > 0 and counts[24] == counts[7]


# --------------------------------------------------------------------------------------------------- what is wrong


def test_a_vocabulary_that_does_not_fit(model, tmp_path, capsys):
    other = write_model(tmp_path / "other", all_texts())
    with open(other / "vocab.txt", "a") as file:
        file.write("extra\n")
    (other / "tokenizer.json").unlink()
    train = write_task(tmp_path, "classify", 12)
    said = refused(capsys, "finetune", "classify", "--model", other, "--train", train, "--out", tmp_path / "out", *FAST)
    assert "the vocabulary does not fit the model's word table" in said and "'extra'" in said
    assert not (tmp_path / "out").exists()


def test_a_config_with_a_field_of_another_kind(model, tmp_path, capsys):
    """It is refused before the work, and nothing is left behind."""
    other = shutil.copytree(model, tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"layer_norm_eps": "1e-12"}))
    train = write_task(tmp_path, "classify", 12)
    said = refused(capsys, "finetune", "classify", "--model", other, "--train", train, "--out", tmp_path / "out", *FAST)
    assert "config.json: BertConfig: layer_norm_eps has the wrong type; expected a number, got '1e-12'" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--epochs", "0"], "finetune: --epochs is out of range; expected above 0, got 0.0"),
        (["--split", "1"], "finetune: --split is out of range; expected from 0 to below 1, got 1.0"),
        (
            ["--doc-stride", "64"],
            "finetune: --doc-stride does not apply to this task; expected the task answer, got classify",
        ),
        (["--seq-len", "4096"], "finetune: --seq-len is out of range; expected 8 to 512"),
        (["--freeze", "**"], "finetune: --freeze leaves nothing to train; expected patterns that match only some"),
        (["--freeze", "bert.embedings"], "finetune: --freeze: pattern 'bert.embedings' matches nothing"),
        (
            ["--metric", "bleu"],
            "finetune: --metric: unknown metric; expected one of loss, accuracy, f1_macro, matthews, f1, got 'bleu'",
        ),
        (
            ["--split", "0", "--patience", "2"],
            "finetune: --patience 2 needs validation examples; expected some, got none",
        ),
        (
            ["--split", "0", "--seeds", "2"],
            "finetune: --seeds 2 needs validation or test examples; expected some, got none",
        ),
        (["--text-column", "body"], "no column 'body'; expected the columns 'body', 'label', got 'text', 'label'"),
        (["--batch-size", "9", "--accumulate", "2"], "finetune: --batch-size"),
    ],
)
def test_settings_that_cannot_be(model, tmp_path, capsys, more, message):
    train = write_task(tmp_path, "classify", 12)
    said = refused(
        capsys, "finetune", "classify", "--model", model, "--train", train, "--out", tmp_path / "out", *FAST, *more
    )
    assert message in said and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("task", "name", "content", "left"),
    [
        ("classify", "a.csv", "text,label\n" + "".join(f"soup {n},good\n" for n in range(5)) + "cold,bad\n", "'good'"),
        ("tokens", "a.conll", "".join(f"soup{n}\tO\n\n" for n in range(5)) + "cold\tB-BAD\n", "'O'"),
    ],
)
def test_a_split_that_leaves_one_class(model, tmp_path, capsys, task, name, content, left):
    train = tmp_path / name
    train.write_text(content)
    examples = make_head(compose(FinetuningSettings, task=task, model=model, train=train, out=tmp_path)).read(
        train, labelled=True
    )
    seed = next(seed for seed in range(99) if examples[-1] in split(examples, 0.1, seed=seed)[1])
    said = refused(
        capsys,
        *("finetune", task, "--model", model, "--train", train, "--out", tmp_path / "out", *FAST),
        *("--split", "0.1", "--seed", seed),
    )
    assert "finetune: --split 0.1 leaves too few classes to train on; expected at least two of 2, got " + left in said
    assert "try another --seed, or pass a --validation file" in said
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_none_of_glues(model, tmp_path, capsys):
    (tmp_path / "texts").mkdir()
    said = refused(
        capsys,
        "finetune",
        "classify",
        "--model",
        model,
        "--train",
        tmp_path / "texts",
        "--out",
        tmp_path / "out",
        *FAST,
    )
    assert "expected a file, or a folder that is named after a GLUE task" in said


@slow
def test_a_folder_of_glues(model, tmp_path, capsys):
    folder = tmp_path / "SST-2"
    folder.mkdir()
    rows = [f"{sentence(n, ('good', 'bad')[n % 2])} \t{n % 2}\n" for n in range(24)]
    (folder / "train.tsv").write_text("sentence\tlabel\n" + "".join(rows))
    (folder / "dev.tsv").write_text("sentence\tlabel\n" + "".join(rows[:8]))
    assert finetune("classify", model, folder, tmp_path / "out", "--epochs", "1") == 0
    assert "8 validation examples" in capsys.readouterr().out
    assert set(json.loads((tmp_path / "out/eval.json").read_text())) >= {"accuracy", "f1", "matthews", "best_step"}


@slow
def test_long_texts_are_cut_and_counted(model, tmp_path, capsys):
    file = tmp_path / "long.csv"
    file.write_text("text,label\n" + "fine soup " * 40 + ",good\n" + "bad,bad\n" * 7)
    assert finetune("classify", model, file, tmp_path / "out", "--epochs", "1", "--split", "0") == 0
    assert "8 training examples, 53 tokens; 1 texts longer than 32 tokens were cut." in capsys.readouterr().out


def test_pairs_are_told(model, tmp_path, capsys):
    for task, told in (("pairs", "tokens; pairs of columns text and text_b."), ("classify", "tokens.")):
        config = compose(
            FinetuningSettings,
            task=task,
            model=model,
            train=write_task(tmp_path, task, 12),
            out=tmp_path / "out",
            split=0,
        )
        read_data(config)
        first = capsys.readouterr().out.splitlines()[0]
        assert first.startswith("12 training examples, ") and first.endswith(told)


def test_a_directory_that_was_not_fine_tuned(model, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("soup\n")
    said = refused(capsys, "predict", model, tmp_path / "a.txt")
    assert "is not a fine-tuned BERT" in said and "BertForPreTraining" in said


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--batch-size", "0"], ": --batch-size is out of range; expected at least 1, got 0"),
        (
            ["--out", "none/a.csv"],
            "--out none/a.csv; expected a file in an existing folder. Create none first",
        ),
        (["--out", "."], "--out .; expected a file, got a folder"),
        (["--null-threshold", "0"], "predict: --null-threshold does not apply to this model; expected a model for"),
    ],
)
@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_predictions_that_cannot_be(classified, tmp_path, capsys, command, more, message):
    file = write_task(tmp_path, "classify", 6)
    assert message in refused(capsys, command, classified, file, *more)


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_the_input_is_not_written_over(tmp_path, capsys, command):
    file = write_task(tmp_path, "classify", 6)
    before = file.read_bytes()
    (tmp_path / "link.csv").symlink_to(file)
    told = f"{command}: --out {tmp_path / 'link.csv'} is also an input file; expected a different file"
    assert told in refused(capsys, command, "no-model", file, "--out", tmp_path / "link.csv")
    assert file.read_bytes() == before


def test_a_label_that_training_never_saw(classified, tmp_path, capsys):
    (tmp_path / "a.csv").write_text("text,label\nfine,good\nso so,middling\n")
    said = refused(capsys, "evaluate", classified, tmp_path / "a.csv")
    assert (
        "a.csv, line 3, column 'label': label 'middling' did not occur in training; expected one of 'bad', 'good'"
        in said
    )
