"""LSTM and GRU layers by kernels, beside torch in float64 and beside XLA's loops."""

import re
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import functional as F
from funcnet.functional.recurrence_kernel import has_kernel, steps
from funcnet.operators import native

MESH = jax.make_mesh((8,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
GATES = {"lstm": 4, "gru": 3}
SIZES = [(5, 1, 3, 19), (4, 7, 8, 16), (3, 13, 2, 33)]  # time, batch, input, hidden


@pytest.fixture(autouse=True)
def _kernels() -> Iterator[None]:
    with native.allowed(True):
        yield


def arrays_of(name, time, batch, width, hidden):
    """The input, the first states, and the parameters of a layer."""
    draw = np.random.default_rng(0)
    wide = GATES[name] * hidden
    states = [(1, batch, hidden)] * (2 if name == "lstm" else 1)
    shapes = [(time, batch, width), *states, (wide, width), (wide, hidden), (wide,), (wide,)]
    return [draw.normal(size=shape).astype(np.float32) * 0.5 for shape in shapes]


def layer(library, name, x, *rest, bidirectional=False):
    """All results of a layer, as one tuple."""
    count = 2 if name == "lstm" else 1
    state, params = list(rest[:count]), list(rest[count:])
    found = getattr(library, name)(
        x, state if count == 2 else state[0], params, True, 1, 0.0, False, bidirectional, False
    )
    return tuple(found)


def close(found, expected, tolerance=2e-6):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, float(np.abs(b).max())))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", GATES)
def test_values_and_gradients_are_those_of_torch(name, sizes):
    arrays = arrays_of(name, *sizes)
    given = [torch.tensor(one, dtype=torch.float64, requires_grad=True) for one in arrays]
    results = layer(torch, name, *given)
    gradients = [np.random.default_rng(i).normal(size=one.shape).astype(np.float32) for i, one in enumerate(results)]
    slopes = torch.autograd.grad(results, given, [torch.tensor(one, dtype=torch.float64) for one in gradients])

    @jax.jit
    def run(*given):
        results, back = jax.vjp(lambda *given: layer(F, name, *given), *given)
        return *results, *back(tuple(gradients))

    text = run.lower(*arrays).as_text()
    assert f"@funcnet_{name}_kept" in text and f"@funcnet_{name}_backward" in text
    close(run(*arrays), [one.detach().numpy() for one in (*results, *slopes)])
    plain = jax.jit(lambda *given: layer(F, name, *given))
    assert re.search(rf"@funcnet_{name}\b", plain.lower(*arrays).as_text())
    close(plain(*arrays), [one.detach().numpy() for one in results])


@pytest.mark.parametrize("name", GATES)
def test_the_last_step_first(name):
    draw = np.random.default_rng(0)
    wide, states = GATES[name] * 5, 2 if name == "lstm" else 1
    gates, weight = draw.normal(size=(2, 4, wide)).astype("float32"), draw.normal(size=(wide, 5)).astype("float32")
    state = (jnp.ones((2, 5)),) * states

    def run(gates, weight, reverse):
        h, last = steps(name.upper(), reverse, gates, state, (weight, None))
        return h, *last

    forward = run(gates[:, ::-1], weight, False)
    close(run(gates, weight, True), [forward[0][:, ::-1], *forward[1:]], 0)
    slope = lambda *settings: jax.grad(lambda *given: sum((one**2).sum() for one in run(*given, *settings)), (0, 1))
    found, expected = slope(True)(gates, weight), slope(False)(gates[:, ::-1], weight)
    close(found, [expected[0][:, ::-1], expected[1]])


@pytest.mark.slow
@pytest.mark.parametrize("name", GATES)
def test_second_derivatives_forward_mode_and_vmap(name):
    arrays = arrays_of(name, 3, 2, 2, 5)
    direction = [np.cos(np.arange(one.size, dtype=np.float32)).reshape(one.shape) for one in arrays]
    both = tuple(range(len(arrays)))
    f = lambda *given: sum(jnp.sin(one).sum() for one in layer(F, name, *given))
    slope = lambda *given: sum(jnp.cos(one).sum() for one in jax.grad(f, both)(*given))

    def all_of(*given):
        mapped = jax.vmap(jax.grad(f), (0, *[None] * (len(given) - 1)))(
            jnp.stack([given[0], given[0] ** 2]), *given[1:]
        )
        return *jax.grad(slope, both)(*given), jax.jvp(f, given, tuple(direction))[1], mapped

    with native.allowed(False):
        expected = jax.jit(all_of)(*arrays)
    close(jax.jit(all_of)(*arrays), expected, 1e-5)


@pytest.mark.parametrize("name", GATES)
def test_devices_share_the_sequences(name):
    arrays = arrays_of(name, 6, 16, 4, 8)
    placed = [
        jax.device_put(one, jax.NamedSharding(MESH, jax.P(None, "rows") if one.ndim == 3 else jax.P()))
        for one in arrays
    ]
    run = jax.jit(lambda *given: layer(F, name, *given))
    text = run.lower(*placed).compile().as_text()
    assert f"funcnet_{name}" in text and not re.search("all-gather|all-to-all|all-reduce|collective-permute", text)
    close(run(*placed), run(*arrays), 0)  # each sequence is computed alone, so the bits are the same
    slope = jax.jit(jax.grad(lambda *given: sum((one**2).sum() for one in layer(F, name, *given)), (0, 3, 4)))
    assert "all-gather" not in slope.lower(*placed).compile().as_text()
    close(slope(*placed), slope(*arrays), 1e-5)


def test_what_has_no_kernel():
    x, params = jnp.ones((3, 2, 4)), [jnp.ones((8, 4)), jnp.ones((8, 2))]
    assert has_kernel("LSTM", x, params, None)
    assert not has_kernel("RNN_TANH", x, params, None)
    assert not has_kernel("LSTM", x, [*params, jnp.ones((1, 2))], None)  # a projection
    assert not has_kernel("LSTM", x, params, jnp.ones((3, 2, 1), bool))
    assert not has_kernel("LSTM", x.astype("bfloat16"), params, None)
    with native.allowed(False):
        assert not has_kernel("LSTM", x, params, None)


def test_gates_that_saturate_and_nan():
    gates = np.zeros((3, 1, 12), np.float32)
    gates[0], gates[1] = 200, -200
    gates[2, 0, 4] = np.nan
    run = lambda: steps("LSTM", False, gates, (jnp.ones((3, 3)), jnp.ones((3, 3))), (jnp.zeros((12, 3)), None))[0]
    expected = [np.full((1, 3), np.tanh(2.0)), np.zeros((1, 3))]
    close(run()[:2], expected)
    assert np.isnan(run()[2]).ravel().tolist() == [False, True, False]


@pytest.mark.parametrize("name", GATES)
def test_shard_map(name):
    arrays = arrays_of(name, 6, 16, 4, 8)
    loss = lambda *given: sum((one**2).sum() for one in layer(F, name, *given))
    specs = tuple(jax.P(None, "rows") if one.ndim == 3 else jax.P() for one in arrays)
    total = lambda *given: jax.lax.psum(loss(*given), "rows")
    sharded = jax.shard_map(total, mesh=MESH, in_specs=specs, out_specs=jax.P())
    every = tuple(range(len(arrays)))
    close(jax.jit(jax.grad(sharded, every))(*arrays), jax.jit(jax.grad(loss, every))(*arrays), 1e-5)
