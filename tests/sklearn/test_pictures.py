"""What is drawn: the points, bands, cells and labels of matplotlib, compared with pandas on the results of searches."""

import functools
import re

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from sklearn import model_selection
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import HalvingGridSearchCV
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from funcnet.sklearn import Classifier, GridSearchCV, draw_curve, draw_heat_map, pictures
from tests.sklearn.nets import Net, digits, iris

RATE = "module__rate"


@pytest.fixture(scope="module")
def seeds():
    """The results of a search over two parameters and three seeds."""
    x, y = digits(200)
    grid = {RATE: [0.0, 0.3, 0.9], "lr": [1e-3, 1e-2], "random_state": [0, 1, 2]}
    model = Classifier(Net, max_epochs=3, batch_size=64)
    return GridSearchCV(model, grid, cv=2, refit=False).fit(x, y).cv_results_


@pytest.fixture(scope="module")
def halving():
    x, y = iris()
    grid = {"C": [0.01, 0.1, 1, 10], "gamma": [0.1, 1.0]}
    return HalvingGridSearchCV(SVC(), grid, cv=3, min_resources=40, random_state=0).fit(x, y).cv_results_


def results_of(params, means, spreads=0.1):
    means = np.asarray(means, float)
    return {"params": params, "mean_test_score": means, "std_test_score": np.full(means.shape, spreads)}


def over(values, means=None, spreads=0.1):
    return results_of([{"p": value} for value in values], np.arange(len(values)) if means is None else means, spreads)


@pytest.fixture
def figure_of(monkeypatch, tmp_path):
    """Return the figure that a function draws."""

    def draw(function, *arguments, **options):
        figures = []
        with monkeypatch.context() as patch:
            patch.setattr(pictures, "write_figure", lambda figure, path: figures.append(figure))
            function(*arguments, tmp_path / "a.png", **options)
        figures[0].canvas.draw()
        return figures[0]

    return draw


def band_of(axis, row=0):
    """{place: (lower end, upper end)} of a band."""
    ends = {}
    for x, y in axis.collections[row].get_paths()[0].vertices:
        ends.setdefault(x, []).append(y)
    return {x: (min(ys), max(ys)) for x, ys in sorted(ends.items())}


