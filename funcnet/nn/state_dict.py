"""Names on the outside: a module's leaves as torch's state_dict lists them, and back.

A leaf has one *home* in params or state (its first name) and as many entries in the state_dict as it has names: ties
and modules under two names come several times, the layers of a stack (`*`) once each.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import tree
from funcnet.nn.parameter import Buffer, Parameter

Tree = dict[str, Any]

__all__ = ["Match", "dump", "indexed", "load", "match", "restack"]


class Match(NamedTuple):
    """What `match_state_dict` finds: three lists of names."""

    missing: list[str]
    unexpected: list[str]
    mis_shaped: list[str]


class _Entry(NamedTuple):
    name: str  # in the state_dict
    home: str  # in params or state, '*' for the layers of a stack
    layer: tuple[int, ...]  # which one of the stack
    leaf: Any  # Parameter or Buffer
    module: Any  # whose leaf it is here
    attribute: str


def indexed(path: str, index: tuple[int, ...]) -> str:
    """`path` with each `*` replaced by its layer's number.

    >>> indexed("layer.*.weight", (3,))
    'layer.3.weight'
    """
    numbers = iter(index)
    return ".".join(str(next(numbers)) if s == tree.STACKED else s for s in path.split("."))


def _entries(module: Any) -> Iterator[_Entry]:
    """Every name in torch's order: own parameters, own persistent buffers, then children, duplicates included."""
    homes: dict[int, str] = {}
    for path, inner in module.named_modules():  # parents first: the order that decides who owns a shared leaf
        for kind in (Parameter, Buffer):
            for name, leaf in inner._leaves(kind):
                homes.setdefault(id(leaf), f"{path}.{name}" if path else name)

    def walk(inner: Any, path: str, index: tuple[int, ...]) -> Iterator[_Entry]:
        for kind in (Parameter, Buffer):
            for name, leaf in inner._leaves(kind):
                if kind is Parameter or leaf.persistent:
                    dotted = f"{path}.{name}" if path else name
                    yield _Entry(indexed(dotted, index), homes[id(leaf)], index, leaf, inner, name)
        for name, child in inner._children():
            below = f"{path}.{name}" if path else name
            layers = [(*index, i) for i in range(inner.n)] if name == tree.STACKED else [index]
            for one in layers:
                yield from walk(child, below, one)

    return walk(module, "", ())


def _widen(value: Any, leaf: Any) -> Any:
    """int64 counters are int32 in JAX without x64; torch's are int64."""
    if np.dtype(leaf.dtype) == np.int64 and not isinstance(value, jax.core.Tracer):
        return np.asarray(value, np.int64)
    return value


def dump(bound: Any) -> dict[str, Any]:
    """{name: array} of a bound module."""
    values = {}
    for entry in _entries(bound):
        value = vars(entry.module)[entry.attribute]
        values[entry.name] = _widen(value[entry.layer] if entry.layer else value, entry.leaf)
    return values


def match(module: Any, sd: Mapping[str, Any]) -> Match:
    """Which names `sd` lacks, has beyond, or has in another shape."""
    entries = list(_entries(module))
    names = {entry.name for entry in entries}
    given = {(entry.home, entry.layer) for entry in entries if entry.name in sd}
    missing, seen = [], set()
    for entry in entries:
        key = (entry.home, entry.layer)
        if key not in given and key not in seen and entry.attribute not in entry.module.absent_in_old_files:
            seen.add(key)
            missing.append(entry.name)
    mis_shaped = [
        entry.name
        for entry in entries
        if entry.name in sd and entry.leaf.shape is not None and tuple(sd[entry.name].shape) != entry.leaf.shape
    ]
    return Match(missing, [name for name in sd if name not in names], mis_shaped)


