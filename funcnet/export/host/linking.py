"""Instantiate WebAssembly modules that import from each other and from Python, in wasmtime."""

import dataclasses
import hashlib
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from funcnet.export.host.binary import Import, WasmBinary, read
from funcnet.export.host.items import HostFunction, HostItem, HostMemory, HostTable
from funcnet.export.host.limits import Limits
from funcnet.export.host.matching import ExternType, LinkError, MemoryType, TableType, mismatch
from funcnet.export.host.objects import LinkedFunction, LinkedGlobal, LinkedMemory, LinkedTable, Runtime
from funcnet.export.host.plan import LinkPlan, Source, components, import_error, listed, make_plan
from funcnet.export.host.rewrite import Split, split, trampolines

__all__ = ["link"]


def link(
    modules: Mapping[str, WasmBinary | bytes | str | os.PathLike],
    hosts: Mapping[str, Mapping[str, HostItem]] | None = None,
    *,
    limits: Limits | None = None,
    digests: Mapping[str, str] | None = None,
) -> Mapping[str, Mapping[str, Any]]:
    """Instantiate modules, and give each module the exports of other modules and of the host that it imports.

    The import `(import "weights" "memory" …)` is the export `memory` of the module named `weights` in `modules` or
    `hosts`. A module is instantiated after the modules that it imports from. Modules may also import from each other:

    - A function of a module that does not exist yet is called through a trampoline. The trampoline works as soon as the
      module exists. A start function that calls the trampoline before the module exists traps.
    - If modules import memories, tables or globals from each other, the linker first creates these objects with their
      initial values, in additional modules. The modules in `modules` then import these objects. Their data segments and
      element segments fill the memories and tables as usual.
    - `link` raises `LinkError` if modules import an object from each other that none of them defines. It also raises
      `LinkError` if modules import memories, tables or globals from each other, and the initial values of their globals
      depend on each other in a cycle, one of their globals starts as a reference to a function, or one of their tables
      has an initial value.

    A module that defines a memory and imports another memory has several memories. wasmtime supports several memories,
    and so does Node.js from version 22 on.

    Use the result in one thread at a time, because wasmtime's stores are not thread-safe.

    Args:
        modules: {name: bytes, path of a file, or result of `read`}.
        hosts: {name: {name: item}}. An item is a function with the decorator `function`, a `HostMemory`, a `HostTable`
            or a `HostGlobal`.
        limits: limits of memory, instructions and time.
        digests: {name: SHA-256 of the module's bytes in hexadecimal}. `link` refuses a module whose bytes have another
            digest. Without a digest, `link` notices an altered module only if the module is no longer valid.

    Returns:
        {name of a module: {name of an export: `LinkedFunction`, `LinkedMemory`, `LinkedTable` or `LinkedGlobal`}}. The
        result also has an entry for each name in `hosts`.

    Raises:
        LinkError: if a module is truncated, altered or not valid, an import is missing or does not fit, or a memory
            exceeds the limit. The message has a line for each problem.
        ModuleNotFoundError: if `wasmtime` is not installed.
        OSError: if a file cannot be read.
        TypeError: if a source, an item of the host or the initial value of a `HostGlobal` has a wrong type.
        WasmTrap: if a start function or a segment traps.

    Example:
        >>> import wasmtime
        >>> from funcnet.export import host
        >>> weights = wasmtime.wat2wasm('''(module
        ...   (memory (export "memory") 1)
        ...   (data (i32.const 0) "\\\\00\\\\00\\\\80\\\\3f\\\\00\\\\00\\\\00\\\\40"))''')
        >>> code = wasmtime.wat2wasm('''(module
        ...   (import "weights" "memory" (memory 1))
        ...   (import "env" "scale" (func $scale (param f32) (result f32)))
        ...   (func (export "weight") (param i32) (result f32)
        ...     (call $scale (f32.load (i32.mul (local.get 0) (i32.const 4))))))''')
        >>> @host.function("f32", returns="f32")
        ... def scale(x):
        ...     return 10 * x
        >>> linked = host.link({"code": code, "weights": weights}, {"env": {"scale": scale}})
        >>> linked["code"]["weight"](1)
        20.0
        >>> linked["weights"]["memory"].array(0, (2,), "float32")
        array([1., 2.], dtype=float32)
    """
    hosts, limits, digests = hosts or {}, limits or Limits(), digests or {}
    _check_items(hosts)
    binaries: dict[str, WasmBinary] = {}
    problems: list[str] = []
    for name, source in modules.items():
        try:
            binaries[name] = read(source, name)
        except LinkError as error:
            problems += error.problems
    problems += _altered(modules, binaries, digests)
    if problems:
        raise LinkError(*problems)
    return _Linker(binaries, hosts, limits, make_plan(binaries, hosts, limits.memory)).run()


