"""Convolutions: each strip of the input is copied into panels, and the kernel is multiplied with the panels.

The operation `conv` gets a padded input. A convolution is computed as a plain sum for each element if it has one or two
output channels per group (such as a depthwise one), if it does not have one to three spatial dimensions, or if its
dtypes are neither float32 nor int8 with int32 results.

Letters: `B batch, I in_channels, O out_channels, G groups, S sizes of the input, K sizes of the kernel`.
"""

import math

import numpy as np

from funcnet.loops.index import Index, join
from funcnet.loops.matmul import step_of, wide_rows
from funcnet.loops.nest import Nest
from funcnet.loops.nest_kernels import computed, summed
from funcnet.loops.operations import ArrayValue, Operation
from funcnet.loops.pointwise import TYPES
from funcnet.loops.program import Program

__all__ = ["IM2COL", "lower_conv"]

_STRIP = 1 << 18  # numbers in a strip, which then stays in the second-level cache
_WRITTEN_OUT = 64
_FORMS = [tuple(map(np.dtype, types)) for types in (["float32"] * 3, ["int8", "int8", "int32"])]


def lower_conv(program: Program, operation: Operation) -> None:
    """Append the steps of a convolution of x (B, I, *S) with w (O, I / G, *K)."""
    (x, w), (out,), s = operation.operands, operation.results, operation.settings
    groups, rank = s["groups"], len(x.shape) - 2
    if not out.size:
        return
    rows = w.shape[0] // groups
    if rows <= 2 or rank > 3 or rank == 0 or (x.dtype, w.dtype, out.dtype) not in _FORMS:
        _plainly(program, operation)
        return
    three = lambda sizes, fill=1: (*(fill for _ in range(3 - rank)), *sizes)
    inner, kernel, outer = three(x.shape[2:]), three(w.shape[2:]), three(out.shape[2:])
    strides, dilations = three(s["strides"]), three(s["dilations"])
    channels, pixels, step = w.shape[1], math.prod(outer), step_of(x.dtype)
    k = channels * math.prod(kernel)
    strip = min(-(-pixels // 8) * 8, max(8, _STRIP // k // 8 * 8))
    matrix, row = program.whole(w), k
    if step > 1:
        matrix, row = wide_rows(program, w, ([], [0], range(1, rank + 2)), ([], w.shape[:1], w.shape[1:]))
    room = program.place(ArrayValue((-(-k // step) * step * strip,), x.dtype))
    nest = Nest(program)
    c, b = nest.argument(program.place(out), True), nest.argument(room, True)
    a, source = nest.argument(matrix), nest.argument(program.whole(x))
    area = math.prod(inner)
    numbers = [channels, *inner[1:], area, *kernel, *outer[1:], *strides, *dilations]
    sizes = ", ".join(str(n) for n in numbers)
    text = f"""static const int sizes[] = {{{sizes}}};
for (int n = 0; n < {x.shape[0]}; n++) for (int g = 0; g < {groups}; g++)
for (int p = 0; p < {pixels}; p += {strip}) {{
const int count = {pixels} - p < {strip} ? {pixels} - p : {strip};
im2col_{x.dtype}({b}, {source} + (n * {x.shape[1]} + g * {channels}) * {area}, sizes, p, count);
matmul_{x.dtype}({c} + (n * {out.shape[1]} + g * {rows}) * {pixels} + p, {pixels}, {a} + g * {rows * row}, {row},
{step}, {b}, {rows}, count, {-(-k // step)});
}}
"""
    program.call(nest.kernel(text))


def _plainly(program: Program, operation: Operation) -> None:
    (x, w), (out,), s = operation.operands, operation.results, operation.settings
    channels, rows = w.shape[1], w.shape[0] // s["groups"]
    ctype, place = TYPES[str(out.dtype)], program.place(out)
    taps = [channels, *w.shape[2:]]

    def product(nest: Nest, index: list[Index], tap: list[Index]) -> str:
        group = nest.divided(index[1], rows)[0] if rows > 1 else index[1]
        if s["groups"] == 1:
            group = Index()
        pixel = zip(index[2:], s["strides"], tap[1:], s["dilations"], strict=True)
        inner = [index[0], group * channels + tap[0], *(i * by + t * apart for i, by, t, apart in pixel)]
        a, b = nest.read(x, inner), nest.read(w, [index[1], *tap])
        return nest.let(ctype, f"({ctype}){a} * ({ctype}){b}")

    if math.prod(taps) > _WRITTEN_OUT:
        program.call(summed(program, out, place, taps, "sum", product))
        return

    def read(nest: Nest, index: list[Index]) -> str:
        total = ""
        for tap in np.ndindex(*taps):
            one = product(nest, index, [Index(t) for t in tap])
            total = nest.let(ctype, f"{total} + {one}") if total else one
        return total

    program.call(computed(program, out.shape, read, place, lambda index: join(index, out.shape)))


# `s` is: channels, two sizes of the input, elements of a channel, three sizes of the kernel, two sizes of the output,
# three strides, three dilations. In panels of int8, the bytes of two rows are written side by side.
IM2COL = r"""
#define IM2COL(KIND, TYPE) \
static __attribute__((noinline)) void im2col_##KIND(TYPE *restrict out, const TYPE *restrict x, const int *s, \
    int first, int count) { \
  const int channels = s[0], height = s[1], width = s[2], area = s[3]; \
  for (int p = first; p < first + count; p += 8) { \
    int at[8], near = 1, odd = 0; \
    for (int l = 0; l < 8; l++) { \
      const int q = p + l < first + count ? p + l : first + count - 1; \
      const int column = q % s[8], rest = q / s[8], row = rest % s[7], plane = rest / s[7]; \
      at[l] = (plane * s[9] * height + row * s[10]) * width + column * s[11]; \
      near &= at[l] == at[0] + l; \
    } \
    for (int c = 0; c < channels; c++) \
      for (int i = 0; i < s[4]; i++) for (int j = 0; j < s[5]; j++) for (int k = 0; k < s[6]; k++) \
        out = row_##KIND(out, x + c * area + (i * s[12] * height + j * s[13]) * width + k * s[14], at, near, &odd); \
    if (odd) out += 16; \
  } \
}
INLINE float *row_float32(float *out, const float *x, const int *at, int near, int *odd) {
  if (near) {
    wasm_v128_store(out, wasm_v128_load(x + at[0]));
    wasm_v128_store(out + 4, wasm_v128_load(x + at[0] + 4));
  } else for (int l = 0; l < 8; l++) out[l] = x[at[l]];
  return out + 8;
}
INLINE signed char *row_int8(signed char *out, const signed char *x, const int *at, int near, int *odd) {
  unsigned short *pairs = (unsigned short *)out;
  const int second = *odd;
  *odd = !second;
  if (near) {
    const v128_t row = wasm_u16x8_load8x8(x + at[0]);
    wasm_v128_store(pairs, second ? wasm_v128_or(wasm_v128_load(pairs), wasm_i16x8_shl(row, 8)) : row);
  } else if (second) for (int l = 0; l < 8; l++) pairs[l] |= (unsigned char)x[at[l]] << 8;
  else for (int l = 0; l < 8; l++) pairs[l] = (unsigned char)x[at[l]];
  return second ? out + 16 : out;
}
IM2COL(float32, float)
IM2COL(int8, signed char)
"""
