"""Write the `.tflite` format: tensors, operators and buffers of one subgraph, packed with LiteRT's schema."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from funcnet.quantization import QParams

__all__ = ["TfliteFile", "require_litert"]

_TYPES: Mapping[str, int] = MappingProxyType({"float32": 0, "int32": 2, "uint8": 3, "bool": 6, "int16": 7, "int8": 9})
_SCHEMA_VERSION, _IDENTIFIER = 3, b"TFL3"


def require_litert(where: str) -> tuple[Any, Any]:
    """Return LiteRT's schema and interpreter modules, which the extra "export" installs.

    Raises:
        ValueError: if the packages ai-edge-litert and flatbuffers are not installed.
    """
    try:
        import flatbuffers  # noqa: F401
        from ai_edge_litert import interpreter, schema_py_generated
    except ImportError:
        raise ValueError(
            f"{where}: the packages ai-edge-litert and flatbuffers are missing; expected an installation with the "
            'extra "export", got none. Run pip install "funcnet[export]".'
        ) from None
    return schema_py_generated, interpreter


class TfliteFile:
    """A model of one subgraph that is written tensor by tensor and operator by operator.

    Example:
        >>> file = TfliteFile("to_tflite")
        >>> x, y = (file.tensor(name, (4,), "float32") for name in "xy")
        >>> file.operator("TANH", [x], [y])
        >>> file.finish({"x": x}, {"y": y})[4:8]
        b'TFL3'
    """

    def __init__(self, where: str):
        self.schema, _ = require_litert(where)
        self._tensors: list[Any] = []
        self._operators: list[Any] = []
        self._codes: dict[tuple[str, int], int] = {}
        self._buffers: list[Any] = [self.schema.BufferT()]  # the first one is empty, for tensors without data

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str,
        qparams: QParams | None = None,
        values: np.ndarray | None = None,
        axis: int | None = None,
    ) -> int:
        """Add a tensor, and return its number.

        Args:
            name: name of the tensor, for people who read the file.
            shape: shape of the tensor.
            dtype: name of the dtype.
            qparams: quantization parameters, if the tensor is quantized.
            values: entries of the tensor, if it is a constant.
            axis: axis of the tensor along which the scales differ. None means `qparams.axis`.
        """
        made = self.schema.TensorT()
        made.name, made.shape, made.type, made.buffer = name, [int(n) for n in shape], _TYPES[dtype], 0
        if qparams is not None:
            parameters = self.schema.QuantizationParametersT()
            parameters.scale = np.atleast_1d(np.asarray(qparams.scale, np.float32))
            parameters.zeroPoint = np.atleast_1d(np.asarray(qparams.zero_point, np.int64))
            parameters.quantizedDimension = (qparams.axis if axis is None else axis) or 0
            made.quantization = parameters
        if values is not None:
            assert values.dtype.name == dtype and values.shape == tuple(shape)
            buffer = self.schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
            self._buffers.append(buffer)
            made.buffer = len(self._buffers) - 1
        self._tensors.append(made)
        return len(self._tensors) - 1

    def operator(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str | None = None,
        version: int = 1,
        **fields: Any,
    ) -> None:
        """Add an operator. `options` names the options table of LiteRT's schema, and `fields` are the fields of this
        table.
        """
        made = self.schema.OperatorT()
        made.opcodeIndex = self._codes.setdefault((name, version), len(self._codes))
        made.inputs, made.outputs = list(inputs), list(outputs)
        if options is not None:
            made.builtinOptionsType = getattr(self.schema.BuiltinOptions, options)
            made.builtinOptions = getattr(self.schema, f"{options}T")()
            for field, value in fields.items():
                assert hasattr(made.builtinOptions, field), f"{options} has no field {field}"
                setattr(made.builtinOptions, field, value)
        self._operators.append(made)

    def finish(self, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> bytes:
        """Return the bytes of the model.

        Args:
            inputs, outputs: {name: number of the tensor}. The tensors get these names, and so do the inputs and outputs
                of the signature "serving_default".
        """
        import flatbuffers

        graph = self.schema.SubGraphT()
        graph.name, graph.tensors, graph.operators = "main", self._tensors, self._operators
        graph.inputs, graph.outputs = list(inputs.values()), list(outputs.values())
        for name, number in {**inputs, **outputs}.items():
            self._tensors[number].name = name
        signature = self.schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = "serving_default", 0
        signature.inputs, signature.outputs = self._maps(inputs), self._maps(outputs)
        model = self.schema.ModelT()
        model.signatureDefs = [signature]
        model.version, model.description, model.subgraphs = _SCHEMA_VERSION, "funcnet", [graph]
        model.operatorCodes, model.buffers = [self._code(*key) for key in self._codes], self._buffers
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), _IDENTIFIER)
        return bytes(builder.Output())

    def _maps(self, places: Mapping[str, int]) -> list[Any]:
        made = []
        for name, number in places.items():
            one = self.schema.TensorMapT()
            one.name, one.tensorIndex = name, number
            made.append(one)
        return made

    def _code(self, name: str, version: int) -> Any:
        made = self.schema.OperatorCodeT()
        made.builtinCode, made.version = getattr(self.schema.BuiltinOperator, name), version
        made.deprecatedBuiltinCode = min(made.builtinCode, 127)  # for old readers, whose code has 8 bits
        return made
