"""Lower every operation of a block to steps of a `Program`: calls of kernels, and lines of C."""

from collections.abc import Callable, Sequence

from funcnet.loops.constant_storage import Weights
from funcnet.loops.control import lower_cond, lower_scan, lower_while
from funcnet.loops.conv import lower_conv
from funcnet.loops.fusion import inlined, stored
from funcnet.loops.index import Index, join
from funcnet.loops.matmul import announce, lower_dot
from funcnet.loops.nest import Kernel, Nest
from funcnet.loops.nest_kernels import argument_of_extreme, computed, reduced, running, summed
from funcnet.loops.operations import ArrayValue, Block, Operation
from funcnet.loops.piecewise_kernels import copied, lower_concatenate, lower_pad, lower_scatter, lower_update_slice
from funcnet.loops.program import Kernels, Program
from funcnet.loops.sorting import lower_sort

__all__ = ["lowered"]


def lowered(block: Block, weights: Weights, kernels: Kernels) -> Program:
    """Return the program of a block. The inputs and outputs of the program are `block.inputs` and
    `block.outputs`.

    An output is copied to a new array if it is also an input, a constant, or the same value as another output.
    """
    seen: set[int] = {id(v) for v in block.inputs}
    copies = []
    for place, value in enumerate(block.outputs):
        if id(value) in seen or value.operation is None:
            copies.append((value, ArrayValue(value.shape, value.dtype)))
            block.outputs[place] = copies[-1][1]
        seen.add(id(value))
    _announce(block, weights)
    program = Program(weights, kernels, stored(block))
    program.stored |= {id(v) for v in [*block.inputs, *(v for v, _ in copies if v.constant is None)]}
    _lower_block(program, block.operations)
    for value, copy in copies:
        program.call(copied(program, value, program.place(copy)))
    return program


def _announce(block: Block, weights: Weights) -> None:
    for operation in block.operations:
        if operation.name == "dot":
            announce(weights, operation)
        for inner in operation.blocks:
            _announce(inner, weights)


def _lower_block(program: Program, operations: Sequence[Operation]) -> None:
    """Append the steps of all operations to a program, in the order of the operations."""
    for operation in operations:
        if not inlined(operation):
            _LOWER[operation.name](program, operation)
            continue
        for result in operation.results:
            if id(result) in program.stored:
                program.call(_own_nest(program, result))


def _own_nest(program: Program, value: ArrayValue) -> Kernel:
    """Return the kernel that computes a stored value from the operands of its operation."""
    read = lambda nest, index: nest.compute(value, index)
    return computed(program, value.shape, read, program.place(value), lambda index: join(index, value.shape))


def _reduce(program: Program, operation: Operation) -> None:
    program.call(reduced(program, operation, program.place(operation.results[0])))


def _arg(program: Program, operation: Operation) -> None:
    program.call(argument_of_extreme(program, operation, program.place(operation.results[0])))


def _running(program: Program, operation: Operation) -> None:
    program.call(running(program, operation, program.place(operation.results[0])))


def _window(program: Program, operation: Operation) -> None:
    """Append the kernel of a reduction over windows that have too many positions to write each one out in C."""
    (x,), (out,), s = operation.operands, operation.results, operation.settings

    def read(nest: Nest, index: list[Index], taps: list[Index]) -> str:
        steps = zip(index, s["strides"], taps, s["dilations"], strict=True)
        return nest.read(x, [i * by + tap * apart for i, by, tap, apart in steps])

    program.call(summed(program, out, program.place(out), s["sizes"], s["kind"], read))


_LOWER: dict[str, Callable[[Program, Operation], None]] = {
    "reduce": _reduce,
    "arg": _arg,
    "running": _running,
    "window": _window,
    "dot": lower_dot,
    "conv": lower_conv,
    "concatenate": lower_concatenate,
    "pad": lower_pad,
    "dynamic_update_slice": lower_update_slice,
    "scatter": lower_scatter,
    "sort": lower_sort,
    "scan": lambda program, operation: lower_scan(program, operation, _lower_block),
    "while": lambda program, operation: lower_while(program, operation, _lower_block),
    "cond": lambda program, operation: lower_cond(program, operation, _lower_block),
}
