"""Rewrites one file of a torch model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping

import libcst as cst

from funcnet.porting.analysis.mutations import Mutations
from funcnet.porting.analysis.random_functions import Functions
from funcnet.porting.analysis.static_tensors import Static
from funcnet.porting.analysis.type_inference import TypeInference
from funcnet.porting.analysis.view_plans import ViewPlan, plan_of
from funcnet.porting.errors.unported_lines import BLOCKS, RegisterEntry
from funcnet.porting.expression_facts.fact import UNKNOWN, Fact
from funcnet.porting.reading.classes import target_of
from funcnet.porting.reading.definitions import Binding, Definitions, enclosing
from funcnet.porting.reading.slicing import SlicedFile
from funcnet.porting.reading.sources import ModelSource, assignments, qualified
from funcnet.porting.reading.syntax import dotted, root_of, walk
from funcnet.porting.rewriting import imports
from funcnet.porting.rewriting.rewriter import Rewriter
from funcnet.porting.rules import RULES
from funcnet.porting.running.recording import Recording
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["Rewritten", "plans_of", "rewrite"]


@dataclasses.dataclass(frozen=True)
class Rewritten:
    """A file of the result: its name, its source, and its entries in the register."""

    name: str
    text: str
    entries: tuple[RegisterEntry, ...]


def rewrite(
    file: SlicedFile,
    tree: cst.Module,
    name: str,
    functions: Functions,
    home: Callable[[cst.ImportFrom | cst.Import, str], tuple[str, str] | None],
    recording: Recording | None = None,
    plan: ViewPlan | None = None,
) -> Rewritten:
    """Rewrite one file.

    Args:
        file: the file, with the parts of it that are left out.
        tree: the part of the file's syntax tree that the port keeps; see `slicing.module_tree`.
        name: name of the resulting file.
        functions: the functions of all files that are ported together.
        home: function that finds the definitions which the file imports from its own package; see `imports.rewritten`.
        recording: a run of the model, from which facts are taken.
        plan: what to write for views that are changed in place; see `plans_of`.
    """
    context = context_of(file.source, name, functions, recording)
    context.plan = plan or ViewPlan()
    taken = imports.names_in(file.source.tree)
    context.home_of = lambda node: _home_of(node, file.source, home, taken)
    for node, why in file.missing.items():
        context.give_up(node, why)
    ported = tree.visit(Rewriter(context, file.removed))
    assert isinstance(ported, cst.Module)
    here = name.removesuffix(".py"), file.source.module.partition(".")[0]
    context.entries += _hidden(tree, file.source, context)
    ported = imports.rewritten(ported, context.roots, context.imports, home, here)
    return Rewritten(name, ported.code, tuple(sorted(set(context.entries))))


def _hidden(tree: cst.Module, source: ModelSource, context: RewriteContext) -> list[RegisterEntry]:
    """Return a register entry for each name among `jax`, `jnp` and `tl` that the source binds although the result
    imports it.
    """
    found: dict[str, cst.CSTNode] = {}
    for node in walk(tree):
        bound: cst.CSTNode | None = node.name if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Param) else None
        if isinstance(node, cst.AssignTarget | cst.NamedExpr | cst.For | cst.CompFor):
            bound = node.target
        for one in walk(bound) if bound is not None and not isinstance(bound, cst.Attribute | cst.Subscript) else ():
            if isinstance(one, cst.Name) and one.value in {"jax", "jnp", "tl"} & context.roots:
                found.setdefault(one.value, one)
    why, write = "The result imports {0}, and this name hides it.", "Rename it in the torch source."
    return [
        RegisterEntry(context.file, context.line(node), BLOCKS, name, why.format(name), write)
        for name, node in found.items()
    ]


def _home_of(
    node: cst.Attribute,
    source: ModelSource,
    home: Callable[[cst.ImportFrom | cst.Import, str], tuple[str, str] | None],
    taken: set[str],
) -> tuple[str, str] | None:
    """Return (local name, dotted name to import) for `package.NAME`, if the package itself is not in the result."""
    chain = dotted(node)
    statements = [one.node for one in source.bindings.get(chain[0], ()) if one.alias is not None] if chain else []
    if chain is None or not statements or assignments(source, root_of(node)) is not None:
        return None
    statement = statements[0]
    assert isinstance(statement, cst.ImportFrom | cst.Import)
    found = home(statement, ".".join(chain)) if home(statement, chain[0]) is None else None
    if found is None or not found[0] or "." in found[1]:
        return None
    file, name = found
    return (name if name not in taken else f"{file}_{name}"), f".{file}.{name}"


def plans_of(
    trees: Mapping[SlicedFile, cst.Module], functions: Functions, recording: Recording | None = None
) -> dict[ModelSource, ViewPlan]:
    """Return {file: plan of what to write for views that are changed in place}.

    Args:
        trees: {file: the part of its syntax tree that is kept}.
        functions: the functions of all files that are ported together.
        recording: a run of the model, from which facts are taken.
    """
    kept = {file.source: _kept(tree, file.removed) for file, tree in trees.items()}
    facts = {source: inference_of(source, recording).fact for source in kept}

    def fact(source: ModelSource, node: cst.CSTNode) -> Fact:
        found = facts[source](node)
        # In a constructor, a parameter is not a tensor but a description. Its methods change its init, not a view.
        return Fact(frozenset({"other"})) if "parameter" in found.kinds and functions.starts(source, node) else found

    methods = {name.removeprefix("Tensor.") for name in RULES if name.startswith("Tensor.")}
    mutations = Mutations(kept, fact, methods)
    return {source: plan_of(source, mutations) for source in kept}


def _kept(tree: cst.Module, removed: Collection[cst.CSTNode]) -> list[cst.CSTNode]:
    stack: list[cst.CSTNode] = [tree]
    found = []
    while stack:
        one = stack.pop()
        if one not in removed:
            found.append(one)
            stack.extend(reversed(one.children))
    return found


def inference_of(
    source: ModelSource, recording: Recording | None, known: dict[ModelSource, TypeInference] | None = None
) -> TypeInference:
    """Return the object that infers the facts of the expressions of a file.

    Args:
        source: the file.
        recording: a run of the model.
        known: {file: the object that infers its facts} for files that were already examined. This function adds an
            entry for the file.
    """
    others = {} if known is None else known
    if source in others:
        return others[source]

    def recorded(node: cst.CSTNode) -> Fact:
        if recording is None or not isinstance(node, cst.BaseExpression):
            return UNKNOWN
        return recording.fact(source.path, source.span(node))

    names: dict[cst.CSTNode, str | None] = {}

    def name_of(node: cst.CSTNode) -> str | None:
        if node not in names:
            names[node] = qualified(source, node) if isinstance(node, cst.Name | cst.Attribute) else None
        return names[node]

    def foreign(func: cst.BaseExpression) -> Fact:
        return _returned(source, func, recording, others)

    definitions = Definitions.of(source.tree, source.parents.get)
    others[source] = TypeInference(definitions, source.parents.get, name_of, RULES, recorded, foreign)
    return others[source]


def _returned(
    source: ModelSource, func: cst.BaseExpression, recording: Recording | None, known: dict[ModelSource, TypeInference]
) -> Fact:
    """Return what is known about the return value of a function that another file of the package defines."""
    target = target_of(source, func) if assignments(source, root_of(func)) is None else None
    if target is None or target.source is None or target.source is source:
        return UNKNOWN
    found = [one.node for one in target.source.bindings.get(target.name, ()) if isinstance(one.node, cst.FunctionDef)]
    return inference_of(target.source, recording, known).returned(found[-1]) if found else UNKNOWN


def context_of(source: ModelSource, name: str, functions: Functions, recording: Recording | None) -> RewriteContext:
    """Return the context that the transformers get when they rewrite one file."""
    parent = source.parents.get
    inference = inference_of(source, recording)
    definitions, name_of = inference.definitions, inference.qualified
    reads = _reads(source)
    static = Static(source.tree, definitions, inference.fact, name_of)
    return RewriteContext(
        file=name,
        qualified=name_of,
        fact=inference.fact,
        parent=parent,
        line=lambda node: source.span(node)[0],
        rules=RULES,
        starts=lambda node: functions.starts(source, node),
        in_forward=lambda node: functions.in_forward(source, node),
        read_later=lambda node: _read_later(node, source, reads),
        values=lambda node: _values(node, definitions, parent),
        is_drawer=functions.is_drawer,
        is_drawer_call=lambda node: functions.is_drawer_call(source, node),
        is_buffer=lambda node: _is_buffer(node, definitions, parent),
        property_of=definitions.property_of,
        is_static=static.is_static,
        is_numpys=lambda node: node in static.numpys and not functions.starts(source, node),
        is_module_method=functions.is_module_method,
        runs_layers=functions.runs_layers,
    )


def _values(
    node: cst.CSTNode, definitions: Definitions, parent: Callable[[cst.CSTNode], cst.CSTNode | None]
) -> list[cst.BaseExpression]:
    """Return the expressions that are assigned to a name or an attribute of self.

    The list is empty if the name is also bound in another way, for example as a parameter or in a loop.
    """
    bindings: list[Binding] = []
    if isinstance(node, cst.Name):
        bindings = definitions.of_name(node)
    elif isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self":
        owner = enclosing(node, (cst.ClassDef,), parent)
        bindings = [] if owner is None else definitions.of_attribute(owner, node.attr.value)
    plain = all(one.how == "value" for one in bindings)
    return [one.node for one in bindings if isinstance(one.node, cst.BaseExpression)] if plain else []


Place = tuple[int, int]  # line and column


def _is_buffer(
    node: cst.CSTNode, definitions: Definitions, parent: Callable[[cst.CSTNode], cst.CSTNode | None]
) -> bool:
    owner = enclosing(node, (cst.ClassDef,), parent)
    named = isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self"
    return named and owner is not None and definitions.is_buffer(owner, node.attr.value)  # type: ignore[attr-defined]


def _reads(source: ModelSource) -> Mapping[tuple[cst.CSTNode | None, str], list[Place]]:
    """Return {(function, name): line and column of each place in the function that reads the name}. Functions inside
    the function are included.
    """
    found: dict[tuple[cst.CSTNode | None, str], list[Place]] = {}
    for node in walk(source.tree):
        if not isinstance(node, cst.Name) or isinstance(source.parents.get(node), cst.AssignTarget):
            continue
        function: cst.CSTNode | None = node
        while function is not None:
            function = enclosing(function, (cst.FunctionDef,), source.parents.get)
            found.setdefault((function, node.value), []).append(source.span(node)[:2])
    return found


def _read_later(
    node: cst.CSTNode, source: ModelSource, reads: Mapping[tuple[cst.CSTNode | None, str], list[Place]]
) -> bool:
    assert isinstance(node, cst.Name)
    function = enclosing(node, (cst.FunctionDef,), source.parents.get)
    loop = enclosing(node, (cst.For, cst.While, cst.FunctionDef), source.parents.get)
    place = source.span(node)[:2]
    return isinstance(loop, cst.For | cst.While) or any(one > place for one in reads.get((function, node.value), []))
