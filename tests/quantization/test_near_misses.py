"""Nets that nearly match a rule of the conversion: the graph of layers computes what the net does, or it is refused."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from funcnet import functional as F
from funcnet import nn
from funcnet.quantization import calibrate, convert
from funcnet.quantization.evaluation import evaluate
from funcnet.quantization.tracing import layers_of

RANDOM = np.random.default_rng(0)
SQUARE = 2 * RANDOM.normal(size=(3, 3)).astype(np.float32)
ROWS = 2 * RANDOM.normal(size=(2, 5)).astype(np.float32)
ROW = ROWS[:1]
IMAGE = RANDOM.normal(size=(2, 3, 6, 6)).astype(np.float32)
IDS = np.int32([[0, 3, 6], [5, 3, 1]])
SCORES = RANDOM.normal(size=(2, 1, 4, 4)).astype(np.float32)
MASK = np.int32([[1, 1, 1, 0], [1, 1, 0, 0]])
TABLE = RANDOM.normal(size=(7, 4)).astype(np.float32)
WEIGHT = RANDOM.normal(size=(5, 6)).astype(np.float32)
KERNEL = RANDOM.normal(size=(4, 3, 3, 3)).astype(np.float32)
EPS, LOWEST = 1e-5, jnp.finfo(jnp.float32).min


class Computes(nn.Module):
    """A net that is a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arrays):
        return self.function(*arrays)


def compare(function, *arrays):
    """Return the operations of the graph after a comparison with the net."""
    net = Computes(function)
    graph = layers_of("test", net, {}, {}, arrays)
    found, (expected, _) = evaluate(graph, arrays), net.apply({}, {}, *arrays)
    for ours, theirs in zip(found, jax.tree.leaves(expected), strict=True):
        assert ours.shape == theirs.shape
        # A hidden score has the weight exp(-12) here instead of 0.
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    return [node.op for node in graph.nodes]


def normed(x, power=2, axis=-1, keepdims=True, inside=EPS, outside=0.0, count=None, root=lax.rsqrt, centred=True):
    """Layer normalisation with a change."""
    c = x - x.mean(axis, keepdims=keepdims) if centred else x
    raised = c * c if power == 2 else lax.integer_pow(c, power)
    mean = raised.mean(axis, keepdims=keepdims) if count is None else raised.sum(axis, keepdims=keepdims) / count
    factor = root(mean + inside)
    return c * (factor + outside if outside else factor)


def soft(x, axis=-1, keepdims=True, least=None, start=None, top=jnp.max, base=jnp.exp, numerator=None):
    """Softmax with a change."""
    largest = top(x, axis, keepdims=keepdims)
    e = base(x - (largest if start is None else jnp.maximum(largest, start)))
    total = e.sum(axis, keepdims=keepdims)
    total = total if least is None else jnp.maximum(total, least)
    return (e if numerator is None else numerator(e)) / total


def gelu(x, half=0.5, one=1.0, root=0.5**0.5, tail=lambda x: x < -6, far=0.0, swap=False):
    """GELU by the error function with a change."""
    chance = half * (one + lax.erf(x * root))
    chance = jnp.where(tail(x), chance, far) if swap else jnp.where(tail(x), far, chance)
    return x * chance


def gelu_tanh(x, function=jax.nn.sigmoid, outer=(8 / np.pi) ** 0.5, cubic=0.044715, power=3):
    """GELU by the tangent with a change."""
    cube = cubic * x
    for _ in range(power - 1):
        cube = cube * x
    return x * function(outer * (x + cube))


def masked(scores, mask, test=lambda mask: mask > 0, low=LOWEST, high=0.0, axis=-1, after=soft):
    """Attention's mask with a change."""
    added = jnp.where(test(mask)[:, None, None, :], jnp.float32(high), jnp.float32(low))
    out = scores + added
    return after(out, axis) if after is soft else after(out)


def larger(x, other=None, start=1, step=2, rows=6, also=lambda a, b: a != a):
    """The maximum of two strided slices with a change."""
    b, a = x[..., :rows, 0::step], x[..., :rows, start::step]
    both = min(a.shape[-1], b.shape[-1])
    a, b = a[..., :both], b[..., :both]
    return jnp.where((a > b) | also(a, b), a, b if other is None else other(b))


