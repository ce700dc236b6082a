"""Texts -> vectors: hidden states of any layers, per token or pooled.

Letters: `N texts, L requested layers, T tokens of a text, D hidden size`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from funcnet import text as text_
from funcnet.heads import read_settings
from funcnet.heads.buckets import FINE_LENGTHS, Bucketed
from funcnet.models import bert
from funcnet.tree import Params, State

__all__ = ["FeatureExtractor", "Features", "Pool"]

Pool = Literal["mean", "max", "cls", "none"]
Text = str | tuple[str, str]
WINDOW = 4096  # texts that are sorted by length together: enough to fill batches, few enough to stream


class Features(NamedTuple):
    """The vectors of one text.

    Attributes:
        tokens: the T tokens of the text, including `[CLS]` and `[SEP]`.
        values: float32 vectors, (L, D) if pooled, otherwise (L, T, D).
    """

    tokens: list[str]
    values: NDArray[np.float32]


class FeatureExtractor:
    """Text embeddings from a pretrained encoder.

    The weights are put on the device once. Texts of similar length share a batch. A program is compiled for each of
    about twenty padded lengths when the length is first used. Layers above the highest requested layer are not run.

    Args:
        path: directory with a model for `bert.from_pretrained` and its vocabulary.
        layers: layers whose hidden states are returned, numbered as in transformers. 0 is the output of the embeddings,
            and -1 is the output of the last layer.
        pool: "mean" and "max" pool over all tokens, including `[CLS]` and `[SEP]`, as sentence-transformers does. "cls"
            takes the vector of the first token. "none" returns the vector of every token.
        max_length: largest number of tokens per text. Longer texts are cut, starting with the longer text of a pair.
            The default is the row length with which `funcnet finetune` trained the model, or the size of its position
            table if it was not fine-tuned.
        tokens: number of tokens per batch, including padding. The default suits the device, see
            `heads.buckets.Bucketed`.

    Attributes:
        truncated: number of texts that were cut so far.
        width: D.

    Raises:
        FileNotFoundError, ValueError: if `bert.from_pretrained` or `text.load_tokenizer` cannot read the directory.
        ValueError: if no layer is given, a layer does not exist, the pool is unknown, `max_length` is out of range, or
            the vocabulary has more entries than the model's embedding table.

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
            raise ValueError(f"features: pool is unknown; expected one of {', '.join(get_args(Pool))}, got {pool!r}.")
        config = bert.BertConfig.load(path)
        self.layers = tuple(layers)
        self.pool, self.width, self.truncated = pool, config.hidden_size, 0
        self._takes_pairs = config.type_vocab_size > 1
        states = config.num_hidden_layers + 1
        taken = [_layer(layer, states) for layer in self.layers]
        if not taken:
            raise ValueError("features: layers is empty; expected at least one layer, such as -1 for the last one.")
        longest = max_length
        if longest is None:
            longest = read_settings(Path(path)).get("seq_len", config.max_position_embeddings)
        if not 3 <= longest <= config.max_position_embeddings:
            raise ValueError(
                f"features: max_length is out of range; expected 3 to {config.max_position_embeddings} (the size of "
                f"the position table), got {longest}."
            )
        tokenizer = text_.load_tokenizer(path)
        text_.require_fit(tokenizer, config.vocab_size, where=f"features: {path}")
        self._tokenizer = text_.truncating(tokenizer, longest)
        below = [f"encoder.layer.{number}" for number in range(max(*taken, 1))]
        net, params, state = bert.from_pretrained(path, _encoder, config=config, layers=below)

        def run(params: Params, state: State, batch: Mapping[str, jax.Array]) -> jax.Array:
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
        """Yield the vectors of each text, in order. At most a few thousand texts are read from `texts` at a time.

        Raises:
            ValueError: if a text is a pair and the model has only one token type.
        """
        left = iter(texts)
        while some := [*islice(left, WINDOW)]:
            pair = next((one for one in some if not isinstance(one, str)), None)
            if pair is not None and not self._takes_pairs:
                raise ValueError(
                    "features: the model has one token type; expected single texts, or a model with type_vocab_size >= "
                    f"2 in config.json, got the pair {pair!r:.60}."
                )
            encodings = self._tokenizer.encode_batch(some)
            self.truncated += sum(bool(encoding.overflowing) for encoding in encodings)
            for encoding, value in zip(encodings, self.run(self.model, encodings), strict=True):
                yield Features(encoding.tokens, value[:, : len(encoding)] if self.pool == "none" else value)

    def array(self, texts: Iterable[Text]) -> NDArray[np.float32]:
        """Return the pooled vectors of all texts as one array, (N, L, D), or (N, D) if there is only one layer.

        Raises:
            ValueError: if `pool` is "none", because the texts then have different numbers of vectors.
        """
        if self.pool == "none":
            raise ValueError(
                "features: without pooling, texts of different lengths do not fit into one array; expected another "
                "pool, got 'none'. Call the extractor and iterate over the result instead."
            )
        values = [found.values for found in self(texts)]
        stacked = np.stack(values) if values else np.zeros((0, len(self.layers), self.width), np.float32)
        return stacked[:, 0] if len(self.layers) == 1 else stacked


def _pooled(hidden: jax.Array, shown: jax.Array, pool: str) -> jax.Array:
    """Pool the token vectors (B, L, T, D) of a batch to (B, L, D), or return them unchanged if `pool` is "none"."""
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
            f"features: layer is out of range; expected {-states} to {states - 1} (0 means the embeddings), got "
            f"{layer}."
        )
    return layer % states


def _encoder(config: bert.BertConfig) -> bert.BertModel:
    """Return the model with unstacked layers and without the pooler, whose output is not a feature."""
    return bert.BertModel(dataclasses.replace(config, scan_layers=False), add_pooling_layer=False)
