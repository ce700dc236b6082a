"""The settings of `funcnet train-images`."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

from funcnet.settings import Range, check_ranges, with_helps
from funcnet.train.setting_groups import CheckpointSettings, DeviceSettings, LoopSettings, RunSettings

__all__ = ["ImageSettings"]


@with_helps
@dataclasses.dataclass(frozen=True)
class ImageSettings:
    """Train a ResNet to classify images.

    Without --data, the command trains on scikit-learn's digits, which takes two minutes on two cores.

    The command writes into --out: model.safetensors with torchvision's names, images.json (the classes and the
    preparation of images), metrics.jsonl, eval.json (loss and accuracy on the test images), report.png, checkpoints/
    and tensorboard/.

    Exit codes: 0 finished; 2 an error in the arguments, the data or the files, reported in one line; 130 stopped by
    Ctrl-C; 143 stopped by SIGTERM. A stopped run has saved a checkpoint, unless it stopped before its first step.
    Continue it with --resume.
    """

    run: RunSettings
    data: Path | None = None
    """Folder with one subfolder of images per class. A fifth of the images is used for testing, unless the folder is
    divided into train/ and test/ (or val/), each with one subfolder per class. Hidden files and folders are left out.
    The folder may instead contain the four idx files of MNIST or Fashion-MNIST, compressed (.gz) or not. The default is
    scikit-learn's digits."""
    image_size: Annotated[int, Range(8)] = 64
    """Height and width to which image files are resized, in pixels. The digits and images in idx files keep their
    size."""
    model: Literal["resnet18", "resnet50"] = "resnet18"
    """Model to train. If images have at most 64 pixels per side, the first layers of the model are replaced by layers
    that suit small images."""
    local_statistics: bool = False
    """Compute BatchNorm statistics separately on each device, which requires --parallel shard_map or pmap. By default,
    they are computed over all devices."""
    local_buffers: Literal["averaged", "first"] = "averaged"
    """How --local-statistics makes the running statistics equal on all devices after each step. "averaged" takes the
    mean over the devices. "first" takes the values of the first device, as torch's DistributedDataParallel does."""
    steps: Annotated[int, Range(1)] = 120
    """Number of updates of the parameters. 120 updates are five passes over the digits."""
    learning_rate: Annotated[float, Range(0)] = 0.05
    """Peak learning rate of SGD with Nesterov momentum 0.9."""
    warmup: Annotated[float, Range(0, 1, below=True)] = 0.2
    """Fraction of the steps over which the learning rate rises from 0 to its peak. Afterwards, it falls linearly to
    0."""
    weight_decay: Annotated[float, Range(0)] = 5e-4
    """Weight decay, which is applied to the weights of convolutions and of the last layer."""
    loop: LoopSettings = LoopSettings(batch_size=64, log_every=5)
    checkpoint: CheckpointSettings = CheckpointSettings(evaluate_every=20, save_every=40)
    device: DeviceSettings = DeviceSettings()

    def check(self) -> None:
        """Check the settings before anything is read or written. The message of the `ValueError` names the flag."""
        check_ranges(self, "train-images")
        if self.local_statistics and self.device.parallel == "jit":
            raise ValueError(
                "train-images: --local-statistics does not apply to --parallel jit, which computes the statistics "
                "over the complete batch; expected --parallel shard_map or pmap, got jit."
            )
        if self.local_buffers == "first" and not self.local_statistics:
            raise ValueError(
                "train-images: --local-buffers first does not apply to statistics over all devices; expected "
                "--local-statistics too, got --local-buffers first alone."
            )
