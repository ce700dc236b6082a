"""Texts -> rows of token ids, all in a few flat arrays. N rows, C sequences a row (1, or the choices), T tokens."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from funcnet.models.bert import losses
from funcnet.models.bert.inference import require_length
from funcnet.models.bert.parts import read_parts
from funcnet.models.bert.spans import Window, longest_question
from funcnet.text import require_fit, special_ids, truncating

__all__ = ["Encoded", "check_fit", "describe_cut", "encode", "encode_parts"]

CHUNK = 1024  # texts handed to the tokenizer at once: its results are large


@dataclass(frozen=True)
class Encoded:
    """Rows of token ids with their labels.

    Attributes:
        tokens, types: (S,) int32 and uint8, the ids and token types of all sequences one after the other.
        starts: (N·C + 1,) int64, where each sequence begins; the last is S.
        choices: C, sequences a row.
        labels: (N, …), or (S,) where every token has a label; None where there are none.
        by_token: whether every token has a label.
        truncated: examples that were cut.
        words: of lists of words, those of each row.
        word_ids: with `words`, for each row the word of every token, None for special ones.
        windows: for each question the stretches of its context that its rows show.
        owners: (N,) the example of each row, where a text is read in parts.
    """

    tokens: NDArray[np.int32]
    types: NDArray[np.uint8]
    starts: NDArray[np.int64]
    choices: int = 1
    labels: NDArray[Any] | None = None
    by_token: bool = False
    truncated: int = 0
    words: Sequence[Sequence[str]] | None = None
    word_ids: Sequence[Sequence[int | None]] | None = None
    windows: Sequence[Sequence[Window]] | None = None
    owners: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return (len(self.starts) - 1) // self.choices

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(N,) tokens of a row, the longest of its sequences."""
        return np.diff(self.starts).reshape(-1, self.choices).max(axis=1)

    def fill(self, rows: NDArray[np.int64], length: int, size: int, pad_id: int) -> dict[str, NDArray[Any]]:
        """The batch of some rows, padded to `length` tokens and to `size` rows that count for nothing.

        Returns:
            input_ids, token_type_ids int32, attention_mask bool: (B, T), or (B, C, T) for choices; counted (B,) bool;
            labels (B, …) where there are any, of padding -100.
        """
        shape = (size, self.choices, length)
        batch = {
            "input_ids": np.full(shape, pad_id, np.int32),
            "token_type_ids": np.zeros(shape, np.int32),
            "attention_mask": np.zeros(shape, bool),
            "counted": np.arange(size) < len(rows),
        }
        if self.labels is not None:
            tail = (self.choices, length) if self.by_token else self.labels.shape[1:]
            batch["labels"] = np.full((size, *tail), losses.IGNORE, self.labels.dtype)
            if not self.by_token:
                batch["labels"][: len(rows)] = self.labels[rows]
        for place, row in enumerate(rows):
            for choice in range(self.choices):
                begin, end = self.starts[row * self.choices + choice : row * self.choices + choice + 2]
                at = (place, choice, slice(0, end - begin))
                batch["input_ids"][at] = self.tokens[begin:end]
                batch["token_type_ids"][at] = self.types[begin:end]
                batch["attention_mask"][at] = True
                if self.by_token and self.labels is not None:
                    batch["labels"][at] = self.labels[begin:end]
        if self.choices == 1:
            names = ["input_ids", "token_type_ids", "attention_mask", *(["labels"] if self.by_token else [])]
            batch |= {name: batch[name][:, 0] for name in names if name in batch}
        return batch


