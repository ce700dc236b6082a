"""Export a function as ONNX, which ONNX Runtime and other programs can run."""

import json
import re
import struct
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jax.typing import ArrayLike

from funcnet import weights as weight_files
from funcnet.export.check import ExportCheck, require_agreement
from funcnet.export.onnx.graph import Graph, OnnxNode
from funcnet.export.onnx.lowering import lower
from funcnet.export.onnx.rewriting import rewrite
from funcnet.export.onnx.writing import model_of, require_onnx, with_names
from funcnet.export.signature import ArraySpec, arguments_of, require_arguments
from funcnet.export.tracing import Dynamic, trace
from funcnet.export.weights_path import weights_beside
from funcnet.files import file_digest, write_bytes
from funcnet.tree import PyTree

if TYPE_CHECKING:  # an optional dependency
    import onnxruntime

__all__ = ["Onnx", "OnnxSession", "load_onnx", "to_onnx"]

Placed = Literal["inside", "beside"]
DIGEST, FILE = "funcnet.weights.sha256", "funcnet.weights.file"
MOST_INSIDE = 2**31 - 2**20  # bytes; protobuf's limit for a message, minus room for the nodes


@dataclass(frozen=True)
class Onnx:
    """An exported function. `save` writes the function to a file, and `load_onnx` loads the file.

    Attributes:
        arguments: the arguments.
        results: names, shapes and dtypes of the leaves of the result.
        check: the difference between ONNX Runtime and the JAX function on the example arrays.
        placed: where `save` puts the weights: "inside" the file or "beside" it.
        graph: the operators.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import export
        >>> exported = export.to_onnx(lambda x: 2 * x, jnp.ones(3))
        >>> exported.check.largest, [node.op for node in exported.graph.nodes]
        (0.0, ['Mul'])
    """

    arguments: tuple[ArraySpec, ...]
    results: tuple[ArraySpec, ...]
    check: ExportCheck
    placed: Placed
    graph: Graph = field(repr=False)

    def save(self, path: str | Path) -> None:
        """Write the file. If `placed` is "beside", the weights go into a file of the same name that ends in
        `.safetensors`, with the names that they have in the model.

        Raises:
            OSError: if a file cannot be written.
            ValueError: if the weights are too large to be inside, or the weights go beside the file and `path` itself
                ends in `.safetensors`.
        """
        _save(self.graph, Path(path), self.placed)


class OnnxSession:
    """A function from an ONNX file, which runs in ONNX Runtime.

    Attributes:
        arguments: the arguments.
        results: the results.
        session: the `onnxruntime.InferenceSession`.
    """

    def __init__(self, session: "onnxruntime.InferenceSession"):
        self.session = session
        self.arguments, self.results = _arguments(session.get_inputs()), _arguments(session.get_outputs())

    def __call__(self, *arrays: ArrayLike) -> list[np.ndarray]:
        """Run the function, and return the leaves of its result.

        Raises:
            TypeError: if the number of arrays is wrong, or one of them is not an array or has another dtype.
            ValueError: if an argument has another shape, or ONNX Runtime reports an error, such as an id out of range.
        """
        given = require_arguments("onnx", self.arguments, arrays)
        feed = {one.name: np.asarray(array) for one, array in zip(self.arguments, given, strict=True)}
        try:
            return list(self.session.run(None, feed))
        except Exception as error:  # ONNX Runtime's errors have no common class below Exception
            raise ValueError(f"onnx: ONNX Runtime refused the inputs; expected valid ones, got '{error}'.") from None


