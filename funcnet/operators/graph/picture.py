"""A picture of a graph in layers, as SVG."""

import html
from collections.abc import Sequence

__all__ = ["draw"]

Box = tuple[str, str, bool]
WIDTH, HEIGHT, GAP_X, GAP_Y, LETTER = 190, 40, 16, 34, 6.6


def draw(boxes: Sequence[Box], edges: Sequence[tuple[int, int]]) -> str:
    """Draw boxes in layers, each below the boxes that point to it.

    Args:
        boxes: (first line, second line, whether it is a leaf), so that every edge leads to a later box.
        edges: (from, to), numbers of boxes.

    Returns:
        The text of an SVG image.

    Example:
        >>> draw([("a", "", False), ("b", "", True)], [(0, 1)]).count("<rect")
        2
    """
    layers = _layers(len(boxes), edges)
    places = _places(layers, edges)
    columns = max(column for column, _ in places) + 1
    width = columns * (WIDTH + GAP_X) + GAP_X
    height = (max(layers) + 1) * (HEIGHT + GAP_Y) + GAP_Y
    corner = lambda box: (GAP_X + places[box][0] * (WIDTH + GAP_X), GAP_Y / 2 + places[box][1] * (HEIGHT + GAP_Y))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" font-family="sans-serif" '
        'font-size="11">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#777"/></marker></defs>',
    ]
    for start, end in edges:
        (left, top), (right, y2) = corner(start), corner(end)
        x1, y1, x2 = left + WIDTH / 2, top + HEIGHT, right + WIDTH / 2
        middle = (y2 - y1) / 2
        parts.append(
            f'<path d="M{x1:g},{y1:g} C{x1:g},{y1 + middle:g} {x2:g},{y2 - middle:g} {x2:g},{y2:g}" fill="none" '
            'stroke="#777" marker-end="url(#tip)"/>'
        )
    for number, (first, second, is_leaf) in enumerate(boxes):
        x, y = corner(number)
        colour = "#cfe8fc" if is_leaf else "#fff"
        parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="4" fill="{colour}" stroke="#555"/>'
        )
        for text, below in ((first, 17), (second, 32)):
            parts.append(
                f'<text x="{x + WIDTH / 2:g}" y="{y + below:g}" text-anchor="middle">{html.escape(_short(text))}</text>'
            )
    return "\n".join([*parts, "</svg>"])


def _short(text: str) -> str:
    most = int(WIDTH / LETTER)
    return text if len(text) <= most else "…" + text[1 - most :]


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each box: one below the lowest box that points to it."""
    layers = [0] * count
    for start, end in sorted(edges):
        layers[end] = max(layers[end], layers[start] + 1)
    return layers


def _places(layers: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return (column, layer) of each box. In a layer, boxes are in the order of the columns of the boxes above."""
    above: dict[int, list[int]] = {}
    for start, end in edges:
        above.setdefault(end, []).append(start)
    columns: dict[int, int] = {}
    for layer in range(max(layers) + 1):
        row = [box for box, one in enumerate(layers) if one == layer]
        mean = lambda box: sum(columns[one] for one in above.get(box, [])) / max(len(above.get(box, [])), 1)
        taken = -1
        for box in sorted(row, key=mean):
            taken = max(taken + 1, round(mean(box)))
            columns[box] = taken
    return [(columns[box], layers[box]) for box in range(len(layers))]
