"""Build small quantized `.tflite` models of a few operators, and run them with LiteRT.

A model is a list of tensors and a list of operators that name tensors by index. LiteRT has three sets of kernels:
`REFERENCE` (plain C++), `OPTIMISED` (without a delegate) and `XNNPACK` (the delegate that LiteRT uses by default).
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from funcnet.quantization import QParams

OPTIMISED = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
REFERENCE = OpResolverType.BUILTIN_REF
XNNPACK = OpResolverType.BUILTIN

KERNELS = {"reference": REFERENCE, "xnnpack": XNNPACK}
ACTIVATIONS = {None: 0, "relu": 1, "relu_n1_to_1": 2, "relu6": 3}
TYPES = {"float32": 0, "int32": 2, "uint8": 3, "int64": 4, "int16": 7, "int8": 9}


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor of a model: its shape, its parameters (or its dtype) and, for a constant, its values."""

    shape: tuple[int, ...]
    qparams: QParams | str
    values: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Operator:
    """An operator: the name of its kind in the schema, its inputs and outputs, and its options with their kind."""

    name: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: Any = None
    version: int = 1


def build(tensors: Sequence[Tensor], operators: Sequence[Operator], inputs: Sequence[int], outputs: Sequence[int]):
    """Return the bytes of a model."""
    buffers = [schema.BufferT()]
    rows = []
    for index, tensor in enumerate(tensors):
        row = schema.TensorT()
        row.name, row.shape, row.buffer = f"t{index}", list(tensor.shape), 0
        if tensor.values is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(tensor.values).tobytes(), np.uint8)
            buffers.append(buffer)
            row.buffer = len(buffers) - 1
        if isinstance(tensor.qparams, QParams):
            row.type, row.quantization = TYPES[str(tensor.qparams.dtype)], _quantization(tensor.qparams)
        else:
            row.type = TYPES[tensor.qparams]
        rows.append(row)
    graph = schema.SubGraphT()
    graph.tensors, graph.inputs, graph.outputs = rows, list(inputs), list(outputs)
    graph.operators, codes = [], []
    for index, operator in enumerate(operators):
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, operator.name)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), operator.version
        codes.append(code)
        one = schema.OperatorT()
        one.opcodeIndex, one.inputs, one.outputs = index, list(operator.inputs), list(operator.outputs)
        if operator.options is not None:
            kind = type(operator.options).__name__.removesuffix("T")
            one.builtinOptionsType, one.builtinOptions = getattr(schema.BuiltinOptions, kind), operator.options
        graph.operators.append(one)
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, codes, [graph], buffers
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _quantization(qparams: QParams) -> Any:
    made = schema.QuantizationParametersT()
    made.scale = np.atleast_1d(np.asarray(qparams.scale, np.float32))
    made.zeroPoint = np.atleast_1d(np.asarray(qparams.zero_point, np.int64))
    made.quantizedDimension = qparams.axis or 0
    return made


def options(kind: str, **fields: Any) -> Any:
    """Return options of the schema's class `<kind>T`."""
    made = getattr(schema, f"{kind}T")()
    for name, value in fields.items():
        assert hasattr(made, name), f"{kind} has no field {name}"
        setattr(made, name, value)
    return made


def run(model: bytes, *arrays: np.ndarray, kernels: OpResolverType = REFERENCE, threads: int = 1) -> list[np.ndarray]:
    """Run a model with one set of kernels and return its outputs."""
    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=kernels, num_threads=threads)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def add_model(shape: tuple[int, ...], a: QParams, b: QParams, out: QParams, activation: str | None = None) -> bytes:
    """Return a model of one ADD. The flag for scales that are powers of two is off, as converters write it."""
    fields = options("AddOptions", fusedActivationFunction=ACTIVATIONS[activation], potScaleInt16=False)
    tensors = [Tensor(shape, a), Tensor(shape, b), Tensor(shape, out)]
    return build(tensors, [Operator("ADD", (0, 1), (2,), fields, version=2)], (0, 1), (2,))


def random_qparams(rng: np.random.Generator, dtype: str, near: QParams | None = None, octaves: float = 9.0) -> QParams:
    """Draw parameters of a tensor: any scale, or one within `octaves` powers of two of that of `near`."""
    scale = float(np.exp(rng.uniform(-8, 4))) if near is None else near.scale * 2.0 ** rng.uniform(-octaves, octaves)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return QParams(scale, 0 if dtype == "int16" else int(rng.integers(low, high + 1)), dtype)


def all_pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the 65,536 pairs of two 8-bit integers."""
    values = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)
    return np.repeat(values, 256), np.tile(values, 256)


def all_values(dtype: str) -> np.ndarray:
    """Return the 256 values of an 8-bit dtype."""
    return np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)
