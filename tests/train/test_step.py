"""The step gives the same numbers on 1, 2 and 8 devices, by pmap, shard_map and jit, with or without accumulation."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from funcnet import nn, optim, parallel, train
from tests.train import toy

WAYS = [(kind, devices) for kind in ("pmap", "shard_map", "jit") for devices in (1, 2, 8)]


def single_device(steps=20, rate=0.0, optimizer=None):
    """The reference: a training step written without this package."""
    optimizer = optimizer or optax.sgd(0.5)
    objective = toy.make_objective(rate)

    @jax.jit
    def step(params, state, opt_state, batch, rng):
        def loss(params):
            sums, new = objective(params, state, batch, training=True, rng=rng)
            parts = {k: v["loss"] / jnp.maximum(toy.counts(batch)[k], 1).astype(jnp.float32) for k, v in sums.items()}
            return parts["tokens"] + parts["rows"], new

        (value, state), grads = jax.value_and_grad(loss, has_aux=True)(params)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), state, opt_state, value

    params, state = toy.start()
    opt_state, losses = optimizer.init(params), []
    for number in range(steps):
        rng = jax.random.fold_in(jax.random.key(1), number)
        params, state, opt_state, loss = step(params, state, opt_state, toy.batch_at(number), rng)
        losses.append(float(loss))
    return params, state, losses


@functools.cache
def reference(rate=0.0):
    return single_device(rate=rate)


def assert_close(ours, theirs, tolerance):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max())


@pytest.mark.parametrize(("kind", "devices"), WAYS)
def test_twenty_steps_agree_with_a_single_device(kind, devices):
    params, state, losses = reference()
    ours, history = toy.run(kind, devices)
    np.testing.assert_allclose([m["loss"] for m in history], losses, rtol=1e-5)
    assert_close(ours.params, params, 1e-5)
    assert_close(ours.state, state, 1e-5)
    parallel.check_replicated((ours.params, ours.state))


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_under_jit_dropout_is_that_of_a_single_device(devices):
    params, _, losses = reference(0.3)
    ours, history = toy.run("jit", devices, rate=0.3)
    np.testing.assert_allclose([m["loss"] for m in history], losses, rtol=1e-5)
    assert_close(ours.params, params, 1e-5)


@pytest.mark.slow
def test_under_shard_map_every_device_drops_units_of_its_own():
    _, with_one = toy.run("shard_map", 1, steps=3, rate=0.3)
    _, with_eight = toy.run("shard_map", 8, steps=3, rate=0.3)
    assert abs(with_one[0]["loss"] - with_eight[0]["loss"]) > 1e-4


@pytest.mark.parametrize(("kind", "devices"), [("jit", 1), ("jit", 8), ("shard_map", 2), ("pmap", 2)])
def test_accumulated_micro_batches_give_the_same_mean_over_all_tokens(kind, devices):
    params, _, losses = reference()
    ours, history = toy.run(kind, devices, accumulate=2 if devices == 8 else 4)
    np.testing.assert_allclose([m["loss"] for m in history], losses, rtol=1e-5)
    assert_close(ours.params, params, 1e-5)


@pytest.mark.slow
def test_micro_batches_draw_masks_of_their_own():
    same_rows = lambda tree: jax.tree.map(lambda x: np.repeat(x[:1], 2, axis=0), tree)
    layout = parallel.make_layout({"data": 1}, kind="jit")
    objective = toy.make_objective(0.5)
    seen = {}
    for accumulate in (1, 2):
        step = train.make_step(objective, toy.counts, optax.sgd(0.1), accumulate=accumulate)
        state = train.create(*toy.start(), optax.sgd(0.1))
        batch = same_rows(toy.batch_at(0)) if accumulate == 2 else jax.tree.map(lambda x: x[:1], toy.batch_at(0))
        _, metrics = parallel.parallelize(step, layout)(state, batch, jax.random.key(0))
        seen[accumulate] = float(metrics["rows_loss"])
    assert seen[1] != seen[2]


def test_micro_batches_stay_on_their_devices():
    """With rows a, a + A, … every row stays on its device: only gradients are exchanged."""
    layout = parallel.make_layout({"data": 8}, kind="jit")
    step = train.make_step(toy.make_objective(), toy.counts, optax.sgd(0.5), accumulate=2)
    state = layout.place(train.create(*toy.start(), optax.sgd(0.5)))
    call = parallel.parallelize(step, layout)
    text = call.lower(state, layout.shard(toy.batch_at(0)), layout.place(jax.random.key(0))).compile().as_text()
    assert not any(name in text for name in ("all-gather(", "all-to-all(", "collective-permute("))


def test_metrics_are_the_means_over_what_counts():
    _, history = toy.run("shard_map", 8, steps=1, schedule=optax.constant_schedule(0.25))
    sums, _ = toy.make_objective()(*toy.start(), toy.batch_at(0), training=False, rng=None)
    tokens = toy.size(toy.batch_at(0))
    np.testing.assert_allclose(history[0]["tokens_accuracy"], sums["tokens"]["accuracy"] / tokens, rtol=1e-6)
    np.testing.assert_allclose(history[0]["rows_loss"], sums["rows"]["loss"] / toy.B, rtol=1e-6)
    np.testing.assert_allclose(history[0]["loss"], history[0]["tokens_loss"] + history[0]["rows_loss"], rtol=1e-6)
    assert history[0]["learning_rate"] == 0.25
    assert set(history[0]) == {
        *("loss", "grad_norm", "learning_rate", "skipped"),
        *(f"{term}_{metric}" for term in ("tokens", "rows") for metric in ("loss", "accuracy")),
    }


def test_a_term_that_counts_nothing_adds_nothing():
    batch = toy.batch_at(0) | {"labels": np.full((toy.B, toy.T), -1, np.int32)}
    step = train.make_step(toy.make_objective(), toy.counts, optax.sgd(0.1))
    state, metrics = jax.jit(step)(train.create(*toy.start(), optax.sgd(0.1)), batch, jax.random.key(0))
    assert metrics["tokens_loss"] == 0
    assert metrics["loss"] == metrics["rows_loss"] > 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))


@pytest.mark.parametrize("kind", ["pmap", "shard_map"])
def test_local_buffers_come_out_averaged(kind):
    ours, _ = toy.run(kind, 8, steps=5, buffers="averaged")
    _, state, _ = single_device(steps=5)
    parallel.check_replicated(ours.state)
    assert_close(ours.state, state, 1e-5)  # for parts of equal size, the mean of means is the mean


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(toy.D, 16)
        self.bn = nn.SyncBatchNorm(16, axis_name=parallel.AXIS)
        self.drop = nn.Dropout(0.0)
        self.out = nn.Linear(16, 2)

    def forward(self, x):
        return self.out(self.drop(jnp.tanh(self.bn(self.fc(x)))))


@functools.cache
def normalised(kind, devices):
    """(losses, final state) of a model of this package with batch statistics."""
    net, layout, optimizer = Normalised(), parallel.make_layout({"data": devices}, kind=kind), optax.sgd(0.1)

    def objective(params, state, batch, *, training, rng):
        logits, state = net.apply(params, state, batch["x"][:, 0] + 3, training=training, rng=rng)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["row_labels"])
        return {"rows": {"loss": losses.sum()}}, state

    step = parallel.parallelize(train.make_step(objective, toy.counts, optimizer), layout, donate=True)
    state, key = layout.place(train.create(*net.init(jax.random.key(0)), optimizer)), layout.place(jax.random.key(1))
    losses = []
    for number in range(5):
        state, metrics = step(state, layout.shard(toy.batch_at(number)), key)
        losses.append(float(metrics["loss"]))
    parallel.check_replicated((state.params, state.state))
    return losses, jax.device_get(state)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pmap", "shard_map", "jit"])
def test_a_model_with_synchronised_batchnorm_trains_as_on_one_device(kind):
    losses, state = normalised("jit", 1)
    ours, after = normalised(kind, 8)
    np.testing.assert_allclose(ours, losses, rtol=1e-5)
    assert_close(after.params, state.params, 1e-5)
    assert_close(after.state, state.state, 1e-5)


def test_the_norm_is_that_before_clipping_and_the_optimizer_clips():
    optimizer = optax.chain(optim.clip_by_global_norm(1e-3), optax.sgd(1.0))
    before = train.create(*toy.start(), optimizer)
    after, history = toy.run("jit", 2, steps=1, optimizer=optimizer)
    moved = jax.tree.map(lambda a, b: np.asarray(a) - np.asarray(b), after.params, before.params)
    np.testing.assert_allclose(optax.tree.norm(moved), 1e-3, rtol=1e-3)
    assert history[0]["grad_norm"] > 0.01


def test_bfloat16_computes_narrow_and_keeps_float32_masters():
    seen = []

    def objective(params, state, batch, *, training, rng):
        seen.append(params["body"]["weight"].dtype)
        return toy.make_objective()(params, state, batch, training=training, rng=rng)

    optimizer = optim.bert_adamw(1e-3, no_decay="**.bias")
    step = train.make_step(objective, toy.counts, optimizer, precision=train.BFLOAT16)
    state, metrics = jax.jit(step)(train.create(*toy.start(), optimizer), toy.batch_at(0), jax.random.key(0))
    assert set(seen) == {jnp.dtype(jnp.bfloat16)}
    assert {leaf.dtype for leaf in jax.tree.leaves((state.params, state.opt_state[1].mu))} == {jnp.dtype(jnp.float32)}
    assert metrics["loss"].dtype == jnp.float32
    np.testing.assert_allclose(metrics["loss"], reference()[2][0], rtol=2e-2)


@pytest.mark.slow
def test_a_frozen_part_neither_moves_nor_has_a_gradient():
    start, _ = toy.start()
    optimizer = optim.bert_adamw(1e-2, no_decay=())
    ours, _ = toy.run("shard_map", 2, steps=3, optimizer=optimizer, trainable="tokens")
    assert_close(ours.params["body"], start["body"], 0)
    assert np.abs(np.asarray(ours.params["tokens"]["weight"]) - start["tokens"]["weight"]).max() > 1e-3
    assert jax.tree.leaves(ours.opt_state[1].mu["body"]) == []

    def cost(trainable):
        step = train.make_step(toy.make_objective(), toy.counts, optimizer, trainable=trainable)
        state = train.create(*toy.start(), optimizer, trainable=trainable)
        return jax.jit(step).lower(state, toy.batch_at(0), jax.random.key(0)).compile().cost_analysis()["flops"]

    assert cost("tokens") < 0.8 * cost("**")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "devices"), [("jit", 1), ("pmap", 8), ("shard_map", 8), ("jit", 8)])
def test_evaluation_is_the_mean_over_all_batches(kind, devices):
    layout = parallel.make_layout({"data": devices}, kind=kind)
    step = parallel.parallelize(train.make_eval_step(toy.make_objective(), toy.counts), layout)
    batches = [toy.batch_at(number) for number in range(3)]
    ours = train.evaluate(step, layout.place(toy.start()), map(layout.shard, batches))
    sums, _ = toy.make_objective()(
        *toy.start(), jax.tree.map(lambda *x: np.concatenate(x), *batches), training=False, rng=None
    )
    np.testing.assert_allclose(ours["tokens_loss"], sums["tokens"]["loss"] / sum(map(toy.size, batches)), rtol=1e-5)
    np.testing.assert_allclose(ours["loss"], ours["tokens_loss"] + ours["rows_loss"], rtol=1e-6)


def test_evaluation_can_be_cut_short_and_needs_a_batch():
    step = jax.jit(train.make_eval_step(toy.make_objective(), toy.counts))
    asked = []
    first = train.evaluate(step, toy.start(), [toy.batch_at(0)])
    cut = train.evaluate(step, toy.start(), toy.batches(0), should_stop=lambda: asked.append(1) is None)
    assert cut == first and len(asked) == 1
    with pytest.raises(
        ValueError, match=r"train.evaluate: there are no batches; expected at least one, got none. Hold out more"
    ):
        train.evaluate(step, toy.start(), [])


def test_what_cannot_be_a_step_is_refused():
    with pytest.raises(ValueError, match=r"train.make_step: accumulate is out of range; expected at least 1, got 0\.$"):
        train.make_step(toy.make_objective(), toy.counts, optax.sgd(0.1), accumulate=0)
    with pytest.raises(
        ValueError, match=r"train.make_step: the batch does not divide evenly over 1 device x 3 micro-batch"
    ):
        toy.run(steps=1, accumulate=3)
    with pytest.raises(
        ValueError, match="term 'rows' is incomplete; expected a 'loss' in it and a count of the same name"
    ):
        step = train.make_step(toy.make_objective(), lambda batch: {"tokens": 1}, optax.sgd(0.1))
        step(train.create(*toy.start(), optax.sgd(0.1)), toy.batch_at(0), jax.random.key(0))
    with pytest.raises(
        ValueError, match=r"train.create: trainable: pattern 'bdy' matches nothing. Nearest names: 'body'"
    ):
        train.create(*toy.start(), optax.sgd(0.1), trainable="bdy")


NAN, INF = np.float32(np.nan), np.float32(np.inf)
REMEDIES = {
    "none": (optax.sgd(0.1), [1, 3]),
    "momentum": (optax.sgd(0.1, momentum=0.9), [1, 3]),
    "zero_nans": (optax.chain(optax.zero_nans(), optax.sgd(0.1)), [3]),
    "zero_nans, after momentum": (optax.chain(optax.trace(0.9), optax.zero_nans(), optax.scale(-0.1)), [1, 3]),
    "apply_if_finite": (optax.apply_if_finite(optax.adam(0.1), 5), []),
    "clip, which leaves NaN": (optax.chain(optax.clip(1.0), optax.sgd(0.1)), [1]),
    "sum of two": (optax.MultiSteps(optax.sgd(0.1), 2), [1, 3]),
    "a rate of infinity": (optax.sgd(lambda count: jnp.where(count == 2, INF, 0.1)), [1, 3, 4]),
    "signs": (optax.lion(0.1), [1, 3]),
}


@pytest.mark.every_row
@pytest.mark.parametrize("name", REMEDIES)
def test_finite_updates_decide_and_not_the_gradient(name):
    """The gradient is the batch. By hand: optax's own update, which is kept only if all of its numbers are finite."""
    optimizer, expected = REMEDIES[name]
    rows = np.array([[1, 2], [NAN, 1], [1, 1], [INF, -1], [2, 1]], np.float32)
    objective = lambda params, state, batch, **_: ({"": {"loss": (params["w"] * batch["g"]).sum()}}, state)
    with jax.numpy_dtype_promotion("standard"):
        step = jax.jit(train.make_step(objective, lambda batch: {"": 1}, optimizer))
        state = train.create({"w": jnp.ones(2)}, {}, optimizer)
        params, own = {"w": jnp.ones(2)}, optimizer.init({"w": jnp.ones(2)})
        skipped = []
        for number, row in enumerate(rows):
            state, metrics = step(state, {"g": row[None]}, jax.random.key(0))
            updates, new = optimizer.update({"w": jnp.asarray(row)}, own, params)
            moved = optax.apply_updates(params, updates)
            if all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((moved, new))):
                params, own = moved, new
            assert_close((state.params, state.opt_state), (params, own), 1e-6)
            skipped += [number] * int(metrics["skipped"])
    assert skipped == expected and (int(state.step), int(state.skipped)) == (len(rows), len(expected))


