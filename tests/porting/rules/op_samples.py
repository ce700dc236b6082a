"""Calls of torch from its own database of operators, `op_db`, as source text: `torch.sum(a0, dim=1)`, `a0.sum(1)`.

A call is evaluated with torch, ported by the rules, and evaluated again with JAX, in float64. Values and gradients are
compared.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

import funcnet.torchlike as tl
from funcnet import functional as F
from funcnet import nn
from funcnet.porting.expression_facts.fact import fact_of
from funcnet.porting.rewriting.rewriter import port_expression
from tests.database import convert

# torch.nn.functional is covered by tests/database.
OPERATORS = {
    "/".join(filter(None, (op.name, op.variant_test_name))): op
    for op in op_db
    if not op.name.startswith(("nn.functional.", "_", "masked.", "ops.", "jiterator", "torch.ops"))
}


class _Keys:
    """What a bound module is for a rule that draws: the ported call has `self.make_rng()`."""

    def make_rng(self) -> jax.Array:
        return jax.random.key(0)


FORMS = ("function", "method")
ENVIRONMENT = {
    "jnp": jnp, "jax": jax, "np": np, "F": F, "nn": nn, "tl": tl, "math": math, "operator": operator,
    "functools": functools, "self": _Keys(),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What was seen for the samples of one operator in one form."""

    name: str
    samples: int
    passed: int
    undecided: tuple[str, ...]
    failures: tuple[str, ...]


def callee(op: Any, form: str) -> str:
    """The text before the parenthesis: "torch.linalg.norm", or ".norm" for a method. "" if there is no such form."""
    if form == "method":
        method = op.method_variant
        name = getattr(method, "__name__", "")
        return f".{name}" if name and hasattr(torch.Tensor, name) and not name.startswith("__") else ""
    found: Any = torch
    for part in op.name.split("."):
        found = getattr(found, part, None)
    return f"torch.{op.name}" if callable(found) else ""


def written(value: Any, tensors: dict[str, torch.Tensor]) -> str:
    """The source text of an argument. Tensors get names."""
    if isinstance(value, torch.Tensor):
        tensors[f"a{len(tensors)}"] = value
        return f"a{len(tensors) - 1}"
    if isinstance(value, list):
        return "[" + ", ".join(written(one, tensors) for one in value) + "]"
    if isinstance(value, tuple):
        return "(" + "".join(written(one, tensors) + ", " for one in value) + ")"
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if value is None or isinstance(value, bool | int | float | complex | str):
        return repr(value)
    if isinstance(value, slice):
        return f"slice({value.start}, {value.stop}, {value.step})"
    raise NotImplementedError(f"an argument of type {type(value).__name__}")


def calls(name: str, form: str, limit: int | None = None) -> Iterator[tuple[str, dict[str, torch.Tensor]]]:
    """(source text of a call, its tensors) for each sample of the database."""
    op = OPERATORS[name]
    target = callee(op, form)
    if not target:
        return
    there = op.supported_dtypes("cpu")
    kinds = [torch.float64, torch.complex128, torch.int64, torch.bool]
    dtype = next(one for one in kinds if one in there)
    torch.manual_seed(0)
    samples = op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd and dtype.is_floating_point)
    for count, sample in enumerate(samples):
        if limit is not None and count >= limit:
            return
        tensors: dict[str, torch.Tensor] = {}
        first = written(sample.input, tensors)
        rest = [written(one, tensors) for one in sample.args]
        kwargs = {k: v for k, v in sample.kwargs.items() if k not in ("device", "layout", "pin_memory", "generator")}
        rest += [f"{key}={written(value, tensors)}" for key, value in kwargs.items()]
        if form == "method":
            if first != "a0":
                continue
            yield f"a0{target}({', '.join(rest)})", tensors
        else:
            yield f"{target}({', '.join([first, *rest])})", tensors


def check(text: str, tensors: dict[str, torch.Tensor], *, values: bool = True) -> str | None:
    """Compare a call with its port. None if they agree, "undecided: …" if it is in the register; raises otherwise.

    Of random numbers, and with `values=False`, only shapes and dtypes are compared.
    """
    leaves = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        leaves[name].requires_grad_(tensor.requires_grad)
    expected = convert.tensors_in(_plain(eval(text, {"torch": torch, **leaves})))
    facts = {name: fact_of(tensor) for name, tensor in leaves.items()}
    ported, undecided = port_expression(text, facts)
    blocked = [one for one in undecided if one.level == "blocks"]
    if blocked:
        return f"undecided: {text}: {blocked[-1].why}"
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        arrays = {name: jnp.asarray(convert.array(tensor)) for name, tensor in leaves.items()}
        moving = {name: arrays[name] for name, tensor in leaves.items() if tensor.requires_grad}
        fixed = {name: array for name, array in arrays.items() if name not in moving}

        def ours(moving: dict[str, Any]) -> list[Any]:
            return jax.tree.leaves(eval(ported, {**ENVIRONMENT, **fixed, **moving}))

        if not values or "make_rng" in ported:
            _close(f"{text}\n{ported}", ours(moving), expected, values=False)
            return None
        smooth = [one for one in expected if one.requires_grad]
        outputs, pull = jax.vjp(ours, moving) if moving and smooth else (ours(moving), None)
        _close(f"{text}\n{ported}", outputs, expected)
        if pull is not None:
            _gradients(f"{text}\n{ported}", outputs, pull, expected, leaves)
    return None


