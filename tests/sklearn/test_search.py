"""Searches: the scores of scikit-learn's own, from nets that were trained together."""

import functools
import itertools
import re
import signal
import time
from typing import ClassVar

import jax
import numpy as np
import pytest
from scipy.stats import loguniform, uniform
from sklearn import model_selection
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from funcnet import functional as F
from funcnet.sklearn import Classifier, EarlyStopping, GridSearchCV, RandomizedSearchCV, Regressor
from tests.sklearn.nets import Net, digits, iris

GRID = {"module__rate": [0.0, 0.3, 0.9], "lr": [1e-3, 1e-2]}


class Counted(Net):
    made: ClassVar[list] = []

    def __init__(self, *arguments, **named):
        Counted.made.append(named)
        super().__init__(*arguments, **named)


def model(module=Net, **options):
    return Classifier(module, max_epochs=5, batch_size=64, random_state=0, **options)


def scores(search):
    return np.array([search.cv_results_[f"split{fold}_test_score"] for fold in range(search.n_splits_)])


@pytest.mark.slow
def test_scores_are_those_of_one_fit_after_the_other():
    x, y = digits(300)
    together = GridSearchCV(model(), GRID, cv=3, return_train_score=True).fit(x, y)
    theirs = model_selection.GridSearchCV(model(), GRID, cv=3, return_train_score=True).fit(x, y)
    assert together.cv_results_.keys() == theirs.cv_results_.keys()
    assert together.cv_results_["params"] == theirs.cv_results_["params"]
    np.testing.assert_allclose(scores(together), scores(theirs), atol=0.011)  # one row of a fold
    assert np.mean(scores(together) == scores(theirs)) > 0.8
    assert together.best_params_ == theirs.best_params_
    np.testing.assert_array_equal(together.predict(x), theirs.predict(x))
    assert not hasattr(together.best_estimator_, "trained_nets") and not hasattr(together.estimator, "trained_nets")


@pytest.mark.slow
def test_the_exact_search_has_the_bits():
    x, y = digits(200)
    ours = GridSearchCV(model(), GRID, cv=2, exact=True).fit(x, y)
    theirs = model_selection.GridSearchCV(model(), GRID, cv=2).fit(x, y)
    np.testing.assert_array_equal(scores(ours), scores(theirs))


@pytest.mark.slow
def test_all_values_and_folds_are_in_one_program(monkeypatch):
    from funcnet.sklearn import joint_training

    groups = []
    original = joint_training._train_group
    monkeypatch.setattr(
        joint_training, "_train_group", lambda lanes, *rest: (groups.append(len(lanes)), original(lanes, *rest))
    )
    x, y = digits(200)
    GridSearchCV(model(), GRID, cv=3, refit=False).fit(x, y)
    assert groups == [18]
    groups.clear()
    grid = {"module__units": [8, 16], "module__rate": [0.1, 0.2], "batch_size": [32, 64]}
    GridSearchCV(model(), grid, cv=2, refit=False).fit(x, y)
    assert sorted(groups) == [4, 4, 4, 4], "a program for each shape"


class Wide(Net):
    """Few parameters, and large arrays between the layers."""

    def forward(self, x):
        wide = F.relu(x[:, None, :] * np.arange(1, 5, dtype=np.float32)[:, None]).repeat(100, 1)
        return self.out(self.drop(F.relu(self.hidden(wide)))).mean(1)


@pytest.mark.slow
def test_a_group_that_needs_too_much_memory_is_divided(monkeypatch, capsys):
    from funcnet.sklearn import joint_training

    x, y = digits(200)
    wide = GridSearchCV(model(Wide), GRID, cv=3, refit=False)
    expected = wide.fit(x, y)
    monkeypatch.setattr(joint_training, "_free_memory", lambda: 300e6)
    found = clone(wide).set_params(verbose=1).fit(x, y)
    assert re.search(r"18 fits need too much memory; training \d at a time", capsys.readouterr().out)
    np.testing.assert_allclose(scores(found), scores(expected), atol=0.016)
    GridSearchCV(model(), GRID, cv=3, refit=False, verbose=1).fit(x, y)
    assert "memory" not in capsys.readouterr().out, "a net without large arrays fits"


def test_the_net_is_made_a_few_times_and_not_once_for_each_step():
    x, y = digits(200)
    Counted.made.clear()
    GridSearchCV(model(Counted), {"module__rate": list(np.linspace(0, 0.9, 10))}, cv=2, refit=False).fit(x, y)
    checked = sum(not hasattr(named.get("rate"), "aval") for named in Counted.made)
    assert len(Counted.made) - checked < 10, "traced"


