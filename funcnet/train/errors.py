"""What stops a run: said in one line, where, what and what to do."""

from pathlib import Path

__all__ = ["RunError", "cannot_write"]


class RunError(ValueError):
    """A run cannot start or go on, for a reason outside the code: arguments, files, the disk.

    The command prints its one line and exits with code 2, without a traceback.
    """


def cannot_write(where: str, path: Path, error: BaseException) -> RunError:
    """The one line for a full or read-only disk."""
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return RunError(
        f"{where}: cannot write {path}; expected a folder with space that may be written, got {reason}. "
        "What was complete before is still there: free some space or fix the permissions, then --resume."
    )
