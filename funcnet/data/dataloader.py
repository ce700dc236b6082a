"""A loader that reads batches in the order of a sampler, in the calling thread or in workers, from any position.

B is the batch size, and N is the number of items of a map-style dataset.
"""

from __future__ import annotations

import itertools
import operator
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from funcnet.arguments import function, integer
from funcnet.data.checks import refuse_generator
from funcnet.data.collate import default_collate, default_convert
from funcnet.data.describe import describe
from funcnet.data.endless import EndlessLoader
from funcnet.data.fetch import IterableFetcher, MapFetcher, Rows
from funcnet.data.gather import Items, items_of
from funcnet.data.global_draws_warning import DrawsWarning
from funcnet.data.hashed_draws import draw_bits
from funcnet.data.iterator import BatchIterator, Keep, PlannedTask, Position, StreamIterator
from funcnet.data.loader_arguments import (
    check_arguments,
    check_context,
    check_types,
    check_unchanged,
    is_iterable_style,
    refuse_override,
    require_steps,
    warn_of_length,
)
from funcnet.data.make_workers import Context, make_workers
from funcnet.data.plan import BatchPlan, IteratedPlan, make_plan, smallest_size
from funcnet.data.positions import check_position, states_after, stream_position
from funcnet.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from funcnet.data.sharing import has_own_state, own_copy
from funcnet.data.worker import Fetcher, Workers

__all__ = ["DataLoader"]

FIXED = ("dataset", "batch_size", "sampler", "batch_sampler", "drop_last", "persistent_workers")


