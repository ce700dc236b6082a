"""One nest of loops in C, which loads the stored values that it reads, and computes the others.

`Nest.read(value, index)` returns the name of a C variable with one element of a value. An element of a stored value is
loaded. An element of any other value is computed in the nest from the operands of its operation, so that chains of
operations need no arrays between them. Reshapes, transposes, broadcasts and slices only change the index.
"""

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from funcnet.loops.index import Index, join, split
from funcnet.loops.operations import ArrayValue, Operation
from funcnet.loops.pointwise import TYPES, combined, expression, literal

__all__ = ["Kernel", "Location", "Locator", "Nest", "Parts", "Scalar", "loops_over", "start_of"]


@dataclass(frozen=True)
class Location:
    """The place at which a stored array, or a part of it, begins in memory.

    Args:
        key: key of the array in the memory plan: a value of the program, or a weight.
        dtype: dtype of the array.
        offset: C expression for the number of elements before the part of the array that a step of a loop uses. An
            empty offset means the whole array.
    """

    key: Any
    dtype: str
    offset: str = ""


Parts = Callable[[Index, Sequence[int]], list[Index]]


class Locator(Protocol):
    """Knows which values are stored, and finds their elements in memory."""

    def find(self, value: ArrayValue, index: Sequence[Index], parts: Parts) -> tuple[Location, Index] | None:
        """Return the array of a value and the position of an element in it, or None if the value is not stored."""


@dataclass(frozen=True)
class Scalar:
    """A number that has a name in a kernel, so that kernels have the same text if they differ only in numbers."""

    ctype: str
    name: str
    literal: str


@dataclass(frozen=True)
class Kernel:
    """A function in C, without its name.

    Args:
        parameters: declarations of the parameters, one for each array.
        body: the statements.
        places: the arrays that a call passes for the parameters.
        scalars: the numbers that have names in the body.
    """

    parameters: tuple[str, ...]
    body: str
    places: tuple[Location, ...]
    scalars: tuple[Scalar, ...]


