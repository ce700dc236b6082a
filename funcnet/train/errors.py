"""The error that ends a run with one line: where it happened, what is wrong and what to do."""

from pathlib import Path

__all__ = ["RunError", "cannot_write"]


class RunError(ValueError):
    """A run cannot start or continue for a reason outside the code: its arguments, its files or the disk.

    The command prints the message in one line, without a traceback, and exits with code 2.
    """


def cannot_write(where: str, path: Path, error: BaseException) -> RunError:
    """The error for a full or read-only disk.

    Args:
        where: the function that failed, for the message.
        path: the file or folder that cannot be written.
        error: what the system reported.

    Returns:
        The error to raise.
    """
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return RunError(
        f"{where}: cannot write {path}; expected a writable folder with free space, got {reason}. Files that were "
        "complete are intact: free some space or fix the permissions, then continue with --resume."
    )
