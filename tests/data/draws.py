"""Datasets that draw random numbers, for the tests of loaders. Worker processes import this file."""

import random

import numpy as np

from funcnet import data

__all__ = ["Drawing", "DrawingOfPython", "DrawingOfTorch", "DrawingWhole", "GloballyDrawing", "StreamOfDraws"]


class Drawing(data.Dataset):
    """(index, two draws, as two transforms make them)."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        first = data.item_rng().random()
        return np.array([index, first, data.item_rng().random()])


class DrawingWhole(Drawing):
    """The same, a batch at a time."""

    def __getitems__(self, indices):
        draws = [(data.item_rng(row).random(), data.item_rng(row).random()) for row in range(len(indices))]
        return np.array([(index, *pair) for index, pair in zip(indices, draws, strict=True)])


class GloballyDrawing(Drawing):
    def __getitem__(self, index):
        return np.random.rand()  # noqa: NPY002


class DrawingOfPython(Drawing):
    def __getitem__(self, index):
        return random.random()


class DrawingOfTorch(Drawing):
    def __getitem__(self, index):
        import torch

        return float(torch.rand(()))


class StreamOfDraws(data.IterableDataset):
    """The share of the worker, each number with a draw."""

    def __init__(self, size):
        self.size = size

    def __iter__(self):
        info = data.get_worker_info()
        for number in range(self.size) if info is None else range(info.id, self.size, info.num_workers):
            yield np.array([number, data.item_rng().random()])
