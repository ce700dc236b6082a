"""Converts examples to rows of token ids, which are stored in a few flat arrays.

Letters: `N rows, C sequences per row (1, or the number of choices), S tokens in all sequences, B rows and T tokens of a
batch`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from numpy.typing import NDArray
from tokenizers import Tokenizer

from funcnet import losses
from funcnet.data.padded import padded_rows
from funcnet.heads import TextEncoder, TrainedHead
from funcnet.heads.encoding import PlainRow

__all__ = ["Rows", "encode_rows", "mean_loss"]


@dataclass(frozen=True)
class Rows:
    """Rows of token ids with their labels.

    Attributes:
        tokens, types: (S,) int32 and uint8, the concatenated ids and token types of all sequences.
        starts: (N·C + 1,) int64, index in `tokens` at which each sequence starts. The last entry is S.
        choices: C, number of sequences per row.
        labels: (N, …), or (S,) if every token has a label. None if the examples have no labels.
        by_token: whether every token has a label.
        truncated: number of examples that were cut.
        counts: number of sequences of each example.
        details: `Encoded.detail` of each example, which the head needs for its answer.
    """

    tokens: NDArray[np.int32]
    types: NDArray[np.uint8]
    starts: NDArray[np.int64]
    choices: int = 1
    labels: NDArray[Any] | None = None
    by_token: bool = False
    truncated: int = 0
    counts: Sequence[int] = ()
    details: Sequence[Any] = field(default=(), repr=False)

    def __len__(self) -> int:
        return (len(self.starts) - 1) // self.choices

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Array (N,) with the number of tokens in the longest sequence of each row."""
        return np.diff(self.starts).reshape(-1, self.choices).max(axis=1)

    @property
    def sequences(self) -> list[PlainRow]:
        """All sequences as a list of N·C `PlainRow`s, which `heads.buckets.Bucketed` accepts as its input."""
        return [PlainRow(self.tokens[begin:end], self.types[begin:end]) for begin, end in pairwise(self.starts)]

    def fill(self, rows: NDArray[np.int64], length: int, size: int, pad_id: int) -> dict[str, NDArray[Any]]:
        """Return a batch of the rows with these indices, padded to `length` tokens and `size` rows.

        Returns:
            input_ids, token_type_ids: int32, (B, T), or (B, C, T) for choices.
            attention_mask: bool, with the shape of input_ids.
            counted: (B,) bool, False for padding rows.
            labels: (B, …), -100 for padding. The key `labels` is missing if the rows have no labels.
        """
        numbers = (rows[:, None] * self.choices + np.arange(self.choices)).reshape(-1)  # of the sequences
        places = [slice(self.starts[number], self.starts[number + 1]) for number in numbers]
        shape = (size, self.choices, length) if self.choices > 1 else (size, length)

        def padded(values: NDArray[Any], fill: int = 0, dtype: DTypeLike = np.int32) -> NDArray[Any]:
            found = [values[place] for place in places]
            return padded_rows(found, size * self.choices, length, fill, dtype).reshape(shape)

        batch = {
            "input_ids": padded(self.tokens, pad_id),
            "token_type_ids": padded(self.types),
            "attention_mask": padded(np.broadcast_to(True, self.tokens.shape), dtype=bool),
            "counted": np.arange(size) < len(rows),
        }
        if self.labels is not None and self.by_token:
            batch["labels"] = padded(self.labels, losses.IGNORE, self.labels.dtype)
        elif self.labels is not None:
            batch["labels"] = np.full((size, *self.labels.shape[1:]), losses.IGNORE, self.labels.dtype)
            batch["labels"][: len(rows)] = self.labels[rows]
        return batch


def encode_rows(
    head: TrainedHead, examples: Sequence[Any], tokenizer: Tokenizer, seq_len: int, *, labelled: bool
) -> Rows:
    """Encode examples as rows, with their labels if `labelled`.

    Args:
        head: head of the task, which encodes the examples.
        tokenizer: tokenizer from `text.load_tokenizer`.
        seq_len: largest number of tokens per row, including special tokens.
        labelled: whether the examples have labels.

    Raises:
        ValueError: if a label did not occur in training, or examples have different numbers of choices.

    Example:
        >>> from funcnet import text
        >>> from funcnet.heads.reading.examples import TextExample
        >>> from funcnet.heads.text import Classify
        >>> tokenizer = text.train_wordpiece(["low lower lowest"] * 3, vocab_size=24)
        >>> examples = [TextExample(text, None, None, "") for text in ("low", "low low low low")]
        >>> rows = encode_rows(Classify(), examples, tokenizer, 5, labelled=False)
        >>> rows.lengths.tolist(), rows.truncated
        ([3, 5], 1)
        >>> rows = encode_rows(Classify(long_texts="parts"), examples, tokenizer, 5, labelled=False)
        >>> rows.lengths.tolist(), rows.counts
        ([3, 4, 4], [1, 2])
    """
    tokens, types, counts, details = [], [], [], []
    targets: list[NDArray[Any]] = []
    truncated = 0
    for example, encoded in zip(examples, head.encode(examples, TextEncoder(tokenizer, seq_len)), strict=True):
        tokens += [np.array(row.ids, np.int32) for row in encoded.rows]
        types += [np.array(row.type_ids, np.uint8) for row in encoded.rows]
        counts.append(len(encoded.rows))
        details.append(encoded.detail)
        truncated += encoded.is_cut
        if labelled:
            targets += head.targets(example, encoded)
        if head.rows_together and counts[-1] != counts[0]:
            raise ValueError(
                f"{head.name}: {example.where}: wrong number of choices; expected {counts[0]}, as in the first row, "
                f"got {counts[-1]}."
            )
    choices = counts[0] if head.rows_together else 1
    return Rows(
        np.concatenate([np.zeros(0, np.int32), *tokens]),
        np.concatenate([np.zeros(0, np.uint8), *types]),
        np.concatenate([[0], np.cumsum([len(row) for row in tokens], dtype=np.int64)]),
        choices,
        labels=(np.concatenate if head.by_token else np.stack)(targets) if labelled else None,
        by_token=head.by_token,
        truncated=truncated,
        counts=counts,
        details=details,
    )


def mean_loss(head: TrainedHead, outputs: Sequence[NDArray[np.float32]], rows: Rows) -> float:
    """Return the mean loss over all rows, from the model's outputs for each sequence."""
    assert rows.labels is not None
    lengths, labels = np.diff(rows.starts), rows.labels
    if rows.by_token:
        cut = [output[:length] for output, length in zip(outputs, lengths, strict=True)]
        logits, labels = np.concatenate(cut)[None], labels[None]
    elif outputs[0].ndim == 2:  # spans: one row of logits per token
        logits = np.full((len(outputs), lengths.max(), outputs[0].shape[1]), np.finfo(np.float32).min, np.float32)
        for row, (output, length) in enumerate(zip(outputs, lengths, strict=True)):
            logits[row, :length] = output[:length]
    else:
        logits = np.stack(outputs).reshape(len(rows), -1)
    batch = {"labels": jnp.asarray(labels), "counted": jnp.ones(len(labels), bool)}
    sums, counts = head.sums(jnp.asarray(logits), batch), head.counts(batch)
    return sum(float(term["loss"] / jnp.maximum(counts[name], 1)) for name, term in sums.items())
