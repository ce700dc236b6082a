"""The error that ends a run with a message of one line. The message says where the error occurred, what is wrong and
what to do.
"""

from pathlib import Path

__all__ = ["RunError", "cannot_write"]


class RunError(ValueError):
    """A run cannot start or continue for a reason outside the code: its arguments, its files or the disk.

    The command prints the message in one line, without a traceback, and exits with code 2.
    """


def cannot_write(where: str, path: Path, error: BaseException) -> RunError:
    """Return the error for a full or read-only disk.

    Args:
        where: name of the function that failed, for the message.
        path: the file or folder that cannot be written.
        error: the error that the system reported.

    Returns:
        The error to raise.
    """
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return RunError(
        f"{where}: cannot write {path}; expected a writable folder with free space, got {reason}. Files that were "
        "complete are intact. Free some space or fix the permissions, then continue with --resume."
    )
