"""Datasets for the tests of loaders. Worker processes import this file, so it imports nothing large."""

import os
import time

import numpy as np

from funcnet import data

__all__ = [
    "Failing",
    "Numbers",
    "Odd",
    "Sleeping",
    "Unbuildable",
    "Waiting",
    "leave",
    "open_files",
    "processes_of",
    "refuse",
]


class Numbers:
    """(index, worker, 64 kB that contain the index)."""

    def __init__(self, size, words=16_384):
        self.size, self.words = size, words

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        info = data.get_worker_info()
        return index, -1 if info is None else info.id, np.full(self.words, index, np.int32)


class Unbuildable(Exception):
    """An exception that pickle cannot rebuild."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class Failing(Numbers):
    """Raises an exception at some indices."""

    def __getitem__(self, index):
        if index == 5:
            raise KeyError("no item 5")
        if index == 6:
            raise Unbuildable("this", "that")
        if index == 9:
            raise StopIteration
        return super().__getitem__(index)[0]


class Odd(Numbers):
    """Items that do not fit together."""

    def __getitem__(self, index):
        return np.zeros(2 if index != 6 else 3, np.float32 if index != 2 else np.float64)


class Sleeping(Numbers):
    """Never returns item 3."""

    def __getitem__(self, index):
        while index == 3:
            time.sleep(0.05)
        return index


class Waiting(Numbers):
    """Takes a while for each item."""

    def __getitem__(self, index):
        time.sleep(0.002)
        return os.getpid()


def refuse(worker):
    """A worker_init_fn that fails."""
    raise RuntimeError(f"worker {worker} refuses")


def leave(worker):
    """A worker_init_fn that ends the process."""
    os._exit(3)


def open_files():
    """The number of open file descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


def processes_of(parent):
    """The ids of the child processes of a process that are alive."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    state, above = file.read().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if int(above) == parent and state != "Z":
                found.append(int(entry))
    return found
