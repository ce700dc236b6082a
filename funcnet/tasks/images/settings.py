"""The settings of `funcnet train-images`."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

from funcnet.settings import Range, check_ranges
from funcnet.train.settings import CheckpointSettings, DeviceSettings, LoopSettings, RunSettings

__all__ = ["ImageSettings"]


@dataclasses.dataclass(frozen=True)
class ImageSettings:
    """Train a ResNet to classify images.

    Without --data, it trains on scikit-learn's digits, which takes two minutes on two cores. Writes into --out:
    model.safetensors with torchvision's names, images.json (the classes and the preparation of images), metrics.jsonl,
    eval.json (loss and accuracy on the test images), report.png, checkpoints/ and tensorboard/.

    Exit codes: 0 finished; 2 an error in the arguments, the data or the files, reported in one line; 130 stopped by
    Ctrl-C; 143 stopped by SIGTERM. A stopped run has saved a checkpoint: continue it with --resume.
    """

    run: RunSettings
    data: Path | None = None
    """Folder with one subfolder of images per class, or with two such folders train/ and test/ (without them, a fifth
    of the images is used for testing); or a folder with the four idx files of MNIST or Fashion-MNIST, compressed (.gz)
    or not. The default is scikit-learn's digits."""
    image_size: Annotated[int, Range(8)] = 64
    """Height and width to which image files are resized, in pixels. Images of idx files and digits keep their size."""
    model: Literal["resnet18", "resnet50"] = "resnet18"
    """Model to train. For images of up to 64 pixels, it has a stem for small images."""
    local_statistics: bool = False
    """Compute BatchNorm statistics separately on each device (shard_map and pmap only). By default they are computed
    over all devices."""
    steps: Annotated[int, Range(1)] = 120
    """Number of updates. 120 updates are five passes over the digits."""
    learning_rate: Annotated[float, Range(0)] = 0.05
    """Peak learning rate of SGD with Nesterov momentum 0.9."""
    warmup: Annotated[float, Range(0, 1, below=True)] = 0.2
    """Share of the steps in which the learning rate rises. Then it falls linearly to 0."""
    weight_decay: Annotated[float, Range(0)] = 5e-4
    """Weight decay, applied to the weights of convolutions and of the last layer."""
    loop: LoopSettings = LoopSettings(batch_size=64, log_every=5)
    checkpoint: CheckpointSettings = CheckpointSettings(evaluate_every=20, save_every=40)
    device: DeviceSettings = DeviceSettings()

    def check(self) -> None:
        """Check the settings before anything is read or written.

        Raises:
            ValueError: a setting is wrong; the message names its flag.
        """
        check_ranges(self, "train-images")
        if self.local_statistics and self.device.parallel == "jit":
            raise ValueError(
                "train-images: --local-statistics; expected --parallel shard_map or pmap, got jit, which sees the "
                "whole batch."
            )
