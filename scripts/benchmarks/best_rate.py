"""Ask which dropout rate is best: rates from 0.0 to 0.9, each with 20 seeds and 5 folds, on two data sets.

    python scripts/benchmarks/best_rate.py --epochs 20 100 --picture best_rate.png
    python scripts/benchmarks/best_rate.py --compare

A search with one seed names one best rate, for example 0.2. This script shows how much of that is chance. The net has
two hidden layers with dropout, as in search.py, and `funcnet.sklearn.GridSearchCV` trains all rates, seeds and folds of
a data set in one program. On two cores, 20 epochs take two minutes, and 100 epochs take seven. The data are in
scikit-learn:

    digits    1,797 images of 8 x 8 pixels, 5 folds: 1,437 rows to train on.
    cancer    the breast cancer data, 30 measurements of 569 tumours, trained on one fifth (114 rows) and scored on the
              other four, because a net that has seen few rows is where dropout should help. Each fold is standardised
              by the mean and the deviation of its training rows.

A table for each data set has one row per rate:

    accuracy      mean over seeds and folds
    over seeds    sample standard deviation over the seeds, each with its mean over the folds
    best in       number of seeds in which no other rate has a higher score; a tie counts for each rate
    behind        by how much the rate is behind the best one: mean and standard deviation of the seeds' differences

With --compare, each seed is also searched with `exact=True`, which trains one fit after the other, and takes about as
long. The script then says in how many seeds both ways find the same best rate, and how many rows separate the rates
where they do not. Rounding moves a row from one class to another only if the net was undecided about it.
"""

import argparse
import dataclasses
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import StratifiedKFold

from funcnet import functional as F
from funcnet import nn
from funcnet.sklearn import Classifier, GridSearchCV, draw_curve

Splits = Sequence[tuple[np.ndarray, np.ndarray]]


class Net(nn.Module):
    def __init__(self, in_features: int, out_features: int, rate: float = 0.5):
        super().__init__()
        self.first, self.second = nn.Linear(in_features, 60), nn.Linear(60, 30)
        self.out, self.drop = nn.Linear(30, out_features), nn.Dropout(rate)

    def forward(self, x: jax.Array) -> jax.Array:
        x = self.drop(F.relu(self.first(x)))
        return self.out(self.drop(F.relu(self.second(x))))


@dataclasses.dataclass(frozen=True)
class Data:
    name: str
    x: np.ndarray
    y: np.ndarray
    splits: Splits
    batch_size: int

    @property
    def row(self) -> float:
        """By how much the mean over the folds changes if one row gets another class."""
        return 1 / (len(self.splits) * max(len(test) for _, test in self.splits))


def digits(folds: int) -> Data:
    x, y = load_digits(return_X_y=True)
    return Data("digits", (x / 16).astype(np.float32), y, list(StratifiedKFold(folds).split(x, y)), 64)


def cancer(folds: int) -> Data:
    """The data once for each fold, one below the other, because each fold has a mean and a deviation of its own."""
    x, y = load_breast_cancer(return_X_y=True)
    scaled, splits = [], []
    for fold, (test, train) in enumerate(StratifiedKFold(folds, shuffle=True, random_state=0).split(x, y)):
        scaled.append((x - x[train].mean(0)) / x[train].std(0))
        splits.append((fold * len(x) + train, fold * len(x) + test))
    return Data("cancer", np.concatenate(scaled).astype(np.float32), np.tile(y, folds), splits, 16)


def search(
    data: Data, rates: Sequence[float], epochs: int, seeds: Sequence[int], exact: bool = False
) -> dict[str, Any]:
    grid = {"module__rate": rates, "random_state": list(seeds)}
    model = Classifier(Net, max_epochs=epochs, batch_size=data.batch_size)
    found = GridSearchCV(model, grid, cv=data.splits, refit=False, exact=exact, verbose=0 if exact else 1)
    results: dict[str, Any] = found.fit(data.x, data.y).cv_results_
    return results


def scores_of(results: dict[str, Any], count: int) -> np.ndarray:
    """Return the mean scores over the folds: (rates, seeds), because the names of a grid are sorted."""
    return np.asarray(results["mean_test_score"]).reshape(count, -1)


