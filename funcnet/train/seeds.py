"""A run that is repeated with several seeds: mean and spread of the figures, and the best seed's model."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from funcnet.files import read_json, write_json
from funcnet.train.best import goodness
from funcnet.train.task import Best

__all__ = ["spread", "summarise"]


def summarise(outs: Sequence[Path], folder: Path, best: Best) -> None:
    """Writes eval.json with mean and spread; the best seed's files become the folder's own.

    Args:
        outs: the folder of each seed, with its eval.json.
        folder: of the run.
        best: which seed is best; its figure on the test examples decides where there is no other.
    """
    runs = [read_json(out / "eval.json") or {} for out in outs]
    prefix = "" if best.metric in runs[0] else "test_"
    chosen = max(range(len(runs)), key=lambda one: goodness(best, runs[one], prefix))
    for file in outs[chosen].iterdir():
        if file.is_file() and file.name != "eval.json":
            shutil.copy(file, folder / file.name)
    values = spread(runs) | {"best_seed": runs[chosen]["seed"], "runs": runs}
    write_json(folder / "eval.json", values)
    print(json.dumps({name: values[name] for name in ("mean", "spread", "best_seed")}, indent=2))


def spread(runs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """The mean, and the sample's standard deviation, of every figure.

    >>> spread([{"seed": 0, "accuracy": 0.5}, {"seed": 1, "accuracy": 0.75}])["mean"]
    {'accuracy': 0.625}
    """
    names = [name for name in runs[0] if name not in ("seed", "steps", "best_step")]
    values = {name: np.array([run[name] for run in runs], np.float64) for name in names}
    return {
        "mean": {name: float(value.mean()) for name, value in values.items()},
        "spread": {name: float(value.std(ddof=1)) for name, value in values.items()},
    }
