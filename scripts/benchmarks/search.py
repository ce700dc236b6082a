"""Compare a grid search over dropout rates: all candidates together, one after the other, and with skorch.

    python scripts/benchmarks/search.py --rounds 3
    python scripts/benchmarks/search.py --batch-size 10 --rounds 1   # batches as in the well-known tutorials

The data are scikit-learn's digits; the net has two hidden layers with dropout. Each round measures all of them in
alternation. Every search compiles its programs again, as in a new process. skorch, which needs torch, is measured if it
is installed.
"""

import argparse
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from sklearn import model_selection
from sklearn.datasets import load_digits

from funcnet import functional as F
from funcnet import nn
from funcnet.sklearn import Classifier, GridSearchCV


class Net(nn.Module):
    def __init__(self, rate: float = 0.5):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(64, 60), nn.Linear(60, 30), nn.Linear(30, 10)
        self.drop = nn.Dropout(rate)

    def forward(self, x: jax.Array) -> jax.Array:
        x = self.drop(F.relu(self.first(x)))
        return self.out(self.drop(F.relu(self.second(x))))


def of_skorch(epochs: int, batch_size: int) -> Any:
    """Return the same estimator, made with skorch."""
    import torch
    from skorch import NeuralNetClassifier

    class TorchNet(torch.nn.Module):
        def __init__(self, rate: float = 0.5):
            super().__init__()
            self.first, self.second = torch.nn.Linear(64, 60), torch.nn.Linear(60, 30)
            self.out, self.drop = torch.nn.Linear(30, 10), torch.nn.Dropout(rate)

        def forward(self, x: Any) -> Any:
            x = self.drop(torch.relu(self.first(x)))
            return self.out(self.drop(torch.relu(self.second(x))))

    return NeuralNetClassifier(
        TorchNet, criterion=torch.nn.CrossEntropyLoss, optimizer=torch.optim.Adam, lr=1e-3, max_epochs=epochs,
        batch_size=batch_size, train_split=None, verbose=0, iterator_train__shuffle=True,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, default=10, help="number of dropout rates")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    grid = {"module__rate": [float(rate) for rate in np.linspace(0, 0.9, options.rates)]}
    model = Classifier(Net, max_epochs=options.epochs, batch_size=options.batch_size, random_state=0)
    searches: dict[str, Callable[[], Any]] = {
        "together": lambda: GridSearchCV(model, grid, cv=5),
        "one after the other": lambda: GridSearchCV(model, grid, cv=5, exact=True),
    }
    if importlib.util.find_spec("skorch"):
        rival = of_skorch(options.epochs, options.batch_size)
        searches["skorch"] = lambda: model_selection.GridSearchCV(rival, grid, cv=5)
    times: dict[str, list[float]] = {name: [] for name in searches}
    found: dict[str, Any] = {}
    for _ in range(options.rounds):
        for name, search in searches.items():
            jax.clear_caches()
            begin = time.perf_counter()
            found[name] = search().fit(x, y)
            times[name].append(time.perf_counter() - begin)
    print("search               seconds  ratio  best rate  its accuracy")
    base = float(np.median(times["together"]))
    for name, seconds in times.items():
        middle, best = float(np.median(seconds)), found[name]
        rate = best.best_params_["module__rate"]
        print(f"{name:20} {middle:7.1f} {middle / base:6.2f} {rate:10.1f} {best.best_score_:13.4f}")
    scores = [found[name].cv_results_["mean_test_score"] for name in ("together", "one after the other")]
    print(f"largest difference of two scores: {np.abs(scores[0] - scores[1]).max():.4f}")


if __name__ == "__main__":
    main()
