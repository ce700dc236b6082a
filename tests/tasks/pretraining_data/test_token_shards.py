"""Tokenised documents: the tokens of each sentence, in order; shards of them are built in `test_build`."""

import numpy as np

from funcnet.tasks.pretraining_data import tokenize_documents
from funcnet.text import BulkTokenizer, train_wordpiece


def test_tokens_are_those_of_each_sentence():
    tokenizer = train_wordpiece(["the cat sat on the mat"] * 3, 60)
    split = [["The cat.", "\u200b", "On the mat!"], ["Sat."]]
    documents = tokenize_documents(split, BulkTokenizer(tokenizer))
    pieces = np.split(documents.tokens, documents.sentences[1:-1])
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in ("The cat.", "On the mat!", "Sat.")]
    assert [piece.tolist() for piece in pieces] == expected
    assert documents.documents.tolist() == [0, 2, 3] and documents.tokens.dtype == np.uint16