def _plain(value: Any) -> Any:
    """Named tuples of torch as tuples, numbers as tensors."""
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        return tuple(_plain(one) for one in value)
    if isinstance(value, torch.Size):
        return [torch.tensor(int(one)) for one in value]
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return torch.tensor(value) if isinstance(value, bool | int | float | complex) else value


def _close(text: str, outputs: list[Any], expected: list[torch.Tensor], *, values: bool = True) -> None:
    assert len(outputs) == len(expected), f"{text}: {len(outputs)} results, torch has {len(expected)}"
    for ours, theirs in zip(outputs, expected, strict=True):
        ours, theirs = np.asarray(ours), convert.array(theirs)
        assert ours.shape == theirs.shape, f"{text}: shape {ours.shape}, torch's is {theirs.shape}"
        kinds = [np.dtype(one.dtype).kind for one in (ours, theirs)]
        assert kinds[0] == kinds[1] or set(kinds) <= {"i", "u"}, f"{text}: dtype {ours.dtype}, not {theirs.dtype}"
        if not values:
            continue
        scale = 1e-9 if np.dtype(theirs.dtype).itemsize >= 8 else 1e-5
        np.testing.assert_allclose(ours, theirs, rtol=scale, atol=scale, err_msg=text)


def _gradients(text: str, outputs: list[Any], pull: Any, expected: list[torch.Tensor], leaves: Any) -> None:
    random = np.random.default_rng(0)
    smooth = [(place, one) for place, one in enumerate(expected) if one.requires_grad]
    drawn = {place: random.normal(size=one.shape) for place, one in smooth}
    if any(one.is_complex() for _, one in smooth):
        return  # conventions differ: JAX's gradient of a complex number is the conjugate of torch's
    wanted = {name: tensor for name, tensor in leaves.items() if tensor.requires_grad}
    theirs = torch.autograd.grad(
        [one for _, one in smooth],
        list(wanted.values()),
        [torch.tensor(drawn[place]).to(one.dtype) for place, one in smooth],
        allow_unused=True,
    )  # fmt: skip
    cotangents = [
        jnp.asarray(drawn[place], out.dtype)
        if place in drawn
        else np.zeros(np.shape(out), jax.dtypes.float0 if not jnp.issubdtype(out.dtype, jnp.inexact) else out.dtype)
        for place, out in enumerate(outputs)
    ]
    (ours,) = pull(cotangents)
    for name, given in zip(wanted, theirs, strict=True):
        gradient = ours[name]
        expected_one = np.zeros(gradient.shape) if given is None else given.numpy(force=True)
        np.testing.assert_allclose(gradient, expected_one, rtol=1e-8, atol=1e-8, err_msg=f"gradient of {name}: {text}")


def outcome(name: str, form: str, limit: int | None = None) -> Outcome:
    """Check the samples of an operator in one form."""
    passed, count = 0, 0
    values = not name.startswith(("empty", "new_empty"))  # their numbers are undefined
    undecided, failures = [], []
    for text, tensors in calls(name, form, limit):
        count += 1
        try:
            found = check(text, tensors, values=values)
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}"[:1200])
            continue
        passed += found is None
        if found is not None:
            undecided.append(found)
    return Outcome(f"{name} ({form})", count, passed, tuple(undecided), tuple(failures))


def cases(names: Collection[str]) -> list[tuple[str, str]]:
    """The (name, form) of operators, for the forms that torch has."""
    return [(name, form) for name in names for form in FORMS if callee(OPERATORS[name], form)]


def agree(
    name: str,
    form: str,
    exceptions: Collection[str] = (),
    registered: Collection[str] = (),
    limit: int | None = None,
) -> None:
    """Assert that all samples of an operator are ported and equal torch's. Exceptions must still differ.

    Args:
        name, form: the operator.
        exceptions: "name (form)" of those that do not agree.
        registered: names of operators for which the rules write nothing.
        limit: how many samples are looked at. The default is all.
    """
    found = outcome(name, form, limit)
    if found.name in exceptions:
        assert found.failures, "This is no exception any more."
        return
    assert not found.failures, "\n".join(found.failures[:5])
    assert found.passed == (0 if name in registered else found.samples), found.undecided[:3]


def check_with(text: str, tensors: Mapping[str, torch.Tensor]) -> str | None:
    """Check a call with those of the tensors that it names."""
    names = compile(text, "", "eval").co_names
    used = {name: one.detach().requires_grad_(one.requires_grad) for name, one in tensors.items() if name in names}
    return check(text, used)
