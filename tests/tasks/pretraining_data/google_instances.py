"""Google's published way to make pretraining instances, sentence by sentence as its script goes, to compare with.

Not its code: its rules, written again. `target_per_pair` changes one of them: Google draws the length to aim for once a
document, so a document with a short one falls into very many short pairs.

Reference: create_instances_from_document, truncate_seq_pair and create_masked_lm_predictions in
https://github.com/google-research/bert/blob/master/create_pretraining_data.py
"""

import random as python_random

import numpy as np


def google_pairs(lengths, seq_len, *, seed=0, short_share=0.1, target_per_pair=False):
    """Pairs of documents given as the lengths of their sentences: columns `a_length`, `b_length`, `is_random_next`,
    `a_document`, `b_document`."""
    random, most, found = python_random.Random(seed), seq_len - 3, []

    def aim():
        return random.randint(2, most) if random.random() < short_share else most

    for number, document in enumerate(lengths):
        chunk, target, place = [], aim(), 0
        while place < len(document):
            chunk.append(document[place])
            if place == len(document) - 1 or sum(chunk) >= target:
                cut = random.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
                a, other = sum(chunk[:cut]), number
                is_random = len(chunk) == 1 or random.random() < 0.5
                if is_random:
                    other, b = _random_next(lengths, number, target - a, random)
                    place -= len(chunk) - cut  # what was not used comes again
                else:
                    b = sum(chunk[cut:])
                found.append((*_truncated(a, b, most), is_random, number, other))
                chunk = []
                target = aim() if target_per_pair else target
            place += 1
    names = ("a_length", "b_length", "is_random_next", "a_document", "b_document")
    return dict(zip(names, np.array(found).T, strict=True))


def _random_next(lengths, number, target, random):
    """(document, tokens) from some sentence of another document on; of this one if ten draws did not find another."""
    for _ in range(10):
        other = random.randint(0, len(lengths) - 1)
        if other != number:
            break
    tokens = 0
    for length in lengths[other][random.randint(0, len(lengths[other]) - 1) :]:
        tokens += length
        if tokens >= target:
            break
    return other, tokens


def _truncated(a, b, most):
    while a + b > most:
        if a > b:
            a -= 1
        else:
            b -= 1
    return a, b


def google_masks(words, most, random, share=0.15):
    """The places that are hidden in a row of [CLS] A [SEP] B [SEP], given as lists of places, one a word (or one a
    piece): a share of all tokens, special ones too, at least one, word by word as they fit."""
    wanted = min(most, max(1, round((sum(map(len, words)) + 3) * share)))
    hidden = []
    for word in random.sample(words, len(words)):
        if len(hidden) + len(word) <= wanted:
            hidden += word
    return sorted(hidden)