@pytest.mark.slow
def test_grids_with_different_parameters():
    """Candidates of one group read the same values."""
    x, y = digits(200)
    grids = [
        {"module__rate": [0.1, 0.3]},
        {"module__rate": [0.1, 0.3], "optimizer__b1": [0.0]},
        {"optimizer__b2": [0.5]},
    ]
    named = {"cv": 2, "scoring": "neg_log_loss", "refit": False}
    ours, exact = (GridSearchCV(model(lr=0.01), grids, exact=exact, **named).fit(x, y) for exact in (False, True))
    np.testing.assert_allclose(scores(ours), scores(exact), rtol=1e-3)
    assert len(set(scores(ours)[0].round(4))) == 5


@pytest.mark.slow
def test_a_fold_without_a_class_is_trained_alone():
    x, y = iris()
    splits = [(np.arange(0, 100), np.arange(100, 150)), (np.arange(0, 150, 2), np.arange(1, 150, 2))]
    ours = GridSearchCV(model(None), {"lr": [1e-3, 1e-2]}, cv=splits).fit(x, y)
    theirs = model_selection.GridSearchCV(model(None), {"lr": [1e-3, 1e-2]}, cv=splits).fit(x, y)
    np.testing.assert_allclose(scores(ours), scores(theirs), atol=0.02)


@pytest.mark.slow
def test_a_failed_candidate_has_no_score():
    x, y = digits(150)
    with pytest.warns(match="p is not a probability; expected a number from 0 to 1, got 1.5"):
        search = GridSearchCV(model(), {"module__rate": [0.1, 1.5]}, cv=2).fit(x, y)
    assert np.isnan(search.cv_results_["mean_test_score"][1]) and search.best_params_ == {"module__rate": 0.1}
    with pytest.raises(ValueError, match="unknown parameter 'module__rates'; expected one of module__rate"):
        GridSearchCV(model(), {"module__rates": [0.1]}, cv=2, error_score="raise").fit(x, y)


def weighted(outputs, codes, weights):
    return F.cross_entropy(outputs, codes, reduction="none") * weights.mean()


@pytest.mark.slow
def test_candidates_are_told_apart_by_their_values():
    x, y = digits(150)
    first, second = np.zeros(2001, np.float32), np.zeros(2001, np.float32)
    second[1000] = 1e6  # the text of both arrays is the same
    grid = {"criterion": [functools.partial(weighted, weights=one) for one in (first, second)]}
    ours, exact = (GridSearchCV(model(lr=0.01), grid, cv=2, exact=exact).fit(x, y) for exact in (False, True))
    np.testing.assert_allclose(scores(ours), scores(exact), atol=0.011)
    assert np.ptp(ours.cv_results_["mean_test_score"]) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("class_weight", ["balanced", {0: 5.0, 3: 0.1}])
def test_class_weights_are_those_of_each_fold(class_weight):
    x, y = digits(300)
    chosen = np.flatnonzero((y < 3) | (np.arange(300) % 4 == 0))  # 0, 1 and 2 are four times as frequent
    x, y = x[chosen], y[chosen]
    weighted = model(class_weight=class_weight)
    ours, theirs = (GridSearchCV(weighted, GRID, cv=3, exact=exact).fit(x, y) for exact in (False, True))
    np.testing.assert_allclose(scores(ours), scores(theirs), atol=0.021)
    assert np.mean(scores(ours) == scores(theirs)) > 0.8
    losses = [one.best_estimator_.history_[-1]["train_loss"] for one in (ours, theirs)]
    np.testing.assert_allclose(*losses, rtol=1e-5)


def test_fit_times_contain_a_share_of_the_training(monkeypatch):
    from funcnet.sklearn import joint_training

    x, y = digits(200)
    clock = itertools.count(0, 100)
    monkeypatch.setattr(joint_training.time, "perf_counter", lambda: float(next(clock)))
    search = GridSearchCV(model(verbose=1), {"lr": [1e-3, 1e-2]}, cv=2, refit=False).fit(x, y)
    assert all(search.cv_results_["mean_fit_time"] > 25), "two folds of two candidates share 100 s"


@pytest.mark.slow
def test_a_random_state_of_the_user_is_not_changed():
    x, y = digits(100)
    state = np.random.RandomState(3)
    search = GridSearchCV(model().set_params(random_state=state), {"lr": [1e-3, 1e-2]}, cv=2).fit(x, y)
    assert state.randint(1000) == np.random.RandomState(3).randint(1000)
    theirs = model_selection.GridSearchCV(
        search.estimator.set_params(random_state=np.random.RandomState(3)), {"lr": [1e-3, 1e-2]}, cv=2
    )
    np.testing.assert_allclose(scores(search), scores(theirs.fit(x, y)), atol=0.021)


