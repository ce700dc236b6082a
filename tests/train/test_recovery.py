"""Steps that fail: skipped, rewound, kept for replay, and the same again after a crash."""

import json
import os
import shutil
import signal
import types

import jax
import numpy as np
import optax
import pytest

from funcnet import functional as F
from funcnet import nn, train
from funcnet.files import file_digest
from funcnet.train.recovery import MOST, read_bundle
from funcnet.train.trials import Trials

STEPS = 60
KINDS = [("jit", "data=1"), ("jit", "data=2,fsdp=2,tensor=2"), ("shard_map", "data=8"), ("pmap", "data=8")]
TRUTH = np.random.default_rng(1).standard_normal((8, 1)).astype(np.float32)


def batch_at(index):
    x = np.random.default_rng([3, index]).standard_normal((16, 8)).astype(np.float32)
    return {"x": x, "y": np.tanh(x @ TRUTH)}


@pytest.fixture(autouse=True)
def standard():
    """JAX's usual promotion: optax's Adam mixes dtypes."""
    with jax.numpy_dtype_promotion("standard"):
        yield


class Crash(Exception):
    """A machine that dies."""


def data(faults=(), order=lambda index: index, crash=None):
    """Batches, some of them with a fault: {index: factor of the target}. Reading the index `crash` raises `Crash`."""

    def batches(start):
        index = start
        while True:
            if index == crash:
                raise Crash
            batch = batch_at(order(index))
            if index in faults:
                batch["y"] = batch["y"] * np.float32(faults[index])
            yield batch
            index += 1

    return batches


def net():
    return nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 1))


def loss(model, batch):
    return F.mse_loss(model(batch["x"]), batch["y"], reduction="none")


def fit(out, batches, kind=KINDS[0], **more):
    parallel, mesh = kind
    options = {"steps": STEPS, "log_every": 1, "save_every": 10, "rewind_above": 4.0, "keep": 3, **more}
    return train.fit(net(), loss, batches, optax.adam(1e-2), out=out, parallel=parallel, mesh=mesh, **options)


def events(out):
    path = out / "faults.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def timeless(run):
    clock = ("examples_per_second", "data_wait_share")
    return [{name: value for name, value in row.items() if name not in clock} for row in run.rows]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_an_exploding_batch_rewinds_the_run_and_its_batches_are_left_out(tmp_path, kind, capsys):
    """The spike at step 34 comes from a gradient of step 33. The run goes back to step 20, at least ten steps earlier,
    and continues with the batch after the spike: as a run that never had these batches.
    """
    found = fit(tmp_path / "spike", data({33: 1e3}), kind)
    (event,) = events(tmp_path / "spike")
    assert {name: event[name] for name in ("kind", "step", "batch", "back_to")} == {
        "kind": "spike",
        "step": 34,
        "batch": 33,
        "back_to": 20,
    }
    said = capsys.readouterr().out
    assert "Going back to step 20; the run continues with the batches after the batch of step 34." in said
    expected = fit(tmp_path / "without", data(order=lambda index: index if index < 20 else index + 14), kind)
    assert timeless(found) == timeless(expected)
    assert [row["step"] for row in found.rows] == list(range(1, STEPS + 1))
    model = "model.safetensors"
    assert file_digest(tmp_path / "spike" / model) == file_digest(tmp_path / "without" / model)
    assert events(tmp_path / "without") == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
@pytest.mark.parametrize("crash", [36, 45, 62])
def test_a_run_that_crashes_after_a_rewind_ends_with_the_same_bits(tmp_path, crash, kind):
    """Before the next checkpoint the run finds the spike again; after it, the checkpoint knows of it."""
    faults = {12: np.nan, 33: 1e3}
    whole = fit(tmp_path / "whole", data(faults), kind)
    with pytest.raises(Crash):
        fit(tmp_path / "run", data(faults, crash=crash), kind)
    again = fit(tmp_path / "run", data(faults), kind, resume=True)
    assert timeless(again) == timeless(whole)
    assert events(tmp_path / "run") == events(tmp_path / "whole")
    model = "model.safetensors"
    assert file_digest(tmp_path / "run" / model) == file_digest(tmp_path / "whole" / model)


