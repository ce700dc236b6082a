"""Transformer, TransformerEncoder and TransformerDecoder, as in torch/nn/modules/transformer.py.

Letters: `B batch, S length of the source, T length of the target, D d_model, F dim_feedforward, H heads`. The docstring
of `transformer_layer.py` describes the masks. `is_causal=None` means the same as False, so the given mask decides which
keys are hidden. In torch, `is_causal=None` means that torch checks whether the mask is causal, which gives the same
result.
"""

import copy

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from funcnet import functional as F
from funcnet.nn import init
from funcnet.nn.container import ModuleList
from funcnet.nn.module.module import Module
from funcnet.nn.normalization import LayerNorm
from funcnet.nn.transformer_layer import Activation, Mask, TransformerDecoderLayer, TransformerEncoderLayer

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerEncoder",
]


class Transformer(Module):
    """An encoder for the source sequence, and a decoder for the target sequence that attends to the encoder's output.

    Args:
        d_model: width of the model, D.
        nhead: number of attention heads, H, which must divide D.
        num_encoder_layers, num_decoder_layers: number of layers in the encoder and in the decoder.
        dim_feedforward: width of the feed-forward blocks, F.
        dropout: dropout probability, which applies to attention weights too.
        activation: 'relu', 'gelu', a module, or a function of one array.
        custom_encoder, custom_decoder: modules that replace the default encoder and decoder.
        layer_norm_eps: eps of every LayerNorm.
        batch_first: if True, the batch dimension comes first in the inputs and the output.
        norm_first: if True, LayerNorm comes before each block instead of after the residual sum.
        bias: if True, the Linear and LayerNorm layers have biases.
        dtype: dtype of the parameters, float32 by default.

    Params: the parameters of the encoder and the decoder. All parameters with two or more dimensions are initialised
        with `init.xavier_uniform`.
    Call: src (S, B, D), tgt (T, B, D) -> (T, B, D). With batch_first, src (B, S, D), tgt (B, T, D) -> (B, T, D). The
        batch dimension B is optional.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> net = nn.Transformer(8, 2, 1, 1, 16)
        >>> params, state = net.init(jax.random.key(0))
        >>> src, tgt = jnp.ones((5, 2, 8)), jnp.ones((3, 2, 8))
        >>> causal = net.generate_square_subsequent_mask(3)
        >>> net.apply(params, state, src, tgt, tgt_mask=causal)[0].shape
        (3, 2, 8)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Transformer.html
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: DTypeLike | None = None,
    ):
        super().__init__()
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype)

        if custom_encoder is None:  # not `custom_encoder or …`, which would replace an empty container
            encoder_layer = TransformerEncoderLayer(*layer, dtype=dtype)
            custom_encoder = TransformerEncoder(encoder_layer, num_encoder_layers, norm())
        if custom_decoder is None:
            decoder_layer = TransformerDecoderLayer(*layer, dtype=dtype)
            custom_decoder = TransformerDecoder(decoder_layer, num_decoder_layers, norm())
        self.encoder, self.decoder = custom_encoder, custom_decoder
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: jax.Array,
        tgt: jax.Array,
        src_mask: Mask = None,
        tgt_mask: Mask = None,
        memory_mask: Mask = None,
        src_key_padding_mask: Mask = None,
        tgt_key_padding_mask: Mask = None,
        memory_key_padding_mask: Mask = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> jax.Array:
        batch = 0 if self.batch_first else 1
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ValueError(
                f"Transformer: the width of src and tgt must be d_model; expected (*, {self.d_model}), got {src.shape} "
                f"and {tgt.shape}. Project src and tgt to d_model first."
            )
        if src.ndim != tgt.ndim or (src.ndim == 3 and src.shape[batch] != tgt.shape[batch]):
            raise ValueError(
                f"Transformer: src and tgt differ in rank or in batch size (dimension {batch}); expected equal ranks "
                f"and batch sizes, got {src.shape} and {tgt.shape}. The module has batch_first={self.batch_first}."
            )
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, dtype: DTypeLike | None = None) -> jax.Array:
        """Return the causal mask (sz, sz) with -inf above the diagonal and 0 elsewhere. The default dtype is float32.

        >>> from funcnet import nn
        >>> nn.Transformer.generate_square_subsequent_mask(2)
        Array([[  0., -inf],
               [  0.,   0.]], dtype=float32)
        """
        return jnp.triu(jnp.full((sz, sz), -jnp.inf, dtype or jnp.float32), 1)


class TransformerEncoder(Module):
    """A stack of encoder layers.

    Args:
        encoder_layer: description of one layer. Every layer is a deep copy of this description.
        num_layers: number of layers.
        norm: module that is applied after the last layer, or None.
        enable_nested_tensor, mask_check: accepted for compatibility with torch, but without effect, because JAX has no
            nested tensors.

    Params: the parameters of layers.0, layers.1, … and norm. Each layer has its own initial values.
    Call: src (S, B, D) -> (S, B, D), or any other shape that the layers accept.

    Differs from torch: in torch, all layers start with the same parameter values. In eval, torch's nested tensors set
        the outputs at padded positions to 0. Without nested tensors, only the outputs at the other positions are the
        same as torch's.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
        >>> params, state = net.init(jax.random.key(0))
        >>> net.apply(params, state, jnp.ones((5, 3, 8)))[0].shape
        (5, 3, 8)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerEncoder.html
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ):
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(
        self, src: jax.Array, mask: Mask = None, src_key_padding_mask: Mask = None, is_causal: bool | None = None
    ) -> jax.Array:
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=bool(is_causal), src_key_padding_mask=src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """A stack of decoder layers, each of which attends to the same memory (the output of an encoder).

    Args:
        decoder_layer: description of one layer. Every layer is a deep copy of this description.
        num_layers: number of layers.
        norm: module that is applied after the last layer, or None.

    Params: the parameters of layers.0, layers.1, … and norm. Each layer has its own initial values.
    Call: tgt (T, B, D), memory (S, B, D) -> (T, B, D), or any other shapes that the layers accept.

    Differs from torch: in torch, all layers start with the same parameter values.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> net = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2)
        >>> params, state = net.init(jax.random.key(0))
        >>> net.apply(params, state, jnp.ones((5, 3, 8)), jnp.ones((7, 3, 8)))[0].shape
        (5, 3, 8)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerDecoder.html
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None):
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: jax.Array,
        memory: jax.Array,
        tgt_mask: Mask = None,
        memory_mask: Mask = None,
        tgt_key_padding_mask: Mask = None,
        memory_key_padding_mask: Mask = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> jax.Array:
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)
