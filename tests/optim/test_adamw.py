"""BERT's AdamW against Google's rule written out in numpy, and with bias correction against torch's."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from funcnet import optim

STEPS = 25
SHAPES = {"dense": {"weight": (4, 3), "bias": (4,)}, "LayerNorm": {"weight": (4,), "bias": (4,)}}


def start_and_gradients(scale=1.0):
    rng = np.random.default_rng(0)
    draw = lambda: {m: {k: rng.normal(size=s) for k, s in leaves.items()} for m, leaves in SHAPES.items()}
    return draw(), [jax.tree.map(lambda g: scale * g, draw()) for _ in range(STEPS)]


def run(optimizer, params, gradients, dtype=jnp.float32):
    params = jax.tree.map(lambda p: jnp.asarray(p, dtype), params)
    state = optimizer.init(params)
    update = jax.jit(optimizer.update)
    for grads in gradients:
        updates, state = update(jax.tree.map(lambda g: jnp.asarray(g, dtype), grads), state, params)
        params = optax.apply_updates(params, updates)
    return params


def google(params, gradients, rate_at, decay=0.01, b1=0.9, b2=0.999, eps=1e-6, clip=1.0):
    """The published rule, in numpy float64: clip_by_global_norm, then per variable m, v, update, decay, rate."""
    params = jax.tree.map(np.array, params)
    m, v = jax.tree.map(np.zeros_like, params), jax.tree.map(np.zeros_like, params)
    for step, grads in enumerate(gradients):
        norm = np.sqrt(sum((g**2).sum() for g in jax.tree.leaves(grads)))
        for module, leaves in params.items():
            for name, p in leaves.items():
                g = grads[module][name] * clip / max(norm, clip)
                m[module][name] = b1 * m[module][name] + (1 - b1) * g
                v[module][name] = b2 * v[module][name] + (1 - b2) * g**2
                update = m[module][name] / (np.sqrt(v[module][name]) + eps)
                if module != "LayerNorm" and name != "bias":
                    update = update + decay * p
                leaves[name] = p - rate_at(step) * update
    return params


@pytest.mark.parametrize("scale", [0.01, 1.0], ids=["below the clipping norm", "clipped"])
def test_bert_adamw_is_googles_rule(scale):
    params, gradients = start_and_gradients(scale)
    schedule = optim.bert_schedule(0.01, 5, 50)
    ours = run(optim.bert_adamw(schedule), params, gradients)
    theirs = google(params, gradients, lambda t: 0.01 * t / 5 if t < 5 else 0.01 * (1 - t / 50))
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_with_bias_correction_it_is_torchs_adamw():
    params, gradients = start_and_gradients()
    ours = run(
        optim.bert_adamw(0.01, eps=1e-8, weight_decay=0.1, no_decay=(), max_norm=None, bias_correction=True),
        params,
        gradients,
    )
    theirs = jax.tree.map(lambda p: torch.tensor(p, requires_grad=True), params)
    optimizer = torch.optim.AdamW(jax.tree.leaves(theirs), lr=0.01, eps=1e-8, weight_decay=0.1)
    for grads in gradients:
        for p, g in zip(jax.tree.leaves(theirs), jax.tree.leaves(grads), strict=True):
            p.grad = torch.tensor(g)
        optimizer.step()
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=2e-5, atol=2e-6)


def test_the_first_step_is_longer_without_bias_correction():
    params = {"dense": {"weight": jnp.zeros(1)}}
    make = lambda **kw: optim.bert_adamw(1.0, no_decay=(), weight_decay=0.0, max_norm=None, **kw)
    grads = {"dense": {"weight": jnp.ones(1)}}
    plain, corrected = (
        make(bias_correction=b).update(grads, make().init(params), params)[0]["dense"]["weight"][0]
        for b in (False, True)
    )
    np.testing.assert_allclose(plain / corrected, 0.1 / np.sqrt(0.001), rtol=1e-4)


def test_rates_are_torchs_parameter_groups():
    params, gradients = start_and_gradients()
    rates = {"**": 0.5, "LayerNorm": 0.1, "**.bias": 2.0}  # the last match wins
    options = {"weight_decay": 0.1, "eps": 1e-8}
    ours = run(
        optim.bert_adamw(0.01, no_decay=(), max_norm=None, bias_correction=True, rates=rates, **options),
        params,
        gradients,
    )
    theirs = {m: {k: torch.nn.Parameter(torch.tensor(p)) for k, p in leaves.items()} for m, leaves in params.items()}
    rate = {("dense", "weight"): 0.5, ("dense", "bias"): 2.0, ("LayerNorm", "weight"): 0.1, ("LayerNorm", "bias"): 2.0}
    groups = [{"params": [theirs[m][k]], "lr": 0.01 * factor} for (m, k), factor in rate.items()]
    optimizer = torch.optim.AdamW(groups, **options)
    for grads in gradients:
        for m, leaves in grads.items():
            for k, g in leaves.items():
                theirs[m][k].grad = torch.tensor(g)
        optimizer.step()
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=2e-5, atol=2e-6)


def test_rates_where_another_optimizer_has_the_rest():
    params = {"dense": {"weight": jnp.ones(2), "bias": jnp.ones(2)}, "head": {"weight": jnp.ones(2)}}
    labels = {"dense": {"weight": "bert", "bias": "bert"}, "head": {"weight": "other"}}
    bert = optim.bert_adamw(0.1, no_decay="**.bias", max_norm=None, rates={"dense.bias": 0.0})
    optimizer = optax.multi_transform({"bert": bert, "other": optax.sgd(0.5)}, labels)
    updates, _ = optimizer.update(params, optimizer.init(params), params)
    assert not updates["dense"]["bias"].any() and updates["head"]["weight"].tolist() == [-0.5, -0.5]
    assert updates["dense"]["weight"].all()


def test_a_pattern_that_matches_nothing_is_told_with_the_nearest_names():
    params = {"dense": {"weight": jnp.ones(1)}}
    optimizer = optim.bert_adamw(0.1, no_decay="**.LayerNrm")
    with pytest.raises(ValueError, match=r"bert_adamw: no_decay: pattern '\*\*.LayerNrm' matches nothing. Nearest"):
        optimizer.update(params, optimizer.init(params), params)
    optimizer = optim.bert_adamw(0.1, no_decay=(), rates={"**.weigth": 0.1})
    with pytest.raises(ValueError, match=r"bert_adamw: rates: pattern '\*\*.weigth' matches nothing. Nearest"):
        optimizer.update(params, optimizer.init(params), params)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 0.0])
def test_clipping_with_eps_is_torchs_and_without_tensorflows(scale):
    _, (grads, *_) = start_and_gradients(scale)
    as_float32 = jax.tree.map(lambda g: jnp.asarray(g, jnp.float32), grads)
    ours, _ = optim.clip_by_global_norm(0.5, eps=1e-6).update(as_float32, optax.EmptyState())
    theirs = jax.tree.map(lambda g: torch.nn.Parameter(torch.tensor(g)), grads)
    for p, g in zip(jax.tree.leaves(theirs), jax.tree.leaves(grads), strict=True):
        p.grad = torch.tensor(g)
    torch.nn.utils.clip_grad_norm_(jax.tree.leaves(theirs), 0.5)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b.grad.numpy(), rtol=1e-6)

    tensorflow, _ = optim.clip_by_global_norm(0.5).update(as_float32, optax.EmptyState())
    optaxs, _ = optax.clip_by_global_norm(0.5).update(as_float32, optax.EmptyState())
    for a, b in zip(jax.tree.leaves(tensorflow), jax.tree.leaves(optaxs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_the_norm_of_bfloat16_gradients_is_added_up_in_float32():
    grads = {"weight": jnp.full(100_000, 0.01, jnp.bfloat16)}
    clipped, _ = optim.clip_by_global_norm(1.0).update(grads, optax.EmptyState())
    assert clipped["weight"].dtype == jnp.bfloat16
    np.testing.assert_allclose(np.float32(clipped["weight"][0]), 1 / np.sqrt(100_000), rtol=1e-2)


def test_a_clipping_norm_of_zero_is_refused():
    with pytest.raises(
        ValueError, match=r"optim.clip_by_global_norm: max_norm is out of range; expected a number above 0, got 0.0"
    ):
        optim.clip_by_global_norm(0.0)
