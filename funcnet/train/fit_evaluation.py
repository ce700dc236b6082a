"""The evaluation of `fit`: means of the losses over all elements, and metrics of all outputs together."""

import copy
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import tree
from funcnet.arguments import shown
from funcnet.data import DataLoader, Prefetcher
from funcnet.parallel import Layout, first_decides, is_first
from funcnet.train.batch_shapes import describe_shapes
from funcnet.train.batches import OpenedBatches
from funcnet.train.fit_data import divides_rows
from funcnet.train.interruption import Interruption
from funcnet.train.state import TrainState
from funcnet.train.step import evaluate
from funcnet.train.task_interface import Best
from funcnet.tree import PyTree

__all__ = ["Evaluated", "FitEvaluator", "checked_metrics", "validation_batches"]

Model = tuple[Any, ...]  # (params, state) or (params, state, extra), on the devices


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """An evaluation of a run, as `after_evaluation` of `fit` receives it.

    Attributes:
        step: number of updates so far.
        metrics: {name: value}, as in the log, but without the prefix `eval_`.
        outputs: what `predict` returned, for all rows in the order of the data, as NumPy arrays. None without
            `predict`.
        params: the evaluated parameters, on the devices. The next step reuses their memory, so copy what you keep.
        state: the buffers, on the devices.
    """

    step: int
    metrics: Mapping[str, Any]
    outputs: Any
    params: tree.Tree
    state: tree.Tree


class HostBatch(NamedTuple):
    """A batch that this process has read, and the function that places it on the devices."""

    rows: Any
    place: Callable[[Any], Any]

    def on_devices(self) -> Any:
        return self.place(self.rows)


def validation_batches(
    loader: Any, layout: Layout, own_rows: Callable[[int], Any] | None
) -> Callable[[int], Iterator[HostBatch]]:
    """Return a function that opens the batches of an evaluation. A batch that cannot be divided among the devices, such
    as the last one, is read by every process, and copied to every device. Of other batches, each process reads its own
    rows, if `own_rows` is given and the loader allows it.
    """
    if own_rows is None or not divides_rows(loader):

        def place(batch: PyTree) -> Any:
            rows = len(jax.tree.leaves(batch)[0])
            return layout.replicate(batch) if rows % layout.batch_parts else layout.shard(batch)

        def read(_: int) -> Iterator[HostBatch]:
            for batch in loader.epoch() if isinstance(loader, DataLoader) else loader():
                yield HostBatch(batch, place)

        return read
    loader, total = copy.copy(loader), len(loader.sampler)
    loader.read_rows(lambda rows: np.arange(rows) if rows % layout.batch_parts else own_rows(rows))

    def read_own(_: int) -> Iterator[HostBatch]:
        for number, batch in enumerate(loader.epoch()):
            rows = min(loader.batch_size, total - number * loader.batch_size)
            yield HostBatch(batch, layout.replicate if rows % layout.batch_parts else layout.shard_own)

    return read_own


