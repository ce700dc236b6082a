"""Another start for BERT: four attention heads start with patterns that training would find only slowly.

From BERT's own start a small model spends most of a short run on the plateau of token frequencies. To leave it, the
model must find words that predict each other. For that, attention must first find positions, which is slow, because at
the start every head averages over the whole input. Next-sentence prediction waits even longer: a random sentence
differs from the next one in the rare words that the two sentences share, and no head compares words. Here four heads
start with what they would end with, and everything is trained from there. The architecture and its names stay Hugging
Face's. The parts that are set here must learn slowly (`QUICK_START_RATES`): at the rate that words need, they are
overwritten before the rest has learnt to use them.

Letters: V vocabulary, P rows of the position table, D width, K width of a head.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from funcnet.models.bert.configuration import BertConfig

__all__ = ["QUICK_START_RATES", "quick_start"]

Tree = dict[str, Any]

# Angles per position: the mean of cos(f * d) over them is 1 at d = 0 and below 0.45 for 1 <= |d| < 128, so that a
# softmax can single out one position. With powers of 1 / 10,000, the usual choice, it is up to 0.81.
FREQUENCIES = 2.4 / 1.2 ** np.arange(8)
WAVES = 2 * len(FREQUENCIES)
# The reserved dimensions of the hidden state, which layers do not write to at the start, and of words only RARITY.
SEGMENT, MATCH, CLS, RARITY = WAVES, WAVES + 1, WAVES + 2, WAVES + 3
RESERVED = WAVES + 4

LOOK = 3.0  # of a neighbour: the logit is K**-0.5 * 16 * LOOK**2 at its peak: 18 at K = 64, 10 more than elsewhere
SAME = 3.0  # how much sharper than the random start a word looks for itself
OTHER = 2.4  # by exp(OTHER**2), at K = 64, a word prefers its copy in the other segment to itself

QUICK_START_RATES = {
    "**.attention": 0.1,
    "**.position_embeddings": 0.1,
    "**.token_type_embeddings": 0.1,
    "**.pooler": 0.1,
    "**.seq_relationship": 0.1,
}
"""Of the learning rate, for `optim.bert_adamw(…, rates=QUICK_START_RATES)` of a `BertForPreTraining`."""


def quick_start(params: Tree, config: BertConfig, log_frequencies: ArrayLike | None = None) -> Tree:
    """The same parameters, changed so that attention starts with useful patterns.

    1. All matrices are scaled from `config.initializer_range` to `hidden_size ** -0.5`, so that a layer keeps the
       scale of its input (0.02 is right for a width of 2,500).
    2. The first 20 dimensions of the hidden state are reserved: sinusoids of the position, the sign of the segment, a
       place for "same word found there", a flag of `[CLS]`, how rare the word is. Words (except for
       the last one) and layers do not write to them; position and token type tables are zero elsewhere, so that they do
       not drown the words.
    3. Head 0 of layer 0 attends to the token before, head 0 of layer 1 to the token after, by the sinusoids.
    4. Head 1 of layer 0 searches for the same word (its keys are its queries), first in the other segment, and records
       the segment where it finds it.
    5. Head 1 of layer 1 collects these records of the second segment at `[CLS]`, rare words first: do the two segments
       share words? The pooler and the classifier learn what follows from that.
    6. The words' bias is their log-frequency, which a model without context would learn first.

    Args:
        params: of `BertForPreTraining` or `BertModel`, as `init` made them, layers unstacked.
        config: the model's: at least two layers and two heads, heads 20 wide or more.
        log_frequencies: (V,) natural logarithms of the frequency of each token; the least frequent tokens are taken
            for markers that do not occur. None: all words are equally rare, and the words' bias stays.

    Returns:
        A new tree of the same structure, shapes and dtypes.

    Raises:
        ValueError: fewer or narrower heads, fewer layers; layers stacked for a scan; another number of frequencies.

    Example:
        >>> from funcnet.models import bert
        >>> config = bert.BertConfig.preset("tiny", vocab_size=100)
        >>> params, state = bert.BertForPreTraining(config).init(jax.random.key(0))
        >>> params = quick_start(params, config)
        >>> params["bert"]["embeddings"]["word_embeddings"]["weight"][:, :20].any()
        Array(False, dtype=bool)

    Reference: no paper; found by trial on presidential messages, see docs/decisions/.
    """
    heads, width = config.num_attention_heads, config.hidden_size // config.num_attention_heads
    if heads < 2 or width < RESERVED or config.num_hidden_layers < 2:
        raise ValueError(
            "quick_start: four heads of two layers are set; expected at least 2 layers and 2 heads of width "
            f"{RESERVED} or more, got {config.num_hidden_layers} layers and {heads} heads of width {width}. "
            "Use BERT's own start for this model."
        )
    std = config.hidden_size**-0.5
    params = jax.tree.map(lambda a: a * (std / config.initializer_range) if a.ndim > 1 else a, params)
    encoder = params.get("bert", params)
    layers = encoder["encoder"]["layer"]
    if "0" not in layers:
        raise ValueError(
            f"quick_start: expected one subtree per layer ('0', '1', …), got {', '.join(layers)!r}. "
            "Unstack the parameters first: net.unstack(params)."
        )
    if log_frequencies is not None:
        log_frequencies = jnp.asarray(log_frequencies)
        if log_frequencies.shape != (config.vocab_size,):
            raise ValueError(
                f"quick_start: log_frequencies; expected shape ({config.vocab_size},), one a word of the vocabulary, "
                f"got {log_frequencies.shape}. Count the tokens of the model's own vocabulary."
            )
        if "cls" in params:
            predictions = params["cls"]["predictions"]
            predictions["bias"] = log_frequencies.astype(predictions["bias"].dtype)
    _reserve(encoder, std, _rarity(log_frequencies))
    first, second = (layers[i]["attention"] for i in ("0", "1"))
    _look(first["self"], slice(0, width), -1)
    _look(second["self"], slice(0, width), 1)
    _find_same_word(first, slice(width, 2 * width))
    _read_by_cls(second, slice(width, 2 * width))
    return params


def _rarity(log_frequencies: jax.Array | None) -> jax.Array | float:
    """(V,): -log of the frequency, mean 0 and variance 1 over a text; of markers as of the most frequent word."""
    if log_frequencies is None:
        return 0.0
    rarity = -log_frequencies
    rarity = jnp.where(rarity == rarity.max(), rarity.min(), rarity)
    share = jnp.exp(log_frequencies)
    share = share / share.sum()
    mean = jnp.sum(share * rarity)
    return (rarity - mean) / jnp.sqrt(jnp.maximum(jnp.sum(share * (rarity - mean) ** 2), 1e-6))


def _reserve(encoder: Tree, std: float, rarity: jax.Array | float) -> None:
    """Fills the reserved dimensions in the tables, and clears them everywhere else."""
    tables = encoder["embeddings"]
    words, positions, types = (tables[f"{n}_embeddings"] for n in ("word", "position", "token_type"))
    words["weight"] = words["weight"].at[:, :RESERVED].set(0).at[:, RARITY].set(std * rarity)
    positions["weight"] = _position_table(positions["weight"], std)
    empty = jnp.zeros_like(types["weight"])
    signs = jnp.asarray([2 * std, -2 * std][: len(empty)], empty.dtype)  # segment A, segment B
    types["weight"] = empty.at[: len(signs), SEGMENT].set(signs)
    for layer in encoder["encoder"]["layer"].values():
        for dense in (layer["attention"]["output"]["dense"], layer["output"]["dense"]):
            dense["weight"] = dense["weight"].at[:RESERVED].set(0)


def _position_table(table: jax.Array, std: float) -> jax.Array:
    """(P, D): pairs (sin, cos) with the standard deviation of the words'; row 0, `[CLS]`, only its flag."""
    angles = np.arange(len(table))[:, None] * FREQUENCIES
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(table), -1)
    waves[0] = 0
    filled = jnp.zeros_like(table).at[:, :WAVES].set(jnp.asarray(math.sqrt(2) * std * waves, table.dtype))
    return filled.at[0, CLS].set(4 * std)