class DataLoader:
    """Loads the batches of a dataset. Each `for batch in loader` is the next epoch.

    A batch is nested like the items. Its leaves are NumPy arrays, or JAX arrays if the items contain JAX arrays. A
    dataset with `__getitems__` returns complete batches, so no Python code runs per item. This also holds for arrays,
    memory maps, Arrow tables and Hugging Face's `datasets`.

    Args:
        dataset: a map-style dataset, which has `__getitem__` and usually `__len__`, or an iterable dataset. If the
            dataset has `at_epoch`, each epoch reads from `dataset.at_epoch(epoch)`, which must have the same length.
        batch_size: number of items per batch, B. With None, each item is converted and yielded alone.
        shuffle: if True, each epoch uses a different random permutation.
        sampler: iterable of indices, to use instead of `shuffle`.
        batch_sampler: iterable of lists of indices, instead of `batch_size`, `shuffle`, `sampler` and `drop_last`.
        num_workers: number of workers that read batches in advance. With 0, the calling thread reads the batches.
        collate_fn: function that turns a list of items into a batch. Without batching, it receives one item. The
            default is `default_collate`, or `default_convert` without batching.
        pin_memory: accepted but ignored, because JAX copies to a device from any memory.
        drop_last: if True, omit a last batch smaller than B, for which a jitted step would be compiled again.
        timeout: number of seconds to wait for a batch from the workers; 0 waits without limit.
        worker_init_fn: function that each worker calls with its number before it reads.
        multiprocessing_context: None makes the workers threads. "spawn", "forkserver", or a `multiprocessing` context
            with one of these start methods makes them processes.
        generator: must be None. Pass `seed` instead.
        seed: seed of the order, and of the workers (see `get_worker_info`).
        prefetch_factor: number of batches that each worker reads in advance; default 2.
        persistent_workers: if True, the workers are kept from one pass to the next.
        in_order: if False, a batch is yielded as soon as any worker has made it.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or value, or contradicts another.

    While iterating:
        RuntimeError: if the workers exceed `timeout`, or a worker process dies.
        Exception: any exception of the dataset or of `collate_fn`. The notes of the exception name the items, the
            dataset and the worker. After the exception, the next batch of a map-style dataset can still be read.

    Differs from torch: workers are threads by default, which suits code that releases the GIL, such as NumPy, Pillow
    and file access. Use processes for datasets in pure Python. Workers are never forked, because a fork of a process
    that runs JAX can deadlock. The order depends only on `seed`, which is 0 by default, and on the epoch number.

    Example:
        >>> import numpy as np
        >>> from funcnet.data import TensorDataset
        >>> loader = DataLoader(TensorDataset(np.arange(5), np.arange(5) * 10), batch_size=2)
        >>> [(x.tolist(), y.tolist()) for x, y in loader]
        [([0, 1], [0, 10]), ([2, 3], [20, 30]), ([4], [40])]

        Stop anywhere, and continue in another process:

        >>> first = DataLoader(np.arange(10), batch_size=4, shuffle=True, seed=1)
        >>> batch = next(iter(first))
        >>> again = DataLoader(np.arange(10), batch_size=4, shuffle=True, seed=1)
        >>> again.load_state_dict(first.state_dict())
        >>> sorted([*batch.tolist(), *(i for rest in again for i in rest.tolist())])
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]

    Reference: torch.utils.data.DataLoader
    """

    _is_ready = False

    def __init__(
        self,
        dataset: Items | Iterable[Any],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Context = None,
        generator: None = None,
        *,
        seed: int = 0,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        in_order: bool = True,
    ):
        refuse_generator("DataLoader", generator)
        self.is_iterable = is_iterable_style(dataset)
        flags = {"drop_last": drop_last, "persistent_workers": persistent_workers, "in_order": in_order}
        functions = {"collate_fn(items)": collate_fn, "worker_init_fn(worker)": worker_init_fn}
        check_arguments(
            dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, drop_last, timeout, prefetch_factor,
            persistent_workers, is_iterable=self.is_iterable,
        )  # fmt: skip
        check_types(seed, functions, {**flags, "pin_memory": pin_memory})
        self.multiprocessing_context = check_context(multiprocessing_context, num_workers)
        self.dataset, self.num_workers, self.timeout, self.seed = dataset, int(num_workers), timeout, int(seed)
        self.worker_init_fn, self.persistent_workers, self.in_order = worker_init_fn, persistent_workers, in_order
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        if sampler is None and not self.is_iterable and batch_sampler is None:
            sized = items_of(dataset)
            sampler = RandomSampler(sized, seed=self.seed) if shuffle else SequentialSampler(sized)  # type: ignore[arg-type]
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None and sampler is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last, self.pin_memory = batch_size, drop_last, pin_memory
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self._smallest = smallest_size(sampler, batch_sampler, drop_last)
        self._rows: Rows = None
        self._batched = batch_sampler is not None or (self.is_iterable and batch_size is not None)
        self._gathers = collate_fn is None
        self.collate_fn = collate_fn or (default_collate if self._batched else default_convert)
        self._about = {"dataset": describe(dataset)}
        self._plan: BatchPlan = IteratedPlan(()) if self.is_iterable else make_plan(sampler or (), batch_sampler)
        self._current: Position = {}
        self._resumed: Position | None = None
        self._reported: int | None = None  # what len() of an iterable dataset returned
        self._kept: Workers | None = None  # persistent workers
        self._warn_of_draws = DrawsWarning(self._about["dataset"])
        self._newest: Any = None  # weak reference to the newest iterator of persistent workers
        self._is_ready = True

    def __setattr__(self, name: str, value: object) -> None:
        if self._is_ready and name in FIXED:
            raise ValueError(f"{name} attribute should not be set after DataLoader is initialized.")
        super().__setattr__(name, value)

    def __len__(self) -> int:
        """Return the number of batches in an epoch. For an iterable dataset, this is an estimate from its length."""
        if not self.is_iterable:
            return self._plan.count()
        count, size = len(self.dataset), self.batch_size or 1  # type: ignore[arg-type]
        self._reported = count
        return count // size if self.drop_last else -(-count // size)

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over the batches of the next epoch, or of the rest of it after `load_state_dict`."""
        resumed, self._resumed = self._resumed, None
        epoch = self._plan.next_epoch()
        if resumed is not None and resumed["epoch"] != epoch:  # set_epoch has chosen another epoch since
            resumed = None
        if self.is_iterable:
            resumed = self._current if self._current.get("epoch") == epoch else None  # or at the end of a pass
            return self._stream(self.dataset, epoch, resumed, self._keep)
        if self._plan.length and self._plan.count() == 0:
            warnings.warn(
                "DataLoader: an epoch has no batch, because drop_last=True omits it; expected at least "
                f"{self._smallest} items, got {self._about['dataset']}.",
                UserWarning,
                stacklevel=2,
            )
        start = 0 if resumed is None else resumed[self._plan.unit]
        self._keep({"epoch": epoch, self._plan.unit: start})
        return self._read(self._planned(epoch, start), self._keep, epoch)

    def epoch(self, number: int = 0) -> Iterator[Any]:
        """Return an iterator over all batches of one epoch, which does not change the position of the loader."""
        number = integer("DataLoader.epoch", "number", number, 0)
        refuse_override(self, DataLoader, "epoch")
        if self.is_iterable:
            return self._stream(own_copy(self.dataset), number, None, lambda position: None)
        if operator.length_hint(self, -1) < 0:  # a sampler without a length
            return self._read(self._planned(number, 0), lambda position: None, number)
        return self.batches(number * len(self), (number + 1) * len(self))

    def batches(self, start: int = 0, stop: int | None = None) -> Iterator[Any]:
        """Return an iterator over the batches of steps `start` to `stop` (exclusive). Without `stop`, the iterator is
        endless.

        Steps are counted from 0 over all epochs. This iterator does not change the position of the loader.

        Raises:
            ValueError: if `start` is negative, or an epoch has no batch.
            TypeError: if the dataset is iterable.
        """
        require_steps(self.is_iterable, self._about["dataset"])
        refuse_override(self, DataLoader, "batches")
        start = integer("DataLoader.batches", "start", start, 0)
        stop = None if stop is None else integer("DataLoader.batches", "stop", stop)
        self.require_batches()
        return self._read(self._steps(start, stop), lambda position: None, start // len(self))

    def endless(self) -> EndlessLoader:
        """Return an iterator over the batches of this and all later epochs, from the loader's position on.

        The iterator has `state_dict()`. To begin at a step, call `load_state_dict(loader.position(step))` first.

        Raises:
            ValueError: if an epoch has no batch.
        """
        self.require_batches()
        return EndlessLoader(self)

    def read_rows(self, rows: Rows) -> None:
        """Make later iterators read only the rows `rows(n)` of each batch of n rows. If `rows` is None, later iterators
        read all rows. The position of the loader still counts complete batches.
        """
        if rows is not None:
            function("DataLoader.read_rows", "rows", rows, "rows(n)")
        self._rows = rows

    def position(self, step: int) -> Position:
        """Return the loader's position before the batch of a step. Steps are counted from 0 over all epochs. The only
        step of an iterable dataset is 0. For other steps, a TypeError is raised.
        """
        step = integer("DataLoader.position", "step", step, 0)
        if self.is_iterable:
            if step:
                raise TypeError(f"DataLoader: an iterable dataset has no steps; expected step 0, got {step}.")
            return {**self.state_dict(), "epoch": 0, "turn": 0, "workers": None}
        epoch, number = divmod(step, max(1, len(self))) if step else (0, 0)
        return {**self.state_dict(), "epoch": epoch, self._plan.unit: self._plan.position_of(number)}

    def require_batches(self) -> None:
        """Raise a ValueError if an epoch is known to have no batch."""
        if not self.is_iterable and operator.length_hint(self, 1) < 1:
            raise ValueError(
                f"DataLoader: the dataset is smaller than one batch; expected at least {self._smallest} items, "
                f"got {describe(self.dataset)}."
            )

    def batch(self, step: int) -> Any:
        """Return the batch of a step. With a sampler of `funcnet.data`, the cost is the same for every step."""
        return next(iter(self.batches(step, step + 1)))

    def state_dict(self) -> Position:
        """Return the position after the batch that was yielded last, as a dict of JSON values.

        For a map-style dataset, the position does not depend on the number of workers or processes. With a sampler of
        `funcnet.data`, it does not depend on the batch size either. For an iterable dataset, the position contains
        what `dataset.state_dict()` returns in each worker, or the number of items that each worker skips.

        Returns:
            A dict. Its entry "resumes" says how a loader reaches the position: "position" (directly), "state" (by
            loading the state of the dataset), or "skipping" (by skipping everything before the position).

        Raises:
            ValueError: if `in_order` is False and there are workers, because the position is then unknown.
        """
        if not self.in_order and self.num_workers:
            raise ValueError(
                "DataLoader: batches out of order have no exact position; expected in_order=True, got in_order=False."
            )
        if self.is_iterable:
            current = self._current or {"epoch": self._plan.epoch, "turn": 0, "workers": None}
            return {**current, **self._about, "resumes": "state" if has_own_state(self.dataset) else "skipping"}
        current = self._current or {"epoch": self._plan.epoch, self._plan.unit: 0}
        entries = self._plan.state(current["epoch"])
        return {**current, **entries, **self._order(), "resumes": self._plan.resumes}

    def load_state_dict(self, state: Position) -> None:
        """Continue at a position from `state_dict`: the next `iter(loader)` yields the rest of that epoch.

        Raises:
            ValueError: if the position is incomplete or out of range, or was saved with a different dataset, seed,
                length or order, or, inside an epoch of an iterable dataset, with another number of workers.
            TypeError: if `state` is not a dict.
        """
        if self.is_iterable:
            self._current = stream_position(state, self._about, self._count, self._outlives, self.dataset)
        else:
            check_position(state, self._order(), self._plan.unit)
            self._current = {name: state[name] for name in ("epoch", self._plan.unit)}
        self._resumed = dict(self._current)
        self._plan.resume(state)

    def _order(self) -> dict[str, Any]:
        """Return the entries that must be the same in a saved position and in this loader, such as the seed."""
        plan = self._plan
        return {"seed": plan.seed, "length": plan.length, "order": plan.name, **self._about}

    def _keep(self, position: Position) -> None:
        self._current = position

    def _planned(self, epoch: int, start: int) -> Iterator[PlannedTask]:
        check_unchanged(self.dataset, self._about["dataset"])
        for step in self._plan.steps(epoch, start):
            done = step.position is None
            yield PlannedTask(
                (epoch, step.indices, step.places),
                {"epoch": epoch + done, self._plan.unit: 0 if done else step.position},
            )

    def _steps(self, step: int, stop: int | None) -> Iterator[PlannedTask]:
        """Yield the tasks that make the batches of steps `step` to `stop` (exclusive)."""
        while stop is None or step < stop:
            epoch, number = divmod(step, len(self))
            if self._plan.resumes == "skipping":
                self._plan.set_epoch(epoch)
            check_unchanged(self.dataset, self._about["dataset"])
            left = None if stop is None else stop - step
            for planned in itertools.islice(self._plan.steps(epoch, self._plan.position_of(number)), left):
                yield PlannedTask((epoch, planned.indices, planned.places), {})
                step += 1

    def _read(self, planned: Iterator[PlannedTask], keep: Keep, epoch: int) -> Any:
        """Return an iterator over the planned batches of an epoch, and start the workers that read them."""
        fetcher = MapFetcher(
            self.dataset, self.collate_fn, batched=self._batched, gathers=self._gathers, seed=self.seed, rows=self._rows
        )
        workers = self._begin(fetcher, epoch, [None] * self._count)
        return self._taken_over(BatchIterator(workers, self._count, planned, keep, **self._options()))

    def _stream(self, dataset: Any, epoch: int, resumed: Position | None, store: Keep) -> Any:
        """Return an iterator over the batches of one pass of an iterable dataset."""
        fetcher = IterableFetcher(
            dataset, self.collate_fn, batch_size=self.batch_size, drop_last=self.drop_last, seed=self.seed
        )
        states = (resumed and resumed["workers"]) or [None] * self._count
        turn = resumed["turn"] if resumed else 0

        def keep(states: Sequence[Any], turn: int | None) -> None:
            if turn is None:  # the end of the pass, which is the start of the next one
                store({"epoch": epoch + 1, "turn": 0, "workers": states_after(states) if self._outlives else None})
                return
            warn_of_length(self._about["dataset"], self._reported, sum(state["items"] for state in states if state))
            store({"epoch": epoch, "turn": turn, "workers": list(states)})

        keep(states, turn)
        workers = self._begin(fetcher, epoch, states)
        return self._taken_over(StreamIterator(workers, states, turn, keep, **self._options()))

    @property
    def _outlives(self) -> bool:
        """Whether the workers keep their datasets after a pass. New workers have new copies."""
        return not self.num_workers or self.persistent_workers

    def _begin(self, fetcher: Fetcher, epoch: int, states: Sequence[Any]) -> Workers:
        """Return the workers of the loader, new or persistent, after they have begun to read epoch `epoch`."""
        workers = self._kept
        if workers is None:
            workers = make_workers(fetcher, self.num_workers, self.worker_init_fn, self.multiprocessing_context)
        if self.persistent_workers:
            self._kept = workers
        workers.begin(epoch, int(draw_bits(self.seed, epoch)[()] >> np.uint64(33)), states)  # below 2**31
        return workers

    def _taken_over(self, iterator: BatchIterator | StreamIterator) -> Any:
        """Return `iterator`, after it has taken over the persistent workers of the previous iterator."""
        if self.persistent_workers:
            older = self._newest and self._newest()
            if older is not None:
                older.hand_over()
            self._newest = weakref.ref(iterator)
        return iterator

    @property
    def _count(self) -> int:
        return max(1, self.num_workers)

    def _options(self) -> dict[str, Any]:
        depth = max(1, self.prefetch_factor or 0) if self.num_workers else 0
        options = {"in_order": self.in_order, "persistent": self.persistent_workers, "on_draws": self._warn_of_draws}
        return {"depth": depth, "timeout": float(self.timeout), **options}
