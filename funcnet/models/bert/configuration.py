"""The configuration of a BERT: `BertConfig`, with Hugging Face's field names, and the sizes that Google published."""

import dataclasses
import math
import numbers
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from funcnet.files import parse_json
from funcnet.models.bert.activation import activation

__all__ = ["PRESETS", "BertConfig"]

PRESETS: Mapping[str, tuple[int, int, int]] = MappingProxyType(
    {
        "tiny": (2, 128, 2),
        "mini": (4, 256, 4),
        "small": (4, 512, 8),
        "medium": (8, 512, 8),
        "base": (12, 768, 12),
        "large": (24, 1024, 16),
    }
)
"""{name: (layers, width, heads)}; the intermediate layer is four times as wide. Turc et al. 2019 (tiny to medium),
Devlin et al. 2018 (base, large).
"""

# Options of Hugging Face's BertConfig that change the computation, with the only value that is supported here.
_REQUIRED: Mapping[str, Any] = MappingProxyType(
    {
        "is_decoder": False,
        "add_cross_attention": False,
        "is_encoder_decoder": False,
        "tie_encoder_decoder": False,
        "tie_word_embeddings": True,
        "pruned_heads": {},
        "quantization_config": None,
    }
)
# Options that do not change the computation of an encoder that returns tuples.
_PASSED_OVER = frozenset(
    """
    model_type architectures auto_map transformers_version torch_dtype dtype _name_or_path _commit_hash
    attn_implementation _attn_implementation _attn_implementation_autoset _attn_implementation_internal num_labels
    label2id use_cache gradient_checkpointing chunk_size_feed_forward output_attentions output_hidden_states return_dict
    use_return_dict torchscript use_bfloat16 tf_legacy_loss finetuning_task task_specific_params tokenizer_class prefix
    bos_token_id eos_token_id sep_token_id cls_token_id mask_token_id unk_token_id decoder_start_token_id
    cross_attention_hidden_size directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers
    pooler_size_per_head pooler_type output_past
    max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p
    typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids
    num_return_sequences output_scores return_dict_in_generate forced_bos_token_id forced_eos_token_id
    remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens
    """.split()  # noqa: SIM905
)
_CHOICES: Mapping[str, tuple[str | None, ...]] = MappingProxyType(
    {
        "position_embedding_type": ("absolute", "relative_key", "relative_key_query"),
        "problem_type": (None, "regression", "single_label_classification", "multi_label_classification"),
    }
)
# {declared type of a field: (types of the values that it accepts, their name in messages)}.
_KINDS: Mapping[Any, tuple[type | tuple[type, ...], str]] = MappingProxyType(
    {
        int: (numbers.Integral, "an integer"),
        int | None: ((numbers.Integral, type(None)), "an integer or None"),
        float: (numbers.Real, "a number"),
        float | None: ((numbers.Real, type(None)), "a number or None"),
        str: (str, "a string"),
        str | None: ((str, type(None)), "a string or None"),
        bool: (bool, "True or False"),
        Mapping[int, str]: (Mapping, "a dict of labels and their names"),
    }
)


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The sizes and options of a BERT. A config is frozen; `dataclasses.replace(config, …)` makes a changed copy.

    Args:
        vocab_size: number of tokens in the vocabulary. The word table has `vocab_size + vocab_padding` rows.
        hidden_size: width of the hidden states, a multiple of `num_attention_heads`.
        num_hidden_layers: number of layers of the encoder, at least 1.
        num_attention_heads: number of attention heads.
        intermediate_size: width between the two dense layers of a block.
        hidden_act: "gelu" (exact), "gelu_new" (its tanh approximation), "relu", "silu", "tanh", … (see `activation`).
        hidden_dropout_prob: dropout probability of the embeddings, and of the two outputs (attention and dense) in a
            block.
        attention_probs_dropout_prob: dropout probability of the attention weights.
        max_position_embeddings: maximum length of a sequence, in tokens.
        type_vocab_size: number of rows of the token type table.
        initializer_range: standard deviation of the initial weights, which are truncated at two standard deviations.
        layer_norm_eps: number that every LayerNorm adds to the variance.
        pad_token_id: row of the word table that is initially zero and gets no gradient from lookups. None means that
            there is no such row.
        position_embedding_type: "absolute" adds an embedding of the position to that of the word. "relative_key" and
            "relative_key_query" use the distance between tokens in the attention instead (see `BertSelfAttention`).
        classifier_dropout: dropout probability before the last layer of the heads for fine-tuning. None means
            hidden_dropout_prob.
        num_labels: number of labels of the heads that classify sequences and tokens.
        id2label: {label: name}, with one entry per label. If it is empty, the names are "LABEL_0", "LABEL_1", ….
        problem_type: "regression", "single_label_classification" or "multi_label_classification". With None,
            `num_labels` and the dtype of the labels determine the type (see `losses.sequence_classification`).
        vocab_padding: number of rows that `pad_vocab` has added to the word table. These rows follow the rows of the
            `vocab_size` tokens, and belong to no token. Hugging Face does not have this field.
        scan_layers: if True, run the layers in `lax.scan`. The compile time then does not grow with the number of
            layers, but a step is slower (see `nn.Repeat`). Hugging Face does not have this field.
        attention_block_size: number of queries and keys whose scores the attention computes at a time, which saves
            memory for long sequences. None stores all scores. Hugging Face does not have this field.
        context_parallel: how devices exchange keys and values on a mesh that splits the sequence (axis `context`).
            "ring" sends them from device to device, "gather" collects all of them on each device. Hugging Face does not
            have this field.

    Raises:
        ValueError: if sizes contradict each other, or an option is not supported.
        TypeError: if a field has the wrong type.

    Example:
        >>> BertConfig.preset("mini", vocab_size=8192).hidden_size
        256

    Reference: transformers.BertConfig; Devlin et al. 2018, arXiv:1810.04805
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    position_embedding_type: str = "absolute"
    classifier_dropout: float | None = None
    num_labels: int = 2
    id2label: Mapping[int, str] = dataclasses.field(default_factory=dict, hash=False)
    problem_type: str | None = None
    vocab_padding: int = 0
    scan_layers: bool = False
    attention_block_size: int | None = None
    context_parallel: str = "ring"

    def __post_init__(self) -> None:
        _check_kinds(self)
        for name in (
            *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
            *("max_position_embeddings", "type_vocab_size", "num_labels"),
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"BertConfig: {name} is too small; expected at least 1, got {getattr(self, name)}.")
        if self.attention_block_size is not None and self.attention_block_size < 1:
            raise ValueError(
                f"BertConfig: attention_block_size is too small; expected at least 1, or None, got "
                f"{self.attention_block_size}."
            )
        if self.context_parallel not in ("ring", "gather"):
            raise ValueError(
                f"BertConfig: unknown context_parallel; expected 'ring' or 'gather', got {self.context_parallel!r}."
            )
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                "BertConfig: hidden_size is not divisible by num_attention_heads; expected a multiple of "
                f"num_attention_heads = {self.num_attention_heads}, got {self.hidden_size}."
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
            if getattr(self, name) is not None and not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"BertConfig: {name} is out of range; expected 0 to 1, got {getattr(self, name)}.")
        for name in ("initializer_range", "layer_norm_eps", "vocab_padding"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"BertConfig: {name} is out of range; expected 0 or more, got {getattr(self, name)}.")
        if self.pad_token_id is not None and not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(
                "BertConfig: pad_token_id is out of range; expected 0 to vocab_size - 1 = "
                f"{self.vocab_size - 1}, or None, got {self.pad_token_id}."
            )
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(
                    f"BertConfig: {name} is unknown; expected {' or '.join(map(repr, known))}, got "
                    f"{getattr(self, name)!r}."
                )
        activation(self.hidden_act)
        names = dict(self.id2label)
        if not names or (len(names) != self.num_labels and names == _generic(len(names))):
            names = _generic(self.num_labels)
        if sorted(names) != list(range(self.num_labels)):
            raise ValueError(
                f"BertConfig: id2label does not have one name per label; expected the keys 0 to num_labels - 1 = "
                f"{self.num_labels - 1}, got {', '.join(map(repr, names))}. Pass both fields."
            )
        object.__setattr__(self, "id2label", names)

    @property
    def label2id(self) -> dict[str, int]:
        """{name: label}, the inverse of `id2label`.

        >>> BertConfig(id2label={0: "ham", 1: "spam"}).label2id
        {'ham': 0, 'spam': 1}
        """
        return {name: label for label, name in self.id2label.items()}

    @property
    def gives_numbers(self) -> bool:
        """Whether a `BertForSequenceClassification` with this config predicts numbers (regression) and not classes.

        >>> BertConfig(num_labels=1).gives_numbers, BertConfig(num_labels=2).gives_numbers
        (True, False)
        """
        return self.problem_type == "regression" or (self.problem_type is None and self.num_labels == 1)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "BertConfig":
        """Return the config of one of the published sizes, in which any field can be changed.

        Args:
            name: "tiny", "mini", "small", "medium", "base" or "large".
            **changes: values for fields of the config.

        Raises:
            ValueError: if the name is unknown.

        >>> BertConfig.preset("tiny", scan_layers=True).intermediate_size
        512
        """
        if name not in PRESETS:
            raise ValueError(
                f"BertConfig.preset: unknown size; expected one of {', '.join(PRESETS)}, got {name!r}. "
                "For other sizes, use BertConfig itself."
            )
        layers, width, heads = PRESETS[name]
        sizes = {
            "num_hidden_layers": layers,
            "hidden_size": width,
            "num_attention_heads": heads,
            "intermediate_size": 4 * width,
        }
        return cls(**(sizes | changes))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], source: str = "the config") -> "BertConfig":
        """Return the config for the content of a `config.json`. Fields that do not describe the computation are
        ignored.

        Args:
            values: the fields of Hugging Face's `config.json` or of Google's `bert_config.json`.
            source: name of the source for warnings, such as the name of the file.

        Raises:
            ValueError: if the config belongs to another kind of model, or to a BERT with unsupported parts (a decoder,
                untied embeddings).
            TypeError: if a field has the wrong type.

        Warns:
            UserWarning: if there are fields that neither this class nor transformers' BERT has. They are ignored too.

        >>> BertConfig.from_dict({"model_type": "bert", "hidden_size": 24, "use_cache": True}).hidden_size
        24
        """
        kind = values.get("model_type", "bert")
        if kind != "bert":
            raise ValueError(
                f"BertConfig: the config belongs to another kind of model; expected model_type 'bert', got {kind!r}. "
                "Pass a directory that contains a BERT model."
            )
        for name, value in _REQUIRED.items():
            if values.get(name, value) not in (value, None):
                raise ValueError(
                    f"BertConfig: this value of {name} is not supported; expected {value}, got {values[name]}. "
                    "Only BERT's encoder with tied embeddings is supported."
                )
        named = values.get("architectures") or []
        if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
            raise TypeError(
                f"BertConfig: architectures has the wrong type; expected a list of strings, got {named!r:.80}."
            )
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = [name for name in values if name not in known | _PASSED_OVER | _REQUIRED.keys()]
        if unknown:
            warnings.warn(
                f"BertConfig: {source} has unknown fields, which are ignored; expected fields of BERT, got "
                f"{', '.join(unknown)}. If one of them affects what the original model computes, the outputs of "
                "this model will differ from the outputs of the original.",
                stacklevel=2,
            )
        fields = {name: value for name, value in values.items() if name in known}
        if "id2label" in values:
            fields["id2label"] = names = _label_names(values["id2label"])
            fields["num_labels"] = len(names) or fields.get("num_labels", 2)
        return cls(**fields)

    def to_dict(self, architecture: str | None = None) -> dict[str, Any]:
        """Return the content of `config.json` for this config, in the format that transformers reads.

        Args:
            architecture: name of the class of the model whose weights are in the same directory, such as
                "BertForPreTraining".

        >>> BertConfig().to_dict("BertModel")["architectures"]
        ['BertModel']
        """
        head = {"architectures": [architecture]} if architecture else {}
        fields = dataclasses.asdict(self)
        for name in ("num_labels", "vocab_padding", "attention_block_size", "context_parallel"):
            del fields[name]  # id2label implies num_labels; the others are settings of a single run
        return {**head, "model_type": "bert", **fields, "label2id": self.label2id}

    @classmethod
    def load(cls, path: str | Path) -> "BertConfig":
        """Load a config file, or the `config.json` or `bert_config.json` (Google's) in a directory.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if the file is not a JSON object, or not the config of a supported BERT. The message names the
                file.

        Warns:
            UserWarning: if the file has unknown fields. The message names the file.
        """
        path = Path(path)
        file = path / "config.json" if path.is_dir() else path
        google = path / "bert_config.json"
        if google.is_file() and not file.is_file():
            file = google
        if not file.is_file():
            raise FileNotFoundError(f"BertConfig.load: {file} is missing; expected a model directory with this file.")
        values = parse_json(file, "BertConfig.load")
        if not isinstance(values, dict):
            raise ValueError(
                f"BertConfig.load: {file} is invalid; expected a JSON object, got {type(values).__name__}."
            )
        try:
            return cls.from_dict(values, str(file))
        except (ValueError, TypeError) as error:
            raise ValueError(f"BertConfig.load: {file}: {error}") from None