@dataclass
class Nest:
    """A nest of loops in C: the loop variables, and the statements inside the loops.

    Args:
        storage: knows which values are stored, and where their elements lie.
    """

    storage: Locator
    sizes: dict[str, int] = field(default_factory=dict)  # number of values of every integer variable
    lines: list[tuple[Any, ...]] = field(default_factory=list)  # pieces: text, and indices
    arguments: dict[Location, str] = field(default_factory=dict)
    memo: dict[Any, str] = field(default_factory=dict)
    outputs: list[Location] = field(default_factory=list)
    divisions: dict[str, tuple[str, int, Index]] = field(default_factory=dict)  # quotient: remainder, divisor, dividend
    loads: list[tuple[Location, Index, str]] = field(default_factory=list)
    scalars: dict[Any, Scalar] = field(default_factory=dict)
    count: Iterator[int] = field(default_factory=itertools.count)

    def loop(self, size: int, prefix: str = "i") -> Index:
        """Return a new loop variable. `loops_over` writes the loop later."""
        if size == 1:
            return Index()
        name = f"{prefix}{next(self.count)}"
        self.sizes[name] = size
        return Index.variable(name)

    def heads(self, variables: Sequence[str], inside: bool = False) -> str:
        """Return the heads of C loops over the variables, from the outermost loop to the innermost one.

        The size of the outermost loop is a `Scalar`, because kernels for different lengths often differ only in this
        size. The sizes of inner loops are literals, so that the compiler knows how many vectors they have.

        Args:
            variables: loop variables.
            inside: whether the loops are inside another loop.
        """
        sizes = {v: str(self.sizes[v]) for v in variables}
        if variables and not inside:
            sizes[variables[0]] = self.scalar(variables[0], sizes[variables[0]], np.dtype(np.int32))
        return "".join(f"for (int {v} = 0; {v} < {size}; {v}++) " for v, size in sizes.items())

    def argument(self, place: Location, written: bool = False) -> str:
        """Return the name of the kernel's parameter that receives an array."""
        if place not in self.arguments:
            self.arguments[place] = f"p{len(self.arguments)}"
        if written and place not in self.outputs:
            self.outputs.append(place)
        return self.arguments[place]

    def let(self, ctype: str, *pieces: Hashable) -> str:
        """Append the definition of a C variable, unless the nest already has it, and return the variable's name."""
        key = (ctype, pieces)
        if key not in self.memo:
            name = self.memo[key] = f"t{next(self.count)}"
            self.lines.append((f"{ctype} {name} = ", *pieces, ";"))
        return self.memo[key]

    def integer(self, size: int, *pieces: Hashable) -> Index:
        """Define a new integer variable with a value from 0 to size - 1, and return the variable as an index."""
        name = self.let("int", *pieces)
        self.sizes[name] = size
        return Index.variable(name)

    def divided(self, place: Index, by: int) -> tuple[Index, Index]:
        """Define integer variables for the quotient and the remainder of a position divided by `by`. Return both."""
        high = place.bounds(self.sizes)[1]
        quotient = self.integer(high // by + 1, "(", place, f") / {by}")
        rest = self.integer(by, "(", place, f") % {by}")
        self.divisions[quotient.terms[0][0]] = rest.terms[0][0], by, place
        return quotient, rest

    def parts(self, place: Index, shape: Sequence[int]) -> list[Index]:
        """Return the index of the element at a position in the memory of an array of this shape."""
        return split(place, shape, self.sizes, self.divided)

    def whole(self, index: Index) -> Index:
        """Return the index with the dividend of one division in place of `quotient · by + remainder`."""
        for quotient, (rest, by, place) in reversed(self.divisions.items()):
            factor = index.factor(rest)
            if factor and index.factor(quotient) == factor * by:
                index = _without(_without(index, quotient), rest) + place * factor
        return index

    def simple_load(self, atom: str, variables: Sequence[str]) -> tuple[Location, Index] | None:
        """Return the array and position from which `atom` was loaded, if the position depends only on these variables.

        Otherwise return None.
        """
        for place, position, name in self.loads:
            if name == atom and {v for v, _ in position.terms} <= set(variables):
                return place, position
        return None

    def store(self, place: Location, position: Index, atom: str) -> None:
        """Append the statement that stores an element in an array."""
        self.lines.append((f"{self.argument(place, True)}[", position, f"] = {atom};"))

    def load(self, place: Location, position: Index) -> str:
        """Append the statement that loads an element of an array, and return the name of the C variable."""
        ctype = "int" if place.dtype == "bool" else TYPES[place.dtype]
        position = self.whole(position)
        name = self.let(ctype, f"{self.argument(place)}[", position, "]")
        self.loads.append((place, position, name))
        return name

    def scalar(self, key: Hashable, text: str, dtype: np.dtype) -> str:
        """Return the name of a number in the kernel. Equal numbers with different keys have different names."""
        if key not in self.scalars:
            ctype = {"float32": "float", "uint32": "unsigned"}.get(str(dtype), "int")  # the type of the literal
            self.scalars[key] = Scalar(ctype, f"c{len(self.scalars)}", text)
        return self.scalars[key].name

    def read(self, value: ArrayValue, index: Sequence[Index]) -> str:
        """Return the name of a C variable with one element of a value."""
        key = (id(value), tuple(index))
        if key not in self.memo:
            self.memo[key] = self._read(value, list(index))
        return self.memo[key]

    def _read(self, value: ArrayValue, index: list[Index]) -> str:
        if value.constant is not None and (value.size == 1 or _is_uniform(value.constant)):
            return self.scalar(id(value), literal(value.constant.flat[0], value.dtype), value.dtype)
        found = self.storage.find(value, index, self.parts)
        if found is not None:
            return self.load(*found)
        return self.compute(value, index)

    def compute(self, value: ArrayValue, index: list[Index]) -> str:
        """Append the computation of one element of a value, even if it is stored, and return the name of its C
        variable.
        """
        operation = value.operation
        assert operation is not None, "an input is always stored"
        special = _INDEXED.get(operation.name)
        if special is not None:
            return special(self, operation, index)
        args = [self.read(o, _own(o, index)) for o in operation.operands]
        ctype = "int" if value.dtype == bool else TYPES[str(value.dtype)]
        return self.let(ctype, expression(operation, args))

    def kernel(self, body: str) -> Kernel:
        """Return the kernel whose body is this C code."""
        parameters = []
        for place, name in self.arguments.items():
            const = "" if place in self.outputs else "const "
            parameters.append(f"{const}{TYPES[place.dtype]} *restrict {name}")
        return Kernel(tuple(parameters), body, tuple(self.arguments), tuple(self.scalars.values()))


def loops_over(nest: Nest, variables: Sequence[str], after: str = "", inside: bool = False) -> str:
    """Return the C code of a nest: its statements inside loops over the variables, from the outermost to the innermost.

    Two neighbouring loops are merged into one if one variable can replace their two variables in every index of the
    nest. Short inner loops are therefore rare.

    Args:
        nest: the nest.
        variables: loop variables.
        after: further C statements, after those of the nest.
        inside: whether the loops are inside another loop.
    """
    lines = nest.lines
    kept = list(variables)
    for outer, inner in reversed(list(itertools.pairwise(kept))):
        size = nest.sizes[inner]
        indices = [piece for line in lines for piece in line if isinstance(piece, Index)]
        if all(one.factor(outer) == one.factor(inner) * size for one in indices):
            lines = [tuple(_without(p, outer) if isinstance(p, Index) else p for p in line) for line in lines]
            nest.sizes[inner] *= nest.sizes[outer]
            kept.remove(outer)
    body = "".join("".join(p.text() if isinstance(p, Index) else p for p in line) + "\n" for line in lines)
    return f"{nest.heads(kept, inside)}{{\n{body}{after}}}\n"


def _own(operand: ArrayValue, index: Sequence[Index]) -> list[Index]:
    """Return the index of an operand of an elementwise operation. Axes of the operand with size 1 are broadcast."""
    return [Index() if n == 1 else i for n, i in zip(operand.shape, index, strict=bool(operand.shape))]


def _without(index: Index, variable: str) -> Index:
    return Index(index.constant, tuple(t for t in index.terms if t[0] != variable))


def _is_uniform(array: np.ndarray) -> bool:
    flat = array.reshape(-1)
    bits = flat.view(f"u{array.itemsize}")
    return array.size > 0 and bits[0] == bits[-1] and bool((bits == bits[0]).all())


# ------------------------------------------------------------------------------------ operations that change the index


def _reshape(nest: Nest, operation: Operation, index: list[Index]) -> str:
    (x,) = operation.operands
    place = join(index, operation.results[0].shape)
    return nest.read(x, nest.parts(place, x.shape))


def _transpose(nest: Nest, operation: Operation, index: list[Index]) -> str:
    inner = [Index()] * len(index)
    for place, axis in enumerate(operation.settings["permutation"]):
        inner[axis] = index[place]
    return nest.read(operation.operands[0], inner)


def _broadcast(nest: Nest, operation: Operation, index: list[Index]) -> str:
    (x,) = operation.operands
    inner = [Index() if n == 1 else index[d] for n, d in zip(x.shape, operation.settings["dims"], strict=True)]
    return nest.read(x, inner)


def _slice(nest: Nest, operation: Operation, index: list[Index]) -> str:
    s = operation.settings
    return nest.read(
        operation.operands[0], [i * by + at for i, by, at in zip(index, s["strides"], s["start"], strict=True)]
    )


def _reverse(nest: Nest, operation: Operation, index: list[Index]) -> str:
    (x,) = operation.operands
    axes = operation.settings["axes"]
    return nest.read(
        x, [i * -1 + (n - 1) if a in axes else i for a, (i, n) in enumerate(zip(index, x.shape, strict=True))]
    )


def _iota(nest: Nest, operation: Operation, index: list[Index]) -> str:
    ctype = TYPES[str(operation.results[0].dtype)]
    return nest.let(ctype, f"({ctype})(", index[operation.settings["axis"]], ")")


def _gather(nest: Nest, operation: Operation, index: list[Index]) -> str:
    (x, at), s = operation.operands, operation.settings
    numbers = s["numbers"]
    batch = [index[d] for d in range(len(index)) if d not in numbers.offset_dims]
    offsets = iter(numbers.offset_dims)
    inner, tests = [], []
    for axis, (size, part) in enumerate(zip(x.shape, s["sizes"], strict=True)):
        one = Index()
        if axis in numbers.operand_batching_dims:
            one = batch[numbers.start_indices_batching_dims[numbers.operand_batching_dims.index(axis)]]
        elif axis in numbers.start_index_map:
            atom = nest.read(at, [*batch, Index(numbers.start_index_map.index(axis))])
            one = nest.integer(size - part + 1, f"m_within((int)({atom}), 0, {size - part})")
            tests.append(f"{atom} >= 0 & {atom} <= {size - part}")
        if axis not in numbers.collapsed_slice_dims and axis not in numbers.operand_batching_dims:
            one = one + index[next(offsets)]
        inner.append(one)
    atom = nest.read(x, inner)
    if s["fill"] is None or not tests:
        return atom
    ctype = "int" if x.dtype == bool else TYPES[str(x.dtype)]
    return nest.let(ctype, f"({' & '.join(tests)}) ? {atom} : {literal(s['fill'], x.dtype)}")


def _dynamic_slice(nest: Nest, operation: Operation, index: list[Index]) -> str:
    x, *starts = operation.operands
    inner = []
    for i, start, size, part in zip(index, starts, x.shape, operation.results[0].shape, strict=True):
        inner.append(i + start_of(nest, start, size - part))
    return nest.read(x, inner)


def start_of(nest: Nest, start: ArrayValue, most: int) -> Index:
    """Return the start of a dynamic slice along one axis, clipped as in JAX so that the slice is inside the array."""
    if most == 0:
        return Index()
    return nest.integer(most + 1, f"m_within((int)({nest.read(start, [])}), 0, {most})")


def _window(nest: Nest, operation: Operation, index: list[Index]) -> str:
    s, (x,) = operation.settings, operation.operands
    steps = [range(0, n * d, d) for n, d in zip(s["sizes"], s["dilations"], strict=True)]
    total = ""
    for tap in itertools.product(*steps):
        atom = nest.read(x, [i * by + at for i, by, at in zip(index, s["strides"], tap, strict=True)])
        ctype = "int" if x.dtype == bool else TYPES[str(x.dtype)]
        total = nest.let(ctype, combined(s["kind"], total, atom, x.dtype)) if total else atom
    return total


_INDEXED: dict[str, Callable[[Nest, Operation, list[Index]], str]] = {
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "slice": _slice,
    "reverse": _reverse,
    "iota": _iota,
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
    "window": _window,
}
