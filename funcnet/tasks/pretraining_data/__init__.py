"""The data of BERT pretraining: raw text -> pairs of segments -> masked batches; built once, read by many runs."""

from funcnet.tasks.pretraining_data.build import build
from funcnet.tasks.pretraining_data.dataset import PretrainingDataset, evaluation_batches, fill_batch
from funcnet.tasks.pretraining_data.masking import Masking, default_predictions, word_pieces
from funcnet.tasks.pretraining_data.pairs import build_pairs
from funcnet.tasks.pretraining_data.prepare import prepare
from funcnet.tasks.pretraining_data.reader import Prepared, open_data
from funcnet.tasks.pretraining_data.settings import DataSettings
from funcnet.tasks.pretraining_data.statistics import unigram_log_probabilities
from funcnet.tasks.pretraining_data.tokens import TokenizedDocuments, tokenize_documents
