"""Extract articles without markup from a Wikipedia dump (`pages-articles.xml`, also with `.bz2`).

The standard library's expat reads the XML, one page at a time. A dozen regular expressions remove the markup, innermost
brackets first. Templates, tables, references, files and categories are removed, and links are replaced by their text.
The end of an element that is never closed is searched for only once, so broken markup does not take longer to process.
"""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from funcnet.text.compressed import BROKEN, broken
from funcnet.text.sentences import split_paragraphs

__all__ = ["plain_text", "read_pages"]

COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
HIDDEN = "ref math chem gallery timeline score syntaxhighlight source code pre imagemap templatestyles".split()  # noqa: SIM905
OPENED = re.compile(rf"<({'|'.join(HIDDEN)})\b[^<>]*>", re.IGNORECASE)
CLOSED = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in HIDDEN}
TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
TABLE = re.compile(r"\{\|(?:(?!\{\||\|\}).)*\|\}", re.DOTALL)
LINK = re.compile(r"\[\[([^\[\]]*)\]\]")
WEB = re.compile(r"\[(?:https?:|ftp:)?//[^\s\]]*[ \t]?([^\]\n]*)\]")
TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
HEADING = re.compile(r"^=.*=[ \t]*$", re.MULTILINE)
LIST = re.compile(r"^[*#:;]+\s*", re.MULTILINE)
QUOTES = re.compile(r"'{2,5}")
SWITCH = re.compile(r"__[A-Z]+__")
NAMESPACES = re.compile(
    r"\s*:?\s*(?:file|image|category|media|datei|bild|kategorie|fichier|catégorie)\s*:", re.IGNORECASE
)
DEEPEST = 20  # levels of nested brackets


def read_pages(stream: IO[bytes], path: Path) -> Iterator[tuple[str, str]]:
    """Yield the (title, wikitext) of every article, except redirects and pages in other namespaces.

    Args:
        stream: stream of the XML.
        path: path of the file, for error messages.

    Raises:
        ValueError: if the file is not XML, or is truncated. The message gives the position of the error in the file.
    """
    try:
        root = None
        for event, element in ElementTree.iterparse(stream, events=("start", "end")):
            root = element if root is None else root
            if event == "end" and _name(element) == "page":
                page = {_name(part): part.text or "" for part in element.iter()}
                if page.get("ns", "0") == "0" and "redirect" not in page:
                    yield page.get("title", ""), page.get("text", "")
                root.clear()
    except ElementTree.ParseError as error:
        raise ValueError(
            f"read_corpus: {path} is not complete XML; expected a Wikipedia dump (pages-articles), got '{error}'. "
            "Download the file again."
        ) from error
    except (*BROKEN, OSError) as error:
        raise broken(path, error) from error


def plain_text(wikitext: str) -> str:
    """Return an article without markup, as paragraphs and headings with blank lines between them.

    Example:
        >>> plain_text("'''Anna''' was {{lang|la|b}} a [[Roman|citizen]].<ref>x</ref>\\n== Life ==\\n* She [[lived]].")
        'Anna was a citizen.\\n\\nLife\\n\\nShe lived.'
    """
    text = _without_hidden(COMMENT.sub("", wikitext))
    text = _innermost(TEMPLATE, "", text)
    text = _innermost(TABLE, "", text)
    text = _innermost(LINK, _words_of_link, text)
    text = TAG.sub("", WEB.sub(r"\1", text))
    text = HEADING.sub(lambda match: "\n\n" + match[0].strip("= \t") + "\n\n", text)
    text = SWITCH.sub("", QUOTES.sub("", LIST.sub("", text)))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in split_paragraphs(html.unescape(text)))


def _without_hidden(text: str) -> str:
    """Remove the elements with the names in `HIDDEN`, such as references, and their content. A tag that is never closed
    remains, as in MediaWiki.
    """
    kept, place = [], 0
    unclosed: set[str] = set()
    for opened in OPENED.finditer(text):
        name = opened[1].lower()
        if opened.start() < place or name in unclosed:
            continue
        end = opened if opened[0].endswith("/>") else CLOSED[name].search(text, opened.end())
        if end is None:
            unclosed.add(name)
            continue
        kept.append(text[place : opened.start()])
        place = end.end()
    return "".join([*kept, text[place:]])


def _innermost(pattern: re.Pattern[str], replacement: str | Callable[[re.Match[str]], str], text: str) -> str:
    for _ in range(DEEPEST):
        text, count = pattern.subn(replacement, text)
        if not count:
            break
    return text


def _words_of_link(match: re.Match[str]) -> str:
    inside = match[1]
    return "" if NAMESPACES.match(inside) else inside.rsplit("|", 1)[-1]


def _name(element: ElementTree.Element) -> str:
    return element.tag.rsplit("}", 1)[-1]
