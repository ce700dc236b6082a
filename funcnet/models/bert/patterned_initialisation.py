"""An alternative initialisation of BERT: four attention heads start with patterns that training would find only slowly.

With BERT's usual initialisation, a small model spends most of a short run on a plateau where it has learnt only the
token frequencies. To leave the plateau, the model must find words that predict each other. To find them, attention must
first learn positions. This is slow, because at the start every head averages over the whole input. Next-sentence
prediction takes even longer to learn: two consecutive sentences share more rare words than two random ones, but no head
compares words at the start. In this initialisation, four heads start with the patterns that long training would give
them. All parameters are then trained as usual. The architecture and the names are still those of Hugging Face. The
parameters that start with these patterns need low learning rates (`QUICK_START_RATES`). At the learning rate that the
word embeddings need, the patterns are overwritten before the other parameters have learnt to use them.

Letters: V vocabulary, P rows of the position table, D width, K width of a head.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from funcnet.models.bert.configuration import BertConfig
from funcnet.tree import Tree

__all__ = ["QUICK_START_RATES", "quick_start"]


# Angles f per position. For a distance d, the mean of cos(f * d) over all f is 1 at d = 0 and below 0.45 for
# 1 <= |d| < 128, so that a softmax can single out one position. With the usual powers of 1 / 10,000, it reaches 0.81.
FREQUENCIES = 2.4 / 1.2 ** np.arange(8)
WAVES = 2 * len(FREQUENCIES)
# The reserved dimensions of the hidden state. At first, layers do not write to them, and words write only to RARITY.
SEGMENT, MATCH, CLS, RARITY = WAVES, WAVES + 1, WAVES + 2, WAVES + 3
RESERVED = WAVES + 4

# Scale of the heads that attend to a neighbour. Their logit peaks at K**-0.5 * 16 * LOOK**2, which is 18 at K = 64, and
# 10 above the logits of other positions.
LOOK = 3.0
SAME = 3.0  # factor of the random weights of the head that searches for the same word
OTHER = 2.4  # at K = 64, a word prefers its copy in the other segment to itself by exp(OTHER**2)

QUICK_START_RATES = {
    "**.attention": 0.1,
    "**.position_embeddings": 0.1,
    "**.token_type_embeddings": 0.1,
    "**.pooler": 0.1,
    "**.seq_relationship": 0.1,
}
"""Factors of the learning rate of a `BertForPreTraining`, for `optim.bert_adamw(…, rates=QUICK_START_RATES)`."""


def quick_start(params: Tree, config: BertConfig, log_frequencies: ArrayLike | None = None) -> Tree:
    """Return a copy of the parameters, changed so that attention starts with useful patterns.

    1. All matrices are scaled from `config.initializer_range` to `hidden_size ** -0.5`, so that the output of a layer
       has the scale of its input. (The usual 0.02 has this effect at a width of 2,500.)
    2. The first 20 dimensions of the hidden state are reserved. They contain sinusoids of the position, the sign of the
       segment, the segment that contains the same word, a flag of `[CLS]`, and the rarity of the word. Apart from the
       heads described below, no layer writes to these dimensions, and the word table sets only the last of them. The
       position and token type tables are zero in all other dimensions, so that they do not outweigh the words.
    3. By means of the sinusoids, head 0 of layer 0 attends to the previous token, and head 0 of layer 1 to the next
       token.
    4. Head 1 of layer 0 searches for the same word, first in the other segment, and records the segment that contains
       it. Its key matrix is equal to its query matrix.
    5. At `[CLS]`, head 1 of layer 1 averages these records over the second segment, with more weight on rare words.
       These records show whether the two segments share words. The pooler and the classifier learn to use this
       information.
    6. The output bias of each word is the logarithm of its frequency, which a model would otherwise learn first.

    Args:
        params: parameters of `BertForPreTraining` or `BertModel` from `init`, with unstacked layers.
        config: config of the model. It must have at least two layers and two heads, and heads of width 20 or more.
        log_frequencies: (V,) natural logarithms of the frequencies of the tokens. Tokens with the lowest frequency are
            treated as special tokens that do not occur in the text. If it is None, all words are equally rare, and the
            bias of the words is not changed.

    Returns:
        A new tree of the same structure, shapes and dtypes.

    Raises:
        ValueError: if there are too few layers or heads, the heads are too narrow, the layers are stacked for a scan,
            or the number of frequencies is not V.

    Example:
        >>> from funcnet.models import bert
        >>> config = bert.BertConfig.preset("tiny", vocab_size=100)
        >>> params, state = bert.BertForPreTraining(config).init(jax.random.key(0))
        >>> params = quick_start(params, config)
        >>> params["bert"]["embeddings"]["word_embeddings"]["weight"][:, :20].any()
        Array(False, dtype=bool)

    Reference: no paper; found by experiments on presidential messages, see docs/decisions/.
    """
    heads, width = config.num_attention_heads, config.hidden_size // config.num_attention_heads
    if heads < 2 or width < RESERVED or config.num_hidden_layers < 2:
        raise ValueError(
            "quick_start: the model is too small; expected at least 2 layers and 2 heads of width "
            f"{RESERVED} or more, got {config.num_hidden_layers} layers and {heads} heads of width {width}. "
            "Use BERT's usual initialisation for this model."
        )
    std = config.hidden_size**-0.5
    params = jax.tree.map(lambda a: a * (std / config.initializer_range) if a.ndim > 1 else a, params)
    encoder = params.get("bert", params)
    layers = encoder["encoder"]["layer"]
    if "0" not in layers:
        raise ValueError(
            f"quick_start: the layers are stacked; expected one subtree per layer ('0', '1', …), got "
            f"{', '.join(layers)!r}. Unstack the parameters first: `net.unstack(params)`."
        )
    if log_frequencies is not None:
        log_frequencies = np.asarray(log_frequencies)
        if log_frequencies.shape != (config.vocab_size,):
            raise ValueError(
                f"quick_start: log_frequencies has the wrong shape; expected ({config.vocab_size},), one entry per "
                f"token, got {log_frequencies.shape}. Count the tokens with the vocabulary of the model."
            )
        if "cls" in params:
            predictions = params["cls"]["predictions"]
            predictions["bias"] = jnp.asarray(log_frequencies, predictions["bias"].dtype)
    _reserve(encoder, std, _rarity(log_frequencies))
    first, second = (layers[i]["attention"] for i in ("0", "1"))
    _look(first["self"], slice(0, width), -1)
    _look(second["self"], slice(0, width), 1)
    _find_same_word(first, slice(width, 2 * width))
    _read_by_cls(second, slice(width, 2 * width))
    return params


def _rarity(log_frequencies: np.ndarray | None) -> np.ndarray | float:
    """Return the rarity (V,) of each word: -log(frequency), standardised to mean 0 and variance 1 over a text. Special
    tokens get the value of the most frequent word.
    """
    if log_frequencies is None:
        return 0.0
    # By NumPy, because JAX's sums have other bits where an array is divided among devices (`ShardedInit`).
    rarity = -log_frequencies.astype(np.float64)
    share = np.exp(-rarity)
    rarity = np.where(rarity == rarity.max(), rarity.min(), rarity)
    share = share / share.sum()
    mean = np.sum(share * rarity)
    return (rarity - mean) / np.sqrt(np.maximum(np.sum(share * (rarity - mean) ** 2), 1e-6))


def _reserve(encoder: Tree, std: float, rarity: np.ndarray | float) -> None:
    """Fill the reserved dimensions of the embedding tables, and set the output weights of all layers to zero in these
    dimensions.
    """
    tables = encoder["embeddings"]
    words, positions, types = (tables[f"{n}_embeddings"] for n in ("word", "position", "token_type"))
    rare = jnp.asarray(std * rarity, words["weight"].dtype)
    words["weight"] = words["weight"].at[:, :RESERVED].set(0).at[:, RARITY].set(rare)
    positions["weight"] = _position_table(positions["weight"], std)
    empty = jnp.zeros_like(types["weight"])
    signs = jnp.asarray([2 * std, -2 * std][: len(empty)], empty.dtype)  # segment A, segment B
    types["weight"] = empty.at[: len(signs), SEGMENT].set(signs)
    for layer in encoder["encoder"]["layer"].values():
        for dense in (layer["attention"]["output"]["dense"], layer["output"]["dense"]):
            dense["weight"] = dense["weight"].at[:RESERVED].set(0)


def _position_table(table: jax.Array, std: float) -> jax.Array:
    """Return the position table (P, D): pairs (sin, cos) with the standard deviation of the word table. Row 0, the
    position of `[CLS]`, has only a flag and no sinusoids.
    """
    angles = np.arange(len(table))[:, None] * FREQUENCIES
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(table), -1)
    waves[0] = 0
    filled = jnp.zeros_like(table).at[:, :WAVES].set(jnp.asarray(math.sqrt(2) * std * waves, table.dtype))
    return filled.at[0, CLS].set(4 * std)


def _look(attention: Tree, head: slice, offset: int) -> None:
    """Let a head attend to the token `offset` positions away: its queries are the sinusoids shifted by `offset`, and
    its keys are the sinusoids.
    """
    for name, turned in (("query", _turn(offset)), ("key", np.eye(WAVES))):
        weight = attention[name]["weight"].at[head].set(0)
        block = jnp.asarray(LOOK * turned, weight.dtype)
        attention[name]["weight"] = weight.at[head.start : head.start + WAVES, :WAVES].set(block)


def _turn(offset: int) -> np.ndarray:
    """Return the matrix (16, 16) that maps the sinusoids of position p to those of position p + offset."""
    matrix = np.zeros((WAVES, WAVES))
    for pair, angle in enumerate(offset * FREQUENCIES):
        block = slice(2 * pair, 2 * pair + 2)
        matrix[block, block] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return matrix


def _find_same_word(attention: Tree, head: slice) -> None:
    """Set the keys and the queries of the head to the same random projection of the words. Keys and queries differ only
    in the first dimension, which makes a word attend to the other segment first. The first value of the head is the
    sign of the segment, and the output layer writes it to the reserved dimension MATCH.
    """
    inner, out = attention["self"], attention["output"]["dense"]
    same = SAME * inner["query"]["weight"][head].at[:, :RESERVED].set(0).at[0].set(0)
    for name, sign in (("query", -1), ("key", 1)):
        weight = inner[name]["weight"].at[head].set(same)
        inner[name]["weight"] = weight.at[head.start, SEGMENT].set(sign * OTHER)
    inner["value"]["weight"] = inner["value"]["weight"].at[head.start].set(0).at[head.start, SEGMENT].set(1)
    out["weight"] = out["weight"].at[:, head.start].set(0).at[MATCH, head.start].set(1)


def _read_by_cls(attention: Tree, head: slice) -> None:
    """Let `[CLS]` attend to segment B, with more weight on rare words, and read the reserved dimension MATCH. The
    queries of other tokens are zero.

    In segment B, MATCH is 1.2 for a shared word and -1.3 for any other word. Most words are not shared, so the mean is
    near -1.3. The bias of 1 removes most of this mean from the output at `[CLS]`.
    """
    inner, out = attention["self"], attention["output"]["dense"]
    asked, rare = head.start, head.start + 1
    query, key = (inner[name]["weight"].at[head].set(0) for name in ("query", "key"))
    inner["query"]["weight"] = query.at[asked, CLS].set(2).at[rare, CLS].set(2)
    inner["key"]["weight"] = key.at[asked, SEGMENT].set(-6).at[rare, RARITY].set(3)
    value = inner["value"]
    value["weight"] = value["weight"].at[asked].set(0).at[asked, MATCH].set(1)
    value["bias"] = value["bias"].at[asked].set(1)
    out["weight"] = out["weight"].at[:, asked].set(0).at[MATCH, asked].set(8)
