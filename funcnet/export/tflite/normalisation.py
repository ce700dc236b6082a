"""Write layer normalisation in LiteRT's operators, with the same steps as in `funcnet.quantization.layer_norm`."""

from collections.abc import Sequence

import numpy as np

from funcnet.export.tflite.layout import Tensors
from funcnet.export.tflite.writing import TfliteFile
from funcnet.quantization import QuantizedNode
from funcnet.quantization.layer_norm import (
    FLOOR_OF_LARGEST,
    ROOT_STEPS,
    START_OF_ROOT,
    inverse_weight,
    largest_step,
)

__all__ = ["write_layer_norm"]

_INTS, _REALS = 2, 0  # LiteRT's numbers for the dtypes int32 and float32


def write_layer_norm(file: TfliteFile, tensors: Tensors, node: QuantizedNode) -> None:
    """Add the operators of a layer normalisation over the last dimension."""
    x, weight, bias = node.inputs
    constants, whole = tensors.net.constants, tensors.net.values[x].shape
    add = _Steps(file, node.layer, (*whole[:-1], 1))
    last, size = tensors.ints([len(whole) - 1]), add.real(whole[-1])
    source = tensors.plain(x)
    top = add("MAXIMUM", [add("REDUCE_MAX", [add("ABS", [source], whole), last]), add.real(float(FLOOR_OF_LARGEST))])
    step = add("DIV", [top, add.real(float(largest_step(whole[-1])))])
    ratio = add("DIV", [source, step], whole)
    rounded = add("FLOOR", [add("ADD", [ratio, add.real(0.5)], whole)], whole)
    integers = add("CAST", [rounded], whole, "int32")
    total = add("CAST", [add("SUM", [integers, last], dtype="int32")])
    products = add("MUL", [integers, integers], whole, "int32")
    squares = add("CAST", [add("SUM", [products, last], dtype="int32")])
    mean = add("DIV", [total, size])
    eps = add("DIV", [add("DIV", [add.real(node.settings["eps"]), step]), step])
    square = add("ADD", [add("DIV", [squares, size]), eps])
    share = add("SUB", [add.real(1.0), add("DIV", [mean, add("DIV", [square, mean])])])
    root = _root(tensors, add, add("MUL", [square, share]))
    normalised = add("DIV", [add("SUB", [ratio, mean], whole), root], whole)
    weighted = add("DIV", [normalised, add.real(np.asarray(inverse_weight(constants[weight])))], whole)
    out = tensors.new(node.output)
    file.operator("ADD", [weighted, add.real(constants[bias])], [out], "AddOptions")


def _root(tensors: Tensors, add: "_Steps", x: int) -> int:
    """Return the tensor of the square roots of x. Both tensors have one number per row."""
    half = add("RIGHT_SHIFT", [add("BITCAST", [x], dtype="int32"), tensors.ints([1])], dtype="int32")
    root = add("BITCAST", [add("ADD", [half, tensors.ints([START_OF_ROOT])], dtype="int32")])
    for _ in range(ROOT_STEPS):
        root = add("MUL", [add("ADD", [root, add("DIV", [x, root])]), add.real(0.5)])
    return root


class _Steps:
    """Adds operators whose outputs have one entry per row, unless another shape is given."""

    def __init__(self, file: TfliteFile, layer: str, rows: tuple[int, ...]):
        self.file, self.layer, self.rows = file, layer, rows

    def __call__(
        self, name: str, inputs: Sequence[int], shape: Sequence[int] | None = None, dtype: str = "float32"
    ) -> int:
        """Add an operator, and return the tensor of its output."""
        out = self.file.tensor(f"{self.layer}.{name.lower()}", shape or self.rows, dtype)
        options = {"SUM": "ReducerOptions", "REDUCE_MAX": "ReducerOptions", "CAST": "CastOptions"}.get(name)
        fields: dict[str, int | bool] = {}
        if name in ("ADD", "SUB", "MUL", "DIV"):
            options = f"{name.title()}Options"
        elif name == "CAST":
            kinds = (_REALS, _INTS) if dtype == "int32" else (_INTS, _REALS)
            fields = dict(zip(("inDataType", "outDataType"), kinds, strict=True))
        elif options == "ReducerOptions":
            fields = {"keepDims": True}
        self.file.operator(name, inputs, [out], options, 1, **fields)
        return out

    def real(self, numbers: np.ndarray | float) -> int:
        """Add a constant tensor of float32, and return its number."""
        array = np.atleast_1d(np.asarray(numbers, np.float32))
        return self.file.tensor(f"{self.layer}.constant", array.shape, "float32", values=array)
