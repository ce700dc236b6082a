"""The choice between reading in the calling thread, in threads and in processes."""

from __future__ import annotations

from multiprocessing.context import BaseContext

from funcnet.data.inline import InlineWorkers
from funcnet.data.processes import ProcessWorkers
from funcnet.data.threads import ThreadWorkers
from funcnet.data.worker import Fetcher, InitFn, Workers

__all__ = ["Context", "make_workers"]

Context = str | BaseContext | None  # how worker processes start: a method such as "spawn"; None for threads


def make_workers(fetcher: Fetcher, count: int, init_fn: InitFn | None, context: BaseContext | None) -> Workers:
    """Return the workers of a `DataLoader`.

    Args:
        fetcher: object that makes the batches.
        count: number of workers. With 0, the calling thread reads.
        init_fn: function that each worker calls first, with its number.
        context: context of `multiprocessing` that starts processes, or None for threads.

    Raises:
        TypeError: if the workers are processes, and the dataset cannot be pickled.
    """
    if not count:
        return InlineWorkers(fetcher)
    if context is None:
        return ThreadWorkers(fetcher, count, init_fn=init_fn)
    return ProcessWorkers(fetcher, count, init_fn=init_fn, context=context)
