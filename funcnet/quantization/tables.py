"""Functions of one 8-bit tensor as tables of 256 integers, made on the host.

The entries of a table are computed with the same float32 arithmetic as in TFLite's kernel. No compiler can change the
entries, whereas XLA on CPU would contract a multiplication and an addition into one operation, which rounds
differently.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.quantization.qparams import QParams, check_integers, integer_range, require_per_tensor

Function = str | Callable[[np.ndarray], np.ndarray]

__all__ = ["activation_by_table", "activation_table", "look_up", "table_values"]


def activation_by_table(x: jax.Array, function: Function, qparams: QParams, out_qparams: QParams) -> jax.Array:
    """Apply an elementwise function to a quantized tensor with a table of 256 integers.

    Args:
        x: array of int8 or uint8.
        function: "exp", "gelu", "gelu_tanh", "sigmoid" or "tanh", whose results equal those of LiteRT's
            reference kernels bit for bit, or any elementwise function of a NumPy array of float32.
        qparams, out_qparams: parameters of `x` and of the result.

    Returns:
        An array of the shape of `x` and the dtype of `out_qparams`.

    Raises:
        TypeError: if `x` has a different dtype from its parameters, or `activation_table` raises TypeError.
        ValueError: if `activation_table` raises ValueError.

    Example:
        >>> in_qparams, out_qparams = QParams(0.0625, 0, "int8"), QParams(1 / 128, 0, "int8")
        >>> activation_by_table(jnp.array([0, 16, -128], jnp.int8), "tanh", in_qparams, out_qparams)
        Array([   0,   97, -128], dtype=int8)
    """
    x = check_integers("activation_by_table", "x", x, qparams)
    return look_up(x, activation_table(function, qparams, out_qparams))


def activation_table(function: Function, qparams: QParams, out_qparams: QParams) -> np.ndarray:
    """Return the 256 output integers of a function, one for each input integer from the smallest to the largest.

    As in TFLite, an input is dequantized in float32, and the result of the function is rounded to float32. The rounded
    result is then multiplied by the reciprocal of the output's scale, and halves are rounded away from zero.

    Args:
        function: as in `activation_by_table`.
        qparams, out_qparams: parameters of the input (int8 or uint8) and of the output, each with one scale.

    Returns:
        An array (256,) of the dtype of `out_qparams`.

    Raises:
        TypeError: if the function is neither a name nor a function, or parameters are not `QParams`.
        ValueError: if the input is not int8 or uint8, parameters have a scale for each channel, the name of the
            function is unknown, or the function returns NaN or an array of another shape.

    Example:
        >>> activation_table(np.abs, QParams(0.5, 0, "int8"), QParams(0.5, 0, "int8"))[:3]
        array([127, 127, 126], dtype=int8)

    Reference: TFLite's LUTPopulate.
    """
    if not isinstance(function, str) and not callable(function):
        raise TypeError(
            f"activation_table: the function is wrong; expected a name or a function, got {type(function).__name__}."
        )
    for name, one in (("the input", qparams), ("the output", out_qparams)):
        if not isinstance(one, QParams):
            raise TypeError(
                f"activation_table: the parameters of {name} are wrong; expected QParams, got {type(one).__name__}."
            )
        require_per_tensor("activation_table", name, one)
    steps = table_values("activation_table", qparams) - np.int32(qparams.zero_point)
    real = np.float32(qparams.scale) * steps.astype(np.float32)
    values = np.asarray(_named(function)(real) if isinstance(function, str) else function(real))
    if values.shape != (256,) or np.isnan(values).any():
        raise ValueError(
            f"activation_table: bad values of the function; expected 256 numbers without NaN, got shape {values.shape}"
            f"{' with NaN' if np.isnan(values).any() else ''}."
        )
    with np.errstate(over="ignore"):
        rescaled = values.astype(np.float32) * (np.float32(1) / np.float32(out_qparams.scale))
    whole = np.copysign(np.floor(np.abs(rescaled.astype(np.float64)) + 0.5), rescaled)
    return np.clip(whole + out_qparams.zero_point, *integer_range(out_qparams.dtype)).astype(out_qparams.dtype)


def table_values(where: str, qparams: QParams) -> np.ndarray:
    """Return the 256 integers of an 8-bit dtype in rising order, as int32, or raise ValueError for another dtype."""
    if qparams.dtype not in ("int8", "uint8"):
        raise ValueError(f"{where}: a table needs inputs of 8 bits; expected int8 or uint8, got {qparams.dtype}.")
    low, high = integer_range(qparams.dtype)
    return np.arange(low, high + 1, dtype=np.int32)


def look_up(x: jax.Array, table: np.ndarray) -> jax.Array:
    """Return, for each 8-bit integer of an array, the entry of a table that belongs to this integer.

    Args:
        x: array of int8 or uint8.
        table: array (256,), whose first entry belongs to the smallest integer of the dtype.

    Returns:
        An array of the shape of `x` and the dtype of the table.

    Example:
        >>> look_up(jnp.array([-128, 127], jnp.int8), np.arange(256, dtype=np.uint8))
        Array([  0, 255], dtype=uint8)
    """
    return _look_up(x, table)


@jax.jit
def _look_up(x, table):
    low, _ = integer_range(x.dtype)
    return table[x.astype(jnp.int32) - low]


def _named(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function of float32 arrays that is called `name`.

    Its `exp` may give infinity, which the caller clips.
    """
    one, half = np.float32(1), np.float32(0.5)

    def exp(x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.exp(x)

    if name == "exp":
        return exp
    if name == "gelu":
        root = np.float32(-math.sqrt(0.5))
        return lambda x: half * x * np.array([math.erfc(each) for each in x * root], np.float32)
    if name == "gelu_tanh":
        root, cubic = np.float32(math.sqrt(2 / math.pi)), np.float32(0.044715)
        return lambda x: half * x * (one + np.tanh(root * (x + cubic * x * x * x)))
    if name == "sigmoid":
        return lambda x: one / (one + exp(-x))
    if name == "tanh":
        return np.tanh
    raise ValueError(
        f"activation_table: unknown function; expected exp, gelu, gelu_tanh, sigmoid, tanh or a function, got {name}."
    )
