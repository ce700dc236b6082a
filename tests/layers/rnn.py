"""Rows of `rnn`: see row.py. Time comes before batch, as in the states."""

import numpy as np

from tests.layers.row import Row

STEPS = (3e-6, "eight steps over sums of a few products, each rounded to float32, through tanh and σ")


def sequence(steps: int, width: int, *states: tuple[int, int]):
    """(steps, batch, width), and then hx, states of (count, batch, size): one array, or a pair."""

    def make(batch: int):
        random = np.random.default_rng(batch)
        x, *hx = (random.normal(size=(n, batch, size)).astype(np.float32) for n, size in ((steps, width), *states))
        return [x, *([tuple(hx)] if len(hx) == 2 else hx)]

    return make


def single(width: int, *sizes: int):
    """(batch, width), and then hx, states of (batch, size)."""

    def make(batch: int):
        random = np.random.default_rng(batch)
        x, *hx = (random.normal(size=(batch, size)).astype(np.float32) for size in (width, *sizes))
        return [x, *([tuple(hx)] if len(hx) == 2 else hx)]

    return make


ROWS = [
    Row(
        "LSTM", (3, 4, 2), sequence(5, 3, (4, 2), (4, 4)), STEPS, {"bidirectional": True, "proj_size": 2}, batch_axis=1
    ),
    Row("LSTM", (3, 4), sequence(8, 3), STEPS, {"bias": False}, batch_axis=1),
    Row("GRU", (3, 4, 2), sequence(5, 3, (4, 4)), STEPS, {"bidirectional": True}, batch_axis=1),
    Row("GRU", (3, 4), sequence(8, 3), STEPS, {"bias": False}, batch_axis=1),
    Row("RNN", (3, 4, 2), sequence(5, 3, (4, 4)), STEPS, {"bidirectional": True}, batch_axis=1),
    Row("RNN", (3, 4), sequence(8, 3), STEPS, {"bias": False, "nonlinearity": "relu"}, batch_axis=1),
    Row("LSTMCell", (3, 4), single(3, 4, 4), STEPS),
    Row("LSTMCell", (3, 4), single(3), STEPS, {"bias": False}),
    Row("GRUCell", (3, 4), single(3, 4), STEPS),
    Row("GRUCell", (3, 4), single(3), STEPS, {"bias": False}),
    Row("RNNCell", (3, 4), single(3, 4), STEPS),
    Row("RNNCell", (3, 4), single(3), STEPS, {"bias": False, "nonlinearity": "relu"}),
]
