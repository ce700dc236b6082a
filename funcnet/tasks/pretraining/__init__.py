"""BERT pretraining: raw text -> pairs of segments -> masked batches."""

from funcnet.tasks.pretraining.dataset import PretrainingDataset, evaluation_batches, fill_batch
from funcnet.tasks.pretraining.instances import TokenizedDocuments, build_pairs, tokenize_documents
from funcnet.tasks.pretraining.masking import Masking, default_predictions
from funcnet.tasks.pretraining.prepare import Prepared, prepare
from funcnet.tasks.pretraining.statistics import unigram_log_probabilities
