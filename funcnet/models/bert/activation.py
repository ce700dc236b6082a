"""The functions that `hidden_act` names."""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType

import jax

from funcnet import functional as F

__all__ = ["activation"]

_ACTIVATIONS: Mapping[str, Callable[[jax.Array], jax.Array]] = MappingProxyType(
    {
        "gelu": F.gelu,
        "gelu_new": functools.partial(F.gelu, approximate="tanh"),
        "gelu_pytorch_tanh": functools.partial(F.gelu, approximate="tanh"),
        "relu": F.relu,
        "relu6": F.relu6,
        "sigmoid": F.sigmoid,
        "silu": F.silu,
        "swish": F.silu,
        "tanh": F.tanh,
    }
)


def activation(name: str) -> Callable[[jax.Array], jax.Array]:
    """The function that `hidden_act` names, by Hugging Face's names.

    Raises:
        ValueError: an unknown name.

    >>> float(activation("relu")(jax.numpy.float32(-1)))
    0.0
    """
    if name not in _ACTIVATIONS:
        raise ValueError(
            f"bert.activation: hidden_act is not known; expected one of {', '.join(_ACTIVATIONS)}, got {name!r}. "
            "Name one of them."
        )
    return _ACTIVATIONS[name]
