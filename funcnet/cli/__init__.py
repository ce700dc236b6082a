"""The `funcnet` command. Each file parses the arguments of its commands. `tasks` and `serving` do the work."""

from funcnet.cli.main import main

__all__ = ["main"]
