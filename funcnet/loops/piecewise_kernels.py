"""Kernels that write an array piece by piece: copies, concatenations, padding, updates and scatters."""

from funcnet.loops.index import Index, join
from funcnet.loops.nest import Kernel, Location, Nest, loops_over, start_of
from funcnet.loops.nest_kernels import computed, variables
from funcnet.loops.operations import ArrayValue, Operation
from funcnet.loops.pointwise import combined
from funcnet.loops.program import Program

__all__ = ["copied", "lower_concatenate", "lower_pad", "lower_scatter", "lower_update_slice"]


def copied(program: Program, value: ArrayValue, place: Location) -> Kernel:
    """Return the kernel that copies a value into an array of the same shape."""
    read = lambda nest, index: nest.read(value, index)
    return computed(program, value.shape, read, place, lambda index: join(index, value.shape))


def lower_concatenate(program: Program, operation: Operation) -> None:
    """Append one kernel for each operand of a concatenation, which copies the operand into the result."""
    (out,), axis, start = operation.results, operation.settings["axis"], 0
    place = program.place(out)
    for x in operation.operands:

        def position(index: list[Index], start: int = start) -> Index:
            return join([i + start if a == axis else i for a, i in enumerate(index)], out.shape)

        if x.size:
            read = lambda nest, index, x=x: nest.read(x, index)
            program.call(computed(program, x.shape, read, place, position))
        start += x.shape[axis]


def lower_pad(program: Program, operation: Operation) -> None:
    """Append the kernels of a `pad`: one fills the result, and one copies the operand into it."""
    (x, fill), (out,), config = operation.operands, operation.results, operation.settings["config"]
    place = program.place(out)
    if not out.size:
        return
    whole = lambda nest, index: nest.read(fill, [])
    program.call(computed(program, out.shape, whole, place, lambda index: join(index, out.shape)))
    first, counts = [], []
    for n, size, (low, _, between) in zip(x.shape, out.shape, config, strict=True):
        step = between + 1
        first.append(max(0, -(low // step)) if low < 0 else 0)
        last = min(n - 1, (size - 1 - low) // step)
        counts.append(last - first[-1] + 1)
    if min(counts, default=1) <= 0:
        return
    read = lambda nest, index: nest.read(x, [i + f for i, f in zip(index, first, strict=True)])

    def position(index: list[Index]) -> Index:
        moved = zip(index, first, config, strict=True)
        return join([(i + f) * (between + 1) + low for i, f, (low, _, between) in moved], out.shape)

    program.call(computed(program, counts, read, place, position))


def lower_update_slice(program: Program, operation: Operation) -> None:
    """Append the kernels of a `dynamic_update_slice`: one copies the array, and one overwrites a part of the copy."""
    (x, update, *starts), (out,) = operation.operands, operation.results
    place = program.place(out)
    program.call(copied(program, x, place))
    if not update.size:
        return
    nest = Nest(program)
    nest.argument(place, written=True)
    index, names = variables(nest, update.shape)
    at = [
        i + start_of(nest, start, size - part)
        for i, start, size, part in zip(index, starts, x.shape, update.shape, strict=True)
    ]
    nest.store(place, join(at, out.shape), nest.read(update, index))
    program.call(nest.kernel(loops_over(nest, names)))


def lower_scatter(program: Program, operation: Operation) -> None:
    """Append the kernels of a `scatter`: one copies the array, and one writes the updates into the copy one by one."""
    (x, indices, updates), (out,), s = operation.operands, operation.results, operation.settings
    place, numbers = program.place(out), operation.settings["numbers"]
    program.call(copied(program, x, place))
    if not updates.size:
        return
    nest = Nest(program)
    target = nest.argument(place, written=True)
    index, names = variables(nest, updates.shape)
    batch = [index[d] for d in range(len(index)) if d not in numbers.update_window_dims]
    window = iter([index[d] for d in numbers.update_window_dims])
    sizes = iter([updates.shape[d] for d in numbers.update_window_dims])
    at, tests = [], []
    for axis, size in enumerate(x.shape):
        one, part = Index(), 1
        if axis not in numbers.inserted_window_dims and axis not in numbers.operand_batching_dims:
            one, part = next(window), next(sizes)
        if axis in numbers.operand_batching_dims:
            one = batch[numbers.scatter_indices_batching_dims[numbers.operand_batching_dims.index(axis)]]
        elif axis in numbers.scatter_dims_to_operand_dims:
            atom = nest.read(indices, [*batch, Index(numbers.scatter_dims_to_operand_dims.index(axis))])
            one = one + nest.integer(size - part + 1, f"m_within((int)({atom}), 0, {size - part})")
            tests.append(f"{atom} >= 0 & {atom} <= {size - part}")
        at.append(one)
    element = f"{target}[{join(at, out.shape).text()}]"
    atom = nest.read(updates, index)
    new = atom if s["kind"] == "set" else combined(s["kind"], element, atom, out.dtype)
    test = f"if ({' & '.join(tests)}) " if tests and not s["clip"] else ""
    nest.lines.append((f"{test}{element} = {new};",))
    body = "".join("".join(p.text() if isinstance(p, Index) else p for p in line) + "\n" for line in nest.lines)
    program.call(nest.kernel(f"{nest.heads(names)}{{\n{body}}}\n"))
