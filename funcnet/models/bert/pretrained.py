"""A model and its directory: `config.json` beside the weights, as Hugging Face or Google lay them."""

import dataclasses
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from funcnet import nn, tree, weights
from funcnet.files import write_json
from funcnet.models.bert.activation import called, computes
from funcnet.models.bert.configuration import BertConfig
from funcnet.models.bert.encoder import BertEncoder, BertIntermediate, BertPooler
from funcnet.models.bert.google import from_google, is_google
from funcnet.models.bert.heads import BertPredictionHeadTransform
from funcnet.models.bert.modeling import BertModel
from funcnet.models.bert.vocabulary_padding import unpad_vocab
from funcnet.nn.core.state_dict import entries_of

__all__ = ["from_pretrained", "save_pretrained"]

Tree = dict[str, Any]

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_PREFIX = "bert."  # before the names of the encoder in every model that has a head
_ENCODER = ("embeddings.", "encoder.", "pooler.")
# What may be missing, or left over, as a whole: everything else is the encoder.
_HEADS = ("bert.pooler.", "pooler.", "cls.predictions.", "cls.seq_relationship.", "classifier.", "qa_outputs.")
# Where activations stand, and which; None: the config's.
_PLACES: Mapping[type, tuple[str, str | None]] = MappingProxyType(
    {
        BertIntermediate: ("intermediate_act_fn", None),
        BertPredictionHeadTransform: ("transform_act_fn", None),
        BertPooler: ("activation", "tanh"),
    }
)
# Buffers that older versions of transformers wrote.
_BUFFERS = re.compile(r"(^|\.)embeddings\.(position_ids|token_type_ids)$")


def from_pretrained(
    path: str | Path,
    cls: Callable[[BertConfig], nn.Module] = BertModel,
    *,
    config: BertConfig | None = None,
    layers: str | Iterable[str] | None = None,
    key: jax.Array | None = None,
    new_heads: bool = True,
) -> tuple[nn.Module, Tree, Tree]:
    """The model in a directory: any BERT checkpoint into any of the models.

    The file's names may stand with the prefix `bert.` or without it, and end in `gamma` and `beta` in place of `weight`
    and `bias`. Heads that the model has not are left out. A head (or pooler) that the file lacks starts as `init`
    starts it, and a warning names it.

    Args:
        path: a directory with `config.json` and weights (`model.safetensors`, `pytorch_model.bin`, or the index of
            several); or with Google's `bert_config.json` and `bert_model.ckpt.*`; or the path of a TensorFlow
            checkpoint (without `.index`) beside its `bert_config.json`.
        cls: any class that is made from a `BertConfig` alone, such as `BertForSequenceClassification`.
        config: in place of the file's, such as `dataclasses.replace(BertConfig.load(path), num_labels=5)`. A head whose
            shape is not this config's then starts anew, named like one that the file lacks.
        layers: which of the file's layers to take, by patterns over "encoder.layer.0", … (see `funcnet.tree`), in the
            file's order: `[f"encoder.layer.{i}" for i in range(6)]` is the lower half of twelve. None: all.
        key: for a head that starts here; None: `jax.random.key(0)`.
        new_heads: False, for a model that is not to be trained: a head that the file lacks is an error.

    Returns:
        (model, params, state): the description and its arrays, float32.

    Raises:
        FileNotFoundError: one of the files is not there.
        ValueError: a broken file; a config that is not here; tensors of the encoder missing or of another shape, all of
            which are listed; half a head, or none where `new_heads` is False; a `vocab.txt` with more lines than the
            word table has rows; a pattern that matches no layer.

    Warns:
        UserWarning: one message with what starts here, and what the file holds that no BERT has.

    Example:
        >>> import tempfile
        >>> from funcnet.models import bert
        >>> model = bert.BertForPreTraining(bert.BertConfig.preset("tiny", vocab_size=100))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bert.save_pretrained(folder, model, *model.init(jax.random.key(0)))
        ...     encoder, params, state = bert.from_pretrained(folder)
        ...     half, _, _ = bert.from_pretrained(folder, layers="encoder.layer.0")
        >>> type(encoder).__name__, list(params), half.config.num_hidden_layers
        ('BertModel', ['embeddings', 'encoder', 'pooler'], 1)

    Reference: transformers.PreTrainedModel.from_pretrained
    """
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    if not path.is_dir() and not path.with_name(f"{path.name}.index").is_file():
        raise FileNotFoundError(
            f"bert.from_pretrained: {path} is not there; expected a directory with {_CONFIG} and {_WEIGHTS}, got none. "
            "Check the path."
        )
    asked = BertConfig.load(folder) if config is None else config
    _require_vocabulary(folder / "vocab.txt", asked.vocab_size)
    file = _named(weights.load(path), path)
    if layers is not None:
        file, count = _chosen(file, layers)
        asked = dataclasses.replace(asked, num_hidden_layers=count)
    model = cls(asked)
    file = _prefixed(file, model)
    found = model.match_state_dict(file)
    new = _started_here(path, model, file, found, config is not None)
    if new and not new_heads:
        raise ValueError(
            f"bert.from_pretrained: {path} lacks the head of {type(model).__name__}; expected {', '.join(new)}, got "
            "none. Train it, or take the class that the file was saved from."
        )
    known = {name: name for name in file if name not in {*found.unexpected, *new}}
    into = model.init(jax.random.key(0) if key is None else key) if new else None
    params, state = model.load_state_dict(_Renamed(file, known), strict=False, into=into)
    _tell(path, model, file, new, found.unexpected)
    return model, params, state


