"""Decide which values are stored in arrays, and which are computed wherever they are read.

A value is stored if it is an output, or if an operation that needs separate loops computes the value or reads it as a
whole. A value is also stored if computing it for every reader would cost more than storing it.
"""

from collections.abc import Iterator

from funcnet.loops.operations import ELEMENTWISE, ArrayValue, Block, Operation, read_by
from funcnet.loops.pointwise import cost

__all__ = ["inlined", "stored"]

_CHEAP = 3  # instructions per element: values that need no more are computed again for each reader
_LONGEST = 60  # instructions per element: longer chains of operations are divided into several nests
_TAPS = 64  # windows up to this size are written out
_VIEWS = frozenset({"reshape", "transpose", "broadcast", "slice", "reverse", "iota"})
_POINTWISE = ELEMENTWISE | _VIEWS | {"convert", "bitcast", "gather", "dynamic_slice"}
_WHOLE = frozenset({"scan", "while", "cond", "conv", "sort", "scatter", "dynamic_update_slice"})  # all operands stored


def inlined(operation: Operation) -> bool:
    """Return whether each element of an operation's result can be computed without the other elements."""
    if operation.name == "window":
        sizes = operation.settings["sizes"]
        taps = 1
        for size in sizes:
            taps *= size
        return taps <= _TAPS
    return operation.name in _POINTWISE


def stored(block: Block) -> set[int]:
    """Return the ids of the values in this block, and in the blocks inside it, that must be stored in arrays."""
    chosen: set[int] = set()
    for inner in _blocks(block):
        chosen |= {id(v) for o in inner.operations for v in _foreign(o, inner)}
    chosen |= {id(v) for inner in [block, *_blocks(block)] for v in inner.outputs}
    for inner in [block, *_blocks(block)]:
        _choose_in(inner, chosen)
    return chosen


def _blocks(block: Block) -> Iterator[Block]:
    for operation in block.operations:
        for inner in operation.blocks:
            yield inner
            yield from _blocks(inner)


def _foreign(operation: Operation, block: Block) -> list[ArrayValue]:
    """Return the values that an operation of a body reads from outside the body."""
    own = {id(v) for o in block.operations for v in o.results} | {id(v) for v in block.inputs}
    return [v for v in read_by(operation) if id(v) not in own and v.operation is not None]


def _choose_in(block: Block, chosen: set[int]) -> None:
    roots: dict[int, set[int]] = {}  # ids of the results of the nests that compute the value
    dear: dict[int, int] = {}
    users: dict[int, list[Operation]] = {}
    for operation in block.operations:
        for value in read_by(operation):
            users.setdefault(id(value), []).append(operation)
        if operation.name in _WHOLE:
            chosen |= {id(v) for v in operation.operands}
        dear_here = cost(operation) + sum(dear.get(id(v), 0) for v in operation.operands if id(v) not in chosen)
        for result in operation.results:
            dear[id(result)] = dear_here
            if not inlined(operation) or dear_here > _LONGEST:
                chosen.add(id(result))
                dear[id(result)] = 0 if not inlined(operation) else dear_here
    for operation in reversed(block.operations):
        for result in operation.results:
            readers: set[int] = set()
            for user in users.get(id(result), []):
                for out in user.results:
                    readers |= {id(out)} if id(out) in chosen else roots.get(id(out), set())
            roots[id(result)] = readers
            if id(result) in chosen:
                continue
            repeated = len(readers) > 1 and dear[id(result)] > _CHEAP
            spread = dear[id(result)] > _CHEAP and any(_repeats(user, result) for user in users.get(id(result), []))
            if repeated or spread:
                chosen.add(id(result))


def _repeats(user: Operation, value: ArrayValue) -> bool:
    """Return whether an operation may read an element of `value` more than once."""
    if user.name == "broadcast":
        return user.results[0].size > value.size
    if user.name == "gather":
        return value is user.operands[0]
    return user.name == "window" or (user.name in ELEMENTWISE and value.size < user.results[0].size)
