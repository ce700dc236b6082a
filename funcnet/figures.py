"""Pictures without a display: the figures, their colours, and PNG files that are either complete or absent."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from funcnet.files import replacing

if TYPE_CHECKING:  # the import takes half a second
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "GREY", "new_figure", "plain", "write_figure"]

COLOURS = ("#2a6f97", "#d1603d", "#4f772d", "#7b4fa3")
"""The colours of curves, in their order."""

GREY = "#6b7280"
"""The colour of lines in the background."""


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of matplotlib, which belongs to no window.

    Args:
        width, height: size in inches. An inch has 120 pixels.

    Example:
        >>> figure = new_figure(4, 3)
        >>> _ = figure.subplots().plot([1, 2, 4])
        >>> figure.bbox.size.tolist()  # pixels
        [480.0, 360.0]
    """
    # Imported here, because the import takes half a second. The Agg backend needs no display, and has no global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def write_figure(figure: "Figure", path: str | Path) -> None:
    """Write a figure as PNG. The new file replaces the old one atomically.

    Raises:
        OSError: if the file cannot be written.

    Example:
        >>> import tempfile
        >>> figure = new_figure(2, 1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_figure(figure, f"{folder}/empty.png")
        ...     Path(folder, "empty.png").read_bytes()[1:4]
        b'PNG'
    """
    with replacing(Path(path)) as part, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # characters that the font lacks are drawn as boxes
        figure.savefig(part, format="png")


def plain(text: str) -> str:
    r"""Escape dollar signs, so that matplotlib does not read the text between them as a formula.

    >>> plain("$5 and $6")
    '\\$5 and \\$6'
    """
    return text.replace("$", r"\$")
