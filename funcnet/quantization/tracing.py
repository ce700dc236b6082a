"""Tracing: the conversion of a net's inference to a graph of layers.

    net.apply --make_jaxpr--> program --one rule per primitive--> graph of layers

Calls are inlined. Operations that depend only on parameters are computed at once, so that rules see constants. A rule
looks at one operation and the nodes before it. A rule that recognises a layer adds one node for the whole layer. Nodes
whose outputs nothing reads are removed at the end. An operation that no rule recognises raises an error.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal
from jax.typing import DTypeLike

from funcnet import nn, tree
from funcnet.functional.platforms import default_program
from funcnet.nn import activation, hard, relu
from funcnet.nn.core.module_tree import children
from funcnet.operators import native
from funcnet.operators.jaxprs import JaxprEquation, called_program, layer_of
from funcnet.quantization.evaluation import OPERATIONS
from funcnet.quantization.graph import LayerGraph, LayerNode, LayerValue
from funcnet.quantization.qparams import QParams
from funcnet.quantization.recognition import FOLDING, RULES
from funcnet.quantization.residuals import with_real_residuals
from funcnet.tree import Params, State

__all__ = ["layers_of"]

_RANDOM = ("random_", "threefry", "rng_")
_ACTIVATIONS = {activation.__name__, hard.__name__, relu.__name__}
_JAX_NAMES = {"sum_pool": "reduce_window_sum"}
_NAMED = 8  # number of layers that a message names
_SAME = {"stop_gradient", "copy", "optimization_barrier", "sharding_constraint"}
_INSTEAD = {
    "scan": "Use nn.Repeat(…, scan=False), or a loop over layers.",
    "while": "Write the loop with a fixed number of steps in Python.",
    "pad": "Only padding with zeros has an integer kernel. Pooling needs ceil_mode=False.",
    "eq": "A mask of attention is mask > 0.",
    "ne": "A mask of attention is mask > 0.",
    "pow": "Keep this part outside of the quantized net.",
}


def layers_of(
    where: str,
    net: nn.Module,
    params: Params,
    state: State,
    inputs: Sequence[Any],
    names: Sequence[str] = (),
    channels: Mapping[str, QParams] | None = None,
) -> LayerGraph:
    """Return the graph of layers of `net.apply(params, state, *inputs, training=False)`.

    Args:
        where: name of the caller, for error messages.
        net: the module.
        params, state: parameters and buffers of the module. Parameters may be tracers.
        inputs: example arrays.
        names: names of the last inputs, if these inputs are keyword arguments of the net.
        channels: result of `calibrate`. Only the ranges that have a scale for each channel are used; see
            `residuals.py`.

    Raises:
        ValueError: if there are no inputs, the net draws random numbers or changes buffers at inference, an operation
            has no integer kernel, or an output is an input or a constant. The message names the layer or the buffer.

    Example:
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
        >>> params, state = net.init(jax.random.key(0))
        >>> graph = layers_of("convert", net, params, state, [np.zeros((1, 1, 4, 4), np.float32)])
        >>> [node.output.name for node in graph.nodes]
        ['0:conv', '3:reshape', '4:linear']
    """
    if not inputs:
        raise ValueError(f"{where}: there is no example array; expected one for each input of the net, got none.")

    def run(*arrays: jax.Array) -> Any:
        plain = len(arrays) - len(names)
        named: dict[str, Any] = dict(zip(names, arrays[plain:], strict=True))
        out, new = net.apply(params, state, *arrays[:plain], **named, training=False)
        if new is not state:
            old = tree.flatten(state)
            changed = [name for name, value in tree.flatten(new).items() if old[name] is not value]
            if changed:
                raise ValueError(
                    f"{where}: the net changes the buffer {changed[0]!r} at inference; expected a net that keeps its "
                    f"buffers, got {len(changed)} changed ones."
                )
        return out

    with native.allowed(False):  # layers are recognised by their formulas
        program, shapes = jax.make_jaxpr(run, return_shape=True)(*inputs)
    graph = LayerGraph([LayerValue(tuple(v.aval.shape), np.dtype(v.aval.dtype)) for v in program.jaxpr.invars])
    graph.structure = jax.tree.structure(shapes)
    graph.outputs = _Tracer(where, graph).inline(program, list(graph.inputs))
    graph.finish()
    graph = _folded(graph)
    # A primitive that no rule recognises may have the same name as an operation.
    refused = [node for node in graph.nodes if node.op not in OPERATIONS or "primitive" in node.settings]
    if refused:
        _refuse(where, net, refused)
    _check_masks(where, graph)
    for index, value in enumerate(graph.outputs):
        if value.producer is None:
            raise ValueError(
                f"{where}: output {index} is an input or a constant; expected an output that the net computes from its "
                "inputs, got one that needs no integers."
            )
    return with_real_residuals(graph, channels)


def _check_masks(where: str, graph: LayerGraph) -> None:
    """Raise ValueError if anything except softmax reads masked attention scores.

    The integer net and the floating-point net lower a hidden score by different amounts. After softmax, the probability
    of a hidden score is 0 in both nets.
    """
    hidden = {id(node.output): node for node in graph.nodes if node.op == "hide"}
    readers = [(id(value), f"{node.op!r}") for node in graph.nodes if node.op != "softmax" for value in node.inputs]
    for key, reader in [*readers, *((id(value), "the result") for value in graph.outputs)]:
        if key in hidden:
            inside = f" in layer {hidden[key].layer!r}" if hidden[key].layer else ""
            raise ValueError(
                f"{where}: a mask{inside} has no integer kernel; expected softmax over the last axis after the mask, "
                f"got {reader}."
            )


def _folded(first: LayerGraph) -> LayerGraph:
    """Return the graph after the second pass of rules; see `recognition.py`."""
    graph = LayerGraph(first.inputs, structure=first.structure)
    now: dict[int, LayerValue] = {}
    for node in first.nodes:
        inputs = [now.get(id(value), value) for value in node.inputs]
        graph.layer, out = node.layer, node.output
        rule = FOLDING.get(node.op, lambda *_: None)
        found = rule(graph, inputs, node.settings, out)
        now[id(out)] = graph.add(node.op, inputs, out.shape, out.dtype, **node.settings) if found is None else found
    graph.outputs = [now.get(id(value), value) for value in first.outputs]
    graph.finish()
    return graph


class _Tracer:
    """Adds the equations of a traced JAX program to a layer graph."""

    def __init__(self, where: str, graph: LayerGraph):
        self.where, self.graph, self.scope = where, graph, ""

    def inline(self, closed: ClosedJaxpr, inputs: Sequence[LayerValue]) -> list[LayerValue]:
        """Add the equations of a traced program to the graph, and return the values of the program's outputs."""
        jaxpr, outer = closed.jaxpr, self.scope
        values: dict[Any, LayerValue] = dict(zip(jaxpr.constvars, map(_constant, closed.consts), strict=True))
        values |= zip(jaxpr.invars, inputs, strict=True)
        read = lambda atom: (
            _constant(atom.val, getattr(atom.aval, "dtype", None)) if isinstance(atom, Literal) else values[atom]
        )
        for equation in jaxpr.eqns:
            self.graph.layer = ".".join(filter(None, (outer, layer_of(equation))))
            results = self._equation(equation, [read(atom) for atom in equation.invars])
            values |= zip(equation.outvars, results, strict=True)
        self.graph.layer = outer
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, equation: JaxprEquation, operands: list[LayerValue]) -> Sequence[LayerValue]:
        name = equation.primitive.name
        if name.startswith(_RANDOM):
            raise ValueError(
                f"{self.where}: {self.graph.layer or 'the net'} draws random numbers; expected a net without "
                f"randomness at inference, got the primitive {name!r}."
            )
        inner = default_program(equation) or called_program(equation)
        if inner is not None:
            outer, self.scope = self.scope, self.graph.layer
            try:
                return self.inline(inner, operands)
            finally:
                self.scope = outer
        if all(value.constant is not None for value in operands):
            return _computed(equation, operands)
        if name in _SAME:
            return operands
        rule: Callable[..., LayerValue | None] = RULES.get(name, lambda *_: None)
        if (found := rule(self.graph, operands, equation.params, equation.outvars[0].aval)) is not None:
            return [found]
        settings = {"primitive": equation.primitive, "params": equation.params}
        return [
            self.graph.add(name, operands, variable.aval.shape, variable.aval.dtype, **settings)
            for variable in equation.outvars
        ]


