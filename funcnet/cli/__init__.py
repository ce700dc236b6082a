"""The `funcnet` command: a file for each command, thin; the work is in `tasks` and `serving`."""

from funcnet.cli.main import main

__all__ = ["main"]
