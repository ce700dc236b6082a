"""Loading and saving of models: directories with a config and weights, in the format of Hugging Face or Google."""

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
from funcnet.models.bert.google_names import from_google, is_google
from funcnet.models.bert.modeling import BertModel
from funcnet.models.bert.pretraining_heads import BertPredictionHeadTransform
from funcnet.models.bert.vocabulary_padding import unpad_vocab
from funcnet.models.loading import Naming, choose_layers, fill, read_arrays
from funcnet.nn.state_dict.state_dict import entries_of
from funcnet.parallel import Layout
from funcnet.quantization import refuse_int8
from funcnet.tree import Tree

__all__ = ["NAMING", "from_pretrained", "save_pretrained"]


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
"""The names of the arrays in checkpoints of Hugging Face's BERT, of any version, and of Google's BERT."""

# {class: (attribute that holds the activation, name of the expected activation, or None for `config.hidden_act`)}.
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
    layout: Layout | None = None,
) -> tuple[Any, Tree, Tree]:
    """Load any BERT checkpoint into any of the models.

    Names in the file may or may not begin with `bert.`, and may end in `gamma` and `beta` instead of `weight` and
    `bias`. A head that is in the file but not in the model is ignored. A head or pooler that is missing from the file
    gets new weights from `init`, and a warning names it.

    Args:
        path: a directory or a TensorFlow checkpoint. A directory must contain `config.json` and weights
            (`model.safetensors`, `pytorch_model.bin`, or the index of several files), or Google's `bert_config.json`
            and `bert_model.ckpt.*`. Pass the path of a TensorFlow checkpoint without the suffix `.index`. Its
            `bert_config.json` must be in the same folder.
        cls: class of the model, such as `BertForSequenceClassification`. Its constructor must accept a `BertConfig` as
            the only argument.
        config: config to use instead of the one in the file, such as `dataclasses.replace(BertConfig.load(path),
            num_labels=5)`. A head whose shape in the file is different then gets new weights, as a missing head does.
        layers: patterns that select layers of the file by name ("encoder.layer.0", …; see `funcnet.tree`). The layers
            keep the order of the file. For example, `[f"encoder.layer.{i}" for i in range(6)]` selects the first six.
            None means all layers.
        key: random key for new weights. None means `jax.random.key(0)`.
        new_heads: if True, a head that is missing from the file gets new weights. If False, a missing head is an error,
            which is useful for a model that is not trained further.
        layout: layout from `parallel.make_layout`, for a model that is larger than the memory of a device. Each device
            then reads only its part of the file; see `models.loading.load`.

    Returns:
        (model, params, state): the model and its arrays, in float32.

    Raises:
        FileNotFoundError: if one of the files does not exist.
        ValueError: if a file is damaged, the config is not supported, or a pattern matches no layer. The error is also
            raised if arrays of the encoder are missing or have the wrong shape (the message lists all of them). The
            error is also raised if a head is incomplete, or is missing although `new_heads` is False. The error is also
            raised if `vocab.txt` has more lines than the word table has rows.

    Warns:
        UserWarning: if weights are missing from the file and are newly initialised, or the file has weights that no
            BERT model has. One message lists all of them. Other warnings name weights that are NaN or infinite, and
            tied weights that differ in the file. Of these, the word table and `cls.predictions.bias` are used, as in
            transformers.

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
            f"bert.from_pretrained: {path} is missing; expected a directory with {_CONFIG} and {_WEIGHTS}."
        )
    refuse_int8(folder, "bert.from_pretrained")
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
    options: dict[str, Any] = {"new_heads": new_heads, "reshape_heads": is_replaced, "layout": layout}
    return model, *fill(model, arrays, NAMING, where, key=key, **options)


def save_pretrained(
    path: str | Path, model: nn.Module, params: Tree, state: Tree, *, max_shard_size: int | None = None
) -> None:
    """Save a model as a directory that `from_pretrained` and the class of the same name in transformers can load.

    Args:
        path: the directory, which is created if it does not exist. The config file and the weights file are each
            replaced atomically.
        model: a model with a `config`.
        params, state: the arrays of the model. Shared weights are written once, under their first name, as in Hugging
            Face's files. Rows that `pad_vocab` added are not written.
        max_shard_size: maximum size of a weights file, in bytes. None means one file. See `weights.save`.

    Raises:
        OSError: if the directory cannot be written. A file that cannot be written is left unchanged.
        ValueError: if the config no longer describes the model, because its layers or an activation were changed.

    Example:
        >>> import tempfile
        >>> from funcnet.models import bert
        >>> model = bert.BertModel(bert.BertConfig.preset("tiny", vocab_size=100))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bert.save_pretrained(folder, model, *model.init(jax.random.key(0)))
        ...     sorted(file.name for file in Path(folder).iterdir())
        ['config.json', 'model.safetensors']

    Reference: transformers.PreTrainedModel.save_pretrained
    """
    path = Path(path)
    config: BertConfig = model.config
    _require_described(model, config)
    path.mkdir(parents=True, exist_ok=True)
    (path / DIGESTS).unlink(missing_ok=True)  # the digests of a model that an earlier run wrote
    leaves = {entry.name: (entry.home, entry.layer) for entry in entries_of(model)}
    once: dict[Any, tuple[str, Any]] = {}  # keyed by leaf, because two different leaves may hold the same array
    for name, array in model.state_dict(params, state).items():
        once.setdefault(leaves.get(name, name), (name, array))
    arrays = dict(once.values())
    if config.vocab_padding:
        arrays, config = unpad_vocab(arrays, config)
    weights.save(path / _WEIGHTS, arrays, max_shard_size=max_shard_size)
    write_json(path / _CONFIG, config.to_dict(type(model).__name__))


def _require_described(model: nn.Module, config: BertConfig) -> None:
    """Raise ValueError for a model whose layers or activations were changed after the model was made from its
    config.
    """
    fits = "a config that describes it: `model.config = dataclasses.replace(model.config,"
    for path, module in model.named_modules():
        if isinstance(module, BertEncoder) and len(module.layer) != config.num_hidden_layers:
            raise ValueError(
                f"bert.save_pretrained: {path}.layer does not match the config; expected num_hidden_layers = "
                f"{config.num_hidden_layers}, got {len(module.layer)}. Select layers with `from_pretrained(…, "
                f"layers=…)`, or give the model {fits} num_hidden_layers={len(module.layer)})`."
            )
        if type(module) not in _PLACES:
            continue
        name, always = _PLACES[type(module)]
        function, wanted = getattr(module, name), always or config.hidden_act
        if not computes(function, wanted):
            advice = f"Give the model {fits} hidden_act=…)`" if always is None else "Restore that function"
            raise ValueError(
                f"bert.save_pretrained: {path}.{name} does not match the config; expected {wanted}, got "
                f"{called(function)}. {advice}, because the files cannot store another function."
            )


def _require_vocabulary(path: Path, rows: int) -> None:
    """Raise ValueError if `vocab.txt` in the directory has more tokens than the word table has rows."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        count = sum(1 for _ in file)
    if count > rows:
        raise ValueError(
            f"bert.from_pretrained: {path}, line {rows + 1}: the vocabulary is larger than the model's word table; "
            f"expected at most {rows} tokens, got {count}. Use the vocabulary that the model was trained with."
        )