def ticks(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


# ------------------------------------------------------------------------------------------------------------- curves


@pytest.mark.slow
def test_the_points_are_means_over_the_seeds_and_the_band_is_their_deviation(seeds, figure_of):
    figure = figure_of(draw_curve, seeds, RATE, by="lr")
    (axis,) = figure.axes
    rows = pd.DataFrame(seeds).groupby(["param_lr", f"param_{RATE}"])["mean_test_score"].agg(["mean", "std"])
    assert [line.get_label() for line in axis.lines] == ["0.001", "0.01"]
    for row, lr in enumerate([1e-3, 1e-2]):
        np.testing.assert_array_equal(axis.lines[row].get_xdata(), [0.0, 0.3, 0.9])
        np.testing.assert_allclose(axis.lines[row].get_ydata(), rows["mean"][lr])
        ends = np.stack([rows["mean"][lr] - rows["std"][lr], rows["mean"][lr] + rows["std"][lr]], 1)
        np.testing.assert_allclose(list(band_of(axis, row).values()), ends)
    assert axis.get_legend().get_title().get_text() == "lr"
    assert axis.get_xlabel() == RATE and axis.get_ylabel() == "test score"
    assert figure.get_supxlabel() == "Mean and standard deviation of 3 candidates"


def test_the_band_of_single_candidates_is_the_deviation_of_the_folds(seeds, figure_of):
    rows = pd.DataFrame(seeds).query("param_random_state == 1 and param_lr == 0.01")
    figure = figure_of(draw_curve, rows, RATE)
    (axis,) = figure.axes
    means, folds = rows["mean_test_score"], rows["std_test_score"]
    np.testing.assert_allclose(axis.lines[0].get_ydata(), means)
    np.testing.assert_allclose(list(band_of(axis).values()), np.stack([means - folds, means + folds], 1))
    assert figure.get_supxlabel() == "Mean and standard deviation of 2 folds"


def test_candidates_that_failed_are_left_out(figure_of):
    figure = figure_of(draw_curve, over([1, 1, 2, 2, 3, 4], [0.2, 0.4, np.nan, 0.7, np.nan, 0.5]), "p")
    (axis,) = figure.axes
    np.testing.assert_allclose(axis.lines[0].get_ydata(), [0.3, 0.7, np.nan, 0.5])
    assert band_of(axis)[2] == (0.7, 0.7), "one seed has no spread"
    assert figure.get_supxlabel() == "Mean and standard deviation of 1 to 2 candidates"
    figure = figure_of(draw_curve, over([0.0, 0.5, 1.0], [np.nan, 0.3, 0.5]), "p")
    assert figure.axes[0].get_xlim()[0] < 0 and ticks(figure.axes[0].xaxis) == ["0", "0.5", "1"]


@pytest.mark.filterwarnings("ignore:One or more of the test scores")
def test_a_real_search_in_which_fits_fail(figure_of):
    x, y = iris()
    search = model_selection.GridSearchCV(DecisionTreeClassifier(), {"max_depth": [None, 2, 0, 1]}, cv=3)
    with pytest.warns(match="fits failed"):
        results = search.fit(x, y).cv_results_
    (axis,) = figure_of(draw_curve, results, "max_depth").axes
    assert ticks(axis.xaxis) == ["0", "1", "2", "None"]
    np.testing.assert_allclose(axis.lines[0].get_ydata(), results["mean_test_score"][[2, 3, 1, 0]])


@pytest.mark.parametrize(
    "values, scale, labels",
    [
        ([0.0, 0.2, 0.4, 0.8], "linear", ["0", "0.2", "0.4", "0.8"]),
        ([0.001, 0.01, 0.1, 1], "log", ["0.001", "0.01", "0.1", "1"]),
        ([8, 16, 32, 64, 128], "log", ["8", "16", "32", "64", "128"]),
        ([0.0, 1e-4, 1e-3, 1e-2], "symlog", ["0", "0.0001", "0.001", "0.01"]),
        ([-1, 0.1, 10, 1000], "linear", None),
        ([1e-3, 1.01e-3, 1.0, 10.0], "log", None),  # labels would overlap
        (list(range(1, 31)), "linear", None),
        ([1.0, np.inf, 0.1, 0.01], "linear", ["0.01", "0.1", "1", "inf"]),
        ([3], "linear", ["3"]),
    ],
)
def test_the_scale_of_the_axis(figure_of, values, scale, labels):
    (axis,) = figure_of(draw_curve, over(values), "p").axes
    assert axis.get_xscale() == scale
    places = sorted(values) if np.isfinite(values).all() else range(len(values))
    np.testing.assert_allclose(axis.lines[0].get_xdata(), places)
    if labels is None:
        assert not set(ticks(axis.xaxis)) >= {f"{value:g}" for value in values}
    else:
        assert ticks(axis.xaxis) == labels and not len(axis.get_xticks(minor=True))


def function(x):
    return x


def test_values_of_every_kind_have_labels_that_differ(figure_of):
    values = [None, "a", (8, 8), [1, 2], np.arange(3), function, lambda x: x, lambda x: -x, "$x$ of $y$"]
    values += [functools.partial(function, 1), functools.partial(function, 2), LogisticRegression(C=3), True, 1, 0.5]
    values += [np.float32(0.25), "two\nlines", "x" * 30, "x" * 31, np.nan]
    (axis,) = figure_of(draw_curve, over(values * 2, [*range(20), *range(20)]), "p").axes
    texts = [text.replace(r"\$", "$") for text in ticks(axis.xaxis)]
    assert texts == [
        *["0.25", "0.5", "1", "None", "a", "(8, 8)", "[1, 2]", "[0 1 2]", "function (1)", "<lambda> (1)"],
        *["<lambda> (2)", "$x$ of $y$", "function (2)", "function (3)", "LogisticRegression(…", "True", "two lines"],
        *[f"{'x' * 19}… (1)", f"{'x' * 19}… (2)", "nan"],
    ]
    (axis,) = figure_of(draw_curve, over([[1, 2], [1, 2], [3]]), "p").axes
    np.testing.assert_allclose(axis.lines[0].get_ydata(), [0.5, 2], err_msg="equal lists are one value")


def test_many_curves_have_colours_of_their_own_and_a_legend_beside_them(figure_of):
    grid = [{"a": a, "b": b} for a in (1, 2) for b in range(25)]
    figure = figure_of(draw_curve, results_of(grid, np.arange(50)), "a", by="b")
    (axis,) = figure.axes
    assert len({tuple(line.get_color()) for line in axis.lines}) == 25
    (legend,) = figure.legends
    assert legend.get_window_extent().x0 >= axis.get_window_extent().x1


def test_candidates_without_the_parameter_are_left_out(figure_of):
    x, y = iris()
    grid = [{"kernel": ["linear"], "C": [1, 10]}, {"kernel": ["rbf"], "C": [1, 10], "gamma": [0.01, 0.1, 1.0]}]
    results = model_selection.GridSearchCV(SVC(), grid, cv=3).fit(x, y).cv_results_
    assert np.ma.is_masked(results["param_gamma"])
    (axis,) = figure_of(draw_curve, results, "gamma", by="C").axes
    rows = pd.DataFrame(results).query("param_kernel == 'rbf'").pivot_table("mean_test_score", "param_C", "param_gamma")
    np.testing.assert_allclose([line.get_ydata() for line in axis.lines], rows.astype(float))


def test_each_iteration_of_a_halving_search_has_a_curve(halving, figure_of):
    assert len(set(halving["iter"])) > 1
    (axis,) = figure_of(draw_curve, halving, "C", by="iter").axes
    rows = pd.DataFrame(halving).groupby(["iter", "param_C"])["mean_test_score"].mean()
    for row, iteration in enumerate(sorted(set(halving["iter"]))):
        np.testing.assert_allclose(axis.lines[row].get_xdata(), rows[iteration].index.astype(float))
        np.testing.assert_allclose(axis.lines[row].get_ydata(), rows[iteration])
    message = "draw_curve: scores from several iterations of a halving search cannot be averaged; expected candidates"
    with pytest.raises(ValueError, match=message):
        figure_of(draw_curve, halving, "C")
    with pytest.raises(ValueError, match="draw_heat_map: scores from several iterations"):
        figure_of(draw_heat_map, halving, "C", "gamma")
    first = pd.DataFrame(halving).query("iter == 0")
    cells = figure_of(draw_heat_map, first, "C", "gamma").axes[0].images[0].get_array()
    np.testing.assert_allclose(cells, first.pivot_table("mean_test_score", "param_gamma", "param_C").astype(float))


# ---------------------------------------------------------------------------------------------------------- heat maps


def frames(axis):
    return sorted((patch.get_y() + 0.5, patch.get_x() + 0.5) for patch in axis.patches)


def test_the_cells_are_means_and_the_best_has_a_frame(seeds, figure_of):
    figure = figure_of(draw_heat_map, seeds, RATE, "lr", title="Rates")
    axis = figure.axes[0]
    expected = pd.DataFrame(seeds).pivot_table("mean_test_score", "param_lr", f"param_{RATE}").to_numpy(float)
    np.testing.assert_allclose(axis.images[0].get_array(), expected)
    assert [text.get_text() for text in axis.texts] == [f"{number:.3f}" for number in expected.ravel()]
    assert ticks(axis.xaxis) == ["0", "0.3", "0.9"] and ticks(axis.yaxis) == ["0.001", "0.01"]
    assert axis.get_xlabel() == RATE and axis.get_ylabel() == "lr" and figure.axes[1].get_ylabel() == "test score"
    assert frames(axis) == [np.unravel_index(expected.argmax(), expected.shape)]
    assert axis.get_ylim() == (-0.5, 1.5), "the smallest value is at the bottom"
    assert figure.get_suptitle() == "Rates"
    assert figure.get_supxlabel() == "Mean of 3 candidates, with a frame where it is best"


def test_cells_without_a_score_are_empty_and_ties_all_have_frames(figure_of):
    grid = [{"a": a, "b": b} for a, b in [("x", 1), ("x", 2), ("y", 2), ("z", 1)]]
    axis = figure_of(draw_heat_map, results_of(grid, [0.5, 0.75, 0.75, np.nan]), "a", "b").axes[0]
    np.testing.assert_allclose(axis.images[0].get_array().filled(np.nan), [[0.5, np.nan, np.nan], [0.75, 0.75, np.nan]])
    assert len(axis.texts) == 3 and frames(axis) == [(1, 0), (1, 1)]


def test_numbers_of_any_size_are_written_in_their_cells(figure_of):
    grid, means = [{"a": a, "b": 1} for a in range(5)], [-43_250.4, 123.456, 9.8765, 0.00123, 0]
    axis = figure_of(draw_heat_map, results_of(grid, means), "a", "b").axes[0]
    assert [text.get_text() for text in axis.texts] == ["-43,250", "123.5", "9.877", "0.0012", "0.000"]
    for text in axis.texts:
        assert text.get_window_extent().width < axis.get_window_extent().width / 5


def test_other_scores(figure_of):
    x, y = iris()
    search = model_selection.GridSearchCV(SVC(), {"C": [1, 10], "gamma": [0.1, 1.0]}, cv=3, refit=False)
    search.set_params(scoring=["accuracy", "f1_macro"], return_train_score=True).fit(x, y)
    results = search.cv_results_
    for score in ("test_f1_macro", "train_accuracy", "fit_time"):
        axis = figure_of(draw_heat_map, results, "C", "gamma", score=score).axes[0]
        expected = pd.DataFrame(results).pivot_table(f"mean_{score}", "param_gamma", "param_C").astype(float)
        np.testing.assert_allclose(axis.images[0].get_array(), expected)
        assert bool(frames(axis)) == (score != "fit_time"), "the longest time is not the best"


# -------------------------------------------------------------------------------------------------- files and mistakes


@pytest.mark.parametrize("count", [1, 20, 300])
def test_a_map_of_any_size_is_a_picture_of_a_sensible_size(tmp_path, count):
    grid = [{"a": a, "b": a % 10} for a in range(count)]
    draw_heat_map(results_of(grid, np.sin(np.arange(count))), "a", "b", tmp_path / "map.png")
    height, width, _ = matplotlib.image.imread(tmp_path / "map.png").shape
    assert 300 <= height <= 1500 and 450 <= width <= 2000
    assert [path.name for path in tmp_path.iterdir()] == ["map.png"]


def test_a_picture_is_a_png_without_a_suffix_too(tmp_path):
    for name in ("curve", "curve.PNG"):
        draw_curve(over([1, 2]), "p", str(tmp_path / name), title="$5 und $6: " + 20 * "ein langer Titel ")
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


RESULTS = over([1, 2])
WRONG = [
    ((RESULTS, "q"), ValueError, "no candidate has the parameter; expected one of p, got 'q'."),
    ((RESULTS, 3), TypeError, "a parameter has the wrong type; expected its name, got 3."),
    (
        (model_selection.GridSearchCV(SVC(), {}), "C"),
        TypeError,
        "results has the wrong type; expected `cv_results_` of a search, got "
        "GridSearchCV(estimator=SVC(), param_grid={}). Fit the search, and pass its `cv_results_`.",
    ),
    (({}, "p"), ValueError, 'results have no candidates; expected dicts of parameters in "params", got none.'),
    (
        (pd.DataFrame({"params": ["{'p': 1}"]}), "p"),
        ValueError,
        'results have no candidates; expected dicts of parameters in "params", got "{\'p\': 1}".',
    ),
    (
        (over([1, 2], [np.nan, np.nan]), "p"),
        ValueError,
        "no candidate has a score; expected finite numbers in mean_test_score, got none.",
    ),
]


@pytest.mark.parametrize("arguments, kind, message", WRONG, ids=[row[2][:40] for row in WRONG])
@pytest.mark.every_row
def test_results_without_what_is_drawn(tmp_path, arguments, kind, message):
    results, name = arguments
    with pytest.raises(kind, match="^" + re.escape(f"draw_curve: {message}")):
        draw_curve(results, name, tmp_path / "a.png")
    with pytest.raises(kind, match=r"^draw_heat_map: "):
        draw_heat_map(results, name, name, tmp_path / "a.png")
    assert not [*tmp_path.iterdir()]


def test_wrong_paths_scores_and_titles(tmp_path):
    with pytest.raises(
        ValueError, match=r"draw_curve: path has the wrong suffix; expected a PNG file, .*got .*a\.pdf'"
    ):
        draw_curve(RESULTS, "p", tmp_path / "a.pdf")
    with pytest.raises(FileNotFoundError, match=r"draw_curve: path .*a\.png; expected a file in an existing folder"):
        draw_curve(RESULTS, "p", tmp_path / "none" / "a.png")
    with pytest.raises(IsADirectoryError, match=r"draw_heat_map: path .*; expected a file, got a folder"):
        draw_heat_map(RESULTS, "p", "p", tmp_path)
    with pytest.raises(TypeError, match="path has the wrong type; expected a path, such as 'runs/first', got None"):
        draw_curve(RESULTS, "p", None)
    with pytest.raises(ValueError, match="unknown score; expected 'test_score', got 'score'"):
        draw_curve(RESULTS, "p", tmp_path / "a.png", score="score")
    with pytest.raises(TypeError, match="title has the wrong type; expected a string, got 3"):
        draw_curve(RESULTS, "p", tmp_path / "a.png", title=3)
