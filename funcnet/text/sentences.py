"""A document -> its sentences.

The boundaries are found by `sentencex` (Wikimedia's rule-based splitter, in Rust: abbreviations, quotes and brackets
in some 240 languages; the 2 million words of the default corpus take 0.1 s).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import sentencex

from funcnet.text.corpus import BLANK_LINE

# sentencex 1.0 panics where a full stop follows white space of several bytes (no-break spaces, U+0085, U+3000)
ODD_SPACE = re.compile(r"[^\S\n ]")
LONGEST = 2_000  # characters; what runs on for longer is a table or a list, of which one segment would keep the start


def split_sentences(document: str, *, language: str = "en") -> list[str]:
    """Cuts a document into sentences, in order.

    No sentence crosses a blank line, white space inside is one space, and what runs past 2,000 characters without an
    end is cut at a space.

    Args:
        document: text; blank lines part its paragraphs.
        language: an ISO 639 code, for abbreviations.

    Returns:
        The sentences, none empty. Joined, they have every character of the document that is not white space.

    Example:
        >>> split_sentences('Mr. Adams met Gen. Grant there. "Go!" he said.\\n\\nA HEADING\\n\\nIt cost $3.50. Why?')
        ['Mr. Adams met Gen. Grant there.', '"Go!" he said.', 'A HEADING', 'It cost $3.50.', 'Why?']

    Reference: https://github.com/wikimedia/sentencex
    """
    sentences: list[str] = []
    plain = ODD_SPACE.sub(" ", document)
    for paragraph in split_paragraphs(plain):
        for raw in sentencex.segment(language, paragraph):
            sentences.extend(_cut(" ".join(raw.split())))
    return sentences


def split_paragraphs(document: str) -> list[str]:
    """Cuts a document at its blank lines.

    Example:
        >>> split_paragraphs("One\\nand on.\\n \\n\\nTwo.")
        ['One\\nand on.', 'Two.']
    """
    return [paragraph for block in BLANK_LINE.split(document) if (paragraph := block.strip())]


def _cut(sentence: str) -> Iterator[str]:
    """A sentence in parts that are not too long; nothing of an empty one."""
    start = 0
    while len(sentence) - start > LONGEST:
        space = sentence.rfind(" ", start + 1, start + LONGEST)
        end = space if space > 0 else start + LONGEST
        yield sentence[start:end]
        start = end + (sentence[end] == " ")
    if start < len(sentence):
        yield sentence[start:]
