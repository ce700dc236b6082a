"""SciKeras's spelling: parameters, what is refused, and that a search still needs one program."""

import numpy as np
import optax
import pytest
from sklearn import model_selection
from sklearn.base import clone

from funcnet.sklearn import EarlyStopping, GridSearchCV
from funcnet.sklearn.keras import (
    L2,
    SGD,
    Adam,
    Dense,
    Dropout,
    Flatten,
    Input,
    KerasClassifier,
    KerasRegressor,
    MaxNorm,
    Sequential,
)
from tests.sklearn.nets import digits, iris

CROSS_ENTROPY = "sparse_categorical_crossentropy"


def small(rate=0.0, units=8, learning_rate=0.01, limit=4.0, optimizer=Adam):
    model = Sequential([Dense(units, activation="relu", kernel_constraint=MaxNorm(limit)), Dropout(rate)])
    model.add(Dense(3, activation="softmax"))
    model.compile(loss=CROSS_ENTROPY, optimizer=optimizer(learning_rate))
    return model


def uncompiled(meta, units=16):
    outputs = 1 if meta["target_type_"] == "binary" else meta["n_classes_"]
    return Sequential([
        Input((meta["n_features_in_"],)),
        Dense(units, activation="relu"),
        Dense(outputs, activation="softmax" if outputs > 1 else "sigmoid"),
    ])  # fmt: skip


def compiled_by_itself(compile_kwargs, units=8):
    model = Sequential([Dense(units, activation="relu"), Dense(3, activation="softmax")])
    model.compile(loss=compile_kwargs["loss"] or "categorical_crossentropy", optimizer=compile_kwargs["optimizer"])
    return model


def fitted(**options):
    given = {"model": small, "epochs": 40, "batch_size": 16, "random_state": 0} | options
    return KerasClassifier(**given).fit(*iris())


@pytest.mark.parametrize(
    "options",
    [
        {"model__units": 16},
        {"units": 16},
        {"units": 2, "model__units": 16},
        {"model": None, "build_fn": small, "units": 16},
        {"model": uncompiled, "loss": CROSS_ENTROPY, "optimizer": "Adam", "optimizer__learning_rate": 0.01},
        {"model": uncompiled, "optimizer": Adam(0.01), "model__units": 16},
        {"model": compiled_by_itself, "optimizer": "adam", "optimizer__learning_rate": 0.01, "units": 16},
    ],
)  # fmt: skip
def test_parameters_reach_the_model(options):
    found = fitted(**options)
    assert [np.shape(one["kernel"]) for name, one in found.fitting_.params.items() if "dense" in name] == [
        (4, 16),
        (16, 3),
    ]
    assert found.score(*iris()) > 0.9
    copy = clone(found)
    assert copy.get_params() == found.get_params() and not hasattr(copy, "fitting_")
    np.testing.assert_allclose(found.predict_proba(iris()[0]).sum(1), 1, rtol=1e-5)


@pytest.mark.slow
def test_two_classes_and_the_last_rows_are_held_out():
    x, y = iris()
    x, y = x[:100], y[:100]
    found = KerasClassifier(uncompiled, epochs=20, optimizer="adam", validation_split=0.5, random_state=0).fit(x, y)
    assert found.score(x[:50], y[:50]) == 1 and found.score(x[50:], y[50:]) < 1, (
        "the second class is in the held-out half"
    )
    assert list(found.history_) == ["loss", "val_loss"] and len(found.history_["val_loss"]) == 20
    assert found.predict_proba(x).shape == (100, 2)
    stopping = EarlyStopping(patience=2)
    found.set_params(callbacks=[stopping]).fit(x, y)
    assert found.n_iter_ < 20


def one_hot(y):
    return np.float64(np.asarray(y)[:, None] == np.unique(iris()[1]))


@pytest.mark.parametrize("loss", ["categorical_crossentropy", None])
def test_one_hot_targets(loss):
    x, y = iris()
    rows = one_hot(y)
    model = KerasClassifier(uncompiled, epochs=20, optimizer="adam", loss=loss, random_state=0)
    coded = clone(model).fit(x, y)
    found = model.fit(x, rows)
    assert found.history_ == coded.history_ and found.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(found.predict(x), one_hot(coded.predict(x)))
    assert found.score(x, rows) == coded.score(x, y)
    with pytest.raises(ValueError, match=r"expected one-hot rows \(N, 3\), got the shape \(150,\)"):
        found.partial_fit(x, y)


