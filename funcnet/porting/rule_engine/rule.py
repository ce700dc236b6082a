"""A rule, which says what to write in place of one torch function or one tensor method.

A rule consists of data: torch's signature, a template, and a condition. The folder `rules/` contains all rules. The
arguments of a call are bound to torch's signature before the template is filled (`template_filling.py`), so it does not
matter whether the call passes them by position or by name.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import libcst as cst

from funcnet.porting.expression_facts.fact import UNKNOWN, Fact

__all__ = [
    "IGNORED", "MISSING", "Argument", "Given", "Rule", "TorchParameter", "bind", "holds", "missing_facts", "rule",
    "table",
]  # fmt: skip

MISSING: Any = ast.literal_eval("...")  # replaces a missing default, and the value of an argument that is not a literal

# Parameters of torch that have no counterpart in JAX. Their arguments are left out without an entry in the register.
IGNORED = frozenset(
    ["device", "layout", "pin_memory", "memory_format", "non_blocking", "requires_grad", "inplace", "generator",
     "copy", "cudnn_enabled", "cudnn_enable"]
)  # fmt: skip

# {another name by which torch accepts an argument: name in the signatures of the rules}. Some are NumPy's names.
_ALIASES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "self": "input", "dims": "dim", "size": "shape"}


@dataclasses.dataclass(frozen=True)
class TorchParameter:
    """A parameter of torch's signature. `default` is `MISSING` if an argument is required."""

    name: str
    default: Any = MISSING
    star: bool = False
    keyword_only: bool = False


@dataclasses.dataclass(frozen=True)
class Rule:
    """One rule: what to write for a torch function, method or attribute, and under which condition.

    Attributes:
        name: qualified name in torch, such as "torch.cat", or "Tensor." and the name of a method or an attribute.
        parameters: torch's signature, or None for a name that is not called, such as "torch.pi". The first parameter of
            a tensor method is the tensor.
        template: the expression to write. Each name of a parameter in the template is replaced with the argument of the
            call. The template is "" if nothing can be written.
        when: a condition that uses the parameters as instances of `Argument`, such as "dim.is_axis". The condition is
            "" if the rule always applies.
        kind: "rename" (the meaning is the same), "semantic" (the template makes up for a difference in meaning),
            "structural" (the statement changes too), or "register" (nothing can be written).
        note: what a reader of the port should know. For the kind "register", what to write instead.
        level: the level of the entry that the rule adds to the register ("blocks", "start differs" or "eager only"), or
            "". If a rule of the kind "register" has no level, its entry blocks.
        result: kind of the result: "tensor", "tuple" (of tensors), "int", "bool", "none", ….
    """

    name: str
    parameters: tuple[TorchParameter, ...] | None
    template: str
    when: str = ""
    kind: str = "rename"
    note: str = ""
    level: str = ""
    result: str = "tensor"


def rule(
    signature: str,
    template: str = "",
    *,
    when: str = "",
    kind: str = "rename",
    note: str = "",
    level: str = "",
    result: str = "tensor",
) -> tuple[Rule, ...]:
    """Return the rules for a signature. For `both.sum(input, …)`, these are rules for `torch.sum` and `Tensor.sum`.

    The arguments are the attributes of `Rule`, except that `signature` contains both the name and the parameters.

    >>> [one.name for one in rule("both.relu(input)", "F.relu(input)")]
    ['torch.relu', 'Tensor.relu']
    """
    name, parenthesis, rest = signature.partition("(")
    parameters = _parameters(rest.removesuffix(")")) if parenthesis else None
    names = (name.replace("both.", "torch.", 1), name.replace("both.", "Tensor.", 1))
    return tuple(
        Rule(one, parameters, template, when, kind, note, level or ("blocks" if kind == "register" else ""), result)
        for one in (names if names[0] != name else (name,))
    )


def _parameters(text: str) -> tuple[TorchParameter, ...]:
    arguments = ast.parse(f"def f({text}): pass").body[0].args  # type: ignore[attr-defined]
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [MISSING] * (len(plain) - len(arguments.defaults)) + [ast.literal_eval(d) for d in arguments.defaults]
    found = [TorchParameter(one.arg, default) for one, default in zip(plain, defaults, strict=True)]
    if arguments.vararg:
        found.append(TorchParameter(arguments.vararg.arg, star=True))
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(
            TorchParameter(one.arg, MISSING if default is None else ast.literal_eval(default), keyword_only=True)
        )
    return tuple(found)