def _look(attention: Tree, head: slice, offset: int) -> None:
    """The head's queries are the sinusoids turned by `offset` positions, its keys the sinusoids themselves."""
    for name, turned in (("query", _turn(offset)), ("key", np.eye(WAVES))):
        weight = attention[name]["weight"].at[head].set(0)
        block = jnp.asarray(LOOK * turned, weight.dtype)
        attention[name]["weight"] = weight.at[head.start : head.start + WAVES, :WAVES].set(block)


def _turn(offset: int) -> np.ndarray:
    """(16, 16) the matrix that takes the sinusoids of position p to those of p + offset."""
    matrix = np.zeros((WAVES, WAVES))
    for pair, angle in enumerate(offset * FREQUENCIES):
        block = slice(2 * pair, 2 * pair + 2)
        matrix[block, block] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return matrix


def _find_same_word(attention: Tree, head: slice) -> None:
    """Keys are queries, of words alone, but for the first, which prefers the other segment. The head's first value is
    the sign of the segment, and goes to MATCH.
    """
    inner, out = attention["self"], attention["output"]["dense"]
    same = SAME * inner["query"]["weight"][head].at[:, :RESERVED].set(0).at[0].set(0)
    for name, sign in (("query", -1), ("key", 1)):
        weight = inner[name]["weight"].at[head].set(same)
        inner[name]["weight"] = weight.at[head.start, SEGMENT].set(sign * OTHER)
    inner["value"]["weight"] = inner["value"]["weight"].at[head.start].set(0).at[head.start, SEGMENT].set(1)
    out["weight"] = out["weight"].at[:, head.start].set(0).at[MATCH, head.start].set(1)


def _read_by_cls(attention: Tree, head: slice) -> None:
    """`[CLS]` attends to segment B, rare words first, and takes what MATCH holds there; others have no query.

    There MATCH is 1.2 for a shared word and -1.3 for another (most are); 1 is added, to leave `[CLS]` no constant part.
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
