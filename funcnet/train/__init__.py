"""Training of any model: the training loop, the train state, the training step, and the files that a run writes. This
package does not import any model.
"""

from funcnet.train.batches import LoaderBatches
from funcnet.train.checkpoints import Checkpoints, Restored, resume
from funcnet.train.errors import RunError
from funcnet.train.faults import Fault
from funcnet.train.fit import Fitted, fit
from funcnet.train.fit_evaluation import Evaluated
from funcnet.train.interruption import Interruption, Stopped
from funcnet.train.loop import Cadence, Outcome, train
from funcnet.train.means import RunningMeans
from funcnet.train.metrics_files import JsonLines, TensorBoard, read_metrics
from funcnet.train.precision import BFLOAT16, FLOAT32, Precision
from funcnet.train.progress import TrainingProgress
from funcnet.train.recovery import read_bundle
from funcnet.train.replay import replay_step
from funcnet.train.report_picture import Matrix, Panel, draw_report
from funcnet.train.run import run_task
from funcnet.train.run_directory import (
    began_in,
    cancel_run,
    configuration,
    finish,
    is_finished,
    lock_run,
    open_run,
    record_facts,
)
from funcnet.train.setting_groups import CheckpointSettings, DeviceSettings, LoopSettings, RunSettings, open_layout
from funcnet.train.state import TrainState, create
from funcnet.train.step import evaluate, make_eval_step, make_step
from funcnet.train.task_interface import Best, Conclusion, Context, Ended, Task

__all__ = [
    "BFLOAT16",
    "FLOAT32",
    "Best",
    "Cadence",
    "CheckpointSettings",
    "Checkpoints",
    "Conclusion",
    "Context",
    "DeviceSettings",
    "Ended",
    "Evaluated",
    "Fault",
    "Fitted",
    "Interruption",
    "JsonLines",
    "LoaderBatches",
    "LoopSettings",
    "Matrix",
    "Outcome",
    "Panel",
    "Precision",
    "Restored",
    "RunError",
    "RunSettings",
    "RunningMeans",
    "Stopped",
    "Task",
    "TensorBoard",
    "TrainState",
    "TrainingProgress",
    "began_in",
    "cancel_run",
    "configuration",
    "create",
    "draw_report",
    "evaluate",
    "finish",
    "fit",
    "is_finished",
    "lock_run",
    "make_eval_step",
    "make_step",
    "open_layout",
    "open_run",
    "read_bundle",
    "read_metrics",
    "record_facts",
    "replay_step",
    "resume",
    "run_task",
    "train",
]


def __dir__() -> list[str]:
    """Return the public names, without submodules and imports."""
    return __all__
