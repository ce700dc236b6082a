"""A digest of what a traced program computes. Programs with the same digest can share one compilation."""

import hashlib
import re
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

__all__ = ["fingerprint"]


def fingerprint(traced: ClosedJaxpr) -> str:
    """Return a digest of the operations and the constants of a program.

    A function may read variables of its surroundings, so its name and identity do not tell what it computes.

    Example:
        >>> scale = 2.0
        >>> double = fingerprint(jax.make_jaxpr(lambda x: scale * x)(1.0))
        >>> scale = 3.0
        >>> double == fingerprint(jax.make_jaxpr(lambda x: scale * x)(1.0))
        False
    """
    # Names of functions have addresses, which differ each time.
    found = hashlib.sha256(re.sub("0x[0-9a-f]+", "", str(traced)).encode())
    _add(found, traced)
    return found.hexdigest()


def _add(found: "hashlib._Hash", value: object) -> None:
    """Add the constants of a parameter of an equation, with all digits."""
    if isinstance(value, ClosedJaxpr):
        for constant in value.consts:
            _add_constant(found, constant)
        _add(found, value.jaxpr)
    elif isinstance(value, Jaxpr):
        for equation in value.eqns:
            for variable in equation.invars:
                if isinstance(variable, Literal):
                    _add_constant(found, variable.val)
            for inner in equation.params.values():
                _add(found, inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _add(found, inner)


def _add_constant(found: "hashlib._Hash", constant: Any) -> None:
    if isinstance(constant, jax.Array) and jax.dtypes.issubdtype(constant.dtype, jax.dtypes.prng_key):
        constant = jax.random.key_data(constant)
    array = np.asarray(constant)
    found.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
