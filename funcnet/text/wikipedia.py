"""Extract articles without markup from a Wikipedia dump (`pages-articles.xml`, or `pages-articles.xml.bz2`).

The standard library's expat reads the XML, one page at a time. Brackets and braces are matched in one pass over the
text, with a stack; regular expressions remove the rest of the markup. Templates, tables, references, files and
categories are removed, and links are replaced by their text. Broken markup does not take longer to process.
"""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ElementTree
from bisect import bisect
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import IO

from funcnet.text.compressed import BROKEN, broken
from funcnet.text.sentences import split_paragraphs

__all__ = ["Page", "plain_text", "read_pages"]

INLINE = ("ref", "math", "chem", "ce", "includeonly", "maplink", "templatestyles")
BLOCKS = (
    *("gallery", "timeline", "score", "syntaxhighlight", "source", "pre", "imagemap", "mapframe", "graph", "hiero"),
    *("inputbox", "templatedata"),
)
# MediaWiki parses no markup inside a comment or an extension's element. <code> is plain HTML, so it is removed later.
UNPARSED = re.compile(rf"<(?:(!--)|({'|'.join((*INLINE, *BLOCKS, 'nowiki'))})(?=[\s/>])[^<>]*>)", re.IGNORECASE)
CODE = re.compile(r"<(code)(?=[\s/>])[^<>]*>", re.IGNORECASE)
CLOSED = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in (*INLINE, *BLOCKS, "nowiki", "code")}
CLOSED["!--"] = re.compile(r"-->|\Z")
ENTITY_OR_MARK = re.compile(r"&#?\w+;|[!-%'-/:-@\[-`{-~]")  # a mark is any ASCII punctuation but &
TABLE = re.compile(r"^[ \t:*#;]*(?P<open>\{\|)|^[ \t]*\|\}(?!\})", re.MULTILINE)
ROW = re.compile(r"[ \t]*(?:\||[:*#;]*\{\||!.*(?:!!|\|))")
ROW_OR_HEADS = re.compile(r"[ \t]*(?:[|!]|[:*#;]*\{\|)")
FIRST_ROW = re.compile(r"^[ \t]*(?:\||!.*\n[ \t]*[|!])", re.MULTILINE)
URL = r"\[(?:https?:|ftp:)?//"
WEB = re.compile(rf"{URL}[^\s\[\]]*+[ \t]?((?:(?!{URL})[^\]\n])*+)\]")
# The elements that MediaWiki's Sanitizer allows, and those of the preprocessor and of common extensions. The others,
# such as <a>, are shown as they are written.
ELEMENTS = (
    "abbr|b|bdi|bdo|big|blockquote|br|caption|center|cite|code|data|dd|del|dfn|div|dl|dt|em|font|"
    "h1|h2|h3|h4|h5|h6|hr|i|ins|kbd|li|link|mark|meta|ol|p|q|rb|rp|rt|rtc|ruby|s|samp|small|span|strike|"
    "strong|sub|sup|table|td|th|time|tr|tt|u|ul|var|wbr|"
    "categorytree|charinsert|dynamicpagelist|indicator|langconvert|languages|noinclude|nowiki|onlyinclude|"
    "pagelist|pagequality|pages|phonos|poem|quiz|references|rss|section|translate|tvar"
)
TAG = re.compile(rf"</?({'|'.join((ELEMENTS, *INLINE, *BLOCKS))})(?=[\s/>])[^<>]*>", re.IGNORECASE)
LINES = ("br", "hr", "li", "dd", "dt", "td", "th", "tr", "caption")
PARAGRAPHS = (
    *("p", "div", "center", "blockquote", "poem", "table", "ul", "ol", "dl"),
    *("h1", "h2", "h3", "h4", "h5", "h6"),
)
HEADING = re.compile(r"^=.*=[ \t\0]*$", re.MULTILINE)
LIST = re.compile(r"^(?:[*#:;]+\s*|-{4,})", re.MULTILINE)
QUOTES = re.compile(r"'{2,5}")
SWITCH = re.compile(r"__(?:[^\W_a-z]+_)*[^\W_a-z]+__")  # __NOTOC__, also in other languages: __БЕЗ_ОГЛ__
MAGIC = {"!": "|", "=": "="}  # the words {{!}} and {{=}}, which stand for characters
GAP = "\0"  # stands for a removed part, which is a space between two letters or digits; XML has no such character
AT_START, BETWEEN = re.compile(r"^\0+", re.MULTILINE), re.compile(r"(?<=\w)\0+(?=\w)")
MEDIA, FILE, CATEGORY = "-2", "6", "14"  # keys of the namespaces whose links are not text
# Names in English, which every wiki accepts, and names in some languages, old ones too, which no dump lists.
KNOWN = (
    *("media", "file", "image", "category", "datei", "bild", "kategorie", "fichier", "catégorie"),
    *("изображение", "файл", "категория", "画像", "ファイル", "カテゴリ"),
)


