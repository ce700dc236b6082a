"""Convolutions by oneDNN beside XLA's in float64: every rank, stride, dilation, padding and number of groups."""

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from funcnet import functional as F
from funcnet.functional.convolve import convolve, convolve_transposed
from funcnet.operators import native

MESH = jax.make_mesh((8,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
COLLECTIVE = "all-gather|all-to-all|collective-permute"
DRAW = np.random.default_rng(0)

# x, w, strides, pads, dilations, groups
SHAPES = [
    ((3, 16, *[11, 9, 10][:rank]), (32, 16 // groups, *[size] * rank), [stride] * rank, [(pad, pad)] * rank,
     [gap] * rank, groups)
    for rank, groups, size, stride, pad, gap in itertools.product(
        (1, 2, 3), (1, 4, 16), (1, 3), (1, 2), (0, 1), (1, 2)
    )
    if not (rank == 3 and gap == 2)
]  # fmt: skip
SHAPES += [
    ((1, 3, 33, 31), (8, 3, 7, 7), [2, 2], [(3, 3), (3, 3)], [1, 1], 1),  # one image: the channels are divided
    ((1, 48, 9, 9), (48, 48, 1, 1), [1, 1], [(0, 0), (0, 0)], [1, 1], 1),
    ((2, 40, 14, 14), (40, 1, 5, 5), [2, 2], [(2, 2), (2, 2)], [1, 1], 40),  # depthwise, 5 x 5, stride 2
    ((2, 144, 28, 28), (144, 1, 5, 5), [2, 2], [(2, 2), (2, 2)], [1, 1], 144),
    ((2, 17, 15, 15), (17, 1, 3, 3), [1, 1], [(1, 1), (1, 1)], [1, 1], 17),  # not a multiple of a vector
    ((5, 7, 10, 6), (11, 7, 3, 2), [3, 2], [(0, 2), (1, 0)], [1, 2], 1),  # every setting differs by dimension
    ((2, 6, 8), (9, 2, 4), [2], [(5, 5)], [1], 3),  # more padding than kernel
]
every = pytest.mark.parametrize("case", SHAPES, ids=lambda case: str(case).replace(" ", ""))


def close(found, expected, tolerance=5e-6):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * float(np.abs(b).max()))


def normal(shape):
    return DRAW.normal(size=shape).astype(np.float32)


@every
def test_values_and_gradients(case):
    x, w, *settings = case
    x, w = normal(x), normal(w)
    strides, pads, dilations, groups = settings
    with jax.enable_x64():
        plain = lambda x, w: lax.conv_general_dilated(
            x, w, strides, pads, rhs_dilation=dilations, feature_group_count=groups
        )
        y, back = jax.vjp(plain, x.astype(float), w.astype(float))
        gradient = normal(y.shape)
        expected = (y, *back(gradient.astype(float)))
    found = jax.jit(lambda x, w: jax.vjp(lambda x, w: convolve(x, w, *settings), x, w)[1](gradient))
    text = found.lower(x, w).as_text()
    assert set(re.findall(r"@(funcnet_\w+)", text)) == {"funcnet_convolution_input", "funcnet_convolution_weight"}
    close((jax.jit(lambda x, w: convolve(x, w, *settings))(x, w), *found(x, w)), expected)


@pytest.mark.parametrize(
    ("x", "w", "strides", "pads", "groups"),
    [
        ((2, 6, 7), (6, 5, 4), [2], [(-1, -1)], 1),
        ((2, 6, 7, 5), (6, 4, 3, 3), [2, 2], [(-1, 0), (-1, 0)], 1),
        ((2, 6, 4, 5), (6, 2, 2, 3), [3, 2], [(0, 0), (-1, 0)], 3),
        ((2, 4, 3, 4, 5), (4, 3, 2, 2, 2), [2, 2, 2], [(0, 0)] * 3, 1),
    ],
)
def test_transposed(x, w, strides, pads, groups):
    x, w = normal(x), normal(w)
    settings = strides, pads, [1] * len(strides), groups
    run = lambda x, w: convolve_transposed(x, w, *settings)
    gradient = normal(jax.eval_shape(run, x, w).shape)
    both = lambda x, w: (lambda y, back: (y, *back(gradient)))(*jax.vjp(run, x, w))
    assert len(re.findall(r"@funcnet_convolution\w*", jax.jit(both).lower(x, w).as_text())) == 3
    with native.allowed(False):
        expected = jax.jit(both)(x, w)
    close(jax.jit(both)(x, w), expected)


CASE = ((4, 8, 9, 7), (6, 4, 3, 3), (2, 1), ((1, 1), (0, 2)), (1, 1), 2)


def loss(x, w):
    return jnp.sin(convolve(x, w, *CASE[2:])).sum()


def test_second_derivatives_and_forward_mode():
    """Each of the three kernels is transposed with respect to each of its arguments."""
    x, w, dx, dw = (normal(shape) / 8 for shape in (*CASE[:2], *CASE[:2]))  # small, so that rounding stays small

    def all_of(x, w):
        slope = lambda x, w: sum(jnp.sin(one).sum() for one in jax.grad(loss, (0, 1))(x, w))
        third = lambda x, w: sum(jnp.cos(one).sum() for one in jax.grad(slope, (0, 1))(x, w))
        pushed = jax.jvp(jax.grad(loss, (0, 1)), (x, w), (dx, dw))[1]
        return *jax.grad(slope, (0, 1))(x, w), *jax.grad(third, (0, 1))(x, w), *pushed

    with native.allowed(False):
        expected = jax.jit(all_of)(x, w)
    close(jax.jit(all_of)(x, w), expected, 2e-5)


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0), (2, None), (1, 3)])
def test_vmap_before_and_after_the_gradient(axes):
    arrays = [normal(shape) for shape in CASE[:2]]
    mapped = [
        one if axis is None else np.moveaxis(np.stack([one, -one, 2 * one]), 0, axis)
        for one, axis in zip(arrays, axes, strict=True)
    ]
    scales = lambda one, axis: [one] * 3 if axis is None else [one, -one, 2 * one]
    apart = [jax.grad(loss, (0, 1))(*pair) for pair in zip(*map(scales, arrays, axes), strict=True)]
    close(jax.jit(jax.vmap(jax.grad(loss, (0, 1)), axes))(*mapped), [np.stack(one) for one in zip(*apart, strict=True)])
    whole = jax.jit(jax.grad(lambda *given: jax.vmap(loss, axes)(*given).sum(), (0, 1)))(*mapped)
    expected = [
        np.sum(one, 0) if axis is None else np.moveaxis(np.stack(one), 0, axis)
        for one, axis in zip(zip(*apart, strict=True), axes, strict=True)
    ]
    close(whole, expected)


