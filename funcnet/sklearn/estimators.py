"""scikit-learn's interface for any net: what `Classifier` and `Regressor` have in common."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from funcnet import nn
from funcnet.sklearn.fingerprint import fingerprint
from funcnet.sklearn.joint_training import Lane, TrainedNets, digest
from funcnet.sklearn.scikit_parameters import NamedParameters
from funcnet.sklearn.traced_parameters import Blueprint, ModuleMaker, NetMaker, Traces
from funcnet.sklearn.training import (
    Fitting,
    Recipe,
    TrainingRows,
    batches_of,
    compiled,
    mean_loss,
    outputs_of,
    run_epoch,
    start,
)

__all__ = ["Callback", "Estimator"]

ROWS = 1024  # rows that `predict` gives to the net at a time
Callback = Callable[["Estimator", Mapping[str, Any]], bool | None]


class Estimator(NamedParameters):
    """The base class of `Classifier` and `Regressor`.

    Subclasses define `targets`, `outputs` and `row_losses`. A subclass whose parameters have other names defines
    `names`, `prefixes` and `maker` too.

    Attributes:
        knows_rows: see `Recipe`.
    """

    knows_rows: ClassVar[bool] = False

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
        callbacks: Sequence[Callback] = (),
        validation_fraction: float = 0.0,
        warm_start: bool = False,
        dtype: Literal["float32", "float64"] = "float32",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        **parameters: object,
    ):
        self.module, self.criterion, self.optimizer, self.lr = module, criterion, optimizer, lr
        self.max_epochs, self.batch_size, self.shuffle = max_epochs, batch_size, shuffle
        self.callbacks, self.validation_fraction = callbacks, validation_fraction
        self.warm_start, self.dtype = warm_start, dtype
        self.random_state, self.verbose = random_state, verbose
        self.keep_further(parameters)

    def targets(self, y: np.ndarray, reset: bool) -> np.ndarray:
        """Check the targets, and return them in the form in which `loss` needs them."""
        raise NotImplementedError

    def target_weights(self, targets: np.ndarray) -> np.ndarray | float:
        """Return the factor of each row's weight that depends on its target."""
        return 1.0

    def outputs(self) -> int:
        """Return the number of outputs that the targets need."""
        raise NotImplementedError

    def widths(self) -> tuple[int, ...]:
        """Return the numbers of outputs that the net may have."""
        return (self.outputs(),)

    def row_losses(self) -> Callable[[jax.Array, jax.Array], jax.Array]:
        """Return the function of (outputs, targets) that computes one loss for each row."""
        raise NotImplementedError

    def maker(self, rows: TrainingRows) -> tuple[NetMaker, Mapping[str, Any]]:
        """Return (maker, parameters) of the net and the optimizer.

        Raises:
            ValueError: if a parameter is wrong or has an unknown name.
        """
        where = type(self).__name__
        maker = ModuleMaker.of(where, self.module, self.optimizer)
        given = {**self.further_parameters(), "lr": self.lr}
        return maker, maker.given(where, given, rows.inputs.shape[1], self.outputs())

    fitting_: Fitting
    logged_: list[dict[str, Any]]

    @property
    def history_(self) -> Any:
        """One dict for each epoch: epoch, train_loss and, with held-out rows, valid_loss."""
        return self.logged_

    # ---------------------------------------------------------------------------------------------------- training

    def train_net(
        self, x: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, epochs: int | None, continues: bool
    ) -> Self:
        """Train for some epochs, and continue with the net of an earlier call if `continues`. None means
        `max_epochs`.
        """
        self._check()
        with jax.enable_x64(self.dtype == "float64"):
            continues = continues and hasattr(self, "fitting_")
            rows = self._read(x, y, sample_weight, reset=not continues)
            known = None
            if not continues:
                if hasattr(self, "trained_nets"):
                    known = self.trained_nets.nets.get(digest(self, rows))
                self._begin()
            self.blueprint_ = self._blueprint(rows)
            self.begun_ = self.n_iter_
            if known is not None:
                for name, value in known.items():
                    setattr(self, name, value)
                return self
            self._run(rows, self._epochs() if epochs is None else epochs, continues)
        return self

    def _run(self, rows: TrainingRows, epochs: int, continues: bool) -> None:
        key = jax.random.key(self.seed_)
        rows, held_out = self._divided(rows, key)
        count = len(rows.weights)
        recipe, values = self._recipe(rows), dict(self.blueprint_.values)
        fitting = self.fitting_ if continues else compiled(start, recipe)(values, key)
        run, measure = compiled(run_epoch, recipe), compiled(mean_loss, recipe)
        rows = TrainingRows(*map(jnp.asarray, rows))
        for _ in range(epochs):
            batches = batches_of(recipe, np.arange(count), self.seed_, self.n_iter_)
            fitting, loss = run(values, fitting, rows, batches, key, np.int32(self.n_iter_))
            self.n_iter_ += 1
            row = {"epoch": self.n_iter_, "train_loss": loss}
            if held_out is not None:
                row["valid_loss"] = measure(values, fitting, held_out)
            self.logged_.append(row)
            if (self.callbacks or self.verbose) and self._ends(fitting):
                break
        self.logged_ = [_as_numbers(row) for row in self.logged_]
        self.fitting_ = jax.tree.map(np.asarray, fitting)

    def _ends(self, fitting: Fitting) -> bool:
        """Show the last epoch, call the callbacks, and return whether one of them ends the training."""
        row = self.logged_[-1] = _as_numbers(self.logged_[-1])
        if self.verbose:
            print(
                "  ".join(
                    f"{name} {value:.4f}" if name != "epoch" else f"epoch {value:4}" for name, value in row.items()
                )
            )
        self.fitting_ = fitting
        answers = [callback(self, row) for callback in self.callbacks or ()]
        return any(answers)

    def _check(self) -> None:
        """Raise a ValueError for a parameter that is wrong."""
        where = type(self).__name__
        self.check_further(self.further_parameters(), {})
        callbacks = self.callbacks or ()
        if not isinstance(callbacks, Iterable) or not all(map(callable, callbacks)):
            raise ValueError(
                f"{where}: callbacks are wrong; expected a list of functions (estimator, row), got {callbacks!r}."
            )
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"{where}: unknown dtype; expected float32 or float64, got {self.dtype!r}.")
        for name in (self.names.epochs, "batch_size"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{where}: {name} is wrong; expected a whole number of at least 1, got {value!r}.")
        held = self.held_out_share()
        if not isinstance(held, int | float | np.number) or not 0 <= held < 1:
            raise ValueError(
                f"{where}: {self.names.held_out} is out of range; expected a share of the rows, at least 0 and below "
                f"1, got {held!r}."
            )

    def _epochs(self) -> int:
        return int(getattr(self, self.names.epochs))

    def held_out_share(self) -> float:
        """Return the share of the rows that are held out."""
        fraction: float | None = getattr(self, self.names.held_out)
        return 0.0 if fraction is None else fraction

    def _read(self, x: Any, y: Any, sample_weight: Any, reset: bool) -> TrainingRows:
        """Check the data, and return the rows."""
        dtype = np.dtype(self.dtype)
        x, y = validate_data(self, x, y, reset=reset, dtype=dtype, allow_nd=True, multi_output=True)
        targets = self.targets(y, reset)
        weights = _checked_weights(type(self).__name__, sample_weight, len(x), dtype)
        return TrainingRows(x, targets, (weights * self.target_weights(targets)).astype(dtype))

    def _begin(self) -> None:
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self.seed_, self.n_iter_, self.logged_ = seed, 0, []

    def _blueprint(self, rows: TrainingRows) -> Blueprint:
        example = jax.ShapeDtypeStruct((1, *rows.inputs.shape[1:]), rows.inputs.dtype)
        blueprint = Blueprint.of(*self.maker(rows), example, self._traces())
        shape = blueprint.output_shape
        if shape[:1] != (1,) or math.prod(shape) not in self.widths():
            raise ValueError(
                f"{type(self).__name__}: the net returns the wrong number of outputs; expected "
                f"{' or '.join(map(str, self.widths()))} for each row, got the shape {('B', *shape[1:])} for B rows."
            )
        return blueprint

    def _traces(self) -> Traces:
        """Return the traces that were already made for the same search. The functions of the user do not change during
        a search.
        """
        return self.trained_nets.traces if hasattr(self, "trained_nets") else {}

    def _recipe(self, rows: TrainingRows) -> Recipe:
        count, dtype, loss = len(rows.weights), np.dtype(self.dtype), self.row_losses()
        outputs = jax.ShapeDtypeStruct((1, *self.blueprint_.output_shape[1:]), dtype)
        targets = jax.ShapeDtypeStruct((1, *rows.targets.shape[1:]), rows.targets.dtype)
        traces, key = self._traces(), (loss, outputs.shape, targets.shape, dtype)
        trace = jax.make_jaxpr(lambda *pair: loss(*pair))  # JAX has kept the trace of `loss` itself
        criterion = traces[key] = traces.get(key) or fingerprint(trace(outputs, targets))
        size, shuffle = int(min(self.batch_size, count)), bool(getattr(self, self.names.shuffle))
        return Recipe(self.blueprint_, criterion, loss, size, shuffle, self.knows_rows, self.dtype)

    def _divided(self, rows: TrainingRows, key: jax.Array) -> tuple[TrainingRows, TrainingRows | None]:
        """Return the rows to train on, and those that are held out to measure the loss."""
        held = self.held_out_count(len(rows.weights))
        if not held:
            return rows, None
        if held == len(rows.weights):
            raise ValueError(
                f"{type(self).__name__}: {self.names.held_out} leaves no rows to train on; expected a smaller share "
                f"of {held} rows, got {self.held_out_share()!r}."
            )
        order = self.divided_order(len(rows.weights), held, key)
        training, held_out = (TrainingRows(*(array[part] for array in rows)) for part in (order[held:], order[:held]))
        return training, held_out

    def held_out_count(self, count: int) -> int:
        """Return the number of rows that are held out."""
        return math.ceil(self.held_out_share() * count)

    def divided_order(self, count: int, held: int, key: jax.Array) -> np.ndarray:
        """Return the numbers of the rows in a new order. The first `held` of them are held out."""
        return np.asarray(jax.random.permutation(jax.random.fold_in(key, 2**31), count))

    def lane(self, candidate: Mapping[str, Any], trained: TrainedNets, fold: int) -> Lane | None:
        """Return the lane of a candidate on a fold, for `train_together`, or None if it must be trained alone.

        Args:
            candidate: the parameters that differ from those of this estimator.
            trained: the data of the search.
            fold: number of the fold.
        """
        train, _ = trained.splits[fold]
        one = clone(self).set_params(**clone(dict(candidate), safe=False))
        try:
            one._check()
            if one.callbacks or one.held_out_share() or one.warm_start:
                return None
            rows = one._read_fold(trained, fold, candidate)
            everything = trained.read[one.dtype]
            if not np.array_equal(rows.targets, everything.targets[train]):
                return None  # a class is missing in this fold
            name = digest(one, rows)
            one._begin()
            with jax.enable_x64(one.dtype == "float64"):
                one.blueprint_ = one._blueprint(rows)
                recipe = one._recipe(rows)
        except Exception:  # raised again when scikit-learn fits the candidate
            return None
        weights = np.zeros_like(everything.weights)
        weights[train] = rows.weights  # `class_weight` makes them depend on the fold
        values, read = one.blueprint_.values, everything._replace(weights=weights)
        return Lane(name, recipe, one._epochs(), one.seed_, values, read, train)

    def _read_fold(self, trained: TrainedNets, fold: int, candidate: Mapping[str, Any]) -> TrainingRows:
        """Return the rows of a fold. They are read once for all candidates with the same dtype and class weights."""
        if self.dtype not in trained.read:
            trained.read[self.dtype] = clone(self)._read(trained.x, trained.y, trained.weights, reset=True)
        key = (self.dtype, fold)
        if key not in trained.folds or "class_weight" in candidate:
            parts = (trained.x, trained.y, trained.weights)
            x, y, weights = (None if part is None else _taken(part, trained.splits[fold][0]) for part in parts)
            rows = self._read(x, y, weights, reset=True)
            learnt = {name: value for name, value in vars(self).items() if name.endswith("_")}
            if "class_weight" in candidate:
                return rows
            trained.folds[key] = (rows, learnt)
        rows, found = trained.folds[key]
        for name, value in found.items():
            setattr(self, name, value)
        return rows

    # -------------------------------------------------------------------------------------------------- prediction

    def net_outputs(self, x: Any) -> np.ndarray:
        """Return the outputs of the net: (N, …)."""
        check_is_fitted(self, "fitting_")
        x = validate_data(self, x, reset=False, dtype=np.dtype(self.dtype), allow_nd=True)
        recipe = Recipe(self.blueprint_, "", no_loss, 1, False, False, self.dtype)  # whatever the loss and the batches
        run, values = compiled(outputs_of, recipe), dict(self.blueprint_.values)
        size = min(ROWS, 1 << (len(x) - 1).bit_length())  # few shapes, so few programs are compiled
        found = []
        for begin in range(0, len(x), size):
            part = x[begin : begin + size]
            padded = np.concatenate([part, np.zeros((size - len(part), *x.shape[1:]), x.dtype)])
            with jax.enable_x64(self.dtype == "float64"):
                found.append(np.asarray(run(values, self.fitting_, padded))[: len(part)])
        return np.concatenate(found)


def no_loss(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """The loss of a recipe that only predicts."""
    raise NotImplementedError


def _checked_weights(where: str, weights: ArrayLike | None, count: int, dtype: np.dtype) -> np.ndarray:
    if weights is None:
        return np.ones(count, dtype)
    found = np.asarray(weights, dtype)
    if found.shape != (count,):
        raise ValueError(
            f"{where}: sample_weight has the wrong shape; expected one weight for each of the {count} rows, got "
            f"{found.shape}."
        )
    if not np.isfinite(found).all() or (found < 0).any():
        raise ValueError(
            f"{where}: sample_weight has a wrong number; expected finite numbers of at least 0, got {found.min():g} to "
            f"{found.max():g}."
        )
    if not found.any():
        raise ValueError(f"{where}: all weights in sample_weight are zero; expected at least one above 0, got none.")
    return found


def _taken(array: Any, rows: np.ndarray) -> Any:
    """Return some rows of an array, a list or a data frame."""
    return array.iloc[rows] if hasattr(array, "iloc") else np.asarray(array)[rows]


def _as_numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, int) else float(value) for name, value in row.items()}
