"""What a build carries from stage to stage, and the look over what it made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from funcnet.tasks.pretraining_data.manifest import Directory, Progress, write_manifest
from funcnet.tasks.pretraining_data.process_pool import Workers
from funcnet.tasks.pretraining_data.settings import DataSettings
from funcnet.tasks.pretraining_data.shard import is_whole
from funcnet.text import Corpus
from funcnet.text.corpus import file_digest


@dataclass(frozen=True)
class Work:
    """A build.

    Attributes:
        folder: the data directory.
        settings, corpus: what it is made from.
        told: its manifest, which fills as stages end.
        workers, progress: see `build`.
    """

    folder: Path
    settings: DataSettings
    corpus: Corpus
    told: dict[str, Any]
    workers: Workers
    progress: Progress | None

    @property
    def files(self) -> Directory:
        return Directory(self.folder)

    def plan(self) -> dict[str, str]:
        return {"plan": self.told["plan"]}

    def made_from(self, name: str) -> dict[str, str]:
        """What a file follows from: documents from the plan alone, all others from the vocabulary too."""
        return self.plan() if name.startswith("documents") else {**self.plan(), "vocabulary": self.told["vocabulary"]}

    def write(self) -> None:
        write_manifest(self.folder, self.told)

    def tell(self, step: str, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(step, done, total)


def take_damaged_away(work: Work) -> list[str]:
    """The files of a complete directory that are not as they were written; they are deleted."""
    files = work.told["files"]
    found: list[str] = []
    seen = 0

    def note(answer: tuple[str, bool]) -> None:
        nonlocal seen
        name, good = answer
        seen += 1
        if not good:
            found.append(name)
        work.tell("looking over", seen, len(files))

    tasks = [_Look(work.folder, name, work.made_from(name), files[name]) for name in sorted(files)]
    work.workers.run(_look, tasks, done=note)
    for name in found:
        (work.folder / name).unlink(missing_ok=True)
    return sorted(found)


def describe_file(path: Path) -> dict[str, Any]:
    """The bytes of a file, and the SHA-256 of one that does not hold its own."""
    size = {"bytes": path.stat().st_size}
    return size if path.suffix == ".arrow" else {**size, "sha256": file_digest(path)}


@dataclass(frozen=True)
class _Look:
    folder: Path
    name: str
    made_from: dict[str, str]
    described: dict[str, Any]


def _look(task: _Look) -> tuple[str, bool]:
    path = task.folder / task.name
    good = path.is_file() and describe_file(path) == task.described
    return task.name, good and (path.suffix != ".arrow" or is_whole(path, task.made_from))