def _check_items(hosts: Mapping[str, Mapping[str, HostItem]]) -> None:
    for name, items in hosts.items():
        for key, item in items.items():
            if not isinstance(item, HostItem):
                kinds = "expected a function decorated with host.function, HostMemory, HostTable or HostGlobal"
                got = type(item).__name__
                raise TypeError(f"host module '{name}', '{key}': it is not a host item; {kinds}, got {got}.")


def _altered(modules: Mapping, binaries: Mapping[str, WasmBinary], digests: Mapping[str, str]) -> Iterator[str]:
    for name, digest in digests.items():
        if name not in modules:
            yield f"digest of '{name}': there is no module '{name}'; expected one of {listed(modules)}, got '{name}'."
        if name in binaries and (found := hashlib.sha256(binaries[name].data).hexdigest()) != digest.lower():
            yield f"module '{name}': it was altered; expected SHA-256 {digest.lower()}, got {found}."


_SHOWN: Mapping[str, Any] = {
    cls.__name__.removeprefix("Linked").lower(): cls
    for cls in (LinkedFunction, LinkedMemory, LinkedTable, LinkedGlobal)
}


class _Linker:
    """Instantiates the modules of one call of `link`. `objects` collects wasmtime's objects that exist so far."""

    def __init__(self, modules: Mapping[str, WasmBinary], hosts: Mapping, limits: Limits, plan: LinkPlan) -> None:
        self.modules, self.hosts, self.plan = modules, hosts, plan
        self.wasmtime = _engine_package()
        config = self.wasmtime.Config()
        config.consume_fuel = limits.fuel is not None
        config.epoch_interruption = limits.seconds is not None
        config.memory_may_move = False  # NumPy arrays keep the address of the memory
        engine = self.wasmtime.Engine(config)
        vectors = any("v128" in (*one.params, *one.results) for module in modules.values() for one in module.types)
        store = self.wasmtime.Store(engine)
        if limits.memory is not None:
            store.set_limits(memory_size=min(int(limits.memory), 2**63 - 1))
        self.runtime = Runtime(engine, store, limits, vectors)
        self.objects: dict[Source, Any] = {}  # {definition: wasmtime's object}
        self.types: dict[Source, ExternType] = {}

    def run(self) -> Mapping[str, Mapping[str, Any]]:
        for name, items in self.hosts.items():
            for key, item in items.items():
                try:
                    self.objects[name, key], self.types[name, key] = self.make(name, key, item), item.type
                except self.wasmtime.WasmtimeError as error:
                    where = f"host module '{name}', {item.type.kind} '{key}'"
                    raise LinkError(f"{where}: the engine refuses it: {' '.join(str(error).split())}.") from None
            self.runtime.linked[name] = {key: self.shown(name, key, (name, key)) for key in items}
        for name, module in self.modules.items():
            self.types |= {(name, key): export.type for key, export in module.exports.items()}
        late = self.plan.late
        signatures = [self.modules[name].exports[key].type for name, key in late]
        names = [(f"{name}.{key}", one) for (name, key), one in zip(late, signatures, strict=True)]
        stubs = self.instance("trampolines", trampolines(names), []) if late else {}
        waiting = {source: stubs[str(i)] for i, source in enumerate(late)}
        for group, circular in zip(self.plan.groups, self.plan.circular, strict=True):
            splits = {name: split(self.modules[name], name) for name in group} if circular else {}
            state = self.states(splits)
            for name in group:
                imports = [
                    self.objects[source] if source in self.objects else waiting[source]
                    for source in (self.plan.sources[name, i] for i in range(len(self.modules[name].imports)))
                ]
                self.check_sizes(name, imports)
                if circular:
                    imports += [state[name][key] for key in splits[name].added]
                code = splits[name].code if circular else self.modules[name].data
                for key, one in self.instance(name, code, imports).items():
                    self.objects.setdefault((name, key), one)
                for i, source in enumerate(late):
                    if source[0] == name:
                        stubs["table"].set(self.runtime.store, i, self.objects[source])
                self.runtime.linked[name] = {
                    key: self.shown(name, key, (name, key)) for key in self.modules[name].exports
                }
        return self.runtime.linked

    def instance(self, name: str, data: bytes, imports: Sequence[Any]) -> dict[str, Any]:
        """Compile and instantiate a module, and return its exports."""
        where = f"module '{name}'"
        try:
            module = self.wasmtime.Module(self.runtime.engine, data)
            make = lambda: self.wasmtime.Instance(self.runtime.store, module, imports)
            return dict(self.runtime.run(f"{where}, when it starts", make).exports(self.runtime.store))
        except self.wasmtime.WasmtimeError as error:
            reason = " ".join(str(error).split())
            raise LinkError(f"{where}: the engine refuses it: {reason}.") from None

    def states(self, splits: Mapping[str, Split]) -> dict[str, dict[str, Any]]:
        """Instantiate the first half of each split module, which defines its memories, tables and globals.

        A half is instantiated after the other halves from whose globals it takes initial values.
        """
        sources = {name: [self.source(name, one) for one in half.needed] for name, half in splits.items()}
        needs = {name: [module for module, _ in found] for name, found in sources.items()}
        made: dict[str, dict[str, Any]] = {}
        for group in components(list(splits), needs):
            name = group[0]
            if len(group) > 1 or name in needs[name]:
                circle = ", ".join(f"'{one}'" for one in group)
                raise LinkError(
                    f"module '{name}': globals take their first values from each other in a circle; "
                    f"expected one that starts with a constant, got the modules {circle}."
                )
            made[name] = self.instance(name, splits[name].state, [self.objects[source] for source in sources[name]])
            for key, export in self.modules[name].exports.items():
                if (held := f"{export.kind} {export.index}") in made[name]:
                    self.objects[name, key] = made[name][held]
        return made

    def source(self, name: str, one: Import) -> Source:
        return self.plan.sources[name, self.modules[name].imports.index(one)]

    def check_sizes(self, name: str, imports: Sequence[Any]) -> None:
        """Check the sizes of imported memories and tables again, as they may have grown since the plan was made."""
        problems = []
        for i, one in enumerate(self.modules[name].imports):
            found = self.types[self.plan.sources[name, i]]
            if isinstance(found, MemoryType | TableType):
                found = dataclasses.replace(found, minimum=imports[i].size(self.runtime.store))
                if problem := mismatch(one.type, found):
                    problems.append(import_error(name, one, f"{problem}; expected {one.type}, got {found}"))
        if problems:
            raise LinkError(*problems)

    def make(self, name: str, key: str, item: HostItem) -> Any:
        """Create wasmtime's object for an item of the host, such as a memory for a `HostMemory`."""
        wasmtime, store, where = self.wasmtime, self.runtime.store, f"host module '{name}', {item.type.kind} '{key}'"
        value_type = lambda kind: getattr(wasmtime.ValType, kind)()
        if isinstance(item, HostFunction):
            kinds = [[value_type(kind) for kind in side] for side in (item.type.params, item.type.results)]
            return wasmtime.Func(store, wasmtime.FuncType(*kinds), _called(self.runtime, where, item))
        if isinstance(item, HostMemory):
            return wasmtime.Memory(store, wasmtime.MemoryType(wasmtime.Limits(item.minimum, item.maximum)))
        if isinstance(item, HostTable):
            limits = wasmtime.Limits(item.minimum, item.maximum)
            return wasmtime.Table(store, wasmtime.TableType(value_type(item.element), limits), None)
        kind = wasmtime.GlobalType(value_type(item.value_type), item.mutable)
        return wasmtime.Global(store, kind, self.runtime.to_wasm(where, item.value_type, item.value))

    def shown(self, name: str, key: str, source: Source) -> Any:
        """Return the `LinkedFunction`, `LinkedMemory`, `LinkedTable` or `LinkedGlobal` of an export."""
        one = self.types[source]
        where = f"{'host ' if name in self.hosts else ''}module '{name}', {one.kind} '{key}'"
        return _SHOWN[one.kind](self.runtime, where, one, self.objects[source])