@dataclass(frozen=True, slots=True)
class Page:
    """An article of a dump.

    Attributes:
        title: title of the article.
        text: wikitext of the article.
        hidden: names of the dump's namespaces for files, media and categories. A link to a page in one of them, such as
            `[[Datei:x.jpg|mini|A house]]`, is not text.
    """

    title: str
    text: str
    hidden: tuple[str, ...]


def read_pages(stream: IO[bytes], path: Path) -> Iterator[Page]:
    """Yield every article, except redirects and pages in other namespaces. The dump lists its namespaces under
    `<siteinfo>`.

    Args:
        stream: stream of the XML.
        path: path of the file, for error messages.

    Raises:
        ValueError: if the file is not XML, or is truncated. The message gives the position of the error in the file.
    """
    try:
        root = None
        namespaces: dict[str, str] = {}
        for event, element in ElementTree.iterparse(stream, events=("start", "end")):
            root = element if root is None else root
            if event == "end" and _name(element) == "namespace":
                namespaces[element.get("key", "0")] = element.text or ""
            elif event == "end" and _name(element) == "page":
                page = {_name(part): part.text or "" for part in element.iter()}
                if _is_article(page, namespaces):
                    hidden = tuple(namespaces[key] for key in (MEDIA, FILE, CATEGORY) if key in namespaces)
                    yield Page(page.get("title", ""), page.get("text", ""), hidden)
                root.clear()
    except ElementTree.ParseError as error:
        raise ValueError(
            f"read_corpus: {path} is not complete XML; expected a Wikipedia dump (pages-articles), got '{error}'. "
            "Download the file again."
        ) from error
    except (*BROKEN, OSError) as error:
        raise broken(path, error) from error


def plain_text(wikitext: str, *, hidden: Collection[str] = ()) -> str:
    """Return an article without markup, as paragraphs and headings with blank lines between them.

    Args:
        wikitext: text of a page.
        hidden: names of the wiki's namespaces for files, media and categories, such as `Datei`. The English names, and
            those of some other languages, are always known.

    Example:
        >>> plain_text("'''Anna''' was {{lang|la|b}} a [[Roman|citizen]].<ref>x</ref>\\n== Life ==\\n* She [[lived]].")
        'Anna was a citizen.\\n\\nLife\\n\\nShe lived.'
        >>> plain_text("Paris<br>moved. [[Fil:x.jpg|Paris]]", hidden=["Fil"])
        'Paris moved.'
    """
    names = {_namespace(name) for name in (*KNOWN, *hidden)}
    text = _without_hidden(_without_hidden(wikitext.replace(GAP, ""), UNPARSED), CODE)
    text = AT_START.sub("", _matched(text, "{}", lambda inside: MAGIC.get(inside.strip(), GAP)))
    text = _without_tables(text)
    text = _matched(text, "[]", lambda inside: _words_of_link(inside, names))
    text = WEB.sub(lambda match: match[1] or GAP, text)
    text = HEADING.sub(lambda match: "\n\n" + match[0].strip("= \t\0") + "\n\n", text)
    text = TAG.sub(_white_space, QUOTES.sub("", LIST.sub("", text)))  # last: ''Titanic''<nowiki/>'s keeps one quote
    text = html.unescape(SWITCH.sub(GAP, text))
    text = BETWEEN.sub(" ", text).replace(GAP, "")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in split_paragraphs(text))


def _without_hidden(text: str, opening: re.Pattern[str]) -> str:
    """Remove comments and elements, such as references, and their content. The content of `<nowiki>` remains, with its
    marks as character references, which are not markup. A tag that is never closed remains, as in MediaWiki.

    Args:
        text: wikitext.
        opening: pattern of `<!--` and of the tags that open elements, with their name as its only matched group.
    """
    kept, place = [], 0
    unclosed: set[str] = set()
    for opened in opening.finditer(text):
        name = opened[opened.lastindex or 0].lower()
        if opened.start() < place or name in unclosed:
            continue
        end = opened if opened[0].endswith("/>") else CLOSED[name].search(text, opened.end())
        if end is None:
            unclosed.add(name)
            continue
        kept += [text[place : opened.start()], "\n\n" if name in BLOCKS else ""]
        if name == "nowiki":  # the tag, which is removed later, separates the marks before it from those behind it
            kept += ["<nowiki/>", ENTITY_OR_MARK.sub(_reference, text[opened.end() : end.start()])]
        place = end.end()
    return "".join([*kept, text[place:]])


