"""Layers, losses and optimizers beside Keras's own, which compute with JAX too."""

import inspect
import os

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from funcnet.sklearn import keras as ours
from funcnet.sklearn.keras.layers import ACTIVATIONS, INITIALIZERS
from funcnet.sklearn.keras.losses import LOSSES, row_loss
from funcnet.sklearn.keras.optimizers import OPTIMIZERS, optimizer_of

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def keras():
    os.environ["KERAS_BACKEND"] = "jax"
    import keras

    with jax.numpy_dtype_promotion("standard"):
        yield keras


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


OPTIONS = [
    *[(name, {}) for name in OPTIMIZERS],
    ("sgd", {"momentum": 0.9, "learning_rate": 0.1}),
    ("sgd", {"momentum": 0.8, "nesterov": True}),
    ("rmsprop", {"momentum": 0.5, "rho": 0.8}),
    ("adam", {"amsgrad": True, "epsilon": 1e-3, "beta_2": 0.9}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_optimizers(keras, name, options):
    theirs = keras.optimizers.get({"class_name": type_name(keras, name), "config": options})
    start = {"a": normal(3, 4) / 1000, "b": normal(4, seed=1) / 1000}  # of large numbers, rounding would hide updates
    variables = {one: keras.Variable(value) for one, value in start.items()}
    transformation = optimizer_of(name, **options)
    params = jax.tree.map(jnp.asarray, start)
    state = transformation.init(params)
    for step in range(8):
        gradient = {one: normal(*value.shape, seed=10 + step) * 10.0 ** (step - 4) for one, value in start.items()}
        theirs.apply([jnp.asarray(gradient[one]) for one in variables], list(variables.values()))
        updates, state = transformation.update(jax.tree.map(jnp.asarray, gradient), state, params)
        params = optax.apply_updates(params, updates)
    for one, variable in variables.items():
        moved = np.abs(np.asarray(variable) - start[one]).max()
        np.testing.assert_allclose(params[one], np.asarray(variable), atol=1e-5 * moved, rtol=0)
        assert moved > 1e-6


def type_name(keras, name):
    return next(one for one in dir(keras.optimizers) if one.lower() == name)


@pytest.mark.parametrize("name", LOSSES)
def test_losses(keras, name):
    rng = np.random.default_rng(0)
    theirs = keras.losses.get(name)
    if "categorical" in name:
        probabilities, codes = rng.dirichlet(np.ones(4), 30).astype(np.float32) * 1.2, rng.integers(0, 4, 30)
        probabilities[0] = [0, 1, 0, 0]
        expected = theirs(codes if name.startswith("sparse") else np.eye(4, dtype=np.float32)[codes], probabilities)
        found = row_loss(name)(jnp.asarray(probabilities), jnp.asarray(codes, jnp.int32))
    elif name == "binary_crossentropy":
        probabilities, codes = rng.uniform(size=(30, 1)).astype(np.float32), rng.integers(0, 2, 30)
        probabilities[:2] = [[0], [1]]
        expected = theirs(codes[:, None].astype(np.float32), probabilities)
        found = row_loss(name)(jnp.asarray(probabilities), jnp.asarray(codes, jnp.int32))
    else:
        outputs, targets = normal(30, 2), normal(30, 2, seed=1) * 3
        expected = theirs(targets, outputs)
        found = row_loss(name)(jnp.asarray(outputs), jnp.asarray(targets))
    np.testing.assert_allclose(found, np.asarray(expected), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(keras, name):
    x = normal(5, 7) * 3
    found = ACTIVATIONS[name](jnp.asarray(x))
    np.testing.assert_allclose(found, keras.activations.get(name)(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializers(keras, name):
    theirs = np.asarray(keras.initializers.get(name)((300, 200)))
    found = np.asarray(INITIALIZERS[name](KEY, (300, 200), jnp.float32))
    np.testing.assert_allclose(found.std(), theirs.std(), rtol=0.02, atol=1e-7)
    np.testing.assert_allclose(found.mean(), theirs.mean(), atol=0.02 * theirs.std() + 1e-7)
    np.testing.assert_allclose(np.abs(found).max(), np.abs(theirs).max(), rtol=0.2)


def test_max_norm_and_batch_normalization(keras):
    weight = normal(6, 5) * 2
    theirs = keras.constraints.MaxNorm(1.5)(weight)
    np.testing.assert_allclose(ours.MaxNorm(1.5)(jnp.asarray(weight)), theirs, rtol=1e-6)

    layer, x = keras.layers.BatchNormalization(momentum=0.7), normal(9, 4) * 2 + 1
    expected = np.asarray(layer(x, training=True))
    net = ours.BatchNormalization(momentum=0.7).module((4,))
    params, state = net.init(KEY)
    found, state = net.apply(params, state, jnp.asarray(x), training=True)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    for name in ("moving_mean", "moving_variance"):
        np.testing.assert_allclose(state[name], np.asarray(getattr(layer, name)), rtol=1e-5)

    evaluated = net.apply(params, state, jnp.asarray(x))[0]
    np.testing.assert_allclose(evaluated, layer(x, training=False), rtol=1e-5, atol=1e-6)


def layers(model, layer, constraints, regularizers):
    """A net with every kind of layer that is not random, of Keras or of funcnet."""
    limit, penalty = constraints.MaxNorm(1.0), regularizers.L2(0.01)
    return model([
        layer.Input((4,)),
        layer.Dense(6, activation="relu", kernel_constraint=limit, kernel_regularizer=penalty, name="first"),
        layer.BatchNormalization(name="norm"),
        layer.Dense(5, use_bias=False, kernel_regularizer=regularizers.L1(0.003), name="second"),
        layer.Activation("tanh"),
        layer.Dense(3, activation="softmax", bias_regularizer="l2", name="last"),
    ])  # fmt: skip


@pytest.mark.slow
def test_a_fit_of_three_epochs(keras):
    """The same start and the same order of the rows give the same parameters, with weights, and with a last batch that
    is not full.
    """
    x, y = normal(20, 4), np.random.default_rng(2).integers(0, 3, 20)
    weights = {0: 3.0, 1: 1.0, 2: 0.5}

    def build():
        model = layers(ours.Sequential, ours, ours, ours)
        model.compile(loss="sparse_categorical_crossentropy", optimizer=ours.Adam(learning_rate=0.05))
        return model

    theirs = layers(keras.Sequential, keras.layers, keras.constraints, keras.regularizers)
    theirs.compile(loss="sparse_categorical_crossentropy", optimizer=keras.optimizers.Adam(learning_rate=0.05))
    options = {"epochs": 1, "batch_size": 8, "shuffle": False, "class_weight": weights}
    model = ours.KerasClassifier(build, random_state=0, **options).fit(x, y)
    params = {
        name: {one: np.asarray(getattr(theirs.get_layer(name), one)) for one in arrays}
        for name, arrays in model.fitting_.params.items()
    }
    norm = {"moving_mean": np.zeros(6, np.float32), "moving_variance": np.ones(6, np.float32)}
    state = dict(model.fitting_.state) | {"norm": norm}
    begun = model.blueprint_.transformation({}).init(jax.tree.map(jnp.asarray, params))
    model.fitting_ = model.fitting_._replace(params=params, state=state, opt_state=begun)
    model.set_params(warm_start=True, epochs=3).fit(x, y)
    theirs.fit(x, y, verbose=0, **options | {"epochs": 3})
    for name, arrays in model.fitting_.params.items():
        for one, found in arrays.items():
            np.testing.assert_allclose(found, getattr(theirs.get_layer(name), one), rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(model.predict_proba(x), theirs.predict(x, verbose=0), rtol=1e-3, atol=1e-5)


NAMES = ["SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Nadam", "RMSprop"]
NAMES += ["Activation", "BatchNormalization", "Dense", "Dropout", "Flatten", "L1", "L1L2", "L2", "MaxNorm"]


@pytest.mark.parametrize("name", NAMES)
def test_arguments_by_position_and_default_values(keras, name):
    home = next(
        one for one in (keras.optimizers, keras.layers, keras.regularizers, keras.constraints) if hasattr(one, name)
    )
    theirs = inspect.signature(getattr(home, name)).parameters
    found = inspect.signature(getattr(ours, name)).parameters
    ordered = [one for one, parameter in found.items() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    assert ordered == list(theirs)[: len(ordered)]
    for one, parameter in found.items():
        if one in theirs:
            expected = theirs[one].default
            assert parameter.default == expected, one


@pytest.mark.parametrize(("count", "split"), [(90, 0.3), (100, 0.07), (200, 0.07), (10, 0.5), (10, 0.01)])
def test_the_rows_that_are_held_out(keras, count, split):
    from keras.src.trainers.data_adapters.array_slicing import train_validation_split

    rows = np.arange(count)
    (training,), (held,) = train_validation_split((rows,), validation_split=split)
    model = ours.KerasRegressor(lambda: None, validation_split=split)
    number = model.held_out_count(count)
    order = model.divided_order(count, number, KEY)
    np.testing.assert_array_equal(order[:number], held)
    np.testing.assert_array_equal(order[number:], training)
