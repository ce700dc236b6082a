"""Metrics of a whole evaluation are those of scikit-learn on all rows, on any devices and with a short last batch."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from sklearn import metrics as oracle

from funcnet import functional as F
from funcnet import nn, train
from funcnet.data import DataLoader, IterableDataset
from funcnet.files import read_json
from tests.train.small_fit import died_after, fit, losses, quick, same, stopped_after

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(61, 4)).astype(np.float32)
LABELS = (np.argmax(X[:, :3] + RANDOM.normal(size=(61, 3)), axis=1)).astype(np.int32)
DATA, VALIDATION = {"x": X[:40], "labels": LABELS[:40]}, {"x": X[40:], "labels": LABELS[40:]}  # 21 rows


def loss(model, batch):
    logits = model(batch["x"])
    losses = F.cross_entropy(logits, batch["labels"], reduction="none")
    return {"loss": losses, "accuracy": logits.argmax(-1) == batch["labels"]}


def predict(model, batch):
    return F.softmax(model(batch["x"]).astype(jnp.float32), dim=-1), batch["labels"]


def classify(folder, **options):
    given = {"net": nn.Linear(4, 3), "loss": loss, "optimizer": optax.sgd(0.5), "batch_size": 8, "steps": 6}
    return fit(folder, DATA, **{**given, "validation": VALIDATION, "predict": predict, **options})


METRICS = {
    "macro F1": lambda p, y: oracle.f1_score(y, p.argmax(-1), average="macro"),
    "F1 of a class": lambda p, y: oracle.f1_score(y == 1, p.argmax(-1) == 1),
    "AUC": lambda p, y: oracle.roc_auc_score(y == 2, p[:, 2]),
    "AUC of all classes": lambda p, y: oracle.roc_auc_score(y, p, multi_class="ovr"),
    "average precision": lambda p, y: oracle.average_precision_score(y == 0, p[:, 0]),
    "Matthews": lambda p, y: oracle.matthews_corrcoef(y, p.argmax(-1)),
    "kappa": lambda p, y: oracle.cohen_kappa_score(y, p.argmax(-1)),
    "R2": lambda p, y: oracle.r2_score(y, p[:, 1]),
    "confusion": lambda p, y: oracle.confusion_matrix(y, p.argmax(-1), labels=range(3)),
    "calibration": lambda p, y: [float(p[:, c].mean() - (y == c).mean()) for c in range(3)],
}


def all_metrics(probabilities, labels):
    return {name: metric(probabilities, labels) for name, metric in METRICS.items()}


HOW = {
    "1 device": {},
    "one batch": {"batch_size": 40},
    "8 devices": {"devices": 8},
    "shard_map": {"devices": 8, "parallel": "shard_map"},
    "pmap": {"devices": 4, "parallel": "pmap", "accumulate": 2},
    "mesh": {"mesh": "data=2,fsdp=4"},
    "bfloat16": {"precision": "bfloat16"},
    "loader": {"validation": DataLoader([{"x": X[i], "labels": LABELS[i]} for i in range(40, 61)], 5, num_workers=2)},
    "function": {
        "validation": lambda: ({name: column[i : i + 6] for name, column in VALIDATION.items()} for i in (0, 6, 12, 18))
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", quick(HOW, "1 device", "8 devices"))
def test_metrics_of_all_rows_are_scikit_learns(name, tmp_path):
    how = HOW[name]
    run = classify(tmp_path, metrics=all_metrics, **how)
    narrow = how.get("precision") == "bfloat16"
    params = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16) if narrow else leaf, run.params)
    x = X[40:].astype(jnp.bfloat16) if narrow else X[40:]
    p = np.asarray(F.softmax(nn.Linear(4, 3).apply(params, {}, x)[0].astype(jnp.float32), dim=-1))
    found, expected = run.rows[-1], all_metrics(p, LABELS[40:])
    for name, value in expected.items():
        rtol = 1e-2 if narrow else 1e-5
        np.testing.assert_allclose(found[f"eval_{name}"], value, rtol=rtol, atol=1e-6, err_msg=name)
    assert read_json(tmp_path / "eval.json")["confusion"] == np.asarray(expected["confusion"]).tolist()
    np.testing.assert_allclose(found["eval_accuracy"], (p.argmax(-1) == LABELS[40:]).mean(), rtol=1e-6)


@pytest.mark.slow
def test_the_best_model_is_chosen_by_such_a_metric_and_the_run_ends_early(tmp_path):
    def metrics(probabilities, labels):
        return {"f1": oracle.f1_score(labels, probabilities.argmax(-1), average="macro")}

    options = {"metrics": metrics, "best": train.Best("f1", patience=2), "evaluate_every": 1, "save_every": 2}
    options |= {"optimizer": optax.sgd(lambda step: jnp.where(step < 3, 0.5, -9.0)), "steps": 30}
    whole = classify(tmp_path / "whole", **options)
    found = [row["eval_f1"] for row in whole.rows]
    assert len(found) == int(np.argmax(found)) + 3 < 30
    p = np.asarray(nn.Linear(4, 3).apply(whole.params, {}, X[40:])[0])
    assert oracle.f1_score(LABELS[40:], p.argmax(-1), average="macro") == pytest.approx(max(found))
    with stopped_after(2):
        classify(tmp_path / "cut", **options)
    with died_after(4):
        classify(tmp_path / "cut", **options)
    assert same(classify(tmp_path / "cut", **options), whole)


@pytest.mark.slow
def test_a_function_after_each_evaluation_gets_its_metrics_outputs_and_model(tmp_path):
    seen = []

    def after(evaluation):
        logits, _ = nn.Linear(4, 3).apply(evaluation.params, evaluation.state, X[40:])
        p, y = evaluation.outputs
        np.testing.assert_allclose(p, F.softmax(logits, dim=-1), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(y, LABELS[40:])
        seen.append((evaluation.step, dict(evaluation.metrics)))

    run = classify(tmp_path, after_evaluation=after, evaluate_every=2, metrics=lambda p, y: {"rows": len(p)})
    expected = [(row["step"], row["eval_loss"], row["eval_rows"]) for row in run.rows if "eval_loss" in row]
    assert [(step, found["loss"], found["rows"]) for step, found in seen] == expected
    assert [step for step, _, _ in expected] == [2, 4, 6] and expected[0][2] == 21


def test_predict_is_called_like_the_loss_and_may_return_one_array_or_a_dict(tmp_path):
    def with_extra(model, batch, extra):
        return loss(model, batch)["loss"] * extra

    def logits(model, batch, extra):
        return {"scaled": model(batch["x"]) * extra}

    def metrics(outputs):
        return {"largest": outputs["scaled"].max(), "rows": outputs["scaled"].shape[0]}

    run = classify(tmp_path, loss=with_extra, extra=np.float32(2), predict=logits, metrics=metrics)
    expected = 2 * np.asarray(nn.Linear(4, 3).apply(run.params, {}, X[40:])[0]).max()
    assert run.rows[-1]["eval_rows"] == 21
    np.testing.assert_allclose(run.rows[-1]["eval_largest"], expected, rtol=1e-5)


class Tokens(IterableDataset):
    """Sequences whose batches have different lengths."""

    def __iter__(self):
        for length in (3, 3, 5, 5):
            yield {"ids": np.arange(length, dtype=np.int32) % 3}


def token_loss(model, batch):
    return F.cross_entropy(model(batch["ids"]).reshape(-1, 3), batch["ids"].reshape(-1), reduction="none")


@pytest.mark.slow
def test_outputs_of_tokens_are_joined_if_there_is_a_row_per_token(tmp_path):
    options = {"net": nn.Embedding(3, 3), "loss": token_loss, "batch_size": 2, "steps": 2, "validation": Tokens()}
    flat = lambda model, batch: (model(batch["ids"]).reshape(-1, 3), batch["ids"].reshape(-1))
    run = fit(tmp_path / "flat", Tokens(), predict=flat, metrics=lambda p, y: {"tokens": len(p)}, **options)
    assert run.rows[-1]["eval_tokens"] == 16
    ragged = lambda model, batch: model(batch["ids"])
    with pytest.raises(ValueError, match=r"outputs of predict differ in their shapes.* float32\[2, 3, 3\] and float32"):
        fit(tmp_path / "ragged", Tokens(), predict=ragged, metrics=lambda p: {"tokens": len(p)}, **options)


# ----------------------------------------------------------------------------------------------- found before step 1


def auc(probabilities, labels):
    return {"auc": oracle.roc_auc_score(labels, probabilities.argmax(-1))}


ONE_CLASS_FIRST = {"x": X[40:], "labels": np.sort(LABELS[40:] % 2)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"best": train.Best("acuracy")},
            r"best names an unknown metric; expected one of loss, accuracy, got 'acuracy'",
        ),
        ({"best": train.Best("eval_loss")}, "expected one of loss, accuracy, got 'eval_loss'"),
        ({"best": train.Best("f1"), "metrics": auc, "validation": ONE_CLASS_FIRST}, "of loss, accuracy, auc, got 'f1'"),
        ({"best": train.Best("table"), "metrics": lambda p, y: {"table": np.eye(2)}}, "of loss, accuracy, got 'table'"),
        ({"metrics": lambda p, y: 0.5}, "metrics returned a wrong value; expected a dict .* got 0.5"),
        ({"metrics": lambda p, y: {"loss": 1.0}}, "metrics returned 'loss', which the loss returns too"),
        ({"metrics": lambda p, y: {"f1": "high"}}, "'f1' of metrics is not a number; .* got 'high'"),
        (
            {"metrics": lambda p: {"f1": 1.0}},
            "expected a function of 2 arguments, because predict returns a tuple of 2",
        ),
        ({"predict": lambda m, b: m(b["x"]).sum(), "metrics": auc}, r"predict\(model, batch\) returned a wrong value"),
        (
            {"predict": lambda m, b: None, "metrics": auc},
            r"predict\(model, batch\) returned a wrong value; .* got None",
        ),
        ({"predict": lambda b, m: m(b["x"]), "metrics": auc}, r"predict takes its arguments in another order"),
        ({"validation": lambda: iter([])}, "validation has no batch; expected at least one, got none"),
        ({"validation": {"x": X}}, "'labels'"),
    ],
)
def test_what_an_evaluation_lacks_is_found_before_the_first_step(options, message, tmp_path):
    given = {"metrics": lambda p, y: {}, **options}
    with pytest.raises((KeyError, TypeError, ValueError), match=message) as error:
        classify(tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()
    if message == "'labels'":
        assert "in the evaluation of the first batch of validation, x: float32[8, 4]" in error.value.__notes__


def test_a_metric_that_is_not_a_number_once_is_the_worst(tmp_path):
    values = iter([1.0, float("nan"), 0.1, 0.3, 0.2])
    metrics = lambda p, y: {"score": next(values)}
    run = classify(tmp_path, steps=4, evaluate_every=1, metrics=metrics, best=train.Best("score"))
    assert read_json(tmp_path / "eval.json")["step"] == 3 and np.isnan(losses(run)[0]["eval_score"])
