"""SciKeras's `KerasClassifier` and `KerasRegressor`, around functions that return a `Sequential`."""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import jax
import numpy as np
import optax

from funcnet import nn
from funcnet.sklearn.classifier import Classifier
from funcnet.sklearn.estimators import Callback, Estimator
from funcnet.sklearn.keras.losses import row_loss
from funcnet.sklearn.keras.models import Sequential
from funcnet.sklearn.keras.optimizers import optimizer_of
from funcnet.sklearn.parameters import Given, check_arguments, without_prefix
from funcnet.sklearn.regressor import Regressor
from funcnet.sklearn.training import TrainingRows

__all__ = ["KerasClassifier", "KerasRegressor"]


@dataclasses.dataclass(frozen=True)
class KerasMaker:
    """Makes the net and the optimizer of a function that returns a `Sequential`.

    Attributes:
        where: name of the estimator, for messages.
        model: the function.
        optimizer, loss: those of a model that is not compiled.
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
        """
        chosen = {name: value for name, value in given.items() if not name.startswith("optimizer__")}
        bare = {name: value for name, value in chosen.items() if not name.startswith("model__")}
        changes = without_prefix("optimizer__", given)
        optimizer = optimizer_of("rmsprop" if self.optimizer is None else self.optimizer, **changes)
        own: dict[str, Any] = {"optimizer": optimizer, "loss": self.loss}
        arguments = {**bare, **without_prefix("model__", chosen)}
        if takes_own := "compile_kwargs" in inspect.signature(self.model).parameters:
            arguments.setdefault("compile_kwargs", own | {"metrics": None})
        model = self.model(**arguments)
        if not isinstance(model, Sequential):
            raise TypeError(
                f"{self.where}: the model has the wrong type; expected a function that returns a "
                f"funcnet.sklearn.keras.Sequential, got {type(model).__name__}."
            )
        if model.optimizer is None:
            model.compile(**own)
        elif not takes_own and (self.optimizer is not None or self.loss is not None or changes):
            raise ValueError(
                f"{self.where}: the function compiles its model, so the optimizer and the loss of the estimator would "
                f"have no effect; expected neither, got optimizer={self.optimizer!r}, loss={self.loss!r} and "
                f"{len(changes)} parameters of the optimizer. Make them arguments of the function, or leave out "
                "model.compile."
            )
        return model


class _Keras(Estimator):
    """The parameters of `KerasClassifier` and `KerasRegressor`."""

    named: ClassVar[Mapping[str, str]] = {"epochs": "epochs", "held out": "validation_split", "shuffle": "shuffle"}
    prefixes: ClassVar[tuple[str, str]] = ("model__", "optimizer__")
    default_loss: str

    def __init__(
        self,
        model: Callable[..., Sequential] | None = None,
        *,
        build_fn: Callable[..., Sequential] | None = None,
        optimizer: Any = None,
        loss: Any = None,
        metrics: Any = None,
        epochs: int = 1,
        batch_size: int = 32,
        shuffle: bool = True,
        callbacks: Sequence[Callback] | None = None,
        validation_split: float = 0.0,
        warm_start: bool = False,
        dtype: Literal["float32", "float64"] = "float32",
        random_state: Any = None,
        verbose: int = 0,
        **parameters: Any,
    ):
        self.model, self.build_fn = model, build_fn
        self.optimizer, self.loss, self.metrics = optimizer, loss, metrics
        self.epochs, self.batch_size, self.shuffle = epochs, batch_size, shuffle
        self.callbacks, self.validation_split = callbacks, validation_split  # type: ignore[assignment]
        self.warm_start, self.dtype = warm_start, dtype
        self.random_state, self.verbose = random_state, verbose
        for name, value in parameters.items():
            setattr(self, name, value)

    def maker(self, rows: TrainingRows) -> tuple[KerasMaker, Mapping[str, Any]]:
        where, model = type(self).__name__, self._model()
        if model is None:
            raise ValueError(
                f"{where}: no model; expected a function that returns a Sequential, got None. Pass model=."
            )
        given = self.further_parameters()
        check_arguments(where, model, "model__", given)
        if "meta" in inspect.signature(model).parameters:
            given.setdefault("model__meta", self.facts(rows))
        return KerasMaker(where, model, self.optimizer, self.loss, rows.inputs.shape[1:]), given

    def facts(self, rows: TrainingRows) -> dict[str, Any]:
        """Return SciKeras's `meta`: what the function of the model may know about the data."""
        return {
            "n_features_in_": rows.inputs.shape[1],
            "X_shape_": rows.inputs.shape,
            "n_outputs_": 1,
            "n_outputs_expected_": min(self.widths()),
        }

    def further_names(self, params: Mapping[str, Any]) -> Iterable[str]:
        model = params.get("model", params.get("build_fn")) or self._model()
        return () if model is None else inspect.signature(model).parameters

    def row_losses(self) -> Callable[[jax.Array, jax.Array], jax.Array]:
        blueprint = self.blueprint_
        assert isinstance(blueprint.maker, KerasMaker)
        loss = blueprint.maker.compiled(blueprint.given(blueprint.values)).loss
        return row_loss(self._default_loss() if loss is None else loss)

    def divided_order(self, count: int, held: int, key: jax.Array) -> np.ndarray:
        return np.roll(np.arange(count), held)  # Keras holds out the last rows

    def _model(self) -> Callable[..., Sequential] | None:
        return self.build_fn if self.model is None else self.model

    def _default_loss(self) -> str:
        raise NotImplementedError


