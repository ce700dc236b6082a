"""The nodes of JAX's primitives that reduce arrays, change shapes, or move entries.

Some torch functions are several equations in JAX: a mean is a sum and a quotient, and `x[0]` is a slice and a squeeze.
The rule of the first equation then also reads the equations that follow.
"""

import math

import numpy as np
from jax.extend.core import JaxprEqn, Literal

from funcnet.operators.graph.jaxpr_equation import POINTWISE, Equation, Rule, unknown_node
from funcnet.operators.graph.torch_operations.composite_operations import reshape
from funcnet.operators.graph.torch_operations.tape import TapeValue

__all__ = ["SHAPE_RULES"]


def _sum(equation: Equation) -> list[TapeValue]:
    """A sum, or a mean if a division by the number of entries follows. `keepdim` is True if the axes are then added
    again.
    """
    (x,), tape = equation.given, equation.tape
    axes = tuple(int(axis) for axis in equation.params["axes"])
    count = math.prod(x.shape[axis] for axis in axes)
    chain = [equation.eqn]  # the equations of one torch function
    user = equation.next_equation(equation.eqn)
    keeps = user is not None and _brings_back(user, x.shape, axes)
    if keeps:
        chain.append(user)
        user = equation.next_equation(user)
    is_mean = user is not None and user.primitive.name == "div" and _is_literal(user.invars[1], count)
    if is_mean:
        chain.append(user)
    total = equation.arrays()[0]
    # np.asarray, because a quotient of two arrays without dimensions is a scalar of NumPy, not an array
    out = np.asarray(total / np.asarray(count, total.dtype) if is_mean else total).astype(total.dtype)
    out = np.expand_dims(out, axes) if keeps else out
    if len(axes) == x.ndim and not keeps:  # torch has another node for `x.sum()` than for `x.sum(dim)`
        value = tape.run("mean" if is_mean else "sum", x, out=out)
    else:
        value = tape.run("mean.dim" if is_mean else "sum.dim_IntList", x, out=out, dim=axes, keepdim=keeps)
    for one in chain[1:]:  # `Evaluation.run` skips them, because their results are known
        equation.known[one.outvars[0]] = value
    return [value]


def _is_literal(variable: object, number: float) -> bool:
    return isinstance(variable, Literal) and np.ndim(variable.val) == 0 and variable.val == number


