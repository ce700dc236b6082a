"""Pages with the source of the files that a site refers to, as highlighted code with a number for each line."""

import html
import posixpath
import re
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

from scripts.reference.public_names import ROOT

__all__ = ["write_sources"]

LINK = re.compile(r'href="source:([^"#]+)((?:#[^"]*)?)"')
FORMAT = HtmlFormatter(linenos="table", lineanchors="line", anchorlinenos=True, cssclass="highlight")
FRAME = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title><style>
body {{ font-family: system-ui, sans-serif; margin: 1rem 2rem; }}
td.linenos a {{ color: #999; text-decoration: none; }}
td.code a:target, a:target {{ background: #ffec99; }}
{style}
</style></head>
<body><p><a href="{home}">funcnet</a> / <code>{title}</code></p>
{code}
</body>
</html>
"""


def write_sources(site: Path) -> int:
    """Replace each `source:FILE#line-N` in the pages of a site by a link to a page with the source.

    Returns:
        the number of files of which a page was made. A link to a file that does not exist is left as it is.
    """
    named: set[str] = set()

    def address(found: re.Match[str], depth: str) -> str:
        if not (ROOT / found[1]).is_file():
            return found[0]
        named.add(found[1])
        return f'href="{posixpath.join(depth, "source", found[1])}.html{found[2]}"'

    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        if "source:" in text:
            depth = "/".join([".."] * (len(path.relative_to(site).parts) - 1))
            path.write_text(LINK.sub(lambda found, depth=depth: address(found, depth), text), encoding="utf-8")
    for file in sorted(named):
        place = site / "source" / f"{file}.html"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(_page(file), encoding="utf-8")
    return len(named)


def _page(file: str) -> str:
    text = (ROOT / file).read_text(encoding="utf-8")
    try:
        lexer = get_lexer_for_filename(file, stripnl=False)
    except ClassNotFound:
        lexer = TextLexer(stripnl=False)
    home = posixpath.join(*[".."] * (file.count("/") + 1), "index.html")
    style = FORMAT.get_style_defs(".highlight")
    return FRAME.format(title=html.escape(file), style=style, home=home, code=highlight(text, lexer, FORMAT))
