"""Another start for BERT: two heads look at the neighbours from the first step on.

From BERT's own start a small model spends most of a run of minutes on the plateau of token frequencies. To leave it, it
must find words that tell of each other, and for that attention must first find positions, which it does slowly: at the
start every head averages over the whole input. Here the first layer is given what it ends up with anyway, one head
that reads the token before and one that reads the token after, and only that: everything is trained from there, the
architecture and its names stay Hugging Face's.

Letters: V vocabulary, P rows of the position table, D width, K width of a head.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.models.bert.configuration import BertConfig

__all__ = ["start_at_neighbours"]

Tree = dict[str, Any]

# Angles a position turns by: mean of cos(f * d) over them is 1 at d = 0 and below 0.45 for 1 <= |d| < 128, so that a
# softmax over it can single out one position. Powers of 1 / 10,000, the usual choice, leave 0.81.
FREQUENCIES = 2.4 / 1.2 ** np.arange(8)
SHARPNESS = 3.0  # a head's logit is K**-0.5 * 2 * 8 * SHARPNESS**2 at its peak: 18 at K = 64, 10 more than elsewhere


def start_at_neighbours(params: Tree, config: BertConfig) -> Tree:
    """The same parameters, made to start where attention already sees neighbouring tokens.

    1. All matrices are scaled from `config.initializer_range` to `hidden_size ** -0.5`, so that a layer passes on what
       it gets at the scale at which it got it (0.02 is right for a width of 2,500).
    2. The first 16 dimensions of the hidden state are kept for the position: sinusoids in the position table, zeros in
       the word and token type tables and in what the layers write into the hidden state.
    3. The first two heads of layer 0 ask in these dimensions alone: queries are the sinusoids turned by one position
       back (head 0) or forward (head 1), keys the sinusoids themselves. `[CLS]`, at position 0, has no sinusoid and so
       reads the whole input.

    Args:
        params: of `BertForPreTraining` or `BertModel`, as `init` made them, layers unstacked.
        config: the model's. Its heads are at least 16 wide, and two or more.

    Returns:
        A new tree of the same structure, shapes and dtypes.

    Raises:
        ValueError: fewer than two heads, or heads narrower than 16; layers stacked for a scan.

    Example:
        >>> from funcnet.models import bert
        >>> config = bert.BertConfig.preset("tiny", vocab_size=100)
        >>> params, state = bert.BertForPreTraining(config).init(jax.random.key(0))
        >>> params = start_at_neighbours(params, config)
        >>> params["bert"]["embeddings"]["word_embeddings"]["weight"][:, :16].any()
        Array(False, dtype=bool)
    """
    kept, head = 2 * len(FREQUENCIES), config.hidden_size // config.num_attention_heads
    if config.num_attention_heads < 2 or head < kept:
        raise ValueError(
            f"start_at_neighbours: two heads ask for positions; expected at least 2 heads of width {kept} or more, got "
            f"{config.num_attention_heads} of width {head}. Start as BERT does."
        )
    std = config.hidden_size**-0.5
    params = jax.tree.map(lambda a: a * (std / config.initializer_range) if a.ndim > 1 else a, params)
    encoder = params.get("bert", params)
    layers = encoder["encoder"]["layer"]
    if "0" not in layers:
        raise ValueError(
            f"start_at_neighbours: expected one subtree a layer ('0', '1', …), got {', '.join(layers)!r}. "
            "Unstack the parameters first: net.unstack(params)."
        )

    tables = encoder["embeddings"]
    for name in ("word_embeddings", "token_type_embeddings"):
        tables[name]["weight"] = tables[name]["weight"].at[:, :kept].set(0)
    positions = tables["position_embeddings"]["weight"]
    tables["position_embeddings"]["weight"] = positions.at[:, :kept].set(_sinusoids(positions, std))
    for layer in layers.values():
        for dense in (layer["attention"]["output"]["dense"], layer["output"]["dense"]):
            dense["weight"] = dense["weight"].at[:kept].set(0)

    first = layers["0"]["attention"]["self"]
    for index, offset in enumerate((-1, 1)):
        rows = slice(index * head, (index + 1) * head)
        for name, turned in (("query", _turn(offset)), ("key", np.eye(kept))):
            weight = first[name]["weight"].at[rows].set(0)
            block = jnp.asarray(SHARPNESS * turned, weight.dtype)
            first[name]["weight"] = weight.at[rows.start : rows.start + kept, :kept].set(block)
    return params


def _sinusoids(table: jax.Array, std: float) -> jax.Array:
    """(P, 16) pairs (sin, cos) for the table's rows, with the standard deviation of the words'; row 0 zeros."""
    angles = np.arange(len(table))[:, None] * FREQUENCIES
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(table), -1)
    waves[0] = 0
    return jnp.asarray(math.sqrt(2) * std * waves, table.dtype)


def _turn(offset: int) -> np.ndarray:
    """(16, 16) the matrix that takes the sinusoids of position p to those of p + offset."""
    matrix = np.zeros((2 * len(FREQUENCIES),) * 2)
    for pair, angle in enumerate(offset * FREQUENCIES):
        block = slice(2 * pair, 2 * pair + 2)
        matrix[block, block] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return matrix
