"""Lower loops and conditionals to loops and branches in C, with the code of each body once."""

from collections.abc import Callable, Sequence

from funcnet.loops.nest import Location
from funcnet.loops.operations import ArrayValue, Block, Operation
from funcnet.loops.piecewise_kernels import copied
from funcnet.loops.program import Program

__all__ = ["lower_cond", "lower_scan", "lower_while"]

LowerBlock = Callable[[Program, Sequence[Operation]], None]


def lower_scan(program: Program, operation: Operation, lower_block: LowerBlock) -> None:
    """Append a C loop over the steps of a `scan`. Each step stores its carries in the arrays in which the scan returns
    them.
    """
    s, (body,) = operation.settings, operation.blocks
    count, length = s["carries"], s["length"]
    carries, outputs = operation.results[:count], operation.results[count:]
    for value, carry in zip(operation.operands, carries, strict=False):
        program.call(copied(program, value, program.place(carry)))
    if length == 0:
        return
    step = f"s{next(program.numbers)}"
    at = f"({length - 1} - {step})" if s["reverse"] else step
    for inner, carry in zip(body.inputs, carries, strict=False):
        program.views[id(inner)] = program.place(carry)
    for inner, whole in zip(body.inputs[count:], operation.operands[count:], strict=True):
        program.views[id(inner)] = _part(program.whole(whole), f"{at} * {inner.size}")
    rows = [_part(program.place(y), f"{at} * {y.size // length}") for y in outputs]
    copies = _direct(program, body, body.outputs[count:], rows)
    program.line(f"for (int {step} = 0; {step} < {length}; {step}++) {{", loop=1)
    lower_block(program, body.operations)
    for value, place in copies:
        program.call(copied(program, value, place))
    _carry_on(program, body, body.outputs[:count], carries)
    program.line("}", loop=-1)


def _part(place: Location, offset: str) -> Location:
    return Location(place.key, place.dtype, " + ".join(part for part in (place.offset, offset) if part))


def _direct(
    program: Program, body: Block, outputs: Sequence[ArrayValue], rows: Sequence[Location]
) -> list[tuple[ArrayValue, Location]]:
    """Let the body of a `scan` write its outputs directly to their rows of the stacked outputs, if possible.

    Return (output, row) for each output that must be copied to its row.
    """
    own = {id(v) for o in body.operations for v in o.results}
    copies = []
    for value, row in zip(outputs, rows, strict=True):
        if id(value) in own and id(value) not in program.views:
            program.views[id(value)] = row
        else:
            copies.append((value, row))
    return copies


def _carry_on(program: Program, body: Block, new: Sequence[ArrayValue], carries: Sequence[ArrayValue]) -> None:
    """Append the kernels that copy the results of a loop's body to the carries, which the next step reads."""
    own = {id(v) for v in body.inputs}
    kept = []
    for place, value in enumerate(new):
        if id(value) in own and value is not body.inputs[place]:  # another copy may overwrite this input first
            copy = ArrayValue(value.shape, value.dtype)
            program.call(copied(program, value, program.place(copy)))
            value = copy
        kept.append(value)
    for place, (value, carry) in enumerate(zip(kept, carries, strict=True)):
        if value is not body.inputs[place]:
            program.call(copied(program, value, program.place(carry)))


def lower_while(program: Program, operation: Operation, lower_block: LowerBlock) -> None:
    """Append the C loop of a `while`, which ends when its test is false."""
    test, body = operation.blocks
    carries = operation.results
    for value, carry in zip(operation.operands, carries, strict=True):
        program.call(copied(program, value, program.place(carry)))
    for block in (test, body):
        for inner, carry in zip(block.inputs, carries, strict=True):
            program.views[id(inner)] = program.place(carry)
    program.line("for (;;) {", loop=1)
    lower_block(program, test.operations)
    answer = ArrayValue((), test.outputs[0].dtype)
    program.call(copied(program, test.outputs[0], program.place(answer)))
    program.line("if (!*({0})) break;", program.place(answer))
    lower_block(program, body.operations)
    _carry_on(program, body, body.outputs, carries)
    program.line("}", loop=-1)


def lower_cond(program: Program, operation: Operation, lower_block: LowerBlock) -> None:
    """Append the branches of a conditional. The operand of the conditional is the number of the branch that runs."""
    (chosen,), last = operation.operands, len(operation.blocks) - 1
    which = ArrayValue((), chosen.dtype)
    program.call(copied(program, chosen, program.place(which)))
    name = f"c{next(program.numbers)}"
    # Counted as a loop, so that arrays which live beyond one branch live during all branches: only one of them runs.
    program.line("{", loop=1)
    program.line(f"const int {name} = *({{0}});", program.place(which))
    for place, block in enumerate(operation.blocks):
        test = f"if ({name} <= 0)" if place == 0 else f"else if ({name} == {place})" if place < last else "else"
        program.line(f"{test if last else ''} {{")
        lower_block(program, block.operations)
        for value, result in zip(block.outputs, operation.results, strict=True):
            program.call(copied(program, value, program.place(result)))
        program.line("}")
    program.line("}", loop=-1)
