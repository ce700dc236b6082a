"""Measure the time of `funcnet.compare` on a small and on a large port: a tiny CREPE and EfficientNet-lite0.

    python scripts/benchmarks/compare.py --size 224

Both models have random weights, and statistics of BatchNorm from a batch. Each comparison includes both libraries,
forward and backward, and the compilation of the port. In EfficientNet-lite0, some inputs of ReLU6 are on different
sides of 0 or 6 in the two libraries because of rounding, so the comparison runs in float32 and again in float64. The
target is less than 20 s on an idle machine, with nothing over tolerance except for rounding. The CPU time depends less
on other work on the machine than the wall time. With OMP_NUM_THREADS=1, it does not include torch's threads that wait.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import funcnet
from funcnet import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests import ported_models


def measure(name: str, build: Any, settling: np.ndarray, inputs: np.ndarray) -> None:
    """Print the time of one comparison and its verdict."""
    torch.manual_seed(0)
    theirs, net = ported_models.settled(torch, build(torch.nn), settling), build(nn)
    params, state = net.load_state_dict(theirs.state_dict())
    start, start_of_process = time.perf_counter(), time.process_time()
    found = funcnet.compare(theirs, net, params, state, inputs)
    wall, process = time.perf_counter() - start, time.process_time() - start_of_process
    print(f"{name}: {len(found.rows)} calls, {wall:.1f} s ({process:.1f} s of CPU time)")
    print(str(found).partition("tolerance ")[2].partition("\n")[2], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=224, help="height and width of the image")
    size = parser.parse_args().size
    measure("tiny CREPE", ported_models.tiny_crepe, ported_models.sound(8, seed=1), ported_models.sound(1))
    images = ported_models.image(8, size, seed=1), ported_models.image(1, size)
    measure("EfficientNet-lite0", ported_models.efficientnet_lite0, *images)


if __name__ == "__main__":
    main()
