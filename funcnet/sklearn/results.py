"""The scores in `cv_results_` of a search, averaged over the candidates that share the values of parameters.

A *level* is a distinct value of a parameter. Letters: `C candidates, D levels of one parameter, A levels of another`.
"""

import dataclasses
import functools
import pickle
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import joblib
import numpy as np

from funcnet import arguments

__all__ = ["AveragedScores", "Levels", "Results", "Scores", "read_results"]

LONGEST = 20  # characters of a label
OF_HALVING = ("iter", "n_resources")  # columns of a halving search that may be named like parameters
Results = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Scores:
    """The scores of C candidates.

    Attributes:
        means: means over the folds, (C,). NaN for a candidate that failed.
        spreads: standard deviations over the folds, (C,).
        iterations: iterations of a halving search, (C,), or zeros.
        folds: number of folds, or 0 if it is not known.
    """

    means: np.ndarray
    spreads: np.ndarray
    iterations: np.ndarray
    folds: int


def read_results(
    where: str, results: Results, names: Sequence[str], score: str
) -> tuple[Sequence[Sequence[Any]], Scores]:
    """Return the values of some parameters, and the scores.

    Args:
        where: name of the function that the user called.
        results: `cv_results_` of a search, or a data frame of it.
        names: names of the parameters. Candidates that lack one of them are left out.
        score: name of the score: what follows `mean_` in the keys of `results`.

    Returns:
        The C values of each parameter, and the scores of the C candidates.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if no candidate has the parameters or a score.
    """
    is_table = isinstance(results, Mapping) or hasattr(results, "columns")
    advice = "Fit the search, and pass its `cv_results_`." if hasattr(results, "fit") else ""
    arguments.expect(is_table, where, "results", "`cv_results_` of a search", results, advice)
    for name in names:
        arguments.expect(isinstance(name, str), where, "a parameter", "its name", name)
    candidates = list(results["params"]) if "params" in results else []
    if not candidates or not all(isinstance(one, Mapping) for one in candidates):
        got = f"{candidates[0]!r:.60}" if candidates else "none"
        raise ValueError(f'{where}: results have no candidates; expected dicts of parameters in "params", got {got}.')
    more = {name: list(results[name]) for name in OF_HALVING if name in results}
    candidates = [{**{name: column[i] for name, column in more.items()}, **one} for i, one in enumerate(candidates)]
    chosen = [i for i, one in enumerate(candidates) if all(name in one for name in names)]
    if not chosen:
        known = ", ".join(sorted({str(name) for one in candidates for name in one})) or "none"
        got = " with ".join(map(repr, names))
        raise ValueError(f"{where}: no candidate has the parameter; expected one of {known}, got {got}.")
    return [[candidates[i][name] for i in chosen] for name in names], _scores(where, results, score, chosen)


def _scores(where: str, results: Results, score: str, chosen: Sequence[int]) -> Scores:
    found = [key.removeprefix("mean_") for key in map(str, results) if key.startswith("mean_")]
    arguments.choice(where, "score", score, [name for name in found if f"std_{name}" in results])
    means, spreads = (np.asarray(results[f"{kind}_{score}"], float)[chosen] for kind in ("mean", "std"))
    if not np.isfinite(means).any():
        raise ValueError(f"{where}: no candidate has a score; expected finite numbers in mean_{score}, got none.")
    iterations = np.asarray(results["iter"])[chosen] if "iter" in results else np.zeros(len(chosen), int)
    folds = [int(key[1]) + 1 for name in results if (key := re.match(r"split(\d+)_", str(name)))]
    return Scores(np.where(np.isfinite(means), means, np.nan), spreads, iterations, max(folds, default=0))