def _to_numpy(value: Any) -> Any:
    """A torch tensor as a numpy array without importing torch; others as they are."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return value.float().numpy() if str(value.dtype) == "torch.bfloat16" else value.numpy()
    return value


def _complain(module: Any, sd: Mapping[str, Any], found: Match, strict: bool) -> None:
    lines = []
    expected = {entry.name: entry.leaf.shape for entry in _entries(module)}
    if strict and found.missing:
        lines.append(f"missing: {', '.join(found.missing)}")
    if strict and found.unexpected:
        shown = []
        for name in found.unexpected:
            near = difflib.get_close_matches(name, expected, n=1)
            shown.append(f"{name} (near {near[0]})" if near else name)
        lines.append(f"unexpected: {', '.join(shown)}")
    if found.mis_shaped:
        shapes = [f"{n} expected {expected[n]}, got {tuple(sd[n].shape)}" for n in found.mis_shaped]
        lines.append(f"mis-shaped: {'; '.join(shapes)}")
    if lines:
        advice = "Rename or reshape them, or take what fits: strict=False, into=(params, state)."
        raise ValueError(f"{type(module).__name__}.load_state_dict: " + "\n  ".join(["names differ.", *lines, advice]))


def load(module: Any, sd: Mapping[str, Any], strict: bool, into: tuple[Tree, Tree] | None) -> tuple[Tree, Tree]:
    """(params, state) of `module` from `sd`; see `Module.load_state_dict`."""
    module._note_ties()
    found = match(module, sd)
    _complain(module, sd, found, strict)
    if found.missing and into is None:
        raise ValueError(
            f"{type(module).__name__}.load_state_dict: sd lacks {', '.join(found.missing)}. "
            "Give what fills them: into=net.init(key)."
        )
    values: dict[str, dict[tuple[int, ...], Any]] = {}
    for entry in _entries(module):
        if entry.name in sd:
            values.setdefault(entry.home, {})[entry.layer] = _to_numpy(sd[entry.name])  # of a tie the last wins

    def leaf_value(which: int) -> Any:
        given: dict[str, Any] = tree.flatten(into[which]) if into is not None else {}

        def one(owner: Any, name: str, path: str, leaf: Any, stacks: tuple[int, ...]) -> jax.Array:
            old: Any = given.get(path)
            dtype = jax.dtypes.canonicalize_dtype(leaf.dtype if old is None else old.dtype)
            layers = values.get(path, {})
            if not layers:
                return jnp.array(old) if old is not None else _fresh(leaf, path, stacks)
            if not stacks:
                return jnp.array(layers[()], dtype)  # a copy, as copy_ makes: torch may train on in the other
            indices = list(np.ndindex(*stacks))
            whole = [jnp.asarray(layers[i], dtype) if i in layers else old[i] for i in indices]
            return jnp.stack(whole).reshape(*stacks, *whole[0].shape)

        return one

    return module._build(Parameter, leaf_value(0)), module._build(Buffer, leaf_value(1))


def _fresh(leaf: Any, path: str, stacks: tuple[int, ...]) -> jax.Array:
    """What no file holds (a buffer that is not persistent) starts anew."""
    value = leaf.start(jax.random.key(0), path)
    return jnp.broadcast_to(value, (*stacks, *value.shape))


def restack(module: Any, values: Tree, stacked: bool) -> Tree:
    """`values` with the layers of every Repeat stacked under `*`, or each under its number."""

    def one(inner: Any, node: Tree, path: str) -> Tree:
        children = dict(inner._children())
        if not getattr(type(inner), "repeats", False):
            return {
                k: one(children[k], v, f"{path}{k}.") if k in children and isinstance(v, dict) else v
                for k, v in node.items()
            }
        template = next(iter(children.values()))
        if tree.STACKED in node:
            whole = node[tree.STACKED]
            layers = [jax.tree.map(lambda a, i=i: a[i], whole) for i in range(inner.n)]
        else:
            layers = [node.get(str(i), {}) for i in range(inner.n)]
        layers = [one(template, layer, f"{path}{i}.") for i, layer in enumerate(layers)]
        if not stacked:
            return {str(i): layer for i, layer in enumerate(layers)}
        structures: list[Any] = [jax.tree.structure(layer) for layer in layers]
        if any(structure != structures[0] for structure in structures):
            raise ValueError(
                f"{type(module).__name__}.stack: the layers of {path[:-1]!r} hold different leaves and cannot be "
                "stacked. Stack before you partition, or choose the same leaves of every layer."
            )
        return {tree.STACKED: jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)}

    return one(module, values, "")
