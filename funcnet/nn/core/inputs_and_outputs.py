"""The inputs and outputs of a call: NumPy arrays are converted, and changes that would be lost are reported."""

import warnings
from collections import deque
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.tree import PyTree

__all__ = ["CONTAINERS", "EvalMode", "OutputAndState", "arrays", "warn_of_lost_changes"]

CONTAINERS = (list, dict, set, deque)  # the plain containers that apply copies


def arrays(given: PyTree) -> Any:
    """Return arguments with JAX arrays in place of NumPy arrays, including those in plain lists, tuples and dicts.

    Without this conversion, `forward` could change the caller's NumPy array in place. While JAX traces, NumPy arrays of
    integers and booleans remain NumPy arrays, because they may be static (lengths, for example). They become read-only
    views.
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
    """The pair (output, state) that `apply` returns outside of JAX transformations. If code uses this pair as an array,
    an error with advice is raised.
    """

    __slots__ = ()

    def _refuse(self, *args: object) -> NoReturn:
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
    """The value of `self.training` in a module that is called like a function, without `apply`. Such a module runs in
    eval mode. The truth value of an `EvalMode` is False, and a test of the truth value causes a warning.
    """

    def __bool__(self) -> bool:
        warnings.warn(
            "a description was called like a function, which runs it in eval mode. For training mode, call "
            "net.apply(params, state, x, training=True, rng=key). Inside forward, write "
            "F.dropout(x, p, rng=self.make_rng()) in place of torch's nn.Dropout(p)(x).",
            stacklevel=2,
        )
        return False


def warn_of_lost_changes(copies: list[tuple[Any, str, Any, Any]]) -> None:
    """Warn about plain containers that forward has changed.

    Args:
        copies: one tuple per container: the frame of the module, the name of the attribute, the original container, and
            the copy that `forward` used.
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
