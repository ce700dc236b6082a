"""Tables in three forms: text for a terminal, HTML for a notebook, and a pandas.DataFrame."""

import html as escape
from collections.abc import Sequence
from typing import Any

__all__ = ["dataframe", "html", "text"]

Cells = Sequence[Sequence[str]]


def text(cells: Cells, left: int, total: bool = False) -> str:
    """Return a table as lines of text with aligned columns. A rule (a line of dashes) separates the header from the
    rows and, if `total` is True, the last row from the others. The first `left` columns are aligned to the left.

    >>> print(text([["name", "size"], ["fc", "12"]], left=1))
    name  size
    ----------
    fc      12
    >>> print(text([["name", "size"]], left=1, total=True))
    name  size
    ----------
    """
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    pad = lambda i, cell: cell.ljust(widths[i]) if i < left else cell.rjust(widths[i])
    lines = ["  ".join(pad(i, cell) for i, cell in enumerate(row)).rstrip() for row in cells]
    rule = "-" * max(map(len, lines))
    body = [*lines[1:-1], rule, lines[-1]] if total and lines[1:] else lines[1:]
    return "\n".join([lines[0], rule, *body])


def html(cells: Cells, marked: Sequence[int] = ()) -> str:
    """Return an HTML table.

    Args:
        cells: the rows, of which the first is the header.
        marked: numbers of the rows to highlight. Row 0 is the first row below the header.

    Example:
        >>> html([["name", "size"], ["fc", "12"]])
        '<table><tr><th>name</th><th>size</th></tr><tr><td>fc</td><td>12</td></tr></table>'
    """
    tag = lambda name, row: "".join(f"<{name}>{escape.escape(cell)}</{name}>" for cell in row)
    style = lambda i: ' style="background:#fdd;color:#000"' if i in marked else ""
    body = "".join(f"<tr{style(i)}>{tag('td', row)}</tr>" for i, row in enumerate(cells[1:]))
    return f"<table><tr>{tag('th', cells[0])}</tr>{body}</table>"


def dataframe(rows: Sequence[Any], where: str) -> Any:
    """Return a pandas.DataFrame with one row per dataclass instance.

    Args:
        rows: instances of one dataclass. Its fields are the columns.
        where: prefix of the error message, such as the name of the caller.

    Raises:
        ImportError: if pandas is not installed.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Layer:
        ...     name: str
        ...     size: int
        >>> dataframe([Layer("fc", 12), Layer("out", 3)], "summary")["size"].tolist()
        [12, 3]
    """
    try:
        import pandas
    except ImportError:
        raise ImportError(f"{where}: pandas is not installed. Install it with `pip install pandas`.") from None
    return pandas.DataFrame([vars(row) for row in rows])
