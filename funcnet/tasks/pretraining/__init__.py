"""BERT pretraining: `funcnet pretrain`. The data that it reads are made in `funcnet.tasks.pretraining_data`."""

from funcnet.tasks.pretraining.settings import PretrainingSettings
from funcnet.tasks.pretraining.task import PretrainingTask, pretrain

__all__ = ["PretrainingSettings", "PretrainingTask", "pretrain"]
