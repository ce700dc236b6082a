"""Rules for loops and branches: `scan`, `while` and `cond`. The bodies of loops and branches are graphs, which can also
read values of the graph around them.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from funcnet.export.onnx.emitter import Emitter
from funcnet.export.onnx.graph import Graph, OnnxValue
from funcnet.export.tracing import Equation

__all__ = ["RULES"]


def _scan(low: Emitter, equation: Equation, *inputs: OnnxValue) -> list[OnnxValue]:
    params, graph = equation.params, low.graph
    constants, carries = params["num_consts"], params["num_carry"]
    shared, carry = inputs[:constants], inputs[constants : constants + carries]
    rows = list(inputs[constants + carries :])
    program, length = params["jaxpr"], params["length"]
    body = Graph()
    start = [OnnxValue(value.shape, value.dtype) for value in carry]
    each = [OnnxValue(tuple(value.shape[1:]), value.dtype) for value in rows]
    body.inputs = [*start, *each]
    inner = low.inside(body)
    outputs = inner.inlined(program, [*shared, *start, *each])
    if not rows:  # the number of iterations of ONNX's Scan is the size of an input
        zero, one = (graph.constant(np.asarray(n, np.int64)) for n in (0, 1))
        count = graph.squeeze(low.dimensions.value(length), [0])
        rows = [graph.add("Range", [zero, count, one], (length,), np.int64)]
        body.inputs.append(OnnxValue((), np.dtype(np.int64)))
    body.outputs = body.own(outputs)
    types = [(variable.aval.shape, variable.aval.dtype) for variable in equation.outvars]
    backward = int(params["reverse"])
    settings: dict[str, Any] = {"body": body, "num_scan_inputs": len(rows)}
    if backward:
        settings["scan_input_directions"] = [1] * len(rows)
        settings["scan_output_directions"] = [1] * (len(outputs) - carries)
    return graph.add_many("Scan", [*carry, *rows], types, **settings)


def _while(low: Emitter, equation: Equation, *inputs: OnnxValue) -> list[OnnxValue]:
    params, graph = equation.params, low.graph
    before, within = params["cond_nconsts"], params["body_nconsts"]
    tested, shared, carry = inputs[:before], inputs[before : before + within], inputs[before + within :]
    body = Graph()
    state = [OnnxValue(value.shape, value.dtype) for value in carry]
    inner = low.inside(body)
    (first,) = low.inlined(params["cond_jaxpr"], [*tested, *carry])
    several = OnnxValue(first.shape, first.dtype)  # the tests of a loop under vmap
    running = [several] if first.shape else []
    body.inputs = [OnnxValue((), np.dtype(np.int64)), OnnxValue((), np.dtype(bool)), *running, *state]
    after = inner.inlined(params["body_jaxpr"], [*shared, *state])
    if running:
        after = [_where_running(body, several, new, old) for new, old in zip(after, state, strict=True)]
    (test,) = inner.inlined(params["cond_jaxpr"], [*tested, *after])
    body.outputs = body.own([_any(body, test), *([test] if running else []), *after])
    types = [(value.shape, value.dtype) for value in (*running, *carry)]
    begin = [first, *carry] if running else list(carry)
    return graph.add_many("Loop", [None, _any(graph, first), *begin], types, body=body)[len(running) :]


def _any(graph: Graph, test: OnnxValue) -> OnnxValue:
    """Return a boolean scalar: whether any entry of `test` is true."""
    if not test.shape:
        return test
    axes = graph.ints(*range(test.rank))
    return graph.cast(graph.add("ReduceSum", [graph.cast(test, np.int32), axes], (), np.int32, keepdims=0), bool)


def _where_running(graph: Graph, running: OnnxValue, new: OnnxValue, old: OnnxValue) -> OnnxValue:
    """Return the values after one iteration of a loop under `vmap`.

    Rows whose test is true get the new values. Rows whose test is false have finished, and keep the old values.
    """
    return graph.where(graph.unsqueeze(running, range(running.rank, new.rank)), new, old, new.shape)


def _cond(low: Emitter, equation: Equation, which: OnnxValue, *inputs: OnnxValue) -> list[OnnxValue]:
    branches = equation.params["branches"]
    types = [(variable.aval.shape, variable.aval.dtype) for variable in equation.outvars]
    return _choose(low, which, branches, inputs, types, 0)


def _choose(
    low: Emitter,
    which: OnnxValue,
    branches: Sequence[Any],
    inputs: Sequence[OnnxValue],
    types: Sequence[Any],
    number: int,
) -> list[OnnxValue]:
    """Lower a conditional: run branch `number` if `which` is at most `number`, and otherwise a later branch."""
    if number == len(branches) - 1:
        return low.inlined(branches[number], inputs)
    graphs = []
    for chosen in (True, False):
        body = Graph()
        inner = low.inside(body)
        if chosen:
            outputs = inner.inlined(branches[number], inputs)
        else:
            outputs = _choose(inner, which, branches, inputs, types, number + 1)
        body.outputs = body.own(outputs)
        graphs.append(body)
    index = low.graph.cast(which, np.int32)
    limit = low.graph.constant(np.asarray(number, np.int32))
    here = low.graph.add("LessOrEqual", [index, limit], (), bool)
    return low.graph.add_many("If", [here], types, then_branch=graphs[0], else_branch=graphs[1])


RULES: Mapping[str, Callable[..., Any]] = MappingProxyType({"scan": _scan, "while": _while, "cond": _cond})
