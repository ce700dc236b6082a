"""The embeddings of BERT. Letters: `B batch, T sequence, D width`."""

import jax
import jax.numpy as jnp

from funcnet import nn
from funcnet.models.bert.configuration import BertConfig
from funcnet.nn.module.sharding import rules

__all__ = ["BertEmbeddings"]


class BertEmbeddings(nn.Module):
    """LayerNorm(word + position + token type), then dropout. With relative positions, the position table exists, as in
    transformers' files, but is not used.

    Call: input_ids (B, T) integers, token_type_ids (B, T) or None (all zero), position_ids (B, T) or (T,) or None
    (0, 1, …) -> (B, T, D).
    """

    sharding_rules = rules({"position_embeddings.weight": (), "token_type_embeddings.weight": ()})

    def __init__(self, config: BertConfig):
        super().__init__()
        self.word_embeddings = nn.Embedding(
            config.vocab_size + config.vocab_padding, config.hidden_size, padding_idx=config.pad_token_id
        )
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.longest = config.max_position_embeddings
        self.absolute = config.position_embedding_type == "absolute"

    def sharding_sizes(self) -> dict[str, tuple[str, int]]:
        return {"rows of the word table": ("tensor", self.word_embeddings.num_embeddings)}

    def forward(
        self,
        input_ids: jax.Array,
        token_type_ids: jax.Array | None = None,
        position_ids: jax.Array | None = None,
    ) -> jax.Array:
        if input_ids.ndim != 2:
            raise ValueError(
                f"BertEmbeddings: input_ids has the wrong rank; expected (batch, sequence), got {input_ids.shape}. "
                "Add the batch dimension."
            )
        length = input_ids.shape[1]
        known = isinstance(length, int)  # `jax.export` allows a symbolic length; then positions past the table give NaN
        if known and length > self.longest and (position_ids is None or not self.absolute):
            raise ValueError(
                f"BertEmbeddings: the sequence is longer than the position table; expected at most {self.longest} "
                f"tokens, got {length}. Truncate the sequence, or raise max_position_embeddings and train the new rows."
            )
        types = jnp.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        vectors = self.word_embeddings(input_ids) + self.token_type_embeddings(types)
        if self.absolute:
            vectors = vectors + self.position_embeddings(jnp.arange(length) if position_ids is None else position_ids)
        return self.dropout(self.LayerNorm(vectors))
