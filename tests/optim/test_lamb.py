"""LAMB against apex's kernels written out in float64 numpy, against optax's where both agree, by layer in a stack."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from funcnet import optim
from tests.optim.test_adamw import run, start_and_gradients


def apex(params, gradients, rate_at, *, use_nvlamb=False, decay=0.01, b1=0.9, b2=0.999, eps=1e-6, clip=1.0):
    """csrc/multi_tensor_lamb.cu: stage 1 makes the update, stage 2 multiplies it by the ratio of the two norms."""
    params = jax.tree.map(np.array, params)
    m, v = jax.tree.map(np.zeros_like, params), jax.tree.map(np.zeros_like, params)
    for step, grads in enumerate(gradients):
        norm = np.sqrt(sum((g**2).sum() for g in jax.tree.leaves(grads)))
        divisor = norm / clip if norm > clip else 1.0
        for module, leaves in params.items():
            for name, p in leaves.items():
                g = grads[module][name] / divisor
                m[module][name] = b1 * m[module][name] + (1 - b1) * g
                v[module][name] = b2 * v[module][name] + (1 - b2) * g * g
                corrected = v[module][name] / (1 - b2 ** (step + 1))
                update = m[module][name] / (1 - b1 ** (step + 1)) / (np.sqrt(corrected) + eps)
                own_decay = 0.0 if module == "LayerNorm" or name == "bias" else decay
                update = update + own_decay * p
                ratio = 1.0
                if use_nvlamb or own_decay != 0:
                    lengths = np.linalg.norm(p), np.linalg.norm(update)
                    ratio = lengths[0] / lengths[1] if lengths[0] != 0 and lengths[1] != 0 else 1.0
                leaves[name] = p - rate_at(step) * ratio * update
    return params


@pytest.mark.parametrize("scale", [0.01, 1.0], ids=["below the clipping norm", "clipped"])
@pytest.mark.parametrize("use_nvlamb", [False, True])
@pytest.mark.parametrize("decay", [0.01, 0.0])
def test_lamb_is_apexs_fused_lamb(scale, use_nvlamb, decay):
    params, gradients = start_and_gradients(scale)
    schedule = optim.lamb_schedule(0.01, 5, 50)
    ours = run(optim.lamb(schedule, weight_decay=decay, use_nvlamb=use_nvlamb), params, gradients)
    rate_at = lambda t: 0.01 * (t + 1) / 5 if t + 1 < 5 else 0.01 * (1 - (t + 1) / 50) ** 0.5
    theirs = apex(params, gradients, rate_at, use_nvlamb=use_nvlamb, decay=decay)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_without_clipping_and_exemptions_it_is_optaxs():
    params, gradients = start_and_gradients()
    ours = run(optim.lamb(0.01, max_norm=None, no_decay=(), use_nvlamb=True), params, gradients)
    with jax.numpy_dtype_promotion("standard"):  # optax divides floats by its count
        theirs = run(optax.lamb(0.01, weight_decay=0.01), params, gradients)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_a_step_is_as_long_as_the_rate_times_the_weight_whatever_the_gradients_scale():
    """What LAMB promises: ‖step‖ = rate · ‖p‖ for every tensor with decay."""
    params, gradients = start_and_gradients()
    optimizer = optim.lamb(0.01, max_norm=None)
    params = jax.tree.map(lambda p: jnp.asarray(p, jnp.float32), params)
    for scale in (1e-3, 1e3):
        grads = jax.tree.map(lambda g, s=scale: jnp.asarray(s * g, jnp.float32), gradients[0])
        updates, _ = optimizer.update(grads, optimizer.init(params), params)
        moved, length = (jnp.linalg.norm(t["dense"]["weight"]) for t in (updates, params))
        np.testing.assert_allclose(moved, 0.01 * length, rtol=1e-5)


def test_a_tensor_of_zeros_moves_and_a_still_one_stays():
    params = {"a": {"weight": jnp.zeros(3)}, "b": {"weight": jnp.ones(3)}}
    grads = {"a": {"weight": jnp.ones(3)}, "b": {"weight": jnp.zeros(3)}}
    optimizer = optim.lamb(0.1, weight_decay=0.0, no_decay=(), use_nvlamb=True, max_norm=None)
    updates, _ = optimizer.update(grads, optimizer.init(params), params)
    np.testing.assert_allclose(updates["a"]["weight"], -0.1, rtol=1e-5)
    np.testing.assert_array_equal(updates["b"]["weight"], 0)


def test_a_stack_trains_as_its_layers_do():
    """The same numbers under `*`, stacked, and under 0 and 1, apart."""
    rng = np.random.default_rng(1)
    names = {"LayerNorm": {"weight": (3,)}, "dense": {"weight": (3, 4), "bias": (3,)}}
    draw = lambda: jax.tree.map(lambda s: rng.normal(size=s), names, is_leaf=lambda s: isinstance(s, tuple))
    layers = [draw(), jax.tree.map(lambda x: 10 * x, draw())]
    gradients = [[draw(), draw()] for _ in range(5)]
    stack = lambda parts: jax.tree.map(lambda *xs: np.stack(xs), *parts)
    apart = lambda parts: {"layer": {str(i): part for i, part in enumerate(parts)}}
    one = run(optim.lamb(0.01), apart(layers), [apart(g) for g in gradients])
    other = run(optim.lamb(0.01), {"layer": {"*": stack(layers)}}, [{"layer": {"*": stack(g)}} for g in gradients])
    expected = stack([one["layer"]["0"], one["layer"]["1"]])
    for a, b in zip(jax.tree.leaves(other["layer"]["*"]), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("decay", [0.01, 0.0])
@pytest.mark.parametrize(
    ("factory", "options"),
    [
        (optim.lamb, {}),
        (optim.lamb, {"use_nvlamb": True}),
        (optim.bert_adamw, {}),
        (optim.bert_adamw, {"bias_correction": True, "b1": 0.0}),
    ],
)
def test_hyperparameters_may_be_part_of_the_state(factory, options, decay):
    """`optax.inject_hyperparams` turns every number into a traced array."""
    params, gradients = start_and_gradients()
    plain = run(factory(0.01, weight_decay=decay, **options), params, gradients)
    injected = run(optax.inject_hyperparams(factory)(0.01, weight_decay=decay, **options), params, gradients)
    for a, b in zip(jax.tree.leaves(injected), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6)  # 1 - b2 in float32


def test_a_pattern_that_matches_nothing():
    params, gradients = start_and_gradients()
    with pytest.raises(ValueError, match=r"optim.lamb: no_decay: pattern '\*\*.gamma' matches nothing"):
        run(optim.lamb(0.01, no_decay="**.gamma"), params, gradients)


def test_lengths_of_layers_alone_name_themselves():
    params = {"weight": jnp.ones(2)}
    scale = optim.scale_by_layer_norms("gamma")
    with pytest.raises(ValueError, match=r"optim.scale_by_layer_norms: exempt: pattern 'gamma' matches nothing"):
        scale.update(params, scale.init(params), params)
    with pytest.raises(
        ValueError, match=r"optim.scale_by_layer_norms: params are missing; expected the trained params, got N"
    ):
        scale.update(params, scale.init(params))


@pytest.mark.parametrize(("warmup", "total"), [(10, 100), (0, 10), (1, 7), (5, 5), (2000, 7038)])
def test_the_schedule_is_nvidias(warmup, total):
    ours = jax.jit(optim.lamb_schedule(6e-3, warmup, total))
    for t in [*range(12), total - 2, total - 1]:
        if t >= total:
            continue
        progress = (t + 1) / total  # PolyWarmUpScheduler: last_epoch is the optimizer's count plus one
        rising = progress < warmup / total
        rate = 6e-3 * progress / (warmup / total) if rising else 6e-3 * (1 - progress) ** 0.5
        np.testing.assert_allclose(ours(t), rate, rtol=1e-5, atol=1e-12, err_msg=f"step {t}")


def test_a_schedule_that_cannot_be():
    with pytest.raises(
        ValueError, match=r"optim.lamb_schedule: the numbers of steps are out of range; expected 0 <= warmup_steps"
    ):
        optim.lamb_schedule(1.0, 11, 10)
