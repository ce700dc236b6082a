"""The register, which lists the lines that could not be ported and the lines that behave differently from torch.

An entry has one of three levels:

- *blocks*: the line keeps its text as a comment and raises an error when it is reached.
- *start differs*: the initial values differ from torch's, for example because torch draws them at random. Loading
  weights replaces the initial values.
- *eager only*: the line works, but not under `jit`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

__all__ = ["BLOCKS", "EAGER_ONLY", "LEVELS", "START_DIFFERS", "RegisterEntry", "as_json", "as_text", "summary"]

BLOCKS, START_DIFFERS, EAGER_ONLY = "blocks", "start differs", "eager only"
LEVELS = (BLOCKS, START_DIFFERS, EAGER_ONLY)


@dataclasses.dataclass(frozen=True, order=True)
class RegisterEntry:
    """One entry of the register, about one line of the torch source.

    Attributes:
        file, line: position of the line. Lines are counted from 1.
        level: one of `LEVELS`.
        text: the text of the line.
        why: why the line could not be ported, or how it differs from torch.
        write: what to write instead, or "".
    """

    file: str
    line: int
    level: str
    text: str
    why: str
    write: str = ""

    @property
    def message(self) -> str:
        """The message of the error that the ported line raises if the level of the entry is "blocks"."""
        advice = f" {self.write}" if self.write else ""
        return f"{self.file}:{self.line}: {self.why}{advice}"


def as_json(entries: Sequence[RegisterEntry]) -> str:
    """Return the entries of the register as JSON: a list of objects with the attributes of `RegisterEntry`."""
    return json.dumps([dataclasses.asdict(one) for one in sorted(set(entries))], indent=2, ensure_ascii=False) + "\n"


def as_text(entries: Sequence[RegisterEntry]) -> str:
    """Return the entries of the register as text, grouped by their levels.

    >>> print(as_text([RegisterEntry("net.py", 3, BLOCKS, "x.foo()", "foo is unknown.", "Write bar.")]))
    blocks (1)
      net.py:3: x.foo()
        foo is unknown. Write bar.
    """
    lines: list[str] = []
    for level in LEVELS:
        found = [one for one in sorted(set(entries)) if one.level == level]
        if found:
            lines.append(f"{level} ({len(found)})")
        for one in found:
            first = one.text.strip().splitlines() or [""]
            lines += [f"  {one.file}:{one.line}: {first[0]}", f"    {one.why} {one.write}".rstrip()]
    return "\n".join(lines)


def summary(entries: Sequence[RegisterEntry]) -> dict[str, Any]:
    """Return {level: number of different entries of the register with this level}."""
    return {level: sum(one.level == level for one in set(entries)) for level in LEVELS}
