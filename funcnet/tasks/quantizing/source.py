"""Opens the model of a run together with the task of the run, which has the data, the loss and the metrics.

Letters: `B batch, T sequence, S masked positions per row, V vocabulary, C channels, H height, W width`.
"""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import weights
from funcnet.files import read_json
from funcnet.models import bert
from funcnet.models.integers import OUTPUTS
from funcnet.quantization import QuantizationAware, refuse_int8
from funcnet.settings import compose, flat, from_record, recorded
from funcnet.tasks.finetuning.settings import FinetuningSettings
from funcnet.tasks.finetuning.task import FinetuningTask
from funcnet.tasks.images.settings import ImageSettings
from funcnet.tasks.images.task import ImageTask
from funcnet.tasks.pretraining.settings import PretrainingSettings
from funcnet.tasks.pretraining.task import PretrainingTask
from funcnet.tasks.quantizing.settings import QuantizationSettings
from funcnet.tasks.quantizing.texts import TextsTask
from funcnet.train import Context, RunError, began_in, configuration
from funcnet.train.run_directory import check_facts
from funcnet.train.task_interface import Task
from funcnet.tree import PyTree

__all__ = ["LENGTHS", "MaskedWordsAware", "TrainedModel", "open_source"]

LENGTHS = (16, 32, 64, 128, 256)
TOKENS = ("input_ids", "attention_mask", "token_type_ids")


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A trained model, and the task of its run.

    Attributes:
        task: the task. Its attributes `net` and `layout` may be replaced, and `task.measure((params, state))` evaluates
            that net.
        net, params, state: the trained floating-point model.
        kind: name of the architecture of the model.
        inputs: names of the inputs of the int8 model.
        arguments: function of a batch that returns the arrays that `calibrate` takes.
        examples: {number of tokens, or 0: example inputs of one row}.
        learning_rate: default learning rate of quantization-aware training.
        aware: class that wraps the net for quantization-aware training.
    """

    task: Any
    net: Any
    params: Any
    state: Any
    kind: str
    inputs: tuple[str, ...]
    arguments: Callable[[Mapping[str, Any]], Any]
    examples: Mapping[int, tuple[np.ndarray, ...]]
    learning_rate: float
    aware: type[QuantizationAware] = QuantizationAware


class MaskedWordsAware(QuantizationAware):
    """The net of pretraining. The net scores all tokens, as the int8 model does, and returns only the scores of masked
    positions.

    Call: input_ids, attention_mask, token_type_ids (B, T) and masked_positions (B, S) -> logits (B, S, V) and (B, 2).
    """

    def forward(self, *inputs: PyTree, masked_positions: jax.Array, **named: PyTree) -> Any:
        words, follows = super().forward(*inputs, **named)
        return jnp.take_along_axis(words, masked_positions[:, :, None], axis=1), follows


def open_source(settings: QuantizationSettings, context: Context) -> TrainedModel:
    """Open the model in `settings.directory`, and the task of its run with the run's data.

    Raises:
        RunError: if the directory has neither a run nor a Hugging Face BERT, or the data of the run are missing or have
            changed. A directory without a run needs `settings.texts`, and does not allow `settings.steps`.
        ValueError: if the model cannot be quantized; see also `run_task`.
    """
    directory = settings.directory
    refuse_int8(directory, "quantize")
    config = configuration(directory)
    if config is None:
        return _texts(settings, context)
    if settings.texts is not None:
        raise ValueError(
            f"quantize: --texts is for a directory without a run; expected no texts, because {directory} has a run "
            f"with its own data, got {settings.texts}."
        )
    if "image_size" in config:
        return _images(directory, _settings(ImageSettings, settings, {**config, "local_statistics": False}), context)
    if "doc_stride" in config:
        changed = {"model": str(directory.resolve()), "seeds": 1, "dropout": None}
        return _finetuned(_settings(FinetuningSettings, settings, {**config, **changed}), settings, context)
    if "vocab_size" in config:
        changed = {"packed": False, "scan_layers": False, "attention_block_size": None}
        return _pretrained(_settings(PretrainingSettings, settings, {**config, **changed}), settings, context)
    raise ValueError(
        f"quantize: {directory} has the run of another command; expected one of pretrain, finetune and train-images, "
        f"got the settings {', '.join(list(config)[:5])}. For a net of your own, call funcnet.quantization in Python."
    )


def _settings(kind: type, settings: QuantizationSettings, config: Mapping[str, Any]) -> Any:
    """Return the settings of the run, but with the loop and device settings of this command.

    A recorded path that does not exist here is looked up in the folder in which the run started.

    Raises:
        RunError: if a path does not exist in either folder.
    """
    own = {**recorded(settings.loop), **recorded(settings.device)}
    found: Any = from_record(kind, {**config, **own}, out=settings.directory)
    began = Path(began_in(settings.directory) or ".")
    move = lambda path: path if path.exists() else began / path
    values = flat(found)
    for name, value in values.items():
        if isinstance(value, Path):
            values[name] = move(value)
        elif isinstance(value, tuple) and any(isinstance(one, Path) for one in value):
            values[name] = tuple(map(move, value))
        for path in [values[name]] if isinstance(values[name], Path) else []:
            if name != "out" and not path.exists():
                raise RunError(
                    f"quantize: {path} does not exist; expected the data of the run in {settings.directory}, got none. "
                    "Restore the files."
                )
    return compose(kind, **values)


def _checked(directory: Path, task: Task) -> None:
    """Raise RunError if the data have changed since the run."""
    for facts in task.facts:
        check_facts(directory, facts, task.sources, where="quantize")


def _images(directory: Path, settings: ImageSettings, context: Context) -> TrainedModel:
    task = ImageTask(settings, context)
    _checked(directory, task)
    params, state = task.net.load_state_dict(weights.load(directory / "model.safetensors"))
    data = task.data
    example = np.zeros((1, data.channels, *data.train[0]["image"].shape[1:]), np.float32)
    arguments = lambda batch: batch["image"]
    return TrainedModel(task, task.net, params, state, settings.model, ("images",), arguments, {0: (example,)}, 1e-4)


def _finetuned(settings: FinetuningSettings, own: QuantizationSettings, context: Context) -> TrainedModel:
    task = FinetuningTask(settings, context)
    _checked(own.directory, task)
    head = task.data.head
    if head.architecture not in OUTPUTS:
        raise ValueError(
            f"quantize: the task {head.name!r} has no int8 model; expected another task of funcnet finetune, got a "
            f"{head.architecture}."
        )
    params, state = task.init(settings.run.seed)
    net = task.net
    examples = _rows(own, settings.input.seq_len, net.config.max_position_embeddings)
    return TrainedModel(task, net, params, state, head.architecture, TOKENS, _tokens, examples, task.learning_rate / 10)


def _pretrained(settings: PretrainingSettings, own: QuantizationSettings, context: Context) -> TrainedModel:
    task = PretrainingTask(settings, context)
    _checked(own.directory, task)
    plain = dataclasses.replace(bert.BertConfig.load(own.directory), scan_layers=False, attention_block_size=None)
    net, params, state = bert.from_pretrained(own.directory, bert.BertForPreTraining, config=plain, new_heads=False)
    examples = _rows(own, task.data.train.seq_len, net.config.max_position_embeddings)
    rate = settings.optimizer.learning_rate / 10
    return TrainedModel(
        task, net, params, state, "BertForPreTraining", TOKENS, _tokens, examples, rate, MaskedWordsAware
    )


def _texts(settings: QuantizationSettings, context: Context) -> TrainedModel:
    """Open a Hugging Face directory without a run, with the texts of the settings for the calibration."""
    directory = settings.directory
    about = read_json(directory / "config.json")
    if not isinstance(about, dict):
        raise RunError(
            f"quantize: {directory} has no run; expected run.json, as funcnet pretrain, finetune and train-images "
            "write, or the files of a Hugging Face BERT, got neither."
        )
    if settings.texts is None or settings.steps:
        raise RunError(
            f"quantize: {directory} has no run, so its training data are unknown; expected --texts FILE, and no "
            f"--steps, got {'--steps ' + str(settings.steps) if settings.steps else 'no texts'}."
        )
    kind = (about.get("architectures") or ["BertModel"])[0]
    if kind not in OUTPUTS:
        raise ValueError(
            f"quantize: {directory} has an architecture without an int8 model; expected one of "
            f"{', '.join(OUTPUTS)}, got {kind}."
        )
    net, params, state = bert.from_pretrained(directory, bert.ARCHITECTURES[kind], new_heads=False)
    longest = net.config.max_position_embeddings
    examples = _rows(settings, max(settings.length, default=min(128, longest)), longest)
    task = TextsTask(directory, settings.texts, settings.loop.batch_size, max(examples), context)
    return TrainedModel(task, net, params, state, kind, TOKENS, _tokens, examples, 0.0)


def _tokens(batch: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(batch[name] for name in TOKENS)


def _rows(settings: QuantizationSettings, seq_len: int, longest: int) -> dict[int, tuple[np.ndarray, ...]]:
    """Return {number of tokens: inputs of an example row}, for the numbers in the settings and for `seq_len`."""
    shorter = settings.length or [one for one in LENGTHS if one < seq_len]
    lengths = sorted({*shorter, seq_len})  # both models are evaluated on rows of seq_len tokens
    if lengths[-1] > longest:
        raise ValueError(
            f"quantize: --length is out of range; expected 8 to {longest} (the size of the position table), got "
            f"{lengths[-1]}."
        )
    zeros = {length: np.zeros((1, length), np.int32) for length in lengths}
    return {length: (ids, ids + 1, ids) for length, ids in zeros.items()}
