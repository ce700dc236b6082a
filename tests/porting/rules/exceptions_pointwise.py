"""Entries of the database of pointwise, new and random tensors that are not compared.

`EXCEPTIONS` has {"name (form)": reason}. The tests compare each of these functions in another way. `REGISTERED` has the
operators for which the rules write nothing.
"""

__all__ = ["EXCEPTIONS", "REGISTERED"]

_ORDER = "The database calls the function through a wrapper with other arguments, so the text of the call is not valid."
_NO_GRADIENT = "Neither torch nor JAX has its gradient, and the samples ask for one."

EXCEPTIONS = {
    **{f"polygamma/polygamma_n_{n} (function)": _ORDER for n in range(5)},
    "where (function)": _ORDER,
    "zero_ (function)": _ORDER,
    "normal/in_place (function)": _ORDER,
    "nextafter (function)": _NO_GRADIENT,
    "nextafter (method)": _NO_GRADIENT,
}

REGISTERED = {
    "chalf": "JAX has no complex numbers of two float16.",
    "native_batch_norm": "F has no function that returns the statistics too.",
    "native_group_norm": "F has no function that returns the statistics too.",
    "native_layer_norm": "F has no function that returns the statistics too.",
}
