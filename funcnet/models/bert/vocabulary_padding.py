"""A word table with a round number of rows: accelerators multiply it faster, and a mesh can divide it."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from funcnet import tree
from funcnet.models.bert.configuration import BertConfig

__all__ = ["pad_vocab", "unpad_vocab"]

Tree = dict[str, Any]

_ROWS = ("word_embeddings.weight", "predictions.bias")  # how names of arrays with a row for each word end


def pad_vocab(params: Tree, config: BertConfig, multiple: int = 64) -> tuple[Tree, BertConfig]:
    """The parameters with rows of zeros after the words, so that the number of rows is a multiple of `multiple`.

    These rows are no words: the head gives them the lowest finite score, so they have no probability, no part in any
    loss, and a gradient of exactly zero. They stay zero in training, also under weight decay. The logits have places
    for them, after `vocab_size`.

    Args:
        params: parameters of any BERT model, or a tree of the same structure, such as gradients or moments.
        config: the model's; padded before or not.
        multiple: at least 1.

    Returns:
        (params, config): make a new model from the config, whose `vocab_padding` is the number of added rows.

    Raises:
        ValueError: `multiple` below 1; a table with another number of rows than the config says.

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
        raise ValueError(f"bert.pad_vocab: multiple is a number of rows; expected at least 1, got {multiple}.")
    return _with_padding(params, config, -config.vocab_size % multiple)


def unpad_vocab(params: Tree, config: BertConfig) -> tuple[Tree, BertConfig]:
    """The parameters without the added rows, as before `pad_vocab`; `save_pretrained` writes these.

    Args:
        params, config: as `pad_vocab` returns them.

    Returns:
        (params, config), whose `vocab_padding` is 0.

    Raises:
        ValueError: a table with another number of rows than the config says.
    """
    return _with_padding(params, config, 0)


def _with_padding(params: Tree, config: BertConfig, padding: int) -> tuple[Tree, BertConfig]:
    rows = config.vocab_size + config.vocab_padding

    def one(name: str, leaf: jax.Array) -> jax.Array:
        if not name.endswith(_ROWS):
            return leaf
        if len(leaf) != rows:
            raise ValueError(
                f"bert.pad_vocab: {name} is not the config's; expected vocab_size + vocab_padding = {rows} rows, got "
                f"{len(leaf)}. Give the config of the model that the parameters belong to."
            )
        words = leaf[: config.vocab_size]
        return jnp.pad(words, [(0, padding), *[(0, 0)] * (words.ndim - 1)])

    return tree.map_with_name(one, params), dataclasses.replace(config, vocab_padding=padding)
