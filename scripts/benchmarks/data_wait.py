"""Measure how long training waits for its data: a few steps of `funcnet pretrain` with its defaults.

    python scripts/benchmarks/data_wait.py --steps 60

After the lines of the run, it prints the share of the training time in which the loop waited for a batch, over all
logged steps and in the worst ten steps. The target is less than 1 %. Building the data is not included.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from funcnet.settings import compose
from funcnet.tasks.pretraining.settings import PretrainingSettings
from funcnet.tasks.pretraining.task import pretrain
from funcnet.train import read_metrics

EVERY = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        code = pretrain(
            compose(PretrainingSettings, out=out, steps=steps, log_every=EVERY, evaluate_every=0, save_every=0)
        )
        if code:
            raise SystemExit(code)
        rows = [row for row in read_metrics(out / "metrics.jsonl") if row["step"] > 1]  # the first step compiles
    shares = np.array([row["data_wait_share"] for row in rows])
    seconds = 1 / np.array([row["tokens_per_second"] for row in rows])  # the tokens per interval are nearly constant
    print(f"waiting for data: {np.average(shares, weights=seconds):.3%} of the time, at worst {shares.max():.3%}")


if __name__ == "__main__":
    main()
