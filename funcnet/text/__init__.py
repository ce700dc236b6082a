"""Raw text -> documents -> sentences -> WordPiece tokens. This package contains no models and forms no batches.

`open_corpus` finds the documents in files and folders, `split_sentences` splits a document into sentences,
`train_wordpiece` trains a vocabulary, and `BulkTokenizer` turns millions of sentences into ids. `load_tokenizer` and
`save_tokenizer` read and write directories that Hugging Face's `BertTokenizerFast` can open too.
"""

from funcnet.text.bulk_tokenizer import BulkTokenizer
from funcnet.text.corpus import Corpus, default_corpus, empty_corpus, open_corpus, read_corpus
from funcnet.text.readers import Document
from funcnet.text.sentences import split_paragraphs, split_sentences
from funcnet.text.tokenizer import (
    is_lower_case,
    load_tokenizer,
    require_fit,
    save_tokenizer,
    special_ids,
    truncating,
    vocabulary,
    vocabulary_digest,
)
from funcnet.text.wikipedia import plain_text
from funcnet.text.wordpiece import SPECIAL_TOKENS, train_wordpiece

__all__ = [
    "SPECIAL_TOKENS",
    "BulkTokenizer",
    "Corpus",
    "Document",
    "default_corpus",
    "empty_corpus",
    "is_lower_case",
    "load_tokenizer",
    "open_corpus",
    "plain_text",
    "read_corpus",
    "require_fit",
    "save_tokenizer",
    "special_ids",
    "split_paragraphs",
    "split_sentences",
    "train_wordpiece",
    "truncating",
    "vocabulary",
    "vocabulary_digest",
]
