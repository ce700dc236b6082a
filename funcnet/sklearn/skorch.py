"""skorch's names and default values for scripts that search with scikit-learn."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.special
from jax.typing import ArrayLike

from funcnet import nn
from funcnet.sklearn.classifier import Classifier
from funcnet.sklearn.criteria import by_row
from funcnet.sklearn.estimators import Callback, Estimator
from funcnet.sklearn.regressor import Regressor
from funcnet.sklearn.scikit_parameters import Names

__all__ = ["NeuralNetBinaryClassifier", "NeuralNetClassifier", "NeuralNetRegressor"]

Criterion = Callable[..., Any]
Optimizer = str | Callable[..., optax.GradientTransformation]


class _Skorch(Estimator):
    """The parameters of the three classes."""

    names: ClassVar[Names] = Names(held_out="train_split", shuffle="iterator_train__shuffle")
    default_criterion: ClassVar[type[nn.Module]]

    def __init__(
        self,
        module: Callable[..., nn.Module],
        *,
        criterion: Criterion | None = None,
        optimizer: Optimizer = "sgd",
        lr: float = 0.01,
        max_epochs: int = 10,
        batch_size: int = 128,
        iterator_train__shuffle: bool = False,
        train_split: float | None = None,
        callbacks: Sequence[Callback] | None = None,
        warm_start: bool = False,
        device: str | None = None,
        dtype: Literal["float32", "float64"] = "float32",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        **parameters: object,
    ):
        self.device = device
        self.module, self.criterion, self.optimizer, self.lr = module, criterion, optimizer, lr
        self.max_epochs, self.batch_size = max_epochs, batch_size
        self.iterator_train__shuffle, self.train_split = iterator_train__shuffle, train_split
        self.callbacks, self.warm_start, self.dtype = callbacks, warm_start, dtype  # type: ignore[assignment]
        self.random_state, self.verbose = random_state, verbose
        self.keep_further(parameters)

    def row_losses(self) -> Callable[[jax.Array, jax.Array], jax.Array]:
        return nll_of_probabilities if self._is(nn.NLLLoss) else by_row(self._criterion())

    @property
    def history(self) -> "History":
        """The losses of each epoch."""
        return History(self.logged_)

    def _criterion(self) -> Criterion:
        return self.default_criterion if self.criterion is None else self.criterion

    def _is(self, kind: type[nn.Module]) -> bool:
        criterion = self._criterion()
        return isinstance(criterion, kind) or (isinstance(criterion, type) and issubclass(criterion, kind))


class History(list[dict[str, Any]]):
    """A list with one dict for each epoch: epoch, train_loss and perhaps valid_loss. The index may have a name too.

    Example:
        >>> history = History([{"epoch": 1, "train_loss": 0.5}, {"epoch": 2, "train_loss": 0.25}])
        >>> history[-1, "train_loss"], history[:, "train_loss"]
        (0.25, [0.5, 0.25])
    """

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, tuple):
            return super().__getitem__(index)
        rows, name = super().__getitem__(index[0]), index[1]
        return [row[name] for row in rows] if isinstance(rows, list) else rows[name]


class NeuralNetClassifier(_Skorch, Classifier):
    """skorch's `NeuralNetClassifier`, for nets of `funcnet.nn`.

    Differences from skorch: no rows are held out unless `train_split` is a share of the rows; `optimizer` is an optax
    function, such as `optax.adam`; nothing is printed unless `verbose`; `random_state` is the seed.

    Args:
        module: a class of nets, or a function that returns a net.
        criterion: a loss of `funcnet.nn`, a class or an instance. With `NLLLoss`, the default, the net
            returns probabilities. With `CrossEntropyLoss` and `BCEWithLogitsLoss`, it returns logits.
        optimizer, lr, max_epochs, batch_size, callbacks, warm_start, dtype, random_state, verbose: as in `Classifier`.
        device: ignored: JAX chooses the devices.
        iterator_train__shuffle: whether each epoch has a new order of the rows.
        train_split: share of the rows that are held out, or None. `history_` then has their loss.
        **parameters: `module__NAME` and `optimizer__NAME`.

    Attributes:
        history: the losses of each epoch, as `history[-1, "valid_loss"]` or `history[:, "train_loss"]`.
        classes_, history_, n_iter_, fitting_: as in `Classifier`.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from funcnet.sklearn import MLP
        >>> X, y = load_iris(return_X_y=True)
        >>> net = NeuralNetClassifier(MLP, criterion=nn.CrossEntropyLoss, optimizer=optax.adam, random_state=0)
        >>> net.set_params(max_epochs=100).fit(X, y).score(X, y) > 0.9
        True

    Reference: skorch.NeuralNetClassifier.
    """

    default_criterion: ClassVar[type[nn.Module]] = nn.NLLLoss

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the probabilities of the classes (N, classes)."""
        outputs = self.net_outputs(X)
        found = outputs.reshape(len(outputs), -1)
        if self._is(nn.BCEWithLogitsLoss):
            found = scipy.special.expit(found)
        elif self._is(nn.CrossEntropyLoss):
            found = scipy.special.softmax(found, axis=1)
        return self.both_classes(found)


