"""Quantization as a task for `funcnet.train.run_task`: calibrate a model, train it with rounding, convert it to int8,
and compare both models.
"""

import dataclasses
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import jax
import numpy as np

from funcnet import optim
from funcnet.files import replacing
from funcnet.models.integers import OUTPUTS, IntegerModel
from funcnet.quantization import (
    Int8Model,
    LayerLosses,
    MeanSquaredErrorObserver,
    MinMaxObserver,
    PercentileObserver,
    QParams,
    QuantizedNet,
    calibrate,
    convert,
    layer_losses,
    open_int8,
    save_int8,
)
from funcnet.quantization.calibration import Observer, as_inputs
from funcnet.tasks.quantizing.settings import QuantizationSettings
from funcnet.tasks.quantizing.source import open_source
from funcnet.train import Cadence, Conclusion, Context, Ended, Panel, Task, TrainState, run_task
from funcnet.train.task_interface import layout_for
from funcnet.tree import Params, State

__all__ = ["QuantizationTask", "quantize_run"]

PICTURE = "ranges.png"
COMPARED = 8  # rows of the first batch with which the layers of both models are compared

# Files of a model besides its weights, which Hugging Face and the commands of funcnet read.
FILES = (
    "config.json",
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "finetuning.json",
    "images.json",
)


def quantize_run(settings: QuantizationSettings) -> int:
    """Run `funcnet quantize`, or resume its run.

    Args:
        settings: the settings of the command.

    Returns:
        The exit code; see `run_task`.

    Raises:
        ValueError: if a setting is wrong, or the model cannot be quantized; see also `run_task`.
    """
    settings.check()
    return run_task(QuantizationTask, settings, where="quantize")


class QuantizationTask(Task):
    """The task of an earlier run, but with a net that rounds as the int8 model will. Check the settings first."""

    checks_objective = False
    keeps_checkpoints = False
    buffers = "averaged"  # because each device observes the ranges of different rows

    def __init__(self, settings: QuantizationSettings, context: Context):
        self.settings, self.context = settings, context
        self.losses: LayerLosses | None = None  # until the model is saved
        self.source = source = open_source(settings, dataclasses.replace(context, reads_all=True))
        inner, checkpoint, steps = source.task, settings.checkpoint, settings.steps
        observers: dict[str, Observer] = {
            "min-max": MinMaxObserver(),
            "percentile": PercentileObserver(),
            "mean-squared-error": MeanSquaredErrorObserver(),
        }
        batches = islice(inner.batches(settings.run.seed)(0), settings.calibration_batches)
        print(f"Calibrating on {settings.calibration_batches} batches …", flush=True)
        ranges = calibrate(
            source.net, source.params, source.state, map(source.arguments, batches), observers[settings.observer]
        )
        self.aware = source.aware(source.net, ranges)
        inner.net = self.net = self.aware
        self.name = f"int8 {inner.name}"
        self.counts, self.size = inner.counts, inner.size  # type: ignore[method-assign]
        self.objective = inner.objective  # type: ignore[method-assign]
        self.unit, self.shown, self.evaluated = inner.unit, inner.shown, inner.evaluated
        self.sequences = inner.sequences
        self.facts, self.sources = inner.facts, inner.sources
        self.cadence = Cadence(steps, settings.loop.log_every, checkpoint.evaluate_every, checkpoint.save_every)
        self.keep, self.rewind_above = checkpoint.keep, checkpoint.rewind_above
        rate = source.learning_rate if settings.learning_rate is None else settings.learning_rate
        self.learning_rate = rate
        self.schedule = optim.warmup_linear_decay(rate, round(0.1 * steps), max(steps, 1))
        self.optimizer = optim.bert_adamw(self.schedule, weight_decay=0.0, no_decay=(), bias_correction=True)

    def init(self, seed: int) -> tuple[Any, Any]:
        _, buffers = jax.jit(self.aware.init)(jax.random.key(seed))
        own = {"net": self.source.state} if "net" in buffers else {}
        return {"net": self.source.params}, {**buffers, **own}

    def batches(self, seed: int) -> Callable[[int], Iterable[Any]]:
        return self.source.task.batches(seed)

    def evaluator(self) -> Callable[[TrainState], dict[str, float]] | None:
        self.source.task.layout = self.layout
        return self.source.task.evaluator()

    def save(self, folder: Path, params: Params, state: State) -> None:
        """Convert the floating-point net to an int8 model, and write it with the other files of the model."""
        source, ranges = self.source, self.aware.ranges(state)
        model = params["net"], state.get("net", {})
        print("Converting to int8 …", flush=True)
        nets = {n: convert(source.net, *model, ranges, example) for n, example in source.examples.items()}
        for file in (self.settings.directory / name for name in FILES):
            if file.exists():
                with replacing(folder / file.name) as part:
                    shutil.copyfile(file, part)
        print("Comparing the layers …", flush=True)
        self.losses = self._compared(model, ranges, nets)
        self.losses.draw(folder / PICTURE)
        # last, because a directory with int8.json is complete
        save_int8(folder, Int8Model(source.kind, source.inputs, tuple(OUTPUTS[source.kind]), nets))

    def _compared(
        self, model: tuple[Any, Any], ranges: Mapping[str, QParams], nets: Mapping[int, QuantizedNet]
    ) -> LayerLosses:
        """Compare the layers of both models on some rows of the first batch. Each of these rows is a separate batch."""
        source = self.source
        arrays = as_inputs(source.arguments(next(iter(self.batches(self.settings.run.seed)(0)))), "quantize")
        fitting, arrays = pad_rows(source.examples, arrays)
        rows = [tuple(array[n : n + 1] for array in arrays) for n in range(min(COMPARED, len(arrays[0])))]
        return layer_losses(source.net, *model, nets[fitting], rows, ranges)

    def conclude(self, ended: Ended) -> Conclusion | None:
        """Read the int8 model back from its files, and evaluate both models. Return None if a signal stopped the
        run.
        """
        source = self.source
        integers = IntegerModel(open_int8(ended.folder, "quantize"))
        models = {
            "float": (source.net, (source.params, source.state)),
            "int8": (integers, integers.init(jax.random.key(0))),
        }
        values: dict[str, Any] = {"steps": self.settings.steps}
        for name, (net, model) in models.items():
            print(f"Evaluating the {name} model …", flush=True)
            source.task.net = net
            whole = self.context.layout  # in which each device has the whole model; an int8 model is small
            source.task.layout = whole if net is integers else layout_for(source.task, whole)
            values[name] = source.task.measure(model)
            if self.context.stop.requested:
                return None
        arrays = jax.tree.leaves((source.params, source.state))  # the files may have any format
        values["float"]["bytes"] = sum(array.nbytes for array in arrays)
        values["int8"]["bytes"] = sum(file.stat().st_size for file in ended.folder.glob("*.safetensors"))
        title = f"{self.settings.directory.name} as int8"
        subtitle = f"{self.settings.steps:,} steps, learning rate {self.learning_rate:g}, {self.layout}"
        notes = comparison(values["float"], values["int8"])
        if self.losses is not None:
            worst = dataclasses.replace(self.losses, rows=self.losses.worst(5))
            notes += [f"The layers that lose most, whose values {PICTURE} shows:", *str(worst).splitlines()]
        return Conclusion(values, self._panels(ended), title, subtitle, notes)

    def _panels(self, ended: Ended) -> list[Panel]:
        """Return the plots of the training, or an empty list if there was no training."""
        if not ended.rows:
            return []
        evaluated = any("eval_loss" in row for row in ended.rows)
        curves = {"training": "loss"} | ({self.evaluated: "eval_loss"} if evaluated else {})
        rate = Panel("Learning rate", "", {"rate": "learning_rate"}, smooth=False, from_zero=True)
        return [Panel("Loss", "", curves), rate]


