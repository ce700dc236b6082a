"""Image classification: `funcnet train-images`."""

from funcnet.tasks.images.settings import ImageSettings
from funcnet.tasks.images.task import ImageTask, train_images

__all__ = ["ImageSettings", "ImageTask", "train_images"]