def table(rows: Sequence[tuple[Rule, ...]]) -> dict[str, tuple[Rule, ...]]:
    """Return {qualified name in torch: its rules, in the order of the given rows}."""
    found: dict[str, list[Rule]] = {}
    for one in (one for row in rows for one in row):
        found.setdefault(one.name, []).append(one)
    return {name: tuple(rules) for name, rules in found.items()}


@dataclasses.dataclass(frozen=True)
class Given:
    """An argument of a call.

    Attributes:
        keyword: the keyword of the argument, or "" if the argument is positional.
        star: the star before the argument, or "".
        node: its expression.
        fact: what is known about the argument's value.
    """

    keyword: str
    star: Literal["", "*", "**"]
    node: cst.BaseExpression
    fact: Fact = UNKNOWN


@dataclasses.dataclass(frozen=True)
class Argument:
    """A parameter with the arguments that a call passes for it.

    Conditions of rules read the attributes of an `Argument`, as in `dim.is_given`, and those of its `fact`, as in
    `dim.kinds`.

    Attributes:
        parameter: the parameter.
        given: the arguments that the call passes: none, one, or several for a star parameter.
    """

    parameter: TorchParameter
    given: tuple[Given, ...] = ()

    @property
    def is_given(self) -> bool:
        return bool(self.given)

    @property
    def count(self) -> int | None:
        """The number of arguments that a call passes for a star parameter, or None if it passes one of them with a
        star.
        """
        return None if any(one.star for one in self.given) else len(self.given)

    @property
    def fact(self) -> Fact:
        if self.given:
            return self.given[0].fact if len(self.given) == 1 and not self.given[0].star else UNKNOWN
        kinds = {type(None): "none", bool: "bool", int: "int", float: "float", str: "str", tuple: "tuple", list: "list"}
        return (
            Fact(frozenset({kinds[type(self.parameter.default)]})) if self.parameter.default is not MISSING else UNKNOWN
        )

    @property
    def value(self) -> Any:
        """The value of the argument if it is a literal, or the parameter's default if the call does not pass the
        argument. In all other cases, the value is `MISSING`.
        """
        if not self.given:
            return self.parameter.default
        try:
            return (
                ast.literal_eval(cst.Module([]).code_for_node(self.given[0].node)) if len(self.given) == 1 else MISSING
            )
        except (ValueError, SyntaxError):
            return MISSING

    def is_only(self, *kinds: str) -> bool | None:
        return self.fact.is_only(*kinds)

    def equals(self, *values: object) -> bool | None:
        """Return whether the value of the argument is in `values`, or None if its value is not known (`MISSING`)."""
        return None if self.value is MISSING else any(type(self.value) is type(v) and self.value == v for v in values)

    @property
    def text(self) -> str:
        """The source text of the arguments for this parameter, separated by commas, or "" if there are none."""
        return ", ".join(cst.Module([]).code_for_node(one.node) for one in self.given)

    @property
    def is_axis(self) -> bool:
        """Whether the value is known to mean the same as NumPy's `axis`: an int, None, or a tuple that is not empty.

        A literal list that is not empty counts too, because `template_filling.py` writes it as a tuple. With an empty
        tuple, torch reduces all dimensions, and NumPy reduces none.
        """
        if self.value is not MISSING:
            literal = isinstance(self.value, tuple | list) and len(self.value) > 0
            return literal or self.value is None or type(self.value) is int
        return bool(self.is_only("int", "none")) or bool(self.is_only("tuple") and self.fact.items)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fact, name)