class KerasClassifier(_Keras, Classifier):
    """SciKeras's `KerasClassifier`, for functions that return a `Sequential`.

    The arguments of the function are parameters, as `model__NAME` or as `NAME`, so scikit-learn's searches find them.
    The net returns probabilities.

    Args:
        model: function that returns a `Sequential`.
        build_fn: another name of `model`, as in old scripts.
        optimizer, loss: those of a model that the function does not compile; see `Sequential.compile`.
            `optimizer__NAME` is an argument of the optimizer. None stands for RMSprop and the cross-entropy.
        metrics: not used: scikit-learn's `scoring` measures.
        epochs: number of epochs.
        batch_size, shuffle, callbacks, warm_start, dtype, random_state, verbose: as in `Classifier`.
        validation_split: share of the rows, the last ones, that are held out. `history_` then has their loss.
        class_weight: as in `Classifier`.
        **parameters: arguments of the function, as `model__NAME` or as `NAME`, and `optimizer__NAME`.

    Attributes:
        classes_, history_, n_iter_, fitting_: as in `Classifier`.

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
        loss: Any = None,
        metrics: Any = None,
        epochs: int = 1,
        batch_size: int = 32,
        shuffle: bool = True,
        class_weight: Mapping[Any, float] | str | None = None,
        callbacks: Sequence[Callback] | None = None,
        validation_split: float = 0.0,
        warm_start: bool = False,
        dtype: Literal["float32", "float64"] = "float32",
        random_state: Any = None,
        verbose: int = 0,
        **parameters: Any,
    ):
        self.class_weight = class_weight
        _Keras.__init__(
            self, model, build_fn=build_fn, optimizer=optimizer, loss=loss, metrics=metrics, epochs=epochs,
            batch_size=batch_size, shuffle=shuffle, callbacks=callbacks, validation_split=validation_split,
            warm_start=warm_start, dtype=dtype, random_state=random_state, verbose=verbose, **parameters,
        )  # fmt: skip

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the outputs of the net, the probabilities of the classes (N, classes)."""
        outputs = self.net_outputs(X)
        found = outputs.reshape(len(outputs), -1)
        if found.shape[1] == 1 < len(self.classes_):
            found = np.concatenate([1 - found, found], 1)
        return np.asarray(found)

    def facts(self, rows: TrainingRows) -> dict[str, Any]:
        count = len(self.classes_)
        return super().facts(rows) | {"n_classes_": count, "target_type_": "binary" if count == 2 else "multiclass"}

    def _default_loss(self) -> str:
        return "binary_crossentropy" if len(self.classes_) == 2 else "sparse_categorical_crossentropy"


class KerasRegressor(_Keras, Regressor):
    """SciKeras's `KerasRegressor`, for functions that return a `Sequential`.

    Args:
        model, build_fn, optimizer, metrics, epochs, batch_size, shuffle, callbacks, validation_split, warm_start,
            dtype, random_state, verbose: as in `KerasClassifier`.
        loss: the loss of a model that the function does not compile. None stands for the mean squared error.
        **parameters: arguments of the function, as `model__NAME` or as `NAME`, and `optimizer__NAME`.

    Attributes:
        history_, n_iter_, fitting_: as in `Regressor`.

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

    def facts(self, rows: TrainingRows) -> dict[str, Any]:
        return super().facts(rows) | {"n_outputs_": self.n_outputs_, "target_type_": "continuous"}

    def _default_loss(self) -> str:
        return "mean_squared_error"