@pytest.mark.parametrize("loss", ["mse", "binary_crossentropy", lambda y_true, y_pred: (y_true - y_pred) ** 2])
def test_losses_of_one_hot_targets(loss):
    x, y = iris()
    model = KerasClassifier(small, loss=loss, epochs=1, random_state=0)
    model.set_params(model=uncompiled, optimizer=Adam(0.0), batch_size=150).fit(x, one_hot(y))
    p = model.predict_proba(x)
    rows = one_hot(y)
    expected = -(rows * np.log(p) + (1 - rows) * np.log(1 - p)) if loss == "binary_crossentropy" else (rows - p) ** 2
    np.testing.assert_allclose(model.history_["loss"], [expected.mean()], rtol=1e-5)


@pytest.mark.slow
def test_one_hot_targets_in_a_search():
    x, y = iris()
    model = KerasClassifier(small, epochs=10, random_state=0)
    search = GridSearchCV(model, {"model__rate": [0.0, 0.9]}, cv=model_selection.KFold(3, shuffle=True, random_state=0))
    ours, theirs = search.fit(x, one_hot(y)), clone(search).set_params(exact=True).fit(x, one_hot(y))
    assert ours.best_params_ == {"model__rate": 0.0}
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=0.02)


@pytest.mark.slow
def test_a_regression():
    x = np.linspace(-1, 1, 80)[:, None]
    y = np.concatenate([x**2, -x], 1)

    def two(units):
        return Sequential([Dense(units, activation="tanh"), Dense(2)])

    found = KerasRegressor(two, units=16, optimizer=optax.adam(0.02), loss="mae", epochs=300, random_state=0).fit(x, y)
    assert found.predict(x).shape == (80, 2)
    assert found.score(x, y) > 0.9


@pytest.mark.slow
def test_images():
    x, y = digits(200)

    def flat():
        return Sequential([Flatten(input_shape=(8, 8)), Dense(10, activation="softmax")])

    found = KerasClassifier(flat, epochs=20, optimizer=Adam(0.01), random_state=0).fit(x.reshape(-1, 8, 8), y)
    assert found.score(x.reshape(-1, 8, 8), y) > 0.8