def save_pretrained(
    path: str | Path, model: nn.Module, params: Tree, state: Tree, *, max_shard_size: int | None = None
) -> None:
    """Writes the directory that `from_pretrained` and Hugging Face's class of the same name open.

    Args:
        path: the directory; made if it is not there. Each of the two files is replaced whole.
        model: a description with a `config`.
        params, state: its arrays. Shared weights are written once, under their first name, as Hugging Face does; rows
            that `pad_vocab` added are not written.
        max_shard_size: in bytes; None: one file. See `weights.save`.

    Raises:
        OSError: the directory cannot be written; the file at fault is as it was.
        ValueError: the config is not the model's any more, for its layers or an activation were changed by hand.

    Reference: transformers.PreTrainedModel.save_pretrained
    """
    path = Path(path)
    config: BertConfig = vars(model)["config"]
    _require_described(model, config)
    path.mkdir(parents=True, exist_ok=True)
    leaves = {entry.name: (entry.home, entry.layer) for entry in entries_of(model)}
    once: dict[Any, tuple[str, Any]] = {}  # by leaf, not by array: two leaves may hold the same one
    for name, array in model.state_dict(params, state).items():
        once.setdefault(leaves.get(name, name), (name, array))
    arrays = dict(once.values())
    if config.vocab_padding:
        arrays, config = unpad_vocab(arrays, config)
    weights.save(path / _WEIGHTS, arrays, max_shard_size=max_shard_size)
    write_json(path / _CONFIG, config.to_dict(type(model).__name__))


def _require_described(model: nn.Module, config: BertConfig) -> None:
    """Refuses a model that was changed by hand since its config made it: the directory would hold another one."""
    fits = "the config that fits: `model.config = dataclasses.replace(model.config,"
    for path, module in model.named_modules():
        if isinstance(module, BertEncoder) and len(module.layer) != config.num_hidden_layers:
            raise ValueError(
                f"bert.save_pretrained: {path}.layer is not what the config says; expected num_hidden_layers = "
                f"{config.num_hidden_layers}, got {len(module.layer)}. Take layers by `from_pretrained(…, layers=…)`, "
                f"or give the model {fits} num_hidden_layers={len(module.layer)})`."
            )
        if type(module) not in _PLACES:
            continue
        name, always = _PLACES[type(module)]
        function, wanted = getattr(module, name), always or config.hidden_act
        if not computes(function, wanted):
            told = f"{fits} hidden_act=…)`" if always is None else "that function back"
            raise ValueError(
                f"bert.save_pretrained: {path}.{name} is not what the config says; expected {wanted}, got "
                f"{called(function)}. Give the model {told}; a directory knows no other."
            )


class _Renamed(Mapping[str, Any]):
    """A file's arrays under other names, some of them transposed, each still read when it is asked for."""

    def __init__(self, file: Mapping[str, Any], names: Mapping[str, str], transposed: Iterable[str] = ()):
        self._file, self._names, self._transposed = file, names, frozenset(transposed)

    def __getitem__(self, name: str) -> Any:
        array = self._file[self._names[name]]
        return np.transpose(array) if name in self._transposed else array

    def __iter__(self) -> Any:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _named(file: Any, path: Path) -> Mapping[str, Any]:
    """The file's arrays under today's names, without what is no weight."""
    if not isinstance(file, Mapping) or not all(hasattr(array, "shape") for array in file.values()):
        raise ValueError(
            f"bert.from_pretrained: {path}: the weights are no {{name: array}}; expected a model's state_dict, got "
            f"{type(file).__name__}. Save the state_dict alone."
        )
    if is_google(file):
        names = from_google(file)
        return _Renamed(
            file, {ours: theirs for ours, (theirs, _) in names.items()}, (o for o, (_, t) in names.items() if t)
        )
    today = lambda name: re.sub(r"\.beta$", ".bias", re.sub(r"\.gamma$", ".weight", name))
    return _Renamed(file, {today(name): name for name in file if not _BUFFERS.search(name)})