def pad_rows(
    examples: Mapping[int, tuple[np.ndarray, ...]], arrays: Sequence[np.ndarray]
) -> tuple[int, tuple[np.ndarray, ...]]:
    """Return the key of the net that can run a batch, and the arrays of the batch in the shapes and dtypes of this net.

    Training pads its rows to lengths that differ from those of the nets. Such rows are padded with zeros to the length
    of the next net, as `IntegerModel` does, or cut to the length of the longest net.

    Args:
        examples: `TrainedModel.examples`.
        arrays: inputs of the floating-point net, with any number of rows.

    Example:
        >>> ids = np.ones((2, 3), np.int32)
        >>> length, (padded,) = pad_rows({2: (ids[:1, :2],), 4: (np.ones((1, 4), np.int32),)}, [ids])
        >>> length, padded.tolist()
        (4, [[1, 1, 1, 0], [1, 1, 1, 0]])
    """
    if 0 in examples:  # images, which all have the same size
        fitting = 0
    else:
        count = arrays[0].shape[1]
        fitting = min((n for n in examples if n >= count), default=max(examples))
        arrays = [np.pad(array[:, :fitting], ((0, 0), (0, max(fitting - count, 0)))) for array in arrays]
    dtypes = [one.dtype for one in examples[fitting]]
    return fitting, tuple(array.astype(dtype) for array, dtype in zip(arrays, dtypes, strict=True))  # a mask is bool


def comparison(real: Mapping[str, float], integers: Mapping[str, float]) -> list[str]:
    """Return the lines of a table that compares the metrics of the floating-point and the int8 model.

    Example:
        >>> real, integers = {"accuracy": 0.97, "bytes": 4_000_000}, {"accuracy": 0.965, "bytes": 1_000_000}
        >>> print(*comparison(real, integers), sep="\\n")
        metric          float         int8
        accuracy       0.9700       0.9650
        bytes       4,000,000    1,000,000
    """
    width = max(map(len, ("metric", *real)))
    shown = lambda value: f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
    lines = [f"{'metric':{width}} {'float':>12} {'int8':>12}"]
    return lines + [f"{name:{width}} {shown(value):>12} {shown(integers[name]):>12}" for name, value in real.items()]