def test_buffers_must_stay_finite_and_what_never_was_is_not_checked():
    def objective(params, state, batch, *, training, rng):
        new = {"mean": state["mean"] + batch["g"].sum(), "unset": state["unset"]}
        return {"": {"loss": (jnp.where(jnp.isinf(params["w"]), 0.0, params["w"]) * batch["x"]).sum()}}, new

    optimizer = optax.sgd(0.1)
    step = jax.jit(train.make_step(objective, lambda batch: {"": 1}, optimizer))
    state = train.create({"w": jnp.array([1.0, -INF])}, {"mean": jnp.zeros(()), "unset": jnp.array(NAN)}, optimizer)
    for g, skipped in ((1.0, 0), (NAN, 1), (INF, 2), (1.0, 2)):
        state, _ = step(state, {"g": np.float32([g]), "x": np.ones((1, 2), np.float32)}, jax.random.key(0))
        assert int(state.skipped) == skipped and np.isfinite(state.state["mean"])
    np.testing.assert_allclose(state.params["w"], [0.8, -INF], rtol=1e-6)


@pytest.mark.parametrize("kind", ["jit", "shard_map"])
def test_an_optimizer_that_needs_the_loss_receives_its_mean(kind):
    """The loss does not change here, so optax's reduce_on_plateau halves its factor after each step but the first."""
    plateau = optax.contrib.reduce_on_plateau(0.5, patience=1, rtol=0.01)
    optimizer = optax.chain(optax.sgd(0.0), plateau)
    layout = parallel.make_layout({"data": 4}, kind=kind)
    state = layout.place(train.create(*toy.start(), optimizer))
    step = parallel.parallelize(train.make_step(toy.make_objective(), toy.counts, optimizer), layout)
    batch, key = layout.shard(toy.batch_at(0)), layout.place(jax.random.key(0))
    for number in range(4):
        with jax.numpy_dtype_promotion("standard"):  # optax adds floats and its count
            state, metrics = step(state, batch, key)
        found = state.opt_state[1]
        assert float(found.best_value) == pytest.approx(float(metrics["loss"]), rel=1e-6)
        assert float(found.scale) == 0.5**number