@pytest.mark.slow
@pytest.mark.parametrize("keep", [2, 10])
@pytest.mark.parametrize("moment", [22, 31, 33])
def test_a_run_that_a_signal_stops_before_a_spike_goes_back_to_the_same_step(tmp_path, moment, keep):
    """The checkpoint of the signal is used to resume, and not to go back."""

    def stopping(start):
        for index, batch in enumerate(data({33: 1e3})(start), start):
            if index == moment and not start:
                os.kill(os.getpid(), signal.SIGTERM)
            yield batch

    whole = fit(tmp_path / "whole", data({33: 1e3}), keep=keep)
    with pytest.raises(SystemExit) as stopped:
        fit(tmp_path / "run", stopping, keep=keep)
    assert stopped.value.code == 143
    again = fit(tmp_path / "run", data({33: 1e3}), keep=keep, resume=True)
    assert timeless(again) == timeless(whole)
    found, expected = events(tmp_path / "run"), events(tmp_path / "whole")
    assert found == expected and found[0]["back_to"] == 20
    model = "model.safetensors"
    assert file_digest(tmp_path / "run" / model) == file_digest(tmp_path / "whole" / model)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_a_fault_can_be_replayed_to_the_bit(tmp_path, kind, capsys):
    batches = data({12: np.nan, 33: 1e3, 41: np.inf})
    fit(tmp_path / "run", batches, kind)
    found = events(tmp_path / "run")
    assert [(event["kind"], event["batch"]) for event in found] == [("skipped", 12), ("spike", 33), ("skipped", 41)]
    assert found[2]["step"] == 28, "the model went back by 14 steps, the data did not"
    starts = [(bundle := read_bundle(tmp_path / "run" / event["bundle"])).start for event in found]
    assert starts == [10, 30, 20] and bundle.first_batch == 34
    shutil.rmtree(tmp_path / "run" / "checkpoints")  # a bundle has what it needs
    for event in found:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            fit(tmp_path / "run", batches, kind, replay=tmp_path / "run" / event["bundle"])
        said = capsys.readouterr().out
        assert stopped.value.code == 0, said
        assert f"Step {event['step']}, batch {event['batch']}: loss" in said and "as in the run" in said
        if event["kind"] == "skipped":
            assert "Entries of the batch in 'y' that are not finite: 16." in said
            assert "the output of 'the net' is the first that is not finite" in said or "look at the loss" in said
    with pytest.raises(
        train.RunError, match=r"the data have changed since the run; expected batch 41 .* got a different y"
    ):
        fit(tmp_path / "run", data({12: np.nan, 33: 1e3}), kind, replay=tmp_path / "run" / found[2]["bundle"])
    with pytest.raises(train.RunError, match=r"the settings differ from those of the run; .*: seed was 0, now 1\."):
        fit(tmp_path / "run", batches, kind, seed=1, replay=tmp_path / "run" / found[2]["bundle"])


@pytest.mark.slow
def test_a_replay_compares_the_net_and_names_other_versions(tmp_path, capsys):
    run = {"batches": data({3: np.nan}), "steps": 5, "save_every": 2, "log_every": 5}
    fit(tmp_path / "run", **run)
    (event,) = events(tmp_path / "run")
    folder = tmp_path / "run" / event["bundle"]

    def replayed(net):
        with pytest.raises(SystemExit) as stopped:
            options = {"steps": 5, "save_every": 2, "log_every": 5, "rewind_above": 4.0, "keep": 3, "mesh": "data=1"}
            train.fit(net, loss, run["batches"], optax.adam(1e-2), out=tmp_path / "run", replay=folder, **options)
        return stopped.value.code

    other = net()
    other[3].p = 0.2
    with pytest.raises(
        train.RunError, match=r"the net differs .*; expected '\(3\): Dropout\(p=0\.1.*, got '\(3\): .*p=0\.2"
    ):
        replayed(other)
    with pytest.raises(
        train.RunError, match=r"expected '\(4\): .*' and 2 more lines, got '\(4\): .*' and 2 more lines\."
    ):
        replayed(nn.Sequential(*list(net())[:4], nn.Linear(32, 2)))
    assert replayed(net()) == 0
    bundle = json.loads((folder / "bundle.json").read_text())
    bundle["versions"]["jax"] = "0.4.1"
    (folder / "bundle.json").write_text(json.dumps(bundle))
    capsys.readouterr()
    replayed(net())
    assert f"may differ too: jax was '0.4.1', now '{jax.__version__}'." in capsys.readouterr().out


