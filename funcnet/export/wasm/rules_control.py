"""Rules that translate loops and conditionals of JAX into operations of `funcnet.loops`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from funcnet.export.tracing import Equation
from funcnet.export.wasm.trace import Rules, Tracer
from funcnet.loops.operations import ArrayValue, Block, needed

__all__ = ["CONTROL"]


def _types(e: Equation) -> list[tuple[Any, Any]]:
    return [(v.aval.shape, v.aval.dtype) for v in e.outvars]


def _scan(t: Tracer, e: Equation, operands: list[ArrayValue]) -> list[ArrayValue]:
    p = e.params
    constants, rest = operands[: p["num_consts"]], operands[p["num_consts"] :]
    body = t.block(p["jaxpr"], constants)
    settings = {"carries": p["num_carry"], "length": p["length"], "reverse": p["reverse"]}
    return t.emit_many("scan", rest, _types(e), [body], **settings)


def _while(t: Tracer, e: Equation, operands: list[ArrayValue]) -> list[ArrayValue]:
    p = e.params
    of_test, of_body = p["cond_nconsts"], p["body_nconsts"]
    for_test, for_body, start = operands[:of_test], operands[of_test : of_test + of_body], operands[of_test + of_body :]
    if p["cond_jaxpr"].out_avals[0].shape:
        test, body = _batched_while(t, p, for_test, for_body)
    else:
        test, body = t.block(p["cond_jaxpr"], for_test), t.block(p["body_jaxpr"], for_body)
    return t.emit_many("while", start, _types(e), [test, body])


def _batched_while(
    t: Tracer, p: Mapping[str, Any], for_test: list[ArrayValue], for_body: list[ArrayValue]
) -> tuple[Block, Block]:
    """Return the test and the body of a `while` under `vmap`.

    The loop runs while the test of any entry of the batch is true. Entries whose test is false keep their carries.
    """
    blocks = []
    for is_body in (False, True):
        inside = Tracer(t.rules, t.layer)
        carries = [inside.fresh(a, "a value of a loop") for a in p["body_jaxpr"].in_avals[len(for_body) :]]
        (running,) = inside.inline(p["cond_jaxpr"], [*for_test, *carries])
        axes = tuple(range(len(running.shape)))
        if is_body:
            outputs = []
            for old, new in zip(carries, inside.inline(p["body_jaxpr"], [*for_body, *carries]), strict=True):
                which = inside.emit("broadcast", [running], old.shape, bool, dims=axes)
                outputs.append(inside.emit("select_n", [which, old, new], old.shape, old.dtype))
        else:
            outputs = [inside.emit("reduce", [running], (), bool, kind="or", axes=axes)]
        blocks.append(needed(Block(carries, inside.operations, outputs)))
    return blocks[0], blocks[1]


def _cond(t: Tracer, e: Equation, operands: list[ArrayValue]) -> list[ArrayValue]:
    chosen, branches = operands[0], e.params["branches"]
    if chosen.constant is not None:  # such as the platform
        return t.inline(branches[min(max(int(chosen.constant), 0), len(branches) - 1)], operands[1:])
    branches = [t.block(branch, operands[1:]) for branch in branches]
    if chosen.dtype == bool:
        chosen = t.emit("convert", [chosen], (), np.int32)
    return t.emit_many("cond", [chosen], _types(e), branches)


def _platform(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    """Return the number of the default branch of `jax.lax.platform_dependent`, or 0 if it has no default branch."""
    platforms = e.params["platforms"]
    others = [place for place, names in enumerate(platforms) if names is None]
    return ArrayValue.of(np.int32(others[0] if others else 0))


CONTROL: Rules = {"scan": _scan, "while": _while, "cond": _cond, "platform_index": _platform}