def test_a_step_that_changes_nothing_is_not_skipped():
    """Its loss depends on no parameter, and narrow floats are finite as well."""
    objective = lambda params, state, batch, **_: ({"": {"loss": batch["x"].sum()}}, state)
    step = train.make_step(objective, lambda batch: {"": 1}, optax.sgd(0.1))
    start = train.create({"w": jnp.ones(2)}, {"b": jnp.ones(2, jnp.float8_e4m3fn)}, optax.sgd(0.1))
    state, metrics = jax.jit(step)(start, {"x": np.ones(1, np.float32)}, jax.random.key(0))
    assert (int(state.skipped), float(metrics["skipped"]), state.params["w"].tolist()) == (0, 0.0, [1.0, 1.0])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda s: {**s, "a": s["a"].astype(jnp.bfloat16)}, r"opt_state.a was float32\[2\] and is bfloat16\[2\]"),
        (lambda s: {**s, "a": jnp.ones((3, 2))}, r"opt_state.a was float32\[2\] and is float32\[3, 2\]"),
        (lambda s: {"a": s["a"]}, r"opt_state.b.0 is missing"),
        (lambda s: {**s, "c": s["a"]}, r"opt_state.c is new"),
        (lambda s: {**s, "b": [s["b"][0]]}, "the types of its containers"),
    ],
)
def test_a_step_that_changes_the_form_of_its_state_is_refused(change, text):
    """Its checkpoints could not be restored. `where` would broadcast a shape, and promote a dtype."""
    start = {"a": jnp.zeros(2), "b": (jnp.zeros(1),)}
    optimizer = optax.GradientTransformation(lambda params: start, lambda g, state, params=None: (g, change(state)))
    objective = lambda params, state, batch, **_: ({"": {"loss": params["w"].sum()}}, state)
    step = train.make_step(objective, lambda batch: {"": 1}, optimizer)
    with jax.numpy_dtype_promotion("standard"), pytest.raises(ValueError, match=f"changes the form of .*: {text}"):
        step(train.create({"w": jnp.ones(2)}, {}, optimizer), {"x": np.ones(1)}, jax.random.key(0))


