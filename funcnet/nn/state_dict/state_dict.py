"""Conversion between (params, state) and a state_dict with torch's names.

A leaf is stored in params or state once, under its first name, which is its *home*. In the state_dict, a leaf has one
entry per name, so a tied leaf, or a leaf of a module with two names, has several entries. A leaf of a stack (`*`) has
one entry per layer.
"""

import difflib
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import tree
from funcnet.nn.core import stale_traces
from funcnet.nn.core.module_tree import LeafPlace, Node, build, children, description_of, is_stack, join, leaves, walk
from funcnet.nn.core.parameter import Buffer, Parameter, copied
from funcnet.nn.init.composed import dtype_in_jax
from funcnet.nn.state_dict import state_dict_hooks as hooks
from funcnet.nn.state_dict.sliced_array import SlicedArray
from funcnet.nn.state_dict.torch_tensors import to_numpy
from funcnet.random import is_key, wrap_keys
from funcnet.tree import Tree

__all__ = ["Entry", "Match", "disagreements", "dump", "entries_of", "fresh", "indexed", "load", "match", "restack"]


class Match(NamedTuple):
    """The result of `match_state_dict`: the names that a state_dict lacks, the names that the net lacks, and the names
    of arrays with a wrong shape.
    """

    missing: list[str]
    unexpected: list[str]
    mis_shaped: list[str]


