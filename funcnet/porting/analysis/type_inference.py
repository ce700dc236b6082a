"""Infers facts from the source alone, for expressions that the run of the torch model did not reach.

The inference uses annotations, assignments inside a function, attributes of `self` inside a class, and the results of
layers, of torch's functions and of functions of the file. Arguments of `forward` are tensors unless something else is
known. Branches are not followed. The fact of a name describes all values that the file assigns to it in any branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import libcst as cst

from funcnet.porting.analysis.annotations import annotated
from funcnet.porting.analysis.torch_results import of_kind, result_of
from funcnet.porting.expression_facts.fact import (
    BOOL,
    FLOAT,
    INT,
    INTS,
    LIST,
    STR,
    TENSOR,
    UNKNOWN,
    Fact,
    is_tensor,
    join,
)
from funcnet.porting.expression_facts.literals import literal
from funcnet.porting.expression_facts.named_facts import (
    BUILTINS,
    MODULE_ATTRIBUTES,
    PARAMETER,
    TENSOR_ATTRIBUTES,
    TRAVERSALS,
)
from funcnet.porting.reading.definitions import Binding, Definitions, enclosing
from funcnet.porting.reading.expressions import code
from funcnet.porting.reading.syntax import names_in, walk
from funcnet.porting.rule_engine.rule import Rule

__all__ = ["TypeInference"]

_OF_STRINGS = ("format", "join", "lower", "upper", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "title")
_CASTS: Mapping[str, str] = {
    "bool": "bool", "byte": "uint8", "int": "int32", "long": "int64", "float": "float32", "double": "float64",
    "half": "float16",
}  # fmt: skip
# Layers that return tuples
_SEVERAL = ("RNN", "LSTM", "GRU", "LSTMCell", "MultiheadAttention", "AdaptiveLogSoftmaxWithLoss")


class TypeInference:
    """Infers the facts of the expressions in one file.

    Args:
        definitions: the places in the file that give names their values.
        parent: returns the parent of a node.
        qualified: returns the qualified name of a Name or an Attribute, or None.
        rules: {qualified name in torch: its rules}, which give the kinds of results.
        start: returns a fact that is known already, for example from a run, or UNKNOWN.
        foreign: returns what is known about the result of a function that another file defines, or UNKNOWN.
    """

    def __init__(
        self,
        definitions: Definitions,
        parent: Callable[[cst.CSTNode], cst.CSTNode | None],
        qualified: Callable[[cst.CSTNode], str | None],
        rules: Mapping[str, tuple[Rule, ...]],
        start: Callable[[cst.CSTNode], Fact] = lambda node: UNKNOWN,
        foreign: Callable[[cst.BaseExpression], Fact] = lambda func: UNKNOWN,
    ):
        self.definitions, self.parent, self.qualified = definitions, parent, qualified
        self.rules, self.start, self.foreign = rules, start, foreign
        self._known: dict[cst.CSTNode, Fact] = {}
        self._runs: dict[tuple[cst.CSTNode, str], Fact] = {}

    def fact(self, node: cst.CSTNode) -> Fact:
        """Return what is known about the value of an expression."""
        given = self.start(node)
        if given.kinds:
            return given
        if node not in self._known:
            self._known[node] = UNKNOWN  # circular assignments give no information
            self._known[node] = self._fact(node)
        return self._known[node]

    def _fact(self, node: cst.CSTNode) -> Fact:
        found = literal(node)
        if found is not None:
            return self._compared(node) if isinstance(node, cst.Comparison) else found
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        return method(node) if method is not None else UNKNOWN

    def _compared(self, node: cst.Comparison) -> Fact:
        if any(isinstance(one.operator, cst.In | cst.NotIn | cst.Is | cst.IsNot) for one in node.comparisons):
            return BOOL
        sides = [self.fact(node.left), *(self.fact(one.comparator) for one in node.comparisons)]
        if any(side.is_only("str") for side in sides):
            return BOOL
        if any(side.is_tensor for side in sides):
            return Fact(frozenset({"tensor"}), "bool")
        return BOOL if all(side.kinds for side in sides) else UNKNOWN

    def _list(self, node: cst.List) -> Fact:
        return Fact(frozenset({"list"}), items=self._items(node))

    def _tuple(self, node: cst.Tuple) -> Fact:
        return Fact(frozenset({"tuple"}), items=self._items(node))

    def _items(self, node: cst.List | cst.Tuple) -> tuple[Fact, ...] | None:
        if any(isinstance(one, cst.StarredElement) for one in node.elements):
            return None
        return tuple(self.fact(one.value) for one in node.elements)

    def _unaryoperation(self, node: cst.UnaryOperation) -> Fact:
        return BOOL if isinstance(node.operator, cst.Not) else self.fact(node.expression)

    def _binaryoperation(self, node: cst.BinaryOperation) -> Fact:
        return self._operated(node.operator, self.fact(node.left), self.fact(node.right))

    def _operated(self, operator: cst.CSTNode, left: Fact, right: Fact) -> Fact:
        if left.is_tensor or right.is_tensor:
            dtype = left.dtype if left.dtype == right.dtype else ""
            return Fact(frozenset({"tensor"}), dtype)
        for kind in ("str", "list", "tuple"):
            if left.is_only(kind) or right.is_only(kind):
                return Fact(frozenset({kind}))
        numbers = ("int", "float", "bool")
        if left.is_only(*numbers) and right.is_only(*numbers):
            if isinstance(operator, cst.Divide | cst.DivideAssign) or "float" in left.kinds | right.kinds:
                return FLOAT
            return INT
        return UNKNOWN

    def _booleanoperation(self, node: cst.BooleanOperation) -> Fact:
        return join([self.fact(node.left), self.fact(node.right)])

    def _ifexp(self, node: cst.IfExp) -> Fact:
        return join([self.fact(node.body), self.fact(node.orelse)])

    def _namedexpr(self, node: cst.NamedExpr) -> Fact:
        return self.fact(node.value)

    def _subscript(self, node: cst.Subscript) -> Fact:
        value = self.fact(node.value)
        if value.is_tensor:
            return Fact(frozenset({"tensor"}), value.dtype)
        sliced = any(isinstance(one.slice, cst.Slice) for one in node.slice)
        if value.name == "sizes":
            return INTS if sliced else INT
        if value.name == "tensors":
            return value if sliced else TENSOR
        if value.name.endswith(".ParameterList") and not sliced:
            return PARAMETER
        index = node.slice[0].slice
        if value.items is not None and isinstance(index, cst.Index) and isinstance(index.value, cst.Integer):
            place = index.value.evaluated_value
            return value.items[place] if place < len(value.items) else UNKNOWN
        return Fact(value.kinds) if sliced and value.is_only("list", "tuple", "str") else UNKNOWN

    def _attribute(self, node: cst.Attribute) -> Fact:
        qualified = self.qualified(node)
        if qualified is not None:
            return self._of_qualified(qualified)
        value = self.fact(node.value)
        name = node.attr.value
        if name in ("shape", "dtype", "device") or value.is_tensor:
            return TENSOR_ATTRIBUTES.get(
                name, TENSOR if value.is_tensor and name in ("T", "mT", "data", "grad") else UNKNOWN
            )
        if isinstance(node.value, cst.Name) and node.value.value == "self":
            owner = enclosing(node, (cst.ClassDef,), self.parent)
            found = [] if owner is None else self.definitions.of_attribute(owner, name)
            if found:
                return join(self._bound(one) for one in found)
        if name in MODULE_ATTRIBUTES:
            return MODULE_ATTRIBUTES[name]
        if value.is_only("module") and value.name in self.definitions.classes:
            return join(
                self._bound(one) for one in self.definitions.of_attribute(self.definitions.classes[value.name], name)
            )
        return UNKNOWN

    def _of_qualified(self, qualified: str) -> Fact:
        if qualified in ("torch.inf", "torch.pi", "torch.nan", "math.pi", "math.inf", "numpy.pi", "numpy.inf"):
            return FLOAT
        if qualified.startswith("torch.nn.") and qualified.rpartition(".")[2][:1].isupper():
            return Fact(frozenset({"class"}), name=qualified)
        results = [one.result for one in self.rules.get(qualified, ()) if one.parameters is None]
        if "dtype" in results:
            return Fact(frozenset({"dtype"}), name=qualified)
        plain = [one for one in results if one in ("str", "float", "bool", "none")]
        return Fact(frozenset(plain[:1])) if plain else UNKNOWN

    def _name(self, node: cst.Name) -> Fact:
        qualified = self.qualified(node)
        if qualified is not None and qualified.startswith(("torch.", "math.", "numpy.")):
            return self._of_qualified(qualified)
        bindings = self.definitions.before(node)
        # A value that is computed from the same name, as in `x = block(x)`, is assumed to be of the same kind.
        others = [one for one in bindings if one.how == "parameter" or node.value not in names_in(one.node)]
        changes = [one for one in others if one.operator is not None]  # `x += 1`
        plain = join(self._bound(one) for one in others or bindings if one not in changes)
        return join([plain, *(self._operated(one.operator, plain, self.fact(one.node)) for one in changes)])  # type: ignore[arg-type]

    def _bound(self, binding: Binding) -> Fact:
        node = binding.node
        if binding.how == "definition":
            if isinstance(node, cst.ClassDef):
                return Fact(frozenset({"class"}), name=node.name.value)
            is_property = any(code(one.decorator) == "property" for one in getattr(node, "decorators", ()))
            return self.returned(node) if is_property else Fact(frozenset({"function"}))
        if binding.how == "parameter":
            return self._parameter(node)
        if binding.how == "other":
            return UNKNOWN
        found, path = self._each(node) if binding.how == "each" else self.fact(node), binding.path
        if path and isinstance(node, cst.Call) and code(node.func) == "map":
            found, path = self._each(node), path[1:]  # `q, k = map(f, xs)`
        for place in path:
            found = self._item(found, place)
        return found

    def _item(self, fact: Fact, place: int | None) -> Fact:
        if place is None:
            return LIST
        if fact.name == "sizes":
            return INT
        if fact.is_tensor:
            return Fact(frozenset({"tensor"}), fact.dtype)
        if fact.name == "tensors":
            return TENSOR
        if fact.items is not None and place < len(fact.items):
            return fact.items[place]
        return UNKNOWN

    def _each(self, node: cst.CSTNode) -> Fact:
        """Return what is known about each element of an iterable expression."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
            name, args = node.func.value, [arg.value for arg in node.args]
            if name == "range":
                return INT
            if name == "enumerate" and args:
                return Fact(frozenset({"tuple"}), items=(INT, self._each(args[0])))
            if name == "zip":
                return Fact(frozenset({"tuple"}), items=tuple(map(self._each, args)))
            if name in ("reversed", "list", "tuple", "sorted", "iter") and args:
                return self._each(args[0])
            if name == "map" and len(args) == 2:
                return self.called(args[0], node)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in TRAVERSALS:
            return TRAVERSALS[node.func.attr.value]
        if isinstance(node, cst.ListComp | cst.GeneratorExp):
            return self.fact(node.elt)
        fact = self.fact(node)
        if fact.is_tensor or fact.name in ("sizes", "tensors"):
            return self._item(fact, 0)
        return join(fact.items) if fact.items else UNKNOWN

    def _parameter(self, node: cst.CSTNode) -> Fact:
        assert isinstance(node, cst.Param)
        if node.annotation is not None:
            found = annotated(node.annotation.annotation, self.qualified)
            if found.kinds:
                return found
        function = enclosing(node, (cst.FunctionDef, cst.Lambda), self.parent)
        named = function.name.value if isinstance(function, cst.FunctionDef) else ""
        default = UNKNOWN if node.default is None else self.fact(node.default)
        if node.name.value == "self":
            return Fact(frozenset({"module"}))
        if node.name.value == "cls" or node.star in ("*", "**"):
            return UNKNOWN
        if default.kinds and not default.is_only("none"):
            return default
        if named == "forward" or (named == "backward" and node.name.value != "ctx"):
            seen = self._seen(function, node.name.value)  # type: ignore[arg-type]
            return seen if seen.kinds - {"none"} else Fact(TENSOR.kinds | default.kinds)
        if isinstance(function, cst.Lambda):
            return self._mapped(function, node)
        return join([*([default] if default.kinds else []), *self._passed(function, node)]) if named else UNKNOWN

    def _seen(self, function: cst.FunctionDef, name: str) -> Fact:
        """Return the fact that describes all values of a name that a run of the torch model recorded in a function."""
        if (function, name) not in self._runs:
            reads = [one for one in walk(function.body) if isinstance(one, cst.Name) and one.value == name]
            found = [fact for fact in map(self.start, reads) if fact.kinds]
            self._runs[function, name] = join(found)
        return self._runs[function, name]

    def _mapped(self, function: cst.Lambda, parameter: cst.Param) -> Fact:
        """Return what is known about a parameter of a lambda that is passed to `map`: x in `map(lambda x: …, xs)`."""
        arg = self.parent(function)
        call = self.parent(arg) if isinstance(arg, cst.Arg) else None
        place = list(function.params.params).index(parameter) + 1 if parameter in function.params.params else 0
        named = isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "map"
        return self._each(call.args[place].value) if named and 0 < place < len(call.args) else UNKNOWN  # type: ignore[union-attr]

    def _passed(self, function: cst.CSTNode | None, parameter: cst.Param) -> list[Fact]:
        """Return the facts of the arguments that calls in this file pass for a parameter, or [UNKNOWN] if there are
        none.
        """
        assert isinstance(function, cst.FunctionDef)
        params = [one.name.value for one in function.params.params if one.name.value not in ("self", "cls")]
        place = params.index(parameter.name.value) if parameter.name.value in params else None
        found = []
        for call in self.definitions.calls.get(function.name.value, []):
            keyed = [
                arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == parameter.name.value
            ]
            plain = [arg for arg in call.args if arg.keyword is None]
            if keyed:
                found.append(self.fact(keyed[0]))
            elif place is not None and place < len(plain) and not any(arg.star for arg in plain[: place + 1]):
                found.append(self.fact(plain[place].value))
        return found or [UNKNOWN]

    def returned(self, function: cst.CSTNode) -> Fact:
        """Return what is known about the value that a function of the file returns."""
        if isinstance(function, cst.FunctionDef) and function.returns is not None:
            found = annotated(function.returns.annotation, self.qualified)
            if found.kinds:
                return found
        return join(self.fact(value) for value in self.definitions.returns.get(function, []))

    def _call(self, node: cst.Call) -> Fact:
        return self.called(node.func, node)

    def called(self, func: cst.BaseExpression, node: cst.Call) -> Fact:
        """Return what is known about the result of the call `node`, which calls the expression `func`."""
        qualified = self.qualified(func)
        if qualified is not None:
            found = result_of(qualified, node, self.rules)
            return found if found.kinds else self.foreign(func)
        if isinstance(func, cst.Lambda):
            return self.fact(func.body)
        if isinstance(func, cst.Name):
            for binding in self.definitions.of_name(func):
                if isinstance(binding.node, cst.ClassDef):
                    return Fact(frozenset({"module"}), name=binding.node.name.value)
                if isinstance(binding.node, cst.FunctionDef):
                    return self.returned(binding.node)
            if func.value in ("max", "min", "sum", "abs", "round"):
                return self._computed(func.value, [arg.value for arg in node.args if arg.keyword is None])
            found = BUILTINS.get(func.value, self._of_object(self.fact(func)))
        elif isinstance(func, cst.Attribute):
            found = self._of_method(func)
        else:
            found = self._of_object(self.fact(func))
        return found if found.kinds else self.foreign(func)

    def _computed(self, name: str, args: list[cst.BaseExpression]) -> Fact:
        """Return what is known about the result of Python's `max`, `min`, `sum`, `abs` or `round`."""
        facts = [self.fact(one) for one in args[:2]]
        if name == "round":
            return INT if len(facts) == 1 and not facts[0].is_tensor else join(facts[:1])
        return self._each(args[0]) if len(args) == 1 and name != "abs" else join(facts)

    def _of_method(self, func: cst.Attribute) -> Fact:
        name = func.attr.value
        receiver = self.fact(func.value)
        rules = self.rules.get(f"Tensor.{name}") or self.rules.get(f"Tensor.{name.removesuffix('_')}")
        if rules and is_tensor(receiver, name):
            if name in _CASTS:
                return Fact(TENSOR.kinds, _CASTS[name])
            return of_kind(rules[0].result) if name != "size" else Fact(frozenset({"int", "tuple"}), name="sizes")
        if isinstance(func.value, cst.Name) and func.value.value == "self":
            owner = enclosing(func, (cst.ClassDef,), self.parent)
            method = None if owner is None else self.definitions.method(owner, name)
            if method is not None:
                return self.returned(method)
        if name == "apply" and self.fact(func.value).is_only("class"):
            return TENSOR  # `apply` of a torch.autograd.Function
        if name in _OF_STRINGS:
            return STR
        return self._of_object(receiver if name == "forward" else self.fact(func))

    def _of_object(self, fact: Fact) -> Fact:
        """Return what is known about the output of a module that has the fact `fact`."""
        if not fact.is_only("module", "none"):
            return UNKNOWN
        if fact.name in self.definitions.classes:
            forward = self.definitions.method(self.definitions.classes[fact.name], "forward")
            return UNKNOWN if forward is None else self.returned(forward)
        last = fact.name.rpartition(".")[2]
        plain = fact.name.startswith("torch.nn.") and last not in (*_SEVERAL, "ModuleList", "ModuleDict", "Module")
        return TENSOR if plain else UNKNOWN
