"""Convolution with XLA's convolution operation or, on CPU, with an equivalent operation that is faster on CPU.

With the extra `native`, convolutions in float32 are computed on CPU by the kernels of `funcnet.operators.native`: see
`convolve_kernel.py`. The rest of this docstring is about all other convolutions.

XLA's CPU backend passes plain convolutions in one and two dimensions to Eigen. The CPU backend computes all other
convolutions, including some gradients, in naive loops that are ten to five hundred times slower. On CPU, this file
therefore replaces the slow convolutions:

- A convolution with a kernel of one pixel becomes a matrix product.
- A depthwise convolution becomes a sum of shifted inputs.
- Up to 8 groups are convolved one by one. More groups become one batched matrix product for each kernel entry.
- A convolution in three dimensions becomes a sum of convolutions in two dimensions, one for each kernel depth.
- A transposed convolution with a stride computes each phase of its output separately and interleaves the phases.

Letters: `B batch, I in_channels, O out_channels, G groups, S spatial sizes (D depth, H height, W width), P pixels of an
image, K kernel sizes`. A prime marks a size of the output: S'. A tap is one entry of the kernel. The functions that
call this file check the arguments.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from funcnet.functional.convolve_kernel import Pads, convolution_kernel, transposed_kernel
from funcnet.functional.platforms import bilinear
from funcnet.functional.sharding import placed, reshaped

__all__ = ["TRANSPOSED", "convolve", "convolve_transposed"]

TRANSPOSED = "convolve_transposed"  # the name scope of transposed convolutions
_MOST_TAPS = 64  # shifted inputs are written out one by one, and more of them would take too long to compile
_MOST_GROUPS = 8  # groups are written out too; with more of them, each tap is one batched product


def convolve(
    x: jax.Array, w: jax.Array, strides: Sequence[int], pads: Pads, dilations: Sequence[int], groups: int
) -> jax.Array:
    """Return the cross-correlation of x (B, I, *S), padded with zeros, and w (O, I / G, *K), in their common dtype.

    Example:
        >>> convolve(jnp.arange(3.0).reshape(1, 1, 3), jnp.ones((1, 1, 2)), (1,), [(0, 0)], (1,), 1)
        Array([[[1., 3.]]], dtype=float32)
    """
    settings = tuple(strides), tuple(pads), tuple(dilations), groups
    return bilinear(_plain, _on_cpu, x, w, *settings, kernel=convolution_kernel(_on_cpu, x, w, *settings))


def convolve_transposed(
    x: jax.Array,
    w: jax.Array,
    strides: Sequence[int],
    pads: Pads,
    dilations: Sequence[int],
    groups: int,
) -> jax.Array:
    """Return the transposed convolution of x (B, I, *S) and w (I, O / G, *K).

    For each spatial dimension of the output, `pads` contains the numbers of entries to add at the two ends of the
    dimension. Negative numbers remove entries.

    Example:
        >>> x, w = jnp.ones((1, 1, 2)), jnp.arange(3.0).reshape(1, 1, 3)
        >>> convolve_transposed(x, w, (2,), [(0, -1)], (1,), 1)
        Array([[[0., 1., 2., 1.]]], dtype=float32)
    """
    settings = tuple(strides), tuple(pads), tuple(dilations), groups
    kernel = transposed_kernel(_transposed_on_cpu, x, w, *settings)
    return bilinear(_plain_transposed, _transposed_on_cpu, x, w, *settings, kernel=kernel)


def _plain(
    x: jax.Array, w: jax.Array, strides: Sequence[int], pads: Pads, dilations: Sequence[int], groups: int
) -> jax.Array:
    # lax's default layouts are torch's: (B, C, *S) and (O, I, *K)
    return lax.conv_general_dilated(x, w, strides, pads, rhs_dilation=dilations, feature_group_count=groups)


def _plain_transposed(
    x: jax.Array, w: jax.Array, strides: Sequence[int], pads: Pads, dilations: Sequence[int], groups: int
) -> jax.Array:
    turned, around = _turned(w, pads, dilations, groups)
    with jax.named_scope(TRANSPOSED):
        # The strides of a transposed convolution are gaps between the entries of its input: the lhs_dilation.
        return lax.conv_general_dilated(
            x, turned, (1,) * len(strides), around, strides, dilations, feature_group_count=groups
        )


def _turned(w: jax.Array, pads: Pads, dilations: Sequence[int], groups: int) -> tuple[jax.Array, list[tuple[int, int]]]:
    """Return a flipped kernel (O, I / G, *K) and pads, with which an ordinary convolution computes a transposed
    convolution.
    """
    kernels = w.shape[2:]
    grouped = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])  # (G, I / G, O / G, *K)
    turned = lax.rev(jnp.swapaxes(grouped, 1, 2), tuple(range(3, grouped.ndim)))  # (G, O / G, I / G, *K)
    # At the edge of the output, only one tap still meets an entry of the input, so the padding is the kernel's reach.
    spans = [d * (k - 1) for d, k in zip(dilations, kernels, strict=True)]
    around = [(span + low, span + high) for span, (low, high) in zip(spans, pads, strict=True)]
    return turned.reshape(groups * w.shape[1], -1, *kernels), around  # (O, I / G, *K)


def _on_cpu(
    x: jax.Array, w: jax.Array, strides: Sequence[int], pads: Pads, dilations: Sequence[int], groups: int
) -> jax.Array:
    if 0 in x.shape:
        return _plain(x, w, strides, pads, dilations, groups)
    if jnp.finfo(x.dtype).bits < 32:  # sums over taps use float32
        x32, w32 = x.astype(jnp.float32), w.astype(jnp.float32)
        return _fast(x32, w32, strides, pads, dilations, groups).astype(x.dtype)
    return _fast(x, w, strides, pads, dilations, groups)


def _transposed_on_cpu(
    x: jax.Array, w: jax.Array, strides: Sequence[int], pads: Pads, dilations: Sequence[int], groups: int
) -> jax.Array:
    if max(strides) == 1:
        turned, around = _turned(w, pads, dilations, groups)
        return _on_cpu(x, turned, strides, around, dilations, groups)
    if max(dilations) == 1 and 0 not in x.shape:
        # without dilation, tap t has phase `t mod stride`
        return _by_phases(x, w.reshape(groups, w.shape[0] // groups, *w.shape[1:]), strides, pads)
    return _plain_transposed(x, w, strides, pads, dilations, groups)


def _fast(
    x: jax.Array, w: jax.Array, strides: Sequence[int], pads: Pads, dilations: Sequence[int], groups: int
) -> jax.Array:
    kernels, rank = w.shape[2:], len(strides)
    padded = any(pad != (0, 0) for pad in pads)
    if groups == 1 and max(kernels) == 1 and not padded:
        return _pixelwise(lax.slice(x, (0,) * x.ndim, x.shape, (1, 1, *strides)), w)
    if groups == 1 and tuple(kernels) == tuple(strides) and max(dilations) == 1 and not padded:
        return _pixelwise(*_patches(x, w, strides))
    few = math.prod(kernels) <= _MOST_TAPS
    if groups > 1 and w.shape[1] == 1 and few:
        return _depthwise(_pad(x, pads), w, strides, dilations)
    if 1 < groups <= _MOST_GROUPS:
        parts = zip(jnp.split(x, groups, 1), jnp.split(w, groups, 0), strict=True)
        return jnp.concatenate([_fast(a, b, strides, pads, dilations, 1) for a, b in parts], 1)
    if groups > 1 and few:
        return _groupwise(_pad(x, pads), w, strides, dilations, groups)
    if rank == 3 and kernels[0] <= _MOST_TAPS:
        return _by_depth(x, w, strides, pads, dilations, groups)
    # If the output is larger than the input, XLA turns the kernel's gradient into a form that Eigen cannot run.
    spans = [d * (k - 1) for d, k in zip(dilations, kernels, strict=True)]
    if any(low + high > span for (low, high), span in zip(pads, spans, strict=True)):
        x, pads = _pad(x, pads), [(0, 0)] * rank
    return lax.conv_general_dilated(x, w, strides, pads, rhs_dilation=dilations, feature_group_count=groups)


def _pad(x: jax.Array, pads: Pads) -> jax.Array:
    return lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0)] * 2 + [(low, high, 0) for low, high in pads])


def _pixelwise(x: jax.Array, w: jax.Array) -> jax.Array:
    """Convolve with a kernel of one pixel: multiply the channels of every pixel by a matrix.

    Each large image is multiplied separately, which avoids transposes. Small images share one matrix product.
    """
    batch, channels, *sizes = x.shape
    matrix, pixels = w.reshape(w.shape[:2]), math.prod(sizes)
    images = reshaped(x, (batch, channels, pixels))  # (B, I, *S) -> (B, I, P)
    if pixels >= 2 * max(matrix.shape):
        # (B, O, I) times (B, I, P). The copies of the matrix are sharded as the images are.
        out = jnp.matmul(placed(jnp.broadcast_to(matrix, (batch, *matrix.shape)), x, (0, None, None)), images)
    else:
        out = matrix @ reshaped(images.swapaxes(0, 1), (channels, batch * pixels))  # (O, I) times (I, B·P)
        out = reshaped(out, (len(matrix), batch, pixels)).swapaxes(0, 1)  # (O, B·P) -> (B, O, P)
    return reshaped(out, (batch, len(matrix), *sizes))


def _patches(x: jax.Array, w: jax.Array, strides: Sequence[int]) -> tuple[jax.Array, jax.Array]:
    """Turn a convolution whose stride equals its kernel size into a convolution with a kernel of one pixel.

    The values of each patch of the input become the channels of one pixel.
    """
    sizes = [n // s for n, s in zip(x.shape[2:], strides, strict=True)]
    # The entries after the last complete patch contribute to no output.
    kept = lax.slice(x, (0,) * x.ndim, (*x.shape[:2], *(n * s for n, s in zip(sizes, strides, strict=True))))
    # (B, I, n, stride, n, stride, …) -> (B, I, stride, stride, …, n, n, …) -> (B, I · taps, n, n, …)
    split = reshaped(kept, (*x.shape[:2], *(v for pair in zip(sizes, strides, strict=True) for v in pair)))
    blocks, within = range(2, split.ndim, 2), range(3, split.ndim, 2)
    channels = x.shape[1] * math.prod(strides)
    pixels = reshaped(split.transpose(0, 1, *within, *blocks), (x.shape[0], channels, *sizes))
    return pixels, w.reshape(w.shape[0], channels, *(1,) * len(sizes))  # (O, I, *K) -> (O, I · taps, 1, 1, …)


def _taps(
    x: jax.Array, kernels: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Iterator[jax.Array]:
    """For each tap (entry) of the kernel, yield the entries (B, I, *S') of the input that this tap multiplies."""
    steps = list(zip(x.shape[2:], kernels, strides, dilations, strict=True))
    # from the first to the last entry that a tap multiplies: (outputs - 1) · stride + 1
    reach = [(n - d * (k - 1) - 1) // s * s + 1 for n, k, s, d in steps]
    for tap in itertools.product(*(range(k) for k in kernels)):
        starts = [t * d for t, d in zip(tap, dilations, strict=True)]
        ends = [start + r for start, r in zip(starts, reach, strict=True)]
        yield lax.slice(x, (0, 0, *starts), (*x.shape[:2], *ends), (1, 1, *strides))


def _depthwise(x: jax.Array, w: jax.Array, strides: Sequence[int], dilations: Sequence[int]) -> jax.Array:
    x = jnp.repeat(x, w.shape[0] // x.shape[1], 1)  # (B, O, *S): consecutive outputs belong to one input
    columns = w.reshape(w.shape[0], -1, *(1,) * len(strides))  # (O, taps, 1, 1, …)
    taps = _taps(x, w.shape[2:], strides, dilations)
    # The start of the sum takes tap 0 before the generator continues with tap 1.
    return sum((t * columns[:, k] for k, t in enumerate(taps, 1)), next(taps) * columns[:, 0])


def _groupwise(x: jax.Array, w: jax.Array, strides: Sequence[int], dilations: Sequence[int], groups: int) -> jax.Array:
    # matrices: (G, O / G, I / G, taps)
    batch, matrices, total = x.shape[0], w.reshape(groups, -1, w.shape[1], math.prod(w.shape[2:])), None
    for k, tap in enumerate(_taps(x, w.shape[2:], strides, dilations)):
        matrix = placed(jnp.broadcast_to(matrices[..., k], (batch, *matrices.shape[:3])), x, (0, None, None, None))
        sizes = tap.shape[2:]
        # (B, G, O / G, I / G) times (B, G, I / G, P)
        part = jnp.matmul(matrix, reshaped(tap, (batch, groups, w.shape[1], math.prod(sizes))))
        total = part if total is None else total + part
    assert total is not None
    return reshaped(total, (batch, w.shape[0], *sizes))  # (B, G, O / G, P) -> (B, O, *S')


def _by_depth(
    x: jax.Array, w: jax.Array, strides: Sequence[int], pads: Pads, dilations: Sequence[int], groups: int
) -> jax.Array:
    x = jnp.swapaxes(_pad(x, [pads[0], (0, 0), (0, 0)]), 1, 2)  # (B, D, I, H, W): a sequence of images
    steps, space = strides[0], dilations[0]
    count = (x.shape[1] - space * (w.shape[2] - 1) - 1) // steps + 1  # D', the depth of the output
    total: jax.Array | None = None
    for k in range(w.shape[2]):
        seen = lax.slice_in_dim(x, k * space, k * space + (count - 1) * steps + 1, steps, 1)  # (B, D', I, H, W)
        images = seen.reshape(-1, *x.shape[2:])  # (B · D', I, H, W)
        part = _fast(images, w[:, :, k], strides[1:], pads[1:], dilations[1:], groups)  # (B · D', O, H', W')
        total = part if total is None else total + part
    assert total is not None
    return jnp.swapaxes(total.reshape(-1, count, *total.shape[1:]), 1, 2)  # (B, O, D', H', W')


def _by_phases(x: jax.Array, grouped: jax.Array, strides: Sequence[int], pads: Pads) -> jax.Array:
    """Compute each phase of a transposed convolution with the taps that affect this phase, and interleave the phases.

    Entry u of an output dimension has phase `u mod stride`. `grouped` is the kernel, of shape (G, I / G, O / G, *K).
    """
    rank, (groups, ins, outs), kernels = len(strides), grouped.shape[:3], grouped.shape[3:]
    counts = [-(-k // s) for k, s in zip(kernels, strides, strict=True)]  # number of taps per phase
    fill = [(0, c * s - k, 0) for c, s, k in zip(counts, strides, kernels, strict=True)]
    w = lax.pad(grouped, jnp.zeros((), x.dtype), [(0, 0, 0)] * 3 + fill)  # zero taps make all phases equally long
    # (G, I / G, O / G, count, stride, count, stride, …): entry t of the kernel contributes to phase `t mod stride`
    w = w.reshape(groups, ins, outs, *(v for pair in zip(counts, strides, strict=True) for v in pair))
    w = w.transpose(0, 2, *range(4, w.ndim, 2), 1, *range(3, w.ndim, 2))  # (G, O / G, *strides, I / G, *counts)
    w = w.reshape(groups * outs * math.prod(strides), ins, *counts)  # each phase is an output channel of its own
    w = lax.rev(w, tuple(range(2, w.ndim)))  # as in `_turned`; so is the padding in the next line
    y = _on_cpu(x, w, (1,) * rank, [(c - 1, c - 1) for c in counts], (1,) * rank, groups)
    sizes = y.shape[2:]
    y = reshaped(y, (x.shape[0], groups * outs, *strides, *sizes))  # (B, O, stride, stride, …, n, n, …)
    order = [axis for d in range(rank) for axis in (2 + rank + d, 2 + d)]  # (B, O, n, stride, n, stride, …)
    whole = (n * s for n, s in zip(sizes, strides, strict=True))
    y = reshaped(y.transpose(0, 1, *order), (x.shape[0], groups * outs, *whole))  # (B, O, n · stride, n · stride, …)
    # The last `e` entries come from the zero taps only.
    return _pad(y, [(low, high - e) for (low, high), (_, e, _) in zip(pads, fill, strict=True)])
