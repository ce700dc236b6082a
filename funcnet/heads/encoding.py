"""Encodes texts as rows of tokens, which are the input of a model. Letter: `T tokens of a row`."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from funcnet import text

__all__ = ["Encoded", "PlainRow", "TextEncoder", "TokenRow"]

CHUNK = 1024  # texts per call of the tokenizer, because its results are large


class TokenRow(Protocol):
    """One sequence for the model: an `Encoding` of tokenizers, or a part of a long text."""

    @property
    def ids(self) -> Sequence[int] | NDArray[Any]:
        """The T token ids of the row, including special tokens."""

    @property
    def type_ids(self) -> Sequence[int] | NDArray[Any]:
        """(T,) token types."""


class PlainRow(NamedTuple):
    """A `TokenRow` that has only token ids and token types.

    Attributes:
        ids: (T,) token ids, special tokens included.
        type_ids: (T,) token types.
    """

    ids: Sequence[int] | NDArray[Any]
    type_ids: Sequence[int] | NDArray[Any]


class Encoded(NamedTuple):
    """The rows of tokens of one example.

    Attributes:
        rows: at least one row.
        is_cut: whether the text was too long, so that its end is missing.
        detail: additional data for `Head.answer`.
    """

    rows: Sequence[TokenRow]
    is_cut: bool = False
    detail: Any = None


class TextEncoder:
    """Encodes texts as rows of limited length.

    Args:
        tokenizer: tokenizer from `text.load_tokenizer`. It is not changed.
        seq_len: largest number of tokens per row, including special tokens.
    """

    def __init__(self, tokenizer: Tokenizer, seq_len: int):
        self.tokenizer, self.seq_len = tokenizer, seq_len
        self.special = text.special_ids(tokenizer)
        self._cutting = text.truncating(tokenizer, seq_len)

    def cut(self, texts: Iterable[Any], *, words: bool = False) -> Iterator[Encoding]:
        """Encode texts, pairs of texts or lists of words, and cut them to the row length.

        The longer text of a pair is cut first.
        """
        return _encodings(self._cutting, texts, words, special_tokens=True)

    def whole(self, texts: Iterable[Any], *, special_tokens: bool = False) -> Iterator[Encoding]:
        """Encode texts of any length, by default without special tokens."""
        return _encodings(self.tokenizer, texts, False, special_tokens)


def _encodings(tokenizer: Tokenizer, texts: Iterable[Any], words: bool, special_tokens: bool) -> Iterator[Encoding]:
    source = iter(texts)
    while chunk := [*islice(source, CHUNK)]:
        yield from tokenizer.encode_batch(chunk, is_pretokenized=words, add_special_tokens=special_tokens)