def windows(x, start, function, sizes, strides=(1, 1, 1, 1), pads="VALID"):
    return lax.reduce_window(x, start, function, sizes, strides, pads)


def padded_after(x):
    x = windows(x, -jnp.inf, lax.max, (1, 1, 2, 1), (1, 1, 2, 1))
    return windows(x, -jnp.inf, lax.max, (1, 1, 1, 2), (1, 1, 1, 2), [(0, 0), (0, 0), (1, 1), (0, 0)])[:, :, 1:-1]


def padded_whole(x):
    x = windows(x, 0.0, lax.add, (1, 1, 2, 1), (1, 1, 2, 1))
    x = windows(x, 0.0, lax.add, (1, 1, 1, 2), (1, 1, 1, 2), [(0, 0), (0, 0), (1, 1), (0, 0)])
    return x / 4.0


def inside(ids, rows=7):
    return (ids >= 0) & (ids < rows)


SAME = {
    "softmax": (soft, SQUARE),
    "softmax with limits": (lambda x: soft(x, least=1.0, start=LOWEST), SQUARE),
    "layer norm": (normed, SQUARE),
    "layer norm by a root": (lambda x: normed(x, root=lambda v: 1 / jnp.sqrt(v)), SQUARE),
    "layer norm of one row": (normed, ROW),
    "gelu": (gelu, ROWS),
    "gelu by the tangent": (gelu_tanh, ROWS),
    "F.embedding": (lambda ids: F.embedding(ids, jnp.asarray(TABLE)), IDS),
    "index": (lambda ids: jnp.asarray(TABLE)[ids], IDS),
    "take": (lambda ids: jnp.take(TABLE, ids, axis=0), IDS),
    "take, clamped": (lambda ids: jnp.take(TABLE, lax.clamp(0, ids, 6), axis=0), IDS),
    "take, clipped": (lambda ids: jnp.take(TABLE, ids, axis=0, mode="clip"), IDS + 3),
    "hide": (masked, SCORES, MASK),
    "hide where 2 is shown": (masked, SCORES, 2 * MASK),
    "hide where -1 is hidden": (masked, SCORES, 2 * MASK - 1),
    "hide by bool": (lambda x, mask: masked(x, mask, lambda mask: mask), SCORES, MASK == 1),
    "larger slice": (larger, IMAGE),
    "mean of a plane": (lambda x: x.mean((2, 3)), IMAGE),
    "mean of a line": (lambda x: x.mean(2), IMAGE[:, :, 0]),
    "reshape with an order": (lambda x: lax.reshape(jnp.tanh(x), (5, 2), (1, 0)), ROWS),
    "checkpoint": (jax.checkpoint(jnp.tanh), ROWS),
}
"""Nets that are recognised."""

