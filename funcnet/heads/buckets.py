"""Runs a model on rows of any length, with only a few compiled programs.

Rows are sorted by length and padded to one of a few lengths. Serving, prediction, evaluation and feature extraction all
use this module.

Letters: `B rows of a batch, T tokens of a row`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from funcnet.data.padded import padded_rows
from funcnet.heads.encoding import TokenRow
from funcnet.tree import PyTree

__all__ = ["FINE_LENGTHS", "LENGTHS", "Bucketed", "bucket", "pad"]

# Padding to one of these lengths costs a sixth on average. Powers of two would need half as many programs, but cost a
# third.
LENGTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
# Lengths for many texts, for which more programs soon pay off. Padding to one of these lengths costs a tenth.
FINE_LENGTHS = (8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512)


def bucket(length: int, lengths: Sequence[int]) -> int:
    """Return the smallest value in `lengths` that is at least `length`, or the last value if all of them are smaller.

    >>> [bucket(n, (16, 24, 100)) for n in (1, 17, 64, 100)]
    [16, 24, 100, 100]
    """
    return next((size for size in lengths if size >= length), lengths[-1])


def pad(rows: Sequence[TokenRow], count: int, length: int, pad_id: int) -> dict[str, NDArray[np.int32]]:
    """Pad rows of tokens to one batch, which is a dict with Hugging Face's names of a model's inputs.

    Padding rows fill the batch up to `count` rows. The attention mask of a padding row is 1 for the first token only.

    Args:
        rows: at most `count` rows of at most `length` tokens.
        count, length: B and T.
        pad_id: id of `[PAD]`.

    Returns:
        `input_ids`, `token_type_ids`, `attention_mask`: (B, T) int32.
    """
    sizes = np.array([len(row.ids) for row in rows] + [1] * (count - len(rows)))
    return {
        "input_ids": padded_rows([row.ids for row in rows], count, length, pad_id),
        "token_type_ids": padded_rows([row.type_ids for row in rows], count, length),
        "attention_mask": (np.arange(length) < sizes[:, None]).astype(np.int32),
    }


class Bucketed:
    """Runs a function of padded batches on rows of any length, and compiles it once for each padded shape.

    Args:
        function: `(params, state, batch) -> outputs`, where the outputs are a tree of arrays whose first dimension is
            B. The function must not be jitted, because `Bucketed` compiles it.
        longest: largest number of tokens per row that the model accepts.
        pad_id: id of `[PAD]`.
        lengths: lengths T to which rows are padded, in increasing order, such as `LENGTHS`. `longest` is added to these
            values.
        tokens: number of tokens per batch, B · T, for every length T. All batches then take about the same time and
            memory. The default is 1,024 on a CPU and 16,384 elsewhere. On a CPU, larger batches do not fit into the
            caches: with 4,096 tokens per batch, the same rows take 1.6 times as long.
        sizes: numbers of rows B to which a batch is padded, in increasing order. Pass either `sizes` or `tokens`, not
            both. A batch is padded to the next larger size.
        shard: function that places a batch on devices, such as `Layout.shard`. By default, the batch goes to the device
            of the parameters.
        compiled: function that compiles `function`, such as `jax.jit`. In a run of several processes, each one must get
            all outputs; see `funcnet.parallel.compile_whole`.
        own: function that returns the rows of a batch of B rows which this process pads, in ascending order, if `shard`
            needs only these. None means all rows.

    Several threads may call a `Bucketed` at the same time, because a call does not change the object.

    Example:
        >>> from funcnet import text
        >>> tokenizer = text.train_wordpiece(["a b c d e"] * 2, vocab_size=12)
        >>> lengths = lambda params, state, batch: batch["attention_mask"].sum(1)
        >>> count = Bucketed(lengths, longest=64, pad_id=0, lengths=[16, 24], tokens=48)
        >>> [int(n) for n in count(({}, {}), tokenizer.encode_batch(["a b", "c", "a b c d e " * 4]))]
        [4, 3, 22]
    """

    def __init__(
        self,
        function: Callable[[Any, Any, Any], Any],
        *,
        longest: int,
        pad_id: int,
        lengths: Sequence[int],
        tokens: int | None = None,
        sizes: Sequence[int] | None = None,
        shard: Callable[[Any], Any] = lambda batch: batch,
        compiled: Callable[[Any], Any] = jax.jit,
        own: Callable[[int], NDArray[np.int64]] | None = None,
    ):
        self.function = compiled(function)
        self.lengths = (*(length for length in lengths if length < longest), longest)
        self.longest, self.pad_id, self.shard = longest, pad_id, shard
        default = 1024 if jax.default_backend() == "cpu" else 16_384
        self._tokens, self._sizes, self._own = default if tokens is None else tokens, sizes, own

    def sizes(self, length: int) -> tuple[int, ...]:
        """Return the possible numbers of rows B of a batch with this padded length, in increasing order."""
        return (max(1, self._tokens // length),) if self._sizes is None else tuple(self._sizes)

    def shapes(self) -> list[tuple[int, int]]:
        """Return every shape (B, T) of a batch for which a program may be compiled."""
        return [(size, length) for length in self.lengths for size in self.sizes(length)]

    def compile(self, model: tuple[Any, Any], progress: Callable[[int, int], None] = lambda done, of: None) -> None:
        """Compile the programs for all shapes now, so that later calls need no compilation. `progress(done, of)` is
        called after each shape.
        """
        shapes = self.shapes()
        for done, (size, length) in enumerate(shapes, 1):
            jax.block_until_ready(self._dispatch(model, [], size, length))
            progress(done, len(shapes))

    def __call__(
        self,
        model: tuple[Any, Any],
        rows: Sequence[TokenRow],
        should_stop: Callable[[], bool] = lambda: False,
    ) -> list[Any]:
        """Run the model on rows of any length.

        Args:
            model: (params, state), on the devices.
            rows: rows of at most `longest` tokens.
            should_stop: function that is called after each batch. If it returns True, the call ends early.

        Returns:
            The function's output for each row, in the order of the rows, as numpy arrays without the dimension B. If
            the function returns one value per token, the output also has values for the padding tokens. If the call
            ends early, the output is None for the rows on which the model did not run.
        """
        order = sorted(range(len(rows)), key=lambda index: -len(rows[index].ids))
        found: list[Any] = [None] * len(rows)
        running: tuple[list[int], Any] = [], None  # one batch runs while the next is padded
        start = 0
        while start < len(order) and not should_stop():
            length = bucket(len(rows[order[start]].ids), self.lengths)
            sizes = self.sizes(length)
            indices = order[start : start + sizes[-1]]
            start += len(indices)
            outputs = self._dispatch(model, [rows[index] for index in indices], bucket(len(indices), sizes), length)
            _fetch(*running, found)
            running = indices, outputs
        _fetch(*running, found)
        return found

    def _dispatch(self, model: tuple[Any, Any], rows: Sequence[TokenRow], size: int, length: int) -> Any:
        if self._own is not None:
            own = self._own(size)
            rows, size = [rows[row] for row in own[own < len(rows)]], len(own)
        return self.function(*model, self.shard(pad(rows, size, length, self.pad_id)))


def _fetch(indices: list[int], outputs: PyTree, found: list[Any]) -> None:
    leaves, structure = jax.tree.flatten(jax.device_get(outputs))
    for place, index in enumerate(indices):
        found[index] = jax.tree.unflatten(structure, [leaf[place] for leaf in leaves])
