"""Starts `funcnet ARGUMENTS` with batches that are broken on purpose: `python -m tests.tasks.faulty FAULTS ARGUMENTS…`.

FAULTS is JSON: {index of a batch: "nan" or "labels"}. "nan" makes a weight of each row of pretraining, or a pixel of
each image, NaN; "labels" gives images wrong labels. `funcnet replay` reads the data again, so it needs the same FAULTS.
"""

import json
import sys

import numpy as np

from funcnet.cli import main
from funcnet.tasks.images.task import ImageTask
from funcnet.tasks.pretraining.task import PretrainingTask


def broken(batch, fault):
    if fault == "labels":
        return {**batch, "label": (batch["label"] + 5) % 10}
    name = "masked_weights" if "masked_weights" in batch else "image"
    values = np.array(batch[name])
    values.reshape(len(values), -1)[:, 0] = np.nan  # of each row: a process may have only some
    return {**batch, name: values}


def break_batches(task, faults):
    batches = task.batches

    def own(self, seed):
        read = batches(self, seed)

        def from_step(start, *position):
            for index, batch in enumerate(read(start, *position), start):
                yield broken(batch, faults[index]) if index in faults else batch

        return from_step

    task.batches = own


if __name__ == "__main__":
    faults = {int(index): fault for index, fault in json.loads(sys.argv[1]).items()}
    for task in (PretrainingTask, ImageTask):
        break_batches(task, faults)
    main(sys.argv[2:])
