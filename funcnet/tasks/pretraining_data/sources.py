"""The files of a corpus as a manifest tells them, and what changed since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from funcnet.tasks.pretraining_data.manifest import Progress
from funcnet.text import Corpus
from funcnet.text.corpus import file_digest

Told = Mapping[str, Any]
MOST_TOLD = 5  # changes that a message lists


def describe_sources(corpus: Corpus, told: Told | None, progress: Progress | None) -> list[dict[str, Any]]:
    """Path, name, bytes, time of change and SHA-256 of every file; a file whose path, bytes and time are as a manifest
    tells is not read again."""
    known = {(one["path"], one["bytes"], one["mtime_ns"]): one["sha256"] for one in (told or {}).get("sources", ())}
    found = []
    for done, source in enumerate(corpus.sources):
        if progress is not None:
            progress("reading", done, len(corpus.sources))
        found.append(describe_source(source.path, known))
    if progress is not None:
        progress("reading", len(found), len(found))
    return found


def describe_source(path: Path, known: Mapping[tuple[str, int, int], str] | None = None) -> dict[str, Any]:
    """Path, name, bytes, time of change and SHA-256 of a file.

    Args:
        path: the file.
        known: digests by path, bytes and time; such a file is not read.
    """
    status, name = path.stat(), str(path.absolute())
    digest = (known or {}).get((name, status.st_size, status.st_mtime_ns)) or file_digest(path)
    place = {"path": name, "name": path.name, "bytes": status.st_size, "mtime_ns": status.st_mtime_ns}
    return {**place, "sha256": digest}


def refuse_changes(folder: Path, told: Told, settings: Told, sources: Sequence[Told], layout: str) -> None:
    """Refuses to go on in a directory that was begun from something else.

    Raises:
        ValueError: the settings or the corpus are others; the message says which and what to do.
    """
    before, now = {**told["settings"], "layout": told["layout"]}, {**settings, "layout": layout}
    changed = [f"{name} was {before.get(name)!r}, now {now[name]!r}" for name in now if before.get(name) != now[name]]
    if changed:
        raise ValueError(
            f"data build: {folder} was built with other settings; expected those, got others: {'; '.join(changed)}. "
            "Take the first ones, or build into another --out."
        )
    lines = _changes(told["sources"], sources)
    if lines:
        more = f"; and {len(lines) - MOST_TOLD} more" if len(lines) > MOST_TOLD else ""
        raise ValueError(
            f"data build: the corpus changed since {folder} was begun; expected the same files, got: "
            f"{'; '.join(lines[:MOST_TOLD])}{more}. Restore it, or build into another --out."
        )


def refuse_changes_meanwhile(told: Told) -> None:
    """Refuses text that was written to while it was read: its digest is of other bytes.

    Raises:
        ValueError: names the first such file.
    """
    for one in told["sources"]:
        path = Path(one["path"])
        status = path.stat() if path.exists() else None
        if status is None or (status.st_size, status.st_mtime_ns) != (one["bytes"], one["mtime_ns"]):
            got = "no file any more" if status is None else f"{status.st_size:,}, written to since"
            raise ValueError(
                f"data build: {path} changed while it was read; expected its {one['bytes']:,} bytes to stay, got "
                f"{got}. Run the command again when it is no longer written to."
            )


def _changes(before: Sequence[Told], now: Sequence[Told]) -> list[str]:
    """A line for each file that is gone, new or another; none where the same files lie elsewhere."""
    if [(one["name"], one["sha256"]) for one in before] == [(one["name"], one["sha256"]) for one in now]:
        return []
    old, new = {one["path"]: one for one in before}, {one["path"]: one for one in now}
    lines = [f"{path} is gone" for path in old if path not in new]
    lines += [f"{path} is new" for path in new if path not in old]
    lines += [
        f"{path} has other text ({old[path]['bytes']:,} bytes, now {new[path]['bytes']:,})"
        for path in old
        if path in new and old[path]["sha256"] != new[path]["sha256"]
    ]
    return lines or ["the files come in another order"]