def _brings_back(eqn: JaxprEqn, shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Whether a `broadcast_in_dim` puts reduced axes back with size 1."""
    if eqn.primitive.name != "broadcast_in_dim":
        return False
    wanted = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
    return tuple(eqn.params["shape"]) == wanted and tuple(eqn.params["broadcast_dimensions"]) == kept


def _extreme(equation: Equation) -> list[TapeValue]:
    """The largest or smallest entry: `amax` with axes, `max` without."""
    (x,), axes = equation.given, tuple(int(axis) for axis in equation.params["axes"])
    name, out = equation.name.removeprefix("reduce_"), equation.arrays()[0]
    if len(axes) == x.ndim:
        return [equation.tape.run(name, x, out=out)]
    user = equation.next_equation(equation.eqn)
    keeps = user is not None and _brings_back(user, x.shape, axes)
    out = np.expand_dims(out, axes) if keeps else out
    value = equation.tape.run(f"a{name}", x, out=out, dim=axes, keepdim=keeps)
    if keeps:
        equation.known[user.outvars[0]] = value
    return [value]


def _total_product(equation: Equation) -> list[TapeValue]:
    (x,), axes, out = equation.given, equation.params["axes"], equation.arrays()[0]
    if len(axes) == x.ndim:
        return [equation.tape.run("prod", x, out=out)]
    if len(axes) > 1:
        return unknown_node(equation)
    return [equation.tape.run("prod.dim_int", x, out=out, dim=int(axes[0]), keepdim=False)]


def _cumulative(equation: Equation) -> list[TapeValue]:
    if equation.params["reverse"]:
        return unknown_node(equation)
    return [
        equation.tape.run(equation.name, *equation.given, out=equation.arrays()[0], dim=int(equation.params["axis"]))
    ]


def _reshape(equation: Equation) -> list[TapeValue]:
    return [reshape(equation.tape, equation.given[0], equation.params["new_sizes"])]


def _transpose(equation: Equation) -> list[TapeValue]:
    (x,), order = equation.given, tuple(int(axis) for axis in equation.params["permutation"])
    moved = [axis for axis, source in enumerate(order) if axis != source]
    if x.ndim == 2:
        return [equation.tape.run("t", x)] if moved else [x]
    if len(moved) == 2:
        return [equation.tape.run("transpose.int", x, dim0=moved[0], dim1=moved[1])]
    return [equation.tape.run("permute", x, dims=order)] if moved else [x]


def _broadcast(equation: Equation) -> list[TapeValue]:
    """New dimensions of size 1 are `unsqueeze`, larger ones `expand`. Torch broadcasts the operands of element-wise
    operations without a node.
    """
    (x,), tape = equation.given, equation.tape
    shape, places = tuple(equation.params["shape"]), tuple(equation.params["broadcast_dimensions"])
    users = equation.consumers.get(equation.eqn.outvars[0], [])
    is_leading = places == tuple(range(len(shape) - x.ndim, len(shape)))
    if is_leading and users and all(user is not None and user.primitive.name in POINTWISE for user in users):
        return [TapeValue(np.broadcast_to(x.array.reshape((1,) * (len(shape) - x.ndim) + x.shape), shape), x.edge)]
    if (is_leading and x.shape != shape[len(shape) - x.ndim :]) or (is_leading and math.prod(shape) != x.array.size):
        return [tape.run("expand", x, size=shape)]
    for axis in range(len(shape)):
        if axis not in places:
            x = tape.run("unsqueeze", x, dim=axis)
    return [x if x.shape == shape else tape.run("expand", x, size=shape)]


def _squeeze(equation: Equation) -> list[TapeValue]:
    (x,) = equation.given
    for axis in sorted((int(axis) for axis in equation.params["dimensions"]), reverse=True):
        x = equation.tape.run("squeeze.dim", x, dim=axis)
    return [x]


def _slice(equation: Equation) -> list[TapeValue]:
    """A slice for each dimension. If a `squeeze` then removes the dimension, the node is that of `select`."""
    (x,), params = equation.given, equation.params
    starts, ends = params["start_indices"], params["limit_indices"]
    steps = params["strides"] or (1,) * x.ndim
    return [_cut(equation, x, [(int(a), int(b), int(c)) for a, b, c in zip(starts, ends, steps, strict=True)])]


def _dynamic_slice(equation: Equation) -> list[TapeValue]:
    x, *starts = equation.given
    sizes = equation.params["slice_sizes"]
    first = [
        min(max(int(start.array), 0), size - part) for start, size, part in zip(starts, x.shape, sizes, strict=True)
    ]
    return [_cut(equation, x, [(start, start + int(part), 1) for start, part in zip(first, sizes, strict=True)])]


def _cut(equation: Equation, x: TapeValue, ranges: list[tuple[int, int, int]]) -> TapeValue:
    user = equation.next_equation(equation.eqn)
    removed: set[int] = set()
    if user is not None and user.primitive.name == "squeeze":
        wanted = {int(axis) for axis in user.params["dimensions"]}
        removed = {axis for axis in wanted if x.shape[axis] > 1} if all(x.shape[a] > 1 for a in wanted) else set()
    dim = 0
    for axis, (start, end, step) in enumerate(ranges):
        if axis in removed:
            x = equation.tape.run("select.int", x, dim=dim, index=start)
            continue
        if (start, end, step) != (0, x.shape[dim], 1):
            x = equation.tape.run("slice.Tensor", x, dim=dim, start=start, end=end, step=step)
        dim += 1
    if removed:
        equation.known[user.outvars[0]] = x
    return x


def _gather(equation: Equation) -> list[TapeValue]:
    """`x[indices]` with arrays of indices."""
    x, indices = equation.given
    return [equation.tape.run("index.Tensor", x, None, out=equation.arrays()[0], indices=[indices.array])]


def _scatter(equation: Equation) -> list[TapeValue]:
    x, indices, values = equation.given
    out, is_sum = equation.arrays()[0], equation.name == "scatter-add"
    settings = {"indices": [indices.array], "accumulate": is_sum}
    return [equation.tape.run("index_put", x, None, values, out=out, **settings)]


def _concatenate(equation: Equation) -> list[TapeValue]:
    out, dim = equation.arrays()[0], int(equation.params["dimension"])
    return [equation.tape.run("cat", list(equation.given), out=out, dim=dim)]


def _split(equation: Equation) -> list[TapeValue]:
    sizes, dim = tuple(int(size) for size in equation.params["sizes"]), int(equation.params["axis"])
    if len(set(sizes)) == 1:
        return list(equation.tape.run("split.Tensor", *equation.given, split_size=sizes[0], dim=dim))
    return list(equation.tape.run("split_with_sizes", *equation.given, split_sizes=sizes, dim=dim))


def _pad(equation: Equation) -> list[TapeValue]:
    x, value = equation.given
    widths = equation.params["padding_config"]
    if any(inner for _, _, inner in widths) or value.requires_grad:
        return unknown_node(equation)
    sides = tuple(int(side) for low, high, _ in reversed(widths) for side in (low, high))
    return [equation.tape.run("constant_pad_nd", x, out=equation.arrays()[0], pad=sides)]


def _flip(equation: Equation) -> list[TapeValue]:
    dims = tuple(int(axis) for axis in equation.params["dimensions"])
    return [equation.tape.run("flip", *equation.given, out=equation.arrays()[0], dims=dims)]


SHAPE_RULES: dict[str, Rule] = {
    "reduce_sum": _sum,
    "reduce_max": _extreme,
    "reduce_min": _extreme,
    "reduce_prod": _total_product,
    "cumsum": _cumulative,
    "cumprod": _cumulative,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast,
    "squeeze": _squeeze,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
    "scatter": _scatter,
    "scatter-add": _scatter,
    "concatenate": _concatenate,
    "split": _split,
    "pad": _pad,
    "rev": _flip,
}
