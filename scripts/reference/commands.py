"""The help of every command as a page, printed by the commands themselves."""

import contextlib
import io
import os
import re
import textwrap
from pathlib import Path

__all__ = ["help_of", "subcommands", "write_commands"]


def help_of(words: list[str]) -> str:
    """Return what `funcnet WORDS --help` prints, in a terminal of 100 columns."""
    from funcnet.cli.commands import parse  # takes seconds

    shown = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # for frames that are not ASCII
    os.environ["COLUMNS"] = "100"
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        parse([*words, "--help"])
    shown.seek(0)
    lines = re.sub(r"\x1b\[[\d;]*m", "", shown.read()).splitlines()
    return "\n".join(line if line.startswith(("│", "usage")) else textwrap.fill(line, 100) for line in lines)


def subcommands(text: str) -> list[str]:
    """Return the names of the subcommands that a help lists."""
    found = re.search(r"─ subcommands ─(.*?)╰", text, re.DOTALL)
    return re.findall(r"^│ {1,4}• ([\w-]+)", found[1], re.MULTILINE) if found else []


def write_commands(folder: Path) -> list[dict[str, str]]:
    """Write a page for each command, and return the entries of the navigation, relative to the parent of `folder`.

    Raises:
        ValueError: if the helps do not list a command.
    """
    from funcnet.cli.commands import COMMANDS  # takes seconds

    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    waiting: list[list[str]] = [[]]
    while waiting:
        words = waiting.pop(0)
        text = help_of(words)
        inner = subcommands(text)
        waiting = [*([*words, name] for name in inner), *waiting]
        title = " ".join(["funcnet", *words])
        file = "-".join(words) or "index"
        rows = [f"- [`{title} {name}`]({'-'.join([*words, name])}.md)" for name in inner]
        page = [f"# {title}", "", *rows, "", "```text", text.rstrip(), "```", ""]
        (folder / f"{file}.md").write_text("\n".join(page), encoding="utf-8")
        entries.append({title: f"{folder.name}/{file}.md"})
    written = {title for entry in entries for title in entry}
    if missing := [name for name in COMMANDS if f"funcnet {name}" not in written]:
        raise ValueError(f"`funcnet --help`: a help cannot be read; expected all commands, without {missing}.")
    return entries
