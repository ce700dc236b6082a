"""The block of BERT, and the stack of them. Letters: `B batch, T sequence, D width, I intermediate width`."""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType

import jax

from funcnet import functional as F
from funcnet import nn
from funcnet.models.bert.attention import BertAttention
from funcnet.models.bert.configuration import BertConfig

__all__ = ["BertEncoder", "BertLayer", "BertPooler", "activation"]

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


class BertIntermediate(nn.Module):
    """activation(dense(x)). Call: (B, T, D) -> (B, T, I)."""

    def __init__(self, config: BertConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activation = activation(config.hidden_act)

    def forward(self, hidden_states: jax.Array) -> jax.Array:
        return self.activation(self.dense(hidden_states))


class BertOutput(nn.Module):
    """LayerNorm(input + dropout(dense(x))). Call: (B, T, I), (B, T, D) -> (B, T, D)."""

    def __init__(self, config: BertConfig):
        super().__init__()
        self.dense = nn.Linear(config.intermediate_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states: jax.Array, input_tensor: jax.Array) -> jax.Array:
        return self.LayerNorm(self.dropout(self.dense(hidden_states)) + input_tensor)


class BertLayer(nn.Module):
    """One block: attention, then two dense layers with an activation between, each half normalised after its sum.

    Call: hidden_states (B, T, D), bias as `attention_bias` makes it -> (B, T, D).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet.models.bert import BertConfig
        >>> net = BertLayer(BertConfig.preset("tiny"))
        >>> params, state = net.init(jax.random.key(0))
        >>> net.apply(params, state, jnp.ones((2, 3, 128)))[0].shape
        (2, 3, 128)

    Reference: transformers.models.bert.modeling_bert.BertLayer
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.attention = BertAttention(config)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config)

    def forward(self, hidden_states: jax.Array, bias: jax.Array | None = None) -> jax.Array:
        attended = self.attention(hidden_states, bias)
        return self.output(self.intermediate(attended), attended)


class BertEncoder(nn.Module):
    """The stack of blocks. Call: hidden_states (B, T, D), bias -> (B, T, D).

    Reference: transformers.models.bert.modeling_bert.BertEncoder
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.layer = nn.Repeat(BertLayer(config), config.num_hidden_layers, scan=config.scan_layers)

    def forward(self, hidden_states: jax.Array, bias: jax.Array | None = None) -> jax.Array:
        return self.layer(hidden_states, bias)


class BertPooler(nn.Module):
    """tanh(dense(the first token's vector)). Call: (B, T, D) -> (B, D).

    Reference: transformers.models.bert.modeling_bert.BertPooler
    """

    def __init__(self, config: BertConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden_states: jax.Array) -> jax.Array:
        return F.tanh(self.dense(hidden_states[:, 0]))
