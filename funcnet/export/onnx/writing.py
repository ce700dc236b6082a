"""Write a graph as an ONNX model, with its weights inside or beside it.

Weights beside the model are in a .safetensors file. The model refers to each array by its offset and length in this
file. Other programs can read the .safetensors file too, because it stores the arrays under the names of the model's
weights.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from funcnet.export.onnx.graph import Graph, OnnxNode, OnnxValue

__all__ = ["OPSET", "model_of", "require_onnx", "with_names"]

OPSET = 23  # the first with Attention and RMSNormalization
IR_VERSION = 11  # the version of the file format that ONNX introduced with this opset


def require_onnx(where: str) -> Any:
    """Import and return the package onnx, which the extra "export" installs.

    Raises:
        ValueError: if the package is not installed.
    """
    try:
        import onnx
    except ImportError:
        raise ValueError(
            f'{where}: the package onnx is missing; expected an installation with the extra "export", got none. Run '
            'pip install "funcnet[export]".'
        ) from None
    return onnx


def with_names(graph: Graph) -> None:
    """Give each value of a graph a name that no other value has.

    Inputs and outputs that have names keep them. A weight keeps its name in the model, with a number at its end if
    another value has this name. Any other value gets the name of its layer and operator, with a number.
    """
    counts = {value.name: 0 for value in (*graph.inputs, *graph.outputs) if value.name}
    for value in _weights(graph):
        if not value.name:
            value.name = _new(value.weight, counts) if value.weight in counts else value.weight
            counts[value.name] = 0
    _with_names(graph, counts)


def _with_names(graph: Graph, counts: dict[str, int]) -> None:
    def name(value: OnnxValue, words: str) -> None:
        if not value.name:
            value.name = _new(words, counts)

    for value in graph.inputs:
        name(value, "input")
    for node in graph.nodes:
        for read in node.inputs:
            if read is not None and read.constant is not None:
                name(read, "number")
        for inner in node.graphs():
            _with_names(inner, counts)
        for value in node.outputs:
            name(value, "/".join(filter(None, (node.layer, node.op))))
    for value in graph.outputs:
        name(value, "output")


def _new(words: str, counts: dict[str, int]) -> str:
    """Return a name that no other value has: the words, followed by the next free number."""
    while True:
        counts[words] = counts.get(words, -1) + 1
        if (name := f"{words}_{counts[words]}") not in counts:
            counts[name] = -1
            return name


def _weights(graph: Graph) -> list[OnnxValue]:
    """Return the weights that a graph and the graphs inside it read."""
    inner = [value for node in graph.nodes for one in node.graphs() for value in _weights(one)]
    return [*dict.fromkeys(value for value in (*graph.read(), *inner) if value.weight)]


def model_of(graph: Graph, beside: Mapping[str, tuple[str, int, int]] | None = None) -> Any:
    """Return the `onnx.ModelProto` of a graph whose values have names.

    Args:
        graph: the graph.
        beside: {name: (file, offset, length)} of the weights that are stored beside the model.
    """
    import onnx

    domains = {"": OPSET} | {node.domain: 1 for node in graph.nodes if node.domain}
    return onnx.helper.make_model(
        _graph(graph, "model", beside or {}, set()),
        opset_imports=[onnx.helper.make_opsetid(domain, version) for domain, version in domains.items()],
        ir_version=IR_VERSION,
        producer_name="funcnet",
    )


def _graph(graph: Graph, name: str, beside: Mapping[str, Any], outer: set[str]) -> Any:
    import onnx

    constants: dict[str, OnnxValue] = {}
    for value in graph.read():
        if value.constant is not None and value.name not in outer:
            constants[value.name] = value
    inner = outer | set(constants)
    return onnx.helper.make_graph(
        [_node(node, beside, inner) for node in graph.nodes],
        name,
        [_info(value) for value in graph.inputs],
        [_info(value) for value in graph.outputs],
        [_tensor(value, beside) for value in constants.values()],
    )


def _node(node: OnnxNode, beside: Mapping[str, Any], outer: set[str]) -> Any:
    import onnx

    made = onnx.helper.make_node(
        node.op,
        ["" if value is None else value.name for value in node.inputs],
        [value.name for value in node.outputs],
        name=node.outputs[0].name,
        domain=node.domain or None,
    )
    for key, value in node.attributes.items():
        if isinstance(value, Graph):
            value = _graph(value, key, beside, outer)
        elif isinstance(value, np.dtype):
            value = onnx.helper.np_dtype_to_tensor_dtype(value)
        elif isinstance(value, np.ndarray):
            value = onnx.numpy_helper.from_array(value)
        made.attribute.append(onnx.helper.make_attribute(key, value))
    return made


def _info(value: OnnxValue) -> Any:
    import onnx

    kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    shape = [size if isinstance(size, int) else str(size) for size in value.shape]
    return onnx.helper.make_tensor_value_info(value.name, kind, shape)


def _tensor(value: OnnxValue, beside: Mapping[str, tuple[str, int, int]]) -> Any:
    import onnx

    assert value.constant is not None
    if value.weight not in beside:
        return onnx.numpy_helper.from_array(np.ascontiguousarray(value.constant).reshape(value.shape), value.name)
    tensor = onnx.TensorProto(name=value.name, dims=value.shape, data_location=onnx.TensorProto.EXTERNAL)
    tensor.data_type = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    file, offset, length = beside[value.weight]
    for key, text in (("location", file), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=text)
    return tensor
