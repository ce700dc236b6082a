"""Samples of the database for reductions and order that do not agree with torch, with the reasons.

`EXCEPTIONS` has {"name (form)": reason}. The other samples of these names agree.
"""

__all__ = ["EXCEPTIONS"]

_WEIGHTS = "The input is float64 and the weights are float32, in which torch sums them: NumPy's result is 1e-7 away."
_EMPTY = "JAX raises an error for an empty array."

EXCEPTIONS = {
    "cov (function)": _WEIGHTS,
    "cov (method)": _WEIGHTS,
    "histogram (function)": _EMPTY,
    "histogram (method)": _EMPTY,
}
