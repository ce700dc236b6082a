"""What a head is, written once: examples, rows, loss, answers, figures. Training, predicting and serving read it.

    reading/*, encoding -> head -> text, tokens, choice, answer, fill_mask -> table -> directory

`head.Head` is what serving needs, `head.TrainedHead` what fine-tuning needs besides. A head names the architecture of
its model; it knows no model class.
"""

from funcnet.heads.directory import check_length, open_head, read_settings, write_settings
from funcnet.heads.encoding import TextEncoder
from funcnet.heads.fill_mask import Guess
from funcnet.heads.head import Head, TrainedHead
from funcnet.heads.table import HEADS, TRAINED, trained_head

__all__ = [
    "HEADS",
    "TRAINED",
    "Guess",
    "Head",
    "TextEncoder",
    "TrainedHead",
    "check_length",
    "open_head",
    "read_settings",
    "trained_head",
    "write_settings",
]