def to_onnx(
    function: Callable[..., Any],
    *arrays: ArrayLike,
    dynamic: Dynamic = None,
    constraints: Sequence[str] = (),
    weights: Placed = "inside",
    params: PyTree = None,
) -> Onnx:
    """Export a pure function of arrays as an ONNX model of opset 23, and check it in ONNX Runtime.

    The operations of the JAX program become ONNX operators. Normalisation, Gelu, Softmax and attention become one
    operator each, which ONNX Runtime computes faster than their parts.

    Args:
        function: pure function of arrays, which returns an array or a structure of arrays. The function closes over its
            weights.
        *arrays: example arrays. The example arrays determine the shapes and dtypes of the arguments, and the model is
            checked on these arrays.
        dynamic: sizes that may differ between calls, in the syntax of `jax.export.symbolic_shape`: a string such as
            "batch, length" for all arrays, or a list with a string or None for each array. In a string, "_" keeps one
            size of the example array, and "..." keeps several.
        constraints: constraints of the sizes in `dynamic`, such as "length <= 512". ONNX does not check the
            constraints.
        weights: where `save` puts the weights: "inside" the file, or "beside" it as `.safetensors`.
        params: tree of arrays, or tuple of trees, that the function closes over. Each weight gets the name that it has
            in its tree.

    Returns:
        An `Onnx`, which can be saved.

    Raises:
        TypeError: if an argument is not an array.
        ValueError: if there is no example array, `dynamic` or `weights` is wrong, the function draws random numbers or
            calls back into Python, an operation has no form in ONNX, `onnx` or `onnxruntime` is not installed, or ONNX
            Runtime refuses the model or computes something else. The message names the operation and its layer, or the
            output that differs.

    Differs from JAX: in an embedding, an id out of range gives NaN in JAX and an error in ONNX Runtime.

    Example:
        >>> import tempfile, pathlib, jax, jax.numpy as jnp
        >>> from funcnet import export, nn
        >>> net = nn.Sequential(nn.Linear(3, 2), nn.GELU())
        >>> params, state = net.init(jax.random.key(0))
        >>> run = lambda x: net.apply(params, state, x)[0]
        >>> exported = export.to_onnx(run, jnp.ones((4, 3)), dynamic="batch, _", params=params)
        >>> exported.check.largest < 1e-6, [node.op for node in exported.graph.nodes]
        (True, ['Transpose', 'MatMul', 'Add', 'Gelu'])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     exported.save(pathlib.Path(folder, "net.onnx"))
        ...     loaded = export.load_onnx(pathlib.Path(folder, "net.onnx"))
        >>> loaded(np.ones((7, 3), np.float32))[0].shape
        (7, 2)

    Reference: https://onnx.ai/onnx/operators; torch.onnx.export.
    """
    where = "to_onnx"
    require_onnx(where)
    if weights not in ("inside", "beside"):
        raise ValueError(f"{where}: weights is unknown; expected 'inside' or 'beside', got {weights!r}.")
    traced = trace(where, function, arrays, dynamic, constraints, params)
    graph = lower(where, traced)
    rewrite(graph)
    graph.outputs = graph.own(graph.outputs)  # an output that is an input or another output has a name already
    for value, name in zip(graph.outputs, traced.outputs, strict=True):
        value.name = name
    with_names(graph)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        _save(graph, path, "beside")
        try:
            session = OnnxSession(_session(where, path, None))
        except _Refused as refused:
            raise _without_kernel(graph, refused.text.replace(str(path), "the model")) from None
        got = session(*traced.examples)
    check = require_agreement(where, traced.program.jaxpr, traced.outputs, got, traced.results)
    results = arguments_of(traced.outputs, graph.outputs)
    return Onnx(arguments_of(traced.inputs, traced.specs), results, check, weights, graph)


def load_onnx(path: str | Path, threads: int | None = None) -> OnnxSession:
    """Load a file that `Onnx.save` wrote, to run it in ONNX Runtime on CPU.

    Args:
        path: the file of the model. If the weights are in a second file, the model contains the name of that file.
        threads: number of threads. None means all cores.

    Returns:
        An `OnnxSession`, which is called with arrays.

    Raises:
        OSError: if a file cannot be read.
        ValueError: if the file is not a complete model, the weights beside it are those of another model, or `onnx` or
            `onnxruntime` is not installed.

    Example:
        >>> import tempfile, jax.numpy as jnp
        >>> from funcnet import export
        >>> double = export.to_onnx(lambda x: 2 * x, jnp.ones(3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     double.save(f"{folder}/double.onnx")
        ...     session = export.load_onnx(f"{folder}/double.onnx", threads=1)
        >>> session(np.arange(3, dtype=np.float32))[0]
        array([0., 2., 4.], dtype=float32)
    """
    where, path = "load_onnx", Path(path)
    onnx = require_onnx(where)
    try:
        model = onnx.load(str(path), load_external_data=False)
    except (onnx.onnx_cpp2py_export.checker.ValidationError, ValueError, TypeError) as error:
        raise _broken(where, path, str(error)) from None
    except OSError:
        raise
    except Exception as error:  # protobuf's DecodeError; funcnet does not depend on protobuf
        raise _broken(where, path, str(error)) from None
    facts = {one.key: one.value for one in model.metadata_props}
    if DIGEST in facts:
        beside = path.with_name(facts[FILE])
        if not beside.exists():
            raise FileNotFoundError(f"{where}: {path} needs its weights; expected the file {beside}, got none.")
        if (found := file_digest(beside)) != facts[DIGEST]:
            raise ValueError(
                f"{where}: {beside} has other weights than those that were exported; expected SHA-256 {facts[DIGEST]}, "
                f"got {found}. Copy both files of the export together."
            )
    try:
        return OnnxSession(_session(where, path, threads))
    except _Refused as refused:
        raise _broken(where, path, refused.text) from None


