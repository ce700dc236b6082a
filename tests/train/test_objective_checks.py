"""Objectives that do not keep to the contract: the messages, and the check that they return sums."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from funcnet import functional as F
from funcnet import nn, parallel, train
from funcnet.train.objective_checks import check_returns_sums
from tests.train import toy


def step(objective, counts=toy.counts):
    made = train.make_step(objective, counts, optax.sgd(0.1))
    return made(train.create(*toy.start(), optax.sgd(0.1)), toy.batch_at(0), jax.random.key(0))


@pytest.mark.parametrize(
    ("returned", "got"),
    [
        (lambda state: jnp.float32(1), r"float32\[\]\. Return"),
        (lambda state: (jnp.float32(1), state), r"float32\[\]"),
        (lambda state: ({"loss": jnp.float32(1)}, state), r"\{'loss': 'float32\[\]'\}"),
        (lambda state: {"rows": {"loss": jnp.float32(1)}}, r"\{'rows': \{'loss': 'float32\[\]'\}\}"),
    ],
    ids=["scalar", "scalar and state", "without terms", "without state"],
)
def test_a_wrong_form_is_refused(returned, got):
    with pytest.raises(ValueError, match=r"the objective returned a wrong value; expected \(\{term: .*, got .*" + got):
        step(lambda params, state, batch, **_: returned(state))


def test_values_that_are_not_scalars_are_refused():
    with pytest.raises(
        ValueError, match=r"'loss' of the term 'rows' is not a sum; expected a scalar, got float32\[4\]"
    ):
        step(lambda params, state, batch, **_: ({"rows": {"loss": jnp.ones(4)}}, state))
    with pytest.raises(ValueError, match=r"counts\(batch\) returned a wrong value; expected \{term: count\}"):
        step(toy.make_objective(), lambda batch: jnp.float32(3))


@pytest.mark.slow
@pytest.mark.parametrize(("made", "stepped"), [("**", "tokens"), ("tokens", "**"), ("tokens", "rows")])
@pytest.mark.parametrize("optimizer", [optax.adamw(0.1), optax.sgd(0.1, momentum=0.9)], ids=["adamw", "sgd"])
def test_trainable_given_to_one_of_two_functions_is_refused(made, stepped, optimizer):
    state = train.create(*toy.start(), optimizer, trainable=made)
    call = train.make_step(toy.make_objective(), toy.counts, optimizer, trainable=stepped)
    with pytest.raises(ValueError, match=r"Pass the same optimizer and the same trainable= to train.create and"):
        call(state, toy.batch_at(0), jax.random.key(0))


def check(objective, kind="jit", devices=1, batch=None):
    layout = parallel.make_layout({"data": devices}, kind=kind)
    eval_step = train.make_eval_step(objective, toy.counts)
    batch = toy.batch_at(0) if batch is None else batch
    check_returns_sums(eval_step, layout.place(toy.start()), batch, jax.random.key(0), layout, where="here")


@pytest.mark.parametrize(("kind", "devices"), [("jit", 1), ("jit", 8), ("shard_map", 8), ("pmap", 2)])
def test_sums_pass_and_means_are_found(kind, devices):
    sums = toy.make_objective()
    check(sums, kind, devices)

    def means(params, state, batch, **options):
        terms, state = sums(params, state, batch, **options)
        return terms | {
            "rows": {name: value / len(batch["row_labels"]) for name, value in terms["rows"].items()}
        }, state

    with pytest.raises(ValueError, match=r"here: the objective's '\w+' of the term 'rows' is not a sum; expected"):
        check(means, kind, devices)


def test_a_contrastive_loss_and_dropout_pass():
    def contrastive(params, state, batch, *, training, rng):
        x = batch["x"].reshape(len(batch["x"]), -1) @ jnp.ones((toy.T * toy.D, 4)) / 10
        return {"rows": {"loss": F.cross_entropy(x @ x.T, jnp.arange(len(x)), reduction="sum")}}, state

    check(contrastive)

    def random(params, state, batch, **_):  # random in eval mode too
        sums, state = toy.make_objective(0.5)(params, state, batch, training=True, rng=_["rng"])
        return {"rows": sums["rows"]}, state

    check(random)


def test_an_objective_for_one_batch_size_is_not_checked_and_an_error_of_the_objective_is_raised():
    def fixed(params, state, batch, **_):
        return {"rows": {"loss": jnp.sum(batch["x"].sum((1, 2)) * jnp.arange(toy.B, dtype=jnp.float32))}}, state

    check(fixed)
    with pytest.raises((TypeError, ValueError), match=r"(?i)incompatible shapes"):
        check(lambda params, state, batch, **_: ({"rows": {"loss": (batch["x"] + jnp.ones(99)).sum()}}, state))


def test_run_task_checks_before_the_first_step_and_leaves_no_run_behind(tmp_path):
    net = nn.Linear(2, 1)

    def loss(model, batch):
        return F.mse_loss(model(batch["x"]), batch["y"])[None]  # a mean in the form of an array

    data = {"x": np.ones((8, 2), np.float32), "y": np.zeros((8, 1), np.float32)}
    with pytest.raises(ValueError, match=r"train.fit: the objective's 'loss' is not a sum; .* Return sums"):
        train.fit(net, loss, data, optax.sgd(0.1), out=tmp_path / "run", steps=2, batch_size=4)
    assert not (tmp_path / "run").exists()