class Entry(NamedTuple):
    """A name in the state_dict, and the place in params or state at which its array is stored."""

    name: str
    home: str  # the leaf's first name, under which params or state stores it, with '*' for the layers of a stack
    layer: tuple[int, ...]  # index of the layer in each stack
    leaf: Any  # Parameter or Buffer
    module: Any  # the module that has the leaf under this name
    attribute: str

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of the array in the state_dict. None means that the leaf is lazy."""
        words = jax.random.key_data(jnp.empty(0, self.leaf.dtype)).shape[1:] if is_key(self.leaf) else ()
        return self.leaf.shape if self.leaf.shape is None else (*self.leaf.shape, *words)


def indexed(path: str, index: tuple[int, ...]) -> str:
    """Return `path` with each `*` replaced by the number of its layer.

    >>> indexed("layer.*.weight", (3,))
    'layer.3.weight'
    """
    numbers = iter(index)
    return ".".join(str(next(numbers)) if s == tree.STACKED else s for s in path.split("."))


def entries_of(module: Node) -> Iterator[Entry]:
    """Return an iterator over the entries of a module's state_dict in torch's order: parameters, persistent buffers,
    children.

    Shared leaves appear under each of their names.
    """
    homes = {id(place.leaf): place.path for place in walk(module)}

    def visit(inner: Node, path: str, layer: tuple[int, ...]) -> Iterator[Entry]:
        for name, leaf in leaves(inner):
            if getattr(leaf, "persistent", True):
                yield Entry(join(path, name), homes[id(leaf)], layer, leaf, inner, name)
        for name, child in children(inner, layers=True):
            yield from visit(child, join(path, name), (*layer, int(name)) if is_stack(inner) else layer)

    return visit(module, "", ())


def _as_torch(value: jax.Array | np.ndarray, leaf: Any) -> Any:
    """Return an array as a state_dict stores it. An array of an int64 leaf becomes int64, as in torch. JAX stores it as
    int32 if x64 is disabled. Random keys become their data, which are uint32.
    """
    if is_key(leaf):
        return jax.random.key_data(value)
    if np.dtype(leaf.dtype) == np.int64 and not isinstance(value, jax.core.Tracer):
        return np.asarray(value, np.int64)
    return value


def dump(bound: Node, prefix: str = "") -> "OrderedDict[str, Any]":
    """Return the state_dict {name: array} of a bound module. As in torch, the dict has an attribute `_metadata` with
    the layout version of each module.
    """
    values: OrderedDict[str, Any] = OrderedDict()
    metadata: OrderedDict[str, Any] = OrderedDict()
    values._metadata = metadata  # type: ignore[attr-defined]

    def visit(module: Node, path: str, layer: tuple[int, ...]) -> None:
        about = metadata[path[:-1]] = {"version": getattr(module, "_version", None)}  # `_version` is torch's name
        description = description_of(module)
        hooks.run(description, hooks.PRE, path, False)
        for name, leaf in leaves(module):
            if getattr(leaf, "persistent", True):
                value = vars(module)[name]
                values[f"{path}{name}"] = _as_torch(value[layer] if layer else value, leaf)
        if hooks.has_extra_state(module):
            values[f"{path}{hooks.EXTRA}"] = module.get_extra_state()
        for name, child in children(module, layers=True):
            visit(child, f"{path}{name}.", (*layer, int(name)) if is_stack(module) else layer)
        hooks.run(description, hooks.POST, values, path, about)

    visit(bound, prefix, ())
    return values


def match(module: Node, sd: Mapping[str, Any]) -> Match:
    """Compare the state_dict `sd` with a module. Return the names that `sd` lacks, the names that the module lacks, and
    the names of arrays with a wrong shape.
    """
    return _match(module, hooks.before_load(module, sd, True))


def _match(module: Node, prepared: hooks.PreparedStateDict) -> Match:
    sd = prepared.sd
    entries = list(entries_of(module))
    extra = _extra_states(module)
    names = {entry.name for entry in entries} | set(extra)
    given = {(entry.home, entry.layer) for entry in entries if entry.name in sd}
    missing, seen = [*prepared.missing], set()
    for entry in entries:
        key = (entry.home, entry.layer)
        if key not in given and key not in seen and entry.name not in prepared.optional:
            seen.add(key)
            missing.append(entry.name)
    mis_shaped = [entry.name for entry in entries if entry.name in sd and not _fits(sd[entry.name], entry.shape)]
    missing += [name for name in extra if name not in sd]
    return Match(missing, [*prepared.unexpected, *(name for name in sd if name not in names)], mis_shaped)


def _fits(value: object, shape: tuple[int, ...] | None) -> bool:
    """Return whether `value` is an array of the shape `shape`, or of any shape if `shape` is None.

    A value of shape (1,) fits the shape (), because files of torch 0.3 store scalars with shape (1,).
    """
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return False
    return shape is None or tuple(value.shape) == shape or (shape == () and tuple(value.shape) == (1,))


def _extra_states(module: Node) -> dict[str, Any]:
    """Return {name in the state_dict: module} for the submodules that define `get_extra_state`."""
    out: dict[str, Any] = {}

    def visit(inner: Node, prefix: str) -> None:
        if hooks.has_extra_state(inner):
            out[f"{prefix}{hooks.EXTRA}"] = inner
        for name, child in children(inner, layers=True):
            visit(child, f"{prefix}{name}.")

    visit(module, "")
    return out


def disagreements(entries: list[Entry], sd: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the pairs of names in `sd` that belong to one tied array, but have different values. The first name of a
    pair is the first name of the array that `sd` has.
    """
    first: dict[tuple[str, tuple[int, ...]], str] = {}
    found = []
    for entry in entries:
        if entry.name in sd:
            name = first.setdefault((entry.home, entry.layer), entry.name)
            if name != entry.name and not _same(sd[name], sd[entry.name], entry):
                found.append((name, entry.name))
    return found


def _same(one: object, other: object, entry: Entry) -> bool:
    if one is other or any(isinstance(x, jax.core.Tracer) or not _fits(x, entry.shape) for x in (one, other)):
        return True  # traced arrays are not compared, and those of a wrong shape are errors
    dtype = np.uint32 if is_key(entry.leaf) else entry.leaf.dtype
    a, b = (np.asarray(to_numpy("", entry.name, x)).astype(dtype).reshape(-1) for x in (one, other))
    return np.array_equal(a, b, equal_nan=True)


def _tied_errors(where: str, entries: list[Entry], sd: Mapping[str, Any], strict: bool) -> list[str]:
    """Return an error for the different arrays of tied ones. If not `strict`, warn of them and return nothing."""
    different = ", ".join(f"{other} is not equal to {name}" for name, other in disagreements(entries, sd))
    if different and strict:
        return [f"tied but different: {different}. Remove one. strict=False loads the last one, as torch does."]
    if different:
        warnings.warn(
            f"{where}: sd has different arrays for a tied one; expected equal arrays, got others: {different}. The "
            "last one is loaded, as in torch.",
            stacklevel=4,
        )
    return []


