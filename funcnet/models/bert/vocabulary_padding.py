"""A word table with a round number of rows: accelerators multiply it faster, and a mesh can divide it."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from funcnet import tree
from funcnet.models.bert.configuration import BertConfig

__all__ = ["pad_vocab", "unpad_vocab"]

Tree = dict[str, Any]

_ROWS = ("word_embeddings.weight", "predictions.bias")  # what has a row for each word, at the end of its name


def pad_vocab(params: Tree, config: BertConfig, multiple: int = 64) -> tuple[Tree, BertConfig]:
    """The parameters with rows of zeros behind the words, so that their number is a multiple of `multiple`.

    The rows are no words: the head gives them the lowest finite number as score, so that they have no probability, no
    part in any loss, and a gradient of exactly zero; they stay zero in training, also under weight decay. The logits
    have their places, behind `vocab_size`.

    Args:
        params: of any BERT here; or a tree like them, such as gradients or an optimizer's moments.
        config: the model's; padded before or not.
        multiple: of what, at least 1.

    Returns:
        (params, config): make the model anew from the config, whose `vocab_padding` says how many rows there are.

    Raises:
        ValueError: `multiple` below 1; a table that has not as many rows as the config says.

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
    """The parameters of the words alone, as before `pad_vocab`; `save_pretrained` writes these.

    Args:
        params, config: as `pad_vocab` gives them.

    Returns:
        (params, config), whose `vocab_padding` is 0.

    Raises:
        ValueError: a table that has not as many rows as the config says.
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
