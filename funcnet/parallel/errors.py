"""The error of a run of several processes."""

__all__ = ["ProcessError"]


class ProcessError(ValueError):
    """The processes of a run cannot join or do not agree, or one of them has died."""
