"""Training, of any model: the state, the step, the loop, and what a run leaves on disk. It knows no model."""

from funcnet.train.checkpoints import Checkpoints, Restored, resume
from funcnet.train.errors import RunError
from funcnet.train.interruption import Interruption
from funcnet.train.loop import Cadence, Outcome, train
from funcnet.train.metrics import JsonLines, TensorBoard, read_metrics
from funcnet.train.precision import BFLOAT16, FLOAT32, Precision
from funcnet.train.progress import TrainingProgress
from funcnet.train.report import Matrix, Panel, draw_report
from funcnet.train.run_directory import abandon, began_in, configuration, finish, is_finished, lock_run, open_run, pin
from funcnet.train.state import TrainState, create
from funcnet.train.step import evaluate, make_eval_step, make_step

__all__ = [
    "BFLOAT16",
    "FLOAT32",
    "Cadence",
    "Checkpoints",
    "Interruption",
    "JsonLines",
    "Matrix",
    "Outcome",
    "Panel",
    "Precision",
    "Restored",
    "RunError",
    "TensorBoard",
    "TrainState",
    "TrainingProgress",
    "began_in",
    "configuration",
    "create",
    "draw_report",
    "evaluate",
    "finish",
    "is_finished",
    "lock_run",
    "make_eval_step",
    "make_step",
    "open_run",
    "pin",
    "read_metrics",
    "resume",
    "train",
]
