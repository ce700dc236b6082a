"""A fine-tuned model's directory: Hugging Face's files, and `finetuning.json` with what they have no place for."""

import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
from tokenizers import Tokenizer

from funcnet import nn, text
from funcnet.files import read_json, write_json
from funcnet.models import bert
from funcnet.models.bert.inference import SETTINGS, read_settings
from funcnet.tasks.finetuning.answer_task import AnswerTask
from funcnet.tasks.finetuning.choice_task import ChoiceTask
from funcnet.tasks.finetuning.encoding import check_fit
from funcnet.tasks.finetuning.examples import Columns
from funcnet.tasks.finetuning.task import Task
from funcnet.tasks.finetuning.text_task import TextTask
from funcnet.tasks.finetuning.token_task import TokenTask

__all__ = ["FineTuned", "load", "save", "start"]

ARCHITECTURES = {
    "BertForSequenceClassification": TextTask,
    "BertForTokenClassification": TokenTask,
    "BertForMultipleChoice": ChoiceTask,
    "BertForQuestionAnswering": AnswerTask,
}


@dataclasses.dataclass(frozen=True)
class FineTuned:
    """What a directory holds."""

    task: Task
    tokenizer: Tokenizer
    net: nn.Module
    params: Any
    state: Any
    seq_len: int


def start(
    directory: Path, task: Task, *, dropout: float | None = None, seed: int = 0
) -> tuple[nn.Module, dict[str, Any], dict[str, Any]]:
    """The model to fine-tune: the encoder in `directory`, and the task's head as it is there or newly made (and told).

    Args:
        directory: of any BERT.
        task: with its classes.
        dropout: of hidden states and attention; None: as the config there says.
        seed: of a new head.

    Returns:
        (net, params, state), layers unstacked.
    """
    changes = {**task.config(), "scan_layers": False}
    if dropout is not None:
        changes |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    config = dataclasses.replace(bert.BertConfig.load(directory), **changes)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        found = bert.from_pretrained(directory, task.model, config=config, key=jax.random.key(seed))
    for warning in told:
        print(warning.message)
    return found


def save(directory: Path, model: FineTuned) -> None:
    """Writes all files; `load` and Hugging Face's class of the same name open them.

    Raises:
        OSError: the directory cannot be written.
    """
    bert.save_pretrained(directory, model.net, model.params, model.state)
    text.save_tokenizer(model.tokenizer, directory, max_length=model.seq_len)
    settings = dataclasses.asdict(model.task)  # type: ignore[call-overload]
    del settings["labels"]  # config.json has them
    write_json(directory / SETTINGS, {"seq_len": model.seq_len, **settings})


def load(directory: str | Path) -> FineTuned:
    """Opens a directory of `save`, or one of Hugging Face with a fine-tuned BERT.

    Args:
        directory: without `finetuning.json` the task is told by the architecture that config.json names.

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
    about = read_json(directory / "config.json") or {}
    told = read_settings(directory)
    names = about.get("architectures") or ["none"]
    if names[0] not in ARCHITECTURES:
        raise ValueError(
            f"finetuning.load: {directory} holds no fine-tuned BERT; expected an architecture of "
            f"{', '.join(ARCHITECTURES)}, got {names[0]}. Fine-tune it: `funcnet finetune`."
        )
    task = _task(names[0], config, told)
    tokenizer = text.load_tokenizer(directory)
    seq_len = int(told.get("seq_len", config.max_position_embeddings))
    check_fit(tokenizer, config.vocab_size, config.max_position_embeddings, seq_len, str(directory))
    net, params, state = bert.from_pretrained(directory, task.model, new_heads=False)
    return FineTuned(task, tokenizer, net, params, state, seq_len)


def _task(architecture: str, config: bert.BertConfig, told: Mapping[str, Any]) -> Task:
    kind = ARCHITECTURES[architecture]
    fields = {field.name for field in dataclasses.fields(kind)}
    settings: dict[str, Any] = {name: value for name, value in told.items() if name in fields}
    if "columns" in settings:
        try:
            settings["columns"] = Columns(**settings["columns"])
        except TypeError:
            names = ", ".join(field.name for field in dataclasses.fields(Columns))
            raise ValueError(
                f"finetuning.load: {SETTINGS}: columns; expected an object with {names}, got {settings['columns']!r}. "
                "Mend it."
            ) from None
    if kind is TextTask and not told:
        several = config.problem_type == "multi_label_classification"
        settings = {"name": "regress" if config.tells_numbers else "classify", "several": several}
    has_labels = kind is TokenTask or (kind is TextTask and not config.tells_numbers)
    labels = tuple(config.id2label[number] for number in range(config.num_labels)) if has_labels else ()
    return kind(**settings, labels=labels)  # type: ignore[arg-type, return-value]
