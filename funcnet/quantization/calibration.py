"""Calibration: find the range of each array of a net on example batches."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import jax
import numpy as np
from jax.typing import DTypeLike

from funcnet import nn
from funcnet.quantization.evaluation import evaluate, softmax_range
from funcnet.quantization.graph import LayerGraph, LayerValue
from funcnet.quantization.observers import MinMaxObserver
from funcnet.quantization.placement import observed, softmax_inputs
from funcnet.quantization.qparams import QParams, choose_qparams
from funcnet.quantization.residuals import channels_name, scaled
from funcnet.quantization.tracing import layers_of
from funcnet.tree import Params, PyTree, State

__all__ = ["Observer", "as_batches", "as_inputs", "calibrate"]


class Observer(Protocol):
    """The methods that calibration calls on an observer; see `observers.py`."""

    def init(self) -> Any: ...

    def update(self, state: Any, x: jax.Array) -> Any: ...

    def qparams(self, state: Any, dtype: DTypeLike = "int8") -> QParams: ...


def calibrate(
    net: nn.Module, params: Params, state: State, batches: Iterable[Any], observer: Observer | None = None
) -> dict[str, QParams]:
    """Run a net on batches, and return the quantization parameters of every array that `convert` will quantize.

    Args:
        net: module whose inference is a pure function of its inputs.
        params, state: parameters and buffers of the module.
        batches: batches of inputs. Each batch is an array, or a tuple of arrays for a net with several inputs. About
            100 typical examples are usually enough.
        observer: observer of each array; None means `MinMaxObserver()`. `PercentileObserver`,
            `MeanSquaredErrorObserver` and `HistogramObserver` leave outliers out of the ranges.

    Returns:
        {name: parameters of int8}. A name consists of a layer and an operation, such as "layer1.0.conv1:conv". In
        transformers, some names end in ":channels"; their parameters have a scale for each channel.

    Raises:
        TypeError: if `batches` is a single array or is not iterable, a batch is not an array or a tuple of arrays, or
            `observer` is not an observer.
        ValueError: if there is no batch, an array holds infinity or NaN, the net has an operation without an integer
            kernel, or the net draws random numbers or changes buffers at inference.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> params, state = net.init(jax.random.key(0))
        >>> ranges = calibrate(net, params, state, [jnp.array([[0.0, 2.55]])])
        >>> list(ranges), round(ranges["input:0"].scale, 3)
        (['input:0', '0:linear'], 0.01)
    """
    observer = MinMaxObserver() if observer is None else observer
    if isinstance(observer, type) or not all(hasattr(observer, name) for name in ("init", "update", "qparams")):
        raise TypeError(
            f"calibrate: the observer is wrong; expected an observer such as MinMaxObserver(), got {observer!r}."
        )
    names: list[str] = []
    seen: dict[str, Any] = {}
    steps: dict[Any, Any] = {}
    channels: dict[str, QParams] = {}
    for inputs in as_batches(batches):
        key = tuple((array.shape, array.dtype.name) for array in inputs)
        if key not in steps:
            graph = layers_of("calibrate", net, params, state, inputs)
            # The first graph shows which values need a range for each channel. These ranges come from the first batch
            # alone, because they are constants of the graph that is observed on all batches.
            if not steps:
                channels = _channels(graph, inputs)
            if channels:
                graph = layers_of("calibrate", net, params, state, inputs, channels=channels)
            names = names or [value.name for value in observed(graph)]
            seen = seen or {name: observer.init() for name in names}
            steps[key] = _step(graph, observer)
        seen = steps[key](seen, inputs)
    if not seen:
        raise ValueError("calibrate: there is no batch; expected at least one, got none.")
    ranges = dict(channels)
    for name in names:  # in the order of the net, because jit sorts the keys of a dict
        try:
            ranges[name] = observer.qparams(seen[name], "int8")
        except ValueError as error:
            raise ValueError(f"calibrate: the range of {name!r} is bad; {error}") from None
    return ranges


def as_batches(batches: Iterable[Any], where: str = "calibrate") -> Iterator[tuple[np.ndarray, ...]]:
    """Return an iterator over the arrays of each batch; see `as_inputs`.

    Raises:
        TypeError: if `batches` is a single array or is not iterable. The iterator raises TypeError at a batch that is
            not an array or a tuple of arrays.

    Example:
        >>> [len(batch) for batch in as_batches([np.zeros(2), (np.zeros(2), np.zeros(2))])]
        [1, 2]
    """
    if not isinstance(batches, Iterable) or hasattr(batches, "shape"):
        raise TypeError(
            f"{where}: the batches are wrong; expected an iterable of batches, such as [x], got "
            f"{'one array' if hasattr(batches, 'shape') else type(batches).__name__}."
        )
    return (as_inputs(batch, where) for batch in batches)


def as_inputs(batch: PyTree, where: str = "calibrate") -> tuple[np.ndarray, ...]:
    """Return the arrays of a batch in JAX's dtypes (such as int32 for int64), or raise TypeError for another object.

    Example:
        >>> [array.dtype.name for array in as_inputs((np.zeros(2), np.zeros(2, np.int64)))]
        ['float32', 'int32']
    """
    arrays = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
    for array in arrays:
        if not hasattr(array, "shape") or not hasattr(array, "dtype"):
            raise TypeError(
                f"{where}: a batch is not an array; expected an array or a tuple of arrays, got {type(array).__name__}."
            )
    return tuple(np.asarray(array, jax.dtypes.canonicalize_dtype(array.dtype)) for array in arrays)


def _channels(graph: LayerGraph, inputs: tuple[np.ndarray, ...]) -> dict[str, QParams]:
    """Return {name: parameters with a scale for each channel}, for the values that a `scale` operation reads."""
    names = {id(value): channels_name(value) for value in scaled(graph)}
    if not names:
        return {}

    @jax.jit
    def largest(inputs: tuple[np.ndarray, ...]) -> dict[str, jax.Array]:
        found = {}

        def tap(value: LayerValue, array: jax.Array) -> jax.Array:
            if id(value) in names:
                found[names[id(value)]] = jax.numpy.abs(array).max(tuple(range(array.ndim - 1)))
            return array

        evaluate(graph, inputs, tap)
        return found

    made = {}
    for name, numbers in largest(inputs).items():
        high = np.nan_to_num(np.asarray(numbers), posinf=0.0)  # infinity and NaN raise an error later
        made[name] = choose_qparams(-high, high, "int8", symmetric=True, axis=-1)
    return made


def _step(graph: LayerGraph, observer: Observer) -> Any:
    """Return a compiled function that updates the states of all observers by one batch."""
    watched, limited = {id(value) for value in observed(graph)}, softmax_inputs(graph)

    @jax.jit
    def step(states: Mapping[str, Any], inputs: tuple[np.ndarray, ...]) -> dict[str, Any]:
        after = dict(states)

        def tap(value: LayerValue, array: jax.Array) -> jax.Array:
            if id(value) in watched:
                seen = softmax_range(array) if id(value) in limited else array
                after[value.name] = observer.update(after[value.name], seen)
            return array

        evaluate(graph, inputs, tap)
        return after

    return step
