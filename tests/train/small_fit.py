"""`train.fit` of one weight on small data, and ways to end it before its end."""

import contextlib
import signal

import numpy as np
import optax
import pytest

from funcnet import functional as F
from funcnet import nn, train
from funcnet.data import IterableDataset

__all__ = ["CLOCK", "Stream", "died_after", "fit", "losses", "quick", "row", "same", "stopped_after"]

CLOCK = ("examples_per_second", "data_wait_share")


def row(number):
    """An example from which the loss tells in which order the rows came."""
    return {"x": np.array([1 + number % 7], np.float32), "y": np.array([number], np.float32)}


class Stream(IterableDataset):
    """Rows without a length. Workers read their shares."""

    def __init__(self, count=10):
        self.count = count

    def __iter__(self):
        from funcnet.data import get_worker_info

        info = get_worker_info()
        for number in range(self.count)[slice(None) if info is None else slice(info.id, None, info.num_workers)]:
            yield row(number)


def loss(model, batch):
    return F.mse_loss(model(batch["x"]), batch["y"], reduction="none")


def fit(folder, data, **options):
    """Fit y = w x + b; every step is logged."""
    given = {"batch_size": 3, "log_every": 1, "save_every": 0, "evaluate_every": 0, "resume": True} | options
    if "epochs" not in given:
        given.setdefault("steps", 8)
    net, loss_of = given.pop("net", nn.Linear(1, 1)), given.pop("loss", loss)
    optimizer = given.pop("optimizer", optax.sgd(1e-3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("funcnet.train.trials.draw_report", lambda *_, **__: None)  # it takes half of the time
        return train.fit(net, loss_of, data, optimizer, out=folder, **given)


def losses(fitted):
    """[(step, loss)] and what else was measured at the step."""
    return [{name: value for name, value in row.items() if name not in CLOCK} for row in fitted.rows]


def same(ours, theirs):
    """Whether two runs have the same bits: metrics of every step, and parameters."""
    both = zip(ours.params.items(), theirs.params.items(), strict=True)
    arrays = all(a == b and np.asarray(x).tobytes() == np.asarray(y).tobytes() for (a, x), (b, y) in both)
    return arrays and losses(ours) == losses(theirs)


def quick(names, *kept):
    """Parameters of which only some are tested in the gate, because each takes about a second."""
    return [pytest.param(name, marks=() if name in kept else pytest.mark.slow) for name in names]


class DiedError(Exception):
    """The end of a process, as far as its files are concerned."""


@contextlib.contextmanager
def after_step(act):
    original = train.TrainingProgress.after_step

    def after(self, number):
        original(self, number)
        act(number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train.TrainingProgress, "after_step", after)
        yield


@contextlib.contextmanager
def died_after(step):
    """The run ends with an error when `step` is finished, without a new checkpoint."""

    def die(number):
        if number == step:
            raise DiedError

    with after_step(die), pytest.raises(DiedError):
        yield


@contextlib.contextmanager
def stopped_after(step):
    """The process gets SIGTERM when `step` is finished, and saves a checkpoint."""
    stop = lambda number: number == step and signal.raise_signal(signal.SIGTERM)
    with after_step(stop), pytest.raises(SystemExit):
        yield