class NeuralNetBinaryClassifier(NeuralNetClassifier):
    """skorch's `NeuralNetBinaryClassifier`: `NeuralNetClassifier` with `BCEWithLogitsLoss`, for nets with one output.

    Args:
        module, optimizer, lr, max_epochs, batch_size, iterator_train__shuffle, train_split, callbacks, warm_start,
            device, dtype, random_state, verbose: as in `NeuralNetClassifier`.
        criterion: a loss class of `funcnet.nn`. The default is `BCEWithLogitsLoss`.
        **parameters: `module__NAME` and `optimizer__NAME`.

    Example:
        >>> from sklearn.datasets import load_breast_cancer
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> X = (X - X.mean(0)) / X.std(0)
        >>> net = NeuralNetBinaryClassifier(nn.Linear, module__in_features=30, module__out_features=1, random_state=0)
        >>> net.set_params(lr=0.1).fit(X, y).score(X, y) > 0.9
        True

    Reference: skorch.NeuralNetBinaryClassifier.
    """

    default_criterion = nn.BCEWithLogitsLoss


class NeuralNetRegressor(_Skorch, Regressor):
    """skorch's `NeuralNetRegressor`, for nets of `funcnet.nn`.

    Args:
        module, optimizer, lr, max_epochs, batch_size, iterator_train__shuffle, train_split, callbacks, warm_start,
            device, dtype, random_state, verbose: as in `NeuralNetClassifier`.
        criterion: a loss class of `funcnet.nn`. The default is `MSELoss`.
        **parameters: `module__NAME` and `optimizer__NAME`.

    Example:
        >>> x = np.linspace(-1, 1, 100)[:, None]
        >>> net = NeuralNetRegressor(nn.Linear, max_epochs=200, batch_size=20, lr=0.1, random_state=0)
        >>> net.fit(x, 3 * x[:, 0]).score(x, 3 * x[:, 0]) > 0.99
        True

    Reference: skorch.NeuralNetRegressor.
    """

    default_criterion = nn.MSELoss


def nll_of_probabilities(outputs: jax.Array, codes: jax.Array) -> jax.Array:
    """Return -log(p + eps) of each row, for probabilities (B, classes) and the numbers of the classes (B,)."""
    if outputs.ndim != 2 or outputs.shape[1] < 2:
        raise ValueError(
            "criterion: NLLLoss needs a probability for each class; expected outputs (B, classes), got "
            f"{('B', *outputs.shape[1:])}. Use BCEWithLogitsLoss for one output."
        )
    p = jnp.take_along_axis(outputs, codes.astype(jnp.int32)[:, None], axis=1)[:, 0]
    return -jnp.log(p + jnp.finfo(outputs.dtype).eps)
