"""Build the reference: a page for each part of funcnet, the guides and the commands, with search.

    sh scripts/reference.sh --out build/reference

The build stops with exit code 1 if a public name is on no page, if an example fails, or if a link is broken. Each of
these is a line with the file and the line in it.
"""

import argparse
import logging
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from scripts.reference.catalog import Page, pages, problems
from scripts.reference.commands import write_commands
from scripts.reference.examples import run_examples
from scripts.reference.guides import broken_links, page_of, write_guides
from scripts.reference.links import Link, check_links, read_page
from scripts.reference.markdown import identifiers
from scripts.reference.pages import write_pages
from scripts.reference.public_names import ROOT, definition, file_of
from scripts.reference.sources import write_sources

__all__ = ["build", "described_modules", "main", "not_described", "place_of"]

HERE = Path(__file__).resolve().parent
MARK = "objects.inv"  # a file that every reference has: the index of its names, for the links of other projects


class _Warnings(logging.Handler):
    """Collects the warnings of MkDocs and its plugins."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def main(arguments: list[str]) -> int:
    """Build the reference, and return the exit code: 0, or 1 if something is missing, fails or is broken."""
    parser = argparse.ArgumentParser(prog="reference.sh", description="Build the reference of funcnet.")
    parser.add_argument("--out", type=Path, default=ROOT / "build/reference", help="folder to write the pages to")
    parser.add_argument("--no-examples", action="store_true", help="do not run the examples of the docstrings")
    options = parser.parse_args(arguments)
    if options.out.exists() and not (options.out / MARK).exists() and any(options.out.iterdir()):
        parser.error(
            f"--out: {options.out} has other files; expected an earlier reference, an empty folder or a new one."
        )
    start = time.monotonic()
    shown = pages()
    wrong = problems(shown)
    wrong += [line for file in sorted(_markdown_files()) for line in broken_links(file)]
    if not wrong and not options.no_examples:
        outcome = run_examples(described_modules(shown))
        print(*outcome.left_out, sep="\n", end="\n" * bool(outcome.left_out))
        print(f"examples: {outcome.passed} docstrings passed, {len(outcome.left_out)} left out", flush=True)
        wrong += outcome.failed
    if not wrong:
        wrong += build(options.out.resolve(), shown)
    print(*wrong, sep="\n", end="\n" * bool(wrong), file=sys.stderr)
    print(f"reference: {'FAILED' if wrong else options.out} after {time.monotonic() - start:.0f} s")
    return int(bool(wrong))


def build(out: Path, shown: list[Page]) -> list[str]:
    """Write the site, and return a line for each broken link and each warning. Only a site without any is kept."""
    with tempfile.TemporaryDirectory(prefix="funcnet-reference-") as work:
        folder, site = Path(work, "pages"), Path(work, "site")
        chapters = write_pages(folder / "reference", shown)
        commands = write_commands(folder / "commands")
        origins = write_guides(folder)
        for name in ("reference.css", "iframe-worker.js"):
            shutil.copy(HERE / name, folder)
        wrong = _run_mkdocs(folder, site, _navigation(chapters, commands, list(origins)))
        files = write_sources(site)
        checked = check_links(site)
        wrong += [place_of(page, link, origins, shown) for page, link in checked.broken]
        wrong += not_described(site, shown)
        names = sum(len(page.names) for page in shown)
        count = len(list(folder.rglob("*.md")))
        print(f"pages: {count}, and {files} of source; public names: {names}; links checked: {checked.count}")
        if not wrong:
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(site, out)
    return wrong


def not_described(site: Path, shown: list[Page]) -> list[str]:
    """Return a line for each public name without a description in a built site."""
    found: set[str] = set()
    for page in shown:
        found |= read_page((site / "reference" / f"{page.file}.html").read_text(encoding="utf-8"))[0]
    named = {(page.module, name): identifiers()[f"{page.module}.{name}"] for page in shown for name in page.names}
    absent = [(definition(*pair), ".".join(pair)) for pair, wanted in named.items() if wanted not in found]
    return [
        f"{file_of(one.module)}:{one.line}: {name} has no description on the pages"
        for one, name in absent
        if one.kind != "Modules"
    ]


def described_modules(shown: list[Page]) -> list[str]:
    """Return the modules whose examples are on pages: those of the pages, and those that define their names."""
    found = [page.module for page in shown]
    found += [definition(page.module, name).module for page in shown for name in page.names]
    return list(dict.fromkeys(found))


def place_of(page: str, link: Link, origins: dict[str, str], shown: list[Page]) -> str:
    """Return "file:line: broken link: target" for a link of a page of the site.

    The line is that of the description with the link, or of the target's last part in the text of a guide.
    """
    origin = origins.get(page.removesuffix(".html") + ".md")
    if origin is not None:
        wanted = link.target.partition("#")[2] or link.target.removesuffix(".html")
        lines = (ROOT / origin).read_text(encoding="utf-8").splitlines()
        line = next((number for number, text in enumerate(lines, 1) if wanted in text), 1)
        return f"{origin}:{line}: broken link: {link.target}"
    for one in shown:
        prefix = f"{one.module}."
        name = link.within.removeprefix(prefix).split(".")[0]
        if link.within.startswith(prefix) and name in one.names:
            found = definition(one.module, name)
            return f"{file_of(found.module)}:{found.line}: broken link: {link.target} on {page}"
    module = next((one.module for one in shown if page == f"reference/{one.file}.html"), None)
    return f"{file_of(module) if module else page}:1: broken link: {link.target} on {page}"


def _markdown_files() -> list[str]:
    found = [path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]]
    return [file for file in found if page_of(file)]


def _navigation(chapters: dict[str, list], commands: list[dict[str, str]], guides: list[str]) -> list:
    docs = [page for page in guides if page.startswith("docs/")]
    decisions = [page for page in docs if page.startswith("docs/decisions/")]
    return [
        {"funcnet": "index.md"},
        {"Guides": [page for page in docs if page not in decisions]},
        {"Reference": [{chapter: entries} for chapter, entries in chapters.items()]},
        {"Commands": commands},
        {"Decisions": ["docs/decisions/index.md", *decisions]},
        {"Project": ["contributing.md", "changelog.md"]},
    ]


def _run_mkdocs(folder: Path, site: Path, navigation: list) -> list[str]:
    """Build the site, and return the warnings of MkDocs."""
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config

    os.environ["JAX_PLATFORMS"] = "cpu"
    warnings = _Warnings()
    logging.getLogger("mkdocs").addHandler(warnings)
    config = load_config(str(HERE / "mkdocs.yml"), docs_dir=str(folder), site_dir=str(site), nav=navigation)
    config.plugins.on_startup(command="build", dirty=False)
    build_site(config)
    (site / "404.html").unlink()  # for a server whose root is this site; its links begin there
    return [line.replace(f"{folder}/", "") for line in warnings.lines]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
