"""The sampler for several processes, each of which reads its share of a dataset."""

from __future__ import annotations

import sys
from collections.abc import Sized

import numpy as np
from numpy.typing import NDArray

from funcnet.arguments import boolean, integer
from funcnet.data.hashed_draws import permute
from funcnet.data.sampler import OrderedSampler, require_sized

__all__ = ["DistributedSampler"]


class DistributedSampler(OrderedSampler):
    """Yields the indices for one of several processes that together read the dataset.

    Process r of R reads the positions r, r + R, r + 2R, … of the epoch's order. All processes read the same number
    of items. If the items cannot be divided equally, the first ones are repeated at the end, or the last ones are
    dropped.

    Args:
        dataset: the dataset, or any object with a length.
        num_replicas: number of processes; default `jax.process_count()`.
        rank: number of this process; default `jax.process_index()`.
        shuffle: if True, each epoch uses a different random permutation.
        seed: seed of the permutations, the same in all processes.
        drop_last: if True, drop the last items instead of repeating the first ones.

    Raises:
        ValueError: if `rank` is not in [0, num_replicas).
        TypeError: if an argument has the wrong type.

    Differs from torch: each `iter(sampler)` is the next epoch, so the order changes from epoch to epoch even without
        `set_epoch`.

    Example:
        >>> [list(DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in range(2)]
        [[0, 2, 4], [1, 3, 0]]

    Reference: torch.utils.data.distributed.DistributedSampler
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ):
        if num_replicas is None or rank is None:
            jax = sys.modules.get("jax")  # if JAX is not imported, there is only this process
            num_replicas = (jax.process_count() if jax else 1) if num_replicas is None else num_replicas
            rank = (jax.process_index() if jax else 0) if rank is None else rank
        require_sized("DistributedSampler", "dataset", dataset)
        integer("DistributedSampler", "num_replicas", num_replicas, 1)
        integer("DistributedSampler", "rank", rank)
        integer("DistributedSampler", "seed", seed)
        for name, flag in {"shuffle": shuffle, "drop_last": drop_last}.items():
            boolean("DistributedSampler", name, flag)
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"DistributedSampler: Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]."
            )
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last

    @property
    def size(self) -> int:
        return len(self.dataset)

    def order(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return permute(positions, self.size, seed=self.seed, epoch=epoch) if self.shuffle else positions

    def share(self, start: int = 0) -> int:
        left = self.size - start
        return left // self.num_replicas if self.drop_last else -(-left // self.num_replicas)
