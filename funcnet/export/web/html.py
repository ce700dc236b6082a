"""The HTML of a page: template, style, scripts and data in one file.

Binary data in the HTML is compressed with zlib and written as base64. Before the compression, `planes` sorts the bytes
of float32 weights by their position in the number, because the bytes with signs and exponents compress well, and the
other bytes hardly.
"""

import base64
import json
import re
import zlib
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np

__all__ = ["joined_scripts", "page_html", "planes"]

SCRIPTS = (  # each imports only from those before it
    "tokenizer.js",
    "model.js",
    "numbers.js",
    "windows.js",
    "answers.js",
    "page.js",
)


def page_html(title: str, facts: Mapping[str, Any], inside: Mapping[str, bytes], *, beside: int) -> bytes:
    """Return the HTML of a page.

    Args:
        title: heading.
        facts: JSON data for `page.js`. `page_html` adds `size`: the number of bytes in the page and the files beside
            it. The digits of `size` count as one byte.
        inside: {name: bytes} of the binary data in the page, which `unpack` in `model.js` reads.
        beside: number of bytes in the files beside the page. If `beside` is 0, the page is not allowed to load any
            file.

    Example:
        >>> b"<h1>Cats &amp; dogs</h1>" in page_html("Cats & dogs", {"task": "classify"}, {}, beside=0)
        True
    """
    data = "".join(
        f'<script type="text/plain" id="data-{name}">{base64.b64encode(zlib.compress(content, 9)).decode()}</script>\n'
        for name, content in inside.items()
    )
    filling = {
        "connect": "'self'" if beside else "'none'",
        "title": _escaped(title),
        "style": _file("page.css"),
        "facts": _inside_script({**facts, "size": 0}),
        "data": data,
        "script": joined_scripts(),
    }
    size = len(_filled(filling)) + beside
    return _filled({**filling, "facts": _inside_script({**facts, "size": size})})


def joined_scripts() -> str:
    """Return all scripts as one, because browsers refuse to load script files beside a page that is opened from a disk.

    Example:
        >>> "import " in joined_scripts(), "class Tokenizer" in joined_scripts()
        (False, True)
    """
    text = "\n".join(_file(name) for name in SCRIPTS)
    text = re.sub(r"^import .*? from \"\./\w+\.js\";\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^export ", "", text, flags=re.MULTILINE)


def planes(weights: bytes) -> bytes:
    """Return the first byte of every float32, then the second byte of every float32, and so on.

    If the number of bytes is not a multiple of 4, the last bytes stay at the end.

    Example:
        >>> planes(bytes([1, 2, 3, 4, 5, 6, 7, 8, 9])).hex()
        '010502060307040809'
    """
    whole = len(weights) // 4 * 4
    return np.frombuffer(weights[:whole], np.uint8).reshape(-1, 4).T.tobytes() + weights[whole:]


def _filled(filling: Mapping[str, str]) -> bytes:
    """Return the template `page.html` with a text in place of each {{name}}.

    Names within the inserted texts are kept.
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda found: filling[found[1]], _file("page.html")).encode()


def _inside_script(data: object) -> str:
    """Return data as JSON without any "<", so that no text can end the script element around the JSON."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _file(name: str) -> str:
    return resources.files("funcnet.export.web").joinpath(name).read_text("utf-8")
