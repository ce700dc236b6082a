"""batch_norm against torch in float64: alone, with masks, and split over devices in every way JAX has."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax.test_util import check_grads

from funcnet import functional as F

from .oracle import agrees, normal

REQUIRED = 5e-6  # of torch in float64, wherever float32 is rounded
C, S, B = 6, 5, 8
COUNTED = (5, 3, 0, 8)  # examples that count on each of four devices
WEIGHT, BIAS = (normal(C, seed=s).astype(np.float32) for s in (1, 2))


def run(x, w=None, b=None, *, lib, training=True, **options):
    channels = x.shape[1]
    if lib is F:
        return F.batch_norm(x, jnp.zeros(channels), jnp.ones(channels), w, b, training, **options)[0]
    return T.batch_norm(x, torch.zeros(channels).double(), torch.ones(channels).double(), w, b, training, **options)


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 5), (2, 3, 4, 5), (2, 3, 2, 2, 2), (0, 3), (1, 3, 2)])
@pytest.mark.parametrize("training", [True, False])
def test_value_and_gradient(shape, training):
    ours, theirs = (functools.partial(run, lib=lib, training=training) for lib in (F, T))
    agrees(ours, theirs, normal(*shape), normal(3), normal(3))
    agrees(ours, theirs, normal(*shape), dtypes=(np.float32,))


@pytest.mark.parametrize("momentum", [0.1, 0.3, 1.0, 0.0])
def test_running_statistics_move_by_momentum_and_unbiased_variance(momentum):
    x, mean, var = normal(4, 3, 2), normal(3), np.abs(normal(3, seed=1))
    want = torch.tensor(mean), torch.tensor(var)
    T.batch_norm(torch.tensor(x), *want, training=True, momentum=momentum)
    with jax.enable_x64(True):
        _, *got = F.batch_norm(jnp.asarray(x), jnp.asarray(mean), jnp.asarray(var), training=True, momentum=momentum)
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_momentum_may_be_traced_and_of_any_dtype():
    x = jnp.asarray(normal(4, 3), jnp.float32)
    step = jax.jit(lambda n: F.batch_norm(x, jnp.zeros(3), jnp.ones(3), training=True, momentum=1 / n)[1:])
    mean, var = step(jnp.array(1.0))
    np.testing.assert_allclose(mean, x.mean(0), rtol=1e-6)
    np.testing.assert_allclose(var, x.var(0, ddof=1), rtol=1e-6)
    np.testing.assert_allclose(step(1)[0], mean)


def test_evaluation_changes_nothing_and_is_differentiable_in_the_statistics():
    x, mean, var = normal(4, 3), normal(3), np.abs(normal(3, seed=1)) + 0.1
    ours = lambda x, m, v: F.batch_norm(x, m, v, eps=1e-3)[0]
    agrees(ours, lambda x, m, v: (x - m) / (v + 1e-3).sqrt(), x, mean, var)
    mean = jnp.asarray(mean)
    assert F.batch_norm(jnp.asarray(x), mean, mean)[1] is mean


def test_a_large_batch_far_from_zero():
    x = normal(512, 2, 512, mean=1e4).astype(np.float32)
    y, mean, _ = F.batch_norm(jnp.asarray(x), jnp.zeros(2), jnp.ones(2), training=True, momentum=1.0)
    want = T.batch_norm(torch.tensor(x).double(), None, None, training=True)
    np.testing.assert_allclose(y, want, atol=REQUIRED)
    np.testing.assert_allclose(mean, x.astype(np.float64).mean((0, 2)), rtol=1e-7)


@pytest.mark.slow
def test_forward_mode_and_second_derivatives():
    x, w, b = (normal(*s) for s in ((3, 2, 2), (2,), (2,)))
    mask = jnp.array([[True, True], [True, False], [True, True]])

    def function(x, w, b):
        y, mean, var = F.batch_norm(x, jnp.zeros(2), jnp.ones(2), w, b, training=True, mask=mask)
        return y, mean, var

    with jax.enable_x64(True):
        check_grads(jax.jit(function), tuple(map(jnp.asarray, (x, w, b))), order=2, modes=("fwd", "rev"))


@pytest.mark.slow
def test_bfloat16_has_float32_statistics():
    x = jnp.asarray(normal(64, 3, mean=5.0), jnp.bfloat16)
    y, mean, var = F.batch_norm(x, jnp.zeros(3), jnp.ones(3), jnp.ones(3), training=True, momentum=1.0)
    assert (y.dtype, mean.dtype, var.dtype) == (jnp.bfloat16, jnp.float32, jnp.float32)
    exact = np.asarray(x, np.float64)
    np.testing.assert_allclose(mean, exact.mean(0), rtol=1e-6)
    np.testing.assert_allclose(var, exact.var(0, ddof=1), rtol=1e-6)
    gradient = jax.grad(lambda x: F.batch_norm(x, None, None, training=True)[0].astype(jnp.float32).max())(x)
    assert gradient.dtype == jnp.bfloat16
    assert F.batch_norm(x, mean, var)[0].dtype == jnp.bfloat16


# ------------------------------------------------------------------------------------------------------- masks


def test_what_is_masked_is_normalised_but_not_counted():
    x, keep = normal(4, 3, 5), np.random.default_rng(0).random((4, 5)) < 0.5
    flat = np.moveaxis(x, 1, 2)[keep]
    y, mean, _ = F.batch_norm(*map(jnp.float32, (x, np.zeros(3), np.ones(3))), training=True, momentum=1.0, mask=keep)
    np.testing.assert_allclose(mean, flat.mean(0), rtol=1e-5)
    want = (x - flat.mean(0)[:, None]) / np.sqrt(flat.var(0)[:, None] + 1e-5)
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


def test_gradient_through_masked_outputs_too():
    keep = torch.tensor([True, True, False, True, False])

    def theirs(x, w, b):
        counted = x[keep]
        return (x - counted.mean(0)) / (counted.var(0, unbiased=False) + 1e-5).sqrt() * w + b

    ours = lambda x, w, b: F.batch_norm(x, None, None, w, b, True, mask=jnp.asarray(keep.numpy()))[0]
    agrees(ours, theirs, normal(5, 3), normal(3), normal(3))


def test_what_is_masked_may_be_nan():
    x = jnp.array([[1.0], [3.0], [jnp.nan]])
    y, mean, _ = F.batch_norm(x, jnp.zeros(1), jnp.ones(1), training=True, mask=jnp.array([True, True, False]))
    assert mean == jnp.float32(0.2) and np.isfinite(y[:2]).all()


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("training", [True, False])
def test_what_is_masked_does_not_reach_the_gradients(hidden, training):
    """As if it were not there, in both modes of differentiation and twice over; its own output stays unusable."""
    x, w, b = (normal(*s) for s in ((5, 2, 3), (2,), (2,)))
    keep = np.random.default_rng(1).random((5, 3)) < 0.6
    where = keep[:, None]

    def loss(x, w, b, mask=keep, power=3):
        y = F.batch_norm(x, jnp.zeros(2), jnp.ones(2), w, b, training, mask=jnp.asarray(mask))[0]
        return (jnp.where(where, y, 0) ** power).sum()

    def theirs(x, w, b):
        mean, var = (torch.zeros(2), torch.ones(2)) if not training else (None, None)
        y = T.batch_norm(x, *(v if v is None else v.double() for v in (mean, var)), w, b, training)
        return (y**3).sum()

    with jax.enable_x64(True):
        inputs = tuple(map(jnp.asarray, (np.where(where, x, hidden), w, b)))
        grads = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(*inputs)
        clean = (jnp.asarray(np.where(where, x, 7.0)), *inputs[1:])
        hessian, expected = (jax.hessian(loss, argnums=(1, 2))(*a) for a in (inputs, clean))
        tangents = tuple(map(jnp.ones_like, inputs))
        forward, forward_expected = (jax.jvp(loss, a, tangents)[1] for a in (inputs, clean))
        y = F.batch_norm(inputs[0], jnp.zeros(2), jnp.ones(2), training=training, mask=jnp.asarray(keep))[0]
    leaves = [torch.tensor(a, requires_grad=True) for a in (np.moveaxis(x, 1, 2)[keep], w, b)]
    theirs(*leaves).backward()
    np.testing.assert_allclose(np.moveaxis(np.asarray(grads[0]), 1, 2)[keep], leaves[0].grad, rtol=1e-9, atol=1e-9)
    assert not np.asarray(grads[0])[~np.broadcast_to(where, x.shape)].any()
    for got, leaf in zip(grads[1:], leaves[1:], strict=True):
        np.testing.assert_allclose(got, leaf.grad, rtol=1e-9)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), hessian, expected)
    np.testing.assert_allclose(forward, forward_expected, rtol=1e-9)
    np.testing.assert_array_equal(np.isfinite(y), np.broadcast_to(where, x.shape))


@pytest.mark.parametrize("momentum", [0.3, np.inf])
def test_a_batch_with_nothing_counted_leaves_the_running_statistics_and_uses_them(momentum):
    x, mean, var = (jnp.asarray(a, jnp.float32) for a in (normal(4, 3), normal(3), np.abs(normal(3)) + 1))
    call = lambda x: F.batch_norm(x, mean, var, training=True, momentum=momentum, mask=jnp.zeros(4, bool))
    y, *kept = call(x)
    np.testing.assert_array_equal(kept, [mean, var])
    np.testing.assert_allclose(y, F.batch_norm(x, mean, var)[0], rtol=1e-6)
    want = jax.grad(lambda x: (F.batch_norm(x, mean, var)[0] ** 2).sum())(x)
    np.testing.assert_allclose(jax.grad(lambda x: (call(x)[0] ** 2).sum())(x), want, rtol=1e-5)
    empty = F.batch_norm(x[:0], mean, var, training=True)
    np.testing.assert_array_equal(empty[1:], [mean, var])


# ----------------------------------------------------------------------------------------------- across devices


def case(mean):
    """x (4, B, C, S), COUNTED as a mask, and cotangents that are 0 where nothing counts."""
    x = (normal(4, B, C, S) * np.linspace(0.5, 2, C)[:, None] + mean).astype(np.float32)
    mask = np.stack([np.arange(B) < count for count in COUNTED])
    cotangent = np.where(mask[..., None, None], normal(4, B, C, S, seed=5), 0).astype(np.float32)
    return x, mask, cotangent


def oracle(x, mask, cotangent, momentum):
    leaves = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x[mask], WEIGHT, BIAS)]
    running = torch.full((C,), 0.5, dtype=torch.float64), torch.full((C,), 2.0, dtype=torch.float64)
    y = T.batch_norm(leaves[0], *running, *leaves[1:], training=True, momentum=momentum)
    (y * torch.tensor(cotangent[mask], dtype=torch.float64)).sum().backward()
    return [t.detach().numpy() for t in (y, leaves[0].grad, leaves[1].grad, leaves[2].grad, *running)]


def step(w, b, x, mask, cotangent, momentum=0.3, axis_name="data", groups=None):
    """The gradients of this device's loss, and what came of it."""

    def loss(w, b, x):
        running = jnp.full(C, 0.5), jnp.full(C, 2.0)
        y, mean, var = F.batch_norm(
            x, *running, w, b, True, momentum, mask=mask[:, None], axis_name=axis_name, axis_index_groups=groups
        )
        return (y * cotangent).sum(), (y, mean, var)

    (dw, db, dx), (y, mean, var) = jax.grad(loss, argnums=(0, 1, 2), has_aux=True)(w, b, x)
    return y, dx, dw, db, mean, var


