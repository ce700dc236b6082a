"""Heads. The head of a task defines the task's examples, rows, loss, answers and metrics, for training and for serving.

    reading/*, input_settings, encoding -> head -> text, tokens, choice, answer, fill_mask -> table -> directory

Serving needs a `head.Head`, and fine-tuning needs its subclass `head.TrainedHead`. A head stores the name of its
model's architecture, but does not depend on a model class.
"""

from funcnet.heads.directory import check_length, open_head, read_settings, require_types, write_settings
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
    "require_types",
    "trained_head",
    "write_settings",
]
