"""Check the links of a built site: every page and every anchor that a page refers to exists in the site."""

import posixpath
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

__all__ = ["Checked", "Link", "check_links", "read_page"]

OUTSIDE = ("http", "https", "mailto", "data", "javascript")


class Link(NamedTuple):
    """A link of a page: what it refers to, and the identifier of the description that has it."""

    target: str
    within: str


class Checked(NamedTuple):
    """The number of different links of each page, summed, and (page, link) for each that is broken."""

    count: int
    broken: list[tuple[str, Link]]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.identifiers: set[str] = set()
        self.links: list[Link] = []
        self.within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if identifier := values.get("id"):
            self.identifiers.add(identifier)
            if "doc-heading" in (values.get("class") or ""):
                self.within = identifier
        if tag == "a" and values.get("name"):
            self.identifiers.add(values["name"] or "")
        target = values.get("href" if tag in ("a", "link") else "src")
        if target and urlsplit(target).scheme not in OUTSIDE and not target.startswith("//"):
            self.links.append(Link(target, self.within))


def read_page(text: str) -> tuple[set[str], list[Link]]:
    """Return the identifiers of a page, and its links, without those to other sites."""
    page = _Page()
    page.feed(text)
    return page.identifiers, page.links


def check_links(site: Path) -> Checked:
    """Check all links of a folder of HTML files. A link with another scheme, such as `source:`, is broken."""
    pages = {
        path.relative_to(site).as_posix(): read_page(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
    }
    files = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    count, broken = 0, []
    for name, (_, links) in pages.items():
        for link in dict.fromkeys(links):
            count += 1
            address = urlsplit(link.target)
            file = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(address.path)))
            file = name if not address.path else file
            if address.path.endswith("/") or file == ".":
                file = posixpath.normpath(posixpath.join(file, "index.html"))
            anchor = unquote(address.fragment)
            is_there = not address.scheme and file in files
            if is_there and anchor and not anchor.startswith("__") and file in pages:
                is_there = anchor in pages[file][0]
            if not is_there:
                broken.append((name, link))
    return Checked(count, broken)
