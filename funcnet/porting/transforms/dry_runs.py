"""Layers that a constructor runs to learn a size: `self.conv(torch.zeros(1, 3, 32, 32)).shape`.

A constructor has no arrays, so the call becomes `nn.dry_run(self.conv, x)`, which returns zeros of the output's shape.
A call `self.features(x)` of a method that `forward` uses too becomes `nn.dry_run(self, x, method="features")`.

If the constructor uses the values of the output and not only its shape, an entry is added to the register. The entry is
"start differs" if the constructor keeps the output, and "blocks" if it computes a number or a condition from it. The
output is traced through names, operations and functions that return it, but not into functions that receive it as an
argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from funcnet.porting.errors.unported_lines import BLOCKS, START_DIFFERS
from funcnet.porting.expression_facts.fact import METADATA
from funcnet.porting.reading.definitions import enclosing
from funcnet.porting.reading.expressions import code, parse
from funcnet.porting.reading.syntax import walk
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["dry_run"]

_NUMBERS = ("item", "tolist", "__float__", "__int__", "__bool__")
_PYTHON_NUMBERS = ("int", "float", "bool", "complex")
_KEPT = ("Parameter", "Buffer", "register_buffer", "register_parameter", "copy_")
# Layers that have no parameters and draw no random numbers. Constructors can run them, with torch's outputs.
_PLAIN = re.compile(
    r"Identity|(Un)?[Ff]latten|(Leaky)?ReLU6?|[CGS]?i?ELU|SiLU|Tanh|Sigmoid|(Log)?Softmax|Upsampl(e|ing\w+)"
    r"|Pixel(Un)?[Ss]huffle|((Adaptive)?(Avg|Max)Pool|(Zero|Constant|Reflection|Replication)Pad)[123]d"
)
_WHOLES = (cst.BinaryOperation, cst.UnaryOperation, cst.BooleanOperation, cst.IfExp, cst.Subscript, cst.Tuple, cst.List,
           cst.BaseElement, cst.Dict, cst.Lambda, cst.BaseComp, cst.Index, cst.SubscriptElement, cst.Await)  # fmt: skip
_ARRAYS = ("tensor", "parameter", "array", "tuple", "list", "dict", "module", "other")


def dry_run(original: cst.Call, updated: cst.Call, context: RewriteContext) -> cst.BaseExpression | None:
    """Write `nn.dry_run(module, x)` for a layer that a constructor runs. For a method other than `forward`, the call
    gets the argument `method=`.
    """
    if not context.starts(original):
        return None
    func, now = original.func, updated.func
    method = ""
    given = _is_given_tensors(original, context)
    if context.fact(func).is_only("module"):
        if given is False or _PLAIN.fullmatch(context.fact(func).name.rpartition(".")[2]):
            return None
    else:
        if not given or not isinstance(func, cst.Attribute) or not isinstance(now, cst.Attribute):
            return None
        method = func.attr.value
        of_self = isinstance(func.value, cst.Name) and func.value.value == "self"
        if not (of_self or context.fact(func.value).is_only("module")):
            return None
        if method not in ("__call__", "forward") and not context.runs_layers(method):
            return None
        now = now.value
    _register(original, context)
    inside = {one for arg in original.args for one in walk(arg)}
    # Random numbers that are drawn only for a dry run do not matter, so they need no entry.
    context.undecided = [one for one in context.undecided if one.level != START_DIFFERS or one.node not in inside]
    args = [cst.Arg(now), *updated.args]
    context.roots.add("nn")
    if method in ("", "__call__", "forward"):
        return updated.with_changes(func=parse("nn.dry_run").deep_clone(), args=args)
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    args.append(cst.Arg(cst.SimpleString(f'"{method}"'), cst.Name("method"), equal))
    return updated.with_changes(func=parse("nn.dry_run").deep_clone(), args=args)


def _is_given_tensors(call: cst.Call, context: RewriteContext) -> bool | None:
    """Return whether an argument is a tensor or contains tensors, or None if that is not known.

    A call without tensors, such as `self.init(linear)`, does not run a layer.
    """
    facts = [context.fact(arg.value) for arg in call.args]
    facts += [item for fact in facts for item in fact.items or ()]
    if any("tensor" in fact.kinds for fact in facts):
        return True
    return None if any(not fact.kinds or fact.is_only("dict", "tuple", "list") for fact in facts) else False


# ---------------------------------------------------------------------------------------------- uses of the output


def _register(call: cst.Call, context: RewriteContext) -> None:
    """Add a register entry for the first place in the constructor that needs the values of a layer's output."""
    found = sorted(_Follower(context).uses(call), key=lambda one: (one[1] != BLOCKS, context.line(one[0])))
    if not found:
        return
    node, level = found[0]
    place = f"{' '.join(code(node).split())}, line {context.line(node)}"
    if level == BLOCKS:
        why = f"A layer runs in a constructor, and a number is computed from its output ({place})."
        write = "A constructor has no weights. Compute the number in forward, or pass it as an argument."
    else:
        why = (
            f"The output of a layer in a constructor is kept ({place}). Here it is zero if the layer has parameters, "
            "and otherwise its output in eval mode."
        )
        write = "Load weights, or compute the value after net.init."
    context.give_up(call, why, write, level)


