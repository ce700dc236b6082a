"""Convolutions by the kernels of `funcnet.operators.native`, as products for `platforms.bilinear`.

A convolution and its two gradients are derivatives of one another. With `y` the convolution of `x` and `w`:

| kind | arguments | result | its derivatives |
| --- | --- | --- | --- |
| result | x, w | y | input, weight |
| input | w, y | x | weight, result |
| weight | x, y | w | input, result |

Letters: `B batch, I in_channels, O out_channels, G groups, S spatial sizes, K kernel sizes`.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import jax
from jax.core import ShapedArray

from funcnet.functional.platforms import Product, batched, form, transposed
from funcnet.functional.sharding import partition
from funcnet.operators import native

__all__ = ["ConvolutionKernel", "Pads", "convolution_kernel", "transposed_kernel"]

Kind = Literal["result", "input", "weight"]
Pads = Sequence[tuple[int, int]]
ARGUMENTS: dict[Kind, tuple[Kind, Kind]] = {
    "result": ("input", "weight"),
    "input": ("weight", "result"),
    "weight": ("input", "result"),
}


@dataclasses.dataclass(frozen=True)
class ConvolutionKernel:
    """A convolution, or one of its gradients, as a product of two arrays.

    Attributes:
        kind: what it computes.
        is_swapped: whether its two arguments are in the other order.
        sizes: the spatial sizes S of the input.
        kernel: the sizes K of the kernel.
        strides, pads, dilations, groups: those of the convolution.
        fallback: the same product, computed by XLA.
    """

    kind: Kind
    is_swapped: bool
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilations: tuple[int, ...]
    groups: int
    fallback: Product

    def __call__(self, a: jax.Array, b: jax.Array, devices: int = 1) -> jax.Array:
        """Return the product, where `devices` devices may share the arrays."""
        a, b = (b, a) if self.is_swapped else (a, b)
        settings = self.strides, self.pads, self.dilations, self.groups
        if self.kind == "result":
            return native.convolution(a, b, *settings)
        if self.kind == "input":
            return native.convolution_input(a, b, *settings, self.sizes)
        return native.convolution_weight(a, b, *settings, self.kernel, devices)

    def transposed(self, index: int, aval: ShapedArray) -> Product:
        """Return the transpose with respect to argument `index`, a function of the other argument and the cotangent."""
        wanted, given = self.names()[index], (self.names()[1 - index], self.kind)
        return dataclasses.replace(
            self,
            kind=wanted,
            is_swapped=given != ARGUMENTS[wanted],
            fallback=transposed(self.fallback, index, aval),
        )

    def batched(self, axes: tuple[int | None, int | None]) -> Product:
        """Return the product of arrays with an additional axis 0 where `axes` are not None."""
        mapped = {name for name, axis in zip(self.names(), axes, strict=True) if axis is not None}
        if self.kind != "weight" and "weight" in mapped:  # many convolutions at once, which oneDNN does not know
            return batched(self.fallback, axes)
        return _Mapped(self, axes)

    def names(self) -> tuple[Kind, ...]:
        """Return what the two arguments are."""
        names = ARGUMENTS[self.kind]
        return names[::-1] if self.is_swapped else names


@dataclasses.dataclass(frozen=True)
class _Mapped:
    """A kernel whose arguments have an additional axis 0 where `axes` are not None. The result has it, or, with
    `is_summed`, is the sum over it. Then both arguments have the axis.
    """

    one: Any
    axes: tuple[int | None, int | None]
    is_summed: bool = False

    def __call__(self, a: jax.Array, b: jax.Array, **devices: int) -> jax.Array:
        found: jax.Array = jax.vmap(functools.partial(self.one, **devices), self.axes)(a, b)
        return found.sum(0) if self.is_summed else found

    @property
    def fallback(self) -> Product:
        return _Mapped(self.one.fallback, self.axes, self.is_summed)

    def transposed(self, index: int, aval: ShapedArray) -> Product:
        is_mapped = self.axes[index] is not None
        inner = aval.update(shape=aval.shape[1:]) if is_mapped else aval
        axes = (self.axes[1 - index], None if self.is_summed else 0)
        return _Mapped(self.one.transposed(index, inner), axes, is_summed=not is_mapped)

    def batched(self, axes: tuple[int | None, int | None]) -> Product:
        return _Mapped(self, axes)


def convolution_kernel(
    plain: Callable[..., jax.Array],
    x: jax.Array,
    w: jax.Array,
    strides: tuple[int, ...],
    pads: tuple[tuple[int, int], ...],
    dilations: tuple[int, ...],
    groups: int,
) -> ConvolutionKernel | None:
    """Return the kernel of a convolution of x (B, I, *S) and w (O, I / G, *K), or None if there is none.

    Args:
        plain: the function of x, w and the following arguments that computes it by XLA.
        x, w, strides, pads, dilations, groups: its arguments.
    """
    if not _has_kernel(x, w) or min(min(pair) for pair in pads) < 0:
        return None
    fallback = form(plain, strides, pads, dilations, groups)
    return ConvolutionKernel("result", False, x.shape[2:], w.shape[2:], strides, pads, dilations, groups, fallback)


def transposed_kernel(
    plain: Callable[..., jax.Array],
    x: jax.Array,
    w: jax.Array,
    strides: tuple[int, ...],
    pads: tuple[tuple[int, int], ...],
    dilations: tuple[int, ...],
    groups: int,
) -> ConvolutionKernel | None:
    """Return the kernel of a transposed convolution of x (B, I, *S) and w (I, O / G, *K), or None if there is none.

    It is the gradient of the input of a convolution whose result has the sizes S.

    Args:
        plain: the function of x, w and the following arguments that computes it by XLA.
        x, w, strides, pads, dilations, groups: its arguments. `pads` are added to the result, as in
            `convolve_transposed`.
    """
    if not _has_kernel(x, w) or max(low for low, _ in pads) > 0:
        return None
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, w.shape[2:], strict=True)]
    least = [(n - 1) * s + span for n, s, span in zip(x.shape[2:], strides, spans, strict=True)]
    sizes = tuple(n + low + high for n, (low, high) in zip(least, pads, strict=True))
    around = tuple((-low, n - size + low) for n, size, (low, _) in zip(least, sizes, pads, strict=True))
    if min(sizes) < 1 or min(map(min, around)) < 0:  # oneDNN has no negative padding on every processor
        return None
    fallback = form(plain, strides, pads, dilations, groups)
    return ConvolutionKernel("input", True, sizes, w.shape[2:], strides, around, dilations, groups, fallback)


def _has_kernel(x: jax.Array, w: jax.Array) -> bool:
    is_fixed = all(isinstance(size, int) for size in x.shape)  # no symbolic sizes of jax.export
    is_explicit = partition(x) or partition(w)  # reshapes of the kernel's gradient need an explicit sharding
    return is_fixed and not is_explicit and x.size > 0 and w.size > 0 and native.is_used("convolution", x, w)
