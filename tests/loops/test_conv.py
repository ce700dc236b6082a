"""Convolutions of random settings against JAX's own operation in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from funcnet.export.wasm.binary import DATA, GLOBAL, sections
from funcnet.export.wasm.module import to_wasm
from funcnet.quantization.integer_products import convolve


def setting(seed: int) -> tuple[dict, np.ndarray, np.ndarray]:
    """Settings of `conv_general_dilated`, an input and a kernel."""
    random = np.random.default_rng(seed)
    rank, groups = int(random.integers(1, 4)), int(random.choice([1, 1, 2, 3]))
    inner, outer = int(random.integers(1, 5)), int(random.integers(1, 7))
    kernel = [int(n) for n in random.integers(1, 4, rank)]
    sizes = [int(n) for n in random.integers(6, 12, rank)]
    each = lambda low, high: [int(n) for n in random.integers(low, high, rank)]
    settings = {
        "window_strides": each(1, 4),
        "padding": list(zip(each(-1, 3), each(-1, 3), strict=True)),
        "lhs_dilation": each(1, 3) if seed % 3 == 0 else [1] * rank,
        "rhs_dilation": each(1, 3),
        "feature_group_count": groups,
    }
    x = random.normal(size=(2, inner * groups, *sizes)).astype(np.float32)
    return settings, x, random.normal(size=(outer * groups, inner, *kernel)).astype(np.float32)


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 60), marks=pytest.mark.slow)], ids=len)
def test_random_settings(seeds):
    cases = [setting(seed) for seed in seeds]

    def every(inputs):
        return [
            lax.conv_general_dilated(x, w, **settings) for (settings, *_), (x, w) in zip(cases, inputs, strict=True)
        ]

    inputs = [[x, w] for _, x, w in cases]
    ours = to_wasm(every, inputs).runner()(*[a for pair in inputs for a in pair])
    with jax.enable_x64(True):
        for (settings, x, w), y in zip(cases, ours, strict=True):
            wide = [jnp.asarray(a, jnp.float64) for a in (x, w)]
            truth = np.asarray(lax.conv_general_dilated(*wide, **settings))
            bound = np.asarray(lax.conv_general_dilated(*map(abs, wide), **settings))
            assert y.shape == truth.shape
            assert np.all(np.abs(y - truth) <= 5e-7 * bound), settings


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 60), marks=pytest.mark.slow)], ids=len)
def test_integers(seeds):
    """Random settings, an odd number of products among them, against double precision, which is exact here."""
    random, cases = np.random.default_rng(0), []
    for seed in seeds:
        settings, x, w = setting(seed)
        x, w = (random.integers(-128, 128, array.shape).astype(np.int8) for array in (x, w))
        cases.append((settings["window_strides"], settings["rhs_dilation"], settings["feature_group_count"], x, w))

    def every(inputs):
        return [convolve(x, w, s, d, g) for (s, d, g, _, w), x in zip(cases, inputs, strict=True)]

    inputs = [x for *_, x, _ in cases]
    ours = to_wasm(every, inputs).runner()(*inputs)
    with jax.enable_x64(True):
        for (strides, dilations, groups, x, w), y in zip(cases, ours, strict=True):
            wide = [jnp.asarray(a, jnp.float64) for a in (x, w)]
            options = {"rhs_dilation": dilations, "feature_group_count": groups}
            np.testing.assert_array_equal(y, lax.conv_general_dilated(*wide, strides, "VALID", **options))


def test_many_pixels_go_in_strips():
    x = np.random.default_rng(0).normal(size=(1, 3, 301, 299)).astype(np.float32)
    w = np.random.default_rng(1).normal(size=(5, 3, 5, 5)).astype(np.float32)
    export = to_wasm(lambda x: lax.conv_general_dilated(x, w, (1, 1), "SAME"), x)
    assert export.check.largest < 1e-6
    arrays = export.description.pages * 65536 - 131072 - export.description.weights.size
    columns = 75 * 301 * 299 * 4  # what all columns at once would take: 27 MB
    assert arrays < columns / 5


def test_nothing_of_the_compiler_reaches_the_weights():
    """The stack and the constants of the code lie below the address from which on the weights lie."""
    x, w = (np.ones(shape, np.float32) for shape in ((1, 3, 6, 6), (4, 3, 3, 3)))
    export = to_wasm(lambda x: lax.conv_general_dilated(x, w, (1, 1), "SAME"), x, weights="beside")
    kinds = dict(sections(export.wasm))
    assert kinds[GLOBAL][:4] == b"\x01\x7f\x01\x41"  # one mutable i32, the stack's pointer: where the stack begins
    ends = [leb(kinds[GLOBAL], 4)[0]]
    count, at = leb(kinds[DATA], 0) if DATA in kinds else (0, 0)
    for _ in range(count):
        assert kinds[DATA][at : at + 2] == b"\x00\x41"
        address, at = leb(kinds[DATA], at + 2)
        size, at = leb(kinds[DATA], at + 1)
        at += size
        ends.append(address + size)
    assert max(ends) <= export.description.weights.address


def leb(content: bytes, at: int) -> tuple[int, int]:
    """A positive number in LEB128, and the place behind it."""
    value = shift = 0
    while True:
        value, shift, at = value | (content[at] & 127) << shift, shift + 7, at + 1
        if content[at - 1] < 128:
            return value, at
