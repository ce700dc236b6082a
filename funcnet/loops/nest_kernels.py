"""Kernels that are one nest of loops: copies, elementwise operations, reductions and cumulative operations."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from funcnet.loops.index import Index, join
from funcnet.loops.nest import Kernel, Location, Locator, Nest, loops_over
from funcnet.loops.operations import ArrayValue, Operation
from funcnet.loops.pointwise import TYPES, combined, identity, literal

__all__ = ["argument_of_extreme", "computed", "reduced", "running", "summed", "variables"]

_LANES = 16  # sums that are computed at a time: four vectors, so that additions do not wait for each other
_VECTOR = "#pragma clang loop vectorize(enable) interleave_count(4)\n"
_REASSOCIATE = "{\n#pragma clang fp reassociate(on)\n"

Read = Callable[[Nest, list[Index]], str]


def variables(nest: Nest, shape: Sequence[int], prefix: str = "i") -> tuple[list[Index], list[str]]:
    """Make a loop variable for every axis of a shape.

    Return the variables as an index, and the names of the variables with more than one value.
    """
    index = [nest.loop(n, prefix) for n in shape]
    return index, [name for one in index for name, _ in one.terms]


def computed(storage: Locator, shape: Sequence[int], read: Read, place: Location, position: Callable) -> Kernel:
    """Return the kernel that computes and stores one element for every index.

    Args:
        storage: knows which values are stored, and where their elements lie.
        shape: the sizes of the loops.
        read: function (nest, index) that appends the statements for an element, and returns the element's name in C.
        place: the array in which the elements are stored.
        position: function that returns the position of the element at an index in this array.
    """
    nest = Nest(storage)
    nest.argument(place, written=True)
    index, names = variables(nest, shape)
    nest.store(place, position(index), read(nest, index))
    return nest.kernel(loops_over(nest, names))


def reduced(storage: Locator, operation: Operation, place: Location) -> Kernel:
    """Return the kernel of a reduction over some axes."""
    (x,), (out,) = operation.operands, operation.results
    axes, kind = operation.settings["axes"], operation.settings["kind"]
    return summed(storage, out, place, [n for a, n in enumerate(x.shape) if a in axes], kind, _reader(x, axes))


def _reader(x: ArrayValue, axes: Sequence[int]) -> Callable[[Nest, list[Index], list[Index]], str]:
    def read(nest: Nest, kept: list[Index], gone: list[Index]) -> str:
        outer, inner = iter(kept), iter(gone)
        return nest.read(x, [next(inner) if a in axes else next(outer) for a in range(len(x.shape))])

    return read


def summed(
    storage: Locator,
    out: ArrayValue,
    place: Location,
    sizes: Sequence[int],
    kind: str,
    read: Callable[[Nest, list[Index], list[Index]], str],
) -> Kernel:
    """Return the kernel that combines `read(nest, index, inner)` over all inner indices, for each element of `out`.

    If the elements that are combined are adjacent in memory, the innermost loop runs over them. Otherwise, the
    innermost loop runs over elements of a row of the result, so that it also reads neighbouring elements.

    Args:
        storage: knows which values are stored, and where their elements lie.
        out: the result.
        place: the array in which the result is stored.
        sizes: sizes of the axes over which elements are combined.
        kind: how elements are combined, such as "sum" or "max".
        read: function that appends the statements for an element, and returns the element's name in C.
    """
    nest = Nest(storage)
    nest.argument(place, written=True)
    index, names = variables(nest, out.shape)
    inner, inner_names = variables(nest, sizes, "r")
    atom = read(nest, index, inner)
    position = join(index, out.shape)
    # for the innermost loop of each kind: how far apart in memory the elements are that its next turn loads
    steps = {v: [abs(p.factor(v)) for _, p, _ in nest.loads] for v in (names[-1:] + inner_names[-1:])}
    if names and inner_names and kind in ("sum", "max", "min", "prod") and out.dtype.kind == "f":
        outer_steps, inner_steps = steps[names[-1]], steps[inner_names[-1]]
        if max(outer_steps, default=0) == 1 and max(inner_steps, default=0) > 1:
            return _side_by_side(nest, out, place, position, kind, atom, names, inner_names)
    ctype = "int" if out.dtype == bool else TYPES[str(out.dtype)]
    start = literal(identity(kind, out.dtype), out.dtype)
    add = f"{combined(kind, 's', atom, out.dtype)};\n"
    # A vectorized sum adds in another order. For floating-point numbers, clang needs permission to do that.
    add = f"{_REASSOCIATE}s = {add}}}\n" if kind == "sum" and out.dtype.kind == "f" else f"s = {add}"
    loop = loops_over(nest, inner_names, after=add, inside=True)
    loop = _blocked(nest, loop, kind, out.dtype)
    target = f"{nest.argument(place, True)}[{{}}] = s;\n"
    shell = [(target.split("{}")[0], position, target.split("{}")[1])]
    return nest.kernel(_around(nest, names, shell, f"{ctype} s = {start};\n{loop}"))


def _around(nest: Nest, names: Sequence[str], store: list, before: str) -> str:
    inside = "".join("".join(p.text() if isinstance(p, Index) else p for p in line) for line in store)
    return f"{nest.heads(names)}{{\n{before}{inside}}}\n"


def _blocked(nest: Nest, loop: str, kind: str, dtype: np.dtype) -> str:
    """Divide the innermost loop of a floating-point sum into blocks, each of which has a separate sum."""
    head, _, body = loop.partition("{\n")
    loops = head.split("for ")[1:]
    if not loops:
        return loop
    outer, last = "".join(f"for {one}" for one in loops[:-1]), loops[-1]
    name = last.split()[1]
    size = nest.sizes[name]
    if kind != "sum" or dtype.kind != "f":
        vector = _VECTOR if kind in ("max", "min") and dtype.kind == "f" else ""
        return f"{outer}{{\n{vector}for {last}{{\n{body}}}\n" if outer else f"{vector}for {last}{{\n{body}"
    block = _block_of(size)
    if size <= block and not outer:
        return f"{_VECTOR}for {last}{{\n{body}"
    blocks = f"for (int b = 0; b < {size}; b += {block}) {{\nfloat total = s; s = 0.0f;\n"
    blocks += f"const int e = b + {block} < {size} ? b + {block} : {size};\n"
    return f"{outer}{blocks}{_VECTOR}for (int {name} = b; {name} < e; {name}++) {{\n{body}s += total;\n}}\n"


def _block_of(size: int) -> int:
    """Return the number of elements in each block of a long sum. The sum of a block is added to the total.

    Rounding errors grow with the number of consecutive additions. Each lane of a block adds its elements, and the total
    adds the sums of the blocks. With the returned number, both need about equally many additions.
    """
    return max(256, 1 << math.ceil(math.log2(max(1, size) * _LANES) / 2))


def _side_by_side(
    nest: Nest,
    out: ArrayValue,
    place: Location,
    position: Index,
    kind: str,
    atom: str,
    names: list[str],
    inner: list[str],
) -> Kernel:
    """Return the kernel of a reduction that combines whole rows, some columns at a time, so that the sums stay in
    registers.
    """
    row, p, last = names[-1], nest.argument(place, True), inner[-1]
    width, size = nest.sizes[row], nest.sizes[last]
    start = literal(identity(kind, out.dtype), out.dtype)
    block = _block_of(size) if kind == "sum" else size
    body = "".join("".join(q.text() if isinstance(q, Index) else q for q in line) + "\n" for line in nest.lines)
    columns = f"for (int j = 0; j < w; j++) {{ const int {row} = c + j;\n"
    text = f"""{nest.heads(names[:-1])}for (int c = 0; c < {width}; c += {_LANES}) {{
const int w = c + {_LANES} < {width} ? {_LANES} : {width} - c;
float s[{_LANES}], t[{_LANES}];
for (int j = 0; j < {_LANES}; j++) s[j] = {start};
{nest.heads(inner[:-1], inside=True)}for (int b = 0; b < {size}; b += {block}) {{
const int e = b + {block} < {size} ? b + {block} : {size};
for (int j = 0; j < {_LANES}; j++) t[j] = {start};
for (int {last} = b; {last} < e; {last}++) {columns}{body}t[j] = {combined(kind, "t[j]", atom, out.dtype)};
}}
for (int j = 0; j < {_LANES}; j++) s[j] = {combined(kind, "s[j]", "t[j]", out.dtype)};
}}
{columns}{p}[{position.text()}] = s[j];
}}
}}
"""
    return nest.kernel(text)


def argument_of_extreme(storage: Locator, operation: Operation, place: Location) -> Kernel:
    """Return the kernel of argmax or argmin. It finds the position of the first NaN or, without NaN, of the first
    extreme.
    """
    (x,), (out,) = operation.operands, operation.results
    axis, sign = operation.settings["axis"], ">" if operation.settings["kind"] == "max" else "<"
    nest = Nest(storage)
    nest.argument(place, written=True)
    index, names = variables(nest, out.shape)
    step = nest.loop(x.shape[axis], "r")
    atom = nest.read(x, [*index[:axis], step, *index[axis:]])
    at = step.text()
    ctype = "int" if x.dtype == bool else TYPES[str(x.dtype)]
    nan = f" || ({atom} != {atom} && best == best)" if x.dtype.kind == "f" else ""
    after = f"if ({at} == 0 || {atom} {sign} best{nan}) {{ best = {atom}; at = {at}; }}\n"
    loop = loops_over(nest, [n for n, _ in step.terms], after=after, inside=True)
    p = nest.argument(place, True)
    store = [(f"{p}[", join(index, out.shape), "] = at;\n")]
    return nest.kernel(_around(nest, names, store, f"{ctype} best = 0; int at = 0;\n{loop}"))


def running(storage: Locator, operation: Operation, place: Location) -> Kernel:
    """Return the kernel of a cumulative sum, product, maximum or minimum."""
    (x,), (out,) = operation.operands, operation.results
    axis, kind = operation.settings["axis"], operation.settings["kind"]
    nest = Nest(storage)
    nest.argument(place, written=True)
    rest = [1 if a == axis else n for a, n in enumerate(x.shape)]
    index, names = variables(nest, rest)
    step = nest.loop(x.shape[axis], "r")
    index[axis] = step * -1 + (x.shape[axis] - 1) if operation.settings["reverse"] else step
    atom = nest.read(x, index)
    p = nest.argument(place, True)
    ctype = TYPES[str(out.dtype)]
    after = f"s = {combined(kind, 's', atom, out.dtype)};\n{p}[{join(index, out.shape).text()}] = s;\n"
    loop = loops_over(nest, [n for n, _ in step.terms], after=after, inside=True)
    start = literal(identity(kind, out.dtype), out.dtype)
    return nest.kernel(_around(nest, names, [], f"{ctype} s = {start};\n{loop}"))
