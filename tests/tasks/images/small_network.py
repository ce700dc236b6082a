"""A small ResNet for `funcnet train-images`: `python -m tests.tasks.images.small_network train-images …`."""

from funcnet import nn
from funcnet.cli import main
from funcnet.models import resnet
from funcnet.tasks.images.task import ImageTask

__all__ = ["small"]


def small(*args):
    """A stem, a residual block and a head."""
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, stride=2, bias=False), nn.BatchNorm2d(8), nn.ReLU(), resnet.BasicBlock(8, 8)),
        *(nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(8, 10)),
    )


if __name__ == "__main__":
    ImageTask._network = small
    main()
