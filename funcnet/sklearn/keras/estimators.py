"""SciKeras's `KerasClassifier` and `KerasRegressor`, around functions that return a `Sequential`."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import jax
import numpy as np
import optax
from jax.typing import ArrayLike
from sklearn.utils.multiclass import type_of_target

from funcnet import nn
from funcnet.sklearn.classifier import Classifier
from funcnet.sklearn.estimators import Callback, Estimator
from funcnet.sklearn.keras.losses import cross_entropy, mean_squared_error, of_one_hot, row_loss
from funcnet.sklearn.keras.models import Sequential
from funcnet.sklearn.keras.optimizers import optimizer_of
from funcnet.sklearn.regressor import Regressor
from funcnet.sklearn.scikit_parameters import Names
from funcnet.sklearn.traced_parameters import Given, check_arguments, without_prefix
from funcnet.sklearn.training import RowLosses, TrainingRows

__all__ = ["KerasClassifier", "KerasRegressor"]


@dataclasses.dataclass(frozen=True)
class KerasMaker:
    """Makes the net and the optimizer of a function that returns a `Sequential`.

    Attributes:
        where: name of the estimator, for messages.
        model: the function.
        optimizer, loss: the optimizer and the loss for a model that is not compiled.
        shape: shape of a row.
    """

    where: str
    model: Callable[..., Sequential]
    optimizer: Any
    loss: Any
    shape: tuple[int, ...]

    def net(self, given: Given) -> nn.Module:
        return self.compiled(given).net(self.shape)

    def transformation(self, given: Given) -> optax.GradientTransformation:
        return self.compiled(given).transformation()

    def compiled(self, given: Given) -> Sequential:
        """Return the compiled model.

        Raises:
            TypeError: if the function returns something else.
            ValueError: if the function compiles its model, and the estimator has an optimizer or a loss too.
        """
        changes, prefixed = without_prefix("optimizer__", given), without_prefix("model__", given)
        bare = {name: value for name, value in given.items() if not name.startswith(("optimizer__", "model__"))}
        optimizer = optimizer_of("rmsprop" if self.optimizer is None else self.optimizer, **changes)
        arguments = {**bare, **prefixed}
        takes_own = "compile_kwargs" in inspect.signature(self.model).parameters
        if takes_own:
            arguments.setdefault("compile_kwargs", {"optimizer": optimizer, "loss": self.loss, "metrics": None})
        model = self.model(**arguments)
        if not isinstance(model, Sequential):
            raise TypeError(
                f"{self.where}: the model has the wrong type; expected a function that returns a "
                f"funcnet.sklearn.keras.Sequential, got {type(model).__module__}.{type(model).__name__}."
            )
        own = {
            "optimizer": self.optimizer,
            "loss": self.loss,
            **{f"optimizer__{name}": one for name, one in changes.items()},
        }
        own = {name: one for name, one in own.items() if one is not None}
        if model.optimizer is None:
            found = Sequential(model.layers)  # the function may return the same object again
            found.compile(optimizer, self.loss)
            return found
        if own and not takes_own:
            raise ValueError(
                f"{self.where}: the function compiles its model, so parameters of the estimator would have no effect; "
                f"expected neither optimizer nor loss, got {', '.join(own)}. Pass an argument of the function as "
                "model__NAME, or do not call model.compile in the function."
            )
        return model


class _Keras(Estimator):
    """The parameters of `KerasClassifier` and `KerasRegressor`."""

    names: ClassVar[Names] = Names(epochs="epochs", held_out="validation_split")
    prefixes: ClassVar[tuple[str, str]] = ("model__", "optimizer__")
    knows_rows: ClassVar[bool] = True

    def __init__(
        self,
        model: Callable[..., Sequential] | None = None,
        *,
        build_fn: Callable[..., Sequential] | None = None,
        optimizer: Any = None,
        loss: str | Callable[..., Any] | None = None,
        metrics: Any = None,
        epochs: int = 1,
        batch_size: int = 32,
        shuffle: bool = True,
        callbacks: Sequence[Callback] | None = None,
        validation_split: float = 0.0,
        warm_start: bool = False,
        dtype: Literal["float32", "float64"] = "float32",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        **parameters: object,
    ):
        self.model, self.build_fn = model, build_fn
        self.optimizer, self.loss, self.metrics = optimizer, loss, metrics
        self.epochs, self.batch_size, self.shuffle = epochs, batch_size, shuffle
        self.callbacks, self.validation_split = callbacks, validation_split  # type: ignore[assignment]
        self.warm_start, self.dtype = warm_start, dtype
        self.random_state, self.verbose = random_state, verbose
        self.keep_further(parameters)

    @property
    def history_(self) -> dict[str, list[float]]:
        """The losses of all epochs: {"loss": …} and, with held-out rows, also {"val_loss": …}."""
        columns = {"loss": "train_loss", "val_loss": "valid_loss"}
        found = {name: [row[own] for row in self.logged_ if own in row] for name, own in columns.items()}
        return {name: losses for name, losses in found.items() if losses}

    def maker(self, rows: TrainingRows) -> tuple[KerasMaker, Mapping[str, Any]]:
        where, model = type(self).__name__, self._model(vars(self))
        if not callable(model):
            raise ValueError(
                f"{where}: the model is wrong; expected a function that returns a Sequential, got {model!r}."
            )
        given = self.further_parameters()
        check_arguments(where, model, "model__", given)
        if "meta" in inspect.signature(model).parameters:
            given.setdefault("model__meta", self.facts(rows))
        return KerasMaker(where, model, self.optimizer, self.loss, rows.inputs.shape[1:]), given

    def facts(self, rows: TrainingRows) -> dict[str, Any]:
        """Return SciKeras's `meta`, the facts about the data that a model function can use. The number of rows is None,
        because all folds share a program.
        """
        return {
            "n_features_in_": rows.inputs.shape[1],
            "X_shape_": (None, *rows.inputs.shape[1:]),
            "n_outputs_": 1,
            "n_outputs_expected_": 1,
        }

    def further_names(self, params: Mapping[str, Any]) -> Iterable[str] | None:
        model = self._model({**vars(self), **params})
        if not callable(model):
            return ()
        accepted = inspect.signature(model).parameters
        takes_any = any(one.kind is one.VAR_KEYWORD for one in accepted.values())
        return None if takes_any else accepted

    def row_losses(self) -> Callable[[jax.Array, jax.Array], jax.Array]:
        blueprint = self.blueprint_
        assert isinstance(blueprint.maker, KerasMaker)
        loss = blueprint.maker.compiled(blueprint.given(blueprint.values)).loss
        return self.default_loss() if loss is None else row_loss(loss)

    def default_loss(self) -> RowLosses:
        """Return the loss of a model that is compiled without one."""
        raise NotImplementedError

    def held_out_count(self, count: int) -> int:
        return count - int(count * (1 - self.held_out_share()))

    def divided_order(self, count: int, held: int, key: jax.Array) -> np.ndarray:
        return np.roll(np.arange(count), held)  # Keras holds out the last rows

    def _model(self, params: Mapping[str, Any]) -> Any:
        return params["build_fn"] if params["model"] is None else params["model"]


class KerasClassifier(_Keras, Classifier):
    """SciKeras's `KerasClassifier`, for functions that return a `Sequential`.

    The arguments of the function are parameters, as `model__NAME` or as `NAME`, so scikit-learn's searches find them.
    The net returns probabilities. A fit calls the function several times. Targets are the classes of the rows, or
    one-hot rows (N, classes); `predict` returns the same form.

    Args:
        model: function that returns a `Sequential`.
        build_fn: old name of `model`.
        optimizer, loss: those of a model that the function does not compile; see `Sequential.compile`.
            `optimizer__NAME` is an argument of the optimizer. The default is RMSprop and the cross-entropy.
        metrics: ignored: use scikit-learn's `scoring`.
        epochs: number of epochs.
        batch_size, shuffle, callbacks, warm_start, dtype, random_state, verbose: as in `Classifier`.
        validation_split: share of the rows, the last ones, that are held out. `history_` then has their loss too.
        class_weight: as in `Classifier`.
        **parameters: arguments of the function, as `model__NAME` or as `NAME`, and `optimizer__NAME`.

    Attributes:
        history_: {"loss": the losses of all epochs}, and "val_loss" with held-out rows.
        classes_, n_iter_, fitting_: as in `Classifier`. With one-hot targets, the classes are 0, 1, ….

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from funcnet.sklearn.keras import Dense, Dropout
        >>> def create_model(dropout_rate=0.0):
        ...     hidden, out = Dense(16, activation="relu"), Dense(3, activation="softmax")
        ...     model = Sequential([hidden, Dropout(dropout_rate), out])
        ...     model.compile(loss="sparse_categorical_crossentropy", optimizer="adam")
        ...     return model
        >>> X, y = load_iris(return_X_y=True)
        >>> model = KerasClassifier(create_model, epochs=60, batch_size=16, model__dropout_rate=0.1, random_state=0)
        >>> model.fit(X, y).score(X, y) > 0.9
        True

    Reference: scikeras.wrappers.KerasClassifier.
    """

    def __init__(
        self,
        model: Callable[..., Sequential] | None = None,
        *,
        build_fn: Callable[..., Sequential] | None = None,
        optimizer: Any = None,
        loss: str | Callable[..., Any] | None = None,
        metrics: Any = None,
        epochs: int = 1,
        batch_size: int = 32,
        shuffle: bool = True,
        class_weight: Mapping[Any, float] | str | None = None,
        callbacks: Sequence[Callback] | None = None,
        validation_split: float = 0.0,
        warm_start: bool = False,
        dtype: Literal["float32", "float64"] = "float32",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        **parameters: object,
    ):
        self.class_weight = class_weight
        _Keras.__init__(
            self, model, build_fn=build_fn, optimizer=optimizer, loss=loss, metrics=metrics, epochs=epochs,
            batch_size=batch_size, shuffle=shuffle, callbacks=callbacks, validation_split=validation_split,
            warm_start=warm_start, dtype=dtype, random_state=random_state, verbose=verbose, **parameters,
        )  # fmt: skip

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the outputs of the net, the probabilities of the classes (N, classes)."""
        outputs = self.net_outputs(X)
        return self.both_classes(outputs.reshape(len(outputs), -1))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the classes (N,), or one-hot rows (N, classes), int64, if the targets were one-hot."""
        classes = super().predict(X)
        return np.eye(len(self.classes_), dtype=np.int64)[classes] if self.is_one_hot_ else classes

    def targets(self, y: np.ndarray, reset: bool) -> np.ndarray:
        one_hot = is_one_hot(y)
        if reset:
            self.is_one_hot_ = one_hot
        if not self.is_one_hot_:
            return super().targets(y, reset)
        if not one_hot or (not reset and y.shape[1] != len(self.classes_)):
            raise ValueError(
                f"{type(self).__name__}: y is not like that of the first call; expected one-hot rows (N, "
                f"{len(self.classes_)}), got the shape {y.shape}."
            )
        if reset:
            self.classes_ = np.arange(y.shape[1])
        return np.asarray(y.argmax(1), np.int32)

    def row_losses(self) -> Callable[[jax.Array, jax.Array], jax.Array]:
        loss = super().row_losses()
        return of_one_hot(loss, len(self.classes_)) if self.is_one_hot_ else loss

    def default_loss(self) -> RowLosses:
        return cross_entropy

    def facts(self, rows: TrainingRows) -> dict[str, Any]:
        kind = "multiclass-onehot" if self.is_one_hot_ else type_of_target(self.classes_[rows.targets])
        classes = tuple(self.classes_.tolist())
        return super().facts(rows) | {"n_classes_": len(classes), "classes_": classes, "target_type_": kind}


class KerasRegressor(_Keras, Regressor):
    """SciKeras's `KerasRegressor`, for functions that return a `Sequential`.

    Args:
        model, build_fn, optimizer, metrics, epochs, batch_size, shuffle, callbacks, validation_split, warm_start,
            dtype, random_state, verbose: as in `KerasClassifier`.
        loss: the loss of a model that the function does not compile. The default is the mean squared error.
        **parameters: arguments of the function, as `model__NAME` or as `NAME`, and `optimizer__NAME`.

    Attributes:
        history_: as in `KerasClassifier`.
        n_iter_, fitting_: as in `Regressor`.

    Example:
        >>> from funcnet.sklearn.keras import Adam, Dense
        >>> def create_model(units):
        ...     model = Sequential([Dense(units, activation="tanh"), Dense(1)])
        ...     model.compile(loss="mse", optimizer=Adam(learning_rate=0.01))
        ...     return model
        >>> x = np.linspace(-1, 1, 200)[:, None]
        >>> model = KerasRegressor(create_model, units=16, epochs=60, random_state=0).fit(x, x[:, 0] ** 2)
        >>> model.score(x, x[:, 0] ** 2) > 0.9
        True

    Reference: scikeras.wrappers.KerasRegressor.
    """

    def default_loss(self) -> RowLosses:
        return mean_squared_error

    def facts(self, rows: TrainingRows) -> dict[str, Any]:
        kind = "continuous" if self.is_flat_ else "continuous-multioutput"
        return super().facts(rows) | {"n_outputs_": self.n_outputs_, "target_type_": kind}


def is_one_hot(y: np.ndarray) -> bool:
    """Return whether targets are rows (N, classes) of zeros and a single one, with at least two classes.

    Example:
        >>> is_one_hot(np.eye(3)), is_one_hot(np.ones((2, 1))), is_one_hot(np.array([0, 1]))
        (True, False, False)
    """
    if y.ndim != 2 or y.shape[1] < 2 or y.dtype.kind not in "biuf":
        return False
    return bool(np.isin(y, (0, 1)).all() and (y.sum(1) == 1).all())