@dataclasses.dataclass
class FitEvaluator:
    """Evaluates a net on the validation data of `fit`.

    Attributes:
        step: the compiled step, which returns the `sums` and `counts` of `make_eval_step`, and `outputs` if there is
            `predict`.
        epoch: function that returns the batches of one evaluation, from `validation_batches`, opened by
            `OpenedBatches`.
        stop: the interruption of the run.
        metrics: the argument `metrics` of `fit`.
        after_evaluation: the argument `after_evaluation` of `fit`.
        evaluate_ema: whether the averaged weights are evaluated.
    """

    step: Callable[..., dict[str, Any]]
    epoch: OpenedBatches
    stop: Interruption
    metrics: Callable[..., Mapping[str, Any]] | None
    after_evaluation: Callable[[Evaluated], Any] | None
    evaluate_ema: bool

    def __call__(self, state: TrainState) -> dict[str, Any]:
        """Return the metrics of a train state. If a signal has arrived, the metrics are incomplete."""
        params = state.ema.params if self.evaluate_ema else state.params
        figures, outputs = self._measure((params, state.state, *(() if state.extra is None else (state.extra,))))
        if self.after_evaluation is not None and is_first() and not self.stop.requested:
            self.after_evaluation(Evaluated(int(state.step), figures, outputs, params, state.state))
        return figures

    def check(self, model: Model, best: Best | None) -> None:
        """Check with the first batch of the validation data that the net can be evaluated, and that there is the metric
        of `best`.

        Raises:
            ValueError: if there is no batch, or no such metric.
            Exception: any exception of the user's functions. Its notes describe the batch.
        """
        batch = self.epoch.first()
        if batch is None:
            raise ValueError("train.fit: validation has no batch; expected at least one, got none.")
        try:
            figures, outputs = self._means(model, [batch.on_devices()])
        except Exception as error:
            error.add_note(f"in the evaluation of the first batch of validation, {describe_shapes(batch.rows)}")
            raise
        own = first_decides(lambda: self._tried(outputs, figures))
        figures = {**figures, **own} if own is not None else self._measure(model)[0]
        names = [name for name, value in figures.items() if isinstance(value, float)]
        if best is not None and best.metric not in names:
            raise ValueError(
                f"train.fit: best names an unknown metric; expected one of {', '.join(names)}, got {best.metric!r}. "
                "Return this metric from loss or from metrics."
            )

    def _measure(self, model: Model) -> tuple[dict[str, Any], Any]:
        """Return (metrics, outputs) of all batches."""
        with Prefetcher(self.epoch(0), transfer=HostBatch.on_devices) as batches:
            figures, outputs = self._means(model, batches)
        if not self.stop.requested:
            figures |= first_decides(lambda: self._metrics(outputs, figures))
        return figures, outputs

    def _means(self, model: Model, batches: Iterable[Any]) -> tuple[dict[str, Any], Any]:
        parts: list[Any] = []

        def step(model: Model, batch: PyTree, key: jax.Array | None) -> dict[str, Any]:
            found = dict(self.step(model, batch, key))
            if "outputs" in found:
                parts.append(jax.device_get(found.pop("outputs")))
            return found

        figures: dict[str, Any] = dict(evaluate(step, model, batches, should_stop=lambda: self.stop.requested))
        return figures, _joined(parts) if parts else None

    def _metrics(self, outputs: PyTree, figures: Mapping[str, Any]) -> dict[str, Any]:
        if self.metrics is None:
            return {}
        parts = tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
        try:
            inspect.signature(self.metrics).bind(*parts)
        except ValueError:  # a function written in C has no signature
            pass
        except TypeError:
            raise MetricsError(
                f"train.fit: metrics does not fit predict; expected a function of {len(parts)} "
                f"argument{'s' * (len(parts) != 1)}, because predict returns {_outline(outputs)}, got "
                f"metrics{inspect.signature(self.metrics)}."
            ) from None
        try:
            found = self.metrics(*parts)
        except Exception as error:
            error.add_note(f"in metrics, called with {describe_shapes(parts)}")
            raise
        return checked_metrics(found, figures)

    def _tried(self, outputs: PyTree, figures: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the metrics of one batch, or None if they need more rows: an ROC curve needs two classes."""
        try:
            return self._metrics(outputs, figures)
        except MetricsError:
            raise
        except Exception:
            return None


class MetricsError(TypeError):
    """Raised if the argument `metrics` does not fit the values that `predict` returns, for any number of rows."""


def _outline(outputs: PyTree) -> str:
    kind = type(outputs).__name__
    return f"a {kind} of {len(outputs)}" if isinstance(outputs, tuple | list) else f"one {kind}"


def checked_metrics(values: PyTree, known: Iterable[str]) -> dict[str, Any]:
    """Return what `metrics` of `fit` returned, with numbers as floats and arrays as nested lists.

    Raises:
        TypeError: if it is not a dict of numbers and arrays of numbers.
        ValueError: if a name is one of `known`, the names of the other metrics.

    Example:
        >>> checked_metrics({"f1": np.float32(0.5), "confusion": np.eye(2, dtype=int)}, ["loss"])
        {'f1': 0.5, 'confusion': [[1, 0], [0, 1]]}
    """
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise TypeError(
            "train.fit: metrics returned a wrong value; expected a dict {name: number or array of numbers}, got "
            f"{shown(values)}."
        )
    if twice := [name for name in values if name in known]:
        raise ValueError(
            f"train.fit: metrics returned {twice[0]!r}, which the loss returns too; expected names other than "
            f"{', '.join(known)}, got {', '.join(values)}. Rename one of them."
        )
    found = {}
    for name, value in values.items():
        array = np.asarray(value)
        if array.dtype.kind not in "biuf" and not jnp.issubdtype(array.dtype, jnp.floating):
            raise TypeError(
                f"train.fit: {name!r} of metrics is not a number; expected a number or an array of numbers, got "
                f"{shown(value)}."
            )
        found[name] = array.tolist() if array.ndim else float(array)
    return found


def _joined(parts: Sequence[Any]) -> Any:
    """Concatenate the outputs of all batches along their rows."""
    try:
        return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)
    except ValueError as error:
        shapes = sorted({describe_shapes(part) for part in parts})[:3]
        raise ValueError(
            "train.fit: the outputs of predict differ in their shapes, apart from the number of rows; expected equal "
            f"ones for all batches, got {' and '.join(shapes)}. Pad them, or return one row per token, as in "
            "logits.reshape(-1, classes)."
        ) from error
