"""`Classifier` and `Regressor`: what they learn, what they keep, and what they refuse."""

import pickle
import subprocess
import sys

import numpy as np
import optax
import pandas
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import HalvingGridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

from funcnet import functional as F
from funcnet import nn
from funcnet.sklearn import MLP, Classifier, EarlyStopping, Regressor
from funcnet.sklearn.training import compiled
from tests.processes import ROOT, environment
from tests.sklearn.nets import Net, digits, iris


@pytest.fixture(scope="module")
def fitted():
    x, y = iris()
    return Classifier(lr=0.02, max_epochs=30, module__rate=0.1, random_state=0).fit(x, y)


def test_it_learns_named_classes(fitted):
    x, y = iris()
    assert fitted.score(x, y) > 0.95
    assert set(fitted.predict(x)) == set(y) == set(fitted.classes_)
    np.testing.assert_allclose(fitted.predict_proba(x).sum(1), 1, rtol=1e-5)
    losses = [row["train_loss"] for row in fitted.history_]
    assert len(losses) == fitted.n_iter_ == 30
    assert losses[-1] < losses[0] / 3


@pytest.mark.slow
def test_a_pickle_is_read_in_another_process(fitted, tmp_path):
    x, _ = iris()
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(fitted))
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys, pickle, numpy as np; folder = sys.argv[1]\n"
        "model = pickle.load(open(f'{folder}/model.pickle', 'rb'))\n"
        "np.save(f'{folder}/found.npy', model.predict_proba(np.load(f'{folder}/x.npy')))"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True, cwd=ROOT, env=environment(tmp_path))
    np.testing.assert_allclose(np.load(tmp_path / "found.npy"), fitted.predict_proba(x), rtol=1e-6)


def test_the_same_seed_gives_the_same_net_and_a_clone_is_new(fitted):
    x, y = iris()
    again = clone(fitted)
    assert not hasattr(again, "fitting_") and again.get_params() == fitted.get_params()
    np.testing.assert_array_equal(again.fit(x, y).predict_proba(x), fitted.predict_proba(x))
    other = clone(fitted).set_params(random_state=1).fit(x, y)
    assert not np.array_equal(other.predict_proba(x), fitted.predict_proba(x))


@pytest.mark.slow
def test_epochs_of_partial_fit_and_a_warm_start_continue(fitted):
    x, y = iris()
    steps = clone(fitted).partial_fit(x, y)
    for _ in range(29):
        steps.partial_fit(x, y)
    np.testing.assert_allclose(steps.predict_proba(x), fitted.predict_proba(x), rtol=1e-5)
    warm = clone(fitted).set_params(warm_start=True, max_epochs=15).fit(x, y).fit(x, y)
    np.testing.assert_allclose(warm.predict_proba(x), fitted.predict_proba(x), rtol=1e-5)


@pytest.mark.slow
def test_partial_fit_needs_all_classes_first():
    x, y = iris()
    model = Classifier(random_state=0).partial_fit(x[:60], y[:60], classes=np.unique(y))
    assert model.partial_fit(x, y).predict_proba(x).shape == (150, 3)
    with pytest.raises(
        ValueError, match=r"y has a class that is not in the first call; expected .*, got .*Pass classes="
    ):
        Classifier(random_state=0).partial_fit(x[:60], y[:60]).partial_fit(x, y)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_one_logit_for_two_classes(shape):
    class One(nn.Module):
        def __init__(self, in_features=4):
            super().__init__()
            self.out = nn.Linear(in_features, 1)

        def forward(self, x):
            return self.out(x).reshape(shape)

    x, y = iris()
    x, y = x[:100], y[:100]
    model = Classifier(One, lr=0.05, max_epochs=40, random_state=0).fit(x, y)
    assert model.predict_proba(x).shape == (100, 2)
    assert model.score(x, y) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("criterion", [nn.CrossEntropyLoss, lambda o, t: F.cross_entropy(o, t, reduction="none")])
def test_criteria(criterion):
    x, y = iris()
    models = [Classifier(criterion=one, max_epochs=3, random_state=0).fit(x, y) for one in (None, criterion)]
    np.testing.assert_allclose(*(model.predict_proba(x) for model in models), rtol=1e-6)
    with pytest.raises(ValueError, match=r"expected one for each row, got the shape \(\) .* Use reduction='none'"):
        Classifier(criterion=F.cross_entropy).fit(x, y)


@pytest.mark.slow
def test_a_function_of_its_surroundings_is_compiled_again():
    scale = 1.0

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(4, 3)

        def forward(self, x):
            return scale * self.out(x)

    def criterion(outputs, codes):
        return scale * F.cross_entropy(outputs, codes, reduction="none")

    x, y = iris()
    models = [
        Classifier(Scaled, max_epochs=5, random_state=0),
        Classifier(criterion=criterion, max_epochs=5, random_state=0),
    ]
    before = [model.fit(x, y).history_[-1]["train_loss"] for model in models]
    scale = 3.0
    after = [model.fit(x, y).history_[-1]["train_loss"] for model in models]
    assert all(abs(one / other - 1) > 0.2 for one, other in zip(before, after, strict=True))


