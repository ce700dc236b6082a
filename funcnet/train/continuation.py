"""What a resumed run needs in addition to the train state."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["Continuation"]


@dataclasses.dataclass(frozen=True)
class Continuation:
    """The values that a resumed run needs in addition to the train state. A checkpoint stores it as JSON.

    Attributes:
        next_batch: index of the batch of the next step. If the run has gone back after a spike of the loss, this number
            is larger than the number of steps.
        position: the position in the data, as the `state_dict()` of the batches returns it. None if the index of the
            batch is enough.
        unlogged: the sums of the metrics since the last line of the log; see `RunningMeans.record`. None if there are
            none.
        owed: the metrics of the step of the checkpoint, if a signal had interrupted the evaluation of this step, else
            None. The resumed run evaluates the model and logs both.
        faults: the faults so far; see `FaultFinder.record`. None at the start of a run.
    """

    next_batch: int
    position: Any = None
    unlogged: Mapping[str, Any] | None = None
    owed: Mapping[str, float] | None = None
    faults: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, about: Mapping[str, Any] | None, step: int) -> "Continuation":
        """Return the continuation that a checkpoint stores.

        Args:
            about: the `about` of the restored checkpoint. It is empty or None if the run starts at step 0.
            step: the number of steps made.

        Example:
            >>> Continuation.read({"data": {"next_step": 7}, "seed": 0}, step=5).next_batch
            7
        """
        about = about or {}
        data = about.get("data", {"next_step": step})
        rest = {name: about.get(name) for name in ("unlogged", "owed", "faults")}
        return cls(data["next_step"], data.get("position"), **rest)

    def as_json(self) -> dict[str, Any]:
        """Return the entries of the `about` of a checkpoint, without those that are None."""
        data = {"next_step": self.next_batch, "position": self.position}
        entries = {"unlogged": self.unlogged, "owed": self.owed, "faults": self.faults}
        present = lambda values: {name: value for name, value in values.items() if value is not None}
        return {"data": present(data), **present(entries)}

    def batches(self, batches: Callable[..., Iterable[Any]]) -> Iterable[Any]:
        """Return the batches from the next one on, from the function `batches(start_step)` of a run."""
        return batches(self.next_batch, *([] if self.position is None else [self.position]))
