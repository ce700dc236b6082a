"""Markdown from the docstrings of funcnet: sections with titles, examples as code, names as links."""

import functools
import re

from scripts.reference.catalog import pages
from scripts.reference.public_names import definition, identifier

__all__ = ["from_docstring", "identifiers", "inline", "summary"]

# Sections that mkdocstrings reads itself: a line for each parameter, attribute or error, with its type.
READ_BY_MKDOCSTRINGS = {"Args", "Attributes", "Raises", "Warns"}
TITLES = {"Example": "Example", "Params": "Parameters of the layer", "State": "Buffers of the layer"}
SECTION = re.compile(
    r"(Args|Attributes|Raises|Warns|Returns|Yields|Example|Reference|Params|State|Params and State|Call|Letters|"
    r"Exit codes|While iterating|Differs from [\w ]+):(?: (.*))?"
)
SEVERAL = re.compile(r"((?:\*{0,2}\w+, )+\*{0,2}\w+): (.*)")
FORMULA = re.compile(r"\S {3,}\S|←|-->")  # on each line of a block of formulas or of a diagram
CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)
LINK = re.compile(r"(\[[^\]]*\]\([^)\s]*\)|https?://[^\s<>]+|(?<!\w)\*{1,2}[^\W*][^*\n]*[^\W*]\*{1,2}(?!\w))")


@functools.cache
def identifiers() -> dict[str, str]:
    """Return {name as it is written in a docstring: identifier of its description on a page}.

    A name is written with its module (`funcnet.nn.Linear`, `nn.Linear`, `F.relu`), or alone, if it is a class and no
    other public name is equal.
    """
    found, alone = {}, {}
    for page in pages():
        for name in page.names:
            home = f"{page.module}.{name}"
            found[home] = alone.setdefault(definition(page.module, name), identifier(page.module, name))
            if name[0].isupper():
                found[name] = "" if found.get(name, found[home]) != found[home] else found[home]
        found[page.module] = page.module
    for name, home in list(found.items()):
        if name.startswith("funcnet."):
            found.setdefault(name.removeprefix("funcnet."), home)
            found.setdefault(name.replace("funcnet.functional.", "F."), home)
    short = {name for name in found if name.islower() and "." not in name}  # such as `random`: a word, not a module
    return {name: home for name, home in found.items() if home and name not in short}


def inline(text: str) -> str:
    """Return a text of a docstring as Markdown: what is neither code nor a link is shown as it is written."""
    pieces = CODE.split(text)
    return "".join(_code(piece) if number % 2 else _plain(piece) for number, piece in enumerate(pieces))


def summary(text: str) -> str:
    """Return the first sentence of a docstring as Markdown, on one line and without links, for a cell of a table."""
    first = " ".join(text.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.!?])(?<!e\.g\.) (?=[A-Z`])", first)[0]
    pieces = CODE.split(sentence)
    shown = "".join(piece if number % 2 else _escaped(piece) for number, piece in enumerate(pieces))
    return shown.replace("|", "\\|")


def from_docstring(text: str) -> str:
    """Return a docstring as Markdown, with the sections that mkdocstrings reads left in Google's style."""
    lines = text.expandtabs().splitlines()
    written: list[str] = []
    position = 0
    while position < len(lines):
        found = SECTION.fullmatch(lines[position])
        end = position + 1
        while found and found[2] and end < len(lines) and lines[end].strip() and not SECTION.fullmatch(lines[end]):
            end += 1  # a text that begins beside the title may continue without indentation
        while found and end < len(lines) and (not lines[end].strip() or lines[end].startswith("    ")):
            end += 1
        if found is None:
            end = next((i for i in range(end, len(lines)) if SECTION.fullmatch(lines[i])), len(lines))
            written += _body(lines[position:end])
        elif found[1] in READ_BY_MKDOCSTRINGS and not found[2]:
            written += ["", *_items(found[1], lines[position + 1 : end]), ""]
        else:
            below = [line.removeprefix("    ") for line in lines[position + 1 : end]]
            if found[1] == "While iterating":
                below = [re.sub(r"^(\w+): ", r"- `\1`: ", line) for line in below]
            title, first = TITLES.get(found[1], found[1]), found[2] or ""
            if title.startswith("Differs"):
                first = first[:1].upper() + first[1:]
            written += ["", f'<p class="doc-title"><span class="doc-section-title">{title}:</span></p>', ""]
            written += [*_body([first, *below]), ""]
        position = end
    return "\n".join(written).strip("\n")


def _items(title: str, lines: list[str]) -> list[str]:
    """Return a section that mkdocstrings reads. An item of several names becomes an item for each name."""
    written = [f"{title}:"]
    text = "\n".join(lines)
    for item in re.split(r"\n(?=    \S)", text):
        head, *rest = item.strip("\n").split("\n")
        names, _, what = head.strip().partition(": ")
        several = SEVERAL.fullmatch(head.strip()) if title != "Raises" else None
        body = inline("\n".join([what, *(line.strip() for line in rest if line.strip())])).split("\n")
        for name in several[1].split(", ") if several else [names.rstrip(":")]:
            written += [f"    {name}: {body[0]}", *(f"        {line}" for line in body[1:])]
    return written


def _body(lines: list[str]) -> list[str]:
    """Return the lines of a text, with examples and indented blocks as fenced code."""
    written: list[str] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        end = position + 1
        if not line.strip():
            written.append("")
        elif line.lstrip().startswith(">>> "):
            while end < len(lines) and lines[end].strip():
                end += 1
            written += ["", "```pycon", *_dedented(lines[position:end]), "```", ""]
        elif line.startswith("    ") and (not written or not written[-1].strip()):
            while end < len(lines) and (not lines[end].strip() or lines[end].startswith("    ")):
                end += 1
            while not lines[end - 1].strip():
                end -= 1
            written += ["```text", *_dedented(lines[position:end]), "```"]
        else:
            while end < len(lines) and lines[end].strip() and not lines[end].lstrip().startswith(">>> "):
                end += 1
            written += _paragraph(lines[position:end])
        position = end
    return written


def _paragraph(lines: list[str]) -> list[str]:
    """Return a paragraph or a list, or a block of code for lines with columns, such as the cases of a formula.

    Python-Markdown needs an empty line before a list, and four spaces before an inner list.
    """
    if len(lines) > 1 and all(FORMULA.search(line) for line in lines):
        return ["", "```text", *_dedented(lines), "```", ""]
    shown = inline("\n".join(lines)).split("\n")
    shown = [re.sub(r"^  +(?=- )", "    ", line) for line in shown]
    first = next((i for i, line in enumerate(shown) if line.startswith(("- ", "1. "))), 0)
    return [*shown[:first], *([""] if first else []), *shown[first:]]


def _dedented(lines: list[str]) -> list[str]:
    depth = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return [re.sub(r"\s*# doctest:.*", "", line[depth:]).replace("<BLANKLINE>", "") for line in lines]


def _code(piece: str) -> str:
    """Return code, as a link if it is a public name. Inside of the code, nothing needs an escape."""
    home = identifiers().get(piece.strip("`").removesuffix("()"))
    return f"[{piece}][{home}]" if home else piece


def _plain(piece: str) -> str:
    """Return text outside of code: links and emphasis stay, everything else is escaped."""
    parts = LINK.split(piece)
    return "".join(part if number % 2 else _escaped(part) for number, part in enumerate(parts))


def _escaped(text: str) -> str:
    return re.sub(r"(?<!\n)([*<\[\]_])|(?<=\n)([<\[\]_])", r"\\\1\2", text).replace("\\<", "&lt;")