class _Follower:
    """Traces the value of an expression to the expressions and statements that use the value."""

    def __init__(self, context: RewriteContext):
        self.context = context
        self.seen: set[cst.CSTNode] = set()

    def uses(self, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, str]]:
        """Yield (node, level of its register entry) for the nodes that need the values of an array, and not only its
        shape.
        """
        parent = self.context.parent(node)
        if node in self.seen or parent is None or not self._holds_arrays(node):
            return
        self.seen.add(node)
        if isinstance(parent, cst.Attribute) and parent.value is node:
            yield from self._attribute(parent)
        elif isinstance(parent, cst.Arg) and parent.value is node:
            yield from self._argument(parent)
        elif isinstance(parent, cst.Assign | cst.AnnAssign | cst.NamedExpr | cst.AugAssign):
            yield from self._assigned(parent)
        elif isinstance(parent, cst.For | cst.CompFor) and parent.iter is node:
            yield from self._names(parent.target)
        elif isinstance(parent, cst.ComparisonTarget):
            if not isinstance(parent.operator, cst.Is | cst.IsNot):
                yield parent, BLOCKS
        elif isinstance(parent, cst.Comparison):
            if not all(isinstance(one.operator, cst.Is | cst.IsNot) for one in parent.comparisons):
                yield parent, BLOCKS
        elif isinstance(parent, cst.If | cst.While | cst.Assert | cst.IfExp) and parent.test is node:
            yield node, BLOCKS
        elif isinstance(parent, cst.Return):
            yield from self._returned(parent)
        elif isinstance(parent, _WHOLES):
            yield from self.uses(parent)

    def _holds_arrays(self, node: cst.CSTNode) -> bool:
        if not isinstance(node, cst.BaseExpression):
            return True
        kinds = self.context.fact(node).kinds
        return not kinds or bool(kinds & set(_ARRAYS))

    def _attribute(self, node: cst.Attribute) -> Iterator[tuple[cst.CSTNode, str]]:
        call = self.context.parent(node)
        if node.attr.value in METADATA:
            return
        if not isinstance(call, cst.Call) or call.func is not node:
            yield from self.uses(node)
        elif node.attr.value in _NUMBERS:
            yield call, BLOCKS
        else:
            yield from self.uses(call)

    def _argument(self, node: cst.Arg) -> Iterator[tuple[cst.CSTNode, str]]:
        call = self.context.parent(node)
        if not isinstance(call, cst.Call):
            return
        name = code(call.func).rpartition(".")[2]
        if name in _PYTHON_NUMBERS and isinstance(call.func, cst.Name):
            if self.context.fact(node.value).is_only("int", "float", "bool") is not True:
                yield call, BLOCKS
        elif name in _KEPT:
            yield call, START_DIFFERS
        elif name not in ("len", "print", "isinstance", "type"):
            yield from self.uses(call)

    def _assigned(
        self, node: cst.Assign | cst.AnnAssign | cst.NamedExpr | cst.AugAssign
    ) -> Iterator[tuple[cst.CSTNode, str]]:
        targets = [one.target for one in node.targets] if isinstance(node, cst.Assign) else [node.target]
        for target in targets:
            yield from self._names(target)
        if isinstance(node, cst.NamedExpr):
            yield from self.uses(node)

    def _names(self, target: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, str]]:
        """Yield the uses of all names in the target of an assignment, and the attributes in the target, which keep
        values.
        """
        if isinstance(target, cst.Tuple | cst.List):
            for element in target.elements:
                yield from self._names(element.value)
        elif isinstance(target, cst.Attribute):
            yield target, START_DIFFERS
        elif isinstance(target, cst.Subscript):
            yield from self._names(target.value)
        elif isinstance(target, cst.Name):
            home: cst.CSTNode | None = enclosing(target, (cst.FunctionDef, cst.Module), self.context.parent)
            for one in walk(home) if home is not None else ():
                if isinstance(one, cst.Name) and one is not target and one.value == target.value:
                    yield from self.uses(one)

    def _returned(self, node: cst.Return) -> Iterator[tuple[cst.CSTNode, str]]:
        """Yield the uses of a returned value, which are the uses of the results of the function's calls in the file."""
        function = enclosing(node, (cst.FunctionDef,), self.context.parent)
        top: cst.CSTNode = node
        while (above := self.context.parent(top)) is not None:
            top = above
        for call in walk(top) if isinstance(function, cst.FunctionDef) else ():
            if isinstance(call, cst.Call) and code(call.func).rpartition(".")[2] == function.name.value:  # type: ignore[union-attr]
                yield from self.uses(call)