def mesh():
    return Mesh(np.array(jax.devices()[:4]), ("data",))


def flat(a):
    return a.reshape(-1, *a.shape[2:])


def by_vmap(x, mask, cotangent, momentum):
    run = jax.jit(jax.vmap(functools.partial(step, momentum=momentum), (None, None, 0, 0, 0), axis_name="data"))
    y, dx, dw, db, mean, var = run(WEIGHT, BIAS, x, mask, cotangent)
    return y, dx, dw.sum(0), db.sum(0), mean[2], var[2]


def by_pmap(x, mask, cotangent, momentum):
    run = jax.pmap(
        functools.partial(step, momentum=momentum), "data", in_axes=(None, None, 0, 0, 0), devices=jax.devices()[:4]
    )
    y, dx, dw, db, mean, var = run(WEIGHT, BIAS, x, mask, cotangent)
    return y, dx, dw.sum(0), db.sum(0), mean[2], var[2]


def sharded(check_vma, momentum=0.3):
    def body(*arguments):
        y, dx, dw, db, mean, var = step(*arguments, momentum=momentum)
        if not check_vma:  # what varies is not tracked, so the gradients of replicated parameters are this shard's
            dw, db = lax.psum((dw, db), "data")
        return y, dx, dw, db, mean, var

    data, whole = P("data"), P()
    specs = {"in_specs": (whole, whole, data, data, data), "out_specs": (data, data, whole, whole, whole, whole)}
    return jax.jit(jax.shard_map(body, mesh=mesh(), check_vma=check_vma, **specs))