@pytest.mark.slow
def test_one_program_for_all_floats(monkeypatch):
    from funcnet.sklearn import joint_training

    groups, original = [], joint_training._train_group
    monkeypatch.setattr(
        joint_training, "_train_group", lambda lanes, *rest: (groups.append(len(lanes)), original(lanes, *rest))
    )
    x, y = iris()
    model = KerasClassifier(small, epochs=4, random_state=0)
    grid = {"rate": [0.0, 0.3], "model__learning_rate": [0.01, 0.03], "limit": [1.0, 3.0]}
    ours = GridSearchCV(model, grid, cv=3, refit=False).fit(x, y)
    assert groups == [24]
    theirs = model_selection.GridSearchCV(model, grid, cv=3, refit=False).fit(x, y)
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=0.02)
    assert all(seconds > 0 for seconds in ours.cv_results_["mean_fit_time"])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"model": None}, "the model is wrong; expected a function that returns a Sequential, got None"),
        ({"model__rates": 0.1}, "unknown parameter 'model__rates'; expected one of model__rate"),
        ({"rates": 0.1}, "unknown parameter 'rates'; expected one of rate"),
        ({"epochs": 0}, "epochs is wrong; expected a whole number of at least 1, got 0"),
        ({"validation_split": 2}, "validation_split is out of range; expected a share of the rows"),
        ({"optimizer": "adam"}, "the function compiles its model, .* would have no effect; .* got optimizer. Pass"),
        ({"model": uncompiled, "optimizer": "adams"}, "compile: unknown optimizer; expected Adadelta, .* got 'adams'"),
        ({"model": uncompiled, "loss": "mean"}, "compile: unknown loss; expected binary_crossentropy, .* got 'mean'"),
        ({"model": lambda: 3}, "expected a function that returns a funcnet.sklearn.keras.Sequential, got builtins.int"),
        ({"rate": 1.5}, "p is not a probability; expected a number from 0 to 1, got 1.5"),
        ({"model": lambda: Sequential([Dense(3, activation="tan")])}, "layer: unknown activation; .* got 'tan'"),
        ({"model": lambda: Sequential([Dense(3, input_dim=5)])}, r"expected \(5,\), as .* 'dense' declares, got \(4"),
        ({"model": lambda: Sequential(["Dense"])}, "Sequential: cannot use this layer; .* got builtins.str"),
        ({"model": lambda: Sequential([Dense(3, kernel_constraint=MaxNorm)])}, "kernel_constraint is wrong; expected"),
        ({"model": lambda: Sequential([Dense(3, bias_regularizer="l3")])}, "bias_regularizer is wrong; expected L1"),
        ({"model": lambda: Sequential([Dense(3, name="a"), Dense(3, name="a")])}, "two layers have the same name"),
        ({"model": Sequential([Dense(3)])}, "the model is wrong; expected a function that returns a Sequential, got <"),
        ({"model": uncompiled, "optimizer": "adam", "optimizer__lr": 0.1}, "unknown parameter 'lr' of Adam"),
        ({"model": uncompiled, "optimizer": optax.sgd(0.1), "optimizer__momentum": 0.1}, "has no parameters"),
        ({"callbacks": [3]}, "callbacks are wrong; expected a list of functions"),
        ({"model": lambda: Sequential([Dense(2)])}, "the net returns the wrong number of outputs; expected 3"),
    ],
)  # fmt: skip
def test_wrong_parameters(options, error):
    with pytest.raises((TypeError, ValueError), match=error):
        fitted(**options)


@pytest.mark.slow
def test_a_function_of_the_surroundings_is_called_again():
    """The model function is called in each fit, so a search or a fit must not use an older program."""
    rate = 0.0

    def build():
        model = Sequential([Dense(3, activation="softmax", kernel_regularizer=L2(rate))])
        model.compile(loss=CROSS_ENTROPY, optimizer=SGD(0.1))
        return model

    x, y = iris()
    model = KerasClassifier(build, epochs=10, random_state=0)
    before = model.fit(x, y).predict_proba(x)
    rate = 5.0
    after = model.fit(x, y).predict_proba(x)
    np.testing.assert_array_equal(after, clone(model).set_params(model=lambda: build()).fit(x, y).predict_proba(x))
    assert abs(before - after).max() > 0.1


@pytest.mark.slow
def test_names_of_arguments_do_not_hide_methods():
    def build(outputs, fit, lambda_=1.0, **others):
        penalty = L2(lambda_ + fit + others["facts"])
        model = Sequential([Dense(outputs, activation="softmax", kernel_regularizer=penalty)])
        model.compile(loss=CROSS_ENTROPY, optimizer=Adam(0.01))
        return model

    arguments = {"model": build, "outputs": 3, "fit": 0.0, "facts": 0.0}
    free, bound = fitted(**arguments, model__lambda_=0.001), fitted(**arguments, lambda_=9.0)
    assert free.get_params()["model__lambda_"] == 0.001 and bound.get_params()["lambda_"] == 9.0
    norms = [np.linalg.norm(one.fitting_.params["dense"]["kernel"]) for one in (free, bound)]
    assert norms[0] > 10 * norms[1]


@pytest.mark.slow
def test_layers_that_a_float_removes():
    """A tracer is no float, so this value becomes a part of the program."""

    def build(rate):
        model = Sequential([Dropout(rate)] if isinstance(rate, float) and rate > 0 else [])
        model.add(Dense(3, activation="softmax"))
        model.compile(loss=CROSS_ENTROPY, optimizer=Adam(0.01))
        return model

    with_dropout, without = (fitted(model=build, rate=rate).predict_proba(iris()[0]) for rate in (0.9, 0.0))
    assert abs(with_dropout - without).max() > 0.05
