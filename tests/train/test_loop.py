"""The loop: what it logs and when, how it ends, and that stopping and resuming it changes no bit."""

import functools
import os
import signal

import jax
import numpy as np
import optax
import pytest

from funcnet import optim, parallel, train
from tests.train import toy

TOTAL = 12


class Recorder:
    def __init__(self):
        self.rows, self.synced = {}, 0

    def write(self, step, values):
        assert step not in self.rows
        self.rows[step] = dict(values)

    def sync(self):
        self.synced += 1

    def rewind(self, step):
        self.rows = {number: row for number, row in self.rows.items() if number <= step}


@functools.cache
def compiled(kind, devices):
    layout = parallel.make_layout({"data": devices}, kind=kind)
    optimizer = optim.bert_adamw(optim.warmup_linear_decay(0.02, 3, TOTAL), no_decay="**.bias")
    objective = toy.make_objective(0.3, layout.axis_name)
    schedule = optim.warmup_linear_decay(0.02, 3, TOTAL)
    step = train.make_step(objective, toy.counts, optimizer, schedule=schedule, metrics_as="sums")
    traced = []

    def counted(*args, **kwargs):
        traced.append(1)
        return step(*args, **kwargs)

    return layout, optimizer, parallel.parallelize(counted, layout, donate=True), traced


def run(kind="jit", devices=1, *, cadence=None, checkpoints=None, stop=None, batches=toy.batches, **options):
    """Start, or resume from the newest checkpoint, as a run does."""
    layout, optimizer, step, _ = compiled(kind, devices)
    state = train.create(*toy.start(), optimizer)
    restored = checkpoints.restore(state) if checkpoints is not None else None
    if restored is not None:
        options |= {"begin": restored.about}
    recorder = Recorder()
    outcome = train.train(
        step,
        layout.place(state if restored is None else restored.state),
        batches,
        key=layout.place(jax.random.key(5)),
        place=layout.shard,
        size=toy.size,
        cadence=cadence or train.Cadence(TOTAL, log_every=5),
        stop=stop or train.Interruption(),
        loggers=[recorder],
        checkpoints=checkpoints,
        **options,
    )
    return outcome, recorder


def assert_equal(ours, theirs):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def stopping_at(step, number=signal.SIGTERM):
    """Send a signal to this process after `step`."""
    return lambda finished: os.kill(os.getpid(), number) if finished == step else None


@pytest.mark.slow
def test_an_evaluation_can_end_the_run(tmp_path):
    asked = []
    should_stop = lambda evaluation: asked.append(evaluation) or len(asked) == 2
    with train.Checkpoints(tmp_path) as checkpoints:
        outcome, recorder = run(
            cadence=train.Cadence(TOTAL, log_every=5, evaluate_every=3),
            checkpoints=checkpoints,
            evaluate=lambda state: {"loss": float(state.step)},
            should_stop=should_stop,
        )
        restored = checkpoints.restore(train.create(*toy.start(), compiled("jit", 1)[1]))
    assert asked == [{"eval_loss": 3.0}, {"eval_loss": 6.0}]
    assert outcome.step == restored.step == max(recorder.rows) == 6 and "owed" not in restored.about


def test_a_run_logs_evaluates_and_saves_when_it_should(tmp_path):
    evaluated = []
    evaluate = lambda state: evaluated.append(int(state.step)) or {"loss": 1.5}
    finished = []
    cadence = train.Cadence(TOTAL, log_every=5, evaluate_every=4, save_every=8)
    with train.Checkpoints(tmp_path, keep=9) as checkpoints:
        outcome, log = run(
            cadence=cadence, checkpoints=checkpoints, evaluate=evaluate, after_step=finished.append, about={"seed": 5}
        )
    assert outcome.step == int(outcome.state.step) == TOTAL
    assert finished == list(range(1, TOTAL + 1))
    assert sorted(log.rows) == [1, 4, 5, 8, 10, 12]
    assert evaluated == [4, 8, 12]
    assert [step for step, row in log.rows.items() if "eval_loss" in row] == evaluated
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["step-00000008", "step-00000012"]
    assert log.synced == 2
    restored = checkpoints.restore(train.create(*toy.start(), compiled("jit", 1)[1]))
    assert restored.about["data"] == {"next_step": TOTAL}
    assert (restored.about["seed"], restored.about["metrics"]) == (5, {"eval_loss": 1.5})
    row = log.rows[10]
    assert {"loss", "tokens_loss", "grad_norm", "learning_rate", "tokens_per_second", "data_wait_share"} <= set(row)
    assert row["tokens_per_second"] > 0 and 0 <= row["data_wait_share"] <= 1 and 0 <= outcome.data_wait_share <= 1


