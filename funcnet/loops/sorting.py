"""Kernels that sort: a merge sort finds the order of each row's elements, and then every operand is copied in this
order.
"""

import numpy as np

from funcnet.loops.index import Index
from funcnet.loops.nest import Nest
from funcnet.loops.nest_kernels import variables
from funcnet.loops.operations import ArrayValue, Operation
from funcnet.loops.program import Program

__all__ = ["lower_sort"]


def lower_sort(program: Program, operation: Operation) -> None:
    """Append the kernel of a stable sort. As in JAX, -0 equals 0, and NaN comes last."""
    s, out = operation.settings, operation.results[0]
    axis, n = s["axis"], out.shape[s["axis"]]
    if not out.size:
        return
    order = program.place(ArrayValue((2 * n,), np.dtype("int32")))  # u and v of `_MERGE`
    nest = Nest(program)
    room = nest.argument(order, written=True)
    targets = [nest.argument(program.place(result), written=True) for result in operation.results]
    sources = [nest.argument(program.whole(x)) for x in operation.operands]
    index, names = variables(nest, [1 if a == axis else size for a, size in enumerate(out.shape)])
    apart = 1  # distance in memory between neighbours of a row
    for size in out.shape[axis + 1 :]:
        apart *= size
    # the position of a row's first element: the index along `axis` is 0, but its size counts in the steps
    row, whole = Index(), 1
    for one, size in zip(reversed(index), reversed(out.shape), strict=True):
        row, whole = row + one * whole, whole * size
    at = lambda p, i: f"{p}[{row.text()} + ({i}) * {apart}]"
    tests = ""
    for source, x in zip(sources[: s["keys"]], operation.operands, strict=False):
        a, b = at(source, "x"), at(source, "y")
        if s.get("descending"):
            a, b = b, a
        # A NaN is after every number. In descending order, it comes first, as in lax.top_k.
        nan = f" || ({b} != {b} && {a} == {a})" if x.dtype.kind == "f" else ""
        other = f" || ({a} != {a} && {b} == {b})" if x.dtype.kind == "f" else ""
        # The next key decides only if this one is equal. `_MERGE` ends the chain.
        tests += f"if ({a} < {b}{nan}) first = 1; else if ({b} < {a}{other}) first = 0; else "
    moves = "".join(f"{at(t, 'i')} = {at(x, 'u[i]')};\n" for t, x in zip(targets, sources, strict=True))
    body = _MERGE.replace("COUNT", str(n)).replace("ROOM", room).replace("TESTS", tests).replace("MOVES", moves)
    program.call(nest.kernel(f"{nest.heads(names)}{{\n{body}}}\n"))


# u is the order so far, and v is the order in which runs of twice the length are sorted. x is in the right run, y is in
# the left run. x comes first only if its element is smaller, so equal elements keep their order.
_MERGE = """int *u = ROOM, *v = ROOM + COUNT;
for (int i = 0; i < COUNT; i++) u[i] = i;
for (int w = 1; w < COUNT; w *= 2) {
for (int low = 0; low < COUNT; low += 2 * w) {
const int middle = low + w < COUNT ? low + w : COUNT, high = low + 2 * w < COUNT ? low + 2 * w : COUNT;
int l = low, r = middle;
for (int i = low; i < high; i++) {
int right = l >= middle;
if (l < middle && r < high) {
const int x = u[r], y = u[l];
int first = 0;
TESTS first = 0;
right = first;
}
v[i] = right ? u[r++] : u[l++];
}
}
int *t = u; u = v; v = t;
}
for (int i = 0; i < COUNT; i++) {
MOVES}
"""
