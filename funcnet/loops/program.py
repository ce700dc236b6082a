"""The steps of a function in the order in which they run, and the C code of the function.

A step is the call of a kernel, or a line of C with the placeholders `{0}`, `{1}`, … for arrays. Kernels whose
text is the same except for numbers share a C function, so that a model with twelve equal layers has the code of one
layer. Numbers that are not the same in all of them, such as the scales of quantized layers, are its parameters.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from funcnet.loops.constant_storage import Parts, Weight, Weights
from funcnet.loops.index import Index, join
from funcnet.loops.memory import Life, plan
from funcnet.loops.nest import Kernel, Location
from funcnet.loops.operations import ArrayValue
from funcnet.loops.pointwise import TYPES

__all__ = ["Kernels", "Program", "Statement"]


@dataclass(frozen=True)
class Statement:
    """A step of a program: a line of C, or the call of a kernel.

    Args:
        text: the line of C. Empty if the step is a call.
        places: the arrays that the line or the call uses.
        loop: 1 if the line begins a loop, -1 if it ends one.
        kernel: the kernel that is called. None if the step is a line of C.
    """

    text: str
    places: tuple[Location, ...] = ()
    loop: int = 0
    kernel: Kernel | None = None


@dataclass
class Kernels:
    """The C functions of a module: {(parameters, scalars, body): kernels that share the function}."""

    functions: dict[Any, list[Kernel]] = field(default_factory=dict)

    def add(self, kernel: Kernel) -> None:
        """Add a kernel to the kernels that share its C function."""
        self.functions.setdefault(_function_of(kernel), []).append(kernel)

    def calls(self) -> dict[Kernel, str]:
        """Return {kernel: its call in C} for every kernel that was added."""
        calls = {}
        for name, kernels in self._named():
            passed = _parameters(kernels)
            for kernel in kernels:
                arrays = [f"{{{i}}}" for i in range(len(kernel.places))]
                calls[kernel] = f"{name}({', '.join([*arrays, *(kernel.scalars[i].literal for i in passed)])});"
        return calls

    def source(self) -> str:
        """Return the definitions of all functions in C."""
        return "".join(_definition(name, kernels) for name, kernels in self._named())

    def _named(self) -> Iterator[tuple[str, list[Kernel]]]:
        return ((f"k{number}", kernels) for number, kernels in enumerate(self.functions.values()))


def _function_of(kernel: Kernel) -> Any:
    return kernel.parameters, tuple((s.ctype, s.name) for s in kernel.scalars), kernel.body


def _columns(kernels: Sequence[Kernel]) -> list[tuple[str, ...]]:
    """For each scalar of kernels that share a C function, return the C type and the literal in each kernel."""
    scalars = zip(*(kernel.scalars for kernel in kernels), strict=True)
    return [(column[0].ctype, *(scalar.literal for scalar in column)) for column in scalars]


def _parameters(kernels: Sequence[Kernel]) -> list[int]:
    """Return the positions of the scalars that become parameters of the C function that the kernels share.

    A scalar becomes a parameter if its numbers differ between the kernels, and no earlier scalar has the same numbers.
    """
    columns = _columns(kernels)
    return [i for i, column in enumerate(columns) if len(set(column[1:])) > 1 and columns.index(column) == i]


def _definition(name: str, kernels: Sequence[Kernel]) -> str:
    """Return the definition of a function in C.

    A scalar becomes a parameter of the function, a copy of a parameter, or a constant that the compiler folds.
    """
    first, columns, passed = kernels[0], _columns(kernels), _parameters(kernels)
    parameters = [*first.parameters, *(f"{first.scalars[i].ctype} {first.scalars[i].name}" for i in passed)]
    constants = ""
    for i, (scalar, column) in enumerate(zip(first.scalars, columns, strict=True)):
        if i not in passed:
            same = len(set(column[1:])) == 1
            number = scalar.literal if same else first.scalars[columns.index(column)].name
            constants += f"const {scalar.ctype} {scalar.name} = {number};\n"
    head = "static __attribute__((noinline)) void"
    return f"{head} {name}({', '.join(parameters)}) {{\n{constants}{first.body}}}\n"


@dataclass
class Program:
    """One function, to which lowering adds steps.

    Args:
        weights: the constants of the module.
        kernels: the C functions of the module.
        stored: ids of the values that are stored in arrays.
    """

    weights: Weights
    kernels: Kernels
    stored: set[int]
    steps: list[Statement] = field(default_factory=list)
    views: dict[int, Location] = field(default_factory=dict)  # stored values that are a part of another array
    numbers: Iterator[int] = field(default_factory=itertools.count)
    values: list[ArrayValue] = field(default_factory=list)  # kept alive, because their ids are keys

    def place(self, value: ArrayValue) -> Location:
        """Mark a value as stored, and return its location."""
        self.values.append(value)
        if id(value) in self.views:
            return self.views[id(value)]
        self.stored.add(id(value))
        return Location(value, str(value.dtype))

    def find(self, value: ArrayValue, index: Sequence[Index], parts: Parts) -> tuple[Location, Index] | None:
        """Return the array of a value and the position of an element in it, or None if the value is not stored."""
        if value.constant is not None:
            return self.weights.find(value, index, parts)
        if id(value) in self.views or id(value) in self.stored:
            return self.place(value), join(index, value.shape)
        return None

    def whole(self, value: ArrayValue) -> Location:
        """Return the location of a whole constant or stored value."""
        if value.constant is not None:
            return self.weights.whole(value)
        assert id(value) in self.views or id(value) in self.stored, "the value is computed where it is read"
        return self.place(value)

    def call(self, kernel: Kernel) -> None:
        """Append the call of a kernel."""
        self.kernels.add(kernel)
        self.steps.append(Statement("", kernel.places, kernel=kernel))

    def line(self, text: str, *places: Location, loop: int = 0) -> None:
        """Append a line of C."""
        self.steps.append(Statement(text, places, loop))

    def lives(self, inputs: Sequence[ArrayValue], outputs: Sequence[ArrayValue]) -> dict[ArrayValue, Life]:
        """Return the first and last step that need each array. All steps need the program's inputs and outputs."""
        end = len(self.steps)
        lives: dict[ArrayValue, Life] = {v: Life(v.nbytes, 0, end) for v in [*inputs, *outputs]}
        for number, step in enumerate(self.steps):
            for place in step.places:
                if isinstance(place.key, ArrayValue):
                    life = lives.setdefault(place.key, Life(place.key.nbytes, number, number))
                    life.last = max(life.last, number)
        for first, last in self._loops():
            for life in lives.values():
                if life.first < first <= life.last or life.first <= last < life.last:
                    life.first, life.last = min(life.first, first), max(life.last, last)
        return lives

    def _loops(self) -> list[tuple[int, int]]:
        """Return the first and last step of every loop, inner loops first."""
        open_loops: list[int] = []
        loops = []
        for number, step in enumerate(self.steps):
            if step.loop > 0:
                open_loops.append(number)
            elif step.loop < 0:
                loops.append((open_loops.pop(), number))
        return loops

    def source(self, lives: dict[ArrayValue, Life]) -> tuple[str, dict[ArrayValue, int], int]:
        """Return the body of the function in C, the offset of every array, and the number of bytes that all arrays
        need.

        Call this method when all programs of the module are complete, because the parameters of a C function depend on
        all kernels that share it.
        """
        offsets, size = plan(lives)
        calls = self.kernels.calls()

        def text(place: Location) -> str:
            ctype = TYPES[place.dtype]
            if isinstance(place.key, Weight):
                base = f"({ctype} *)(WEIGHTS + {self.weights.offsets[place.key]})"
            else:
                base = f"({ctype} *)(ARRAYS + {offsets[place.key]})"
            return f"{base} + {place.offset}" if place.offset else base

        # Not str.format, because the text may contain other braces.
        lines = []
        for step in self.steps:
            line = step.text if step.kernel is None else calls[step.kernel]
            for i, place in enumerate(step.places):
                line = line.replace(f"{{{i}}}", text(place))
            lines.append(line)
        return "\n".join(lines) + "\n", offsets, size
