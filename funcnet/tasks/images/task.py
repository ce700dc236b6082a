"""Image classification with a ResNet: the shortest example of a task for `funcnet.train.run_task`.

Letters: B batch, C channels, H height, W width, K classes.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import optax

from funcnet import functional as F
from funcnet import nn, optim, weights
from funcnet.data import DataLoader, Prefetcher
from funcnet.files import write_json
from funcnet.models import resnet
from funcnet.parallel import parallelize
from funcnet.tasks.images.data import open_images, padded_images
from funcnet.tasks.images.settings import ImageSettings
from funcnet.train import (
    Cadence,
    Conclusion,
    Context,
    Ended,
    LoaderBatches,
    Panel,
    Task,
    TrainState,
    evaluate,
    make_eval_step,
    run_task,
)
from funcnet.tree import Params, State

__all__ = ["ImageTask", "train_images"]


def train_images(settings: ImageSettings) -> int:
    """Run `funcnet train-images`, or resume its run.

    Args:
        settings: the settings of the command.

    Returns:
        The exit code; see `run_task`.

    Raises:
        ValueError: if a setting is wrong; see also `run_task`.
    """
    settings.check()
    return run_task(ImageTask, settings, where="train-images")


class ImageTask(Task):
    """The task of `funcnet train-images`: train a ResNet to classify images.

    Args:
        settings: the settings of the command, already checked.
        context: the context of the run.
        net: the net to train. None makes the net that `settings.model` names.

    Raises:
        RunError: if the images cannot be read; see `open_images`.
        ValueError: if there are fewer training images than rows in a batch.
    """

    unit = "images"
    checks_objective = False  # costs two compilations; tests/tasks/test_lifecycle.py checks the objective
    shown = {"loss": "loss", "accuracy": "image_accuracy"}  # noqa: RUF012

    def __init__(self, settings: ImageSettings, context: Context, net: nn.Module | None = None):
        self.settings, self.context = settings, context
        self.data = open_images(settings.data, settings.image_size)
        self.name = settings.model
        batch_size, seed = settings.loop.batch_size, settings.run.seed
        self.loader = DataLoader(self.data.train, batch_size, shuffle=True, seed=seed, drop_last=True)
        self.loader.require_batches()
        self.loader.read_rows(context.own_rows)
        self.reads_own_rows = context.own_rows is not None
        net = self._network() if net is None else net
        if context.layout.axis_name is not None and not settings.local_statistics:
            net = nn.SyncBatchNorm.convert_sync_batchnorm(net, context.layout.axis_name)
        self.net = net  # it takes images (B, C, H, W) and returns logits (B, K)
        self.buffers = settings.local_buffers if settings.local_statistics else "synced"
        steps, checkpoint = settings.steps, settings.checkpoint
        self.cadence = Cadence(steps, settings.loop.log_every, checkpoint.evaluate_every, checkpoint.save_every)
        self.keep, self.rewind_above = checkpoint.keep, checkpoint.rewind_above
        self.schedule = optim.warmup_linear_decay(settings.learning_rate, round(settings.warmup * steps), steps)
        self.optimizer = optax.chain(
            optax.add_decayed_weights(
                settings.weight_decay, mask=lambda p: jax.tree.map(lambda leaf: leaf.ndim > 1, p)
            ),
            optax.sgd(self.schedule, momentum=0.9, nesterov=True),
        )
        self.facts = [{"data": self.data.digest}]
        self.sources = {} if settings.data is None else {"data": str(settings.data)}

    def _network(self) -> nn.Module:
        make = {"resnet18": resnet.resnet18, "resnet50": resnet.resnet50}[self.settings.model]
        small = self.data.size <= 64
        return make(num_classes=len(self.data.classes), in_channels=self.data.channels, small_images=small)

    def counts(self, batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Return the number of images in a batch. Images with the label -1, which pad the last batch, are not
        counted.
        """
        return {"image": (batch["label"] >= 0).sum()}

    def objective(
        self, params: Params, state: State, batch: Mapping[str, Any], *, training: bool, rng: jax.Array | None
    ) -> tuple[Any, Any]:
        """Return the sum of the cross-entropies and the number of correct predictions of a batch, and the new
        buffers.
        """
        images = self.context.precision.cast(batch["image"])
        logits, state = self.net.apply(params, state, images, training=training, rng=rng)  # (B, K)
        labels = batch["label"]
        losses = F.cross_entropy(logits, labels, ignore_index=-1, reduction="sum")
        return {"image": {"loss": losses, "accuracy": (logits.argmax(1) == labels).sum()}}, state

    def batches(self, seed: int) -> Callable[[int], Iterable[Any]]:
        return LoaderBatches(self.loader)

    def size(self, batch: Mapping[str, Any]) -> int:
        return len(batch["label"])

    def evaluator(self) -> Callable[[TrainState], dict[str, float]]:
        measure = self._on_test_images()
        return lambda state: measure((state.params, state.state))

    def measure(self, model: tuple[Any, Any]) -> dict[str, float]:
        """Return the metrics of (params, state) on the test images."""
        found = self._on_test_images()(self.layout.place(model))
        return {"loss": found["loss"], "accuracy": found["image_accuracy"]} if found else {}

    def _on_test_images(self) -> Callable[[tuple[Any, Any]], dict[str, float]]:
        layout, stop = self.layout, self.context.stop
        step = parallelize(make_eval_step(self.objective, self.counts, precision=self.context.precision), layout)

        def on_test_images(model: tuple[Any, Any]) -> dict[str, float]:
            size = self.settings.loop.batch_size
            own = layout.own_rows(size) if self.reads_own_rows else None
            with Prefetcher(padded_images(self.data.test, size, own), transfer=self.place) as batches:
                return evaluate(step, model, batches, should_stop=lambda: stop.requested)

        return on_test_images

    def save(self, folder: Path, params: Params, state: State) -> None:
        data = self.data
        prepared = {"image_size": data.size, "channels": data.channels, "mean": data.mean, "deviation": data.deviation}
        write_json(folder / "images.json", {"model": self.name, "classes": list(data.classes), **prepared})
        weights.save(folder / "model.safetensors", self.net.state_dict(params, state))

    def conclude(self, ended: Ended) -> Conclusion:
        last = next(row for row in reversed(ended.rows) if "eval_loss" in row)
        values = {"step": last["step"], "loss": last["eval_loss"], "accuracy": last["eval_image_accuracy"]}
        panels = [
            Panel("Loss", "nats", {"training": "loss", "test": "eval_loss"}, from_zero=True),
            Panel("Accuracy", "share", {"training": "image_accuracy", "test": "eval_image_accuracy"}),
            Panel("Learning rate", "", {"rate": "learning_rate"}, smooth=False, from_zero=True),
            Panel("Throughput", "images/s", {"images": "images_per_second"}, from_zero=True),
        ]
        settings = self.settings
        subtitle = (
            f"{settings.steps:,} steps of {settings.loop.batch_size} images, learning rate {settings.learning_rate:g}, "
            f"{self.layout}, seed {ended.seed}; test accuracy {values['accuracy']:.4f}"
        )
        where = "scikit-learn's digits" if settings.data is None else settings.data.name
        return Conclusion(values, panels, f"{self.name} on {where}", subtitle)
