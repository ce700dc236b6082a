"""ResNet on small grey images, with the training that BERT uses: `funcnet.train` knows neither.

    python scripts/train_images.py --out runs/digits

trains ResNet-18 on scikit-learn's digits (8 x 8, 1,437 to train on, 360 to test) and ends with a test accuracy of about
0.98, in about two minutes on two cores. It prints the progress and the accuracy; `--help` says what it writes. It is
also the shortest example of a task: `counts` and `make_objective` say what is learnt, `run` puts the parts together.

Letters: B batch, H height, W width, K classes.
"""

import contextlib
import dataclasses
import gzip
import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
import optax
import tyro

from funcnet import functional as F
from funcnet import nn, optim, weights
from funcnet.data import ArrayDataset, DataLoader, Prefetcher
from funcnet.files import write_json
from funcnet.models import resnet
from funcnet.parallel import DataParallel, check_batch_size, data_parallel, parallelize, use_virtual_cpu_devices
from funcnet.train import (
    Cadence,
    Checkpoints,
    Interruption,
    JsonLines,
    Outcome,
    Panel,
    Restored,
    RunError,
    TrainingProgress,
    TrainState,
    compilation_cache,
    create,
    draw_report,
    evaluate,
    finish,
    is_finished,
    lock_run,
    make_eval_step,
    make_step,
    open_run,
    pin,
    read_metrics,
    resume,
    train,
)

FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")  # where Debian's package dataset-fashion-mnist puts it
WRITES = ("model.safetensors", "metrics.jsonl", "checkpoints", "eval.json")


@dataclasses.dataclass(frozen=True)
class Config:
    """Train a ResNet on small grey images.

    Writes into --out: metrics.jsonl, eval.json (loss and accuracy on the test images), report.png, checkpoints/ and
    model.safetensors, with torchvision's names.

    Exit codes: 0 finished; 2 something in the arguments, the data or on the disk is wrong (a line says what);
    130 after Ctrl-C and 143 after SIGTERM: a checkpoint was saved, go on with --resume.
    """

    out: Path
    """directory of the run"""
    resume: bool = False
    """go on with the run in --out; all other settings must be as they were"""

    data: Literal["digits", "fashion-mnist"] = "digits"
    """scikit-learn's digits, or Fashion-MNIST (28 x 28, 60,000; Debian's package dataset-fashion-mnist)"""
    data_dir: Path = FASHION_MNIST
    """where Fashion-MNIST's four idx files lie, as they are or with .gz"""
    model: Literal["resnet18", "resnet50"] = "resnet18"
    """with a stem for small images"""

    steps: int = 120
    """updates; 120 are five passes over the digits, an eighth of one over Fashion-MNIST"""
    batch_size: int = 64
    """images an update, over all devices"""
    learning_rate: float = 0.05
    """its peak, of SGD with Nesterov's momentum 0.9"""
    warmup: float = 0.2
    """share of the steps in which the rate rises; then it falls linearly to 0"""
    weight_decay: float = 5e-4
    """of convolutions and the last layer, not of biases and BatchNorm"""
    seed: int = 0
    """of the start and the order of the images"""

    devices: int | None = None
    """how many; on a CPU as many virtual ones; without it all GPUs or TPUs, or one CPU"""
    parallel: Literal["jit", "shard_map", "pmap"] = "jit"
    """how the step is spread over them"""
    local_statistics: bool = False
    """let BatchNorm see only its own device's images (shard_map and pmap); else all devices' together"""

    log_every: int = 5
    """steps from one line of metrics to the next"""
    evaluate_every: int = 20
    """steps from one look at the test images to the next"""
    save_every: int = 40
    """steps from one checkpoint to the next"""

    def pinned(self) -> dict[str, Any]:
        """What a resumed run must have in common with the first."""
        values = dataclasses.asdict(self)
        for name in ("out", "resume", "save_every", "data_dir"):
            values.pop(name)
        return values


# ------------------------------------------------------------------------------------------------------------- the task


