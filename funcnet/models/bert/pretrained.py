"""A model and its directory: `config.json` and the weights, in the layout of Hugging Face or Google."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax

from funcnet import nn, weights
from funcnet.files import DIGESTS, write_json
from funcnet.models.bert.activation import called, computes
from funcnet.models.bert.configuration import BertConfig
from funcnet.models.bert.encoder import BertEncoder, BertIntermediate, BertPooler
from funcnet.models.bert.google import from_google, is_google
from funcnet.models.bert.heads import BertPredictionHeadTransform
from funcnet.models.bert.modeling import BertModel
from funcnet.models.bert.vocabulary_padding import unpad_vocab
from funcnet.models.loading import Naming, choose_layers, fill, read_arrays
from funcnet.nn.core.state_dict import entries_of

__all__ = ["NAMING", "from_pretrained", "save_pretrained"]

Tree = dict[str, Any]

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
NAMING = Naming(
    prefix="bert.",
    encoder=("embeddings.", "encoder.", "pooler."),
    heads=("bert.pooler.", "pooler.", "cls.predictions.", "cls.seq_relationship.", "classifier.", "qa_outputs."),
    layers=r"encoder\.layer\.\d+",
    ignored=r"(^|\.)embeddings\.(position_ids|token_type_ids)$",  # buffers of older versions of transformers
    renamed=((r"\.gamma$", ".weight"), (r"\.beta$", ".bias")),
    foreign=lambda names: from_google(names) if is_google(names) else None,
)
"""Hugging Face's names, of every version, and Google's."""

# Where activations stand, and which; None: the config's.
_PLACES: Mapping[type, tuple[str, str | None]] = MappingProxyType(
    {
        BertIntermediate: ("intermediate_act_fn", None),
        BertPredictionHeadTransform: ("transform_act_fn", None),
        BertPooler: ("activation", "tanh"),
    }
)


def from_pretrained(
    path: str | Path,
    cls: Callable[[BertConfig], nn.Module] = BertModel,
    *,
    config: BertConfig | None = None,
    layers: str | Iterable[str] | None = None,
    key: jax.Array | None = None,
    new_heads: bool = True,
) -> tuple[Any, Tree, Tree]:
    """The model in a directory: any BERT checkpoint into any of the models.

    The file's names may have the prefix `bert.` or not, and end in `gamma` and `beta` instead of `weight` and `bias`.
    Heads that the model does not have are ignored. A head (or pooler) that the file lacks starts as `init` starts it,
    and a warning names it.

    Args:
        path: a directory with `config.json` and weights (`model.safetensors`, `pytorch_model.bin`, or the index of
            several); or with Google's `bert_config.json` and `bert_model.ckpt.*`; or the path of a TensorFlow
            checkpoint (without `.index`) beside its `bert_config.json`.
        cls: any class that is made from a `BertConfig` alone, such as `BertForSequenceClassification`.
        config: instead of the file's, such as `dataclasses.replace(BertConfig.load(path), num_labels=5)`. A head with
            another shape in the file then starts anew, like one that the file lacks.
        layers: which of the file's layers to use, by patterns over "encoder.layer.0", … (see `funcnet.tree`), in the
            file's order: `[f"encoder.layer.{i}" for i in range(6)]` is the lower half of twelve. None: all.
        key: for a head that starts anew; None: `jax.random.key(0)`.
        new_heads: whether a head that the file lacks starts anew; False (for a model that is not trained): an error.

    Returns:
        (model, params, state): the description and its arrays, float32.

    Raises:
        FileNotFoundError: one of the files is not there.
        ValueError: a broken file; an unsupported config; missing or mis-shaped tensors of the encoder, all of which are
            listed; half a head, or none if `new_heads` is False; a `vocab.txt` with more lines than the
            word table has rows; a pattern that matches no layer.

    Warns:
        UserWarning: one message with what starts anew, and what the file has that no BERT has.

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
            f"bert.from_pretrained: {path} is missing; expected a directory with {_CONFIG} and {_WEIGHTS}, got none."
        )
    asked = BertConfig.load(folder) if config is None else config
    _require_vocabulary(folder / "vocab.txt", asked.vocab_size)
    where = "bert.from_pretrained"
    arrays = read_arrays(path, NAMING, where)
    if layers is not None:
        arrays, count = choose_layers(arrays, layers, NAMING, where)
        asked = dataclasses.replace(asked, num_hidden_layers=count)
    model = cls(asked)
    is_replaced = config is not None
    where = f"{where}: {path}"
    return model, *fill(model, arrays, NAMING, where, key=key, new_heads=new_heads, reshape_heads=is_replaced)


def save_pretrained(
    path: str | Path, model: Any, params: Tree, state: Tree, *, max_shard_size: int | None = None
) -> None:
    """Writes the directory that `from_pretrained` and Hugging Face's class of the same name open.

    Args:
        path: the directory; it is made if it is missing. Each of the two files is replaced in one step.
        model: a description with a `config`.
        params, state: its arrays. Shared weights are written once, under their first name, as in Hugging Face's files;
            rows that `pad_vocab` added are not written.
        max_shard_size: in bytes; None: one file. See `weights.save`.

    Raises:
        OSError: the directory cannot be written; the file in question is unchanged.
        ValueError: the config is no longer the model's, because its layers or an activation were changed by hand.

    Reference: transformers.PreTrainedModel.save_pretrained
    """
    path = Path(path)
    config: BertConfig = model.config
    _require_described(model, config)
    path.mkdir(parents=True, exist_ok=True)
    (path / DIGESTS).unlink(missing_ok=True)  # of a model that a run wrote there before
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
    """Refuses a model that was changed by hand since it was made from its config."""
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
            advice = f"{fits} hidden_act=…)`" if always is None else "that function back"
            raise ValueError(
                f"bert.save_pretrained: {path}.{name} is not what the config says; expected {wanted}, got "
                f"{called(function)}. Give the model {advice}: a directory has no place for another one."
            )


def _require_vocabulary(path: Path, rows: int) -> None:
    """Refuses a `vocab.txt` beside the weights that names more tokens than there are vectors."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        count = sum(1 for _ in file)
    if count > rows:
        raise ValueError(
            f"bert.from_pretrained: {path}: line {rows + 1}: the vocabulary is larger than the model's word table; "
            f"expected at most {rows} tokens, got {count}. Use the vocabulary of the model."
        )
