"""Export an integer net as a `.tflite` file, and check the file in LiteRT."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
from jax.typing import ArrayLike

from funcnet.export.signature import narrowed
from funcnet.export.tflite.operators import model_of
from funcnet.export.tflite.writing import require_litert
from funcnet.files import require_folder, write_bytes
from funcnet.quantization import QuantizedNet
from funcnet.quantization.calibration import as_inputs
from funcnet.quantization.qparams import integer_range

__all__ = ["TfliteExport", "run_tflite", "to_tflite"]


@dataclass(frozen=True)
class TfliteExport:
    """The `.tflite` file that `to_tflite` wrote, and the comparison of LiteRT's outputs with those of JAX.

    Attributes:
        path: path of the file.
        size: size of the file in bytes.
        compared: number of entries in the outputs of the net.
        differing: number of entries whose bytes differ between JAX and LiteRT.
        largest: largest absolute difference between an entry of JAX and the same entry of LiteRT.
    """

    path: Path
    size: int
    compared: int
    differing: int
    largest: float

    def __str__(self) -> str:
        return f"{self.path}: {self.size} bytes; {self.differing} of {self.compared} entries differ from LiteRT's"


def to_tflite(
    quantized: QuantizedNet,
    path: str | Path,
    *arrays: ArrayLike,
    exact: bool = True,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
) -> TfliteExport:
    """Convert an integer net to a `.tflite` model, compare its outputs in LiteRT byte for byte, and write the file.

    The file has the inputs and outputs of the net, in the same shapes. Images have shape (N, C, H, W). For the
    comparison, LiteRT uses the kernels for which the net was converted: plain C++ for "reference", the default delegate
    for "xnnpack".

    Args:
        quantized: result of `funcnet.quantization.convert`.
        path: the file to write, with the suffix `.tflite`.
        *arrays: inputs for the comparison, one for each input of the net. The default is random numbers that cover the
            range of each input. 64-bit numbers become 32-bit ones, as in JAX.
        exact: whether to raise an error instead of writing the file if an output differs.
        inputs, outputs: names of the inputs and outputs in the file and in its signature "serving_default". The default
            is "input_0", "output_0" and so on.

    Returns:
        The size of the file and the result of the comparison.

    Raises:
        OSError: if the folder of `path` does not exist.
        TypeError: if `quantized` is not a `QuantizedNet`.
        ValueError: if `path` has another suffix, LiteRT has no operator for an operation with its settings, LiteRT is
            not installed or refuses the model, or an output differs and `exact` is True.

    Example:
        >>> import tempfile, jax.numpy as jnp
        >>> from funcnet import nn
        >>> from funcnet.quantization import calibrate, convert
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> params, state = net.init(jax.random.key(0))
        >>> x = jnp.array([[0.5, -1.0]])
        >>> quantized = convert(net, params, state, calibrate(net, params, state, [x]), x)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     to_tflite(quantized, f"{folder}/net.tflite").differing
        0
    """
    path = Path(path)
    if path.suffix != ".tflite":
        raise ValueError(f"to_tflite: the suffix is wrong; expected .tflite, got {str(path)!r}.")
    if not isinstance(quantized, QuantizedNet):
        raise TypeError(
            f"to_tflite: the net is not quantized; expected a QuantizedNet, as quantization.convert returns, got "
            f"{type(quantized).__name__}."
        )
    require_folder(path, "to_tflite")
    model = model_of(quantized, inputs, outputs)
    arrays = as_inputs(arrays, "to_tflite") if arrays else _drawn(quantized)
    ours = [np.asarray(leaf) for leaf in jax.tree.leaves(quantized(*arrays))]
    theirs = run_tflite(model, arrays, quantized.kernel)
    differing = sum(int((a.view(np.uint32) != b.view(np.uint32)).sum()) for a, b in zip(ours, theirs, strict=True))
    largest = max(float(np.abs(a - b).max(initial=0)) for a, b in zip(ours, theirs, strict=True))
    compared = sum(array.size for array in ours)
    if differing and exact:
        raise ValueError(
            f"to_tflite: LiteRT computes something else; expected the same bytes, got {differing} of {compared} "
            f"different entries, by at most {largest:g}. No file was written. Pass exact=False to write it."
        )
    write_bytes(path, model)
    return TfliteExport(path, len(model), compared, differing, largest)


def run_tflite(model: bytes, arrays: Sequence[np.ndarray], kernel: str = "reference") -> list[np.ndarray]:
    """Run a model in LiteRT with the kernels "reference" or "xnnpack", and return the outputs.

    Raises:
        ValueError: if LiteRT refuses the model.
    """
    _, litert = require_litert("to_tflite")
    kinds = {"reference": litert.OpResolverType.BUILTIN_REF, "xnnpack": litert.OpResolverType.BUILTIN}
    try:
        session = litert.Interpreter(model_content=model, experimental_op_resolver_type=kinds[kernel], num_threads=1)
        session.allocate_tensors()
        for detail, array in zip(session.get_input_details(), arrays, strict=True):
            array = narrowed("run_tflite", detail["name"], array, np.dtype(detail["dtype"]).name)
            session.set_tensor(detail["index"], array)
        session.invoke()
    except RuntimeError as error:
        raise ValueError(f"to_tflite: LiteRT refuses the model; expected a valid one, got '{error}'.") from None
    return [session.get_tensor(detail["index"]) for detail in session.get_output_details()]


def _drawn(net: QuantizedNet) -> tuple[np.ndarray, ...]:
    """Return random inputs. Floating-point inputs cover the quantized range, ids the rows of their embedding table, and
    other integers are 0 or 1.
    """
    random, made = np.random.default_rng(0), []
    for number in net.inputs:
        value = net.values[number]
        reader = next((node for node in net.nodes if number in node.inputs), None)
        if value.dtype == "float32" and reader is not None:
            qparams = net.values[reader.output].qparams
            assert qparams is not None
            low, high = (qparams.scale * (end - qparams.zero_point) for end in integer_range(qparams.dtype))
            made.append(random.uniform(low, high, value.shape).astype(np.float32))
        else:
            rows = 2 if reader is None or reader.op != "embedding" else net.values[reader.inputs[0]].shape[0]
            made.append(random.integers(0, rows, value.shape).astype(value.dtype))
    return tuple(made)