NEAR = {
    # embedding
    "ids by where": (lambda ids: F.embedding(jnp.where(ids == 3, 5, ids), jnp.asarray(TABLE)), IDS),
    "ids by where, other order": (lambda ids: F.embedding(jnp.where(ids == 3, ids, 5), jnp.asarray(TABLE)), IDS),
    "ids by clamp": (lambda ids: F.embedding(lax.clamp(0, ids, 3), jnp.asarray(TABLE)), IDS),
    "ids by clamp below": (lambda ids: F.embedding(lax.clamp(2, ids, 6), jnp.asarray(TABLE)), IDS),
    "ids by another range": (lambda ids: F.embedding(jnp.where(inside(ids, 4), ids, 7), jnp.asarray(TABLE)), IDS),
    "ids in range replaced": (lambda ids: F.embedding(jnp.where(inside(ids), ids, 2), jnp.asarray(TABLE)), IDS - 2),
    "ids in range exchanged": (lambda ids: jnp.asarray(TABLE)[jnp.where(inside(ids), 7, ids)], IDS),
    "ids below replaced": (lambda ids: jnp.asarray(TABLE)[jnp.where(ids < 0, 3, ids)], IDS - 2),
    "ids below shifted": (lambda ids: jnp.asarray(TABLE)[jnp.where(ids < 0, ids + 6, ids)], IDS - 1),
    "ids below 2 shifted": (lambda ids: jnp.asarray(TABLE)[jnp.where(ids < 2, ids + 1, ids)], IDS),
    "ids of two inputs": (
        lambda ids, mask: F.embedding(jnp.where(mask > 0, ids, mask), jnp.asarray(TABLE)),
        IDS,
        np.int32([[1, 0, 1], [0, 1, 1]]),
    ),
    "ids by the test of others": (
        lambda ids, mask: jnp.asarray(TABLE)[jnp.where(mask < 0, ids + 7, ids)],
        IDS - 7,
        np.full((2, 3), -1, np.int32),
    ),
    "ids of 8 bits": (lambda ids: F.embedding(ids.astype(jnp.int8).astype(jnp.int32), jnp.asarray(TABLE)), IDS + 256),
    "ids plus one": (lambda ids: F.embedding(ids + 1, jnp.asarray(TABLE)), IDS - 1),
    "ids transposed": (lambda ids: F.embedding(ids.T, jnp.asarray(TABLE)), IDS[:, :2]),
    "ids reshaped": (lambda ids: F.embedding(ids.reshape(4), jnp.asarray(TABLE)), IDS[:, :2]),
    "ids in another order": (
        lambda ids: F.embedding(lax.reshape(ids, (2, 2), (1, 0)), jnp.asarray(TABLE)),
        IDS[:, :2],
    ),
    "columns instead of rows": (lambda ids: jnp.take(TABLE, ids, axis=1), IDS[:, :1] * 0),
    "columns of one row": (lambda ids: jnp.take(TABLE[:, :1].T, ids, axis=1), IDS[:, :2]),
    # layer normalisation
    "power 4": (lambda x: normed(x, 4), SQUARE),
    "no keepdims": (lambda x: normed(x, keepdims=False), SQUARE),
    "no keepdims of the variance": (
        lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(((x - x.mean(-1, keepdims=True)) ** 2).mean(-1) + EPS),
        SQUARE,
    ),
    "another axis": (lambda x: normed(x, axis=0), SQUARE),
    "two axes": (lambda x: normed(x, axis=(0, 1)), SQUARE),
    "eps outside": (lambda x: normed(x, inside=0.0, outside=EPS), SQUARE),
    "large eps": (lambda x: normed(x, inside=0.5), SQUARE),
    "layer norm and a weight for each row": (lambda x: normed(x) * jnp.float32([[1], [2], [3]]), SQUARE),
    "layer norm and a weight that widens": (lambda x: normed(x) * jnp.float32([[1], [2], [3]]), SQUARE[:1]),
    "layer norm and a shift that widens": (lambda x: normed(x) + jnp.float32([[1], [2], [3]]), SQUARE[:1]),
    "eps for each row": (lambda x: normed(x, inside=jnp.float32([[1], [2], [3]])), SQUARE),
    "eps as an array": (lambda x: normed(x, inside=jnp.full((4, 1), 0.5)), ROW),
    "unbiased": (lambda x: normed(x, count=2.0), SQUARE),
    "root mean square": (lambda x: normed(x, centred=False), SQUARE),
    "square root": (lambda x: normed(x, root=jnp.sqrt), SQUARE),
    "twice the inverse root": (lambda x: normed(x, root=lambda v: 2 / jnp.sqrt(v)), SQUARE),
    "mean of another array": (
        lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt((x * x).mean(-1, keepdims=True) + EPS),
        SQUARE,
    ),
    "mean in another order": (
        lambda x: x - lax.reshape(x.mean(-1).reshape(2, 2), (4, 1), (1, 0)),
        RANDOM.normal(size=(4, 4)).astype(np.float32),
    ),
    "layer norm in another order": (
        lambda x: (
            (x - x.mean(-1, keepdims=True))
            * lax.rsqrt(
                lax.reshape((normed(x, inside=0, root=lambda v: 1.0) ** 2).mean(-1).reshape(2, 2), (4, 1), (1, 0))
            )
        ),
        RANDOM.normal(size=(4, 4)).astype(np.float32),
    ),
    "rows of the table for one example": (
        lambda x: normed(x + jnp.ones((4, 1)) * jnp.float32([1, 5, 2, 0, 3])),
        ROW,
    ),
    # softmax
    "softmax without keepdims": (lambda x: soft(x, keepdims=False), SQUARE),
    "softmax over another axis": (lambda x: soft(x, 0), SQUARE),
    "softmax over all": (lambda x: soft(x, (0, 1)), SQUARE),
    "softmax with a larger limit": (lambda x: soft(x, least=2.5), SQUARE),
    "softmax with a limit that is computed": (lambda x: soft(x, least=jnp.abs(x).max(-1, keepdims=True)), SQUARE),
    "softmax with a limited maximum": (lambda x: soft(x, start=1.0, least=1.0), SQUARE),
    "softmax of the minimum": (lambda x: soft(x, top=jnp.min), SQUARE),
    "softmax with base 2": (lambda x: soft(x, base=jnp.exp2), SQUARE),
    "softmax of another sum": (lambda x: soft(x, numerator=lambda e: e * 2), SQUARE),
    "softmax with a sum for each row of a constant": (lambda x: soft(x, least=jnp.ones((4, 1))), ROW),
    "maximum of another array": (lambda x: soft(x, top=lambda x, *a, **k: jnp.max(jnp.abs(x), *a, **k)), SQUARE),
    "softmax and one": (
        lambda x: (lambda e: e / (1 + e.sum(-1, keepdims=True)))(jnp.exp(x - x.max(-1, keepdims=True))),
        SQUARE,
    ),
    # functions
    "half": (lambda x: gelu(x, half=0.25), ROWS),
    "one": (lambda x: gelu(x, one=1.5), ROWS),
    "root": (lambda x: gelu(x, root=0.7), ROWS),
    "tail": (lambda x: gelu(x, tail=lambda x: x < 0), ROWS),
    "tail of another array": (lambda x: gelu(x, tail=lambda x: x * x < 1), ROWS),
    "tail above": (lambda x: gelu(x, tail=lambda x: x > -6), ROWS),
    "tail exchanged": (lambda x: gelu(x, swap=True), ROWS),
    "tail with another number": (lambda x: gelu(x, far=1.0), ROWS - 7),
    "half as an array": (lambda x: gelu(x, half=jnp.full((4, 1), 0.5)), ROW),
    "half for each row": (lambda x: gelu(x, half=jnp.float32([[0.5], [0.25]])), ROWS),
    "tanh instead of sigmoid": (lambda x: gelu_tanh(x, jnp.tanh), ROWS),
    "another factor": (lambda x: gelu_tanh(x, outer=1.702), ROWS),
    "another cubic factor": (lambda x: gelu_tanh(x, cubic=0.05), ROWS),
    "a square": (lambda x: gelu_tanh(x, power=2), ROWS),
    "a fourth power": (lambda x: gelu_tanh(x, power=4), ROWS),
    "cubic factor as an array": (lambda x: gelu_tanh(x, cubic=jnp.full((4, 1), 0.044715)), ROW),
    "relu with an array": (lambda x: jnp.maximum(x, jnp.zeros((4, 1))), ROW),
    "relu6 with an array": (lambda x: jnp.minimum(F.relu(x), jnp.full((4, 1), 6.0)), ROW),
    "hardtanh with an array": (lambda x: jnp.minimum(jnp.maximum(x, jnp.full((4, 1), -1.0)), 1.0), ROW),
    "hardtanh with an array above": (lambda x: jnp.minimum(jnp.maximum(x, -1.0), jnp.full((4, 1), 1.0)), ROW),
    "relu above another number": (lambda x: jnp.maximum(x, 0.1), ROWS),
    "relu to 5": (lambda x: jnp.clip(x * 4, 0, 5), ROWS),
    "hardtanh of -2": (lambda x: jnp.clip(x, -2, 1), ROWS),
    "limits in the other order": (lambda x: jnp.maximum(jnp.minimum(4 * x, 6), 0), ROWS),
    "limits that exclude all": (lambda x: jnp.maximum(jnp.minimum(x, -1), 1), ROWS),
    "-1 as a limit above": (lambda x: jnp.minimum(jnp.maximum(x, 1), -1), ROWS),
    "less precision": (lambda x: jnp.tanh(lax.reduce_precision(x, 5, 2)), ROWS),
    # masks
    "shown where it is 0": (lambda x, mask: masked(x, mask, lambda mask: mask == 0), SCORES, MASK),
    "shown where it is 1": (lambda x, mask: masked(x, mask, lambda mask: mask == 1), SCORES, 2 - MASK),
    "shown where it is not 0": (lambda x, mask: masked(x, mask, lambda mask: mask != 0), SCORES, -MASK),
    "shown where it is not 2": (lambda x, mask: masked(x, mask, lambda mask: mask != 2), SCORES, 2 * MASK),
    "shown from 2": (lambda x, mask: masked(x, mask, lambda mask: mask >= 2), SCORES, 2 * MASK),
    "shown up to 2": (lambda x, mask: masked(x, mask, lambda mask: (mask > 0) & (mask < 3)), SCORES, 3 * MASK),
    "a little lower": (lambda x, mask: masked(x, mask, low=-1.0), SCORES, MASK),
    "shown with an addition": (lambda x, mask: masked(x, mask, high=1.0), SCORES, MASK),
    "masked scores themselves": (lambda x, mask: masked(x, mask, low=-1e5, after=lambda x: x), SCORES, MASK),
    "masked scores, limited": (lambda x, mask: masked(x, mask, low=-1e5, after=lambda x: F.relu6(x)), SCORES, MASK),
    "softmax of masked scores over queries": (lambda x, mask: masked(x, mask, axis=2), SCORES, MASK),
    "mask of queries": (
        lambda x, mask: soft(x + jnp.where(mask[:, None, :, None] > 0, 0.0, LOWEST)),
        SCORES,
        MASK,
    ),
    "mask with a constant": (
        lambda x, mask: masked(x, mask, lambda mask: (mask > 0) & (np.arange(4) != 1)),
        SCORES,
        MASK,
    ),
    "mask of other tokens": (
        lambda x, mask: masked(x, mask, lambda mask: lax.rev(mask, (1,)) > 0),
        SCORES,
        MASK,
    ),
    "mask in another order": (
        lambda x, mask: masked(x, mask, lambda mask: lax.reshape(mask, (4, 4), (1, 0)) > 0),
        RANDOM.normal(size=(4, 1, 4, 4)).astype(np.float32),
        np.tril(np.ones((4, 4), np.int32)),
    ),
    # pooling
    "slices with an overlap": (lambda x: larger(x, step=3), IMAGE),
    "slices with a gap": (lambda x: larger(x, start=2, step=3), IMAGE),
    "slices without the last rows": (lambda x: larger(x, rows=4), IMAGE),
    "larger, or of another test": (lambda x: larger(x, also=lambda a, b: a < -1), IMAGE),
    "larger, or another number": (lambda x: larger(x, other=lambda b: b * 2), IMAGE),
    "smaller slice": (lambda x: jnp.where(x[..., 0::2] > x[..., 1::2], x[..., 1::2], x[..., 0::2]), IMAGE),
    "maximum that starts at 0": (lambda x: windows(x, 0.0, lax.max, (1, 1, 3, 3), pads="SAME"), IMAGE),
    "minimum": (lambda x: windows(x, jnp.inf, lax.min, (1, 1, 2, 2)), IMAGE),
    "product": (lambda x: windows(x, 1.0, lax.mul, (1, 1, 3, 3), pads="SAME"), IMAGE),
    "maximum of channels": (lambda x: windows(x, -jnp.inf, lax.max, (1, 3, 2, 2)), IMAGE),
    "strided channels": (lambda x: windows(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 2, 1, 1)), IMAGE),
    "one pooling after another": (
        lambda x: windows(windows(x, -jnp.inf, lax.max, (1, 1, 2, 1)), -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 1)),
        IMAGE,
    ),
    "padding of what was pooled": (padded_whole, IMAGE),
    "padding of a maximum that was pooled": (padded_after, IMAGE),
    "sum divided by another number": (lambda x: windows(x, 0.0, lax.add, (1, 1, 2, 2)) / 3.0, IMAGE),
    "sum divided by an array": (
        lambda x: windows(x, 0.0, lax.add, (1, 1, 2, 2)) / np.linspace(1, 4, 25, dtype=np.float32).reshape(5, 5),
        IMAGE,
    ),
    "sum divided by numbers of channels": (
        lambda x: windows(x, 0.0, lax.add, (1, 1, 2, 2)) / jnp.float32([4, 4, 2]).reshape(3, 1, 1),
        IMAGE,
    ),
    "cropped before a pooling": (
        lambda x: windows(x[:, :, :5, :5], -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2)),
        IMAGE,
    ),
    "cropped before a pooling by too much": (
        lambda x: windows(x[:, :, :5, :5], -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME"),
        IMAGE,
    ),
    "cropped at the start": (lambda x: windows(x[:, :, 1:], -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2)), IMAGE),
    "mean of channels": (lambda x: x.mean(1), IMAGE),
    "mean of rows": (lambda x: x.mean(2), IMAGE),
    "mean of columns": (lambda x: x.mean(3), IMAGE),
    "mean of everything": (lambda x: x.mean((1, 2, 3)), IMAGE),
    "sum of a plane by another number": (lambda x: x.sum((2, 3)) / 35.0, IMAGE),
    "sum of a plane by an array": (lambda x: x.sum((2, 3))[:1] / jnp.full((4, 1), 36.0), IMAGE),
    "mean in another shape": (lambda x: x.mean((2, 3)).reshape(3, 2), IMAGE),
    "mean in another sequence": (lambda x: lax.reshape(x.sum((2, 3)), (3, 2), (1, 0)) / 36.0, IMAGE),
    "a reduction of its own": (lambda x: lax.reduce(x, np.float32(0), lambda a, b: a + 2 * b, (1,)), ROWS),
    # products
    "channels concatenated along another axis": (lambda x: jnp.concatenate([F.relu(x), jnp.tanh(x)], 2), IMAGE),
    "concatenation with a constant": (lambda x: jnp.concatenate([F.relu(x), jnp.ones_like(x)], 3), IMAGE),
    "convolution with the last channels": (
        lambda x: lax.conv_general_dilated(
            x, KERNEL.transpose(2, 3, 1, 0)[:, :, :3], (1, 1), "SAME", dimension_numbers=("NCHW", "HWIO", "NCHW")
        ),
        IMAGE,
    ),
    "transposed convolution": (
        lambda x: lax.conv_general_dilated(x, KERNEL, (1, 1), [(1, 1), (1, 1)], lhs_dilation=(2, 2)),
        IMAGE,
    ),
    "negative padding": (lambda x: lax.conv_general_dilated(x, KERNEL, (1, 1), [(-1, 0), (1, 1)]), IMAGE),
    "groups of examples": (
        lambda x: lax.conv_general_dilated(x, KERNEL, (1, 1), "SAME", batch_group_count=2),
        IMAGE,
    ),
    "transposed convolution of a layer": (
        lambda x: F.conv_transpose2d(x, jnp.asarray(KERNEL.transpose(1, 0, 2, 3))),
        IMAGE,
    ),
    "sum over the first axis": (lambda x: jnp.einsum("bi,bo->io", x, ROWS), ROWS),
    "constant on the left": (lambda x: jnp.einsum("oi,bi->ob", WEIGHT.T, x), ROWS),
    "two summed axes": (lambda x: jnp.einsum("bij,ijo->bo", x, IMAGE[0, :, :2]), IMAGE[:, :, :6, 0][:, :, :2]),
    "constant with batches": (lambda x: jnp.einsum("bti,bio->bto", x, IMAGE[:, 0]), IMAGE[:, 1]),
    "product with another order": (lambda x: jnp.einsum("bti,bsi->bst", x, jnp.tanh(x)), IMAGE[:, 0]),
    "product over tokens": (lambda x: jnp.einsum("bti,btj->bij", x, jnp.tanh(x)), IMAGE[:, 0, :4]),
    "products with batches last": (lambda x: jnp.einsum("tbi,sbi->tsb", x, jnp.tanh(x)), IMAGE[:, 0, :4]),
    "scale of rows": (lambda x: (x @ WEIGHT) * jnp.float32([[2], [3]]), ROWS),
    "scale that broadcasts": (lambda x: (x @ WEIGHT) * jnp.float32([[2], [3], [4]]), ROW),
    "scale that widens": (lambda x: (x @ WEIGHT[:, :1]) * jnp.arange(1.0, 5.0), ROWS),
    "division that widens": (lambda x: (x @ WEIGHT[:, :1]) / jnp.arange(1.0, 5.0), ROWS),
    "scale of channels that widens": (lambda x: x[:, :1] * jnp.arange(1.0, 5.0).reshape(1, 4, 1, 1), IMAGE),
    "scale of one number in more dimensions": (lambda x: (x @ WEIGHT) * jnp.full((1, 1, 1, 1), 2.0), ROWS),
    "scale of the last axis of an image": (lambda x: x * jnp.arange(1.0, 7.0), IMAGE),
    "scale after a reshape": (lambda x: (x @ WEIGHT).reshape(6, 2) * jnp.float32([2, 3]), ROWS),
    "scale after a reshape with equal sizes": (
        lambda x: lax.reshape(x @ WEIGHT[:, :2], (2, 2), (1, 0)) * jnp.float32([2, 3]),
        ROWS,
    ),
    "scale after an activation": (lambda x: F.relu(x @ WEIGHT) * jnp.arange(6.0), ROWS),
    "constant divided by x": (lambda x: 2.0 / (x @ WEIGHT + 9.0), ROWS),
    "constant minus x": (lambda x: jnp.arange(6.0) - x @ WEIGHT, ROWS),
    "constant minus an activation": (lambda x: 1.0 - F.relu(x @ WEIGHT), ROWS),
    "constant minus an image": (lambda x: jnp.arange(3.0).reshape(3, 1, 1) - x, IMAGE),
    "shift that widens": (lambda x: x @ WEIGHT + jnp.arange(4.0).reshape(4, 1, 1), ROWS),
    "sum that is read twice": (lambda x: (lambda y: F.relu(y) + (y * 2.0))(x @ WEIGHT), ROWS),
    "product of arrays": (lambda x: x * jnp.tanh(x), ROWS),
    "pad with ones": (lambda x: lax.pad(F.relu(x), 1.0, [(0, 0, 0), (1, 1, 0)]), ROWS),
    "pad inside": (lambda x: lax.pad(F.relu(x), 0.0, [(0, 0, 0), (1, 1, 1)]), ROWS),
    "pad and crop": (lambda x: lax.pad(F.relu(x), 0.0, [(0, 0, 0), (1, -1, 0)]), ROWS),
    "crop at the start": (lambda x: lax.pad(F.relu(x), 0.0, [(0, 0, 0), (-1, 0, 0)]), ROWS),
    "crop at the end": (lambda x: lax.pad(F.relu(x), 0.0, [(0, 0, 0), (0, -1, 0)]), ROWS),
    "every second entry": (lambda x: F.relu(x)[:, ::2], ROWS),
    "reversed entries": (lambda x: F.relu(x)[:, ::-1], ROWS),
    "half precision": (lambda x: F.relu(x.astype(jnp.float16)).astype(jnp.float32), 1000 * ROWS),
}
"""Nets that differ from one that is recognised by a number, an axis or an operation."""


@pytest.mark.parametrize("name", SAME)
def test_what_is_recognised(name):
    compare(*SAME[name])


@pytest.mark.parametrize("name", NEAR)
def test_what_is_nearly_recognised(name):
    try:
        compare(*NEAR[name])
    except ValueError as error:
        assert "integer kernel" in str(error)


@pytest.mark.parametrize("before", [nn.Identity(), nn.MaxPool2d(1)], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    "pair",
    list(itertools.product([nn.ReLU, nn.ReLU6, nn.Hardtanh], repeat=2)),
    ids=lambda pair: "-".join(one.__name__ for one in pair),
)
def test_one_activation_after_another(pair, before):
    x = np.linspace(-9, 9, 73, dtype=np.float32).reshape(1, 1, 1, -1)
    net = nn.Sequential(before, *(kind() for kind in pair))
    expected = net.apply({}, {}, x)[0]
    (found,) = evaluate(layers_of("test", net, {}, {}, [x]), [x])
    np.testing.assert_array_equal(found, expected)
    integers = convert(net, {}, {}, calibrate(net, {}, {}, [x]), x)
    assert np.abs(integers(x) - expected).max() <= 18 / 255
