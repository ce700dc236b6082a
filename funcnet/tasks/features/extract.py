"""Texts -> vectors: hidden states of any layers, of every token or pooled.

Letters: `N texts, L requested layers, T tokens of a text, D width`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from funcnet import text as text_
from funcnet.heads import read_settings
from funcnet.heads.buckets import FINE_LENGTHS, Bucketed
from funcnet.models import bert

__all__ = ["FeatureExtractor", "Features", "Pool"]

Pool = Literal["mean", "max", "cls", "none"]
Text = str | tuple[str, str]
WINDOW = 4096  # texts that are sorted by length together: enough for full batches, few enough to stream


class Features(NamedTuple):
    """The vectors of one text.

    Attributes:
        tokens: `[CLS]`, the words' pieces, `[SEP]`; T of them.
        values: float32, (L, D) pooled, or (L, T, D).
    """

    tokens: list[str]
    values: NDArray[np.float32]


class FeatureExtractor:
    """Text embeddings from a pretrained encoder.

    The weights are put on the device once. Texts of about the same length share a batch, and a program is compiled for
    each padded length, of which there are about twenty, at its first use. Layers above the highest requested one are
    not run.

    Args:
        path: a directory as `bert.from_pretrained` takes it, with its vocabulary.
        layers: hidden states: -1 is the last layer's output, 0 the embeddings', as transformers numbers them.
        pool: "mean" or "max" over the tokens (`[CLS]` and `[SEP]` among them, as sentence-transformers does), "cls" the
            first token's vector, "none" every token's.
        max_length: the most tokens of a text; longer ones are cut, the longer of a pair first. None: as many as
            `funcnet finetune` trained with, else those of the position table.
        tokens: in a batch, padding included; None: a number that suits the device (`heads.buckets.Bucketed`).

    Attributes:
        truncated: how many texts were cut so far.
        width: D.

    Raises:
        FileNotFoundError, ValueError: as `bert.from_pretrained` and `text.load_tokenizer`; a layer that does not exist,
            an unknown pool, a `max_length` out of range, a vocabulary that does not fit the model's table.

    Example:
        >>> import jax, tempfile
        >>> from funcnet import text
        >>> from funcnet.models import bert
        >>> tokenizer = text.train_wordpiece(["the cat sat on the mat"] * 3, vocab_size=40)
        >>> model = bert.BertModel(bert.BertConfig.preset("tiny", vocab_size=tokenizer.get_vocab_size()))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bert.save_pretrained(folder, model, *model.init(jax.random.key(0)))
        ...     text.save_tokenizer(tokenizer, folder)
        ...     extract = FeatureExtractor(folder, layers=(-1, 0), pool="none")
        >>> [(found.tokens, found.values.shape) for found in extract(["the cat", "the mat sat"])]
        [(['[CLS]', 'the', 'cat', '[SEP]'], (2, 4, 128)), (['[CLS]', 'the', 'mat', 'sat', '[SEP]'], (2, 5, 128))]

    Reference: google-research/bert, `extract_features.py`; transformers.FeatureExtractionPipeline
    """

    def __init__(
        self,
        path: str | Path,
        *,
        layers: Sequence[int] = (-1,),
        pool: Pool = "mean",
        max_length: int | None = None,
        tokens: int | None = None,
    ):
        if pool not in get_args(Pool):
            raise ValueError(f"features: pool is not known; expected one of {', '.join(get_args(Pool))}, got {pool!r}.")
        config = bert.BertConfig.load(path)
        self.layers = tuple(layers)
        self.pool, self.width, self.truncated = pool, config.hidden_size, 0
        states = config.num_hidden_layers + 1
        taken = [_layer(layer, states) for layer in self.layers]
        if not taken:
            raise ValueError("features: layers is empty; expected at least one, got none. -1 is the last.")
        longest = max_length
        if longest is None:
            longest = read_settings(Path(path)).get("seq_len", config.max_position_embeddings)
        if not 3 <= longest <= config.max_position_embeddings:
            raise ValueError(
                f"features: max_length; expected 3 to {config.max_position_embeddings}, the size of the position "
                f"table, got {longest}."
            )
        tokenizer = text_.load_tokenizer(path)
        text_.require_fit(tokenizer, config.vocab_size, where=f"features: {path}")
        self._tokenizer = text_.truncating(tokenizer, longest)
        below = [f"encoder.layer.{number}" for number in range(max(*taken, 1))]
        net, params, state = bert.from_pretrained(path, _encoder, config=config, layers=below)

        def run(params: Any, state: Any, batch: Any) -> jax.Array:
            shown = batch["attention_mask"]
            out, _ = net.apply(
                params, state, batch["input_ids"], shown, batch["token_type_ids"], output_hidden_states=True
            )
            return _pooled(jnp.stack([out[2][layer] for layer in taken], 1), shown, pool)

        self.model = jax.device_put((params, state))
        self.run = Bucketed(
            run,
            longest=longest,
            pad_id=text_.special_ids(tokenizer)["[PAD]"],
            tokens=tokens,
            lengths=FINE_LENGTHS,
        )

    def __call__(self, texts: Iterable[Text]) -> Iterator[Features]:
        """The vectors of each text, in order; reads a few thousand `texts` at a time."""
        source = iter(texts)
        while some := list(islice(source, WINDOW)):
            encodings = self._tokenizer.encode_batch(some)
            self.truncated += sum(bool(encoding.overflowing) for encoding in encodings)
            for encoding, value in zip(encodings, self.run(self.model, encodings), strict=True):
                yield Features(encoding.tokens, value[:, : len(encoding)] if self.pool == "none" else value)

    def array(self, texts: Iterable[Text]) -> NDArray[np.float32]:
        """Pooled vectors as one array (N, L, D), or (N, D) for one layer.

        Raises:
            ValueError: `pool` is "none": texts have different numbers of vectors.
        """
        if self.pool == "none":
            raise ValueError(
                "features: the vectors of all tokens fit no array; expected a pool, got 'none'. Iterate over the texts "
                "instead."
            )
        values = [found.values for found in self(texts)]
        stacked = np.stack(values) if values else np.zeros((0, len(self.layers), self.width), np.float32)
        return stacked[:, 0] if len(self.layers) == 1 else stacked


def _pooled(hidden: jax.Array, shown: jax.Array, pool: str) -> jax.Array:
    """(B, L, T, D) -> (B, L, D), or as it is."""
    hidden = hidden.astype(jnp.float32)
    if pool == "none":
        return hidden
    if pool == "cls":
        return hidden[:, :, 0]
    seen = shown[:, None, :, None].astype(bool)
    if pool == "max":
        return jnp.where(seen, hidden, -jnp.inf).max(2)
    return jnp.where(seen, hidden, 0).sum(2) / seen.sum(2, dtype=hidden.dtype)


def _layer(layer: int, states: int) -> int:
    if not -states <= layer < states:
        raise ValueError(
            f"features: there is no such layer; expected {-states} to {states - 1} (0 is the embeddings), got {layer}."
        )
    return layer % states


def _encoder(config: bert.BertConfig) -> bert.BertModel:
    """Without the pooler, which no feature needs, and with unstacked layers."""
    return bert.BertModel(dataclasses.replace(config, scan_layers=False), add_pooling_layer=False)
