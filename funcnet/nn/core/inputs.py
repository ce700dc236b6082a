"""The inputs and outputs of a call: NumPy arrays are converted, and changes that would be lost are reported."""

import warnings
from collections import deque
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["CONTAINERS", "EvalMode", "OutputAndState", "arrays", "warn_of_lost_changes"]

CONTAINERS = (list, dict, set, deque)  # the plain containers that apply copies


def arrays(given: Any) -> Any:
    """Return arguments with JAX arrays in place of NumPy arrays, also inside plain lists, tuples and dicts.

    `forward` could otherwise change a NumPy array in place, which is the caller's array. Integers that are constants of
    the program being traced remain NumPy arrays, because they may be static (lengths, for example). They become
    read-only.
    """
    if type(given) is np.ndarray:
        if given.dtype != bool and not jnp.issubdtype(given.dtype, jnp.number):
            return given
        array = jnp.asarray(given)
        if jnp.issubdtype(given.dtype, jnp.inexact) or not isinstance(array, jax.core.Tracer):
            return array
        view = given.view()
        view.flags.writeable = False
        return view
    if type(given) in (list, tuple):
        return type(given)(map(arrays, given))
    if type(given) is dict:
        return {name: arrays(value) for name, value in given.items()}
    return given


class _Pair(NamedTuple):
    output: Any
    state: Any


class OutputAndState(_Pair):
    """The result of `apply` outside of transformations: a pair that raises an error with advice if it is used as an
    array.
    """

    __slots__ = ()

    def _refuse(self, *args: Any) -> NoReturn:
        raise TypeError(
            "apply returns the pair (output, state), which must be unpacked: y, state = net.apply(params, state, x)."
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(jax.Array, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        self._refuse()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse  # type: ignore[assignment]
    __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = __pow__ = __neg__ = __float__ = __jax_array__ = _refuse


class EvalMode:
    """The mode of a description that is called like a function. It is eval, with a warning where the mode matters."""

    def __bool__(self) -> bool:
        warnings.warn(
            "a description was called like a function, which runs it in eval mode. For training mode, call "
            "net.apply(params, state, x, training=True, rng=key).",
            stacklevel=2,
        )
        return False


def warn_of_lost_changes(copies: list[tuple[Any, str, Any, Any]]) -> None:
    """Warn of plain containers that forward has changed.

    Args:
        copies: (frame, name of the attribute, original, copy that forward had).
    """
    for frame, name, original, copy in copies:
        if not _same(original, copy):
            warnings.warn(
                f"{frame.where()}: forward changed {name!r}, a plain {type(original).__name__}, and the change is lost "
                "after this call. Return the values, assign them to a buffer, or record them with nn.capture.",
                stacklevel=4,
            )


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, CONTAINERS) or len(a) != len(b):
        return False
    if isinstance(a, dict):
        return all(name in b and _same(value, b[name]) for name, value in a.items())
    return a == b if isinstance(a, set) else all(map(_same, a, b))
