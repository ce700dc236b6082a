"""The summary of a run with several seeds: mean and standard deviation of the metrics, and the best model."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from funcnet.files import read_json, write_json
from funcnet.train.best_evaluation import goodness
from funcnet.train.task_interface import Best

__all__ = ["spread", "summarise"]


def summarise(outs: Sequence[Path], folder: Path, best: Best) -> None:
    """Write eval.json with the mean and the standard deviation of each metric, and copy the files of the best seed into
    the run directory `folder`.

    `outs` are the folders of the seeds, each with an eval.json. The seeds are compared by the metric that `best` names.
    This metric is measured on the validation examples, or on the test examples if there are no validation examples.
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
    """Return the mean and the sample standard deviation of every metric, as `{"mean": {metric: value}, "spread":
    {metric: value}}`. At least two seeds are required.

    >>> spread([{"seed": 0, "accuracy": 0.5}, {"seed": 1, "accuracy": 0.75}])["mean"]
    {'accuracy': 0.625}
    """
    names = [name for name in runs[0] if name not in ("seed", "steps", "best_step")]
    values = {name: np.array([run[name] for run in runs], np.float64) for name in names}
    return {
        "mean": {name: float(value.mean()) for name, value in values.items()},
        "spread": {name: float(value.std(ddof=1)) for name, value in values.items()},
    }
