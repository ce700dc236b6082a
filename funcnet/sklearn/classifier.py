"""A net as a classifier of scikit-learn."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

import jax
import numpy as np
import optax
import scipy.special
from jax.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from funcnet import functional as F
from funcnet import nn
from funcnet.sklearn.criteria import by_row
from funcnet.sklearn.estimators import Callback, Estimator

__all__ = ["Classifier"]


class Classifier(ClassifierMixin, Estimator):
    """A classifier that trains a net.

    Every parameter that begins with `module__` is an argument of the net's constructor, and every parameter that begins
    with `optimizer__` is an argument of the optimizer, so scikit-learn's searches find them. Parameters with floats,
    such as learning rates and dropout rates, are values of the compiled program: other values need no compilation.

    Args:
        module: a class of nets, or a function that returns a net. The net maps a batch (B, …) to logits (B, classes),
            or (B,) or (B, 1) for two classes. If the constructor has the arguments `in_features` and `out_features`,
            they get the number of features and of classes. None trains `MLP`.
        criterion: function `criterion(outputs, codes)` that returns one loss for each row, or a loss of
            `funcnet.nn`, a class or an instance. `codes` are the positions of the targets in `classes_`. The default is
            the cross-entropy.
        optimizer: "adam", "adamw", "nadam", "radam", "rmsprop", "adagrad", "sgd", or a function
            `optimizer(learning_rate, **parameters)` that returns an optax transformation.
        lr: learning rate.
        max_epochs: number of epochs.
        batch_size: number of rows of a batch. The last batch of an epoch is filled with rows whose losses do not count.
        shuffle: whether each epoch has a new order of the rows.
        class_weight: factors of the weights of the rows, {class: factor}, or "balanced" for factors that give all
            classes the same total weight.
        callbacks: functions `callback(estimator, row)` that are called after each epoch with the last row of
            `history_`. The training ends if one of them returns True, as `EarlyStopping` does.
        validation_fraction: share of the rows that are held out. `history_` then has their loss as `valid_loss`.
        warm_start: whether `fit` continues with the net of the last call.
        dtype: dtype of the parameters and the inputs.
        random_state: seed of the initial parameters, the order of the rows, and dropout: an int, a NumPy
            `RandomState`, or None.
        verbose: whether to print a line for each epoch.
        **parameters: `module__NAME` and `optimizer__NAME`.

    Attributes:
        classes_: the classes, sorted.
        history_: one dict for each epoch: epoch, train_loss and, with held-out rows, valid_loss.
        n_iter_: number of epochs so far.
        fitting_: the parameters and buffers of the net, and the state of the optimizer.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = Classifier(lr=0.01, max_epochs=50, module__rate=0.1, random_state=0).fit(X, y)
        >>> model.score(X, y) > 0.9
        True
        >>> model.predict_proba(X[:2]).shape
        (2, 3)
    """

    class_weight: Mapping[Any, float] | str | None = None

    def __init__(
        self,
        module: Callable[..., nn.Module] | None = None,
        *,
        criterion: Callable[..., Any] | None = None,
        optimizer: str | Callable[..., optax.GradientTransformation] = "adam",
        lr: float = 1e-3,
        max_epochs: int = 200,
        batch_size: int = 128,
        shuffle: bool = True,
        class_weight: Mapping[Any, float] | str | None = None,
        callbacks: Sequence[Callback] = (),
        validation_fraction: float = 0.0,
        warm_start: bool = False,
        dtype: Literal["float32", "float64"] = "float32",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        **parameters: object,
    ):
        self.class_weight = class_weight
        super().__init__(
            module, criterion=criterion, optimizer=optimizer, lr=lr, max_epochs=max_epochs, batch_size=batch_size,
            shuffle=shuffle, callbacks=callbacks, validation_fraction=validation_fraction, warm_start=warm_start,
            dtype=dtype, random_state=random_state, verbose=verbose, **parameters,
        )  # fmt: skip

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train a new net, or continue with `warm_start`.

        Args:
            X: inputs (N, features), or (N, …).
            y: classes (N,), also strings.
            sample_weight: weights of the rows in the loss (N,).

        Raises:
            ValueError: if the data or a parameter are wrong.
        """
        self.all_classes_: np.ndarray | None = None
        return self.train_net(X, y, sample_weight, None, self.warm_start)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train for one epoch.

        Args:
            X, y, sample_weight: as in `fit`.
            classes: all classes, in the first call, if some of them are not in `y`.

        Raises:
            ValueError: if the data or a parameter are wrong.
        """
        if self.class_weight == "balanced":
            raise ValueError(
                f"{type(self).__name__}: partial_fit does not know how many rows each class will have; expected "
                "class_weight={class: factor} or None, got 'balanced'."
            )
        self.all_classes_ = None if classes is None else np.unique(classes)
        return self.train_net(X, y, sample_weight, 1, True)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the probabilities of the classes (N, classes)."""
        outputs = self.net_outputs(X)
        logits = outputs.reshape(len(outputs), -1)
        if logits.shape[1] == 1 < len(self.classes_):
            logits = np.concatenate([np.zeros_like(logits), logits], 1)
        return np.asarray(scipy.special.softmax(logits, axis=1))

    def both_classes(self, found: np.ndarray) -> np.ndarray:
        """Return probabilities (N, classes). A net with one output gives the probability of the second class."""
        return np.concatenate([1 - found, found], 1) if found.shape[1] == 1 < len(self.classes_) else found

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the classes (N,)."""
        best = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[best])

    def targets(self, y: np.ndarray, reset: bool) -> np.ndarray:
        """Return the position of each target in `classes_`, as int32."""
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if reset:
            given = getattr(self, "all_classes_", None)
            self.classes_ = np.unique(y) if given is None else given
        codes = np.searchsorted(self.classes_, y).clip(0, len(self.classes_) - 1)
        if (unknown := y[self.classes_[codes] != y]).size:
            raise ValueError(
                f"{type(self).__name__}: y has a class that is not in the first call; expected one of "
                f"{self.classes_.tolist()}, got {unknown.tolist()[0]!r}. Pass classes= to the first call of "
                "partial_fit."
            )
        return codes.astype(np.int32)

    def target_weights(self, targets: np.ndarray) -> np.ndarray | float:
        if self.class_weight is None:
            return 1.0
        return np.asarray(compute_sample_weight(self.class_weight, self.classes_[targets]))

    def outputs(self) -> int:
        return len(self.classes_)

    def widths(self) -> tuple[int, ...]:
        return (1, 2) if len(self.classes_) == 2 else (len(self.classes_),)

    def row_losses(self) -> Callable[[jax.Array, jax.Array], jax.Array]:
        return cross_entropy if self.criterion is None else by_row(self.criterion)


def cross_entropy(outputs: jax.Array, codes: jax.Array) -> jax.Array:
    """Return the cross-entropy of each row, from logits (B, classes), or (B,) or (B, 1) for two classes."""
    if outputs.ndim == 2 and outputs.shape[1] > 1:
        return F.cross_entropy(outputs, codes, reduction="none")
    logits = outputs.reshape(len(outputs))
    return F.binary_cross_entropy_with_logits(logits, codes.astype(logits.dtype), reduction="none")
