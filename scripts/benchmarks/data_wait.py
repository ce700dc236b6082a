"""Measure how long training waits for its data: a few steps of `funcnet pretrain` and `funcnet train-images`.

    python scripts/benchmarks/data_wait.py --steps 60

Pretraining runs with its defaults. Image training reads a folder of JPEG files of 256 x 256 pixels, which it decodes
and resizes to 64 x 64. After the lines of each run, the script prints the share of the training time in which the loop
waited for a batch, over all logged steps and in the worst ten steps. The target is less than 1 %. Building the data is
not included.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from funcnet.settings import compose
from funcnet.tasks.images.settings import ImageSettings
from funcnet.tasks.images.task import train_images
from funcnet.tasks.pretraining.settings import PretrainingSettings
from funcnet.tasks.pretraining.task import pretrain
from funcnet.train import read_metrics

EVERY = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--images", type=int, default=400, help="JPEG files in each of two classes")
    options = parser.parse_args()
    common = {"steps": options.steps, "log_every": EVERY, "evaluate_every": 0, "save_every": 0}
    with tempfile.TemporaryDirectory() as folder:
        text, images = Path(folder, "text"), Path(folder, "images")
        print(share("pretraining", pretrain, PretrainingSettings, "tokens", out=text, **common))
        draw(Path(folder, "pictures"), options.images)
        pictures = {"data": Path(folder, "pictures"), "batch_size": 16}
        print(share("images", train_images, ImageSettings, "images", out=images, **pictures, **common))


def share(name: str, run: Callable[[Any], int], settings: Any, unit: str, out: Path, **values: Any) -> str:
    """Train, and describe how long the run waited."""
    code = run(compose(settings, out=out, **values))
    if code:
        raise SystemExit(code)
    rows = [row for row in read_metrics(out / "metrics.jsonl") if row["step"] > 1]  # the first step compiles
    shares = np.array([row["data_wait_share"] for row in rows])
    seconds = 1 / np.array(
        [row[f"{unit}_per_second"] for row in rows]
    )  # an interval has about as many tokens or images
    mean = np.average(shares, weights=seconds)
    return f"{name}: waiting for data {mean:.3%} of the time, at worst {shares.max():.3%}"


def draw(folder: Path, count: int) -> None:
    """Write JPEG files of noise in two classes."""
    random = np.random.default_rng(0)
    for label in ("a", "b"):
        (folder / label).mkdir(parents=True)
        for number in range(count):
            pixels = random.integers(0, 255, (256, 256, 3), np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{number}.jpg")


if __name__ == "__main__":
    main()