def bind(parameters: tuple[TorchParameter, ...], given: Sequence[Given]) -> dict[str, Argument] | None:
    """Bind the arguments of a call to a signature.

    Returns:
        {name of a parameter: its argument}. None if the arguments do not fit, or if a starred argument hides whether
        they fit.

    >>> given = [Given("", "", cst.Name("x")), Given("axis", "", cst.Integer("1"))]
    >>> bound = bind(rule("torch.sum(input, dim=None)")[0].parameters, given)
    >>> bound["dim"].value
    1
    """
    bound: dict[str, list[Given]] = {}
    by_name = {one.name: one for one in parameters}
    slots = [one for one in parameters if not one.keyword_only]
    place = 0
    for one in given:
        if one.star == "**":
            return None
        if one.keyword:
            alias = _ALIASES.get(one.keyword, one.keyword)
            name = one.keyword if one.keyword in by_name else alias if alias in by_name else ""
            if not name and one.keyword in IGNORED:
                continue
            if not name or name in bound:
                return None
            bound[name] = [one]
            continue
        if place >= len(slots) or (one.star and not slots[place].star):
            return None
        bound.setdefault(slots[place].name, []).append(one)
        place += not slots[place].star
    found = {one.name: Argument(one, tuple(bound.get(one.name, ()))) for one in parameters}
    missing = [a for a in found.values() if not a.given and a.parameter.default is MISSING and not a.parameter.star]
    return None if missing else found


def holds(when: str, bound: Mapping[str, Argument]) -> bool | None:
    """Return whether a condition holds: True, False, or None if a required fact is unknown.

    In a condition, `known(x)` is False if the fact `x` is None, which means that it is unknown.

    >>> x = Argument(TorchParameter("x"), (Given("", "", cst.Name("x")),))
    >>> holds("x.is_given", {"x": x}), holds("x.is_tensor", {"x": x}), holds("x.is_tensor and not x.is_given", {"x": x})
    (True, None, False)
    >>> holds("known(x.is_tensor)", {"x": x}), holds("x.is_axis", {"x": x})
    (False, False)
    """
    return _holds(ast.parse(when, mode="eval").body, bound) if when else True


def missing_facts(when: str, bound: Mapping[str, Argument]) -> list[tuple[str, str]]:
    """Return pairs (what is not known, name of the argument) that explain why `holds` returns None for a condition.

    >>> x = Argument(TorchParameter("x"), (Given("", "", cst.Name("x")),))
    >>> missing_facts("x.is_given and x.is_tensor", {"x": x}), missing_facts("x.ndim == 0 and x.equals(1)", {"x": x})
    ([('type', 'x')], [('shape', 'x'), ('value', 'x')])
    """
    return list(dict.fromkeys(_missing(ast.parse(when, mode="eval").body, bound)))


def _missing(node: ast.expr, bound: Mapping[str, Argument]) -> list[tuple[str, str]]:
    if _holds(node, bound) is not None:
        return []
    if isinstance(node, ast.BoolOp):
        return [found for one in node.values for found in _missing(one, bound)]
    if isinstance(node, ast.UnaryOp):
        return _missing(node.operand, bound)
    reads = [one for one in ast.walk(node) if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name)]
    called = [one.func for one in ast.walk(node) if isinstance(one, ast.Call)]
    empty = [one for one in reads if one in called or _value(one, bound) in (None, MISSING)]
    return [(_FACTS.get(one.attr, "value"), one.value.id) for one in empty or reads]  # type: ignore[attr-defined]


_FACTS = {
    **dict.fromkeys(("is_only", "is_tensor", "kinds"), "type"),
    **dict.fromkeys(("dtype", "is_floating", "is_integral", "is_boolean"), "dtype"),
    **dict.fromkeys(("ndim", "shape"), "shape"),
    "count": "length",
}


def _holds(node: ast.expr, bound: Mapping[str, Argument]) -> bool | None:
    if isinstance(node, ast.BoolOp):
        values = [_holds(one, bound) for one in node.values]
        decisive = isinstance(node.op, ast.Or)
        return decisive if decisive in values else None if None in values else not decisive
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = _holds(node.operand, bound)
        return None if value is None else not value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "known":
        return _holds(node.args[0], bound) is True
    if isinstance(node, ast.Compare):
        left, right = (_value(one, bound) for one in (node.left, node.comparators[0]))
        if left is None or right is None or left is MISSING or right is MISSING:
            return None
        return bool(_COMPARE[type(node.ops[0])](left, right))
    value = _value(node, bound)
    return None if value is None or value is MISSING else bool(value)


_COMPARE: Mapping[type, Any] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


def _value(node: ast.expr, bound: Mapping[str, Argument]) -> Any:
    try:
        return eval(
            compile(ast.Expression(node), "<when>", "eval"), {"__builtins__": {}}, dict(bound)
        )  # conditions come only from `rules/`
    except (TypeError, IndexError):  # arithmetic with a fact that is not known
        return None
