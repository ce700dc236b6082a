"""The `funcnet` command. This package parses the arguments, and `tasks` and `serving` do the work of the commands."""

from funcnet.cli.main import main

__all__ = ["main"]