def _reference(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith("&") else f"&#{ord(found[0])};"


def _matched(text: str, pair: str, replace: Callable[[str], str]) -> str:
    """Replace each part in double brackets, `{{…}}` and `{{{…}}}` or `[[…]]`, the innermost first.

    A part may contain single brackets, even at its end, as in `{{a|{b}}}`. Double brackets without a partner remain.

    Args:
        text: text with brackets.
        pair: the opening and the closing bracket.
        replace: function of the text between the brackets, in which inner parts are already replaced.
    """
    opening, closing = pair[0], pair[1]
    longest = 3 if pair == "{}" else 2
    parts = [_Part(0)]  # the whole text, and the parts that are open
    place = 0
    for run in re.finditer(rf"\{opening}+|\{closing}+", text):
        parts[-1].text.append(text[place : run.start()])
        place, left = run.end(), len(run[0])
        if run[0][0] == opening and left > 1:
            parts.append(_Part(left))
            continue
        if run[0][0] == opening:
            parts[-1].single += 1
            parts[-1].text.append(opening)
            continue
        while left and parts[-1].brackets:
            part = parts[-1]
            if part.single and left != 2:  # two brackets end the part, whatever is open in it
                part.single -= 1
                part.text.append(closing)
                left -= 1
                continue
            if left == 1:
                break
            most = min(left, part.brackets)
            size = 2 if most == 4 else min(most, longest)
            found = replace("".join(part.text))
            part.brackets, part.single, part.text, left = part.brackets - size, 0, [found], left - size
            if part.brackets < 2:
                parts.pop()
                parts[-1].text += [opening * part.brackets, found]
        parts[-1].text.append(closing * left)
    parts[-1].text.append(text[place:])
    return "".join(piece for part in parts for piece in (opening * part.brackets, *part.text))


@dataclass(slots=True)
class _Part:
    """A part of a text that begins with brackets whose partners were not found yet, and what follows them."""

    brackets: int
    single: int = 0  # single brackets in the part that are open
    text: list[str] = field(default_factory=list)


def _without_tables(text: str) -> str:
    """Remove tables, which may be nested. If a template began a table, and only its end `|}` is in the text, the table
    begins at its first row. If a template ends a table, all lines that are rows are removed.
    """
    sections = [0, *(heading.end() for heading in HEADING.finditer(text))]
    found: list[tuple[int, int]] = []
    opened: list[int] = []
    for mark in TABLE.finditer(text):
        if mark["open"]:
            opened.append(mark.start())
        elif opened:
            found.append((opened.pop(), mark.end()))
        else:
            floor = max(found[-1][1] if found else 0, sections[bisect(sections, mark.start()) - 1])
            row = FIRST_ROW.search(text, floor, mark.end())
            found.append((row.start() if row else mark.start(), mark.end()))
    kept, place = [], 0
    for start, end in sorted(found):
        if start >= place:
            kept.append(text[place:start])
        place = max(place, end)
    rest, lines = "".join([*kept, text[place:]]).split("\n"), list[str]()
    for is_marked, run in groupby(rest, lambda line: ROW_OR_HEADS.match(line) is not None):
        some = list(run)  # lines with the heads of a table are next to its rows
        lines += [] if is_marked and any(map(ROW.match, some)) else some
    return "\n".join(lines)


def _words_of_link(inside: str, hidden: Collection[str]) -> str:
    """Return the text that a link shows. A colon before the target, as in `[[:Category:Names]]`, makes it a plain link
    to a page of any namespace.
    """
    target, colon, _ = inside.partition(":")
    if colon and _namespace(target) in hidden:
        return ""
    return inside.rsplit("|", 1)[-1].lstrip(": " if "|" not in inside else "")


def _namespace(name: str) -> str:
    """Return the name of a namespace in the form in which names are compared."""
    return " ".join(html.unescape(name).replace("_", " ").split()).casefold()


def _white_space(tag: re.Match[str]) -> str:
    """Return the white space for an HTML tag: a line, a paragraph, or nothing for tags such as <b>."""
    name = tag[1].lower()
    return "\n\n" if name in PARAGRAPHS else "\n" if name in LINES else ""


def _is_article(page: dict[str, str], namespaces: dict[str, str]) -> bool:
    """Return whether a page is an article. Old dumps have no element `ns`, only titles such as `Datei:x.jpg`."""
    prefix, colon, _ = page.get("title", "").partition(":")
    others = {_namespace(name) for key, name in namespaces.items() if key != "0"}
    is_other = page["ns"] != "0" if "ns" in page else bool(colon) and _namespace(prefix) in others
    return not is_other and "redirect" not in page


def _name(element: ElementTree.Element) -> str:
    return element.tag.rsplit("}", 1)[-1]