@pytest.mark.slow
def test_a_search_is_fitted_twice_and_groups_are_used():
    x, y = digits(120)
    search = GridSearchCV(model(), {"lr": [1e-3, 1e-2]}, cv=GroupKFold(2)).fit(x, y, groups=np.arange(120) % 4)
    search.set_params(refit=False).fit(x, y, groups=np.arange(120) % 4)
    assert not any(hasattr(owner, "trained_nets") for owner in (search, search.estimator, search.best_estimator_))


@pytest.mark.slow
def test_random_candidates_and_random_splits():
    x, y = digits(150)
    options = {"n_iter": 4, "cv": ShuffleSplit(2, random_state=1), "random_state": 3}
    space = {"lr": loguniform(1e-4, 1e-1), "module__rate": uniform(0, 0.5)}
    ours = RandomizedSearchCV(model(), space, **options).fit(x, y)
    theirs = model_selection.RandomizedSearchCV(model(), space, **options).fit(x, y)
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    np.testing.assert_allclose(scores(ours), scores(theirs), atol=0.07)  # one row of 15
    assert ours.cv is options["cv"]


@pytest.mark.slow
def test_weights_several_scores_and_regression():
    x = np.random.default_rng(0).normal(size=(120, 3)).astype(np.float32)
    y, weights = x @ np.array([1, -2, 0.5], np.float32), np.arange(120) % 2 + 1.0
    regressor = Regressor(max_epochs=10, random_state=0)
    options = {"cv": 3, "scoring": ["r2", "neg_mean_absolute_error"], "refit": "r2"}
    ours = GridSearchCV(regressor, {"lr": [1e-3, 1e-2]}, **options).fit(x, y, sample_weight=weights)
    theirs = model_selection.GridSearchCV(regressor, {"lr": [1e-3, 1e-2]}, **options).fit(x, y, sample_weight=weights)
    for name in ("mean_test_r2", "mean_test_neg_mean_absolute_error"):
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], rtol=1e-3)


def test_what_cannot_be_trained_together_is_searched_as_by_scikit_learn():
    x, y = digits(150)
    stopping = model(callbacks=[EarlyStopping("train_loss", patience=1)])
    assert GridSearchCV(stopping, {"lr": [1e-3, 1e-2]}, cv=2).fit(x, y).best_params_ == {"lr": 1e-2}
    pipeline = make_pipeline(StandardScaler(), model())
    assert GridSearchCV(pipeline, {"classifier__lr": [1e-3, 1e-2]}, cv=2).fit(x, y).best_params_ == {
        "classifier__lr": 1e-2
    }
    with pytest.raises(ValueError, match="empty"):
        GridSearchCV(model(), {"lr": []}, cv=2).fit(x, y)


def test_ctrl_c_keeps_what_is_done(monkeypatch):
    from funcnet.sklearn import joint_training

    original, calls = joint_training.batches_of, []

    def interrupted(recipe, train, seed, epoch, steps):
        calls.append(epoch)
        if calls.count(2) == 1:
            calls.append(2)
            signal.raise_signal(signal.SIGINT)
        return original(recipe, train, seed, epoch, steps)

    monkeypatch.setattr(joint_training, "batches_of", interrupted)
    x, y = digits(150)
    grid = {"module__rate": [0.1, 0.2], "module__units": [8, 16]}
    with pytest.warns(match="interrupted: the candidates were trained for 3 of 5 epochs; 2 of 4 candidates are scored"):
        search = GridSearchCV(model(), grid, cv=2, refit=False).fit(x, y)
    assert len(search.cv_results_["params"]) == 2 and max(calls) == 2


@pytest.mark.slow
def test_at_most_two_epochs_are_queued(monkeypatch):
    """So Ctrl-C takes effect soon, although the host is faster than the device."""
    from funcnet.sklearn import joint_training

    ended, ahead = [], []
    epoch_of, batches_of = joint_training.run_epoch, joint_training.batches_of

    def slow(recipe, values, fitting, rows, batches, key, number):
        def end(epoch):
            time.sleep(0.05)
            ended.append(int(epoch))

        after, loss = epoch_of(recipe, values, fitting, rows, batches, key, number)
        jax.debug.callback(end, number + 0 * loss.astype(np.int32))
        return after, loss

    def counted(recipe, train, seed, epoch, steps):
        ahead.append(epoch - 1 - max(ended, default=-1))
        return batches_of(recipe, train, seed, epoch, steps)

    monkeypatch.setattr(joint_training, "run_epoch", slow)
    monkeypatch.setattr(joint_training, "batches_of", counted)
    x, y = digits(150)
    GridSearchCV(model(), {"module__rate": [0.1, 0.2]}, cv=2, refit=False).fit(x, y)
    jax.effects_barrier()
    assert max(ended) == 4 and max(ahead) <= 2
