"""The state of a running build of a data directory, which the stages of the build share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from funcnet.files import json_digest
from funcnet.tasks.pretraining_data.data_settings import DataSettings
from funcnet.tasks.pretraining_data.known_files import Known, key_of
from funcnet.tasks.pretraining_data.manifest import (
    DataFiles,
    Manifest,
    Progress,
    file_problem,
    read_manifest,
    write_manifest,
)
from funcnet.tasks.pretraining_data.process_pool import ProcessPool
from funcnet.text import Corpus

__all__ = ["BuildState", "intact_files", "remove_damaged"]


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

        def note(result: object) -> None:
            results.append(result)
            self.progress(step, done + len(results), total)

        self.pool.run(function, tasks, done=note)
        return results


def remove_damaged(build: BuildState, checked: Known) -> list[str]:
    """Delete the damaged files of a complete data directory, and return their names.

    `checked` is what is known of files: those that `intact_files` found before are not read.
    """
    files, origin = build.manifest.files or {}, build.manifest.origin()
    paths = [build.folder / name for name in sorted(files)]
    unread = [path for path in paths if not path.is_file() or checked.get(key_of(path)) != json_digest(origin)]
    tasks = [(path, files[path.name], origin) for path in unread]
    found = sorted(name for name in build.run("checking files", _damaged, tasks) if name is not None)
    for name in found:
        (build.folder / name).unlink(missing_ok=True)
    return found


def intact_files(folder: Path) -> dict[tuple[str, int, int], str]:
    """Return the files of a complete data directory as a `Known`: each with a digest of what it is made from. All files
    must be intact.
    """
    manifest = read_manifest(folder)
    assert manifest is not None and manifest.files is not None
    return {key_of(folder / name): json_digest(manifest.origin()) for name in manifest.files}


def _damaged(path: Path, described: dict[str, Any], origin: dict[str, str]) -> str | None:
    """Return the name of a file of the data directory if the file is damaged, otherwise None."""
    return path.name if file_problem(path, described, origin, every_byte=True) else None