def by_shard_map(check_vma, x, mask, cotangent, momentum):
    return sharded(check_vma, momentum)(WEIGHT, BIAS, *map(flat, (x, mask, cotangent)))


def by_jit(x, mask, cotangent, momentum):
    split = [jax.device_put(flat(a), NamedSharding(mesh(), P("data"))) for a in (x, mask, cotangent)]
    return jax.jit(functools.partial(step, momentum=momentum))(WEIGHT, BIAS, *split)


WAYS = {
    "vmap": by_vmap,
    "pmap": by_pmap,
    "shard_map": functools.partial(by_shard_map, True),
    "shard_map_unchecked": functools.partial(by_shard_map, False),
    "jit": by_jit,
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("momentum", [0.3, 1 / 3])  # momentum=None is 1 / (batches so far)
@pytest.mark.parametrize("mean", [0.0, 1e4])
@pytest.mark.parametrize("way", WAYS)
def test_four_devices_are_one_batch(way, mean, momentum):
    x, mask, cotangent = case(mean)
    got = WAYS[way](x, mask, cotangent, np.float32(momentum))
    want = oracle(x, mask, cotangent, momentum)
    y, dx = (np.asarray(a).reshape(x.shape)[mask] for a in got[:2])
    names = ("y", "input gradient", "weight gradient", "bias gradient", "running mean", "running var")
    for name, ours, theirs in zip(names, (y, dx, *got[2:]), want, strict=True):
        error = np.max(np.abs(np.asarray(ours, np.float64) - theirs) / np.maximum(1, np.abs(theirs)))
        assert error < REQUIRED, f"{name}: {error:.1e}"


def collectives(compiled):
    return re.findall(r" (all-reduce|all-gather|reduce-scatter|collective-permute|all-to-all)(?:-start)?\(", compiled)


@pytest.mark.parametrize("check_vma", [True, False])
def test_one_exchange_forward_and_one_backward(check_vma):
    x, mask, cotangent = map(flat, case(0.0))
    data = P("data")
    shard = functools.partial(jax.shard_map, mesh=mesh(), in_specs=data, check_vma=check_vma)
    norm = lambda x, mask: F.batch_norm(x, None, None, training=True, mask=mask[:, None], axis_name="data")[0]
    forward = jax.jit(shard(norm, out_specs=data)).lower(x, mask).compile().as_text()
    assert collectives(forward) == ["all-reduce"]
    pull = lambda x, mask, g: jax.vjp(lambda x: norm(x, mask), x)[1](g)[0]
    both = jax.jit(shard(pull, out_specs=data)).lower(x, mask, cotangent).compile().as_text()
    assert collectives(both) == ["all-reduce"] * 2


def test_the_gradients_of_replicated_parameters_share_the_exchange():
    x, mask, cotangent = map(flat, case(0.0))
    text = sharded(check_vma=True).lower(WEIGHT, BIAS, x, mask, cotangent).compile().as_text()
    assert collectives(text) == ["all-reduce"] * 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("way", ["pmap", "shard_map", "shard_map_unchecked"])
def test_groups_of_devices(way):
    x, mask, cotangent = case(1e4)
    run = functools.partial(step, groups=[[0, 3], [1, 2]])
    if way == "pmap":
        got = jax.pmap(run, "data", in_axes=(None, None, 0, 0, 0), devices=jax.devices()[:4])(
            WEIGHT, BIAS, x, mask, cotangent
        )
    else:
        check_vma = way == "shard_map"

        def body(w, b, *arrays):
            out = run(
                *(lax.pcast(a, "data", to="varying") if check_vma else a for a in (w, b)), *(a[0] for a in arrays)
            )
            return jax.tree.map(lambda a: a[None], out)

        specs = {"in_specs": (P(), P(), P("data"), P("data"), P("data")), "out_specs": P("data")}
        mapped = jax.jit(jax.shard_map(body, mesh=mesh(), check_vma=check_vma, **specs))
        assert len(collectives(mapped.lower(WEIGHT, BIAS, x, mask, cotangent).compile().as_text())) == 2
        got = mapped(WEIGHT, BIAS, x, mask, cotangent)
    for group in ([0, 3], [1, 2]):
        want = oracle(x[group], mask[group], cotangent[group], 0.3)
        y, dx, dw, db, mean, var = (np.asarray(a, np.float64)[group] for a in got)
        ours = y[mask[group]], dx[mask[group]], dw.sum(0), db.sum(0), mean[0], var[0]
        for a, b in zip(ours, want, strict=True):
            assert np.max(np.abs(a - b) / np.maximum(1, np.abs(b))) < REQUIRED


@pytest.mark.slow
def test_two_axes_and_names_that_are_not_bound():
    x = jnp.asarray(normal(2, 3, 4, C), jnp.float32)
    norm = lambda x, names: F.batch_norm(x, jnp.zeros(C), jnp.ones(C), training=True, axis_name=names)

    def split(names):
        return jax.jit(jax.vmap(jax.vmap(lambda x: norm(x, names), axis_name="b"), axis_name="a"))(x)

    y, mean, var = split(("a", "b"))
    want = norm(x.reshape(-1, C), None)
    for ours, theirs in zip((y.reshape(-1, C), mean[1, 2], var[1, 2]), want, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(split("elsewhere")[0], split(None)[0])
    np.testing.assert_allclose(norm(x[0, 0], ("a", "b"))[0], split(None)[0][0, 0], rtol=1e-5, atol=1e-6)


def test_forward_mode_across_devices():
    x, t = jnp.asarray(normal(4, 3, C)), jnp.asarray(normal(4, 3, C, seed=1))
    norm = lambda x, name=None: F.batch_norm(x, None, None, training=True, axis_name=name)[0]
    tangent = lambda x, t, name=None: jax.jvp(functools.partial(norm, name=name), (x,), (t,))[1]
    split = jax.jit(jax.vmap(functools.partial(tangent, name="data"), axis_name="data"))(x, t)
    whole = tangent(x.reshape(-1, C), t.reshape(-1, C))
    np.testing.assert_allclose(split.reshape(-1, C), whole, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_one_value_per_channel_is_enough_across_devices():
    x = jnp.asarray(normal(4, 1, C), jnp.float32)
    y = jax.vmap(lambda x: F.batch_norm(x, None, None, training=True, axis_name="data")[0], axis_name="data")(x)
    np.testing.assert_allclose(y[:, 0], F.batch_norm(x[:, 0], None, None, training=True)[0], rtol=1e-5, atol=1e-6)


# ----------------------------------------------------------------------------------------------------- refusals

X, V = jnp.zeros((4, 3, 2)), jnp.zeros(3)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        ((X[:1, :, :1], V, V), {"training": True}, ValueError, r"expected more than 1 value per channel in training"),
        ((X[:1, :0, :1], V[:0], V[:0]), {"training": True}, ValueError, r"expected more than 1 value per channel"),
        (
            (X, V, V),
            {"training": True, "eps": 0.0},
            ValueError,
            r"eps is too small to keep the variance above 0; .* got 0.0",
        ),
        (
            (X, V, V),
            {"eps": -1.0},
            ValueError,
            r"expected a positive number in training, or at least 0 outside training, got -1.0",
        ),
        ((X[:, 0, 0], V, V), {}, ValueError, r"input has too few dimensions; expected \(batch, channel, \*spatial\)"),
        ((X, V[:2], V), {}, ValueError, r"running_mean has the wrong shape; expected \(3,\), got \(2,\)"),
        ((X, V, V, V[:2]), {}, ValueError, r"weight has the wrong shape; expected \(3,\), got \(2,\)"),
        (
            (X, None, None),
            {},
            ValueError,
            r"the running statistics are missing; expected running_mean and running_var outside",
        ),
        ((X, V, None), {}, ValueError, r"one of the running statistics is missing; .* got only running_mean"),
        ((X.astype(int), V, V), {}, TypeError, r"F.batch_norm: input must hold floating-point numbers"),
        ((X, V, V), {"training": True, "mask": V > 0}, ValueError, r"mask does not broadcast; expected .* = \(4, 2\)"),
        ((X, V, V), {"training": True, "mask": V[:1]}, TypeError, r"mask has the wrong dtype; expected bool"),
    ],
)
def test_refusals(arguments, options, error, text):
    with pytest.raises(error, match=text):
        F.batch_norm(*arguments, **options)


def test_what_torch_lets_pass():
    np.testing.assert_array_equal(F.batch_norm(X, V + 1, V + 1, eps=0.0)[0], X - 1)
    none = jnp.zeros(0)
    assert F.batch_norm(none, none, none, training=True)[0].shape == (0,)
    assert F.batch_norm(jnp.zeros((4, 0)), none, none, training=True)[0].shape == (4, 0)
