"""Builds shards of pairs from shards of tokens. In each pass, all shards are first cut into pairs. Then each shard
draws random partners from all shards.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from funcnet.tasks.pretraining_data.build_state import BuildState
from funcnet.tasks.pretraining_data.manifest import DataFiles
from funcnet.tasks.pretraining_data.pairs import AllCuts, Cuts, check_enough_documents, cut_documents, join_partners
from funcnet.tasks.pretraining_data.shard import is_whole, read_shard, write_shard
from funcnet.tasks.pretraining_data.token_shards import read_token_shard

__all__ = ["write_pair_shards"]


@dataclass(frozen=True)
class _PairTask:
    """The task of a worker process that builds the pairs of one shard in one pass. `first_token` and `first_document`
    are the numbers of tokens and documents in earlier shards.
    """

    folder: Path
    origin: Mapping[str, str]
    seq_len: int
    number: int
    seed: int
    short_share: float
    shard: int
    shards: int
    first_token: int
    first_document: int

    @property
    def cuts(self) -> Path:
        return DataFiles(self.folder).cuts(self.seq_len, self.number, self.shard)

    @property
    def pairs(self) -> Path:
        return DataFiles(self.folder).pairs(self.seq_len, self.number, self.shard)


def write_pair_shards(build: BuildState) -> None:
    """Write the shards of pairs that are not complete, for all lengths and passes."""
    tasks = _tasks(build)
    open_passes: set[Any] = set()
    build.pool.run(_open_pass, ((task,) for task in tasks), done=open_passes.add)
    tasks = [task for task in tasks if (task.seq_len, task.number) in open_passes]
    count = len(tasks)
    build.run("pairs", _write_cuts, [(task,) for task in tasks], total=2 * count)
    _check_documents(build, tasks)
    build.run("pairs", _write_pairs, [(task,) for task in tasks], done=count, total=2 * count)


def _tasks(build: BuildState) -> list[_PairTask]:
    settings, origin, shards = build.settings, build.manifest.origin("pairs"), range(build.manifest.shards or 0)
    documents = [read_shard(build.files.shard("sentences", shard))[1]["documents"] for shard in shards]
    tokens = [len(read_shard(build.files.shard("tokens", shard))[0]["token"]) for shard in shards]
    first_token, first_document = (np.cumsum([0, *counts]).tolist() for counts in (tokens, documents))
    return [
        _PairTask(
            *(build.folder, origin, seq_len, number, settings.seed, settings.short_share),
            *(shard, len(shards), first_token[shard], first_document[shard]),
        )
        for seq_len in settings.seq_len
        for number in range(settings.pairs.passes)
        for shard in shards
    ]


def _check_documents(build: BuildState, tasks: list[_PairTask]) -> None:
    usable: set[int] = set()
    for task in tasks:
        usable |= set(np.unique(read_shard(task.cuts)[0]["document"]).tolist())
        if len(usable) > 1:
            return
    if tasks:
        last = read_shard(build.files.shard("sentences", tasks[-1].shard))[1]["documents"]
        check_enough_documents(len(usable), tasks[-1].first_document + last)


def _open_pass(task: _PairTask) -> tuple[int, int] | None:
    """Return the (row length, number) of the pass to which a task belongs, or None if the pairs of the task are already
    written.
    """
    return None if is_whole(task.pairs, task.origin) else (task.seq_len, task.number)


def _write_cuts(task: _PairTask) -> None:
    if not is_whole(task.cuts, task.origin):
        cuts = cut_documents(
            read_token_shard(task.folder, task.shard),
            seq_len=task.seq_len,
            seed=task.seed,
            number=task.number,
            short_share=task.short_share,
            shard=task.shard,
            first_token=task.first_token,
            first_document=task.first_document,
        )
        facts = {"lengths": cuts.lengths.tolist(), "counts": cuts.counts.tolist(), "draws": cuts.draws}
        write_shard(task.cuts, cuts.columns, task.origin, facts)


def _write_pairs(task: _PairTask) -> None:
    if not is_whole(task.pairs, task.origin):
        cuts = _read_cuts(task.folder, tuple(task.origin.values()), task.shards, task.seq_len, task.number)
        pairs = join_partners(cuts, task.shard, seq_len=task.seq_len, seed=task.seed, number=task.number)
        write_shard(task.pairs, pairs, task.origin)


@functools.lru_cache(maxsize=1)  # all shards of a pass need this result
def _read_cuts(folder: Path, made_from: tuple[str, ...], shards: int, seq_len: int, number: int) -> AllCuts:
    """Read the cuts (pairs before random partners are drawn) that `_write_cuts` wrote for all shards of a pass."""
    found = [read_shard(DataFiles(folder).cuts(seq_len, number, shard)) for shard in range(shards)]
    int64 = lambda values: np.array(values, np.int64)
    return AllCuts([Cuts(one, int64(had["lengths"]), int64(had["counts"]), had["draws"]) for one, had in found])
