"""The context that each transformer receives besides the syntax node that it rewrites: names, facts, rules and the
register.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import libcst as cst

from funcnet.porting.analysis.view_plans import ViewPlan
from funcnet.porting.errors.unported_lines import BLOCKS, RegisterEntry
from funcnet.porting.expression_facts.fact import Fact
from funcnet.porting.rule_engine.rule import Rule

__all__ = ["RewriteContext", "Undecided"]


@dataclasses.dataclass(frozen=True)
class Undecided:
    """An expression that could not be rewritten.

    Attributes:
        node: the expression, in the original tree.
        why: the reason.
        write: what to write by hand.
        level: the level of the entry in the register.
    """

    node: cst.CSTNode
    why: str
    write: str = ""
    level: str = BLOCKS


@dataclasses.dataclass
class RewriteContext:
    """The state of one rewriting pass over one file. Transformers read the attributes up to `plan` and change the later
    ones.

    Attributes:
        file: name of the file, for the register.
        qualified: returns the qualified name to which a Name or an Attribute of the original tree refers, or None.
        fact: returns what is known about the value of an expression of the original tree.
        parent: returns the parent of a node of the original tree, or None.
        line: returns the line of a node of the original tree.
        rules: {name: rules}.
        starts: returns whether a node of the original tree is in code that runs only when a model is constructed.
        in_forward: returns whether a node of the original tree runs, or may run, in `forward`.
        read_later: returns whether the function that contains a Name of the original tree may read this name again
            later. For a Name in a loop, the result is always True.
        values: returns all expressions that are assigned to a name or an attribute of self. The list is empty if the
            name may also get its value in another way.
        is_drawer: returns whether a function of the original tree draws random numbers, either itself or through a
            call.
        is_drawer_call: returns whether a call of the original tree calls a function that draws random numbers.
        is_module_method: returns whether a function is a method of a module, so that `self.make_rng` exists.
        runs_layers: returns whether modules have a method of this name that runs layers in constructors and `forward`.
        is_buffer: returns whether an attribute `self.x` is a buffer that its class registers.
        property_of: returns the definition of the property that `self.x` reads, or None if `x` is not a property.
        is_static: returns whether the value of an expression is known when JAX traces the model.
        is_numpys: returns whether a call makes or changes an array that must be a NumPy array, because Python needs its
            entries while JAX traces the model.
        home_of: returns (local name, dotted name to import) for an expression `package.NAME` that refers to the
            source's own package, or None.
        plan: what to write for views that are changed in place.
        written: {expression of the original tree: its current replacement}.
        hoisted: {call: its replacement}, for calls that move to a separate statement before their line.
        roots: names of `template_filling.ROOTS` that the result uses and must therefore import.
        imports: {local name: dotted name to import} for names that are not in `ROOTS`, such as {"Module":
            "funcnet.nn.Module"}.
        undecided: the expressions that could not be rewritten and that are not yet in the register.
        entries: the register.
    """

    file: str
    qualified: Callable[[cst.CSTNode], str | None]
    fact: Callable[[cst.CSTNode], Fact]
    parent: Callable[[cst.CSTNode], cst.CSTNode | None]
    line: Callable[[cst.CSTNode], int]
    rules: Mapping[str, tuple[Rule, ...]]
    starts: Callable[[cst.CSTNode], bool] = lambda node: False
    in_forward: Callable[[cst.CSTNode], bool] = lambda node: True
    read_later: Callable[[cst.CSTNode], bool] = lambda node: True
    values: Callable[[cst.CSTNode], list[cst.BaseExpression]] = lambda node: []
    is_drawer: Callable[[cst.CSTNode], bool] = lambda node: False
    is_drawer_call: Callable[[cst.CSTNode], bool] = lambda node: False
    is_module_method: Callable[[cst.CSTNode], bool] = lambda node: False
    runs_layers: Callable[[str], bool] = lambda name: False
    is_buffer: Callable[[cst.CSTNode], bool] = lambda node: False
    property_of: Callable[[cst.CSTNode], cst.FunctionDef | None] = lambda node: None
    is_static: Callable[[cst.CSTNode], bool] = lambda node: False
    is_numpys: Callable[[cst.CSTNode], bool] = lambda node: False
    home_of: Callable[[cst.Attribute], tuple[str, str] | None] = lambda node: None
    plan: ViewPlan = dataclasses.field(default_factory=ViewPlan)
    written: dict[cst.CSTNode, cst.CSTNode] = dataclasses.field(default_factory=dict)
    hoisted: dict[cst.CSTNode, cst.BaseExpression] = dataclasses.field(default_factory=dict)
    roots: set[str] = dataclasses.field(default_factory=set)
    imports: dict[str, str] = dataclasses.field(default_factory=dict)
    undecided: list[Undecided] = dataclasses.field(default_factory=list)
    entries: list[RegisterEntry] = dataclasses.field(default_factory=list)

    def give_up(self, node: cst.CSTNode, why: str, write: str = "", level: str = BLOCKS) -> None:
        """Record that an expression cannot be rewritten. The entry in the register is written when the pass leaves the
        statement that contains the expression.
        """
        self.undecided.append(Undecided(node, why, write, level))

    def settle(self, node: cst.CSTNode) -> None:
        """Remove the undecided expressions inside a node from the list, because the port leaves the node out.

        Expressions in the statements of an inner block stay undecided.
        """

        def inside(one: cst.CSTNode | None) -> bool:
            while one is not None and one is not node:
                if isinstance(one, cst.BaseSuite):
                    return False
                one = self.parent(one)
            return one is node

        self.undecided = [one for one in self.undecided if not inside(one.node)]

    def rewritten(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return a copy of what the rewriting pass has written in place of an expression.

        Args:
            node: the expression, in the original tree.
        """
        found = self.written.get(node, node)
        assert isinstance(found, cst.BaseExpression)
        return found.deep_clone()

    def rewritten_index(self, node: cst.Subscript) -> tuple[cst.SubscriptElement, ...]:
        """Return a copy of the rewritten index of a subscript of the original tree."""
        found = self.written.get(node, node)
        assert isinstance(found, cst.Subscript)
        return tuple(one.deep_clone() for one in found.slice)
