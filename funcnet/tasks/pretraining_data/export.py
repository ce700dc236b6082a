"""A data directory -> Google's `tf_examples.tfrecord`, which its BERT scripts, NVIDIA's and others' read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.data import write_examples
from funcnet.files import require_folder
from funcnet.tasks.pretraining_data.dataset import PretrainingDataset
from funcnet.tasks.pretraining_data.reader import open_data

ROWS = 1024  # masked at a time
NAMES = {  # our name and Google's, in its script's order
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
    "masked_positions": "masked_lm_positions",
    "masked_ids": "masked_lm_ids",
    "masked_weights": "masked_lm_weights",
    "next_sentence_label": "next_sentence_labels",
}


def export_examples(
    folder: str | Path, out: str | Path, *, seq_len: int | None = None, seed: int = 0, held_out: bool = False
) -> int:
    """Writes every example of every pass with its masks drawn, as `create_pretraining_data.py` does; returns how many.

    Args:
        folder: a data directory.
        out: the file.
        seq_len, seed: see `open_data`.
        held_out: the held-out examples in place of the training ones.

    Raises:
        OSError, ValueError: see `open_data`; nothing was held out; the file cannot be written.

    Reference: write_instance_to_example_files in
    https://github.com/google-research/bert/blob/master/create_pretraining_data.py
    """
    require_folder(out, "data export: --out")
    data = open_data(folder, seq_len=seq_len, seed=seed)
    chosen = data.evaluation if held_out else data.train
    if chosen is None:
        raise ValueError(
            f"data export: {folder} holds nothing out; expected held-out examples, got --held-out 0 when it was built. "
            "Leave --held-out away."
        )
    return write_examples(out, _rows(chosen))


def _rows(data: PretrainingDataset) -> Iterator[dict[str, NDArray[Any]]]:
    for number in range(data.passes):
        epoch = data.at_epoch(number)
        for start in range(0, len(data), ROWS):
            batch = epoch[np.arange(start, min(start + ROWS, len(data)))]
            for row in range(len(batch["input_ids"])):
                yield {theirs: np.atleast_1d(batch[ours][row]) for ours, theirs in NAMES.items()}
