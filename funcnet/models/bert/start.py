"""Another start for BERT: four heads know from the first step where to look.

From BERT's own start a small model spends most of a run of minutes on the plateau of token frequencies. To leave it, it
must find words that tell of each other, and for that attention must first find positions, which it does slowly: at the
start every head averages over the whole input. Next-sentence prediction waits even longer: what tells a random sentence
from the next one is whether the two share rare words, and no head compares words. Here four heads start with what they
would end up with, and all is trained from there; the architecture and its names stay Hugging Face's.

Letters: V vocabulary, P rows of the position table, D width, K width of a head.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.models.bert.configuration import BertConfig

__all__ = ["quick_start"]

Tree = dict[str, Any]

# Angles a position turns by: mean of cos(f * d) over them is 1 at d = 0 and below 0.45 for 1 <= |d| < 128, so that a
# softmax over it can single out one position. Powers of 1 / 10,000, the usual choice, leave 0.81.
FREQUENCIES = 2.4 / 1.2 ** np.arange(8)
WAVES = 2 * len(FREQUENCIES)
# The reserved dimensions of the hidden state, which words and layers do not write to at the start.
SEGMENT, MATCH, CLS = WAVES, WAVES + 1, WAVES + 2
RESERVED = WAVES + 3

LOOK = 3.0  # of a neighbour: the logit is K**-0.5 * 16 * LOOK**2 at its peak: 18 at K = 64, 10 more than elsewhere
SAME = 2.0  # how much sharper than the random start a word looks for itself


def quick_start(params: Tree, config: BertConfig) -> Tree:
    """The same parameters, made to start where attention already looks at what it needs.

    1. All matrices are scaled from `config.initializer_range` to `hidden_size ** -0.5`, so that a layer passes on what
       it gets at the scale at which it got it (0.02 is right for a width of 2,500).
    2. The first 19 dimensions of the hidden state are reserved: sinusoids of the position, the sign of the segment, a
       place for "same word found there", a flag of `[CLS]`. Words and layers leave them alone; position and token type
       tables are zero elsewhere, so that they do not drown the words.
    3. Head 0 of layer 0 looks at the token before, head 0 of layer 1 at the token after, by the sinusoids.
    4. Head 1 of layer 0 looks for the same word (its keys are its queries) and notes in which segment it stands.
    5. Head 1 of layer 1, asked by `[CLS]`, reads those notes of the second segment: do the two share words?

    Args:
        params: of `BertForPreTraining` or `BertModel`, as `init` made them, layers unstacked.
        config: the model's: at least two layers and two heads, heads 19 wide or more.

    Returns:
        A new tree of the same structure, shapes and dtypes.

    Raises:
        ValueError: fewer or narrower heads, fewer layers; layers stacked for a scan.

    Example:
        >>> from funcnet.models import bert
        >>> config = bert.BertConfig.preset("tiny", vocab_size=100)
        >>> params, state = bert.BertForPreTraining(config).init(jax.random.key(0))
        >>> params = quick_start(params, config)
        >>> params["bert"]["embeddings"]["word_embeddings"]["weight"][:, :19].any()
        Array(False, dtype=bool)

    Reference: no paper; found by trial on presidential messages, see docs/design.md.
    """
    heads, width = config.num_attention_heads, config.hidden_size // config.num_attention_heads
    if heads < 2 or width < RESERVED or config.num_hidden_layers < 2:
        raise ValueError(
            "quick_start: four heads of two layers are set; expected at least 2 layers and 2 heads of width "
            f"{RESERVED} or more, got {config.num_hidden_layers} layers and {heads} heads of width {width}. "
            "Start as BERT does."
        )
    std = config.hidden_size**-0.5
    params = jax.tree.map(lambda a: a * (std / config.initializer_range) if a.ndim > 1 else a, params)
    encoder = params.get("bert", params)
    layers = encoder["encoder"]["layer"]
    if "0" not in layers:
        raise ValueError(
            f"quick_start: expected one subtree a layer ('0', '1', …), got {', '.join(layers)!r}. "
            "Unstack the parameters first: net.unstack(params)."
        )
    _reserve(encoder, std)
    first, second = (layers[i]["attention"] for i in ("0", "1"))
    _look(first["self"], slice(0, width), -1)
    _look(second["self"], slice(0, width), 1)
    _find_same_word(first, slice(width, 2 * width))
    _read_by_cls(second["self"], slice(width, 2 * width))
    return params


def _reserve(encoder: Tree, std: float) -> None:
    """Fills the reserved dimensions in the tables, and clears them everywhere else."""
    tables = encoder["embeddings"]
    words, positions, types = (tables[f"{n}_embeddings"] for n in ("word", "position", "token_type"))
    words["weight"] = words["weight"].at[:, :RESERVED].set(0)
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
    """Keys are queries, of words alone; the head's first value is the segment's sign, and goes to MATCH."""
    inner, out = attention["self"], attention["output"]["dense"]
    query = inner["query"]["weight"]
    query = query.at[head].set(SAME * query[head].at[:, :RESERVED].set(0))
    inner["query"]["weight"] = query
    inner["key"]["weight"] = inner["key"]["weight"].at[head].set(query[head])
    inner["value"]["weight"] = inner["value"]["weight"].at[head.start].set(0).at[head.start, SEGMENT].set(1)
    out["weight"] = out["weight"].at[:, head.start].set(0).at[MATCH, head.start].set(1)


def _read_by_cls(attention: Tree, head: slice) -> None:
    """`[CLS]` attends to segment B and takes what MATCH holds there; the others have no query and average."""
    for name, place, gain in (("query", CLS, 2), ("key", SEGMENT, -2)):
        weight = attention[name]["weight"].at[head].set(0)
        attention[name]["weight"] = weight.at[head.start, place].set(gain)
    value = attention["value"]["weight"].at[head.start].set(0)
    attention["value"]["weight"] = value.at[head.start, MATCH].set(2)
