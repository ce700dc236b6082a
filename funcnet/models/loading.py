"""Loading a checkpoint into a model, whatever the file calls its arrays.

    file -> read_arrays (today's names) -> choose_layers -> fill (prefixes, new heads, mismatches) -> params, state

What is particular to a family of models is data: its `Naming`.
"""

import dataclasses
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from funcnet import nn, tree, weights
from funcnet.files import check_digests
from funcnet.nn.core.state_dict import entries_of

__all__ = ["Naming", "choose_layers", "fill", "load", "read_arrays"]

Tree = dict[str, Any]
Arrays = Mapping[str, Any]

SHOWN = 12  # ignored names that a warning lists
DATA_PARALLEL = "module."  # before every name in a state_dict of torch's DataParallel


@dataclasses.dataclass(frozen=True)
class Naming:
    """How the checkpoints of a family of models name their arrays.

    Attributes:
        prefix: stands before the names of the encoder in a model with a head, such as "bert."; "" if nothing does.
        encoder: how the names of the encoder begin without the prefix.
        heads: how the names of parts begin that a file may lack, or have beyond the model, as a whole.
        layers: pattern of the name of a layer, without the prefix; what `choose_layers` numbers.
        ignored: pattern of names that are no weights.
        renamed: (pattern, replacement) for names that older files have.
        foreign: for files of another framework `{our name: (theirs, whether to transpose)}`; None for any other file.
    """

    prefix: str = ""
    encoder: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    layers: str = r"(?!)"
    ignored: str = r"(?!)"
    renamed: tuple[tuple[str, str], ...] = ()
    foreign: Callable[[Iterable[str]], Mapping[str, tuple[str, bool]] | None] = lambda names: None

    def head(self, name: str) -> str | None:
        """Which of the `heads` an array belongs to; None for the rest of the model."""
        return next((head for head in self.heads if name.startswith(head)), None)


def load(
    path: str | Path,
    model: nn.Module,
    naming: Naming | None = None,
    *,
    key: jax.Array | None = None,
    new_heads: bool = True,
    reshape_heads: bool = False,
) -> tuple[Tree, Tree]:
    """The arrays of a model from a checkpoint file or a directory with one.

    Args:
        path: as `weights.load` takes it.
        model: the description.
        naming: of its family, such as `resnet.NAMING`; None: the file has the model's names.
        key: for heads that start anew; None: `jax.random.key(0)`.
        new_heads: whether a head that the file lacks starts anew, with a warning; False: it is an error.
        reshape_heads: whether a head of another shape in the file starts anew too.

    Returns:
        (params, state).

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file holds no arrays by name; arrays are missing or have another shape (all are listed).

    Warns:
        UserWarning: one message with what starts anew, and what the file has beyond the model.

    Example:
        >>> import tempfile
        >>> from funcnet import nn
        >>> net = nn.Linear(2, 3)
        >>> params, state = net.init(jax.random.key(0))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     wrapped = {f"module.{name}": array for name, array in net.state_dict(params, state).items()}
        ...     weights.save(Path(folder, "net.safetensors"), wrapped)
        ...     read, _ = load(Path(folder, "net.safetensors"), net)
        >>> bool((read["weight"] == params["weight"]).all())
        True
    """
    naming, where = naming or Naming(), "models.load"
    arrays = read_arrays(path, naming, where)
    return fill(model, arrays, naming, f"{where}: {path}", key=key, new_heads=new_heads, reshape_heads=reshape_heads)


def read_arrays(path: str | Path, naming: Naming, where: str) -> Arrays:
    """The arrays of a checkpoint under today's names, each read from the file only when it is asked for.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it holds something other than arrays by name, or has changed since a run wrote it.
    """
    path = Path(path)
    if path.is_dir():
        check_digests(path, where)
    else:
        check_digests(path.parent, where, [path.name])
    file = weights.load(path)
    if not isinstance(file, Mapping) or not all(hasattr(array, "shape") for array in file.values()):
        raise ValueError(
            f"{where}: {path}: the weights are no {{name: array}}; expected a model's state_dict, got "
            f"{type(file).__name__}. Save the state_dict alone."
        )
    foreign = naming.foreign(file)
    if foreign is not None:
        names = {ours: theirs for ours, (theirs, _) in foreign.items()}
        return _Renamed(file, names, (ours for ours, (_, transposed) in foreign.items() if transposed))
    start = DATA_PARALLEL if file and all(name.startswith(DATA_PARALLEL) for name in file) else ""
    names = {}
    for name in file:
        today = name.removeprefix(start)
        for pattern, replacement in naming.renamed:
            today = re.sub(pattern, replacement, today)
        if not re.search(naming.ignored, today):
            names[today] = name
    return _Renamed(file, names)


def choose_layers(arrays: Arrays, patterns: str | Iterable[str], naming: Naming, where: str) -> tuple[Arrays, int]:
    """(the arrays with only some of the layers, numbered anew; the number of these layers).

    Raises:
        ValueError: a pattern matches no layer.
    """
    layer = re.compile(rf"^((?:{re.escape(naming.prefix)})?)({naming.layers})(?=\.)")
    found = {name: match for name in arrays if (match := layer.match(name))}
    there = sorted({match[2] for match in found.values()}, key=lambda name: int(name.rsplit(".", 1)[1]))
    chosen = tree.select(patterns, there, where=where)
    places = {name: f"{name.rsplit('.', 1)[0]}.{place}" for place, name in enumerate(chosen)}
    names = {}
    for name in arrays:
        if name not in found:
            names[name] = name
        elif found[name][2] in places:
            names[found[name][1] + places[found[name][2]] + name[found[name].end() :]] = name
    return _Renamed(arrays, names), len(chosen)


