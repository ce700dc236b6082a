"""The tape, on which operations of torch are recorded as nodes.

A plan runs torch's operations on a tape, one after the other, in the order in which torch runs them. The values are
NumPy arrays, because torch's choice of operations depends on strides, and NumPy's strides behave like torch's. For
example, a `reshape` of a transposed tensor copies the tensor first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from funcnet.operators.graph.torch_operations.aten_operations import ATEN
from funcnet.operators.graph.torch_operations.aten_values import VALUES
from funcnet.operators.graph.torch_operations.backward_nodes import BackwardNode, Edge

__all__ = ["Results", "Tape", "TapeValue", "is_inexact", "to_array"]

Results = NDArray[Any] | tuple[Any, ...]  # what a function has computed: one array, or several


@dataclass(frozen=True, eq=False)
class TapeValue:
    """A value with the node that receives its gradient.

    Attributes:
        array: a NumPy array, or a JAX array of random keys.
        edge: the node and the number of its output, or None if the value requires no gradient.
    """

    array: Any
    edge: Edge | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient flows to this value."""
        return self.edge is not None

    @property
    def is_contiguous(self) -> bool:
        """Whether the array is contiguous."""
        return bool(self.array.flags.c_contiguous)


def is_inexact(array: jax.Array | np.ndarray | jax.ShapeDtypeStruct) -> bool:
    """Whether an array can have a gradient, as real or complex numbers can."""
    return bool(jnp.issubdtype(array.dtype, jnp.inexact))


def to_array(given: object) -> Any:
    """Return a NumPy array, or the array itself if it holds random keys."""
    if hasattr(given, "dtype") and jax.dtypes.issubdtype(given.dtype, jax.dtypes.extended):
        return given
    return np.asarray(given)


def _array(given: object) -> Any:
    return given.array if isinstance(given, TapeValue) else given


class Tape:
    """Runs operations and makes their nodes."""

    def __init__(self) -> None:
        self.count = 0

    def node(
        self,
        name: str,
        edges: Sequence[Edge | None],
        results: Sequence[Any],
        saved: dict[str, Any] | None = None,
        is_torchs: bool = True,
    ) -> list[TapeValue]:
        """Make a node, if a gradient flows to any of the `edges`, and return the results as values."""
        if not any(edges) or not any(map(is_inexact, results)):
            return [TapeValue(one) for one in results]
        outputs = tuple(jax.ShapeDtypeStruct(one.shape, one.dtype) for one in results)
        made = BackwardNode(name, tuple(edges), outputs, saved or {}, self.count, is_torchs=is_torchs)
        self.count += 1
        return [TapeValue(one, (made, number) if is_inexact(one) else None) for number, one in enumerate(results)]

    def run(self, name: str, /, *inputs: Any, out: Results | None = None, **settings: Any) -> Any:
        """Run an operation of torch.

        Args:
            name: its name in the table `ATEN`.
            *inputs: its tensors, in the order of the table: values, arrays, numbers, None, or lists of values.
            out: the results, if they are known already.
            **settings: its other arguments, and other values that its node saves.

        Returns:
            A value, or a tuple of several.
        """
        operation = ATEN[name]
        given = dict(zip(operation.inputs, inputs, strict=False))
        arrays = {key: [_array(x) for x in one] if isinstance(one, list) else _array(one) for key, one in given.items()}
        if out is None:
            rest = inputs[len(operation.inputs) :]
            results = VALUES[name](*arrays.values(), *rest, **settings)
        else:
            results = out
        several = isinstance(results, tuple | list)
        flat = [np.asarray(one) for one in (results if several else [results])]
        edges: list[Edge | None] = []
        needing = set()  # the inputs that require a gradient
        for key in operation.inputs:
            if key not in operation.fixed:
                values = given.get(key)
                found = [getattr(x, "edge", None) for x in (values if isinstance(values, list) else [values])]
                edges += found
                needing |= {key} if any(found) else set()
        # what a node may save, under the names in derivatives.yaml
        known = {**settings, **arrays, "result": flat[0], "output": flat[0]}
        known |= {f"result{number}": one for number, one in enumerate(flat) if f"result{number}" not in settings}
        saved = {
            key: known[key]
            for key, needed in operation.saved.items()
            if known.get(key) is not None and (needed is None or needed in needing)
        }
        made = self.node(operation.node, edges, flat, saved)
        return tuple(made) if several else made[0]