def _check_kinds(config: BertConfig) -> None:
    for field in dataclasses.fields(config):
        value, (kind, said) = getattr(config, field.name), _KINDS[field.type]
        if not isinstance(value, kind) or (isinstance(value, bool) and field.type is not bool):
            raise TypeError(f"BertConfig: {field.name} has the wrong type; expected {said}, got {value!r:.80}.")
    for label, name in config.id2label.items():
        if not isinstance(label, numbers.Integral) or not isinstance(name, str):
            raise TypeError(
                f"BertConfig: id2label has the wrong type; expected integer labels with string names, got "
                f"{label!r}: {name!r:.60}."
            )


def _generic(count: int) -> dict[int, str]:
    """Return the default names of labels, as in transformers."""
    return {label: f"LABEL_{label}" for label in range(count)}


def _label_names(id2label: Mapping[Any, Any] | None) -> dict[int, Any]:
    """Convert the `id2label` of a file. The keys, which JSON stores as strings, become integers, and names that are
    numbers, such as 0 and 1, become strings.
    """
    try:
        names = {int(label): name for label, name in (id2label or {}).items()}
    except (AttributeError, ValueError):
        raise ValueError(
            f'BertConfig: id2label is not a dict of labels; expected {{"0": name, …}}, got {id2label!r:.80}.'
        ) from None
    return {label: name if isinstance(name, list | dict) else str(name) for label, name in names.items()}
