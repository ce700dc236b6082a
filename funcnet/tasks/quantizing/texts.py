"""The task with which `funcnet quantize` opens a Hugging Face directory. It only supplies texts for the calibration."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from funcnet.heads import TextEncoder
from funcnet.heads.buckets import pad
from funcnet.models.bert import BertConfig
from funcnet.text import load_tokenizer, require_fit, special_ids
from funcnet.train import Context, Task
from funcnet.tree import Params, State

__all__ = ["TextsTask"]


class TextsTask(Task):
    """A task whose batches are the texts of a file, one text per line, cut to `seq_len` tokens.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if the file has no text, or the vocabulary has more entries than the model's word table.
    """

    sequences = ()  # does not support the mesh axis `context`
    unit = "tokens"

    def __init__(self, directory: Path, file: Path, batch_size: int, seq_len: int, context: Context):
        self.name, self.layout, self.batch_size, self.seq_len = directory.name, context.layout, batch_size, seq_len
        tokenizer = load_tokenizer(directory)
        require_fit(tokenizer, BertConfig.load(directory).vocab_size, where=f"quantize: {directory}")
        self.pad_id = special_ids(tokenizer)["[PAD]"]
        texts = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        if not texts:
            raise ValueError(f"quantize: --texts {file} has no text; expected one text per line, got an empty file.")
        self.rows = list(TextEncoder(tokenizer, seq_len).cut(texts))

    def measure(self, model: tuple[Any, Any]) -> dict[str, float]:
        """Return no metrics."""
        return {}

    def batches(self, seed: int) -> Callable[[int], Iterable[Any]]:
        def found(start: int) -> Iterator[Any]:
            for first in range(start * self.batch_size, len(self.rows), self.batch_size):
                part = self.rows[first : first + self.batch_size]
                yield pad(part, len(part), self.seq_len, self.pad_id)

        return found

    def size(self, batch: Mapping[str, Any]) -> int:
        return int(batch["attention_mask"].sum())

    def objective(
        self, params: Params, state: State, batch: Mapping[str, Any], *, training: bool, rng: jax.Array | None
    ) -> Any:
        raise AssertionError("a run of no steps has no objective")

    def counts(self, batch: Mapping[str, Any]) -> Any:
        raise AssertionError("a run of no steps has no objective")
