"""`GridSearchCV` and `RandomizedSearchCV` that train all candidates and folds in one program.

scikit-learn's classes divide the data, score the candidates and collect the results. Before that, the nets of all
candidates and folds are trained together; see `joint_training.py`. When scikit-learn then fits a candidate on a fold,
the estimator takes the arrays that were trained for it.
"""

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from jax.typing import ArrayLike
from sklearn import model_selection
from sklearn.base import BaseEstimator, is_classifier
from sklearn.model_selection import check_cv

from funcnet.sklearn.estimators import Estimator
from funcnet.sklearn.joint_training import TrainedNets, train_together

__all__ = ["GridSearchCV", "RandomizedSearchCV"]


class _Together:
    """The parts of both searches that scikit-learn's search does not have."""

    estimator: Any
    cv: Any
    n_jobs: int | None
    refit: Any
    verbose: int
    exact: bool
    best_estimator_: Any
    cv_results_: dict[str, Any]

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Self:
        """Train and score all candidates, and train the best one on all rows; see scikit-learn's `fit`.

        After Ctrl-C, the candidates are scored as far as they were trained, with a warning.
        """
        search: Any = super()
        own = isinstance(self.estimator, Estimator) and not set(params) - {"sample_weight", "groups"}
        if self.exact or not own:
            search.fit(X, y, **params)
            return self
        given, groups = (self.cv, self.n_jobs), params.pop("groups", None)
        self.cv = list(check_cv(self.cv, y, classifier=is_classifier(self.estimator)).split(X, y, groups))
        self.n_jobs = None
        self.trained_nets = TrainedNets(X, y, params.get("sample_weight"), self.cv)
        self.estimator.trained_nets = self.trained_nets
        try:
            search.fit(X, y, **params)
            self.cv_results_["mean_fit_time"] += np.array(self.trained_nets.fit_seconds)
        finally:
            self.cv, self.n_jobs = given
            for owner in (self, self.estimator, getattr(self, "best_estimator_", self)):
                if hasattr(owner, "trained_nets"):
                    del owner.trained_nets
        return self

    def _run_search(self, evaluate_candidates: Callable[..., Any], callback_ctx: object = None) -> None:
        def evaluate(candidates: Iterable[Mapping[str, Any]], *arguments: Any, **named: Any) -> Any:
            candidates = list(candidates)
            kept: Sequence[Mapping[str, Any]] = candidates
            if hasattr(self, "trained_nets"):
                kept = train_together(self.estimator, candidates, self.trained_nets, print if self.verbose else None)
                if interrupted := self.trained_nets.interrupted:
                    refits = " The best one is trained again on all rows; Ctrl-C ends this." if self.refit else ""
                    warnings.warn(f"{type(self).__name__}: interrupted: {interrupted}.{refits}", stacklevel=2)
            return evaluate_candidates(kept, *arguments, **named)

        search: Any = super()
        takes_context = "callback_ctx" in inspect.signature(search._run_search).parameters
        search._run_search(evaluate, **({"callback_ctx": callback_ctx} if takes_context else {}))


class GridSearchCV(_Together, model_selection.GridSearchCV):
    """scikit-learn's `GridSearchCV`, which trains the candidates of a `Classifier` or a `Regressor` together.

    Candidates that differ only in floats, such as learning rates and dropout rates, are trained with all folds by one
    compiled program. Other candidates form groups, each with its own program. Any other estimator, including a
    pipeline, is searched as by scikit-learn.

    Args:
        estimator, param_grid, scoring, n_jobs, refit, cv, verbose, pre_dispatch, error_score, return_train_score: as in
            scikit-learn. `n_jobs` has no effect if `estimator` is a `Classifier` or a `Regressor`, unless `exact`. With
            `verbose`, lines show the progress.
        exact: whether to train one candidate after the other. The results then have the same bits as those of
            estimators that are fitted alone. If candidates are trained together, sums may be computed in a different
            order. Several devices are then not used.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> from funcnet.sklearn import Classifier
        >>> model = Classifier(max_epochs=30, lr=0.01, random_state=0)
        >>> search = GridSearchCV(model, {"module__rate": [0.1, 0.9]}, cv=3).fit(X, y)
        >>> search.best_params_
        {'module__rate': 0.1}
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        scoring: str | Callable[..., Any] | Sequence[str] | Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        refit: bool | str | Callable[..., Any] = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs",
        error_score: float | str = float("nan"),
        return_train_score: bool = False,
        exact: bool = False,
    ):
        shared = {"scoring": scoring, "n_jobs": n_jobs, "refit": refit, "cv": cv, "verbose": verbose}
        shared |= {"pre_dispatch": pre_dispatch, "error_score": error_score, "return_train_score": return_train_score}
        model_selection.GridSearchCV.__init__(self, estimator, param_grid, **shared)
        self.exact = exact


class RandomizedSearchCV(_Together, model_selection.RandomizedSearchCV):
    """scikit-learn's `RandomizedSearchCV`, which trains the candidates of a `Classifier` or a `Regressor` together.

    Args:
        estimator, param_distributions, n_iter, scoring, n_jobs, refit, cv, verbose, pre_dispatch, random_state,
            error_score, return_train_score: as in scikit-learn; see `GridSearchCV`.
        exact: as in `GridSearchCV`.

    Example:
        >>> from scipy.stats import loguniform
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> from funcnet.sklearn import Classifier
        >>> model = Classifier(max_epochs=20, random_state=0)
        >>> search = RandomizedSearchCV(model, {"lr": loguniform(1e-4, 1e-1)}, n_iter=4, cv=3, random_state=0).fit(X, y)
        >>> len(search.cv_results_["params"])
        4
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        param_distributions: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        n_iter: int = 10,
        scoring: str | Callable[..., Any] | Sequence[str] | Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        refit: bool | str | Callable[..., Any] = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs",
        random_state: int | np.random.RandomState | None = None,
        error_score: float | str = float("nan"),
        return_train_score: bool = False,
        exact: bool = False,
    ):
        shared = {"scoring": scoring, "n_jobs": n_jobs, "refit": refit, "cv": cv, "verbose": verbose}
        shared |= {"pre_dispatch": pre_dispatch, "error_score": error_score, "return_train_score": return_train_score}
        shared |= {"n_iter": n_iter, "random_state": random_state}
        model_selection.RandomizedSearchCV.__init__(self, estimator, param_distributions, **shared)
        self.exact = exact
