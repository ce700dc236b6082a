"""skorch's spelling beside skorch: default values, losses, probabilities, and what is refused."""

import inspect

import jax.numpy as jnp
import numpy as np
import optax
import pytest
import skorch
import torch

from funcnet import functional as F
from funcnet import nn
from funcnet.sklearn import GridSearchCV
from funcnet.sklearn import skorch as ours
from tests.sklearn.nets import digits, iris

NAMES = ["NeuralNetBinaryClassifier", "NeuralNetClassifier", "NeuralNetRegressor"]


class Linear(nn.Module):
    def __init__(self, out_features, activation=None, **sizes):
        super().__init__()
        self.out, self.activation = nn.Linear(4, out_features), activation

    def forward(self, x):
        y = self.out(x)
        return y if self.activation is None else self.activation(y)


def softmax(x):
    return F.softmax(x, dim=-1)


@pytest.mark.parametrize("name", NAMES)
def test_default_values(name):
    found = inspect.signature(getattr(ours, name)).parameters
    theirs = [inspect.signature(one).parameters for one in (getattr(skorch, name), skorch.NeuralNet)]
    for option in ("lr", "max_epochs", "batch_size", "warm_start"):
        assert found[option].default == theirs[1][option].default, option
    criterion = theirs[0]["criterion"].default
    assert getattr(ours, name).default_criterion.__name__ == criterion.__name__


@pytest.mark.parametrize(
    ("name", "criterion", "outputs"),
    [
        ("NeuralNetClassifier", "NLLLoss", 3),
        ("NeuralNetClassifier", "CrossEntropyLoss", 3),
        ("NeuralNetBinaryClassifier", "BCEWithLogitsLoss", 1),
        ("NeuralNetRegressor", "MSELoss", 1),
        ("NeuralNetRegressor", "L1Loss", 1),
    ],
)  # fmt: skip
def test_the_loss_of_a_fit_and_the_predictions(name, criterion, outputs):
    """One epoch of one batch from the same start: the loss, and the predictions after it."""
    x, y = iris()
    y = np.unique(y, return_inverse=True)[1]
    if outputs == 1:
        x, y = x[:100], y[:100] if "Binary" in name else x[:100, :1] * 3
    is_nll = criterion == "NLLLoss"
    net = torch.nn.Sequential(torch.nn.Linear(4, outputs), *[torch.nn.Softmax(-1)] * is_nll)
    theirs = getattr(skorch, name)(
        net, criterion=getattr(torch.nn, criterion), train_split=None, verbose=0, max_epochs=1, batch_size=-1, lr=0.5
    )
    start = {"out": {n: p.detach().numpy().copy() for n, p in net[0].named_parameters()}}
    model = getattr(ours, name)(
        Linear, criterion=getattr(nn, criterion), module__out_features=outputs, batch_size=200, max_epochs=1, lr=0.5,
        module__activation=softmax if is_nll else None, optimizer=optax.sgd, random_state=0,
    )  # fmt: skip
    targets = y if name == "NeuralNetRegressor" else y.astype(np.float32 if "Binary" in name else np.int64)
    theirs.fit(x, targets)
    model.fit(x, y)
    model.fitting_ = model.fitting_._replace(params=start)
    model.set_params(warm_start=True).fit(x, y)
    np.testing.assert_allclose(model.history[:, "train_loss"][-1:], theirs.history[-1:, "train_loss"], rtol=1e-5)
    if name == "NeuralNetRegressor":
        np.testing.assert_allclose(model.predict(x), theirs.predict(x)[:, 0], rtol=1e-4, atol=1e-5)
    else:
        np.testing.assert_allclose(model.predict_proba(x), theirs.predict_proba(x), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(model.predict(x), theirs.predict(x))


@pytest.mark.slow
def test_a_search():
    x, y = digits(200)
    model = ours.NeuralNetClassifier(
        nn.Linear, module__in_features=64, module__out_features=10, criterion=nn.CrossEntropyLoss, optimizer="adam",
        iterator_train__shuffle=True, train_split=0.2, random_state=0,
    )  # fmt: skip
    search = GridSearchCV(model, {"lr": [1e-5, 0.03]}, cv=2).fit(x, y)
    assert search.best_params_ == {"lr": 0.03} and "valid_loss" in search.best_estimator_.history_[-1]


def test_what_is_refused():
    x, y = iris()
    one_output = ours.NeuralNetClassifier(nn.Linear, module__in_features=4, module__out_features=1)
    with pytest.raises(ValueError, match="the net returns the wrong number of outputs; expected 3"):
        one_output.fit(x, y)
    with pytest.raises(ValueError, match=r"NLLLoss needs a probability for each class; .* got \('B', 1\). Use BCEWith"):
        one_output.fit(x[:100], y[:100])
    with pytest.raises(
        ValueError, match=r"train_split is out of range; expected a share of the rows, .* got ValidSplit"
    ):
        one_output.set_params(train_split=ValidSplit()).fit(x, y)
    with pytest.raises(ValueError, match="unknown parameter 'iterator_valid__batch_size'; expected one of"):
        one_output.set_params(iterator_valid__batch_size=3)
    assert jnp.isfinite(ours.nll_of_probabilities(jnp.zeros((1, 2)), jnp.zeros(1, jnp.int32))).all()


class ValidSplit:
    def __repr__(self):
        return "ValidSplit"
