"""The pages of docs/ and the README as pages of the reference, with links to pages and to the source of files."""

import posixpath
import re
from pathlib import Path

from scripts.reference.markdown import identifiers
from scripts.reference.public_names import ROOT

__all__ = ["PLACES", "broken_links", "links", "page_of", "staged", "write_guides"]

# Files at the root that are pages. The pages of docs/ keep their paths.
PLACES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
MENTION = re.compile(r"(?<![\[`\w])`((?:[\w.-]+/)*[\w.-]+\.(?:py|sh|md|toml|txt|ipynb|cpp|js|yaml))`(?![\]`])")
NAME = re.compile(r"(?<![\[`\w])`\w+(?:\.\w+)+(?:\(\))?`(?![\]`])")
SEARCHED = ("", "funcnet/", "docs/")  # a file may be named relative to these folders


def page_of(file: str) -> str | None:
    """Return the page of a file, both relative to their roots, or None if the file is not a page."""
    if file in PLACES:
        return PLACES[file]
    return file if re.fullmatch(r"docs/.*\.(md|png)", file) else None


def links(file: str) -> list[tuple[int, str]]:
    """Return (line, target) of each link of a Markdown file to a file. Code is left out."""
    found, is_code = [], False
    for number, line in enumerate((ROOT / file).read_text(encoding="utf-8").splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if not is_code:
            found += [(number, link[1]) for link in LINK.finditer(re.sub(r"`[^`]*`", "", line)) if ":" not in link[1]]
    return found


def broken_links(file: str) -> list[str]:
    """Return a line for each link of a Markdown file to a file or folder that does not exist."""
    found = []
    for number, target in links(file):
        path = target.partition("#")[0]
        if path and not (ROOT / file).parent.joinpath(path).exists():
            found.append(f"{file}:{number}: broken link: {target} does not exist")
    return found


def staged(file: str) -> str:
    """Return the text of a page, with its links rewritten, and with links where code names a file or a public name."""
    lines, is_code = [], False
    for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("#"):
            line = LINK.sub(lambda found: found[0].replace(f"]({found[1]})", f"]({_target(file, found[1])})"), line)
            line = MENTION.sub(lambda found: _mention(file, found[1]), line)
            line = NAME.sub(lambda found: _named(found[0]), line)
            line = re.sub(r"^  (?=- )", "    ", line)  # Python-Markdown needs four spaces before an inner list
        lines.append(line)
    return "\n".join(lines) + "\n"


def write_guides(folder: Path) -> dict[str, str]:
    """Write all pages into a folder.

    Returns:
        {page, relative to the folder: the file that it was made from}.
    """
    files = [*PLACES, *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.*")))]
    origins = {}
    for file in files:
        place = page_of(file)
        if place is None:
            continue
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        if place.endswith(".md"):
            (folder / place).write_text(staged(file), encoding="utf-8")
            origins[place] = file
        else:
            (folder / place).write_bytes((ROOT / file).read_bytes())
    decisions = [file for file in origins if file.startswith("docs/decisions/")]
    titles = {file: (ROOT / file).read_text(encoding="utf-8").splitlines()[0].lstrip("# ") for file in decisions}
    rows = [f"- {Path(file).name[:10]}: [{title}]({Path(file).name})" for file, title in titles.items()]
    (folder / "docs/decisions/index.md").write_text("\n".join(["# Decisions", "", *rows]) + "\n", encoding="utf-8")
    return origins


def _target(file: str, target: str) -> str:
    """Return what a link of a page becomes: a page relative to this one, or the source of another file."""
    path, _, anchor = target.partition("#")
    if ":" in target or not path:
        return target
    resolved = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
    if resolved == "docs/decisions":
        resolved = "docs/decisions/index.md"
    place = page_of(resolved)
    if place is None:
        return f"source:{resolved}" if (ROOT / resolved).is_file() else target
    return _relative(file, place) + (f"#{anchor}" if anchor else "")


def _mention(file: str, name: str) -> str:
    """Return code that names a file of the repository as a link, and other code as it is."""
    found = next((f"{base}{name}" for base in SEARCHED if (ROOT / f"{base}{name}").is_file()), None)
    if found is None or "/" not in name or found == file:
        return f"`{name}`"
    place = page_of(found)
    return f"[`{name}`]({_relative(file, place) if place else f'source:{found}'})"


def _named(code: str) -> str:
    """Return code that is a public name with its module, such as `nn.Linear`, as a link, and other code as it is."""
    home = identifiers().get(code.strip("`").removesuffix("()"))
    return f"[{code}][{home}]" if home else code


def _relative(file: str, place: str) -> str:
    return posixpath.relpath(place, posixpath.dirname(page_of(file) or "") or ".")
