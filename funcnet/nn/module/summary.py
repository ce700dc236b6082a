"""The table of `net.summary(…)`, with the modules of a net and their costs.

The table is made from shapes only, so no array is allocated or computed. FLOPs are counted for matrix products and
convolutions, two per multiply-add, as in `torch.utils.flop_counter`. The counts come from the traced program, in which
each call of a module has a named scope.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

from funcnet import table, tree
from funcnet.functional import convolve, platforms
from funcnet.nn.core import binding
from funcnet.nn.core.call import Training, outermost
from funcnet.nn.core.module_tree import Node, walk
from funcnet.nn.core.parameter import Buffer, Parameter
from funcnet.operators import native
from funcnet.operators.jaxprs import JaxprEquation
from funcnet.tree import Params, State

__all__ = ["ModuleRow", "Summary", "summarize"]

_SCOPE = "module:"  # marks our scopes, "module:3:", among those that a forward may open itself


@dataclass(frozen=True)
class ModuleRow:
    """The row of one module in the table of `net.summary`. The numbers do not include the children of the module, so
    each column adds up to the total of the net.
    """

    name: str
    kind: str
    output: str  # output of the last call as dtype[shape], in JAX's notation; "" if the module was not called
    parameters: int  # number of elements; a shared parameter counts only under its first name
    buffers: int
    flops: int
    bytes: int  # size of parameters and buffers
    frozen: int  # number of elements of frozen parameters


@dataclass(frozen=True)
class Summary:
    """The result of `net.summary`: a table for a terminal or a notebook, with its rows for use in programs."""

    rows: tuple[ModuleRow, ...]

    def total(self) -> ModuleRow:
        """Return a row with the sums of the columns, labelled with the class of the root."""
        sums = {f.name: sum(getattr(row, f.name) for row in self.rows) for f in fields(ModuleRow)[3:]}
        return ModuleRow("total", self.rows[0].kind, self.rows[0].output, **sums)

    def to_dataframe(self) -> Any:
        """Return a pandas.DataFrame with one row per module."""
        return table.dataframe(self.rows, "Summary.to_dataframe")

    def _cells(self) -> list[list[str]]:
        return [[f.name for f in fields(ModuleRow)]] + [
            ["(root)" if row.name == "" else row.name, row.kind, row.output]
            + [f"{getattr(row, f.name):,}" for f in fields(ModuleRow)[3:]]
            for row in (*self.rows, self.total())
        ]

    def __str__(self) -> str:
        return table.text(self._cells(), left=3, total=True)

    def _repr_html_(self) -> str:
        return table.html(self._cells())

    __repr__ = __str__


def summarize(
    net: Node, inputs: tuple[Any, ...], kwargs: dict[str, Any], training: Training, rng: jax.Array | None
) -> Summary:
    """Return the table of the modules of a net and their costs. See `Module.summary`."""
    key = jax.random.key(0) if rng is None else rng
    given, join = tree.arrays_of((inputs, kwargs), numpy_integers=False)
    arrays = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in given]

    def start(key: jax.Array, arrays: list[Any]) -> Any:
        args, kwargs = join(arrays)
        return net.init(key, *args, **kwargs)

    params, state = jax.eval_shape(start, key, arrays)
    watch = _Watch()

    def run(params: Params, state: State, key: jax.Array, arrays: list[Any]) -> Any:
        args, kwargs = join(arrays)
        call = outermost(net, "summary", args, None, training, key, None, scope=watch.scope)
        call.hooks = watch
        return binding.run(net, params, state, args, kwargs, call)[0]

    with native.allowed(False):  # operations are counted in the formulas
        program = jax.make_jaxpr(run)(params, state, key, arrays).jaxpr
    flops = _flops(program, watch.calls)
    shapes = {**tree.flatten(params), **tree.flatten(state)}
    own: dict[int, list[tuple[Any, Any]]] = {}  # {id(module): [(leaf, its shape and dtype)]}
    for place in walk(net):
        own.setdefault(id(place.module), []).append((place.leaf, shapes[place.path]))
    rows = []
    for name, module in net.named_modules():
        leaves = own.get(id(module), [])
        sizes = {kind: [a.size for leaf, a in leaves if isinstance(leaf, kind)] for kind in (Parameter, Buffer)}
        rows.append(
            ModuleRow(
                name,
                type(module).__name__,
                watch.outputs.get(name, ""),
                parameters=sum(sizes[Parameter]),
                buffers=sum(sizes[Buffer]),
                flops=flops.get(name, 0),
                bytes=sum(a.size * a.dtype.itemsize for _, a in leaves),
                frozen=sum(a.size for leaf, a in leaves if not getattr(leaf, "requires_grad", True)),
            )
        )
    return Summary(tuple(rows))


class _Watch:
    """Numbers the module calls of a traced run, and puts the number of each call into its named scope. The object also
    takes the place of the run's hooks, and records the dtypes and shapes of the outputs.
    """

    def __init__(self) -> None:
        self.outputs: dict[str, str] = {}
        self.calls: list[str] = []  # the name of the module of each call

    def scope(self, name: str, outer: str) -> str:
        """Return the name of the `jax.named_scope` of a module call. The number in this name shows to which module the
        operations in the scope belong.
        """
        self.calls.append(name)
        return f"{_SCOPE}{len(self.calls) - 1}:"

    def run(
        self, module: Node, name: str, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        out = forward(*args, **kwargs)
        arrays = [leaf for leaf in jax.tree.leaves(out) if hasattr(leaf, "dtype")]
        self.outputs[name] = ", ".join(jax.typeof(leaf).str_short(short_dtypes=True) for leaf in arrays)
        return out


def _flops(jaxpr: Jaxpr, calls: list[str]) -> dict[str, int]:
    """Return {module name: FLOPs of the module without its children}."""
    found: dict[str, int] = {}
    for call, count in _operations(jaxpr, 0, 1):
        found[calls[call]] = found.get(calls[call], 0) + count
    return found


def _operations(jaxpr: Jaxpr, outer: int, times: int) -> Iterator[tuple[int, int]]:
    """Yield (number of the module call, FLOPs) for every matrix product and convolution of a traced program. An
    operation without a named scope belongs to the root of the net, call 0.
    """
    for equation in jaxpr.eqns:
        stack = str(equation.source_info.name_stack)
        call = int(stack.rsplit(_SCOPE, 1)[1].split(":")[0]) if _SCOPE in stack else outer
        if equation.primitive.name == "dot_general":
            yield call, times * _dot(equation)
        elif equation.primitive.name == "conv_general_dilated":
            yield call, times * _convolution(equation)
        inner_times = times * equation.params.get("length", 1) if equation.primitive.name == "scan" else times
        for inner in _inner(equation):
            yield from _operations(inner, call, inner_times)


def _inner(equation: JaxprEquation) -> list[Jaxpr]:
    """Return the programs inside an operation such as `scan`. Only one branch of a `cond` runs, so only the last one is
    returned.
    """
    if (product := platforms.default_program(equation)) is not None:
        return [product.jaxpr]
    out = []
    for key, value in equation.params.items():
        for one in value[-1:] if key == "branches" else (value,):
            if isinstance(one, ClosedJaxpr):
                out.append(one.jaxpr)
            elif isinstance(one, Jaxpr):
                out.append(one)
    return out


def _dot(equation: JaxprEquation) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(left[i] for i in contracted)


def _convolution(equation: JaxprEquation) -> int:
    """Return the FLOPs of a convolution, counted as in torch. The kernel is applied once per pixel of the output, or of
    the input in a transposed convolution.
    """
    x, kernel = (variable.aval.shape for variable in equation.invars)
    numbers, out = equation.params["dimension_numbers"], equation.outvars[0].aval.shape
    transposed = convolve.TRANSPOSED in str(equation.source_info.name_stack)
    sizes = [x[i] for i in numbers.lhs_spec[2:]] if transposed else [out[i] for i in numbers.out_spec[2:]]
    return 2 * out[numbers.out_spec[0]] * math.prod(sizes) * math.prod(kernel)