def fill(
    model: nn.Module,
    arrays: Arrays,
    naming: Naming,
    where: str,
    *,
    key: jax.Array | None = None,
    new_heads: bool = True,
    reshape_heads: bool = False,
) -> tuple[Tree, Tree]:
    """The arrays of a model, from those of a file; arguments, errors and warnings as `load`."""
    arrays = _prefixed(arrays, model, naming)
    found = model.match_state_dict(arrays)
    new = _new_names(model, arrays, found, naming, where, reshape_heads)
    if new and not new_heads:
        raise ValueError(
            f"{where} lacks the head of {type(model).__name__}; expected {', '.join(new)}, got none. Train it, or take "
            "the class that the file was saved from."
        )
    known = {name: name for name in arrays if name not in {*found.unexpected, *new}}
    into = model.init(jax.random.key(0) if key is None else key) if new else None
    params, state = model.load_state_dict(_Renamed(arrays, known), strict=False, into=into)
    _warn(model, arrays, new, [name for name in found.unexpected if naming.head(name) is None], where)
    _warn_of_nan(params, where)
    return params, state


class _Renamed(Mapping[str, Any]):
    """A file's arrays under other names, some of them transposed, each still read when it is asked for."""

    def __init__(self, file: Arrays, names: Mapping[str, str], transposed: Iterable[str] = ()):
        self._file, self._names, self._transposed = file, names, frozenset(transposed)

    def __getitem__(self, name: str) -> Any:
        array = self._file[self._names[name]]
        return np.transpose(array) if name in self._transposed else array

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _prefixed(arrays: Arrays, model: nn.Module, naming: Naming) -> Arrays:
    """The arrays under the model's names: the encoder's prefix dropped or added."""
    prefix = naming.prefix
    if not prefix:
        return arrays
    file_has = any(name.startswith(prefix) for name in arrays)
    model_has = any(name.startswith(prefix) for name, _ in model.named_parameters())
    if file_has and not model_has:
        return _Renamed(arrays, {name.removeprefix(prefix): name for name in arrays})
    if model_has and not file_has:
        return _Renamed(arrays, {prefix + name if name.startswith(naming.encoder) else name: name for name in arrays})
    return arrays


def _new_names(
    model: nn.Module, arrays: Arrays, found: Any, naming: Naming, where: str, reshape_heads: bool
) -> list[str]:
    """The names of the heads that start anew; an error that lists everything that is wrong, if anything is.

    A head starts anew if the file has nothing of it, or, with `reshape_heads`, has it in another shape.
    """
    shapes = {entry.name: entry.leaf.shape for entry in entries_of(model)}
    firsts = {(entry.home, entry.layer): entry.name for entry in reversed([*entries_of(model)])}.values()
    new = set(found.missing)
    reshaped = {naming.head(name) for name in found.mis_shaped} if reshape_heads else set()
    for head in {naming.head(name) for name in found.missing} | reshaped:
        whole = {name for name in firsts if head and name.startswith(head)}
        if whole & set(found.mis_shaped) and reshape_heads:
            new |= whole
        elif head is None or whole - set(found.missing):
            new -= {name for name in found.missing if naming.head(name) == head}
    lines = [f"missing: {name}" for name in found.missing if name not in new]
    for name in found.mis_shaped:
        if name not in new:
            lines.append(f"mis-shaped: {name} expected {shapes[name]}, got {tuple(arrays[name].shape)}")
    if lines:
        raise ValueError(
            f"{where}: the weights are not those of this {type(model).__name__}.\n  "
            + "\n  ".join(lines)
            + "\n  Use the weights that belong to the config, or the config that fits the weights."
        )
    return [name for name in shapes if name in new]


def _warn_of_nan(params: Tree, where: str) -> None:
    """Warn of weights that make every output NaN: a training run that diverged leaves such a file."""
    flat = tree.flatten(params)
    wrong = [name for name, array in flat.items() if not np.isfinite(np.asarray(array, np.float32)).all()]
    if wrong:
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        warnings.warn(
            f"{where}: weights are NaN or infinite in {', '.join(wrong[:SHOWN])}{more}, and so the model's "
            "outputs will be NaN. Use an earlier checkpoint.",
            stacklevel=4,
        )


def _warn(model: nn.Module, arrays: Arrays, new: list[str], ignored: list[str], where: str) -> None:
    """One warning with everything that a reader of the numbers has to know."""
    lines = []
    if new:
        why = lambda name: f" (the file's is {tuple(arrays[name].shape)})" if name in arrays else ""
        shown = ", ".join(f"{name}{why(name)}" for name in new)
        lines.append(f"{type(model).__name__} starts with new weights, and has to be trained, in {shown}.")
    if ignored:
        more = f" and {len(ignored) - SHOWN} more" if len(ignored) > SHOWN else ""
        lines.append(f"Ignored weights that the model does not have: {', '.join(ignored[:SHOWN])}{more}.")
    if lines:
        warnings.warn(f"{where}: {' '.join(lines)}", stacklevel=4)
