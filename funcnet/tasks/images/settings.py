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

    Without --data it learns scikit-learn's digits, in two minutes on two cores. Writes into --out: model.safetensors
    with torchvision's names, images.json (the classes, and how images are prepared), metrics.jsonl, eval.json (loss and
    accuracy on the test images), report.png, checkpoints/ and tensorboard/.

    Exit codes: 0 finished; 2 something in the arguments, the data or on the disk is wrong (a line says what);
    130 after Ctrl-C and 143 after SIGTERM: a checkpoint was saved, continue with --resume.
    """

    run: RunSettings
    data: Path | None = None
    """Folder of images: a subfolder for each class, in train/ and test/ or directly (then a fifth is for testing); or
    a folder with the four idx files of MNIST or Fashion-MNIST, as they are or with .gz. The default is scikit-learn's
    digits."""
    image_size: Annotated[int, Range(8)] = 64
    """Height and width to which the images of a folder are resized, in pixels; idx files and digits keep their size."""
    model: Literal["resnet18", "resnet50"] = "resnet18"
    """Model; images of up to 64 pixels get a stem for small images."""
    local_statistics: bool = False
    """Let BatchNorm see only the images of its own device (shard_map and pmap); otherwise it sees those of all."""
    steps: Annotated[int, Range(1)] = 120
    """Number of updates; 120 are five passes over the digits."""
    learning_rate: Annotated[float, Range(0)] = 0.05
    """Peak of the learning rate, of SGD with Nesterov momentum 0.9."""
    warmup: Annotated[float, Range(0, 1, below=True)] = 0.2
    """Share of the steps in which the learning rate rises; then it falls linearly to 0."""
    weight_decay: Annotated[float, Range(0)] = 5e-4
    """Weight decay of convolutions and the last layer, not of biases and BatchNorm."""
    loop: LoopSettings = LoopSettings(batch_size=64, log_every=5)
    checkpoint: CheckpointSettings = CheckpointSettings(evaluate_every=20, save_every=40)
    device: DeviceSettings = DeviceSettings()

    def check(self) -> None:
        """Refuses settings that no run can have, before anything is read or written.

        Raises:
            ValueError: names the flag, what is expected, and what it is.
        """
        check_ranges(self, "train-images")
        if self.local_statistics and self.device.parallel == "jit":
            raise ValueError(
                "train-images: --local-statistics; expected --parallel shard_map or pmap, got jit, whose program sees "
                "the whole batch."
            )