@dataclasses.dataclass(frozen=True)
class Levels:
    """The distinct values of a parameter.

    Attributes:
        values: the values: first the numbers, in ascending order, and then others in the order of the candidates.
        labels: a short text for each value. No two are equal.
        index: the number of the level of each candidate, (C,).
        are_numbers: whether all values are finite numbers.

    Example:
        >>> Levels.of([None, 10, 2, 2]).labels
        ['2', '10', 'None']
    """

    values: Sequence[Any]
    labels: Sequence[str]
    index: np.ndarray
    are_numbers: bool

    @classmethod
    def of(cls, column: Sequence[Any]) -> "Levels":
        """Return the levels of the values of C candidates."""
        keys = [_key(value) for value in column]
        distinct = dict(zip(keys, column, strict=True))
        numbers = sorted(key for key in distinct if isinstance(key, float))
        ordered: list[float | str] = [*numbers, *(key for key in distinct if not isinstance(key, float))]
        place = {key: i for i, key in enumerate(ordered)}
        values = [distinct[key] for key in ordered]
        are_numbers = len(numbers) == len(ordered) and bool(np.isfinite(numbers).all())
        return cls(values, _labels(values), np.array([place[key] for key in keys]), are_numbers)

    @property
    def places(self) -> np.ndarray:
        """The places of the values on an axis: the numbers, or 0, 1, 2, …"""
        if self.are_numbers:
            return np.array([float(value) for value in self.values])
        return np.arange(len(self.values), dtype=float)


def _key(value: Any) -> float | str:
    """Return a float for a number. For any other value, return a text that is the same for equal values."""
    if arguments.is_real(value) and not np.isnan(float(value)):
        return float(value)
    try:
        return str(joblib.hash(value))
    except (pickle.PicklingError, AttributeError, TypeError):  # for example a lambda
        return f"{id(value)}"


def _labels(values: Sequence[Any]) -> list[str]:
    texts = [_text(value) for value in values]
    seen: dict[str, int] = defaultdict(int)
    labels = []
    for text in texts:
        seen[text] += 1
        labels.append(text if texts.count(text) == 1 else f"{text} ({seen[text]})")
    return labels


def _text(value: Any) -> str:
    if arguments.is_real(value):
        return f"{int(value)}" if arguments.is_integer(value) else f"{float(value):.4g}"
    if isinstance(value, functools.partial):
        value = value.func
    text = " ".join(str(getattr(value, "__name__", value)).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


@dataclasses.dataclass(frozen=True)
class AveragedScores:
    """The averages of the candidates that share a level of one parameter (D) and a level of another (A).

    Attributes:
        means: means of the candidates' scores, (D, A). NaN where there is no score.
        spreads: standard deviations, (D, A): of the candidates' scores, or of the folds if no cell has several
            candidates with a score.
        counts: numbers of candidates, (D, A), with those that failed.
        described: what was averaged, such as "5 folds" or "20 candidates".
    """

    means: np.ndarray
    spreads: np.ndarray
    counts: np.ndarray
    described: str

    @classmethod
    def of(cls, where: str, down: Levels, across: Levels, scores: Scores) -> "AveragedScores":
        """Average the scores.

        Raises:
            ValueError: if candidates from several iterations of a halving search would be averaged.
        """
        shape = (len(down.values), len(across.values))
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for candidate, cell in enumerate(zip(down.index, across.index, strict=True)):
            groups[cell].append(candidate)
        means, spreads, counts = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, int)
        scored = {cell: [i for i in group if np.isfinite(scores.means[i])] for cell, group in groups.items()}
        sizes = {len(group) for group in scored.values() if group}
        for cell, group in groups.items():
            _check_iterations(where, scores.iterations[group])
            counts[cell] = len(group)
            if found := scored[cell]:
                means[cell] = scores.means[found].mean()
                alone = scores.spreads[found[0]] if max(sizes) == 1 else 0.0
                spreads[cell] = scores.means[found].std(ddof=1) if len(found) > 1 else alone
        return cls(means, spreads, counts, _described(sizes, scores.folds))


def _described(sizes: set[int], folds: int) -> str:
    if max(sizes) == 1:
        return {0: "the folds", 1: "1 fold"}.get(folds, f"{folds} folds")
    return f"{min(sizes)} to {max(sizes)} candidates" if len(sizes) > 1 else f"{max(sizes)} candidates"


def _check_iterations(where: str, iterations: np.ndarray) -> None:
    if len(found := np.unique(iterations)) > 1:
        raise ValueError(
            f"{where}: scores from several iterations of a halving search cannot be averaged; expected candidates of "
            f'one iteration, got those of {found[0]} to {found[-1]}. `draw_curve` with by="iter" draws a curve for '
            'each. pandas.DataFrame(results).query("iter == 0") has the candidates of one.'
        )