def _session(where: str, path: Path, threads: int | None) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise ValueError(
            f'{where}: the package onnxruntime is missing; expected an installation with the extra "export", got none. '
            'Run pip install "funcnet[export]".'
        ) from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised
    if threads is not None:
        options.intra_op_num_threads = options.inter_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's errors have no common class below Exception
        raise _Refused(str(error)) from None


class _Refused(Exception):
    """Raised with ONNX Runtime's message if ONNX Runtime refuses a model."""

    def __init__(self, text: str):
        super().__init__(text)
        self.text = text.strip()


def _broken(where: str, path: Path, text: str) -> ValueError:
    return ValueError(
        f"{where}: {path} is not a complete ONNX model; expected a file that ONNX Runtime accepts, got "
        f"'{text.strip()[:400]}'."
    )


def _without_kernel(graph: Graph, text: str) -> ValueError:
    """Return the error for a model that ONNX Runtime refuses. The error names the layer of a node if ONNX Runtime's
    message names the node.
    """
    named = re.search(r"node with name '([^']+)'|in node \(([^)]+)\)", text)
    node = _nodes(graph).get(named[1] or named[2]) if named else None
    if node is None:
        return ValueError(
            f"to_onnx: ONNX Runtime refuses the model; expected one that it runs, got '{text[:400]}'. This is a defect "
            "of funcnet: please report it with the function."
        )
    dtypes = dict.fromkeys(str(value.dtype) for value in node.inputs if value is not None)
    return ValueError(
        f"to_onnx: ONNX Runtime has no kernel for {node.op} of {' and '.join(dtypes)} in "
        f"{'layer ' + node.layer if node.layer else 'the function'}; expected operations and dtypes that it computes, "
        f"got '{text[:400]}'. Compute this part in float32, or export with to_stablehlo."
    )


def _nodes(graph: Graph) -> dict[str, OnnxNode]:
    """Return {name: node} for the nodes of a graph and of the graphs inside it."""
    inner = {name: node for outer in graph.nodes for one in outer.graphs() for name, node in _nodes(one).items()}
    return inner | {node.outputs[0].name: node for node in graph.nodes}


def _save(graph: Graph, path: Path, placed: Placed) -> None:
    held = {value.weight: value.constant for value in _constants(graph) if value.weight and value.constant is not None}
    size = sum(array.nbytes for array in held.values())
    if placed == "inside" and size > MOST_INSIDE:
        raise ValueError(
            f"to_onnx: the weights are too large to be inside; expected at most 2 GB, got {size / 1e9:.1f} GB. Pass "
            "weights='beside'."
        )
    facts: dict[str, str] = {}
    places: Mapping[str, tuple[str, int, int]] = {}
    if placed == "beside" and held:
        beside = weights_beside("Onnx.save", path, ".safetensors")
        weight_files.save(beside, held)
        facts = {FILE: beside.name, DIGEST: file_digest(beside)}
        places = _places(beside)
    model = model_of(graph, places)
    for key, value in facts.items():
        model.metadata_props.add(key=key, value=value)
    write_bytes(path, model.SerializeToString(deterministic=True))


def _constants(graph: Graph) -> list[Any]:
    inner = [value for node in graph.nodes for one in node.graphs() for value in _constants(one)]
    return [value for value in graph.read() if value.constant is not None] + inner


def _places(path: Path) -> dict[str, tuple[str, int, int]]:
    """Return {name: (file, offset, length)} of the arrays in a .safetensors file."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    start = 8 + length
    return {
        name: (path.name, start + first, last - first)
        for name, entry in header.items()
        if name != "__metadata__"
        for first, last in [entry["data_offsets"]]
    }


def _arguments(described: Sequence[Any]) -> tuple[ArraySpec, ...]:
    """Return an `ArraySpec` for each input or output of ONNX Runtime, whose types are texts such as "tensor(float)"."""
    names = {"tensor(float)": "float32", "tensor(double)": "float64"}
    types = [names.get(one.type, one.type.removeprefix("tensor(").removesuffix(")")) for one in described]
    return tuple(ArraySpec(one.name, tuple(one.shape), kind) for one, kind in zip(described, types, strict=True))
