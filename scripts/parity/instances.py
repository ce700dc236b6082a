"""Compare pretraining instances with those of Google's published algorithm over the same sentences, as a table.

    python scripts/parity/instances.py                     the presidential messages, rows of 128 tokens
    python scripts/parity/instances.py --corpus PATH --seq-len 512

Google's script draws a target length for each document. The second column draws it for each pair, as funcnet does, so
that the other differences become visible. "Label guessed from lengths" is the accuracy of boosted trees that predict
the label of unseen pairs from the two lengths alone; always predicting the more frequent label is as accurate as its
share.
"""

import argparse
import itertools
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from funcnet import table  # noqa: E402
from funcnet.settings import compose  # noqa: E402
from funcnet.tasks.pretraining_data import DataSettings, build, open_data  # noqa: E402
from funcnet.tasks.pretraining_data.masking import word_pieces  # noqa: E402
from funcnet.tasks.pretraining_data.token_shards import read_token_shard  # noqa: E402
from tests.tasks.pretraining_data.google_instances import google_masks, google_pairs  # noqa: E402

ROWS = 4000  # number of rows in which masked words are counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, nargs="+")
    parser.add_argument("--seq-len", type=int, default=128)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder, length = Path(temporary, "data"), options.seq_len
        corpus = tuple(options.corpus) if options.corpus else None
        settings = compose(DataSettings, corpus=corpus, seq_len=(length,), passes=1, held_out=0, whole_words=True)
        build(folder, settings)
        data = open_data(folder)
        lengths = [sizes for shard in range(len(list(folder.glob("tokens-*")))) for sizes in sizes_of(folder, shard)]
        ours = {name: np.asarray(column) for name, column in data.train.pairs[0].items()}
        columns = {
            "Google's": describe(google_pairs(lengths, length), length) | google_hidden(data, length),
            "aim a pair": describe(google_pairs(lengths, length, target_per_pair=True), length),
            "funcnet": describe(ours, length) | hidden(data),
        }
    rows = [["", *columns]]
    rows += [[name, *(column.get(name, "") for column in columns.values())] for name in columns["funcnet"]]
    print(table.text(rows, left=1))


def sizes_of(folder: Path, shard: int) -> list[list[int]]:
    """The lengths of the sentences in each document of a shard."""
    found = read_token_shard(folder, shard)
    sizes, bounds = np.diff(found.sentences), found.documents.tolist()
    return [sizes[a:b].tolist() for a, b in itertools.pairwise(bounds) if b > a]


def describe(pairs: Any, seq_len: int) -> dict[str, str]:
    a, b, label = (pairs[name].astype(np.int64) for name in ("a_length", "b_length", "is_random_next"))
    both, same = a + b + 3, pairs["a_document"] == pairs["b_document"]
    quantiles = np.quantile(both, (0.01, 0.05, 0.1, 0.25, 0.5)).astype(int).tolist()
    half, lengths = len(a) // 2, np.stack([a, b, a + b], 1)
    order = np.random.default_rng(0).permutation(len(a))
    learn, test = order[:half], order[half:]
    model = HistGradientBoostingClassifier(max_iter=50).fit(lengths[learn], label[learn])
    return {
        "pairs": f"{len(a):,}",
        "tokens of a pair, mean": f"{both.mean():.1f}",
        "  1, 5, 10, 25, 50 % have at most": ", ".join(map(str, quantiles)),
        "full rows": f"{(both == seq_len).mean():.1%}",
        "A of both": f"{(a / (a + b)).mean():.1%}",
        "random next": f"{label.mean():.2%}",
        "  of them from A's own document": f"{int((same & (label == 1)).sum()):,}",
        "label guessed from lengths": f"{model.score(lengths[test], label[test]):.1%}",
    }


def hidden(data: Any) -> dict[str, str]:
    """Statistics of the masked words in rows of funcnet, with whole-word masking."""
    number = min(ROWS, len(data.train))
    batch, masking = data.train[np.arange(number)], data.train.masking
    taken = batch["masked_weights"] == 1
    shown = np.take_along_axis(batch["input_ids"], batch["masked_positions"], 1)[taken]
    was = batch["masked_ids"][taken]
    places = [set(row[used].tolist()) for row, used in zip(batch["masked_positions"], taken, strict=True)]
    broken = sum(
        bool(set(word) & found) and not set(word) <= found
        for words, found in zip(words_of(data, number), places, strict=True)
        for word in words
    )
    return {
        "words hidden": f"{taken.sum() / (batch['attention_mask'].sum() - 3 * number):.2%}",
        "  show [MASK]": f"{(shown == masking.mask_id).mean():.1%}",
        "  show another": f"{((shown != masking.mask_id) & (shown != was)).mean():.1%}",
        "  show themselves": f"{(shown == was).mean():.1%}",
        "words hidden in part": f"{broken:,}",
    }


def google_hidden(data: Any, seq_len: int) -> dict[str, str]:
    """The share of words that Google's algorithm masks in the same rows."""
    number, draw = min(ROWS, len(data.train)), random.Random(0)
    words = words_of(data, number)
    count = sum(len(google_masks(row, data.train.masking.max_predictions, draw)) for row in words)
    return {"words hidden": f"{count / sum(len(word) for row in words for word in row):.2%}"}


def words_of(data: Any, number: int) -> list[list[list[int]]]:
    """The positions of the pieces of each word in the first rows, without special tokens."""
    batch, pieces = data.train[np.arange(number)], word_pieces(data.tokenizer)
    ids = batch["input_ids"].copy()
    taken = batch["masked_weights"] == 1
    ids[np.nonzero(taken)[0], batch["masked_positions"][taken]] = batch["masked_ids"][taken]
    ordinary = ~np.isin(ids, data.train.masking.never)
    found = []
    for row, may in zip(ids, ordinary, strict=True):
        words: list[list[int]] = []
        for place in np.flatnonzero(may).tolist():
            if pieces[row[place]] and may[place - 1] and words:
                words[-1].append(place)
            else:
                words.append([place])
        found.append(words)
    return found


if __name__ == "__main__":
    main()
