"""The data of BERT pretraining: raw text -> pairs of segments -> masked batches. The data of pretraining are built
once, and can then be read by many runs.

`build` makes a data directory (`manifest` lists its files), `open_data` reads one, and `prepare_data` does both in a
cache. Each step of a build is a module: `text_shards`, `held_out`, `vocabulary`, `token_shards`, `pairs` with
`pair_shards` and `packing`, and `report`. When a batch is read, `dataset` assembles its rows, and `masking` masks
words.
"""

from funcnet.tasks.pretraining_data.build import build
from funcnet.tasks.pretraining_data.cache import prepare_data
from funcnet.tasks.pretraining_data.data_settings import DataSettings, PairSettings, TextSettings
from funcnet.tasks.pretraining_data.dataset import IGNORE, PretrainingDataset, evaluation_batches, fill_batch
from funcnet.tasks.pretraining_data.masking import Masking, default_predictions, word_pieces
from funcnet.tasks.pretraining_data.pairs import build_pairs
from funcnet.tasks.pretraining_data.reader import PretrainingData, open_data, unigram_log_probabilities
from funcnet.tasks.pretraining_data.token_shards import TokenizedDocuments, tokenize_documents

__all__ = [
    "IGNORE",
    "DataSettings",
    "Masking",
    "PairSettings",
    "PretrainingData",
    "PretrainingDataset",
    "TextSettings",
    "TokenizedDocuments",
    "build",
    "build_pairs",
    "default_predictions",
    "evaluation_batches",
    "fill_batch",
    "open_data",
    "prepare_data",
    "tokenize_documents",
    "unigram_log_probabilities",
    "word_pieces",
]
