"""Plan a link: find the source of each import, compare the types, and choose the order of the modules.

The plan is made before any code runs. The source of an import is the module that defines the object, even if another
module imports the object and exports it again. A module is instantiated after the modules that it imports from.
Otherwise, the modules keep their order in the mapping that `link` gets.

If modules import from each other, their imports of functions do not determine the order, because functions of later
modules are called through trampolines. Modules that import memories, tables or globals from each other form a circular
group. Each module of such a group is split into two modules; see `rewrite.py`.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from funcnet.export.host.binary import Import, WasmBinary
from funcnet.export.host.items import HostItem, impossible
from funcnet.export.host.matching import PAGE, ExternType, LinkError, MemoryType, TableType, mismatch

__all__ = ["LinkPlan", "Source", "components", "import_error", "listed", "make_plan"]

Source = tuple[str, str]  # name of a module that defines something, and name of the export in that module
_START, _SHOWN = 8, 8  # the number of the section of the start function; how many names an error lists


@dataclasses.dataclass(frozen=True)
class LinkPlan:
    """A plan for linking modules.

    Attributes:
        sources: {(name of a module, position of an import in the module): (name of the module that defines it, name of
            its export there)}.
        groups: groups of names of modules, in the order of instantiation.
        circular: for each group, whether its modules must be split.
        late: the functions that are called through trampolines.
    """

    sources: Mapping[tuple[str, int], Source]
    groups: tuple[tuple[str, ...], ...]
    circular: tuple[bool, ...]
    late: tuple[Source, ...]


def make_plan(
    modules: Mapping[str, WasmBinary], hosts: Mapping[str, Mapping[str, HostItem]], memory: int | None
) -> LinkPlan:
    """Resolve all imports, compare their types, and choose the order of the modules.

    Args:
        modules: {name: module}.
        hosts: {name of a host module: {name of an item: item}}.
        memory: largest size of each memory in bytes, or None.

    Raises:
        LinkError: if an import is missing or does not fit, a memory exceeds the limit, a module has the name of a host
            module, or no engine can make an item of the host. The message has a line for each problem.
    """
    problems = [
        f"module '{name}': the host and a module have this name; expected different names, got one twice."
        for name in modules
        if name in hosts
    ]
    if wrong := list(_impossible(hosts)):
        raise LinkError(*problems, *wrong)
    problems += list(_too_large(modules, hosts, memory))
    grows = any(number == _START for module in modules.values() for number, _, _ in module.sections)
    sources: dict[tuple[str, int], Source] = {}
    for name, module in modules.items():
        for i, one in enumerate(module.imports):
            source = _source(modules, hosts, one)
            if isinstance(source, str):
                problems.append(import_error(name, one, source))
                continue
            sources[name, i] = source
            found = _type(modules, hosts, source)
            if grows and isinstance(found, MemoryType | TableType) and isinstance(one.type, MemoryType | TableType):
                # A start function may grow the memory or table. Its size is compared again once it exists.
                found = dataclasses.replace(found, minimum=max(found.minimum, one.type.minimum))
            if problem := mismatch(one.type, found):
                problems.append(import_error(name, one, f"{problem}; expected {one.type}, got {found}"))
    if problems:
        raise LinkError(*problems)
    return _ordered(modules, sources)


def import_error(name: str, one: Import, problem: str) -> str:
    """Return the line of an error message that names a module, its import and the problem."""
    return f"module '{name}', import '{one.module}'.'{one.name}': {problem}."


def _impossible(hosts: Mapping[str, Mapping[str, HostItem]]) -> Iterable[str]:
    for name, items in hosts.items():
        for key, item in items.items():
            if problem := impossible(item):
                yield f"host module '{name}', {item.type.kind} '{key}': {problem}."


def _too_large(modules: Mapping, hosts: Mapping, memory: int | None) -> Iterable[str]:
    if memory is None:
        return
    for name, module in modules.items():
        for one in module.memories:
            if one.minimum * PAGE > memory:
                found = f"expected at most {memory} bytes, got {one.minimum * PAGE}"
                yield f"module '{name}': a memory exceeds the limit; {found}."
    for name, items in hosts.items():
        for key, item in items.items():
            if isinstance(item.type, MemoryType) and item.type.minimum * PAGE > memory:
                found = f"expected at most {memory} bytes, got {item.type.minimum * PAGE}"
                yield f"host module '{name}', memory '{key}': it exceeds the limit; {found}."


def _source(modules: Mapping[str, WasmBinary], hosts: Mapping, one: Import) -> Source | str:
    """Return the source of an import, or the problem as text if no module defines the import."""
    expected, seen = one.type, [(one.module, one.name)]
    while True:
        module, name = seen[-1]
        if module not in modules and module not in hosts:
            return f"there is no module '{module}'; expected {expected}, got the modules {listed((*modules, *hosts))}"
        exports = modules[module].exports if module in modules else hosts[module]
        if name not in exports:
            lacking = f"module '{module}' has no export '{name}'"
            return f"{lacking}; expected {expected}, got the exports {listed(exports)}"
        if module in hosts:
            return module, name
        export = modules[module].exports[name]
        imported = modules[module].imported(export.kind)
        if export.index >= len(imported):
            return module, name
        further = imported[export.index].module, imported[export.index].name
        if further in seen:
            circle = ", ".join(f"'{a}'.'{b}'" for a, b in seen)
            return (
                f"modules import it from each other and none defines it; expected {expected}, got the circle {circle}"
            )
        seen.append(further)


def listed(names: Iterable[str]) -> str:
    """Return names as text for an error message: the first names in quotes, and the number of further names."""
    quoted = [f"'{name}'" for name in names]
    more = f" and {len(quoted) - _SHOWN} more" if len(quoted) > _SHOWN else ""
    return ", ".join(quoted[:_SHOWN]) + more if quoted else "none"


def _type(modules: Mapping[str, WasmBinary], hosts: Mapping, source: Source) -> ExternType:
    module, name = source
    return hosts[module][name].type if module in hosts else modules[module].exports[name].type


# --------------------------------------------------------------------------------------------------------------- order


def _ordered(modules: Mapping[str, WasmBinary], sources: Mapping[tuple[str, int], Source]) -> LinkPlan:
    def needs(counts: Callable[[Import], bool]) -> dict[str, list[str]]:
        """Return {module: the modules that its imports come from}. Imports for which `counts` is false are ignored."""
        return {
            name: [sources[name, i][0] for i, one in enumerate(module.imports) if counts(one)]
            for name, module in modules.items()
        }

    state = needs(lambda one: one.type.kind != "function")
    # Circles of any imports first, so that functions determine the order where they can. Inside such a circle, only
    # state counts, because trampolines replace functions that do not exist yet.
    groups = [
        tuple(group)
        for around in components(list(modules), needs(lambda one: True))
        for group in components(around, state)
    ]
    late: list[Source] = []
    made: set[str] = set()
    for group in groups:
        for name in group:
            for i, one in enumerate(modules[name].imports):
                source = sources[name, i]
                waits = source[0] in modules and source[0] not in made  # objects of the host always exist
                if one.type.kind == "function" and waits and source not in late:
                    late.append(source)
            made.add(name)
    circular = tuple(len(group) > 1 or group[0] in state[group[0]] for group in groups)  # or it imports from itself
    return LinkPlan(sources, tuple(groups), circular, tuple(late))


def components(names: list[str], needs: Mapping[str, list[str]]) -> list[list[str]]:
    """Return the groups of names that need each other, directly or indirectly (Tarjan's algorithm).

    A group comes after the groups that its names need.

    Args:
        names: names to group. The names keep this order, unless `needs` demands another order.
        needs: {name: the names that it needs}. Needed names that are not in `names` are ignored.

    Example:
        >>> components(["a", "b", "c"], {"a": ["b"], "b": ["a", "c"], "c": []})
        [['c'], ['a', 'b']]
    """
    found: list[list[str]] = []
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> None:
        numbers[name] = lowest[name] = len(numbers)
        stack.append(name)
        for other in needs[name]:
            if other not in names:
                continue
            if other not in numbers:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], numbers[other])
        if lowest[name] == numbers[name]:
            at = stack.index(name)
            found.append(sorted(stack[at:], key=names.index))
            del stack[at:]

    for name in names:
        if name not in numbers:
            visit(name)
    return found
