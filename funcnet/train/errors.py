"""The error that ends a run with a message of one line."""

from pathlib import Path

__all__ = ["RunError", "cannot_write"]


class RunError(ValueError):
    """A run cannot start or continue for a reason outside the code: its arguments, its files or the disk.

    The command prints the message in one line, without a traceback, and exits with code 2.
    """


def cannot_write(where: str, path: Path, error: BaseException) -> RunError:
    """Return the error for a full or read-only disk. `where` is the name of the function that failed."""
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return RunError(
        f"{where}: cannot write {path}; expected a writable folder with free space, got {reason}. Files that were "
        "complete are intact. Free some space or fix the permissions, then continue with --resume."
    )
