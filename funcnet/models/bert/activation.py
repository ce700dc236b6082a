"""The activation functions whose names `BertConfig.hidden_act` accepts, and helpers for a model whose activation was
replaced.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp

from funcnet import functional as F
from funcnet import nn

__all__ = ["activate", "activation", "called", "computes", "shown"]


def _gelu_new(x: jax.Array) -> jax.Array:
    return F.gelu(x, approximate="tanh")


_ACTIVATIONS: Mapping[str, Callable[[jax.Array], jax.Array]] = MappingProxyType(
    {
        "gelu": F.gelu,
        "gelu_new": _gelu_new,
        "gelu_pytorch_tanh": _gelu_new,
        "relu": F.relu,
        "relu6": F.relu6,
        "sigmoid": F.sigmoid,
        "silu": F.silu,
        "swish": F.silu,
        "tanh": F.tanh,
    }
)


def activation(name: str) -> Callable[[jax.Array], jax.Array]:
    """Return the activation function with this name. The names are those of Hugging Face's `hidden_act`."""
    if name not in _ACTIVATIONS:
        raise ValueError(
            f"bert.activation: hidden_act is unknown; expected one of {', '.join(_ACTIVATIONS)}, got {name!r}."
        )
    return _ACTIVATIONS[name]


def activate(function: str | Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    """Return `function(x)`. If `function` is a string, the activation function with this name is called, as in
    transformers.
    """
    return (activation(function) if isinstance(function, str) else function)(x)


def shown(module: nn.Module, name: str) -> str:
    """Return text that shows the activation function in the attribute `name`, for the `repr` of a module. If the
    activation is a module, the text is empty, because `repr` shows it on a separate line.

    >>> from funcnet.models import bert
    >>> shown(bert.BertModel(bert.BertConfig.preset("tiny")).pooler, "activation")
    'activation=tanh'
    """
    function = getattr(module, name)
    return "" if isinstance(function, nn.Module) else f"{name}={called(function)}"


def called(function: Any) -> str:
    """Return the name of an activation for messages, such as gelu or ReLU()."""
    known = next((name for name, value in _ACTIVATIONS.items() if value is function), None)
    return str(known or getattr(function, "__name__", function))


def computes(function: Callable[..., Any], name: str) -> bool:
    """Return whether a function computes the same values as the activation with this name. The values are compared,
    because the same activation can be written in many ways.

    >>> computes(nn.GELU(), "gelu"), computes(nn.GELU("tanh"), "gelu"), computes(nn.ReLU6(), "relu")
    (True, False, False)
    """
    x = jnp.linspace(-12.0, 12.0, 97)  # beyond the 6 of relu6
    if isinstance(function, nn.Module):
        if [*function.named_parameters()] or [*function.named_buffers()]:
            return False
        y, _ = function.apply({}, {}, x)
    else:
        y = activate(function, x)
    return y.shape == x.shape and bool(jnp.allclose(y, activation(name)(x), rtol=0, atol=1e-5))