def weighted_mean(rows, counts, name):
    return np.average([np.float64(rows[step][name]) for step in counts], weights=list(counts.values()))


def test_a_line_has_the_means_since_the_last_line_weighted_by_counts():
    _, every = run(cadence=train.Cadence(TOTAL, log_every=1))
    _, some = run(cadence=train.Cadence(TOTAL, log_every=5))
    assert sorted(every.rows) == list(range(1, TOTAL + 1))
    for since, step in ((0, 1), (1, 5), (5, 10), (10, 12)):
        tokens = {one: toy.size(toy.batch_at(one - 1)) for one in range(since + 1, step + 1)}
        rows = dict.fromkeys(tokens, toy.B)
        for counts, names in ((tokens, ("tokens_loss", "tokens_accuracy")), (rows, ("rows_loss", "grad_norm"))):
            for name in names:
                np.testing.assert_allclose(
                    some.rows[step][name], weighted_mean(every.rows, counts, name), rtol=1e-6, err_msg=name
                )
        assert some.rows[step]["learning_rate"] == every.rows[step]["learning_rate"]
        np.testing.assert_allclose(
            some.rows[step]["loss"], some.rows[step]["tokens_loss"] + some.rows[step]["rows_loss"]
        )


def test_a_step_that_returns_means_is_averaged_over_steps():
    layout = parallel.make_layout({"data": 1}, kind="jit")
    recorder = Recorder()
    train.train(
        lambda state, batch, key: (state, {"loss": batch["x"].mean(), "learning_rate": 0.5}),
        layout.place(train.create(*toy.start(), optax.sgd(0.1))),
        lambda start: ({"x": np.full(2, float(number))} for number in range(4)),
        key=layout.place(jax.random.key(5)),
        place=layout.shard,
        size=lambda batch: 1,
        cadence=train.Cadence(4, log_every=2),
        stop=train.Interruption(),
        loggers=[recorder],
    )
    assert {step: (row["loss"], row["learning_rate"]) for step, row in recorder.rows.items()} == {
        1: (0.0, 0.5),
        2: (1.0, 0.5),
        4: (2.5, 0.5),
    }


def test_metrics_are_read_while_the_next_step_runs():
    events = []
    layout, optimizer, step, _ = compiled("jit", 1)

    def watched(*args):
        events.append("run")
        return step(*args)

    train.train(
        watched,
        layout.place(train.create(*toy.start(), optimizer)),
        toy.batches,
        key=layout.place(jax.random.key(5)),
        place=layout.shard,
        size=toy.size,
        cadence=train.Cadence(4, log_every=1),
        stop=train.Interruption(),
        after_step=lambda number: events.append(number),
    )
    # the loop waits for the first step, which compiles; then one step is always running
    assert events == ["run", 1, "run", "run", 2, "run", 3, 4]


@pytest.mark.parametrize(
    ("kind", "devices", "log_every"),
    [("jit", 1, 1), ("jit", 8, 1), ("shard_map", 8, 1), ("pmap", 8, 1), ("jit", 1, 4), ("shard_map", 8, 6)],
)
def test_stopped_and_resumed_is_bitwise_the_uninterrupted_run(tmp_path, kind, devices, log_every):
    straight, log = run(kind, devices, cadence=train.Cadence(TOTAL, log_every=log_every))
    cadence = train.Cadence(TOTAL, log_every=log_every, save_every=5)
    rows = {}
    for stops in (3, 7, None):
        with train.Checkpoints(tmp_path) as checkpoints, train.Interruption() as stop:
            after_step = stopping_at(stops) if stops else lambda step: None
            outcome, part = run(
                kind, devices, cadence=cadence, checkpoints=checkpoints, stop=stop, after_step=after_step
            )
        assert not set(rows) & set(part.rows)
        rows |= part.rows
        if stops:
            assert stops <= outcome.step <= stops + 1
            assert stop.exit_code == 143
    assert_equal(outcome.state, straight.state)
    timeless = lambda rows: {
        step: {name: value for name, value in row.items() if name not in ("tokens_per_second", "data_wait_share")}
        for step, row in rows.items()
    }
    assert timeless(rows) == timeless(log.rows)
    assert len(compiled(kind, devices)[3]) == 1, (
        "a restored state has the shardings of the first one: nothing is compiled again"
    )