def _complain(module: Node, sd: Mapping[str, Any], found: Match, strict: bool, errors: list[str]) -> None:
    lines = [*errors]
    expected = {entry.name: entry.shape for entry in entries_of(module)}
    if strict and found.missing:
        lines.append(f"missing: {', '.join(found.missing)}")
    if strict and found.unexpected:
        shown = []
        for name in found.unexpected:
            near = difflib.get_close_matches(name, expected, n=1)
            shown.append(f"{name} (near {near[0]})" if near else name)
        lines.append(f"unexpected: {', '.join(shown)}")
    if found.mis_shaped:
        shapes = [f"{n} expected {expected[n]}, got {_shape(sd[n])}" for n in found.mis_shaped]
        lines.append(f"mis-shaped: {'; '.join(shapes)}")
    if lines:
        advice = (
            "Reshape or remove the mis-shaped entries. strict=False does not accept them. " if found.mis_shaped else ""
        )
        if strict and (found.missing or found.unexpected):
            advice += "Rename the entries, or load those that fit with strict=False, into=(params, state)."
        prefix = found.unexpected[0].split(".")[0] + "." if found.unexpected else ""
        inner = [name for name, value in sd.items() if isinstance(value, Mapping) and set(value) & set(expected)]
        # Each of the following mistakes explains all wrong names. Advice about single names would then mislead.
        inside = {name: value for name, value in sd.items() if isinstance(value, Mapping)}
        if tree.flatten(inside).keys() & set(expected):
            advice = "sd is nested, like params; expected dotted names. Pass net.state_dict(params, state)."
        if inner:
            advice = f"The expected names are in sd[{inner[0]!r}]. Load that entry."
        elif prefix and all(
            name.startswith(prefix) and name.removeprefix(prefix) in expected for name in found.unexpected
        ):
            advice = (
                f"The names begin with {prefix!r}, the prefix of a wrapper (DataParallel, torch.compile). Load "
                f"nn.utils.consume_prefix_in_state_dict_if_present(sd, {prefix!r})."
            )
        raise ValueError(
            f"{type(module).__name__}.load_state_dict: "
            + "\n  ".join(["sd does not fit the module.", *lines, advice.strip()])
        )


def _shape(value: Any) -> Any:
    return tuple(value.shape) if _fits(value, None) else type(value).__name__


def _require_pair(where: str, into: object) -> None:
    if into is not None and not (isinstance(into, tuple | list) and len(into) == 2):
        raise TypeError(
            f"{where}: into has the wrong type; expected (params, state), got {type(into).__name__}. Pass "
            "into=net.init(key)."
        )


def _require_mapping(where: str, sd: object) -> None:
    """Raise TypeError unless `sd` maps names to arrays."""
    if not isinstance(sd, Mapping):
        advice = "Read it with funcnet.weights.load(path)." if isinstance(sd, str | Path) else "Pass its .state_dict()."
        if isinstance(sd, tuple):
            advice = "If these are the (params, state) of init, pass them to apply as they are."
        raise TypeError(
            f"{where}: sd has the wrong type; expected a dict that maps names to arrays, got {type(sd).__name__}. "
            f"{advice}"
        )