def encode(
    tokenizer: Tokenizer, texts: Sequence[Any], seq_len: int, *, choices: int = 1, words: bool = False
) -> Encoded:
    """Tokenizes texts, pairs of texts or lists of words, cut to `seq_len` tokens (of a pair the longer text first).

    Args:
        tokenizer: as `text.load_tokenizer` gives it; it stays as it is.
        texts: strings, pairs (tuples) of strings, or with `words` lists of words; for choices those of a row in a row.
        seq_len: the most tokens, special ones included.
        choices: C.
        words: whether each text is a list of words.

    Returns:
        The rows, without labels.

    Example:
        >>> from funcnet import text
        >>> tokenizer = text.train_wordpiece(["low lower lowest"] * 3, vocab_size=24)
        >>> rows = encode(tokenizer, ["low", "low low low low"], seq_len=5)
        >>> rows.lengths.tolist(), rows.truncated
        ([3, 5], 1)
    """
    cutting = truncating(tokenizer, seq_len)
    tokens, types, sizes, word_ids = [], [], [], []
    cut = np.zeros(len(texts), bool)
    for number, found in enumerate(_encodings(cutting, texts, words=words)):
        tokens.append(np.array(found.ids, np.int32))
        types.append(np.array(found.type_ids, np.uint8))
        sizes.append(len(found.ids))
        cut[number] = bool(found.overflowing)
        if words:
            word_ids.append(found.word_ids)
    starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    truncated = int(cut.reshape(-1, choices).any(axis=1).sum())
    flat = _joined(tokens, np.int32), _joined(types, np.uint8)
    rows = Encoded(*flat, starts, choices, truncated=truncated)
    return replace(rows, words=texts, word_ids=word_ids) if words else rows


def encode_parts(tokenizer: Tokenizer, texts: Sequence[str], seq_len: int) -> Encoded:
    """Tokenizes texts, each in as many rows of at most `seq_len` tokens as hold all of it; see `read_parts`.

    Returns:
        The rows with their `owners`, without labels.

    Example:
        >>> from funcnet import text
        >>> tokenizer = text.train_wordpiece(["low lower lowest"] * 3, vocab_size=24)
        >>> rows = encode_parts(tokenizer, ["low", "low low low low"], seq_len=5)
        >>> rows.lengths.tolist(), rows.owners.tolist()
        ([3, 4, 4], [0, 1, 1])
    """
    special = special_ids(tokenizer)
    found = [read_parts(one.ids, special, seq_len) for one in _encodings(tokenizer, texts, add_special_tokens=False)]
    ids = [np.array(part.ids, np.int32) for parts in found for part in parts]
    flat = _joined(ids, np.int32)
    starts = np.concatenate([[0], np.cumsum([len(row) for row in ids], dtype=np.int64)])
    owners = np.repeat(np.arange(len(found)), [len(parts) for parts in found])
    return Encoded(flat, np.zeros(len(flat), np.uint8), starts, owners=owners)


def describe_cut(rows: Encoded, limit: int) -> str:
    """What a person should know of texts that were cut; empty where none was.

    >>> describe_cut(Encoded(np.zeros(0, np.int32), np.zeros(0, np.uint8), np.zeros(1, np.int64), truncated=3), 128)
    '3 texts longer than 128 tokens were cut'
    """
    if not rows.truncated:
        return ""
    what, longest = ("texts", limit) if rows.windows is None else ("questions", longest_question(limit))
    return f"{rows.truncated:,} {what} longer than {longest} tokens were cut"


def check_fit(tokenizer: Tokenizer, vocab_size: int, positions: int, seq_len: int, where: str) -> None:
    """Refuses a vocabulary that the word table does not hold, and rows longer than the position table.

    Args:
        vocab_size: rows of the word table.
        positions: rows of the position table.
        seq_len: the longest row.
        where: the model's directory, for the message.

    Raises:
        ValueError: one of the two.
    """
    require_fit(tokenizer, vocab_size, where=f"finetune: {where}")
    require_length(seq_len, positions, "finetune: --seq-len", where)


def _encodings(
    tokenizer: Tokenizer, texts: Sequence[Any], *, words: bool = False, add_special_tokens: bool = True
) -> Iterator[Encoding]:
    for begin in range(0, len(texts), CHUNK):
        chunk = list(texts[begin : begin + CHUNK])
        yield from tokenizer.encode_batch(chunk, is_pretokenized=words, add_special_tokens=add_special_tokens)


def _joined(parts: Iterable[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    parts = list(parts)
    return np.concatenate(parts) if parts else np.zeros(0, dtype)
