"""An integer net: a list of operations on int8 arrays. The net gives the same bits in JAX as in LiteRT.

A value is an array with its quantization parameters. Values that depend on no input are stored as constants, such as
int8 weights and int32 biases. In transformers, some values stay float32; see `residuals.py`.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from funcnet import weights
from funcnet.quantization.integer_operations import OPERATIONS
from funcnet.quantization.qparams import QParams
from funcnet.tree import PyTree

__all__ = ["QuantizedNet", "QuantizedNode", "QuantizedValue"]

_FORMAT = 2
_GRAPH = "graph"


@dataclasses.dataclass(frozen=True)
class QuantizedValue:
    """The shape and the dtype of an array of the net, and its quantization parameters if it holds quantized numbers."""

    shape: tuple[int, ...]
    dtype: str
    qparams: QParams | None = None


@dataclasses.dataclass(frozen=True)
class QuantizedNode:
    """An operation of an integer net.

    Attributes:
        op: name of the operation, a key of `integer_operations.OPERATIONS`.
        inputs: numbers of the values that the operation reads. The number of a value is its index in
            `QuantizedNet.values`.
        output: number of the value that the operation computes.
        settings: static settings of the operation, in a form that JSON can represent.
        layer: dotted name of the module that contains the operation, or "".
    """

    op: str
    inputs: tuple[int, ...]
    output: int
    settings: Mapping[str, Any]
    layer: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class QuantizedNet:
    """A net that computes in integers, as `convert` returns it. The net is a pure function of its inputs.

    Inputs and outputs are those of the floating-point net: floating-point inputs are quantized at the beginning, and
    integer results are dequantized at the end. The shapes of the inputs are those of the example given to `convert`.

    Attributes:
        kernel: "reference" or "xnnpack", the name of the LiteRT kernels whose arithmetic the net uses.
        values: all values. The index of a value in this tuple is its number.
        nodes: the operations in the order in which they run.
        inputs, outputs: numbers of the values that are the arguments and the results of the net.
        constants: {number of a value: array}, for the values that depend on no input.
        structure: tree structure of the net's result, in which each leaf is an index of `outputs`.

    Example:
        >>> from funcnet import nn, quantization
        >>> net = nn.Linear(2, 3)
        >>> params, state = net.init(jax.random.key(0))
        >>> x = jnp.array([[0.5, -1.0]])
        >>> scales = quantization.calibrate(net, params, state, [x])
        >>> quantized = quantization.convert(net, params, state, scales, x)
        >>> [node.op for node in quantized.nodes], quantized(x).shape, quantized.size
        (['quantize', 'linear', 'dequantize'], (1, 3), 18)
    """

    kernel: str
    values: tuple[QuantizedValue, ...]
    nodes: tuple[QuantizedNode, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: Mapping[int, np.ndarray]
    structure: Any

    @property
    def size(self) -> int:
        """Number of bytes of the constants, such as weights and biases."""
        return sum(array.nbytes for array in self.constants.values())

    def __call__(self, *arrays: ArrayLike) -> Any:
        """Run the net.

        Args:
            *arrays: one array for each input.

        Returns:
            The outputs in the structure that the floating-point net returns.

        Raises:
            TypeError: if the number of arrays is wrong, or an array has the wrong dtype.
            ValueError: if an array has the wrong shape.
        """
        leaves = self._run(dict(self.constants), self.checked(arrays))
        return jax.tree.map(lambda place: leaves[place], self.structure)

    def compute(self, nodes: Sequence[QuantizedNode], known: Mapping[int, Any]) -> dict[int, Any]:
        """Compute some operations of the net.

        Args:
            nodes: operations of the net, in the order in which they run.
            known: {number of a value: array}, for all values that the operations read but do not compute.

        Returns:
            {number of a value: array}, for the known values and the outputs of the operations.
        """
        seen = dict(known)
        for node in nodes:
            qparams = [self.values[index].qparams for index in node.inputs]
            out = self.values[node.output]
            given = [seen[index] for index in node.inputs]
            seen[node.output] = OPERATIONS[node.op](given, qparams, out, node.settings, self.kernel)
        return seen

    def save(self, path: str | Path) -> None:
        """Write the net to one `.safetensors` file, which holds the constants, and the graph as JSON.

        Raises:
            OSError: if the file cannot be written.
            ValueError: if the suffix is not `.safetensors`.
        """
        if Path(path).suffix != ".safetensors":
            raise ValueError(f"QuantizedNet.save: the suffix is wrong; expected .safetensors, got {str(path)!r}.")
        text = json.dumps(self._described(), separators=(",", ":")).encode()
        arrays = {str(index): np.asarray(array) for index, array in self.constants.items()}
        weights.save(path, {**arrays, _GRAPH: np.frombuffer(text, np.uint8)})

    @classmethod
    def load(cls, path: str | Path) -> "QuantizedNet":
        """Read a net that `save` wrote.

        Raises:
            FileNotFoundError: if the file does not exist.
            ValueError: if the file is damaged or of an older version, or is not a quantized net.

        Example:
            >>> QuantizedNet.load("no_such.safetensors")
            Traceback (most recent call last):
            FileNotFoundError: weights.load: no_such.safetensors does not exist; expected an existing file.
        """
        held = dict(weights.load(path))
        try:
            made = json.loads(bytes(np.asarray(held.pop(_GRAPH)).tobytes()))
            if made["format"] != _FORMAT:
                older = made["format"] == 1
                advice = " of an older version. Run funcnet quantize, or convert, again." if older else ""
                raise ValueError(f"format {made['format']!r}{advice}")
            values = tuple(_value(*one) for one in made["values"])
            nodes = tuple(
                QuantizedNode(op, tuple(inputs), output, settings, layer)
                for op, inputs, output, settings, layer in made["nodes"]
            )
            constants = {int(name): np.array(array) for name, array in held.items()}
            for index, array in constants.items():
                if (array.shape, array.dtype.name) != (values[index].shape, values[index].dtype):
                    raise ValueError(f"{array.dtype.name} {array.shape} for {values[index]}")
            if set(constants) != set(made["constants"]):
                raise ValueError(f"{len(constants)} arrays instead of {len(made['constants'])}")
            ends = tuple(made["inputs"]), tuple(made["outputs"])
            return cls(made["kernel"], values, nodes, *ends, constants, _tree(made["structure"]))
        except (KeyError, TypeError, ValueError, IndexError, UnicodeDecodeError) as error:
            raise ValueError(
                f"QuantizedNet.load: {str(path)!r} is not a quantized net; expected a file that "
                f"QuantizedNet.save wrote, got one with a fault: {error}"
            ) from None

    def checked(self, arrays: Sequence[Any], where: str = "QuantizedNet") -> list[jax.Array]:
        """Return the arguments of a call as JAX's arrays, or raise the error of this call.

        Args:
            arrays: one array for each input.
            where: name of the caller, for error messages.

        Raises:
            TypeError: if the number of arrays is wrong, or an array has the wrong dtype.
            ValueError: if an array has the wrong shape.
        """
        if len(arrays) != len(self.inputs):
            raise TypeError(f"{where}: the number of arrays is wrong; expected {len(self.inputs)}, got {len(arrays)}.")
        made = []
        for place, (index, array) in enumerate(zip(self.inputs, arrays, strict=True)):
            array, value = jnp.asarray(array), self.values[index]
            if array.dtype != value.dtype:
                raise TypeError(
                    f"{where}: input {place} has the wrong dtype; expected {value.dtype}, got {array.dtype}."
                )
            if array.shape != value.shape:
                raise ValueError(
                    f"{where}: input {place} has the wrong shape; expected {value.shape}, as the example of "
                    f"convert, got {array.shape}."
                )
            made.append(array)
        return made

    @functools.cached_property
    def _run(self) -> Any:
        """The compiled function `run(constants, arrays)`, which returns the outputs as a list."""

        def run(constants: Mapping[int, Any], arrays: Sequence[Any]) -> list[Any]:
            seen = self.compute(self.nodes, {**constants, **dict(zip(self.inputs, arrays, strict=True))})
            return [seen[index] for index in self.outputs]

        return jax.jit(run)

    def _described(self) -> dict[str, Any]:
        values = [[list(one.shape), one.dtype, _described_qparams(one.qparams)] for one in self.values]
        nodes = [[n.op, list(n.inputs), n.output, dict(n.settings), n.layer] for n in self.nodes]
        return {
            "format": _FORMAT,
            "kernel": self.kernel,
            "values": values,
            "nodes": nodes,
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "constants": [int(index) for index in self.constants],
            "structure": _described_tree(self.structure),
        }


def _value(shape: list[int], dtype: str, qparams: list[Any] | None) -> QuantizedValue:
    return QuantizedValue(tuple(shape), dtype, None if qparams is None else QParams(*qparams))


def _described_qparams(qparams: QParams | None) -> list[Any] | None:
    """Return quantization parameters as a list for JSON.

    Scales have only the digits that float32 needs, and equal zero points become one number.
    """
    if qparams is None:
        return None
    short = lambda scale: float(str(np.float32(scale)))
    if qparams.axis is None:
        return [short(qparams.scale), qparams.zero_point, qparams.dtype, None]
    zeros = qparams.zero_point[0] if len(set(qparams.zero_point)) == 1 else qparams.zero_point
    return [list(map(short, qparams.scale)), zeros, qparams.dtype, qparams.axis]


def _described_tree(one: PyTree) -> Any:
    """Return a tree of containers as JSON: a tuple becomes {"tuple": [...]}, and a dict becomes {"dict": {...}}."""
    if isinstance(one, dict):
        return {"dict": {key: _described_tree(value) for key, value in one.items()}}
    if isinstance(one, tuple):
        return {"tuple": [_described_tree(value) for value in one]}
    return [_described_tree(value) for value in one] if isinstance(one, list) else one


def _tree(one: PyTree) -> Any:
    if isinstance(one, dict):
        if "tuple" in one:
            return tuple(_tree(value) for value in one["tuple"])
        return {key: _tree(value) for key, value in one["dict"].items()}
    return [_tree(value) for value in one] if isinstance(one, list) else one