def _chosen(file: Mapping[str, Any], patterns: str | Iterable[str]) -> tuple[Mapping[str, Any], int]:
    """(the file with some of its layers, numbered anew; how many they are)."""
    layer = re.compile(r"^((?:bert\.)?)(encoder\.layer\.\d+)(?=\.)")
    found = {name: match for name in file if (match := layer.match(name))}
    there = sorted({match[2] for match in found.values()}, key=lambda name: int(name.rsplit(".", 1)[1]))
    chosen = tree.select(patterns, there, where="bert.from_pretrained")
    places = {name: f"encoder.layer.{place}" for place, name in enumerate(chosen)}
    names = {}
    for name in file:
        if name not in found:
            names[name] = name
        elif found[name][2] in places:
            names[found[name][1] + places[found[name][2]] + name[found[name].end() :]] = name
    return _Renamed(file, names), len(chosen)


def _prefixed(file: Mapping[str, Any], model: nn.Module) -> Mapping[str, Any]:
    """The file's arrays under the model's names: the encoder's prefix dropped or added."""
    file_has = any(name.startswith(_PREFIX) for name in file)
    model_has = any(name.startswith(_PREFIX) for name, _ in model.named_parameters())
    if file_has and not model_has:
        return _Renamed(file, {name.removeprefix(_PREFIX): name for name in file})
    if model_has and not file_has:
        return _Renamed(file, {_PREFIX + name if name.startswith(_ENCODER) else name: name for name in file})
    return file


def _started_here(path: Path, model: nn.Module, file: Mapping[str, Any], found: Any, replaced: bool) -> list[str]:
    """The names of the heads that start anew; an error that lists all that is wrong, if anything is.

    A head starts anew if the file has none of it, or one of another shape and the caller gave the config (`replaced`).
    """
    shapes = {entry.name: entry.leaf.shape for entry in entries_of(model)}
    firsts = {(entry.home, entry.layer): entry.name for entry in reversed([*entries_of(model)])}.values()
    new = set(found.missing)
    for head in {_head(name) for name in found.missing} | ({_head(n) for n in found.mis_shaped} if replaced else set()):
        whole = {name for name in firsts if head and name.startswith(head)}
        if whole & set(found.mis_shaped) and replaced:
            new |= whole
        elif head is None or whole - set(found.missing):
            new -= {name for name in found.missing if _head(name) == head}
    lines = [f"missing: {name}" for name in found.missing if name not in new]
    for name in found.mis_shaped:
        if name not in new:
            lines.append(f"mis-shaped: {name} expected {shapes[name]}, got {tuple(file[name].shape)}")
    if lines:
        raise ValueError(
            f"bert.from_pretrained: {path}: the weights are not those of this {type(model).__name__}.\n  "
            + "\n  ".join(lines)
            + "\n  Take the weights that belong to the config, or give the config that fits: config=."
        )
    return [name for name in shapes if name in new]


def _head(name: str) -> str | None:
    return next((head for head in _HEADS if name.startswith(head)), None)


def _tell(path: Path, model: nn.Module, file: Mapping[str, Any], new: list[str], unexpected: list[str]) -> None:
    """One warning with everything that a reader of the numbers has to know."""
    lines = []
    if new:
        why = lambda name: f" (the file's is {tuple(file[name].shape)})" if name in file else ""
        shown = ", ".join(f"{name}{why(name)}" for name in new)
        lines.append(f"{type(model).__name__} starts with new weights, and has to be trained, in {shown}.")
    left = [name for name in unexpected if _head(name) is None]
    if left:
        more = f" and {len(left) - 12} more" if len(left) > 12 else ""
        lines.append(f"The file holds what the model has not, which was passed over: {', '.join(left[:12])}{more}.")
    if lines:
        warnings.warn(f"bert.from_pretrained: {path}: {' '.join(lines)}", stacklevel=3)


def _require_vocabulary(path: Path, rows: int) -> None:
    """Refuses a `vocab.txt` beside the weights that names more tokens than there are vectors."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        count = sum(1 for _ in file)
    if count > rows:
        raise ValueError(
            f"bert.from_pretrained: {path}: line {rows + 1}: the vocabulary is larger than the model's word table; "
            f"expected at most {rows} tokens, got {count}. Put the vocabulary there that the model knows."
        )
