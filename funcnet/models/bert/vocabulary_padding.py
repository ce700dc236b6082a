"""Padding of the word table to a round number of rows. Accelerators multiply a table with a round number of rows
faster, and the rows can be divided evenly over a mesh axis.
"""

import dataclasses

import jax
import jax.numpy as jnp

from funcnet import tree
from funcnet.models.bert.configuration import BertConfig
from funcnet.tree import Tree

__all__ = ["pad_vocab", "unpad_vocab"]


_ROWS = ("word_embeddings.weight", "predictions.bias")  # ends of the names of arrays that have one row per word


def pad_vocab(params: Tree, config: BertConfig, multiple: int = 64) -> tuple[Tree, BertConfig]:
    """Add rows of zeros after the words, so that the number of rows is a multiple of `multiple`.

    The added rows do not belong to any word. The head gives the added rows the lowest finite score, so their
    probability and their gradient are exactly zero, and they do not change any loss. The added rows stay zero in
    training, even with weight decay. The logits have entries for the added rows, after the first `vocab_size` entries.

    Args:
        params: parameters of any BERT model, or a tree of the same structure, such as gradients or moments.
        config: config of the model, which may be padded already.
        multiple: number that divides the new number of rows. At least 1.

    Returns:
        (params, config). The `vocab_padding` of the new config is the number of added rows. Make a new model from this
        config.

    Raises:
        ValueError: if `multiple` is below 1, or the number of rows of a table does not match the config.

    Example:
        >>> from funcnet.models import bert
        >>> config = bert.BertConfig.preset("tiny", vocab_size=100)
        >>> params, state = bert.BertForPreTraining(config).init(jax.random.key(0))
        >>> params, config = bert.pad_vocab(params, config)
        >>> config.vocab_size, config.vocab_padding, params["cls"]["predictions"]["bias"].shape
        (100, 28, (128,))
        >>> (words, follows), _ = bert.BertForPreTraining(config).apply(params, state, jnp.array([[2, 17, 3]]))
        >>> jax.nn.softmax(words)[..., 100:].max()
        Array(0., dtype=float32)
    """
    if multiple < 1:
        raise ValueError(f"bert.pad_vocab: multiple is out of range; expected at least 1, got {multiple}.")
    return _with_padding(params, config, -config.vocab_size % multiple)


def unpad_vocab(params: Tree, config: BertConfig) -> tuple[Tree, BertConfig]:
    """Remove the rows that `pad_vocab` added. `save_pretrained` does this too.

    Args:
        params, config: the results of `pad_vocab`.

    Returns:
        (params, config). The `vocab_padding` of this config is 0.

    Raises:
        ValueError: if the number of rows of a table does not match the config.

    Example:
        >>> from funcnet.models import bert
        >>> config = bert.BertConfig.preset("tiny", vocab_size=100)
        >>> params, state = bert.BertForPreTraining(config).init(jax.random.key(0))
        >>> params, config = bert.unpad_vocab(*bert.pad_vocab(params, config))
        >>> config.vocab_padding, params["cls"]["predictions"]["bias"].shape
        (0, (100,))
    """
    return _with_padding(params, config, 0)


def _with_padding(params: Tree, config: BertConfig, padding: int) -> tuple[Tree, BertConfig]:
    rows = config.vocab_size + config.vocab_padding

    def one(name: str, leaf: jax.Array) -> jax.Array:
        if not name.endswith(_ROWS):
            return leaf
        if len(leaf) != rows:
            raise ValueError(
                f"bert.pad_vocab: {name} does not match the config; expected vocab_size + vocab_padding = {rows} rows, "
                f"got {len(leaf)}. Pass the config of the model that the parameters belong to."
            )
        words = leaf[: config.vocab_size]
        return jnp.pad(words, [(0, padding), *[(0, 0)] * (words.ndim - 1)])

    return tree.map_with_name(one, params), dataclasses.replace(config, vocab_padding=padding)
