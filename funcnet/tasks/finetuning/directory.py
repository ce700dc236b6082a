"""Directory of a fine-tuned model: Hugging Face's files, and `finetuning.json` with additional settings."""

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import jax
from tokenizers import Tokenizer

from funcnet import text
from funcnet.files import read_json
from funcnet.heads import TRAINED, TrainedHead, open_head, write_settings
from funcnet.models import bert
from funcnet.models.integers import open_bert
from funcnet.parallel import Layout

__all__ = ["FineTuned", "load", "save", "start"]


@dataclasses.dataclass(frozen=True)
class FineTuned:
    """The contents of a fine-tuned model's directory."""

    head: TrainedHead
    tokenizer: Tokenizer
    net: Any
    params: Any
    state: Any
    seq_len: int


def start(
    directory: Path,
    head: TrainedHead,
    *,
    dropout: float | None = None,
    seed: int = 0,
    layout: Layout | None = None,
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return the model to fine-tune as (net, params, state), with unstacked layers.

    The encoder is read from `directory`. If the directory has weights for a head of this shape, these weights are read
    too. Otherwise, the head gets new weights, and a message is printed. `dropout=None` keeps the dropout of the config.
    `seed` is the seed of a new head. With a `layout`, each device reads only its part of the arrays.
    """
    changes = {**head.config(), "scan_layers": False}
    if dropout is not None:
        changes |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    config = dataclasses.replace(bert.BertConfig.load(directory), **changes)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        model = bert.from_pretrained(
            directory, bert.ARCHITECTURES[head.architecture], config=config, key=jax.random.key(seed), layout=layout
        )
    for warning in found:
        print(warning.message)
    return model


def save(directory: Path, model: FineTuned) -> None:
    """Write all files of a model. `load` can open the directory. The class of the same name in transformers can open it
    too.
    """
    bert.save_pretrained(directory, model.net, model.params, model.state)
    text.save_tokenizer(model.tokenizer, directory, max_length=model.seq_len)
    write_settings(directory, model.head, model.seq_len)


def load(directory: str | Path) -> FineTuned:
    """Open a directory written by `save` or by `funcnet quantize`, or a Hugging Face directory with a fine-tuned BERT.

    Args:
        directory: directory of the model. Without `finetuning.json`, the architecture in config.json selects the head.

    Raises:
        FileNotFoundError: if the directory is missing.
        ValueError: if `directory` is a file, if the model is not a fine-tuned BERT, or if the files in the directory
            contradict each other.
    """
    directory = Path(directory)
    if directory.is_file():
        raise ValueError(
            f"finetuning.load: {directory} is a file; expected the directory of a model. Pass the directory first, and "
            "then the file of texts."
        )
    config = bert.BertConfig.load(directory)
    name, *_ = (read_json(directory / "config.json") or {}).get("architectures") or ["none"]
    known = dict.fromkeys(head.architecture for head in TRAINED)
    if name not in known:
        raise ValueError(
            f"finetuning.load: {directory} is not a fine-tuned BERT model; expected one of the architectures "
            f"{', '.join(known)}, got {name}. Fine-tune the model with `funcnet finetune`."
        )
    head, tokenizer, seq_len = open_head(directory, config, None, "finetuning.load", heads=TRAINED)
    net, params, state = open_bert(directory, name, "finetuning.load")
    return FineTuned(head, tokenizer, net, params, state, seq_len)