@jax.custom_vjp
def broken(weight):
    """The weight, with a gradient whose first entry is NaN."""
    return weight


broken.defvjp(lambda weight: (weight, None), lambda _, gradient: (gradient.at[0].set(np.nan),))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter((8,), nn.init.ones())

    def forward(self, x):
        return (x * broken(self.weight)).sum(1, keepdims=True)


def remedied(out, faults=(), optimizer=None, net=None, **more):
    options = {"steps": 14, "log_every": 1, "save_every": 4, **more}
    optimizer = optax.chain(optax.zero_nans(), optax.adam(1e-2)) if optimizer is None else optimizer
    batches = data(faults, crash=options.pop("crash", None))
    return train.fit(net or nn.Linear(8, 1), loss, batches, optimizer, out=out, **options)


@pytest.mark.slow
def test_an_optimizer_that_removes_nan_from_every_gradient_trains(tmp_path):
    """Even if it is there from the first step on, and in more than ten steps in a row."""
    found = remedied(tmp_path / "a", net=Scaled(), steps=40)
    assert found.rows[-1]["loss"] < found.rows[0]["loss"] and all(np.isnan(row["grad_norm"]) for row in found.rows)
    assert found.params["weight"][0] == 1 and (np.asarray(found.params["weight"])[1:] != 1).all()
    assert events(tmp_path / "a") == [] and not any("skipped_steps" in row for row in found.rows)
    with pytest.raises(train.RunError, match=r"grad_norm at step 1; expected a finite number, got nan\. Look for"):
        remedied(tmp_path / "b", net=Scaled(), optimizer=optax.adam(1e-2))


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", [None, optax.apply_if_finite(optax.adam(1e-2), 3)], ids=["zeros", "waits"])
def test_a_loss_that_is_not_finite_is_recorded_and_the_optimizer_decides(tmp_path, optimizer):
    """From the first step on. The line of such a step has no means, and a run that crashes ends with the same bits."""
    faults = dict.fromkeys((0, 5, 6, 9), np.nan)
    whole = remedied(tmp_path / "whole", faults, optimizer)
    assert [(e["kind"], e["step"]) for e in events(tmp_path / "whole")] == [("nonfinite", n) for n in (1, 6, 7, 10)]
    assert [row["step"] for row in whole.rows if row.get("nonfinite_steps")] == [1, 6, 7, 10]
    assert all("loss" not in row for row in whole.rows if "nonfinite_steps" in row)
    assert all(np.isfinite(list(row.values())).all() for row in whole.rows)
    with pytest.raises(Crash):
        remedied(tmp_path / "run", faults, optimizer, crash=11)
    again = remedied(tmp_path / "run", faults, optimizer, resume=True)
    assert timeless(again) == timeless(whole) and events(tmp_path / "run") == events(tmp_path / "whole")
    model = "model.safetensors"
    assert file_digest(tmp_path / "run" / model) == file_digest(tmp_path / "whole" / model)


@pytest.mark.parametrize(
    ("optimizer", "text"),
    [
        (None, r"loss at step 12, the last of 10 nonfinite steps in a row; expected a finite number, got nan"),
        (
            optax.adam(1e-2),
            r"loss at step 12, the last of 10 skipped steps in a row; expected a finite number, got nan",
        ),
        (optax.apply_if_finite(optax.adam(1e-2), 4), r"loss at step 12, the last of 10 skipped steps in a row"),
    ],
)
def test_a_run_whose_losses_stay_nan_ends(tmp_path, optimizer, text):
    with pytest.raises(train.RunError, match=text):
        remedied(tmp_path, dict.fromkeys(range(2, 100), np.nan), optimizer)


def test_an_optimizer_that_breaks_finite_gradients_is_named(tmp_path):
    optimizer = optax.sgd(lambda count: jax.numpy.where(count >= 2, np.float32(np.inf), np.float32(0.01)))
    text = r"the update at step 12, the last of 10 skipped steps in a row; .* got NaN or infinity from the optimizer"
    with pytest.raises(train.RunError, match=text):
        remedied(tmp_path, optimizer=optimizer)
    assert {event["kind"] for event in events(tmp_path)} == {"skipped"}


