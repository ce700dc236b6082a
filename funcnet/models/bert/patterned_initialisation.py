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

ALL = slice(None)

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
    words["weight"] = _written(_written(words["weight"], 0, ALL, slice(RESERVED)), rare[..., None], ALL, _at(RARITY))
    positions["weight"] = _position_table(positions["weight"], std)
    empty = jnp.zeros_like(types["weight"])
    signs = jnp.asarray([2 * std, -2 * std][: len(empty)], empty.dtype)  # segment A, segment B
    types["weight"] = _written(empty, signs[:, None], slice(len(signs)), _at(SEGMENT))
    for layer in encoder["encoder"]["layer"].values():
        for dense in (layer["attention"]["output"]["dense"], layer["output"]["dense"]):
            dense["weight"] = _written(dense["weight"], 0, slice(RESERVED), ALL)


def _position_table(table: jax.Array, std: float) -> jax.Array:
    """Return the position table (P, D): pairs (sin, cos) with the standard deviation of the word table. Row 0, the
    position of `[CLS]`, has only a flag and no sinusoids.
    """
    angles = np.arange(len(table))[:, None] * FREQUENCIES
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(table), -1)
    waves[0] = 0
    filled = _written(jnp.zeros_like(table), math.sqrt(2) * std * waves, ALL, slice(WAVES))
    return _written(filled, 4 * std, _at(0), _at(CLS))


def _look(attention: Tree, head: slice, offset: int) -> None:
    """Let a head attend to the token `offset` positions away: its queries are the sinusoids shifted by `offset`, and
    its keys are the sinusoids.
    """
    for name, turned in (("query", _turn(offset)), ("key", np.eye(WAVES))):
        weight = _written(attention[name]["weight"], 0, head, ALL)
        rows = slice(head.start, head.start + WAVES)
        attention[name]["weight"] = _written(weight, LOOK * turned, rows, slice(WAVES))


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
    first = _at(head.start)
    same = _written(_written(SAME * inner["query"]["weight"], 0, ALL, slice(RESERVED)), 0, first, ALL)
    for name, sign in (("query", -1), ("key", 1)):
        weight = jnp.where(_within(same.shape, head, ALL), same, inner[name]["weight"])
        inner[name]["weight"] = _written(weight, sign * OTHER, first, _at(SEGMENT))
    inner["value"]["weight"] = _written(_written(inner["value"]["weight"], 0, first, ALL), 1, first, _at(SEGMENT))
    out["weight"] = _written(_written(out["weight"], 0, ALL, first), 1, _at(MATCH), first)


def _read_by_cls(attention: Tree, head: slice) -> None:
    """Let `[CLS]` attend to segment B, with more weight on rare words, and read the reserved dimension MATCH. The
    queries of other tokens are zero.

    In segment B, MATCH is 1.2 for a shared word and -1.3 for any other word. Most words are not shared, so the mean is
    near -1.3. The bias of 1 removes most of this mean from the output at `[CLS]`.
    """
    inner, out = attention["self"], attention["output"]["dense"]
    asked, rare = _at(head.start), _at(head.start + 1)
    query, key = (_written(inner[name]["weight"], 0, head, ALL) for name in ("query", "key"))
    inner["query"]["weight"] = _written(query, 2, slice(asked.start, rare.stop), _at(CLS))
    inner["key"]["weight"] = _written(_written(key, -6, asked, _at(SEGMENT)), 3, rare, _at(RARITY))
    value = inner["value"]
    value["weight"] = _written(_written(value["weight"], 0, asked, ALL), 1, asked, _at(MATCH))
    value["bias"] = _written(value["bias"], 1, asked)
    out["weight"] = _written(_written(out["weight"], 0, ALL, asked), 8, _at(MATCH), asked)


def _at(index: int) -> slice:
    return slice(index, index + 1)


def _within(shape: tuple[int, ...], *region: slice) -> jax.Array:
    """Return a mask of a shape that is True in a region, which is given by one slice per dimension."""
    inside = jnp.ones(shape, bool)
    for axis, part in enumerate(region):
        start, stop, _ = part.indices(shape[axis])
        position = jax.lax.broadcasted_iota(jnp.int32, shape, axis)
        inside &= (start <= position) & (position < stop)
    return inside


def _written(array: jax.Array, values: ArrayLike, *region: slice) -> jax.Array:
    """Return a copy of an array with values, a scalar or an array, written to a region.

    For `.at[region].set`, XLA would first gather a sharded array on each device (`ShardedInit`).
    """
    values = jnp.asarray(values, array.dtype)
    if values.ndim:
        bounds = [part.indices(size) for part, size in zip(region, array.shape, strict=True)]
        values = jnp.broadcast_to(values, [stop - start for start, stop, _ in bounds])
        values = jnp.pad(values, [(a, size - b) for (a, b, _), size in zip(bounds, array.shape, strict=True)])
    return jnp.where(_within(array.shape, *region), values, array)