def test_weights_are_repetitions():
    x, y = iris()
    counts = np.arange(len(x)) % 3
    options = {"batch_size": 1000, "max_epochs": 10, "random_state": 0}
    weighted = Classifier(**options).fit(x, y, sample_weight=counts)
    repeated = Classifier(**options).fit(np.repeat(x, counts, 0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.predict_proba(x), repeated.predict_proba(x), rtol=1e-4)


@pytest.mark.parametrize("class_weight", ["balanced", {"setosa": 3.0}])
def test_class_weights_are_those_of_scikit_learn(class_weight):
    x, y = iris()
    x, y = x[:120], y[:120]
    options = {"max_epochs": 5, "random_state": 0}
    ours = Classifier(class_weight=class_weight, **options).fit(x, y, sample_weight=np.arange(120))
    weights = compute_sample_weight(class_weight, y) * np.arange(120)
    theirs = Classifier(**options).fit(x, y, sample_weight=weights.astype(np.float32))
    np.testing.assert_array_equal(ours.predict_proba(x), theirs.predict_proba(x))
    if class_weight == "balanced":
        with pytest.raises(ValueError, match=r"partial_fit does not know .* got 'balanced'"):
            Classifier(class_weight=class_weight).partial_fit(x, y)


@pytest.mark.slow
def test_a_callback_ends_the_training():
    x, y = iris()
    options = {"validation_fraction": 0.3, "max_epochs": 200, "lr": 0.1, "random_state": 0}
    stopped = Classifier(callbacks=[EarlyStopping(patience=3)], **options).fit(x, y)
    assert stopped.n_iter_ < 100
    losses = [row["valid_loss"] for row in stopped.history_]
    assert min(losses) == losses[-4]
    with pytest.raises(
        ValueError, match=r"'valid_loss' is not measured; .* Let the estimator hold out rows for valid_loss\."
    ):
        Classifier(callbacks=[EarlyStopping()]).fit(x, y)


@pytest.mark.slow
def test_regression_keeps_the_shape_of_the_targets():
    x = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    y = np.stack([x[:, 0] * 2, x[:, 1] - x[:, 2]], 1)
    model = Regressor(lr=0.02, max_epochs=60, random_state=0).fit(x, y)
    assert model.predict(x).shape == (200, 2)
    assert model.score(x, y) > 0.95
    flat = Regressor(lr=0.02, max_epochs=60, random_state=0).fit(x, y[:, 0])
    assert flat.predict(x).shape == (200,)


def test_data_frames():
    x, y = iris()
    frame = pandas.DataFrame(x, columns=list("abcd"))
    model = Classifier(max_epochs=2, random_state=0).fit(frame, pandas.Series(y))
    assert list(model.feature_names_in_) == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("dcba")])


@pytest.mark.slow
def test_inside_the_tools_of_scikit_learn():
    x, y = digits()
    model = Classifier(Net, lr=0.01, max_epochs=15, random_state=0)
    pipeline = make_pipeline(StandardScaler(), model)
    assert cross_val_score(pipeline, x, y, cv=3).mean() > 0.85
    search = HalvingGridSearchCV(pipeline, {"classifier__module__rate": [0.1, 0.9]}, cv=3, random_state=0).fit(x, y)
    assert search.best_params_ == {"classifier__module__rate": 0.1}
    assert CalibratedClassifierCV(model, cv=3).fit(x, y).score(x, y) > 0.9


def test_wrong_parameters_are_named():
    x, y = iris()
    with pytest.raises(ValueError, match=r"Classifier: unknown parameter 'batchsize'; expected one of batch_size"):
        Classifier().set_params(batchsize=3)
    with pytest.raises(ValueError, match=r"Classifier: unknown parameter 'max_epoch'; expected one of max_epochs"):
        Classifier(max_epoch=3).fit(x, y)
    with pytest.raises(ValueError, match=r"unknown parameter 'module__rat'; expected one of module__rate.* of MLP\."):
        Classifier(module__rat=0.5).fit(x, y)
    with pytest.raises(ValueError, match=r"unknown parameter 'optimizer__b3'; expected one of optimizer__b2"):
        Classifier(optimizer__b3=0.5).fit(x, y)
    with pytest.raises(ValueError, match=r"p is not a probability; expected a number from 0 to 1, got 1\.5"):
        Classifier(module__rate=1.5).fit(x, y)
    for wrong, message in (
        ({"max_epochs": 0}, "max_epochs is wrong; expected a whole number of at least 1, got 0"),
        ({"batch_size": 2.5}, r"batch_size is wrong; expected a whole number of at least 1, got 2\.5"),
        (
            {"validation_fraction": 1},
            "validation_fraction is out of range; expected a share of the rows, at least 0 and below 1, got 1",
        ),
        ({"optimizer": "adams"}, "unknown optimizer; expected adagrad, adam, .* got 'adams'"),
        ({"dtype": "float16"}, "unknown dtype; expected float32 or float64, got 'float16'"),
    ):
        with pytest.raises(ValueError, match=message):
            Classifier(**wrong).fit(x, y)
    with pytest.raises(ValueError, match="NaN"):
        Classifier().fit(np.where(x > 2, np.nan, x), y)