def counts(batch: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """The images that count: a label of -1 fills a last batch up."""
    return {"image": (batch["label"] >= 0).sum()}


def make_objective(net: nn.Module) -> Callable[..., tuple[dict[str, dict[str, jax.Array]], Any]]:
    """Cross-entropy and right answers, summed; `train.make_step` divides by `counts`."""

    def objective(params: Any, state: Any, batch: Mapping[str, jax.Array], *, training: bool, rng: Any) -> Any:
        logits, state = net.apply(params, state, batch["image"], training=training, rng=rng)  # (B, K)
        labels = batch["label"]
        losses = F.cross_entropy(logits, labels, ignore_index=-1, reduction="sum")
        return {"image": {"loss": losses, "accuracy": (logits.argmax(1) == labels).sum()}}, state

    return objective


def network(config: Config) -> nn.Module:
    """ResNet for ten classes of grey images."""
    return getattr(resnet, config.model)(num_classes=10, in_channels=1, small_images=True)


# -------------------------------------------------------------------------------------------------------------- the run


def run(config: Config) -> int:
    """Runs, or goes on with, a training run; returns the exit code.

    Raises:
        ValueError: settings or files are wrong; `RunError` for what concerns the run's directory.
        OSError: a file cannot be read or written.
    """
    with Interruption() as stop, contextlib.ExitStack() as stack:
        plan = devices(config)
        training, test = load(config)
        loader = DataLoader(training, config.batch_size, shuffle=True, seed=config.seed, drop_last=True)
        folder = open_run(config.out, config.pinned(), resume=config.resume, writes=WRITES)
        stack.enter_context(lock_run(folder))
        if is_finished(folder):
            print(f"The run in {folder} has finished: nothing is left to do.")
            return 0
        pin(folder, {"data": digest(training, test)})
        net = network(config)
        if plan.axis_name is not None and not config.local_statistics:
            net = nn.SyncBatchNorm.convert_sync_batchnorm(net, plan.axis_name)
        with Checkpoints(folder / "checkpoints") as checkpoints:
            outcome = fit(config, plan, net, loader, test, checkpoints, stop)
        if stop.requested:
            saved = "saved" if outcome.step else "nothing was lost"
            print(f"Stopped after step {outcome.step:,} of {config.steps:,}; {saved}. Go on with --resume.")
            return stop.exit_code
        conclude(config, plan, net, outcome, folder)
        return 0


def devices(config: Config) -> DataParallel:
    if config.devices is not None:
        use_virtual_cpu_devices(config.devices)
    if config.local_statistics and config.parallel == "jit":
        raise RunError(
            "train_images: --local-statistics; expected --parallel shard_map or pmap, got jit, whose program sees the "
            "whole batch. Choose one of the two."
        )
    on_cpu = jax.default_backend() == "cpu"
    plan = data_parallel(config.parallel, devices=config.devices or (1 if on_cpu else None))
    check_batch_size(config.batch_size, plan.count, where="train_images: --batch-size")
    return plan


def fit(
    config: Config,
    plan: DataParallel,
    net: nn.Module,
    loader: DataLoader,
    test: ArrayDataset,
    checkpoints: Checkpoints,
    stop: Interruption,
) -> Outcome:
    """From the newest checkpoint, or from the start, to the last step or a signal."""
    schedule = optim.warmup_linear_decay(config.learning_rate, round(config.warmup * config.steps), config.steps)
    optimizer = optax.chain(
        optax.add_decayed_weights(config.weight_decay, mask=lambda params: jax.tree.map(lambda p: p.ndim > 1, params)),
        optax.sgd(schedule, momentum=0.9, nesterov=True),
    )
    objective = make_objective(net)
    buffers = "averaged" if config.local_statistics else "synced"
    step = make_step(objective, counts, optimizer, schedule=schedule, buffers=buffers)
    test_step = parallelize(make_eval_step(objective, counts), plan)

    def on_test_images(state: TrainState) -> dict[str, float]:
        with Prefetcher(test_batches(test, config.batch_size), transfer=plan.shard) as batches:
            return evaluate(test_step, (state.params, state.state), batches, should_stop=lambda: stop.requested)

    key = jax.random.key(config.seed)
    params, buffer_values = jax.jit(net.init)(key)
    first = create(params, buffer_values, optimizer)
    begin = resume(checkpoints, first) if config.resume else Restored(first, 0, {})
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    print(f"{config.model}, {size:,} parameters, {loader.size:,} images, {plan.count} device(s) by {plan.kind}.")
    show = {"loss": "loss", "accuracy": "image_accuracy"}
    with (
        JsonLines(config.out / "metrics.jsonl", begin.step) as lines,
        TrainingProgress(config.steps, step=begin.step, show=show) as progress,
    ):
        return train(
            parallelize(step, plan, donate=True),
            plan.place(begin.state),
            loader.batches,
            key=plan.place(key),
            place=plan.shard,
            size=lambda batch: len(batch["label"]),
            unit="images",
            cadence=Cadence(config.steps, config.log_every, config.evaluate_every, config.save_every),
            stop=stop,
            loggers=[lines, progress],
            evaluate=on_test_images,
            checkpoints=checkpoints,
            about={"seed": config.seed, "config": config.pinned()},
            after_step=progress.after_step,
            owed=begin.about.get("owed"),
        )


def conclude(config: Config, plan: DataParallel, net: nn.Module, outcome: Outcome, folder: Path) -> None:
    """Everything that stands in the directory when a run has finished."""
    state = jax.device_get(outcome.state)
    weights.save(folder / "model.safetensors", net.state_dict(state.params, state.state))
    rows = read_metrics(folder / "metrics.jsonl")
    last = next(row for row in reversed(rows) if "eval_loss" in row)
    values = {"step": last["step"], "loss": last["eval_loss"], "accuracy": last["eval_image_accuracy"]}
    write_json(folder / "eval.json", values)
    panels = [
        Panel("Loss", "nats", {"training": "loss", "test": "eval_loss"}, from_zero=True),
        Panel("Accuracy", "share", {"training": "image_accuracy", "test": "eval_image_accuracy"}),
        Panel("Learning rate", "", {"rate": "learning_rate"}, smooth=False, from_zero=True),
        Panel("Throughput", "images/s", {"images": "images_per_second"}, from_zero=True),
    ]
    subtitle = (
        f"{config.steps:,} steps of {config.batch_size} images, learning rate {config.learning_rate:g}, "
        f"{plan.count} device(s) by {plan.kind}, seed {config.seed}; test accuracy {values['accuracy']:.4f}"
    )
    draw_report(folder / "report.png", rows, panels, title=f"{config.model} on {config.data}", subtitle=subtitle)
    finish(folder)
    print(f"Waited for data {outcome.data_wait_share:.2%} of the time.")
    print(f"Test accuracy {values['accuracy']:.4f}, loss {values['loss']:.4f}. Written: {folder}")


# ------------------------------------------------------------------------------------------------------------- the data


def load(config: Config) -> tuple[ArrayDataset, ArrayDataset]:
    """(to train on, to test on): `image` (B, 1, H, W) float32 of mean 0 and deviation 1, `label` (B,) int32."""
    train_images, train_labels, test_images, test_labels = (
        digits() if config.data == "digits" else fashion_mnist(config.data_dir)
    )
    mean, deviation = train_images.mean(dtype=np.float64), train_images.std(dtype=np.float64)

    def dataset(images: np.ndarray, labels: np.ndarray) -> ArrayDataset:
        images = ((images - mean) / deviation).astype(np.float32)
        return ArrayDataset({"image": images[:, None], "label": labels.astype(np.int32)})

    return dataset(train_images, train_labels), dataset(test_images, test_labels)


def digits() -> tuple[np.ndarray, ...]:
    """scikit-learn's digits; every fifth of a fixed shuffle is for the test."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise RunError(
            "train_images: --data digits; expected scikit-learn, which brings them, got an environment without it. "
            "Install it: pip install scikit-learn."
        ) from None
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    is_test = np.arange(len(order)) % 5 == 0
    return tuple(a[order[chosen]] for chosen in (~is_test, is_test) for a in (found.images, found.target))


def fashion_mnist(folder: Path) -> tuple[np.ndarray, ...]:
    """Its own division into 60,000 and 10,000."""
    names = [f"{part}-{kind}" for part in ("train", "t10k") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")]
    return tuple(read_idx(folder / name) for name in names)


def read_idx(path: Path) -> np.ndarray:
    """The bytes of an idx file, with .gz or without: a magic number 0x000008 and the rank, then the sizes."""
    compressed = path.with_name(f"{path.name}.gz")
    if not path.exists() and not compressed.exists():
        raise RunError(
            f"train_images: --data fashion-mnist; expected {path.name} or {compressed.name} in {path.parent}, got "
            "neither. Install the package dataset-fashion-mnist, or say --data-dir."
        )
    try:
        content = path.read_bytes() if path.exists() else gzip.decompress(compressed.read_bytes())
        sizes = np.frombuffer(content, ">i4", content[3], offset=4)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)
    except (ValueError, IndexError, EOFError, gzip.BadGzipFile) as error:
        raise RunError(
            f"train_images: {path.parent / path.name}; expected an idx file of bytes, got a broken one ({error}). "
            "Fetch it again."
        ) from error


def test_batches(test: ArrayDataset, batch_size: int) -> Iterator[dict[str, np.ndarray]]:
    """All test images, the last batch filled up with ones that do not count: one shape, and it divides over devices."""
    for batch in DataLoader(test, batch_size).epoch():
        missing = batch_size - len(batch["label"])
        filler = {"image": np.zeros((missing, *batch["image"].shape[1:]), np.float32), "label": np.full(missing, -1)}
        yield {name: np.concatenate([batch[name], filler[name].astype(batch[name].dtype)]) for name in batch}


def digest(*datasets: ArrayDataset) -> str:
    arrays = (array for dataset in datasets for array in dataset.columns.values())
    return hashlib.sha256(b"".join(hashlib.sha256(array.tobytes()).digest() for array in arrays)).hexdigest()


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line; exits with 0, 2, 130 or 143."""
    config = tyro.cli(Config, args=arguments, config=(tyro.conf.FlagCreatePairsOff,))
    try:
        compilation_cache.enable()
        code = run(config)
    except (ValueError, OSError) as error:
        if os.environ.get("FUNCNET_TRACEBACK"):
            raise
        print(f"train_images: {str(error).removeprefix('train_images: ')}", file=sys.stderr)
        code = 2
    raise SystemExit(code)


if __name__ == "__main__":
    main()
