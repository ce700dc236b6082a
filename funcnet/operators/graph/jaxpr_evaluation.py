"""Evaluate a jaxpr, equation by equation, on values that refer to the node that receives their gradient.

A recorded call runs its plan. For any other call (`jit`, `remat`, `cond`, loops), the equations inside it are
evaluated, and a loop runs step by step, like a Python loop in torch. Every other equation has a rule in
`jax_primitives.py`. All values are those that JAX computes, except that a plan computes the intermediate values between
its arguments and its results.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, Literal
from numpy.typing import NDArray

from funcnet.operators.graph.jax_primitives import FUNCTIONS, RULES
from funcnet.operators.graph.jaxpr_equation import Equation, operator_node, unknown_node
from funcnet.operators.graph.recording import BEGIN, END, RecordedCall
from funcnet.operators.graph.torch_operations.tape import Tape, TapeValue, to_array
from funcnet.operators.jaxprs import called_program
from funcnet.operators.primitives import OperatorCall

__all__ = ["Evaluation"]

Plan = Callable[..., Any]


class Evaluation:
    """Evaluates jaxprs on one tape.

    Args:
        calls: the recorded calls.
        plans: {name of a function: its plan}.
    """

    def __init__(self, calls: Mapping[int, RecordedCall], plans: Mapping[str, Plan]):
        self.calls, self.plans, self.tape = calls, plans, Tape()

    def run(self, jaxpr: Jaxpr, consts: Sequence[Any], values: Sequence[TapeValue]) -> list[TapeValue]:
        """Return the results of a jaxpr."""
        known: dict[Any, TapeValue] = dict(zip(jaxpr.invars, values, strict=True))
        for variable, const in zip(jaxpr.constvars, consts, strict=True):
            known[variable] = const if isinstance(const, TapeValue) else TapeValue(to_array(const))
        read = lambda one: _constant(one) if isinstance(one, Literal) else known[one]
        consumers: dict[Any, list[Any]] = {}
        for eqn in [*jaxpr.eqns, None]:
            for one in jaxpr.outvars if eqn is None else eqn.invars:
                if not isinstance(one, Literal):
                    consumers.setdefault(one, []).append(eqn)
        ends = {eqn.params["number"]: place for place, eqn in enumerate(jaxpr.eqns) if eqn.primitive is END}
        until, operands = -1, list[TapeValue]()
        for place, eqn in enumerate(jaxpr.eqns):
            if any(variable in known for variable in eqn.outvars):
                continue  # the rule of an earlier equation has computed it
            given = [read(one) for one in eqn.invars]
            if place < until:  # inside a recorded call, where only the values are computed
                given = [TapeValue(one.array) for one in given]
            if eqn.primitive is BEGIN and place >= until and ends.get(eqn.params["number"], -1) > place:
                until, operands = ends[eqn.params["number"]], given
                results = [TapeValue(one.array) for one in given]
            elif eqn.primitive is END and place == until:
                results = self.call(eqn.params["number"], operands, [_in_order(one.array) for one in given])
            elif eqn.primitive in (BEGIN, END):
                results = given
            else:
                results = self.results(Equation(eqn, given, self.tape, consumers, known))
            known.update(zip(eqn.outvars, results, strict=True))
        return [read(one) for one in jaxpr.outvars]

    def results(self, equation: Equation) -> list[TapeValue]:
        """Return the results of an equation."""
        name, params, given = equation.name, equation.params, equation.given
        needs = any(value.requires_grad for value in given)
        if name in LOOPS and needs:  # without a gradient, a loop has no nodes, and runs as a whole below
            return LOOPS[name](self, given, params)
        # a function such as relu is opened unless a gradient flows: it then has one node, as in torch
        special = FUNCTIONS.get(_function_name(params)) if name == "custom_jvp_call" and needs else None
        if special is None and (program := called_program(equation.eqn)) is not None:
            return self.run(program.jaxpr, program.consts, given)
        if not needs:
            return [TapeValue(one) for one in equation.arrays()]
        if isinstance(params.get("call"), OperatorCall):
            return operator_node(equation)
        rule = special or RULES.get(name)
        return unknown_node(equation) if rule is None else rule(equation)

    def call(self, number: int, given: Sequence[TapeValue], arrays: Sequence[Any]) -> list[TapeValue]:
        """Run the plan of a recorded call, whose results are known."""
        recorded = self.calls[number]
        arguments = {
            name: jax.tree.map(_to_value, one, is_leaf=_is_array) for name, one in recorded.arguments(given).items()
        }
        if not any(isinstance(one, TapeValue) and one.requires_grad for one in jax.tree.leaves(arguments)):
            return [TapeValue(one) for one in arrays]
        result = jax.tree.unflatten(recorded.results, arrays)
        planned = self.plans[recorded.name](self.tape, result, recorded.function, **arguments)
        flat = jax.tree.leaves(planned, is_leaf=lambda x: isinstance(x, TapeValue))
        assert len(flat) == len(arrays), f"{recorded.name}: the plan has {len(flat)} results, not {len(arrays)}"
        return [_with_array(value, array) for value, array in zip(flat, arrays, strict=True)]


def _constant(literal: Any) -> TapeValue:
    return TapeValue(np.asarray(literal.val, literal.aval.dtype))


def _function_name(params: Mapping[str, Any]) -> str:
    """Return the name of a function that defines its own derivative."""
    return str(getattr(params["call_jaxpr"].jaxpr.debug_info, "func_name", ""))


def _in_order(array: jax.Array | np.ndarray) -> Any:
    """Return a contiguous array."""
    return array.copy(order="C") if isinstance(array, np.ndarray) and not array.flags.c_contiguous else array


def _is_array(one: object) -> bool:
    return isinstance(one, jax.Array | np.ndarray)


def _to_value(one: object) -> Any:
    """Constants among the arguments become values without a node."""
    return TapeValue(to_array(one)) if _is_array(one) else one


def _with_array(planned: TapeValue | None, array: NDArray[Any]) -> TapeValue:
    """Return a planned value with the numbers that the function computed, in the memory layout that the plan gave."""
    if not isinstance(planned, TapeValue):
        return TapeValue(array)
    if planned.array is array or planned.is_contiguous or planned.shape != array.shape:
        return TapeValue(array, planned.edge)
    laid_out = np.empty_like(planned.array, dtype=array.dtype, order="K")
    np.copyto(laid_out, array)
    return TapeValue(laid_out, planned.edge)


def _scan(self: Evaluation, given: Sequence[TapeValue], params: Mapping[str, Any]) -> list[TapeValue]:
    """Run a scan step by step: each step reads one entry of the stacked inputs, and the outputs are stacked."""
    closed, length = params["jaxpr"], params["length"]
    fixed, carried = params["num_consts"], params["num_carry"]
    consts, carry, stacked = given[:fixed], list(given[fixed : fixed + carried]), given[fixed + carried :]
    steps: list[list[TapeValue]] = []
    order = range(length - 1, -1, -1) if params["reverse"] else range(length)
    for step in order:
        entries = [self.tape.run("select.int", one, dim=0, index=step) for one in stacked]
        found = self.run(closed.jaxpr, closed.consts, [*consts, *carry, *entries])
        carry = found[:carried]
        steps.append(found[carried:])
    if params["reverse"]:
        steps.reverse()
    if not length:
        return [*carry, *(TapeValue(np.zeros(one.shape, one.dtype)) for one in params["jaxpr"].out_avals[carried:])]
    columns = list(zip(*steps, strict=True))
    return [*carry, *(self.tape.run("stack", list(column), dim=0) for column in columns)]


def _while(self: Evaluation, given: Sequence[TapeValue], params: Mapping[str, Any]) -> list[TapeValue]:
    """Run a while loop until its condition is false."""
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    condition, body = params["cond_jaxpr"], params["body_jaxpr"]
    carry = list(given[second:])
    while bool(self.run(condition.jaxpr, condition.consts, [*given[:first], *carry])[0].array):
        carry = self.run(body.jaxpr, body.consts, [*given[first:second], *carry])
    return carry


def _cond(self: Evaluation, given: Sequence[TapeValue], params: Mapping[str, Any]) -> list[TapeValue]:
    """Run the branch that the index selects."""
    branches = params["branches"]
    branch = branches[int(jnp.clip(given[0].array.astype(int), 0, len(branches) - 1))]
    return self.run(branch.jaxpr, branch.consts, given[1:])


LOOPS: dict[str, Callable[..., list[TapeValue]]] = {"scan": _scan, "while": _while, "cond": _cond}
