"""The settings of `funcnet quantize`."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

from funcnet.settings import Range, check_ranges, with_helps
from funcnet.train.setting_groups import CheckpointSettings, DeviceSettings, LoopSettings, RunSettings

__all__ = ["QuantizationSettings"]


@with_helps
@dataclasses.dataclass(frozen=True)
class QuantizationSettings:
    """Turn a trained model into an int8 model, which is up to four times smaller.

    The command reads the settings and the data of the run in PATH. The command runs the model on training batches to
    find the range of each array (calibration), and converts weights and arithmetic to integers, with the results of
    LiteRT's integer kernels. With --steps, the model is first trained to tolerate the rounding (quantization-aware
    training): each step rounds weights and arrays as the int8 model will. Try without --steps first.

    At the end, the command evaluates both models on the data that the run held out, and prints their metrics and sizes,
    and the five layers that lose most. The command writes into --out: int8.json, the integers (model.safetensors, and
    length-T.safetensors for shorter rows, which share its weights), the other files of the model (config.json,
    tokenizer.json, …), ranges.png with the values and the ranges of the worst layers, and eval.json.
    `funcnet predict`, `evaluate` and `fill-mask` read this directory.

    A Hugging Face directory has no record of its data. Pass texts for the calibration with --texts. Such a model is
    neither trained nor evaluated.

    Exit codes: 0 finished; 2 an error in the arguments, the data or the files, reported in one line; 130 stopped by
    Ctrl-C; 143 stopped by SIGTERM. A stopped run saves a checkpoint, unless it stopped before its first step. Continue
    it with --resume.
    """

    directory: tyro.conf.Positional[Path]
    """Output directory of `funcnet pretrain`, `finetune` or `train-images`, or a Hugging Face directory with a BERT."""
    run: RunSettings
    steps: Annotated[int, Range(0)] = 0
    """Number of steps of quantization-aware training. With 0, the model is only calibrated and converted, which takes
    about a minute. A tenth of the steps of the run is usually enough."""
    learning_rate: Annotated[float, Range(0)] | None = None
    """Peak learning rate of the training. The learning rate rises over a tenth of the steps, and then falls to 0. The
    default is a tenth of the learning rate of the run. For a model of images, the default is 1e-4, because the run used
    SGD, not Adam.
    """
    calibration_batches: Annotated[int, Range(1)] = 8
    """Number of training batches for the calibration."""
    observer: Literal["min-max", "percentile", "mean-squared-error"] = "min-max"
    """How the calibration chooses the range of an array. "min-max" covers all values. "percentile" leaves out the
    lowest and the highest 0.01 %. "mean-squared-error" takes the range with the smallest error. The last two suit
    models with a few large outliers."""
    length: Annotated[tuple[int, ...], Range(8)] = ()
    """Row lengths, in tokens, for which a BERT is converted. A text is padded to the next length. By default, the
    lengths are those of 16, 32, 64, 128 and 256 that are below the row length in training. The row length in training
    is always added, because both models are evaluated on such rows. Each length adds about 0.2 MB, but no copy of the
    weights.
    """
    texts: Path | None = None
    """File of texts for the calibration of a Hugging Face directory, with one text per line."""
    loop: LoopSettings = LoopSettings(log_every=10)
    checkpoint: CheckpointSettings = CheckpointSettings()
    device: DeviceSettings = DeviceSettings()

    def check(self) -> None:
        """Check the settings before anything is read or written. The message of the `ValueError` names the flag."""
        check_ranges(self, "quantize")
        if not self.directory.is_dir():
            raise ValueError(f"quantize: {self.directory} is not a directory; expected the output of a run, got none.")
        out, directory = self.run.out.resolve(), self.directory.resolve()
        if out == directory or directory in out.parents:
            raise ValueError(
                f"quantize: --out {self.run.out} is inside the model's directory; expected another folder, got one in "
                f"{self.directory}."
            )
        if not self.run.resume and out.is_dir() and any(out.iterdir()):
            raise ValueError(
                f"quantize: --out {self.run.out} is not empty; expected a new or empty folder, got "
                f"{next(out.iterdir()).name} in it. Use another --out, or continue a stopped run with --resume."
            )