@pytest.mark.slow
def test_a_run_that_removes_nan_rewinds_as_well(tmp_path):
    """The batches with NaN before and after the spike do not change where the run goes back to."""
    faults = {3: np.nan, 33: 1e3, 38: np.nan}
    optimizer = optax.chain(optax.zero_nans(), optax.adam(1e-2))
    options = {"steps": 40, "save_every": 10, "rewind_above": 4.0, "keep": 3}
    found = remedied(tmp_path / "a", faults, optimizer, **options)
    kinds = [(event["kind"], event["batch"], event.get("back_to")) for event in events(tmp_path / "a")]
    assert kinds == [("nonfinite", 3, None), ("spike", 33, 20), ("nonfinite", 38, None)]
    assert np.isfinite(found.rows[-1]["loss"]) and [row["step"] for row in found.rows] == list(range(1, 41))


class Reciprocal(nn.Module):
    def forward(self, x):
        return 1 / x


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS[:3], ids=" ".join)
def test_a_traced_run_names_the_layer(tmp_path, kind):
    """Only a layer in the middle breaks, and only for one batch."""
    parts = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), Reciprocal(), nn.Linear(32, 1))

    def batches(start):
        for index, batch in enumerate(data()(start), start):
            yield {**batch, "x": batch["x"] * 0} if index == 7 else batch

    start = parts.init(jax.random.key(0))
    start[0]["0"]["bias"] = start[0]["0"]["bias"] * 0
    parts[0].bias.requires_grad_(False)
    parallel, mesh = kind
    options = {"out": tmp_path, "steps": 10, "log_every": 1, "parallel": parallel, "mesh": mesh, "start": start}
    train.fit(parts, loss, batches, optax.sgd(1e-3), nan_trace=True, **options)
    (event,) = events(tmp_path)
    assert (event["step"], event["layer"]) == (8, "forward: the output of 'net.2' is the first that is not finite")


@pytest.mark.slow
def test_bundles_are_limited(tmp_path):
    """A run in which every second batch is NaN keeps some of them, and counts all."""
    run = fit(tmp_path, data(dict.fromkeys(range(1, STEPS, 2), np.nan)))
    assert len(list((tmp_path / "replay").iterdir())) == MOST
    assert sum("bundle" in event for event in events(tmp_path)) == MOST < len(events(tmp_path)) == STEPS // 2
    assert sum(row.get("skipped_steps", 0) for row in run.rows) == STEPS // 2


@pytest.mark.slow
def test_a_run_that_keeps_spiking_ends(tmp_path):
    faults = dict.fromkeys(range(40, 2000, 25), 1000.0)
    with pytest.raises(train.RunError, match=r"the loss has spiked more than 10 times; .* raise rewind_above\."):
        fit(tmp_path, data(faults), steps=200)


@pytest.mark.slow
def test_a_spike_before_the_first_checkpoint_starts_again(tmp_path):
    fit(tmp_path, data({25: 1e3}), save_every=0)
    (event,) = events(tmp_path)
    assert (event["step"], event["back_to"]) == (26, 0)
    assert read_bundle(tmp_path / event["bundle"]).start == 0


def test_a_run_that_keeps_its_best_model_cannot_rewind(tmp_path):
    validation = lambda: iter([batch_at(0)])
    with pytest.raises(ValueError, match="cannot go back after a spike of the loss; expected rewind_above = 0, got 4"):
        fit(tmp_path, data(), validation=validation, best=train.Best("loss", largest=False))


@pytest.mark.parametrize("factor", [0.5, 1, -1, "2", float("nan")])
def test_factors_that_make_no_sense_are_refused(tmp_path, factor):
    with pytest.raises(
        (TypeError, ValueError), match=r"rewind_above (is (too small|out of range)|has the wrong type);"
    ):
        fit(tmp_path, data(), rewind_above=factor)


@pytest.mark.parametrize("factor", [-1.0, 1.0, float("nan")])
def test_a_task_of_the_users_own_is_checked_as_well(factor):
    task = types.SimpleNamespace(rewind_above=factor)
    with pytest.raises(ValueError, match=r"^mine: --rewind-above is too small; expected a multiple .* above 1, or 0"):
        Trials(task, settings=None, config={}, context=None, where="mine")


def test_a_folder_that_is_no_bundle_is_refused(tmp_path):
    with pytest.raises(train.RunError, match=r"is not a replay bundle; expected a folder with bundle.json, such as"):
        read_bundle(tmp_path)
