"""Pictures of searches: scores over one parameter with their spread, and over two parameters as a heat map.

The candidates that share the value of the parameter, or of both parameters, are averaged; see `results.py`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from funcnet import arguments
from funcnet.figures import COLOURS, GREY, new_figure, plain, write_figure
from funcnet.files import require_folder
from funcnet.sklearn.results import AveragedScores, Levels, Results, read_results

if TYPE_CHECKING:  # the import takes half a second
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_curve", "draw_heat_map"]

MOST_NUMBERS = 30  # columns or rows of a heat map with a number in each cell
MOST_LABELS = 40  # labels on an axis of a heat map
EMPTY = "#e5e7eb"  # the colour of cells without a score


def draw_curve(
    results: Results,
    parameter: str,
    path: str | Path,
    *,
    by: str | None = None,
    score: str = "test_score",
    title: str = "",
) -> None:
    """Draw the scores of a search over one parameter, with their spread, and write the picture.

    Candidates with the same value of the parameter are one point, for example all seeds in a grid with `random_state`.
    The line is the mean of their scores, and the band reaches one standard deviation to both sides. If a point has
    several candidates, this is the sample standard deviation of their mean scores, and otherwise that of the folds,
    `std_test_score`. The line below the picture says which. Candidates that failed are left out.

    Args:
        results: `cv_results_` of a search, or a data frame of it.
        parameter: name of the parameter, such as "module__rate". Candidates without it are left out. If its values are
            numbers that grow by factors, the axis is logarithmic.
        path: the PNG file to write.
        by: name of another parameter. Each of its values has a curve. "iter" draws each iteration of a halving search.
        score: name of the score: what follows `mean_` in the keys of `results`.
        title: title of the picture.

    Raises:
        FileNotFoundError: if the folder of `path` does not exist.
        OSError: if the file cannot be written.
        TypeError: if an argument has the wrong type.
        ValueError: if no candidate has the parameter or a score, if a point has candidates from several iterations of a
            halving search, or if `path` has the suffix of another format.

    Example:
        >>> import tempfile
        >>> results = {"params": [{"lr": 0.1}, {"lr": 0.2}], "mean_test_score": [0.8, 0.9], "std_test_score": [0.1, 0]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "curve.png"
        ...     draw_curve(results, "lr", path)
        ...     path.stat().st_size > 10_000
        True
    """
    where = "draw_curve"
    file = _checked(where, path, title)
    columns, scores = read_results(where, results, [parameter] if by is None else [parameter, by], score)
    across = Levels.of(columns[0])
    curves = Levels.of([None] * len(columns[0]) if by is None else columns[1])
    points = AveragedScores.of(where, curves, across, scores)
    figure = new_figure(6.4 if across.are_numbers else min(16.0, max(6.4, 0.28 * len(across.values))), 4.0)
    axis, count = figure.subplots(), len(curves.values)
    for row, colour in enumerate(_colours(count)):
        drawn = points.counts[row] > 0  # a point whose candidates have all failed is a gap
        at, middle, spread = across.places[drawn], points.means[row, drawn], points.spreads[row, drawn]
        axis.plot(at, middle, color=colour, linewidth=1.8, marker="o", ms=4, label=plain(curves.labels[row]))
        axis.fill_between(
            at, middle - spread, middle + spread, color=colour, alpha=0.15 if count <= 4 else 0.06, linewidth=0
        )
    _scale(axis, across)
    axis.set_xlabel(plain(parameter))
    axis.set_ylabel(_words(score))
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    if by is not None:
        outside = {"loc": "outside right upper", "ncols": -(-count // 18)} if count > 6 else {}
        (figure if outside else axis).legend(title=plain(by), frameon=False, fontsize=8, title_fontsize=9, **outside)
    _finish(figure, file, title, f"Mean and standard deviation of {points.described}")


def draw_heat_map(
    results: Results, x: str, y: str, path: str | Path, *, score: str = "test_score", title: str = ""
) -> None:
    """Draw the scores of a search over two parameters as a heat map, and write the picture.

    Each cell has the mean score of its candidates, as a colour and, in a map of at most 30 columns and rows, as a
    number. The best cell has a frame. Cells without a score are grey. Candidates that failed are left out.

    Args:
        results: `cv_results_` of a search, or a data frame of it.
        x, y: names of the parameters of the columns and of the rows, such as "module__rate" and "lr". Candidates
            without them are left out.
        path, score, title: as in `draw_curve`.

    Raises:
        FileNotFoundError, OSError, TypeError, ValueError: as in `draw_curve`.

    Example:
        >>> import tempfile
        >>> grid = [{"lr": lr, "units": units} for lr in (0.01, 0.1) for units in (8, 16)]
        >>> results = {"params": grid, "mean_test_score": [0.7, 0.8, 0.9, 0.85], "std_test_score": [0.1] * 4}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "map.png"
        ...     draw_heat_map(results, "lr", "units", path)
        ...     path.stat().st_size > 10_000
        True
    """
    where = "draw_heat_map"
    file = _checked(where, path, title)
    (columns, rows), scores = read_results(where, results, [x, y], score)
    across, down = Levels.of(columns), Levels.of(rows)
    cells = AveragedScores.of(where, down, across, scores)
    numbers = {(i, j): _number(cells.means[i, j]) for i, j in np.argwhere(np.isfinite(cells.means))}
    width, height = 0.075 * max(map(len, numbers.values())) + 0.12, 0.32  # of a cell, in inches
    if has_no_numbers := max(cells.means.shape) > MOST_NUMBERS:
        width = height = 0.2
    figure = new_figure(
        min(16.0, max(4.0, 2.2 + width * len(across.values))), min(12.0, max(2.6, 1.6 + height * len(down.values)))
    )
    axis = figure.subplots()
    axis.set_facecolor(EMPTY)
    figure.colorbar(axis.imshow(cells.means, cmap="viridis", aspect="auto", origin="lower"), label=_words(score))
    best, middle = np.nanmax(cells.means), (np.nanmin(cells.means) + np.nanmax(cells.means)) / 2
    for (i, j), text in {} if has_no_numbers else numbers.items():
        colour = "black" if cells.means[i, j] > middle else "white"
        axis.text(j, i, text, ha="center", va="center", color=colour, fontsize=8)
    note = f"Mean of {cells.described}"
    if score.startswith(("test_", "train_")):  # the longest time is not the best one
        _frame(axis, np.argwhere(np.isclose(cells.means, best, rtol=1e-9, atol=0)))
        note += ", with a frame where it is best"
    _label(axis.set_xticks, across, width)
    _label(axis.set_yticks, down, np.inf)
    axis.set_xlabel(plain(x))
    axis.set_ylabel(plain(y))
    _finish(figure, file, title, note)


def _checked(where: str, path: str | Path, title: str) -> Path:
    """Check the path and the title before anything is computed, and return the path."""
    found = arguments.path(where, "path", path)
    if found.suffix.lower() not in ("", ".png"):
        raise ValueError(f"{where}: path has the wrong suffix; expected a PNG file, such as a.png, got {str(path)!r}.")
    require_folder(found, f"{where}: path")
    arguments.expect(isinstance(title, str), where, "title", "a string", title)
    return found


def _words(score: str) -> str:
    return plain(score.replace("_", " "))


def _number(value: float) -> str:
    size = abs(value)
    if 0 < size < 0.01:
        return f"{value:.2g}"
    return f"{value:.3f}" if size < 10 else f"{value:.4g}" if size < 1000 else f"{value:,.0f}"


def _colours(count: int) -> Sequence[Any]:
    """Return the colours of the curves. If there are more curves than usual colours, the colours are a scale from dark
    to light.
    """
    if count <= len(COLOURS):
        return COLOURS[:count]
    import matplotlib

    return list(matplotlib.colormaps["viridis"](np.linspace(0, 0.9, count)))


def _scale(axis: Any, levels: Levels) -> None:
    """Scale the x-axis, and label it with the values of the levels unless they are too close to each other."""
    places, labels = levels.places, list(map(plain, levels.labels))
    axis.update_datalim([(place, 0.0) for place in places[[0, -1]]], updatey=False)  # although their candidates failed
    if not levels.are_numbers:
        is_long = sum(map(len, labels)) + 2 * len(labels) > 75
        axis.set_xticks(places, labels, **({"rotation": 45, "ha": "right"} if is_long else {}))
        return
    positive, on_axis = places[places > 0], places
    if places[0] >= 0 and _grows_by_factors(positive):
        # Zero has a place on a logarithmic axis: as far below the smallest number as a factor of ten.
        axis.set_xscale("log") if places[0] > 0 else axis.set_xscale("symlog", linthresh=positive[0])
        on_axis = np.log10(np.maximum(places, positive[0] / 10))
    lengths = np.array([len(label) for label in labels])
    gaps = np.diff(on_axis) / max(np.ptp(on_axis), 1e-300) * 5.3  # inches
    if (gaps > 0.043 * (lengths[1:] + lengths[:-1]) + 0.08).all():
        axis.set_xticks(places, labels)
        axis.minorticks_off()


def _grows_by_factors(places: np.ndarray) -> bool:
    """Return whether the numbers are spread over more than a factor of 10, and more evenly as logarithms."""
    if len(places) < 3 or places[-1] <= 10 * places[0]:
        return False
    steps, factors = np.diff(places), np.diff(np.log(places))
    return bool(factors.std() / factors.mean() < steps.std() / steps.mean())


def _label(set_ticks: Callable[..., Any], levels: Levels, width: float) -> None:
    """Label the columns or rows of a heat map. A column has a width in inches."""
    step = -(-len(levels.labels) // MOST_LABELS)
    labels = [plain(label) for label in levels.labels[::step]]
    slant = {"rotation": 45, "ha": "right"} if 0.07 * max(map(len, labels)) + 0.05 > width * step else {}
    set_ticks(range(0, len(levels.labels), step), labels, fontsize=8, **slant)


def _frame(axis: "Axes", cells: np.ndarray) -> None:
    from matplotlib.patches import Rectangle

    for row, column in cells:
        corner = (column - 0.5, row - 0.5)
        axis.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=COLOURS[1], linewidth=2, clip_on=False, zorder=3))


def _finish(figure: "Figure", path: Path, title: str, note: str) -> None:
    if title:
        figure.suptitle(plain(title), x=0.01, ha="left", fontsize=12, fontweight="bold", wrap=True)
    figure.supxlabel(note, x=0.01, ha="left", fontsize=8, color=GREY)
    write_figure(figure, path)
