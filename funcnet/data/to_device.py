"""Put batches on the devices before the step that uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from funcnet.arguments import integer, shown
from funcnet.data.checks import require_iterable
from funcnet.data.padded import pad_batch
from funcnet.data.prefetch import Prefetcher

__all__ = ["prefetch_to_device"]


class BatchLayout(Protocol):
    """The attributes and methods of `funcnet.parallel.Layout` that `prefetch_to_device` uses."""

    @property
    def batch_parts(self) -> int:
        """The number of equal parts that a batch is divided into."""

    def shard(self, batch: object) -> Any:
        """Put a batch on the devices."""


def prefetch_to_device(
    loader: Iterable[Any], layout: BatchLayout | None = None, *, depth: int = 2, batch_size: int | None = None
) -> Prefetcher[Any]:
    """Return an iterator over (batch, mask), both on the devices. While a training step runs, a thread copies later
    batches to the devices.

    All batches have the same number of rows. A smaller batch, usually the last one of an epoch, is filled with copies
    of its first row. The mask is True for the rows of the loader and False for the copies. A jitted function is
    therefore compiled once, and no row is lost.

    Args:
        loader: a `DataLoader`, or any iterable of batches of arrays (B, …).
        layout: layout of `funcnet.parallel`, which divides each batch among the devices. If None, each batch is copied
            to JAX's default device.
        depth: number of batches to put on the devices in advance.
        batch_size: number of rows, B. The default is the batch size of the loader. B is rounded up to a multiple of the
            number of parts that `layout` divides a batch into.

    Returns:
        A `Prefetcher` of (batch, mask). The mask is a (B,) bool array that is True for rows from the loader and False
        for the copies. `state_dict()` of the prefetcher returns the position after the batch that was yielded last, in
        the form that `DataLoader.load_state_dict` accepts. To end the thread, use the prefetcher in a `with` statement,
        or call `close`.

    Raises:
        TypeError: if an argument has the wrong type, or `loader` is a DataLoader of torch.
        ValueError: if neither `batch_size` nor the loader gives the number of rows, or a number is below 1. ValueError
            is also raised while iterating if a batch has more than B rows, or its arrays differ in their first
            dimension.

    Differs from torch: this function replaces `pin_memory` and `tensor.to(device, non_blocking=True)`.

    Example:
        >>> import numpy as np
        >>> from funcnet.data import DataLoader
        >>> with prefetch_to_device(DataLoader(np.arange(5), batch_size=3)) as batches:
        ...     [(batch.tolist(), mask.tolist()) for batch, mask in batches]
        [([0, 1, 2], [True, True, True]), ([3, 4, 3], [True, True, False])]
    """
    import jax  # imported here, because worker processes import funcnet.data and do not need JAX

    _check_loader(loader)
    if layout is not None and not (hasattr(layout, "batch_parts") and hasattr(layout, "shard")):
        raise TypeError(
            "prefetch_to_device: layout is not a layout; expected what funcnet.parallel.make_layout returns, or None, "
            f"got {shown(layout)}."
        )
    integer("prefetch_to_device", "depth", depth, 1)
    if batch_size is not None:
        integer("prefetch_to_device", "batch_size", batch_size, 1)
    size = batch_size or getattr(loader, "batch_size", None) or _size_of(getattr(loader, "batch_sampler", None))
    if size is None:
        raise ValueError(
            "prefetch_to_device: the number of rows is unknown; expected batch_size, or a loader that "
            f"has one, got {type(loader).__name__}."
        )
    parts = 1 if layout is None else layout.batch_parts
    rows = -(-size // parts) * parts
    place: Callable[[Any], Any] = jax.device_put if layout is None else layout.shard

    def transfer(batch: object) -> Any:
        padded, mask = pad_batch(batch, rows)
        return place(padded), place(mask)

    position = getattr(loader, "state_dict", None)
    return Prefetcher(loader, transfer=transfer, depth=depth, position=position)


def _check_loader(loader: object) -> None:
    require_iterable("prefetch_to_device", "loader", loader, "a DataLoader or another iterable of batches")
    if any(base.__module__.startswith("torch.") and base.__name__ == "DataLoader" for base in type(loader).__mro__):
        raise TypeError(
            "prefetch_to_device: loader is of torch, so its batches are tensors, and its position cannot be saved; "
            "expected a funcnet.data.DataLoader, got a torch.utils.data.DataLoader. Write "
            "funcnet.data.DataLoader(loader.dataset, …)."
        )


def _size_of(batch_sampler: object) -> int | None:
    size = getattr(batch_sampler, "batch_size", None)
    return size if isinstance(size, int) else None
