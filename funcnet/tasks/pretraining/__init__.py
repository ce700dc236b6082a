"""BERT pretraining: raw text -> pairs of segments -> masked batches."""

from funcnet.tasks.pretraining.build import build
from funcnet.tasks.pretraining.data_settings import DataSettings
from funcnet.tasks.pretraining.dataset import PretrainingDataset, evaluation_batches, fill_batch
from funcnet.tasks.pretraining.instances import TokenizedDocuments, tokenize_documents
from funcnet.tasks.pretraining.masking import Masking, default_predictions, word_pieces
from funcnet.tasks.pretraining.pairs import build_pairs
from funcnet.tasks.pretraining.prepare import prepare
from funcnet.tasks.pretraining.reading import Prepared, open_data
from funcnet.tasks.pretraining.statistics import unigram_log_probabilities
