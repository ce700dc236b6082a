"""A net and data for the tests of estimators."""

import numpy as np
from sklearn.datasets import load_digits, load_iris

from funcnet import functional as F
from funcnet import nn

__all__ = ["Net", "digits", "iris"]


class Net(nn.Module):
    def __init__(self, in_features=64, out_features=10, units=30, rate=0.2):
        super().__init__()
        self.hidden, self.drop = nn.Linear(in_features, units), nn.Dropout(rate)
        self.out = nn.Linear(units, out_features)

    def forward(self, x):
        return self.out(self.drop(F.relu(self.hidden(x))))


def digits(count=600):
    x, y = load_digits(return_X_y=True)
    return (x[:count] / 16).astype(np.float32), y[:count]


def iris():
    """The measurements, standardised, and the names of the species."""
    data = load_iris()
    x = (data.data - data.data.mean(0)) / data.data.std(0)
    return x.astype(np.float32), data.target_names[data.target]