def test_optimizers_get_their_parameters():
    x, y = iris()
    named = Classifier(optimizer="sgd", optimizer__momentum=0.9, lr=0.05, max_epochs=5, random_state=0).fit(x, y)
    given = Classifier(optimizer=lambda learning_rate, momentum: optax.sgd(learning_rate, momentum), lr=0.05)
    given.set_params(optimizer__momentum=0.9, max_epochs=5, random_state=0)
    np.testing.assert_array_equal(given.fit(x, y).predict_proba(x), named.predict_proba(x))
    plain = Classifier(MLP, optimizer="sgd", lr=0.05, max_epochs=5, random_state=0).fit(x, y)
    assert not np.array_equal(plain.predict_proba(x), named.predict_proba(x))


class Flat(nn.Module):
    """Outputs of shape (B,)."""

    def __init__(self, in_features=3):
        super().__init__()
        self.out = nn.Linear(in_features, 1)

    def forward(self, x):
        return self.out(x)[:, 0]


@pytest.mark.parametrize("criterion", [None, nn.MSELoss, nn.L1Loss])
def test_outputs_and_targets_do_not_broadcast(criterion):
    x = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    fitted = Regressor(Flat, criterion=criterion, lr=0.05, max_epochs=60, random_state=0).fit(x, x @ [1.0, -2.0, 0.5])
    assert fitted.score(x, x @ [1.0, -2.0, 0.5]) > 0.95


class Switched(Net):
    def __init__(self, in_features=4, out_features=3, mode=1):
        super().__init__(in_features, out_features)
        self.mode = mode

    def forward(self, x):
        return super().forward(x) * (0 if self.mode is True else 1)


@pytest.mark.slow
def test_values_that_are_equal_but_of_other_types_have_other_programs():
    x, y = iris()
    fitted = [
        Classifier(Switched, module__mode=mode, lr=0.01, max_epochs=9, random_state=0).fit(x, y) for mode in (1, True)
    ]
    assert fitted[0].score(x, y) > 0.6 > fitted[1].score(x, y)


class WithoutTemperature(Net):
    def __init__(self, in_features=4, out_features=3, temperature=2.0):
        super().__init__(in_features, out_features)
        self.temperature = temperature

    def forward(self, x):
        return super().forward(x) if self.training or self.temperature == 1.0 else super().forward(x) / self.temperature


def test_a_float_that_only_evaluation_reads_is_a_part_of_the_program():
    x, y = iris()
    model = Classifier(WithoutTemperature, max_epochs=2, random_state=0).fit(x, y)
    assert model.predict_proba(x).shape == (150, 3) and "module__temperature" not in model.blueprint_.values


def test_a_net_of_another_width_is_refused():
    x, y = iris()
    message = (
        r"Classifier: the net returns the wrong number of outputs; expected 3 for each row, got the shape \('B', 2\)"
    )
    with pytest.raises(ValueError, match=message):
        Classifier(module__out_features=2).fit(x, y)
    with pytest.raises(ValueError, match=r"validation_fraction leaves no rows to train on; .* of 5 rows, got 0\.9"):
        Classifier(validation_fraction=0.9).fit(x[48:53], y[48:53])


def test_a_subclass_with_attributes_of_its_own_is_fitted_twice():
    class Scaled(Classifier):
        def fit(self, X, y):
            self.scale_ = np.abs(X).max()
            return super().fit(X / self.scale_, y)

    x, y = iris()
    assert Scaled(max_epochs=1).fit(x, y).fit(x, y).n_iter_ == 1


def test_early_stopping_begins_again_with_each_fit():
    x, y = iris()
    model = Classifier(callbacks=[EarlyStopping("train_loss", patience=2)], max_epochs=6, lr=1e-4, random_state=0)
    model.set_params(warm_start=True).fit(x, y)
    model.logged_ = [{**row, "train_loss": 0.0} for row in model.logged_]
    assert model.fit(x, y).n_iter_ == 12


def test_floats_are_values_in_float64_too():
    x, y = iris()
    model = Classifier(max_epochs=1, module__rate=0.1, dtype="float64").fit(x, y)
    assert set(model.blueprint_.values) == {"lr", "module__rate"}
    assert model.predict_proba(x).dtype == np.float64


@pytest.mark.slow
def test_lists_are_compiled_once():
    x, y = iris()
    model = Classifier(module__hidden=[5, 4], module__rate=0.1, max_epochs=2, random_state=0)
    model.fit(x, y).predict(x)
    before = compiled.cache_info().misses
    clone(model).fit(x, y).predict(x)
    model.set_params(module__rate=0.3, lr=0.1).fit(x, y).predict(x)
    assert compiled.cache_info().misses == before
