"""Samples of the database for shapes and joins that do not agree with torch, with the reasons.

`EXCEPTIONS` has {"name (form)": reason}. The other samples of these names agree.
"""

__all__ = ["EXCEPTIONS"]

_SCALARS = "JAX raises an error for a scalar, which torch takes as one entry."
_TORCHS = "torch's gradient is wrong: torch.autograd.gradcheck fails for this function."
_STORAGE = "torch's strides reach into the storage of a larger tensor, which a copy of the sample does not have."

EXCEPTIONS = {
    "as_strided/partial_views (function)": _STORAGE,
    "as_strided/partial_views (method)": _STORAGE,
    "as_strided_scatter (function)": _TORCHS,
    "as_strided_scatter (method)": _TORCHS,
    "cat (function)": "JAX raises an error for an empty vector beside a matrix, and torch leaves the vector out.",
    "meshgrid/list_of_tensors (function)": _SCALARS,
    "meshgrid/variadic_tensors (function)": _SCALARS,
}