def test_devices_share_the_images():
    """The gradient of the kernel crosses devices in one sum, and nothing else does."""
    arrays = normal((8, 6, 10, 10)), normal((12, 6, 3, 3))
    rows, whole = (jax.NamedSharding(MESH, jax.P(*axes)) for axes in (["rows"], []))
    placed = jax.device_put(arrays[0], rows), jax.device_put(arrays[1], whole)
    run = jax.jit(jax.grad(lambda x, w: (F.conv2d(x, w) ** 2).sum(), (0, 1)), out_shardings=(rows, whole))
    text = run.lower(*placed).compile().as_text()
    assert text.count('custom_call_target="funcnet_convolution') == 3 and not re.search(COLLECTIVE, text)
    assert len(re.findall(r" all-reduce(?:-start)?\(", text)) == 1
    close(run(*placed), jax.grad(lambda x, w: (F.conv2d(x, w) ** 2).sum(), (0, 1))(*arrays))


def test_what_has_no_kernel():
    x, w = normal((2, 3, 8, 8)), normal((4, 3, 3, 3))
    assert "@funcnet" not in jax.jit(F.conv2d).lower(x.astype("bfloat16"), w.astype("bfloat16")).as_text()
    assert "@funcnet" not in jax.jit(F.conv2d).lower(x[:0], w).as_text()
    exported = jax.export.export(jax.jit(jax.vmap(F.conv2d, (0, None))))(x[None], w)
    assert "@funcnet" not in exported.mlir_module()
    close([exported.call(x[None], w)], [F.conv2d(x, w)[None]])


def test_many_threads_call_at_once():
    """Plans and memory belong to threads. One shape had crashed a trial of oneDNN in several threads."""
    from concurrent.futures import ThreadPoolExecutor

    compiled = jax.jit(lambda x, w: convolve(x, w, *SHAPES[-4][2:]))

    def run(*case):
        with native.allowed(True):  # a context belongs to a thread
            return compiled(*case)

    cases = [(normal(SHAPES[-4][0]), normal(SHAPES[-4][1])) for _ in range(8)]
    expected = [run(*case) for case in cases]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(10):
            for a, b in zip(pool.map(lambda case: run(*case), cases), expected, strict=True):
                np.testing.assert_array_equal(a, b)
