"""Raw text -> documents -> sentences -> WordPiece tokens. Knows no model and no batch.

`open_corpus` finds the documents in files and folders, `split_sentences` cuts one into sentences, `train_wordpiece`
makes a vocabulary, `BulkTokenizer` turns sentences by the million into ids, and `load_tokenizer` / `save_tokenizer` are
the two ends of a directory that Hugging Face's `BertTokenizerFast` opens as well.
"""

from funcnet.text.bulk import BulkTokenizer
from funcnet.text.corpus import Corpus, default_corpus, open_corpus, read_corpus
from funcnet.text.readers import Document
from funcnet.text.sentences import split_paragraphs, split_sentences
from funcnet.text.wikipedia import plain_text
from funcnet.text.wordpiece import (
    SPECIAL_TOKENS,
    is_lower_case,
    load_tokenizer,
    require_fit,
    save_tokenizer,
    special_ids,
    train_wordpiece,
    truncating,
    vocabulary,
    vocabulary_digest,
)

__all__ = [
    "SPECIAL_TOKENS",
    "BulkTokenizer",
    "Corpus",
    "Document",
    "default_corpus",
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
