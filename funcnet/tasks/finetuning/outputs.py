"""A model over all rows of a file, in a few batch shapes: outputs, and the loss where there are labels."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from funcnet.data import Prefetcher
from funcnet.heads import TrainedHead
from funcnet.heads.head import make_forward
from funcnet.parallel import Layout, parallelize
from funcnet.tasks.finetuning.batches import BucketLoader
from funcnet.train import FLOAT32, Precision

__all__ = ["Runner", "make_objective"]


class Runner:
    """Runs a model on rows; compiles once for each length.

    Args:
        net: the description.
        head: the net's.
        layout: where the arrays lie; whatever its kind, the rows of a batch come back in order.
        precision: of the run.
    """

    def __init__(self, net: Any, head: TrainedHead, layout: Layout, precision: Precision = FLOAT32):
        forward = make_forward(net)
        self._layout = dataclasses.replace(layout, kind="jit")  # the program of all devices, which sees every row

        def step(model: Any, batch: Mapping[str, jax.Array], key: None, *, axis_name: None) -> dict[str, Any]:
            params, state = model
            outputs, _ = forward(precision.cast(params), state, batch, False, None)
            out: dict[str, Any] = {"outputs": outputs.astype(np.float32)}
            if "labels" in batch:
                out |= {"sums": head.sums(outputs, batch), "counts": head.counts(batch)}
            return out

        self._step: Callable[..., dict[str, Any]] = parallelize(step, self._layout)

    def __call__(
        self, model: tuple[Any, Any], loader: BucketLoader, should_stop: Callable[[], bool] = lambda: False
    ) -> tuple[list[NDArray[np.float32]], float | None]:
        """The outputs of every row, in the rows' order, and the loss.

        Args:
            model: (params, state), placed.
            loader: of the rows; its last batch is filled up with rows that do not count.
            should_stop: called between batches; True ends the loop with what there is so far.

        Returns:
            (outputs of each row, for tokens as many as the row has; the mean loss, None without labels).
        """
        rows = loader.rows
        outputs: list[NDArray[np.float32]] = [np.zeros(0, np.float32)] * len(rows)
        sums: dict[str, float] = {}
        counts: dict[str, float] = {}
        planned = loader.plan(0)
        by_token = False
        batches = (loader.fill(plan) for plan in planned)
        with Prefetcher(batches, transfer=self._layout.shard) as ahead:
            for plan, batch in zip(planned, ahead, strict=True):
                out = jax.device_get(self._step(model, batch, None))
                for place, row in enumerate(plan.rows):
                    outputs[row] = out["outputs"][place]
                by_token = out["outputs"].ndim == 3
                for term, values in out.get("sums", {}).items():
                    sums[term] = sums.get(term, 0.0) + float(values["loss"])
                    counts[term] = counts.get(term, 0.0) + float(out["counts"][term])
                if should_stop():
                    break
        if by_token:
            outputs = [values[:length] for values, length in zip(outputs, rows.lengths, strict=True)]
        loss = sum(total / max(1.0, counts[term]) for term, total in sums.items()) if sums else None
        return outputs, loss


def make_objective(net: Any, head: TrainedHead) -> Callable[..., tuple[Any, Any]]:
    """The objective of `train.make_step`."""
    forward = make_forward(net)

    def objective(
        params: Any, state: Any, batch: Mapping[str, jax.Array], *, training: bool, rng: Any
    ) -> tuple[Any, Any]:
        outputs, state = forward(params, state, batch, training, rng)
        return head.sums(outputs, batch), state

    return objective
