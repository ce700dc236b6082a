"""Guessing masked words: `inference(directory)` gives a function from text to guesses. `T sequence, S slots`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import text
from funcnet.models.bert.modeling import BertForPreTraining
from funcnet.models.bert.pretrained import from_pretrained

__all__ = ["Guess", "inference"]

_SHORTEST, _SLOTS = 16, 8  # the first bucket of lengths; how many masks one call of the compiled function answers


class Guess(NamedTuple):
    """A word for a masked place.

    Attributes:
        token: as in the vocabulary; `##` begins what continues a word.
        probability: the model's, among all words.
    """

    token: str
    probability: float


def inference(path: str | Path, guesses: int = 5) -> Callable[[str], list[list[Guess]]]:
    """A function that guesses the words behind `[MASK]`, with the model in `path` behind it.

    The weights are put on the device once. Texts are padded to 16, 32, 64, … tokens, so that at most one program is
    compiled for each of those lengths, whatever the texts and however many masks they hold.

    Args:
        path: a directory as `funcnet pretrain` or `save_pretrained` with `text.save_tokenizer` write it.
        guesses: how many for each mask.

    Returns:
        A function: text with one or more `[MASK]` -> for each of them in order, the likeliest guesses first.
        It raises ValueError for a text without `[MASK]`, or longer than the model's position table.

    Raises:
        FileNotFoundError, ValueError: as `from_pretrained` and `text.load_tokenizer`; a vocabulary of another size than
            the model's.

    Example:
        >>> import jax, tempfile
        >>> from funcnet import text
        >>> from funcnet.models import bert
        >>> tokenizer = text.train_wordpiece(["the cat sat on the mat"] * 3, vocab_size=40)
        >>> config = bert.BertConfig.preset("tiny", vocab_size=tokenizer.get_vocab_size())
        >>> model = bert.BertForPreTraining(config)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bert.save_pretrained(folder, model, *model.init(jax.random.key(0)))
        ...     text.save_tokenizer(tokenizer, folder)
        ...     fill = bert.inference(folder)
        >>> [len(guesses) for guesses in fill("The [MASK] sat on the [MASK].")]
        [5, 5]

    Reference: transformers.FillMaskPipeline
    """
    model, params, state = from_pretrained(path, BertForPreTraining)
    tokenizer = text.load_tokenizer(path)
    vocabulary = text.vocabulary(tokenizer)
    config = vars(model)["config"]
    if len(vocabulary) > config.vocab_size:
        raise ValueError(
            f"bert.inference: {path}: the vocabulary is larger than the model's word table; expected at most "
            f"{config.vocab_size} tokens, got {len(vocabulary)}. Put the vocabulary there that the model knows."
        )
    special = text.special_ids(tokenizer)
    count = min(guesses, len(vocabulary))
    params, state = jax.device_put((params, state))

    @jax.jit
    def likeliest(params: Any, state: Any, ids: jax.Array, length: jax.Array, places: jax.Array) -> Any:
        """ids (1, T), length (), places (1, S) -> probabilities (S, count), token ids (S, count)."""
        shown = jnp.arange(ids.shape[1])[None] < length
        (logits, _), _ = model.apply(params, state, ids, shown, masked_positions=places)
        words = logits[0, :, : len(vocabulary)]  # a table padded to a round size has rows that are no words
        return jax.lax.top_k(jax.nn.softmax(words.astype(jnp.float32)), count)

    def fill(sentence: str) -> list[list[Guess]]:
        found = tokenizer.encode(sentence).ids
        places = [place for place, token in enumerate(found) if token == special["[MASK]"]]
        _require_fit(len(found), len(places), config.max_position_embeddings)
        ids = np.full((1, _bucket(len(found), config.max_position_embeddings)), special["[PAD]"], np.int32)
        ids[0, : len(found)] = found
        out = []
        for start in range(0, len(places), _SLOTS):
            some = places[start : start + _SLOTS]
            slots = np.zeros((1, _SLOTS), np.int32)
            slots[0, : len(some)] = some
            chances, tokens = jax.device_get(likeliest(params, state, ids, np.int32(len(found)), slots))
            for row in range(len(some)):
                pairs = zip(tokens[row], chances[row], strict=True)
                out.append([Guess(vocabulary[token], float(chance)) for token, chance in pairs])
        return out

    return fill


def _bucket(length: int, longest: int) -> int:
    """The padded length: a power of two from 16 on, at most `longest`."""
    return min(max(_SHORTEST, 1 << (length - 1).bit_length()), longest)


def _require_fit(length: int, masks: int, longest: int) -> None:
    if length > longest:
        raise ValueError(
            f"bert.inference: the text is too long; expected at most {longest} tokens with [CLS] and [SEP], got "
            f"{length}. Cut it around the [MASK]."
        )
    if not masks:
        raise ValueError(
            "bert.inference: there is nothing to guess; expected [MASK] in the text, got none. Write [MASK] in "
            "the place of a word."
        )
