"""What a BERT is made of: `BertConfig`, with Hugging Face's field names, and the sizes that Google published."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

__all__ = ["PRESETS", "BertConfig"]

# layers, width, heads; the intermediate layer is four times as wide.
# Turc et al. 2019 (tiny to medium), Devlin et al. 2018 (base, large).
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

# Options of Hugging Face's BertConfig that change the computation, with the one value that is ours.
_REQUIRED = MappingProxyType({"is_decoder": False, "add_cross_attention": False, "tie_word_embeddings": True})


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The sizes and options of a BERT. Frozen: change it by `dataclasses.replace(config, …)`.

    Args:
        vocab_size: rows of the word table.
        hidden_size: width, a multiple of `num_attention_heads`.
        num_hidden_layers: layers of the encoder, at least 1.
        num_attention_heads: heads.
        intermediate_size: width between the two dense layers of a block.
        hidden_act: "gelu" (exact), "gelu_new" (its tanh approximation), "relu", "silu", "tanh", … (see `activation`).
        hidden_dropout_prob: of the embeddings and of both outputs in a block.
        attention_probs_dropout_prob: of the attention weights.
        max_position_embeddings: the longest sequence.
        type_vocab_size: rows of the token type table.
        initializer_range: standard deviation of the start; truncated at two of them.
        layer_norm_eps: of every LayerNorm.
        pad_token_id: the row of the word table that starts at zero and that looking up never moves; None: no such row.
        position_embedding_type: "absolute", the only one here.
        scan_layers: not Hugging Face's: run the layers by `lax.scan`, so that compile time does not grow with them,
            at the cost of a slower step (see `nn.Repeat`).

    Raises:
        ValueError: sizes that do not fit each other, or an option that is not here.

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
    scan_layers: bool = False

    def __post_init__(self) -> None:
        for name in (
            *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
            *("max_position_embeddings", "type_vocab_size"),
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"BertConfig: {name} is too small; expected at least 1, got {getattr(self, name)}.")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                "BertConfig: the heads do not divide the width; expected hidden_size to be a multiple of "
                f"num_attention_heads, got {self.hidden_size} and {self.num_attention_heads}. Change one of them."
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(
                    f"BertConfig: {name} is a probability; expected 0 to 1, got {getattr(self, name)}. Change it."
                )
        if self.pad_token_id is not None and not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(
                "BertConfig: pad_token_id is no row of the word table; expected 0 to vocab_size - 1 = "
                f"{self.vocab_size - 1}, or None, got {self.pad_token_id}. Change it."
            )
        if self.position_embedding_type != "absolute":
            raise ValueError(
                "BertConfig: position_embedding_type is not supported; expected 'absolute', got "
                f"{self.position_embedding_type!r}. Use a model with absolute positions."
            )

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "BertConfig":
        """One of the published sizes, with any field changed.

        Args:
            name: "tiny", "mini", "small", "medium", "base" or "large".
            **changes: fields to set.

        Raises:
            ValueError: another name.

        >>> BertConfig.preset("tiny", scan_layers=True).intermediate_size
        512
        """
        if name not in PRESETS:
            raise ValueError(
                f"BertConfig.preset: there is no such size; expected one of {', '.join(PRESETS)}, got {name!r}. "
                "Name one of them, or give BertConfig the sizes."
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
    def from_dict(cls, values: Mapping[str, Any]) -> "BertConfig":
        """The config that a `config.json` holds; what does not describe the model's computation is passed over.

        Raises:
            ValueError: another model's config, or a BERT with parts that are not here (decoder, untied embeddings).

        >>> BertConfig.from_dict({"model_type": "bert", "hidden_size": 24, "use_cache": True}).hidden_size
        24
        """
        kind = values.get("model_type", "bert")
        if kind != "bert":
            raise ValueError(
                f"BertConfig: this is another model's config; expected model_type 'bert', got {kind!r}. "
                "Name a directory that holds a BERT."
            )
        for name, value in _REQUIRED.items():
            if values.get(name, value) != value:
                raise ValueError(
                    f"BertConfig: {name} is not supported; expected {value}, got {values[name]}. "
                    "Only the tied encoder of BERT is here."
                )
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})

    def to_dict(self, architecture: str | None = None) -> dict[str, Any]:
        """What `config.json` holds: transformers opens it.

        Args:
            architecture: the class whose weights lie beside it, such as "BertForPreTraining".

        >>> BertConfig().to_dict("BertModel")["architectures"]
        ['BertModel']
        """
        head = {"architectures": [architecture]} if architecture else {}
        return {**head, "model_type": "bert", **dataclasses.asdict(self)}

    @classmethod
    def load(cls, path: str | Path) -> "BertConfig":
        """The config in the file `path`, or in `config.json` of the directory `path`.

        Raises:
            FileNotFoundError: there is none.
            ValueError: it is no JSON object, or not one of a BERT that is here.
        """
        path = Path(path)
        file = path / "config.json" if path.is_dir() else path
        if not file.is_file():
            raise FileNotFoundError(
                f"BertConfig.load: {file} is not there; expected a directory with a model, got none. Check the path."
            )
        try:
            values = json.loads(file.read_text("utf-8"))
        except ValueError as error:
            raise ValueError(
                f"BertConfig.load: {file} is no JSON; expected an object, got '{error}'. Write it again."
            ) from None
        if not isinstance(values, dict):
            raise ValueError(
                f"BertConfig.load: {file}: expected a JSON object, got {type(values).__name__}. Write it again."
            )
        return cls.from_dict(values)
