"""What stops a run: said in one line, where, what and what to do."""

__all__ = ["RunError"]


class RunError(ValueError):
    """A run cannot start or go on, for a reason outside the code: arguments, files, the disk.

    The command prints its one line and exits with code 2, without a traceback.
    """
