"""Files that are there wholly or not at all."""

import json
import os
from pathlib import Path
from typing import Any

from funcnet.train.errors import RunError

__all__ = ["cannot_write", "read_json", "sync_folder", "write_json"]


def write_json(path: Path, value: Any) -> None:
    """Replace `path` in one step: whoever reads it, and whatever is killed, sees the old content or the new."""
    partial = path.with_name(f".{path.name}.partial")
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    sync_folder(path.parent)


def read_json(path: Path) -> Any | None:
    """What the file holds; None where it is missing or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def sync_folder(folder: Path) -> None:
    """Let the names in `folder` outlive a loss of power."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def cannot_write(where: str, path: Path, error: BaseException) -> RunError:
    """The one line for a full or read-only disk."""
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return RunError(
        f"{where}: cannot write {path}; expected a folder with space that may be written, got {reason}. "
        "What was complete before is still there: free some space or fix the permissions, then --resume."
    )