@pytest.mark.parametrize(
    ("new", "text"),
    [
        ({"n": jnp.ones(3)}, r"extra.n was float32\[\] and is float32\[3\]"),
        ({"m": 1.0}, "extra.n is missing, extra.m is"),
    ],
)
def test_a_new_extra_of_another_form_is_refused(new, text):
    objective = lambda params, state, batch, *, extra, **_: ({"": {"loss": params["w"].sum()}}, state)
    step = train.make_step(objective, lambda batch: {"": 1}, optax.sgd(0.1), update_extra=lambda state, metrics: new)
    state = train.create({"w": jnp.ones(2)}, {}, optax.sgd(0.1), extra={"n": 1.0})
    with pytest.raises(ValueError, match=f"changes the form of .*: {text}"):
        step(state, {"x": np.ones(1)}, jax.random.key(0))


@pytest.mark.parametrize("part", ["norms", "softmax", "reductions"])
def test_narrow_reductions_are_refused(part):
    with pytest.raises(
        ValueError, match=f"train.Precision: {part} is too narrow; expected float32 or wider, got bfloat16"
    ):
        train.Precision(**{part: jnp.bfloat16})
    with pytest.raises(
        ValueError, match=r"train.Precision: params is too narrow; expected float32 or wider, got bfloat16"
    ):
        train.Precision(params=jnp.bfloat16)
