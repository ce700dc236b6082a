"""Finds the training steps that fail, and says what the training loop does after such a step.

- A step is *skipped* if the model or the state of the optimizer would not be finite after it. The step itself does not
  change them (`make_step`).
- A step is *nonfinite* if its loss is not finite, but the optimizer has made finite updates, for example with
  `optax.zero_nans`. The step counts like any other.
- A step is a *spike* if its loss exceeds a given multiple of the moving average of the losses. The run goes back to a
  checkpoint from before the spike, and continues with the batches after the spike.

All kinds of fault depend only on the metrics of the steps. A run that is killed and resumed therefore finds the same
faults at the same steps.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from funcnet.train.errors import RunError
from funcnet.train.nan_trace import describe_broken
from funcnet.tree import PyTree

__all__ = ["Fault", "FaultFinder", "Recovery"]

WINDOW = 50  # steps of the moving average
LEAST = 20  # steps without a fault, before which no step is a spike
PATIENCE = 10  # skipped or nonfinite steps in a row
MOST_REWINDS = 10


@dataclasses.dataclass(frozen=True)
class Fault:
    """The record of a training step that was skipped, or whose loss is not finite or a spike.

    Attributes:
        kind: "skipped", "nonfinite" or "spike".
        step: the number of the step.
        batch: the index of the step's batch in the data, from 0.
        loss: the loss of the step.
        grad_norm: the global norm of the gradient of the step.
        usual: moving average of the losses before the step. None in the first 20 steps.
        layer: the first layer whose output or gradient is not finite. None if the step ran without `nan_trace`.
    """

    kind: Literal["skipped", "nonfinite", "spike"]
    step: int
    batch: int
    loss: float
    grad_norm: float
    usual: float | None = None
    layer: str | None = None

    def __str__(self) -> str:
        values = f"loss {self.loss:g}, gradient norm {self.grad_norm:g}"
        what = {
            "skipped": f"was skipped: {values}",
            "nonfinite": f"has a loss that is not finite, but finite updates: {values}",
            "spike": f"was a spike: loss {self.loss:.4g}, usually {self.usual or 0:.4g}",
        }[self.kind]
        return f"Step {self.step:,} {what}{f' ({self.layer})' if self.layer else ''}."


class Recovery(Protocol):
    """The interface through which the training loop stores a failed step and goes back; see
    `funcnet.train.recovery`.
    """

    def keep(self, fault: Fault, batch: PyTree) -> Mapping[str, Any]:
        """Save what is needed to repeat the failed step, and return the record of the fault, as JSON."""

    def rewind(self, fault: Fault) -> Any:
        """Restore a checkpoint from before the failed step, and return it as a `Restored`."""

    def changed(self, events: list[Mapping[str, Any]]) -> None:
        """Write the records of all faults so far."""


class FaultFinder:
    """Finds the steps of a run that were skipped, or whose loss is not finite or a spike.

    Args:
        factor: a loss above `factor` times the moving average is a spike. 0 finds no spikes.
        record: the result of the method `record` in an earlier process of the run, from which this `FaultFinder`
            continues.

    Example:
        >>> finder = FaultFinder(2.0)
        >>> for step in range(1, 31):
        ...     assert finder.find(step, step - 1, {"loss": 3.0, "grad_norm": 1.0, "skipped": 0.0}) is None
        >>> print(finder.find(31, 30, {"loss": 6.5, "grad_norm": 50.0, "skipped": 0.0}))
        Step 31 was a spike: loss 6.5, usually 3.
    """

    def __init__(self, factor: float, record: Mapping[str, Any] | None = None):
        self.factor = factor
        self.events: list[Mapping[str, Any]] = [] if record is None else list(record["events"])
        self._mean: float = 0.0
        self._steps = self._in_a_row = 0
        self._read(record)

    def find(
        self, step: int, batch: int, values: Mapping[str, float], trace: Callable[[], Any] | None = None
    ) -> Fault | None:
        """Return the `Fault` of a step that failed. If the step did not fail, add its loss to the moving average of the
        losses, and return None.

        Args:
            step: the number of the step.
            batch: the index of the batch of the step.
            values: the metrics of the step.
            trace: function that returns flags, which say for each layer whether its values are finite; see
                `describe_broken`.
        """
        loss, grad_norm = values.get("loss", 0.0), values.get("grad_norm", 0.0)
        usual = self._mean if self._steps >= LEAST else None
        is_skipped = bool(values.get("skipped", 0.0))
        if is_skipped or not math.isfinite(loss):
            self._in_a_row += 1
            layer = None if trace is None else describe_broken(*trace())
            return Fault("skipped" if is_skipped else "nonfinite", step, batch, loss, grad_norm, usual, layer)
        self._in_a_row = 0
        if self.factor and usual is not None and loss > self.factor * usual:
            return Fault("spike", step, batch, loss, grad_norm, usual)
        self._steps += 1
        self._mean += (loss - self._mean) / min(self._steps, WINDOW)
        return None

    def check(self, fault: Fault) -> None:
        """Check that the run can continue after a fault.

        Raises:
            RunError: if a step is skipped before any step has succeeded, if too many steps in a row are skipped or have
                a loss that is not finite, or if the loss spikes too often.
        """
        name = next((name for name in ("loss", "grad_norm") if not math.isfinite(getattr(fault, name))), "the update")
        wrong = f"train.train: {name} at step {fault.step}"
        got = f"{getattr(fault, name):g}" if hasattr(fault, name) else "NaN or infinity from the optimizer"
        expected = f"expected a finite number, got {got}{f' ({fault.layer})' if fault.layer else ''}"
        if fault.kind == "skipped" and not self._steps:
            raise RunError(
                f"{wrong}; {expected}. Look for ids out of range and for NaN in the data: nn.checked(net) finds the "
                "first such value."
            )
        if self._in_a_row >= PATIENCE:
            raise RunError(
                f"{wrong}, the last of {PATIENCE} {fault.kind} steps in a row; {expected}. Lower the learning rate or "
                "lengthen the warm-up. The last checkpoint is from an earlier step."
            )
        if sum(event["kind"] == "spike" for event in self.events) > MOST_REWINDS:
            raise RunError(
                f"train.train: the loss has spiked more than {MOST_REWINDS} times; expected a run that recovers, got "
                f"another spike at step {fault.step}. Lower the learning rate, or raise --rewind-above."
            )

    def rewound(self, record: Mapping[str, Any] | None) -> None:
        """Restore the moving average of the losses from a checkpoint. The list of all faults of the run, `events`, is
        not changed.

        Args:
            record: the result of `record` in the checkpoint, or None at the start of the run.
        """
        self._read(record)

    def _read(self, record: Mapping[str, Any] | None) -> None:
        self._mean, self._steps, self._in_a_row = (0.0, 0, 0) if record is None else record["losses"]

    def record(self) -> dict[str, Any]:
        """Return the state of this `FaultFinder` as JSON, to save it in a checkpoint."""
        return {"losses": [self._mean, self._steps, self._in_a_row], "events": list(self.events)}
