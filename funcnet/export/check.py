"""The check after every export: compare the outputs of the exported form with those of the JAX function."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr

from funcnet.export.tracing import Equation
from funcnet.operators.jaxprs import subprograms

__all__ = ["ExportCheck", "compare", "require_agreement"]

LARGEST = 1e-3  # relative to the largest entry of an output; correct exports of float32 stay below 1e-4
ROUNDINGS = 16  # units in the last place by which a correct export may differ, if that is more than LARGEST
STEP = 0.01  # replaces LARGEST for 8-bit outputs: rounding may change an entry of at most 255 by a step or two


@dataclass(frozen=True)
class ExportCheck:
    """The difference between an exported form and the JAX function.

    Attributes:
        largest: largest difference, relative to the largest entry of the output in which it occurs. The difference is
            infinite if the shapes or dtypes differ, or if an entry is NaN or infinite and the corresponding entry of
            the other array is not the same.
        where: name of the output with the largest difference.

    Example:
        >>> print(ExportCheck(2.5e-7, "logits"))
        largest difference 2.5e-07 (relative to the largest entry), in logits
    """

    largest: float
    where: str

    def __str__(self) -> str:
        return f"largest difference {self.largest:.2g} (relative to the largest entry), in {self.where}"


def compare(names: Sequence[str], got: Sequence[Any], expected: Sequence[Any]) -> ExportCheck:
    """Compare the outputs of an exported form with those of the JAX function.

    Args:
        names: names of the outputs.
        got: arrays that the exported form returned.
        expected: arrays that the JAX function returned.

    Returns:
        The `ExportCheck` of the output with the largest difference.

    Raises:
        ValueError: if `names`, `got` and `expected` have different lengths.

    Example:
        >>> compare(["y"], [np.float32([1, 4])], [np.float32([1, 5])]).largest
        0.2
    """
    if not len(names) == len(got) == len(expected):
        raise ValueError(
            f"export: the number of outputs is wrong; expected {len(expected)} arrays for {len(names)} names, got "
            f"{len(got)}."
        )
    if not names:
        return ExportCheck(0.0, "no output")
    checks = []
    for name, a, b in zip(names, got, expected, strict=True):
        difference, largest = _difference(np.asarray(a), np.asarray(b))
        checks.append(ExportCheck(difference / largest, name))
    return max(checks, key=lambda check: check.largest)


def require_agreement(
    where: str, program: Jaxpr, names: Sequence[str], got: Sequence[Any], expected: Sequence[Any]
) -> ExportCheck:
    """Return the result of `compare`, after checking that the differences are small.

    ε is the machine epsilon of the least precise floating-point dtype in the program. The entries of an output may
    differ from the expected entries by the largest of these limits:

    - 0.001 times the largest entry of the output, or 0.01 times that entry if the output is int8 or uint8.
    - 16 ε times the largest entry.
    - 16 ε, if the output is not integer. This limit allows for small entries that are sums of large numbers of opposite
      signs.

    Args:
        where: name of the caller, for messages.
        program: program of the JAX function. Its dtypes determine ε.
        names: names of the outputs.
        got: arrays that the exported form returned.
        expected: arrays that the JAX function returned.

    Raises:
        ValueError: if the difference in an output exceeds this limit, or the number of outputs is wrong.

    Example:
        >>> import jax
        >>> program = jax.make_jaxpr(jnp.sin)(1.0).jaxpr
        >>> require_agreement("to_onnx", program, ["y"], [np.float32([1, 5])], [np.float32([1, 5])]).largest
        0.0
    """
    check = compare(names, got, expected)
    unit = max((float(jnp.finfo(dtype).eps) for dtype in _dtypes(program)), default=0.0)
    for name, a, b in zip(names, got, expected, strict=True):
        difference, largest = _difference(np.asarray(a), np.asarray(b))
        allowed = max(LARGEST, ROUNDINGS * unit, STEP if b.dtype in (np.int8, np.uint8) else 0.0)
        noise = ROUNDINGS * unit if jnp.issubdtype(b.dtype, jnp.inexact) else 0.0
        if difference > max(allowed * largest, noise):
            raise ValueError(
                f"{where}: the export of {name} is wrong; expected at most {allowed:.2g} as the largest difference "
                f"from the JAX function, relative to the largest entry, got {difference / largest:.2g}. This is a "
                "defect of funcnet: please report it with the function."
            )
    return check


def _dtypes(program: Jaxpr) -> Iterator[Any]:
    """Yield the floating-point dtypes of a program."""
    equation: Equation
    atom: Any
    for equation in program.eqns:
        for atom in (*equation.invars, *equation.outvars):
            if jnp.issubdtype(atom.aval.dtype, jnp.floating):
                yield atom.aval.dtype
        for inner in subprograms(equation):
            yield from _dtypes(inner)


def _difference(got: np.ndarray, expected: np.ndarray) -> tuple[float, float]:
    """Return the largest difference between two arrays, and the largest finite absolute value in `expected`.

    The second number is at least the smallest normal float32, because the caller divides by it.
    """
    a, b = (array.astype(np.complex128 if np.iscomplexobj(array) else np.float64) for array in (got, expected))
    largest = float(max(np.abs(b[np.isfinite(b)]).max(initial=0.0), np.finfo(np.float32).tiny))
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return float("inf"), largest
    unequal = ~((a == b) | (np.isnan(a) & np.isnan(b)))  # equal infinities have no difference
    difference = np.abs(a[unequal] - b[unequal]).max(initial=0.0)
    return (float("inf") if np.isnan(difference) else float(difference)), largest