def report(data: Data, rates: Sequence[float], epochs: int, scores: np.ndarray) -> None:
    means = scores.mean(1)
    is_best = np.isclose(scores, scores.max(0), rtol=0, atol=1e-9)
    top = int(means.argmax())
    behind = scores[top] - scores
    spreads, over = (
        found.std(1, ddof=1) if scores.shape[1] > 1 else np.zeros(len(rates)) for found in (scores, behind)
    )
    print(f"\n{data.name}: {scores.shape[1]} seeds, {len(data.splits)} folds, {epochs} epochs")
    print("rate  accuracy  over seeds  best in  behind")
    for i, rate in enumerate(rates):
        print(
            f"{rate:4.2f}  {means[i]:8.4f}  {spreads[i]:10.4f}  {is_best[i].sum():7}  {behind[i].mean():.4f} "
            f"± {over[i]:.4f}"
        )
    near = [f"{rates[i]:g}" for i in range(len(rates)) if i != top and behind[i].mean() <= over[i]]
    far = [f"{rates[i]:g}" for i in range(len(rates)) if i != top and behind[i].mean() > over[i]]
    print(f"The best mean is that of {rates[top]:g}, which is the best rate in {is_best[top].sum()} seeds.")
    print(f"Behind by at most the spread over the seeds: {', '.join(near) or 'none'}.")
    print(f"Behind by more than this spread: {', '.join(far) or 'none'}.")


def compare(data: Data, rates: Sequence[float], epochs: int, together: np.ndarray) -> None:
    """Search each seed one fit after the other, and compare the best rates."""
    count = together.shape[1]
    print(f"\n{data.name}, {epochs} epochs, one fit after the other:")
    alone = []
    for seed in range(count):
        begin = time.perf_counter()
        alone.append(scores_of(search(data, rates, epochs, [seed], exact=True), len(rates))[:, 0])
        print(f"  seed {seed + 1} of {count}, {time.perf_counter() - begin:.1f} s", flush=True)
    scores = np.stack(alone, 1)
    differences, row = np.abs(scores - together), data.row
    best = together.argmax(0), scores.argmax(0)  # the first of equal ones, as GridSearchCV chooses
    print(f"The best rate is the same in {(best[0] == best[1]).sum()} of {count} seeds.")
    print(
        f"The scores are equal for {(differences < row / 2).mean():.1%} of the rates and seeds. The largest difference "
        f"is {differences.max():.5f}, as if {differences.max() / row:.0f} rows had another class."
    )
    for other in np.flatnonzero(best[0] != best[1]):
        pair = [best[0][other], best[1][other]]
        gaps = [abs(float(np.diff(found[pair, other])[0])) / row for found in (together, scores)]
        print(
            f"  seed {other}: {rates[pair[0]]:g} together and {rates[pair[1]]:g} one after the other; these two are "
            f"{gaps[0]:.0f} and {gaps[1]:.0f} rows apart"
        )


def draw(path: str, found: dict[str, dict[str, Any]]) -> None:
    """Draw a curve for each search, from their results one below the other."""
    results: dict[str, Any] = {
        key: np.concatenate([one[key] for one in found.values()]) for key in ("mean_test_score", "std_test_score")
    }
    results["params"] = [{**params, "data": name} for name, one in found.items() for params in one["params"]]
    draw_curve(results, "module__rate", path, by="data", title="Accuracy by dropout rate, with the spread over seeds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    rates = [round(0.1 * i, 1) for i in range(10)]
    parser.add_argument("--rates", type=float, nargs="+", default=rates, help="dropout rates (default: 0.0 to 0.9)")
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds, which are 0, 1, … (default: 20)")
    parser.add_argument("--folds", type=int, default=5, help="number of folds (default: 5)")
    parser.add_argument(
        "--epochs", type=int, nargs="+", default=[20], help="epochs; each number is a search (default: 20)"
    )
    parser.add_argument("--data", nargs="+", choices=["digits", "cancer"], default=["digits", "cancer"])
    parser.add_argument("--picture", metavar="FILE", help="PNG file for the accuracies with their spread")
    parser.add_argument("--compare", action="store_true", help="also search one fit after the other")
    options = parser.parse_args()
    makers: dict[str, Callable[[int], Data]] = {"digits": digits, "cancer": cancer}
    found: dict[str, dict[str, Any]] = {}
    for name, epochs in itertools.product(options.data, options.epochs):
        data, begin = makers[name](options.folds), time.perf_counter()
        count = len(options.rates) * options.seeds * options.folds
        print(f"{name}: {count} fits of {epochs} epochs in one program", flush=True)
        results = found[f"{name}, {epochs} epochs"] = search(data, options.rates, epochs, range(options.seeds))
        print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)
        scores = scores_of(results, len(options.rates))
        report(data, options.rates, epochs, scores)
        if options.compare:
            compare(data, options.rates, epochs, scores)
        print(flush=True)
    if options.picture:
        draw(options.picture, found)


if __name__ == "__main__":
    main()
