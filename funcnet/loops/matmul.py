"""Matrix products: `dot` becomes calls of a C function that keeps tiles of four rows and eight columns in registers.

Letters: `M rows, N columns, K products in each sum`. The right operand is stored in panels of eight columns, with shape
(⌈N / 8⌉, K, 8). Constant operands are packed into panels in advance. Products are summed in blocks of 256, so that both
operands stay in the cache and rounding errors stay small.

Integers that fit in 16 bits are multiplied in pairs: `i32x4.dot_i16x8_s` adds two products. The left operand of a
product of integers is copied to int16, and its right operand is stored in panels (⌈N / 8⌉, ⌈K / 2⌉, 8, 2) of int8 or
int16.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from funcnet.loops.constant_storage import PANEL, Weights, evaluated, packed
from funcnet.loops.index import Index, join
from funcnet.loops.nest import Location, Nest
from funcnet.loops.nest_kernels import computed, summed, variables
from funcnet.loops.operations import ArrayValue, Operation
from funcnet.loops.pointwise import TYPES
from funcnet.loops.program import Program

__all__ = ["MATMUL", "announce", "lower_dot", "narrow", "step_of", "stride", "wide_rows"]


def lower_dot(program: Program, operation: Operation) -> None:
    """Append the steps of a matrix product, the operation `dot`, to a program."""
    (a, b), (out,) = operation.operands, operation.results
    (ka, kb), (ba, bb) = operation.settings["contract"], operation.settings["batch"]
    free_a = [i for i in range(len(a.shape)) if i not in (*ka, *ba)]
    free_b = [i for i in range(len(b.shape)) if i not in (*kb, *bb)]
    place, dtype = program.place(out), _panel_type(operation)
    if dtype is None or 0 in (*a.shape, *b.shape):
        _plainly(program, operation, free_a, free_b, place)
        return
    batch, ms = [a.shape[i] for i in ba], [a.shape[i] for i in free_a]
    ns, ks = [b.shape[i] for i in free_b], [a.shape[i] for i in ka]
    step = step_of(dtype)
    m, n, k = math.prod(ms), math.prod(ns), -(-math.prod(ks) // step)
    left = _Left(program, a, (ba, free_a, ka), (batch, ms, ks), step)
    right = _right(program, b, (bb, free_b, kb), (batch, ns, ks), dtype)
    nest = Nest(program)
    c, x, y = nest.argument(place, True), nest.argument(left.place), nest.argument(right)
    panels = -(-n // PANEL) * PANEL * k * step
    names = [nest.loop(size) for size in batch]
    at = join(names, batch)
    offset = Index(left.offset.constant, tuple(t for t in left.offset.terms if t[0] in left.batch))
    rename = {old: new for old, one in zip(left.names, names, strict=True) for new, _ in one.terms if old}
    offset = Index(offset.constant, tuple(sorted((rename[v], f) for v, f in offset.terms)))
    call = f"matmul_{dtype}({c} + {(at * (m * n)).text()}, {n}, {x} + {offset.text()}, {left.rows}, {left.columns}, "
    call += f"{y} + {(at * panels).text()}, {m}, {n}, {k});\n"
    loops = nest.heads([v for one in names for v, _ in one.terms])
    program.call(nest.kernel(f"{loops}{call}"))


def _panel_type(operation: Operation) -> np.dtype | None:
    """Return the dtype of the panels of the right operand, or None if the product must be a plain sum."""
    (a, b), (out,) = operation.operands, operation.results
    if {a.dtype, b.dtype, out.dtype} == {np.dtype("float32")}:
        return out.dtype
    return narrow(b) if out.dtype == np.int32 and narrow(a) is not None else None


def narrow(value: ArrayValue) -> np.dtype | None:
    """Return the dtype int8 or int16 if it is known to hold all numbers of an array. Otherwise return None.

    This is known if the array has dtype int8, int16 or uint8, or is a view or a conversion of such an array.
    """
    found = None
    while True:
        if value.dtype == np.int8:
            return value.dtype
        if value.dtype in (np.int16, np.uint8):
            found = np.dtype(np.int16)
        operation = value.operation
        if operation is None or operation.name not in ("convert", "reshape", "transpose", "broadcast", "slice"):
            return found
        if value.dtype.kind != "i" or operation.operands[0].dtype.kind not in "iu":
            return found
        if not np.can_cast(operation.operands[0].dtype, value.dtype):
            return found
        value = operation.operands[0]


def step_of(dtype: np.dtype) -> int:
    """Return the number of products that one instruction adds to a sum: 2 for integers, otherwise 1."""
    return 1 if dtype.kind == "f" else 2


def announce(weights: Weights, operation: Operation) -> None:
    """If a `dot` reads a constant matrix of float32, make all readers of the matrix use it in panels."""
    b = operation.operands[1]
    axes = list(range(len(b.shape)))
    while b.constant is None and b.operation is not None and b.operation.name == "transpose":
        axes = [b.operation.settings["permutation"][axis] for axis in axes]
        b = b.operation.operands[0]
    contract = operation.settings["contract"][1]
    if b.constant is not None and len(b.shape) == 2 and len(contract) == 1 and b.dtype == np.float32:
        weights.read_in_panels(b, axes[contract[0]])


def stride(position: Index, names: Sequence[str], sizes: dict[str, int]) -> int | None:
    """Return by how much a position grows with each step of nested loop variables, or None if the steps differ."""
    if not names:
        return 0
    step = position.factor(names[-1])
    whole = step
    for outer, inner in zip(reversed(names[:-1]), reversed(names[1:]), strict=True):
        whole *= sizes[inner]
        if position.factor(outer) != whole:
            return None
    return step


class _Left:
    """The left operand of a matrix product: its location, and the steps between its rows and between its columns."""

    def __init__(self, program: Program, a: ArrayValue, axes: tuple, sizes: tuple, step: int):
        if step > 1:
            batch, ms, _ = sizes
            self.place, self.rows = wide_rows(program, a, axes, sizes)
            self.columns, loop = step, Nest(program)
            names, self.batch = variables(loop, batch)
            self.names = [one.terms[0][0] if one.terms else "" for one in names]
            self.offset = join(names, batch) * (math.prod(ms) * self.rows)
        elif not self.look(program, a, axes, sizes):
            whole = [n for part in sizes for n in part]
            copy = ArrayValue(tuple(whole), a.dtype)
            order = [i for part in axes for i in part]
            place = program.place(copy)
            read = lambda nest, index: nest.read(a, _ordered(index, order))
            program.call(computed(program, whole, read, place, lambda index: join(index, whole)))
            spans = np.cumsum([0, *(len(part) for part in sizes)])
            found = self.look(program, copy, [range(*ends) for ends in itertools.pairwise(spans)], sizes)
            assert found

    def look(self, program: Program, a: ArrayValue, axes: Sequence, sizes: Sequence) -> bool:
        nest = Nest(program)
        loops = [variables(nest, part) for part in sizes]
        index = _ordered([one for part, _ in loops for one in part], [axis for part in axes for axis in part])
        names = [v for _, part in loops for v in part]
        found = nest.simple_load(nest.read(a, index), names)
        if found is None:
            return False
        self.place, self.offset = found
        rows, columns = (stride(self.offset, part, nest.sizes) for _, part in loops[1:])
        if rows is None or columns is None:
            return False
        self.rows, self.columns, self.batch = rows, columns, loops[0][1]
        self.names = [one.terms[0][0] if one.terms else "" for one in loops[0][0]]
        return True


def _ordered(index: Sequence[Index], axes: Sequence[int]) -> list[Index]:
    """Return the index of an array. The i-th component of `index` belongs to the axis `axes[i]` of the array."""
    inner = [Index()] * len(axes)
    for one, axis in zip(index, axes, strict=True):
        inner[axis] = one
    return inner


def wide_rows(program: Program, a: ArrayValue, axes: tuple, sizes: tuple) -> tuple[Location, int]:
    """Append the kernels that copy the left operand of a matrix product of integers to int16.

    Return the location of the copy, and the number of elements in each of its rows. If the number of columns is odd,
    the copy has an additional column of zeros.

    Args:
        program: the program.
        a: the left operand.
        axes: axes of the operand, in three groups: batch, rows and columns.
        sizes: sizes of the axes in `axes`, in the same groups.
    """
    batch, ms, ks = sizes
    rows, k = [*batch, *ms], math.prod(ks)
    width = k + k % 2
    place = program.place(ArrayValue((math.prod(rows), width), np.dtype(np.int16)))
    order = [axis for part in axes for axis in part]

    def position(index: list[Index]) -> Index:
        return join(index[: len(rows)], rows) * width + join(index[len(rows) :], ks)

    read = lambda nest, index: nest.read(a, _ordered(index, order))
    program.call(computed(program, [*rows, *ks], read, place, position))
    if k % 2:
        program.call(computed(program, rows, lambda nest, index: "0", place, lambda i: join(i, rows) * width + k))
    return place, width


def _right(program: Program, b: ArrayValue, axes: tuple, sizes: tuple, dtype: np.dtype) -> Location:
    """Return the location of the right operand's panels. Append the kernels that pack the operand into panels, unless
    it is a constant.

    The padding of the last panel and of the last pair of rows may hold any numbers. The product does not store the
    columns of the padding, and multiplies its row by zeros.
    """
    batch, ns, ks = sizes
    of_batch, of_n, of_k = axes
    count, n, k, step = math.prod(batch), math.prod(ns), math.prod(ks), step_of(dtype)
    numbers = evaluated(b)
    if numbers is not None:
        matrix = numbers.transpose([*of_batch, *of_k, *of_n]).reshape(count, k, n).astype(dtype)
        key = program.weights.add(packed(matrix, step))
        return Location(key, key.dtype)
    whole = [*batch, -(-n // PANEL), -(-k // step), PANEL, step]
    place = program.place(ArrayValue(tuple(whole), dtype))
    for first, blocks, width in ((0, n // PANEL, PANEL), (n // PANEL, 1, n % PANEL)):
        for start, steps, depth in ((0, k // step, step), (k // step, 1, k % step)):

            def moved(index: list[Index], first: int = first, start: int = start) -> list[Index]:
                panel, at, lane, part = index[-4:]
                return [*index[:-4], panel + first, at + start, lane, part]

            def read(nest: Nest, index: list[Index], moved: Callable = moved) -> str:
                *lead, panel, at, lane, part = moved(index)
                columns, rows = nest.parts(panel * PANEL + lane, ns), nest.parts(at * step + part, ks)
                return nest.read(b, _ordered([*lead, *columns, *rows], [*of_batch, *of_n, *of_k]))

            def position(index: list[Index], moved: Callable = moved) -> Index:
                return join(moved(index), whole)

            if blocks * steps * width * depth:
                program.call(computed(program, [*batch, blocks, steps, width, depth], read, place, position))
    return place


def _plainly(program: Program, operation: Operation, free_a: list[int], free_b: list[int], place: Location) -> None:
    """Append a matrix product of other dtypes, or of empty arrays, as a plain sum for each element."""
    (a, b), (out,) = operation.operands, operation.results
    (ka, kb), (ba, bb) = operation.settings["contract"], operation.settings["batch"]

    def read(nest: Nest, index: list[Index], inner: list[Index]) -> str:
        lead, rest = index[: len(ba)], index[len(ba) :]
        left, right = [Index()] * len(a.shape), [Index()] * len(b.shape)
        for where, axes in ((left, (*ba, *free_a, *ka)), (right, (*bb, *free_b, *kb))):
            own = rest[: len(free_a)] if where is left else rest[len(free_a) :]
            for axis, one in zip(axes, [*lead, *own, *inner], strict=True):
                where[axis] = one
        return _product(nest, nest.read(a, left), nest.read(b, right), out.dtype)

    program.call(summed(program, out, place, [a.shape[i] for i in ka], "sum", read))


def _product(nest: Nest, x: str, y: str, dtype: np.dtype) -> str:
    ctype = TYPES[str(dtype)]
    return nest.let(ctype, f"({ctype}){x} * ({ctype}){y}")


# Loops over rows are unrolled, so that every sum has a register. The loop over k is not unrolled: engines unroll it
# themselves, and ran out of registers if the compiler had unrolled it before.
# The functions compute c (m, n) as the product of a (m, k) and the panels b. Rows of c are `ldc` elements apart. Rows
# of a are `rs` elements apart, and its columns `cs` elements.
# Integers are multiplied in pairs: k counts pairs, `cs` is 2, and a panel has the pairs of eight columns side by side.
MATMUL = r"""
#define EACH(R) _Pragma("clang loop unroll(full)") for (int r = 0; r < R; r++)
#define TILE(KIND, R, SUM, LEFT, RIGHT, STEP) \
static inline __attribute__((always_inline)) void tile##R##_##KIND(SUM *c, int ldc, const LEFT *a, int rs, int cs, \
    const RIGHT *b, int k, int width, int more) { \
  v128_t s[R][2]; \
  const LEFT *row[R]; \
  EACH(R) { s[r][0] = s[r][1] = wasm_i32x4_const_splat(0); row[r] = a + r * rs; } \
  for (int p = 0; p < k; p++, b += 8 * STEP) { \
    v128_t b0, b1; \
    columns_##KIND(b, &b0, &b1); \
    EACH(R) { \
      v128_t x = wasm_v128_load32_splat(row[r]); \
      s[r][0] = more_##SUM(s[r][0], x, b0); \
      s[r][1] = more_##SUM(s[r][1], x, b1); \
      row[r] += cs; \
    } \
  } \
  SUM t[R][8]; /* only read for the last columns, so that no sum has an address */ \
  EACH(R) if (width == 8) { \
    SUM *y = c + r * ldc; \
    wasm_v128_store(y, more ? plus_##SUM(s[r][0], wasm_v128_load(y)) : s[r][0]); \
    wasm_v128_store(y + 4, more ? plus_##SUM(s[r][1], wasm_v128_load(y + 4)) : s[r][1]); \
  } else { wasm_v128_store(t[r], s[r][0]); wasm_v128_store(t[r] + 4, s[r][1]); } \
  if (width < 8) for (int r = 0; r < R; r++) for (int j = 0; j < width; j++) \
    c[r * ldc + j] = more ? c[r * ldc + j] + t[r][j] : t[r][j]; \
}
#define PRODUCT(KIND, SUM, LEFT, RIGHT, STEP) \
TILE(KIND, 1, SUM, LEFT, RIGHT, STEP) TILE(KIND, 2, SUM, LEFT, RIGHT, STEP) \
TILE(KIND, 3, SUM, LEFT, RIGHT, STEP) TILE(KIND, 4, SUM, LEFT, RIGHT, STEP) \
static __attribute__((noinline)) void matmul_##KIND(SUM *c, int ldc, const LEFT *a, int rs, int cs, const RIGHT *b, \
    int m, int n, int k) { \
  const int columns = m <= 32 ? 8 : n; /* few rows: the panels are read from beginning to end */ \
  for (int m0 = 0; m0 < m; m0 += 128) { \
    const int m1 = m - m0 < 128 ? m : m0 + 128; \
    for (int n0 = 0; n0 < n; n0 += columns) for (int k0 = 0; k0 < k; k0 += 256) { \
      const int kc = k - k0 < 256 ? k - k0 : 256; \
      for (int j = n0; j < n0 + columns && j < n; j += 8) { \
        const RIGHT *panel = b + (j * k + k0 * 8) * STEP; \
        const LEFT *x = a + m0 * rs + k0 * cs; \
        const int width = n - j < 8 ? n - j : 8; \
        SUM *y = c + m0 * ldc + j; \
        int i = m0; \
        for (; i + 4 <= m1; i += 4, x += 4 * rs, y += 4 * ldc) \
          tile4_##KIND(y, ldc, x, rs, cs, panel, kc, width, k0 > 0); \
        if (m1 - i == 3) tile3_##KIND(y, ldc, x, rs, cs, panel, kc, width, k0 > 0); \
        if (m1 - i == 2) tile2_##KIND(y, ldc, x, rs, cs, panel, kc, width, k0 > 0); \
        if (m1 - i == 1) tile1_##KIND(y, ldc, x, rs, cs, panel, kc, width, k0 > 0); \
      } \
    } \
  } \
}
INLINE v128_t plus_float(v128_t x, v128_t y) { return wasm_f32x4_add(x, y); }
INLINE v128_t plus_int(v128_t x, v128_t y) { return wasm_i32x4_add(x, y); }
INLINE v128_t more_float(v128_t sum, v128_t x, v128_t y) {
#ifdef __wasm_relaxed_simd__
  return wasm_f32x4_relaxed_madd(x, y, sum);
#else
  return wasm_f32x4_add(sum, wasm_f32x4_mul(x, y));
#endif
}
INLINE v128_t more_int(v128_t sum, v128_t x, v128_t y) { return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(x, y)); }
INLINE void columns_float32(const float *b, v128_t *b0, v128_t *b1) {
  *b0 = wasm_v128_load(b);
  *b1 = wasm_v128_load(b + 4);
}
INLINE void columns_int8(const signed char *b, v128_t *b0, v128_t *b1) {
  const v128_t both = wasm_v128_load(b);
  *b0 = wasm_i16x8_extend_low_i8x16(both);
  *b1 = wasm_i16x8_extend_high_i8x16(both);
}
INLINE void columns_int16(const short *b, v128_t *b0, v128_t *b1) {
  *b0 = wasm_v128_load(b);
  *b1 = wasm_v128_load(b + 8);
}
PRODUCT(float32, float, float, float, 1)
PRODUCT(int8, int, short, signed char, 2)
PRODUCT(int16, int, short, short, 2)
"""
