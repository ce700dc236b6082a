"""Count the collective operations of a compiled program, and the bytes that one device sends in them.

The compiler decides which collectives a step has. The text of the compiled program (HLO) lists them, with the shapes of
their operands and the groups of devices that take part. A collective in a loop runs once per iteration. If XLA knows
how many iterations a loop has, the text of the program contains this number.

Letters: n devices in a group, B bytes in the operands on one device.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from funcnet import table
from funcnet.arguments import expect

__all__ = ["KINDS", "Collective", "Collectives", "count_collectives"]

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
Groups = tuple[tuple[int, ...], ...]

_WHERE = "parallel.count_collectives"
_NOT_COUNTED = ("ragged-all-to-all", "collective-broadcast")
_CALLS = re.compile(r"\b(?:calls|to_apply|body|condition|\w+_computations?)=(?:%([\w.\-]+)|\{([^}]*)\})")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^ +(?:ROOT )?%([\w.\-]+) = (.*)$")


@dataclasses.dataclass(frozen=True)
class Collective:
    """A collective operation of a program.

    Attributes:
        kind: one of `KINDS`.
        name: name of the instruction in the program.
        payload: number of bytes of the operands on one device, in one execution of the operation. If the compiler has
            combined several arrays into one operation, all of them count.
        groups: groups of devices that exchange data, as tuples of device numbers. For a collective-permute, the groups
            are the pairs (source, target) of two different devices.
        times: number of executions of the operation in one run of the program. The number of executions is exact if
            `within` is empty.
        within: names of the surrounding loops with an unknown number of iterations, and of the surrounding
            conditionals. For `times`, such a loop counts as one iteration, and each branch of a conditional counts as
            executed.
    """

    kind: str
    name: str
    payload: int
    groups: Groups
    times: int = 1
    within: tuple[str, ...] = ()

    @property
    def sent(self) -> float:
        """The bytes that one device sends in one run of the program; see `count_collectives`."""
        n = max(map(len, self.groups), default=1)
        factors: Mapping[str, float] = {
            "all-reduce": 2 * (n - 1) / n,
            "all-gather": n - 1,
            "reduce-scatter": (n - 1) / n,
            "all-to-all": (n - 1) / n,
            "collective-permute": 1 if self.groups else 0,
        }
        return factors[self.kind] * self.payload * self.times


@dataclasses.dataclass(frozen=True)
class Collectives:
    """The collective operations of a program. Print a `Collectives` to see a table.

    Attributes:
        operations: the operations, in program order.
    """

    operations: tuple[Collective, ...]

    @property
    def counts(self) -> dict[str, int]:
        """{kind: number of executions in one run of the program}, for all `KINDS`."""
        return {kind: sum(one.times for one in self._of(kind)) for kind in KINDS}

    @property
    def sent(self) -> dict[str, float]:
        """{kind: bytes that one device sends in one run of the program}, for all `KINDS`."""
        return {kind: math.fsum(one.sent for one in self._of(kind)) for kind in KINDS}

    @property
    def unknown(self) -> tuple[str, ...]:
        """The loops and conditionals that contain collectives and run an unknown number of times."""
        return tuple(dict.fromkeys(name for one in self.operations for name in one.within))

    def __str__(self) -> str:
        counts, sent = self.counts, self.sent
        own = {kind: len(self._of(kind)) for kind in KINDS if self._of(kind)}
        cells = [[kind, f"{own[kind]:,}", f"{counts[kind]:,}", f"{sent[kind]:,.0f}"] for kind in own]
        last = ["all", f"{len(self.operations):,}", f"{sum(counts.values()):,}", f"{math.fsum(sent.values()):,.0f}"]
        head = ["collective", "operations", "executions", "bytes sent"]
        lines = table.text([head, *cells, last], left=1, total=True)
        note = f"\nunknown number of executions, counted as one: {', '.join(self.unknown)}" if self.unknown else ""
        return lines + note

    def _of(self, kind: str) -> list[Collective]:
        return [one for one in self.operations if one.kind == kind]


def count_collectives(program: Any) -> Collectives:
    """Count the collectives of a compiled program.

    If a group has n devices, and the operands have B bytes on each device, each device sends in one execution:

    - all-reduce: 2 (n - 1)/n B, as a reduce-scatter and an all-gather in a ring;
    - all-gather: (n - 1) B, which is (n - 1)/n of the result;
    - reduce-scatter and all-to-all: (n - 1)/n B;
    - collective-permute: B if the device has a target, otherwise nothing.

    These numbers of bytes are the smallest possible if all devices send the same amount. A collectives library may send
    more, for example with a tree. The two instructions of an asynchronous operation (`all-reduce-start`,
    `all-reduce-done`) count as one operation.

    Args:
        program: a compiled program, `jax.jit(f).lower(…).compile()`, or the text of a program in HLO. All devices of a
            mesh run the same program. XLA for CPU converts bfloat16 to float32 before an exchange, which doubles the
            bytes; `scripts/benchmarks/scaling.py` reads the program before this conversion.

    Returns:
        `Collectives`. A loop with an unknown number of iterations (such as a `while_loop` that ends on a condition)
        counts as one iteration. Each branch of a conditional counts once. The attribute `unknown` and the printed table
        name such loops and conditionals if they contain collectives.

    Raises:
        ValueError: if a collective is not one of `KINDS`, or has a form that this function cannot read.

    Example:
        >>> import jax
        >>> from jax.sharding import NamedSharding, PartitionSpec
        >>> from funcnet.parallel import make_mesh
        >>> mesh = make_mesh({"data": 8})
        >>> rows = jax.ShapeDtypeStruct((16, 100), "float32", sharding=NamedSharding(mesh, PartitionSpec("data")))
        >>> total = jax.jit(lambda x: x.sum(0), out_shardings=NamedSharding(mesh, PartitionSpec()))
        >>> print(count_collectives(total.lower(rows).compile()))  # 2 * 7/8 * 400 bytes
        collective  operations  executions  bytes sent
        ----------------------------------------------
        all-reduce           1           1         700
        ----------------------------------------------
        all                  1           1         700

    Reference: Patarasuk and Yuan 2009, Bandwidth optimal all-reduce algorithms for clusters of workstations
    """
    is_program = isinstance(program, str) or hasattr(program, "as_text")
    expect(is_program, _WHERE, "program", "a compiled program, jax.jit(f).lower(…).compile(), or its text", program)
    text = program if isinstance(program, str) else program.as_text()
    return Collectives(tuple(_Program(text).inside(None)))


class _Program:
    """The text of a program in HLO, divided into computations. A computation is a list of instructions, which may call
    other computations. The program starts with the entry computation.
    """

    def __init__(self, text: str):
        header = text[: text.find("\n")]
        sizes = [re.search(rf"\b{name}=(\d+)", header) for name in ("replica_count", "num_partitions")]
        self.devices = math.prod(int(one[1]) if one else 1 for one in sizes)
        self.lines: dict[str, list[str]] = {}
        self.entry = ""
        current: list[str] = []
        for line in text.splitlines():
            if line.startswith(" "):
                current.append(line)
            elif found := _COMPUTATION.match(line):
                current = self.lines[found[2]] = []
                self.entry = found[2] if found[1] else self.entry
            else:
                current = []
        if not self.entry:
            raise ValueError(f"{_WHERE}: the text is not a program; expected HLO with an ENTRY, got {text[:60]!r}.")
        self.inside = functools.cache(self._inside)

    def _inside(self, computation: str | None) -> list[Collective]:
        """Return the collectives that one execution of a computation runs. None means the entry."""
        lines = self.lines.get(computation or self.entry, [])
        shapes: dict[str, str] = {}
        if any(map(_may_be_collective, lines)):
            shapes = {found[1]: found[2] for found in map(_INSTRUCTION.match, lines) if found}
        return [one for line in lines for one in self._of_instruction(line, shapes)]

    def _of_instruction(self, line: str, shapes: Mapping[str, str]) -> Iterator[Collective]:
        found = _INSTRUCTION.match(line)
        if found is None or not ("=%" in line or "_computations={" in line or _may_be_collective(line)):
            return
        name, opcode, operands, attributes = found[1], *_parts(found[2])
        kind = opcode.removesuffix("-start")
        if kind in _NOT_COUNTED:
            raise ValueError(f"{_WHERE}: {name} is of an unknown kind; expected {', '.join(KINDS)}, got {kind}.")
        if kind in KINDS:
            payload = sum(_bytes(shapes[one][: _end_of_shape(shapes[one])]) for one in operands)
            yield Collective(kind, name, payload, _groups(kind, attributes, self.devices, name))
            return
        if opcode in ("async-update", "async-done"):  # the computation runs once, from async-start on
            return
        times, within = 1, ((name,) if opcode == "conditional" else ())
        if opcode == "while":
            count = re.search(r'"known_trip_count":\{"n":"(\d+)"', line)
            times, within = (int(count[1]), ()) if count else (1, (name,))
        for single, several in _CALLS.findall(attributes):
            for callee in [single] if single else re.findall(r"%([\w.\-]+)", several):
                more = opcode == "while" and not within and f"condition=%{callee}," in f"{attributes},"
                for one in self.inside(callee):  # the condition of a loop also runs after the last iteration
                    yield dataclasses.replace(one, times=one.times * (times + more), within=within + one.within)


def _may_be_collective(line: str) -> bool:
    return any(f" {kind}" in line for kind in (*KINDS, *_NOT_COUNTED))


def _parts(rest: str) -> tuple[str, list[str], str]:
    """Return (opcode, names of the operands, attributes) of an instruction. `rest` is the text of the instruction after
    the `=`.
    """
    start = _end_of_shape(rest)
    opening = rest.index("(", start)
    end = _closing(rest, opening)
    attributes = re.sub(r"metadata=\{.*", "", rest[end + 1 :])
    return rest[start:opening].strip(), re.findall(r"%([\w.\-]+)", rest[opening:end]), attributes


def _end_of_shape(rest: str) -> int:
    return (_closing(rest, 0) if rest.startswith("(") else rest.index(" ")) + 1


def _closing(text: str, start: int) -> int:
    """Return the position of the closing parenthesis that matches the opening parenthesis at `start`."""
    depth = 0
    for found in re.finditer(r"[()]", text[start:]):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return start + found.start()
    raise ValueError(f"{_WHERE}: a parenthesis is not closed; expected a line of HLO, got {text[:60]!r}.")


def _bytes(shape: str) -> int:
    """Return the number of bytes of an array with a shape such as f32[8,4]{1,0}, or of a tuple of arrays."""
    total = 0
    for dtype, sizes in re.findall(r"\b([a-z]+\d*\w*)\[([\d,<=]*)\]", shape):
        width = re.search(r"\d+", dtype)
        bits = int(width[0]) if width else 8 * (dtype == "pred")
        total += math.ceil(math.prod(int(size.lstrip("<=")) for size in sizes.split(",") if size) * bits / 8)
    return total


def _groups(kind: str, attributes: str, devices: int, name: str) -> Groups:
    """Return the device groups of a collective. XLA writes the groups of a collective in four forms."""
    if kind == "collective-permute":
        pairs = re.search(r"source_target_pairs=\{(.*?)\}(?:,|$)(?!\{)", attributes)
        found = re.findall(r"\{(\d+),(\d+)\}", pairs[1] + "}" if pairs else "")
        return tuple((int(source), int(target)) for source, target in found if source != target)
    if listed := re.search(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}", attributes):
        groups = re.findall(r"\{([\d,]*)\}", listed[1])
        return tuple(tuple(map(int, one.split(","))) for one in groups) or (tuple(range(devices)),)
    if iota := re.search(r"replica_groups=\[(\d+),(\d+)\]<=(\[[\d,]+\](?:T\([\d,]+\))?)", attributes):
        return _rows(_iota(iota[3]).reshape(int(iota[1]), int(iota[2])))
    if mesh := re.search(r"replica_groups=@?mesh[\[<](.*?)[\]>](?:, device_ids=\((.*?\)?)\))? \{(.*?)\}", attributes):
        return _groups_of_mesh(*mesh.groups())
    raise ValueError(f"{_WHERE}: the devices of {name} are unknown; expected replica_groups, got {attributes[:200]!r}.")


def _groups_of_mesh(axes: str, order: str | None, chosen: str) -> Groups:
    """Return the device groups in a mesh with the axes `axes`, such as 'a'=2,'b'=4, and the device order `order`. The
    devices of a group differ only along the axes in `chosen`. An entry of `chosen` is an axis, such as 'a', or a part
    of an axis. For example, 'b':(2)2 is the part of size 2 that comes after a part of size 2.
    """
    sizes = {name: int(size) for name, size in re.findall(r"'?(\w+)'?=(\d+)", axes)}
    count = math.prod(sizes.values())
    if order is None:
        numbers = np.arange(count)
    else:
        numbers = _iota(order) if order.startswith("[") else np.array([int(one) for one in order.split(",")])
    parts = {name: [(size, False)] for name, size in sizes.items()}
    for name, before, part in re.findall(r"'?(\w+)'?(?::\((\d+)\)(\d+))?", chosen):
        if name.isdigit():
            continue
        if part:
            after = sizes[name] // (int(before) * int(part))
            parts[name] = [(int(before), False), (int(part), True), (after, False)]
        else:
            parts[name] = [(sizes[name], True)]
    flat = [one for pieces in parts.values() for one in pieces]
    order_of_axes = sorted(range(len(flat)), key=lambda i: flat[i][1])  # axes inside a group come last
    size = math.prod(one for one, inside in flat if inside)
    return _rows(numbers.reshape([one for one, _ in flat]).transpose(order_of_axes).reshape(-1, size))


def _iota(text: str) -> np.ndarray:
    """Return the numbers 0, 1, … in an order that HLO writes as, for example, [2,2,2]T(1,0,2): the numbers are reshaped
    to (2, 2, 2), transposed with the permutation (1, 0, 2), and flattened.
    """
    sizes, *permutation = [list(map(int, one.split(","))) for one in re.findall(r"[\[(]([\d,]+)[\])]", text)]
    numbers = np.arange(math.prod(sizes)).reshape(sizes)
    return (numbers.transpose(permutation[0]) if permutation else numbers).ravel()


def _rows(array: np.ndarray) -> Groups:
    return tuple(tuple(map(int, row)) for row in array)