def test_a_signal_before_the_first_step_saves_nothing(tmp_path):
    with train.Interruption() as stop, train.Checkpoints(tmp_path / "none") as checkpoints:
        os.kill(os.getpid(), signal.SIGINT)
        outcome, log = run(stop=stop, checkpoints=checkpoints)
    assert (outcome.step, log.rows, stop.exit_code) == (0, {}, 130)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("when", [4, TOTAL], ids=["midway", "at the last step"])
@pytest.mark.parametrize("moment", ["in the evaluation", "in the step before it"])
def test_an_evaluation_interrupted_by_a_signal_is_repeated(tmp_path, when, moment):
    def evaluate(state, cut=None):
        if int(state.step) == cut:
            os.kill(os.getpid(), signal.SIGTERM)
        return {"loss": float(state.step)}

    cadence = train.Cadence(TOTAL, log_every=2, evaluate_every=4)
    _, whole = run(cadence=cadence, evaluate=evaluate)
    with train.Interruption() as stop, train.Checkpoints(tmp_path) as checkpoints:
        if moment == "in the evaluation":
            cut = {"evaluate": functools.partial(evaluate, cut=when)}
        else:
            cut = {"evaluate": evaluate, "after_step": stopping_at(when - 1)}
        outcome, log = run(stop=stop, checkpoints=checkpoints, cadence=cadence, **cut)
    assert outcome.step == when and when not in log.rows, "an interrupted evaluation is not logged"
    assert [path.name for path in tmp_path.iterdir()] == [f"step-{when:08d}"]

    with train.Checkpoints(tmp_path) as checkpoints:
        assert "owed" in checkpoints.restore(train.create(*toy.start(), compiled("jit", 1)[1])).about
        with train.Interruption() as stop:
            stop.signal = signal.SIGTERM  # again, before the evaluation is repeated
            again, nothing = run(stop=stop, checkpoints=checkpoints, cadence=cadence, evaluate=evaluate)
        assert (again.step, nothing.rows) == (when, {})
        _, rest = run(checkpoints=checkpoints, cadence=cadence, evaluate=evaluate)
    rows = {**log.rows, **rest.rows}
    assert list(rows) == list(whole.rows)
    logged = [{step: (row["loss"], row.get("eval_loss")) for step, row in r.items()} for r in (rows, whole.rows)]
    assert logged[0] == logged[1]


def test_a_finished_run_does_nothing_more(tmp_path):
    with train.Checkpoints(tmp_path) as checkpoints:
        first, _ = run(checkpoints=checkpoints)
        again, log = run(checkpoints=checkpoints)
    assert (again.step, log.rows) == (TOTAL, {})
    assert_equal(again.state, first.state)


def test_the_second_signal_ends_at_once():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), train.Interruption():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def with_nan(*numbers):
    """The batches of the toy task, of which some are NaN."""

    def batches(start):
        for number, batch in enumerate(toy.batches(start), start):
            yield batch | {"x": batch["x"] * np.nan} if number in numbers else batch

    return batches