def load(
    module: Node,
    sd: Mapping[str, Any],
    strict: bool,
    into: tuple[Tree, Tree] | None,
    *,
    put: Callable[[str, Any], jax.Array] | None = None,
) -> tuple[Tree, Tree]:
    """Convert the state_dict `sd` to (params, state) of `module`. See `Module.load_state_dict`.

    `put(name, array)` makes the array of a leaf. It gets a `SlicedArray` if `sd` has NumPy arrays for the entire leaf.
    """
    where = f"{type(module).__name__}.load_state_dict"
    _require_mapping(where, sd)
    _require_pair(where, into)
    prepared = hooks.before_load(module, sd, strict)
    sd, found = prepared.sd, _match(module, prepared)
    hooks.after_load(module, hooks.IncompatibleKeys(found.missing, found.unexpected))
    entries = list(entries_of(module))
    _complain(module, sd, found, strict, [*prepared.errors, *_tied_errors(where, entries, sd, strict)])
    lacking = [name for name in found.missing if name not in prepared.missing]
    if lacking and into is None:
        raise ValueError(
            f"{where}: sd lacks {', '.join(lacking)}. To supply initial values for the missing entries, pass "
            "into=net.init(key)."
        )
    for name, owner in _extra_states(module).items():
        if name in sd:
            owner.set_extra_state(sd[name])
    stale_traces.STARTED.add(entry.leaf for entry in entries)
    if sd and entries and not any(entry.name in sd for entry in entries):
        warnings.warn(
            f"{where}: sd has none of the names of this net, so nothing was loaded; expected names such as "
            f"{entries[0].name!r}, got {next(iter(sd))!r}. Rename them, or check the prefix.",
            stacklevel=3,
        )
    values = _layers_of_leaves(where, entries, sd)

    def leaf_value(which: int) -> Any:
        given: dict[str, Any] = tree.flatten(into[which]) if into is not None else {}

        def one(place: LeafPlace) -> jax.Array:
            _, _, _, leaf, stacks = place
            path = place.path
            old: Any = given.get(path)
            same = old is None or old.dtype == dtype_in_jax(leaf.dtype)
            dtype = leaf.dtype if same else old.dtype
            layers, indices = values.get(path, {}), list(np.ndindex(*stacks))
            if len(layers) < len(indices):
                old = fresh(place) if old is None else jnp.array(old)
            if not layers:
                return old if put is None else put(path, old)
            if put is not None and len(layers) == len(indices) and not is_key(leaf):
                return put(path, SlicedArray([layers[i] for i in indices], stacks, dtype))
            try:  # a copy, as in copy_, because torch may continue to train the original
                whole = [copied(layers[i], dtype) if i in layers else old[i] for i in indices]
            except OverflowError as error:
                raise ValueError(f"{where}: {path!r} {error}") from None
            array = jnp.stack(whole).reshape(*stacks, *whole[0].shape) if stacks else whole[0]
            return array if put is None else put(path, array)

        return one

    return build(module, Parameter, leaf_value(0)), build(module, Buffer, leaf_value(1))


def _layers_of_leaves(where: str, entries: list[Entry], sd: Mapping[str, Any]) -> dict[str, dict[tuple[int, ...], Any]]:
    """Return {first name of a leaf: {layer: array in `sd`}}."""
    values: dict[str, dict[tuple[int, ...], Any]] = {}
    for entry in entries:
        if entry.name in sd:
            value = to_numpy(where, entry.name, sd[entry.name])
            if entry.shape == ():
                value = value.reshape(())
            if is_key(entry.leaf):
                value = wrap_keys(jnp.asarray(value, jnp.uint32), entry.leaf.dtype)
            values.setdefault(entry.home, {})[entry.layer] = value  # the last name of a tie wins
    return values


def fresh(place: LeafPlace) -> jax.Array:
    """Return the initial value of a leaf that no state_dict contains, such as a buffer that is not persistent."""
    value = place.leaf.start(jax.random.key(0), place.path)
    return jnp.broadcast_to(value, (*place.stacks, *value.shape))


def restack(module: Node, values: Tree, stacked: bool) -> Tree:
    """Return params or state with the layers of every `Repeat` stacked under the key `*`, or separate under their
    numbers.
    """

    def one(inner: Node, node: Tree, path: str) -> Tree:
        beneath = dict(children(inner))
        if not getattr(type(inner), "repeats", False):
            return {
                k: one(beneath[k], v, f"{path}{k}.") if k in beneath and isinstance(v, dict) else v
                for k, v in node.items()
            }
        template = next(iter(beneath.values()))
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
                f"{type(module).__name__}.stack: the layers of {path[:-1]!r} have different leaves and cannot be "
                "stacked. Stack the layers before you partition params, or select the same leaves in every layer."
            )
        return {tree.STACKED: jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)}

    return one(module, values, "")