def _constant(array: Any, dtype: DTypeLike | None = None) -> LayerValue:
    array = np.asarray(array, dtype) if isinstance(array, int | float | bool) else array
    return LayerValue(tuple(array.shape), array.dtype, array)


def _computed(equation: JaxprEquation, operands: Sequence[LayerValue]) -> list[LayerValue]:
    """Compute an operation on constants while tracing, and return its results as constants."""
    arrays = [value.constant for value in operands]

    def run() -> Any:
        return equation.primitive.bind(*map(jax.numpy.asarray, arrays), **equation.params)

    if any(isinstance(array, jax.core.Tracer) for array in arrays):
        out = run()
    else:
        # compute even inside an outer trace, so that rules can read the numbers
        with jax.ensure_compile_time_eval():
            out = run()
    return [_constant(one) for one in (out if equation.primitive.multiple_results else [out])]


def _refuse(where: str, net: nn.Module, nodes: Sequence[LayerNode]) -> None:
    """Raise the error for the first of the nodes without an integer kernel. The message also names all their layers."""
    node = nodes[0]
    module, name = _module(net, node.layer), _JAX_NAMES.get(node.op, node.op)
    kind = "" if module is None else type(module).__name__
    inside = f" in layer {node.layer!r}" if node.layer else ""
    if type(module).__module__ in _ACTIVATIONS:
        raise ValueError(
            f"{where}: the activation {kind}{inside} has no integer kernel; expected ReLU, ReLU6, Hardtanh, GELU, "
            f"Sigmoid or Tanh, got {kind} with the operation {name!r}. Train the net with one of these. "
            f"{_only_float(net, nodes)}"
        )
    inside += f" ({kind})" if inside and kind else ""
    advice = _INSTEAD.get(name, "Run this part in floating point, outside of the quantized net.")
    raise ValueError(
        f"{where}: the operation {name!r}{inside} has no integer kernel; expected "
        f"{', '.join(sorted(OPERATIONS))}, got {name!r}. {advice} {_only_float(net, nodes)}"
    )


def _only_float(net: nn.Module, nodes: Sequence[LayerNode]) -> str:
    """Return the sentence that names what has no integer kernel: layers, and operations outside of all layers."""

    def named(node: LayerNode) -> str:
        if not node.layer:
            return f"the operation {_JAX_NAMES.get(node.op, node.op)!r}"
        module = _module(net, node.layer)
        return f"layer {node.layer!r}" + ("" if module is None else f" ({type(module).__name__})")

    names = list(dict.fromkeys(map(named, nodes)))
    more = f", … ({len(names)} in all)" if len(names) > _NAMED else ""
    return f"Only this has to stay in float: {', '.join(names[:_NAMED])}{more}."


def _module(net: Any, layer: str) -> Any:
    """Return the submodule with a dotted name, or None if there is no such submodule."""
    for name in filter(None, layer.split(".")):
        net = None if net is None else dict(children(net, layers=True)).get(name)
    return net
