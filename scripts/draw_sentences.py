"""Draw sentences at random from the docstrings, helps and messages of funcnet, for a reader who judges the prose.

    python scripts/draw_sentences.py            60 sentences, drawn by the commit
    python scripts/draw_sentences.py 20 --seed 7

The reader, who has not worked on funcnet, marks each sentence that needed a second reading. The aim is fewer than 3 of
60.
"""

import argparse
import ast
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADINGS = ("Args:", "Returns:", "Raises:", "Attributes:", "Yields:", "Example:", "Reference:")


def text_of(node: ast.expr) -> str | None:
    """Return the text of a string or f-string, with {…} for each value; None for any other expression."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each docstring, help of a field, and message of an error or a warning."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and (text := text_of(node.value)):
            yield node.lineno, text
        calls = [node.exc] if isinstance(node, ast.Raise) else [node] if isinstance(node, ast.Call) else []
        for call in calls:
            name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
            if isinstance(call, ast.Call) and (
                isinstance(node, ast.Raise) or name in ("print", "say", "warnings.warn")
            ):
                yield from ((argument.lineno, text) for argument in call.args if (text := text_of(argument)))


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, without examples, headings and references."""
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*[\w, .]+: )", text.split(">>>")[0]):
        plain = " ".join(line.strip() for line in paragraph.splitlines() if not line.strip().startswith(HEADINGS))
        yield from (one for one in re.split(r"(?<=[.!?])\s+(?=[A-Z`])", plain) if len(one.split()) > 4)


def main() -> None:
    """Print the sentences, each with its place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=60)
    parser.add_argument("--seed", help="the default is the commit")
    given = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    found = [
        (f"{path.relative_to(ROOT)}:{line}", sentence)
        for path in sorted((ROOT / "funcnet").rglob("*.py"))
        for line, text in texts(path)
        for sentence in sentences(text)
    ]
    for number, (place, sentence) in enumerate(random.Random(given.seed or commit).sample(found, given.count), 1):
        print(f"{number:3}. {sentence}\n     {place}")


if __name__ == "__main__":
    main()
