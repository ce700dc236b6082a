"""A fine-tuned model's directory: Hugging Face's files, and `finetuning.json` with what they have no place for."""

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

__all__ = ["FineTuned", "load", "save", "start"]


@dataclasses.dataclass(frozen=True)
class FineTuned:
    """What a directory holds."""

    head: TrainedHead
    tokenizer: Tokenizer
    net: Any
    params: Any
    state: Any
    seq_len: int


def start(
    directory: Path, head: TrainedHead, *, dropout: float | None = None, seed: int = 0
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The model to fine-tune: the encoder in `directory`, with the head from there or a new one; a message names it.

    Args:
        directory: of any BERT.
        head: with its classes.
        dropout: of hidden states and attention; None: as the config there says.
        seed: of a new head.

    Returns:
        (net, params, state), layers unstacked.
    """
    changes = {**head.config(), "scan_layers": False}
    if dropout is not None:
        changes |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    config = dataclasses.replace(bert.BertConfig.load(directory), **changes)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", UserWarning)
        model = bert.from_pretrained(
            directory, bert.ARCHITECTURES[head.architecture], config=config, key=jax.random.key(seed)
        )
    for warning in found:
        print(warning.message)
    return model


def save(directory: Path, model: FineTuned) -> None:
    """Writes all files; `load` and Hugging Face's class of the same name open them.

    Raises:
        OSError: the directory cannot be written.
    """
    bert.save_pretrained(directory, model.net, model.params, model.state)
    text.save_tokenizer(model.tokenizer, directory, max_length=model.seq_len)
    write_settings(directory, model.head, model.seq_len)


def load(directory: str | Path) -> FineTuned:
    """Opens a directory of `save`, or one of Hugging Face with a fine-tuned BERT.

    Args:
        directory: without `finetuning.json` the architecture in config.json decides the head.

    Raises:
        FileNotFoundError: there is no such directory.
        ValueError: it is a file, it holds no fine-tuned BERT, or its files contradict each other.
    """
    directory = Path(directory)
    if directory.is_file():
        raise ValueError(
            f"finetuning.load: {directory}; expected the directory of a model, got a file. Name the directory first, "
            "then the file of texts."
        )
    config = bert.BertConfig.load(directory)
    name, *_ = (read_json(directory / "config.json") or {}).get("architectures") or ["none"]
    known = dict.fromkeys(head.architecture for head in TRAINED)
    if name not in known:
        raise ValueError(
            f"finetuning.load: {directory} holds no fine-tuned BERT; expected an architecture of {', '.join(known)}, "
            f"got {name}. Fine-tune it: `funcnet finetune`."
        )
    head, tokenizer, seq_len = open_head(directory, config, None, "finetuning.load", heads=TRAINED)
    net, params, state = bert.from_pretrained(directory, bert.ARCHITECTURES[name], new_heads=False)
    return FineTuned(head, tokenizer, net, params, state, seq_len)
