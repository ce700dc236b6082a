"""The state of a running build of a data directory, which the stages of the build share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from funcnet.tasks.pretraining_data.manifest import DataFiles, Manifest, Progress, file_problem, write_manifest
from funcnet.tasks.pretraining_data.process_pool import ProcessPool
from funcnet.tasks.pretraining_data.settings import DataSettings
from funcnet.text import Corpus

__all__ = ["BuildState", "remove_damaged"]


@dataclass(frozen=True)
class BuildState:
    """A build in a data directory. The stages of the build complete the manifest of the directory."""

    folder: Path
    settings: DataSettings
    corpus: Corpus
    manifest: Manifest
    pool: ProcessPool
    progress: Progress

    @property
    def files(self) -> DataFiles:
        return DataFiles(self.folder)

    def save(self) -> None:
        write_manifest(self.folder, self.manifest)

    def run(
        self,
        step: str,
        function: Callable[..., Any],
        tasks: Sequence[tuple[Any, ...]],
        *,
        done: int = 0,
        total: int | None = None,
    ) -> list[Any]:
        """Call `function` in the worker processes with the arguments of each task, and report progress. Return the
        results of all calls, in any order.

        The step has `total` tasks (`len(tasks)` by default), of which `done` were finished earlier.
        """
        results: list[Any] = []
        total = len(tasks) if total is None else total

        def note(result: Any) -> None:
            results.append(result)
            self.progress(step, done + len(results), total)

        self.pool.run(function, tasks, done=note)
        return results


def remove_damaged(build: BuildState) -> list[str]:
    """Delete the damaged files of a complete data directory, and return their names."""
    files = build.manifest.files or {}
    tasks = [(build.folder / name, files[name], build.manifest.origin()) for name in sorted(files)]
    found = sorted(name for name in build.run("checking files", _damaged, tasks) if name is not None)
    for name in found:
        (build.folder / name).unlink(missing_ok=True)
    return found


def _damaged(path: Path, described: dict[str, Any], origin: dict[str, str]) -> str | None:
    """Return the name of a file of the data directory if the file is damaged, otherwise None."""
    return path.name if file_problem(path, described, origin, every_byte=True) else None
