"""The `funcnet` command. This package parses the arguments. The packages `tasks` and `serving` run the commands."""

from funcnet.cli.main import main

__all__ = ["main"]
