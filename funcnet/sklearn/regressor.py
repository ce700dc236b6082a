"""A net as a regressor of scikit-learn."""

from collections.abc import Callable
from typing import Any, Self

import jax
import numpy as np
from jax.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from funcnet.sklearn.criteria import by_row
from funcnet.sklearn.estimators import Estimator

__all__ = ["Regressor"]


class Regressor(RegressorMixin, Estimator):
    """A regressor that trains a net.

    Args:
        module: as in `Classifier`. The net maps a batch (B, …) to (B,) or (B, targets).
        criterion: function `criterion(outputs, targets)` that returns one loss for each row, or a loss of
            `funcnet.nn`, a class or an instance. The default is the mean squared error.
        optimizer, lr, max_epochs, batch_size, shuffle, callbacks, validation_fraction, warm_start, dtype, random_state,
            verbose: as in `Classifier`.
        **parameters: `module__NAME` and `optimizer__NAME`.

    Attributes:
        history_, n_iter_, fitting_: as in `Classifier`.

    Example:
        >>> import numpy as np
        >>> x = np.linspace(-1, 1, 200)[:, None]
        >>> model = Regressor(lr=0.01, max_epochs=100, random_state=0).fit(x, x[:, 0] ** 2)
        >>> model.score(x, x[:, 0] ** 2) > 0.95
        True
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train a new net, or continue with `warm_start`.

        Args:
            X: inputs (N, features), or (N, …).
            y: targets (N,) or (N, targets).
            sample_weight: weights of the rows in the loss (N,).

        Raises:
            ValueError: if the data or a parameter are wrong.
        """
        return self.train_net(X, y, sample_weight, None, self.warm_start)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train for one epoch. The arguments are those of `fit`."""
        return self.train_net(X, y, sample_weight, 1, True)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the predictions, with the shape that the targets had."""
        outputs = self.net_outputs(X)
        return outputs.reshape(len(outputs)) if self.is_flat_ else outputs

    def targets(self, y: Any, reset: bool) -> np.ndarray:
        """Return the targets (N, targets)."""
        y = np.asarray(y, self.dtype)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        if reset:
            self.is_flat_, self.n_outputs_ = y.ndim == 1, 1 if y.ndim == 1 else y.shape[1]
        return y.reshape(len(y), -1)

    def outputs(self) -> int:
        return self.n_outputs_

    def row_losses(self) -> Callable[[jax.Array, jax.Array], jax.Array]:
        return squared_error if self.criterion is None else by_row(self.criterion)


def squared_error(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the mean squared error of each row, from outputs (B, targets) or (B,)."""
    return ((outputs.reshape(targets.shape) - targets) ** 2).mean(1)
