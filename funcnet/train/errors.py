"""The error that ends a run with a one-line message."""

from pathlib import Path

__all__ = ["RunError", "cannot_write"]


class RunError(ValueError):
    """The error of a run that cannot start or continue because of its arguments, its files or the disk.

    A command prints the message of this error in one line, without a traceback, and exits with code 2.
    """


def cannot_write(where: str, path: Path, error: BaseException) -> RunError:
    """Return the `RunError` for a file that cannot be written because the disk is full or read-only. `where` is the
    name of the function that failed.
    """
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return RunError(
        f"{where}: cannot write {path}; expected a writable folder with free space, got {reason}. Files that were "
        "complete are intact. Free some space or fix the permissions, then continue with --resume."
    )
