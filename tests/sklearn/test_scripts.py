"""The classic scripts that search for a dropout rate: only their imports change."""

import os

import jax
import numpy as np
import pytest
from sklearn import model_selection
from sklearn.datasets import load_breast_cancer

KERAS = """
def create_model(dropout_rate, weight_constraint):
    model = Sequential()
    model.add(Dense(12, input_shape=(8,), kernel_initializer="uniform", activation="linear",
                    kernel_constraint=MaxNorm(weight_constraint)))
    model.add(Dropout(dropout_rate))
    model.add(Dense(1, kernel_initializer="uniform", activation="sigmoid"))
    model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
    return model

model = KerasClassifier(model=create_model, epochs=EPOCHS, batch_size=10, verbose=0)
param_grid = dict(model__dropout_rate=[0.0, 0.2, 0.9], model__weight_constraint=[1.0, 4.0])
grid = GridSearchCV(estimator=model, param_grid=param_grid, n_jobs=-1, cv=3)
grid_result = grid.fit(X, Y)
"""
OF_KERAS = """
from keras.constraints import MaxNorm
from keras.layers import Dense, Dropout
from keras.models import Sequential
from scikeras.wrappers import KerasClassifier
from sklearn.model_selection import GridSearchCV
"""
OURS_FOR_KERAS = """
from funcnet.sklearn import GridSearchCV
from funcnet.sklearn.keras import Dense, Dropout, KerasClassifier, MaxNorm, Sequential
"""
SKORCH = """
class Net(nn.Module):
    def __init__(self, dropout_rate=0.5):
        super().__init__()
        self.layer = nn.Linear(8, 12)
        self.act = nn.ReLU()
        self.dropout = nn.Dropout(dropout_rate)
        self.output = nn.Linear(12, 2)

    def forward(self, x):
        return self.output(self.dropout(self.act(self.layer(x))))

model = NeuralNetClassifier(Net, criterion=nn.CrossEntropyLoss, optimizer=Adam, max_epochs=EPOCHS, batch_size=10,
                            train_split=None, verbose=False)
param_grid = {"lr": [0.001, 0.01], "module__dropout_rate": [0.0, 0.2, 0.9]}
grid = GridSearchCV(estimator=model, param_grid=param_grid, n_jobs=-1, cv=3)
grid_result = grid.fit(X, Y)
"""
OF_SKORCH = """
import torch.nn as nn
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetClassifier
from torch.optim import Adam
"""
OURS_FOR_SKORCH = """
import funcnet.nn as nn
from funcnet.sklearn import GridSearchCV
from funcnet.sklearn.skorch import NeuralNetClassifier
from optax import adam as Adam
"""


def run(imports, script, epochs):
    x, y = load_breast_cancer(return_X_y=True)
    x = ((x - x.mean(0)) / x.std(0))[:, :8].astype(np.float32)
    # n_jobs would start processes, which cannot read functions of this text
    names = {"X": x, "Y": y, "EPOCHS": epochs}
    exec(imports + script.replace(", n_jobs=-1", ""), names)
    return names["grid_result"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("imports", "script"), [(OURS_FOR_KERAS, KERAS), (OURS_FOR_SKORCH, SKORCH)], ids=["Keras", "skorch"]
)
def test_only_the_imports_change(imports, script):
    found = run(imports, script, 6)
    assert found.best_score_ > 0.85 and len(found.cv_results_["params"]) == 6
    assert np.ptp(found.cv_results_["mean_test_score"]) > 0
    theirs = model_selection.GridSearchCV(found.estimator, found.param_grid, cv=3).fit(*[iris_like(), [0, 1] * 30])
    assert found.cv_results_.keys() == theirs.cv_results_.keys()


def iris_like():
    return np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ours", "theirs", "script", "epochs"),
    [(OURS_FOR_KERAS, OF_KERAS, KERAS, 3), (OURS_FOR_SKORCH, OF_SKORCH, SKORCH, 5)],
    ids=["Keras", "skorch"],
)
def test_the_results_are_those_of_the_libraries(ours, theirs, script, epochs):
    os.environ["KERAS_BACKEND"] = "jax"
    with jax.numpy_dtype_promotion("standard"):
        expected = run(theirs, script, epochs)
    found = run(ours, script, epochs)
    assert found.cv_results_.keys() == expected.cv_results_.keys()
    assert found.cv_results_["params"] == expected.cv_results_["params"]
    scores = [one.cv_results_["mean_test_score"] for one in (found, expected)]
    print(*scores, sep="\n")
    # Starts and draws differ, so the scores are alike, not equal.
    np.testing.assert_allclose(np.mean(scores[0]), np.mean(scores[1]), atol=0.06)
