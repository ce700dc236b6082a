"""Iterable datasets for the tests of loaders. Worker processes import this file, so it imports nothing large."""

from funcnet import data

__all__ = ["Around", "Asking", "AskingTorch", "Counting", "Growing", "GrowingReader", "Resetting", "Silent"]


class Silent(data.IterableDataset):
    """Numbers below `size`, the same ones in each worker."""

    def __init__(self, size):
        self.size = size

    def __iter__(self):
        yield from range(self.size)


class Asking(Silent):
    """The share of the worker."""

    def __iter__(self):
        info = data.get_worker_info()
        yield from range(self.size) if info is None else range(info.id, self.size, info.num_workers)


class AskingTorch(Silent):
    """The share of the worker, of which torch is asked. Torch is imported here."""

    def __iter__(self):
        import torch.utils.data

        info = torch.utils.data.get_worker_info()
        yield from range(self.size) if info is None else range(info.id, self.size, info.num_workers)


class Counting(Silent):
    """The share of the worker, with a state of its own, which stays at the end."""

    row = begin = 0

    def __iter__(self):
        info = data.get_worker_info()
        own = range(self.size) if info is None else range(info.id, self.size, info.num_workers)
        self.row, self.begin = self.begin, 0
        while self.row < len(own):
            self.row += 1
            yield own[self.row - 1]

    def state_dict(self):
        return {"row": self.row}

    def load_state_dict(self, state):
        self.begin = state["row"]


class Resetting(Counting):
    """Sets its state back when it ends."""

    def __iter__(self):
        yield from super().__iter__()
        self.row = 0


class Growing(Silent):
    """Yields other rows in each epoch, which it counts in its own state. It sets back the row at its end."""

    row = epochs = 0

    def __iter__(self):
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        while first + step * self.row < self.size:
            self.row += 1
            yield 100 * self.epochs + first + step * (self.row - 1)
        self.row, self.epochs = 0, self.epochs + 1

    def state_dict(self):
        return {"row": self.row, "epochs": self.epochs}

    def load_state_dict(self, state):
        self.row, self.epochs = state["row"], state["epochs"]


class GrowingReader(Growing):
    """The same, but each iterator begins an epoch, unless a state has been loaded, which may say that it has ended."""

    is_loaded = False

    def __iter__(self):
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        if not self.is_loaded:
            self.row, self.epochs = 0, self.epochs + 1
        self.is_loaded = False
        while first + step * self.row < self.size:
            self.row += 1
            yield 100 * self.epochs + first + step * (self.row - 1)

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.is_loaded = True


class Around(data.IterableDataset):
    """Reads another dataset, to which it passes its state on."""

    def __init__(self, inner):
        self.inner = inner

    def __iter__(self):
        yield from self.inner

    def state_dict(self):
        return {"inner": self.inner.state_dict()}

    def load_state_dict(self, state):
        self.inner.load_state_dict(state["inner"])
