"""Every primitive against JAX on the same arrays. All cases go into one module, because each has to be compiled."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from funcnet.export.check import compare
from funcnet.export.wasm.module import to_wasm

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(3, 5, 4)).astype(np.float32)
Y = RANDOM.normal(size=(3, 5, 4)).astype(np.float32)
INTEGERS = RANDOM.integers(-20, 20, (4, 6)).astype(np.int32)
J = np.array([3, -2, 0, 7, -1, 5], np.int32)
U = RANDOM.integers(0, 2**32, (4, 6), dtype=np.uint64).astype(np.uint32)
B = RANDOM.integers(-128, 128, (4, 6)).astype(np.int8)
M = RANDOM.random((4, 6)) < 0.5
ROWS = np.array([2, 0, 9, -1], np.int32)
HALVES = np.array([0.5, 1.5, 2.5, 0.49999997, 8388609, -0.5, -1.5, -2.5, -0.49999997, -8388609], np.float32)

Case = Callable[..., jax.Array]
EXACT: dict[str, Case] = {
    "max min of NaN": lambda x, y, i, u, b, m, r: jnp.maximum(jnp.where(x > 1, jnp.nan, x), y) + jnp.minimum(x, y),
    "compare": lambda x, y, i, u, b, m, r: jnp.stack([x < y, x <= y, x > y, x >= y, x == y, x != y]),
    "sign abs neg": lambda x, y, i, u, b, m, r: jnp.sign(jnp.round(x)) * jnp.abs(y) - x,
    "floor ceil round": lambda x, y, i, u, b, m, r: jnp.floor(x) + 2 * jnp.ceil(y) + 4 * jnp.round(x * 2) / 2,
    "round away": lambda x, y, i, u, b, m, r: lax.round(x * 4, lax.RoundingMethod.AWAY_FROM_ZERO),
    "halves to even": lambda x, y, i, u, b, m, r: jnp.round(HALVES + 0 * x[0, 0, 0]),
    "halves away": lambda x, y, i, u, b, m, r: lax.round(HALVES + 0 * x[0, 0, 0], lax.RoundingMethod.AWAY_FROM_ZERO),
    "clamp": lambda x, y, i, u, b, m, r: jnp.clip(x, -0.5, y),
    "is_finite": lambda x, y, i, u, b, m, r: jnp.isfinite(x / jnp.floor(jnp.abs(y))),
    "int arithmetic": lambda x, y, i, u, b, m, r: lax.div(i, J[None] + 0 * i) * 7 - lax.rem(i, J[None] + 0 * i),
    "int floor division": lambda x, y, i, u, b, m, r: i // 3 + i % 7,
    "int overflow": lambda x, y, i, u, b, m, r: i * 2_000_000_000 + (-(2**31) + i * 0),
    "uint": lambda x, y, i, u, b, m, r: lax.div(u, u // 7 + 1) + lax.rem(u, jnp.uint32(1000)) * u,
    "int8": lambda x, y, i, u, b, m, r: b * b + jnp.int8(3) - lax.neg(b),
    "int8 max": lambda x, y, i, u, b, m, r: jnp.maximum(b, jnp.int8(4)).sum(0, dtype=jnp.int32),
    "shifts": lambda x, y, i, u, b, m, r: (i << 3) ^ lax.shift_right_arithmetic(i, 2 + 0 * i),
    "shifts too far": lambda x, y, i, u, b, m, r: lax.shift_left(i, 40 + 0 * i) + lax.shift_right_arithmetic(i, i),
    "logical shift": lambda x, y, i, u, b, m, r: lax.shift_right_logical(i, jnp.abs(i)),
    "shift of bytes": lambda x, y, i, u, b, m, r: lax.shift_right_logical(b, jnp.int8(3) + 0 * b),
    "bits": lambda x, y, i, u, b, m, r: lax.clz(i) + 100 * lax.population_count(i) + (~i & 255),
    "bits of bytes": lambda x, y, i, u, b, m, r: lax.clz(b) + lax.population_count(b),
    "bool": lambda x, y, i, u, b, m, r: (m & (i > 3)) | (~m ^ (i < 0)),
    "convert to int": lambda x, y, i, u, b, m, r: (x * 3e9).astype(jnp.int32) + (y * 9).astype(jnp.int32),
    "convert to bool": lambda x, y, i, u, b, m, r: i.astype(bool) != m,
    "convert to int8": lambda x, y, i, u, b, m, r: i.astype(jnp.int8) + m.astype(jnp.int8) + u.astype(jnp.int8),
    "convert to float": lambda x, y, i, u, b, m, r: i.astype(jnp.float32) * u.astype(jnp.float32),
    "bitcast": lambda x, y, i, u, b, m, r: lax.bitcast_convert_type(
        lax.bitcast_convert_type(x, jnp.int32) & -8, jnp.float32
    ),
    "transpose reshape": lambda x, y, i, u, b, m, r: x.transpose(2, 0, 1).reshape(6, 10)[::-2, 1::3].T,
    "reshape uneven": lambda x, y, i, u, b, m, r: (x.reshape(4, 15) * 2).T.reshape(10, 6),
    "tile repeat": lambda x, y, i, u, b, m, r: jnp.tile(x, (2, 1, 3)) + jnp.repeat(jnp.repeat(y, 2, 0), 3, 2),
    "roll": lambda x, y, i, u, b, m, r: jnp.roll(x, (1, -2), (0, 1)),
    "concatenate": lambda x, y, i, u, b, m, r: jnp.concatenate([x, y[:, 1:2], jnp.ones((3, 2, 4))], 1),
    "stack": lambda x, y, i, u, b, m, r: jnp.stack([x, y, x], 2),
    "split": lambda x, y, i, u, b, m, r: jnp.multiply(*jnp.split(x, 2, 2)),
    "pad": lambda x, y, i, u, b, m, r: lax.pad(x, jnp.float32(2), [(1, 2, 0), (-2, 1, 2), (-1, -1, 0)]),
    "pad away": lambda x, y, i, u, b, m, r: lax.pad(x, jnp.float32(2), [(0, 0, 0), (-5, 7, 0), (0, 0, 1)]),
    "iota": lambda x, y, i, u, b, m, r: lax.broadcasted_iota(jnp.int32, (4, 6), 1) * i + jnp.arange(4)[:, None],
    "tril": lambda x, y, i, u, b, m, r: jnp.tril(x[0, :4] @ jnp.eye(4, dtype=jnp.float32)),
    "take": lambda x, y, i, u, b, m, r: x[r],
    "take clipped": lambda x, y, i, u, b, m, r: jnp.take(x, r, 1, mode="clip"),
    "take along": lambda x, y, i, u, b, m, r: jnp.take_along_axis(x, jnp.argsort(y, 1), 1),
    "gather windows": lambda x, y, i, u, b, m, r: jax.vmap(lambda s: lax.dynamic_slice(i, (s, s), (2, 3)))(r),
    "one hot": lambda x, y, i, u, b, m, r: jax.nn.one_hot(r, 4),
    "dynamic_slice": lambda x, y, i, u, b, m, r: lax.dynamic_slice(x, (r[0], r[2], r[3]), (2, 3, 2)),
    "dynamic_update_slice": lambda x, y, i, u, b, m, r: lax.dynamic_update_slice(x, y[:2, :2] * 2, (r[1], r[0], r[2])),
    "scatter": lambda x, y, i, u, b, m, r: x.at[jnp.array([2, 0])].set(y[:2]).at[:, 1].set(3.0),
    "scatter out of bounds": lambda x, y, i, u, b, m, r: jnp.zeros((5, 2)).at[r].add(1.0, mode="drop"),
    "scatter max": lambda x, y, i, u, b, m, r: jnp.zeros(5).at[jnp.abs(i[:, 0]) % 5].max(x[0, :4, 0]),
    "reductions": lambda x, y, i, u, b, m, r: jnp.stack(
        [x.max((0, 2)), x.min((0, 2)), jnp.maximum(x.max((1, 0, 2)), y[0, :, 0])]
    ),
    "int reductions": lambda x, y, i, u, b, m, r: i.sum(0) + i.max(0) * i.min(0) + i[:, :1].prod(),
    "bool reductions": lambda x, y, i, u, b, m, r: jnp.stack([m.any(0), m.all(0), ~m.all(0)]),
    "NaN in max": lambda x, y, i, u, b, m, r: jnp.where(x > 1.5, jnp.nan, x).max(1),
    "argmax": lambda x, y, i, u, b, m, r: (
        jnp.argmax(jnp.round(x), 1) * 10 + jnp.argmin(jnp.where(y > 1.5, jnp.nan, y), 1)
    ),
    "int argmax": lambda x, y, i, u, b, m, r: jnp.argmax(i // 5, 0),
    "cummax": lambda x, y, i, u, b, m, r: lax.cummax(x, 1) + lax.cummin(y, 2, reverse=True),
    "int cumsum": lambda x, y, i, u, b, m, r: jnp.cumsum(i, 0) - lax.cumprod(i % 3, 1),
    "sort": lambda x, y, i, u, b, m, r: jnp.sort(jnp.where(x > 1.5, jnp.nan, x), 1),
    "argsort": lambda x, y, i, u, b, m, r: jnp.argsort(i // 4, 0, stable=True),
    "sort by two": lambda x, y, i, u, b, m, r: lax.sort((i // 8, i % 3, i), num_keys=2)[2],
    "top_k": lambda x, y, i, u, b, m, r: lax.top_k(jnp.round(x.reshape(3, 20)), 5)[1],
    "int dot": lambda x, y, i, u, b, m, r: i @ i.T,
    "int8 dot": lambda x, y, i, u, b, m, r: lax.dot_general(
        b, b, (((1,), (1,)), ((), ())), preferred_element_type=jnp.int32
    ),
    "max pool": lambda x, y, i, u, b, m, r: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2), (1, 2, 1), "SAME"),
    "large max pool": lambda x, y, i, u, b, m, r: lax.reduce_window(
        jnp.tile(x, (1, 3, 3)), -jnp.inf, lax.max, (1, 9, 9), (1, 2, 1), "VALID"
    ),
    "while": lambda x, y, i, u, b, m, r: lax.while_loop(
        lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] + i * c[0]), (r[0], i)
    )[1],
    "fori": lambda x, y, i, u, b, m, r: lax.fori_loop(0, 4, lambda n, c: (c[1], c[0] + i[n]), (i[0], i[1]))[0],
    "cond": lambda x, y, i, u, b, m, r: (
        lax.cond(i[0, 0] > 100, lambda: i * 2, lambda: i + 1) + lax.cond(r[0] == 2, lambda: i, lambda: 0 * i)
    ),
    "switch": lambda x, y, i, u, b, m, r: lax.switch(r[0] + 7, [lambda: i, lambda: i * 3, lambda: -i]),
    "scan in scan": lambda x, y, i, u, b, m, r: lax.scan(
        lambda c, row: lax.scan(lambda d, e: (d * 3 + e, d), c, row), i[0, 0], i, reverse=True
    )[1],
    "vmap of while": lambda x, y, i, u, b, m, r: jax.vmap(
        lambda n: lax.while_loop(lambda c: c < 30, lambda c: c * 2 + 1, n)
    )(jnp.abs(i[:, 0])),
}
CLOSE: dict[str, Case] = {
    "broadcast": lambda x, y, i, u, b, m, r: x[:, :1] + y[:1] * x[..., None, :1, 0],
    "sums": lambda x, y, i, u, b, m, r: (x.sum((0, 2)) + x.sum((1, 2)).sum() + y.mean((0, 2))) * x.prod(2).sum((0, 1)),
    "sum over the first axis": lambda x, y, i, u, b, m, r: (x * y).sum(0) + jnp.exp(x).sum((0, 1)),
    "variance": lambda x, y, i, u, b, m, r: x.var((0, 1)) + y.std(2).sum(),
    "cumsum": lambda x, y, i, u, b, m, r: jnp.cumsum(x, 1) + jnp.cumsum(y, 2),
    "softmax": lambda x, y, i, u, b, m, r: jax.nn.softmax(x * 5, 1) + jax.nn.log_softmax(y, -1) + jax.nn.logsumexp(x),
    "powers": lambda x, y, i, u, b, m, r: x**2 + y**3 - x**-2 + jnp.abs(y) ** 7,
    "dots": lambda x, y, i, u, b, m, r: (
        jnp.einsum("bik,bjk->bij", x, y) @ jnp.einsum("ikb,jkb->bj", x, y).T[None, :, :].sum(0)[:, :1][:1].repeat(5, 0)
    ),
    "dot of vectors": lambda x, y, i, u, b, m, r: x[0, 0] @ y[0, 0] + x[0] @ y[0, 1],
    "dot over two axes": lambda x, y, i, u, b, m, r: (
        jnp.einsum("aik,bik->ab", x, y) + jnp.einsum("iak,ibk->iab", x, y).sum((1, 2))
    ),
    "dot with odd sizes": lambda x, y, i, u, b, m, r: jnp.tile(x, (1, 3, 5))[0] @ jnp.tile(y, (1, 3, 5))[1].T,
    "conv": lambda x, y, i, u, b, m, r: lax.conv_general_dilated(
        x, jnp.tile(y, (2, 1, 1))[:, :, :3], (2,), [(1, 2)], (3,), (2,)
    ),
    "conv channels last": lambda x, y, i, u, b, m, r: lax.conv_general_dilated(
        x[..., None], jnp.tile(y, (1, 1, 2))[:2, :3, None], (1, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    ),
    "conv of one group each": lambda x, y, i, u, b, m, r: lax.conv_general_dilated(
        x, y[:, :1, :3].repeat(5, 0)[:5], (1,), "VALID", feature_group_count=5
    ),
    "average pool": lambda x, y, i, u, b, m, r: lax.reduce_window(
        x, 0.0, lax.add, (1, 2, 2), (1, 1, 2), "VALID", window_dilation=(1, 2, 1)
    ),
    "large average pool": lambda x, y, i, u, b, m, r: lax.reduce_window(
        jnp.tile(x, (1, 3, 3)), 0.0, lax.add, (1, 9, 9), (1, 1, 1), "SAME"
    ),
    "scan": lambda x, y, i, u, b, m, r: lax.scan(lambda c, row: (jnp.tanh(c @ y[0, :4] + row), c), x[0, 0], x[1])[1],
    "scan without outputs": lambda x, y, i, u, b, m, r: lax.scan(
        lambda c, row: (c * row + 1, None), x[0], y[..., ::-1]
    )[0],
    "gelu": lambda x, y, i, u, b, m, r: jax.nn.gelu(x, approximate=False) + jax.nn.gelu(y) + jax.nn.silu(x),
}


@pytest.fixture(scope="module")
def results():
    arrays = [X, Y, INTEGERS, U, B, M, ROWS]
    cases = EXACT | CLOSE

    def every(*a):
        with jax.default_matmul_precision("highest"):
            return {name: case(*a) for name, case in cases.items()}

    export = to_wasm(every, *arrays)
    names = [entry.name.removeprefix("output.") for entry in export.description.entries[0].outputs]
    ours = dict(zip(names, export.runner()(*arrays), strict=True))
    return {name: (ours[name], np.asarray(y)) for name, y in jax.jit(every)(*arrays).items()}


@pytest.mark.parametrize("name", EXACT)
def test_exact(name, results):
    ours, theirs = results[name]
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", CLOSE)
def test_close(name, results):
    ours, theirs = results[name]
    assert compare([name], [ours], [theirs]).largest < 1e-6