@pytest.mark.parametrize(("kind", "devices"), [("jit", 1), ("shard_map", 8)])
def test_a_step_whose_loss_is_not_finite_is_skipped_and_counted(tmp_path, kind, devices):
    """The step changes nothing but its own number, so a run without dropout is that of the other batches."""
    layout = parallel.make_layout({"data": devices}, kind=kind)
    optimizer = optim.bert_adamw(optim.warmup_linear_decay(0.02, 3, TOTAL), no_decay="**.bias")
    make = lambda: parallel.parallelize(
        train.make_step(toy.make_objective(0.0, layout.axis_name), toy.counts, optimizer, metrics_as="sums"), layout
    )
    options = {"key": layout.place(jax.random.key(5)), "place": layout.shard, "size": toy.size}
    options |= {"stop": train.Interruption()}
    start = lambda: layout.place(train.create(*toy.start(), optimizer))
    log, step = Recorder(), make()
    found = train.train(
        step, start(), with_nan(3, 4), cadence=train.Cadence(8, log_every=2), loggers=[log], **options
    ).state
    others = lambda first: (toy.batch_at(number) for number in (0, 1, 2, 5, 6, 7))
    expected = train.train(step, start(), others, cadence=train.Cadence(6), **options).state
    assert_equal((found.params, found.state, found.opt_state), (expected.params, expected.state, expected.opt_state))
    assert (int(found.step), int(found.skipped)) == (8, 2)
    skipped = {number: row.get("skipped_steps") for number, row in log.rows.items()}
    assert skipped == {1: None, 2: None, 4: 1.0, 6: 1.0, 8: None}
    assert all(np.isfinite(list(row.values())).all() for row in log.rows.values())


def test_ten_skipped_steps_in_a_row_end_the_run(tmp_path):
    with train.Checkpoints(tmp_path) as checkpoints:
        text = r"train.train: loss at step 12, the last of 10 skipped steps in a row; expected a finite number, got nan"
        with pytest.raises(train.RunError, match=text):
            run(batches=with_nan(*range(2, 20)), checkpoints=checkpoints, cadence=train.Cadence(20, save_every=2))


def test_gradients_that_are_not_finite_at_once_end_the_run_before_they_are_saved(tmp_path):
    """The loss is sqrt at 0: finite, with an infinite derivative."""
    layout = parallel.make_layout({"data": 1}, kind="jit")
    optimizer = optax.sgd(0.1)

    def objective(params, state, batch, *, training, rng):
        return {
            "tokens": {"loss": jax.numpy.sqrt(params["w"]).sum() * toy.counts(batch)["tokens"].astype("float32")}
        }, state

    step = parallel.parallelize(train.make_step(objective, toy.counts, optimizer), layout, donate=True)
    with (
        train.Checkpoints(tmp_path) as checkpoints,
        pytest.raises(train.RunError, match="grad_norm at step 1; expected a finite number, got inf"),
    ):
        train.train(
            step,
            layout.place(train.create({"w": np.zeros(2, np.float32)}, {}, optimizer)),
            toy.batches,
            key=layout.place(jax.random.key(0)),
            place=layout.shard,
            size=toy.size,
            cadence=train.Cadence(3, save_every=1),
            stop=train.Interruption(),
            checkpoints=checkpoints,
        )
    assert not list(tmp_path.glob("step-*"))


def test_data_that_end_early_are_an_error():
    with pytest.raises(
        train.RunError, match=r"train.train: the data ended at step 3; expected a batch for every step, got"
    ):
        run(batches=lambda start: iter([toy.batch_at(0), toy.batch_at(1)]))


def test_an_error_in_the_data_thread_is_raised():
    with pytest.raises(
        ValueError, match="the batch does not divide evenly over 8 devices; expected a multiple of 8, got 12"
    ):
        run("jit", 8, batches=lambda start: toy.batches(start, rows=12))


def test_a_checkpoint_that_cannot_be_written_ends_the_run(tmp_path):
    (tmp_path / "file").write_text("")
    checkpoints = train.Checkpoints(tmp_path / "file" / "checkpoints")
    with pytest.raises(train.RunError, match=r"train.Checkpoints: cannot write .*file/checkpoints"):
        run(checkpoints=checkpoints, cadence=train.Cadence(TOTAL, save_every=2))


def test_buffers_that_no_one_synchronised_are_found_before_they_are_saved(tmp_path):
    layout = parallel.make_layout({"data": 8}, kind="shard_map")
    optimizer = optax.sgd(0.1)
    step = parallel.parallelize(train.make_step(toy.make_objective(), toy.counts, optimizer), layout)
    with pytest.raises(
        ValueError,
        match=r"train.train: the replicas of norm.running_mean differ; expected equal replicas on all devices, got",
    ):
        train.train(
            step,
            layout.place(train.create(*toy.start(), optimizer)),
            toy.batches,
            key=layout.place(jax.random.key(5)),
            place=layout.shard,
            size=toy.size,
            cadence=train.Cadence(2),
            stop=train.Interruption(),
            checkpoints=train.Checkpoints(tmp_path),
        )