def _called(runtime: Runtime, where: str, item: HostFunction) -> Any:
    """Return the function that wasmtime calls for a host function.

    The returned function converts the arguments, calls the Python function, and converts its results.
    """
    held = weakref.ref(runtime)  # the runtime keeps the store, which keeps this function: no cycle of references

    def call(*args: Any) -> Any:
        alive = held()
        assert alive is not None, "the code that calls runs in it"
        values = [alive.to_python(*pair) for pair in zip(item.type.params, args, strict=True)]
        try:
            result = item.call(*([alive.linked] if item.linked else []), *values)
        except Exception as error:
            error.add_note(f"raised in {where}, which WebAssembly called")
            raise
        kinds = item.type.results
        several = result if len(kinds) > 1 else [result][: len(kinds)]
        if not isinstance(several, list | tuple) or len(several) != len(kinds) or (not kinds and result is not None):
            raise TypeError(f"{where}: the result is wrong; expected {len(kinds)} values, got {result!r}.")
        found = [alive.to_wasm(where, *pair) for pair in zip(kinds, several, strict=True)]
        return found if len(found) > 1 else found[0] if found else None

    return call


def _engine_package() -> Any:
    try:
        import wasmtime
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'host.link: wasmtime is not installed; expected the package, got none. Run pip install "funcnet[export]".'
        ) from error
    return wasmtime
