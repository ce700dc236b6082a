"""The metrics of a run on disk: metrics.jsonl, with one object per logged step, and TensorBoard events.

Each step appears once, even if the run was killed. A run that resumes at step s first removes the lines of steps after
s, and an incomplete last line.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from funcnet.arguments import integer
from funcnet.arguments import path as as_path
from funcnet.files import write_bytes
from funcnet.train.errors import RunError, cannot_write

__all__ = ["JsonLines", "TensorBoard", "read_metrics"]


class JsonLines:
    """Appends one line per step, a JSON object with the metrics of the step, to a file.

    Args:
        path: the file, metrics.jsonl.
        step: the number of updates made so far. Lines of later steps are removed from the file. With 0, the file
            becomes empty.

    Raises:
        RunError: if the file cannot be written, or a line in it is not a JSON object with the key `step`.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = Path(folder.name) / "metrics.jsonl"
        >>> with JsonLines(path, step=0) as log:
        ...     log.write(1, {"loss": 3.0})
        ...     log.write(2, {"loss": 2.0})
        >>> with JsonLines(path, step=1) as log:  # a run that resumes at step 1
        ...     log.write(2, {"loss": 2.0})
        >>> read_metrics(path)
        [{'step': 1, 'loss': 3.0}, {'step': 2, 'loss': 2.0}]
    """

    def __init__(self, path: str | Path, step: int):
        self.path = as_path("train.JsonLines", "path", path)
        integer("train.JsonLines", "step", step, 0)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _truncate(self.path, step)
            self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115  closed by close()
        except OSError as error:
            raise cannot_write("train.JsonLines", self.path, error) from error

    def __enter__(self) -> "JsonLines":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Append the line of a step to the file, in a single write operation. The line is kept even if the process is
        killed immediately afterwards.

        Args:
            step: the number of the step.
            values: the metrics of the step.

        Raises:
            RunError: if the disk is full.
        """
        try:
            self._file.write(json.dumps({"step": step, **values}).encode() + b"\n")
        except OSError as error:
            raise cannot_write("train.JsonLines", self.path, error) from error

    def sync(self) -> None:
        """Flush the lines to the disk, so that a checkpoint can rely on them after a power failure."""
        os.fsync(self._file.fileno())

    def rewind(self, step: int) -> None:
        """Remove the lines of steps after `step` from the file."""
        self.close()
        self.__init__(self.path, step)  # type: ignore[misc]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TensorBoard:
    """Writes scalars as TensorBoard events, under `train/` and `eval/`.

    Args:
        folder: the folder of the event files.
        step: the number of updates made so far. If an earlier process wrote events for later steps, TensorBoard ignores
            these events.

    Raises:
        RunError: if the folder cannot be written.
    """

    def __init__(self, folder: str | Path, step: int):
        self.folder, self._files = as_path("train.TensorBoard", "folder", folder), 0
        self._step = integer("train.TensorBoard", "step", step, 0)
        self._writer: Any = None  # opened by the first event
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write("train.TensorBoard", self.folder, error) from error

    def _opened(self) -> Any:
        if self._writer is None:
            # Imported only now: the import takes half a second, or two seconds where torch is installed, which it
            # imports too. The first step is then running on the devices.
            from tensorboardX import SummaryWriter

            # File names contain the time in seconds. Without a suffix, a run that resumes within the same second would
            # overwrite the file.
            suffix = f".{self._step:08d}" + (f".{self._files}" if self._files else "")
            try:
                self._writer = SummaryWriter(str(self.folder), purge_step=self._step + 1, filename_suffix=suffix)
            except OSError as error:
                raise cannot_write("train.TensorBoard", self.folder, error) from error
        return self._writer

    def __enter__(self) -> "TensorBoard":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """Write each metric of a step as a scalar for TensorBoard.

        Args:
            step: the number of the step.
            values: the metrics of the step. Names that begin with `eval_` appear under `eval/`. Lists, such as a
                confusion matrix, are omitted.
        """
        for name, value in values.items():
            if isinstance(value, list):
                continue
            tag = f"eval/{name.removeprefix('eval_')}" if name.startswith("eval_") else f"train/{name}"
            self._opened().add_scalar(tag, value, step)

    def sync(self) -> None:
        """Write the buffered events to the file."""
        if self._writer is not None:
            self._writer.flush()

    def rewind(self, step: int) -> None:
        """Begin a new file, which makes TensorBoard ignore the events after `step` in the earlier files."""
        self.close()
        self._files, self._step = self._files + 1, step

    def close(self) -> None:
        """Close the event file. A folder without an event is removed."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        with contextlib.suppress(OSError):  # the folder has files
            self.folder.rmdir()


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """Return the rows of a metrics.jsonl file. An incomplete last line is ignored.

    Args:
        path: the file.

    Returns:
        One dict per logged step, with `step` and the metrics.

    Raises:
        FileNotFoundError: if the file does not exist.
        RunError: if a line is not a JSON object with a step.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "metrics.jsonl").write_text('{"step": 1, "loss": 3.0}\\n{"step": 2, "lo')
        ...     read_metrics(f"{folder}/metrics.jsonl")  # of a run that was killed
        [{'step': 1, 'loss': 3.0}]
    """
    return [json.loads(line) for line in _valid_lines(as_path("train.read_metrics", "path", path))]


def _valid_lines(path: Path) -> list[bytes]:
    lines = path.read_bytes().split(b"\n")[:-1]  # the text after the last newline is empty or an incomplete line
    for number, line in enumerate(lines, start=1):
        try:
            is_valid = isinstance(json.loads(line)["step"], int)
        except (ValueError, KeyError, TypeError):
            is_valid = False
        if not is_valid:
            raise RunError(
                f"train.read_metrics: {path}, line {number} is not a metrics record; expected a JSON object with a "
                f"'step', got {line[:40]!r}. Remove the line."
            )
    return lines


def _truncate(path: Path, step: int) -> None:
    """Remove the lines of steps after `step`, and an incomplete last line, from a metrics.jsonl file."""
    if not path.exists():
        return
    kept = [line + b"\n" for line in (_valid_lines(path) if step else []) if json.loads(line)["step"] <= step]
    write_bytes(path, b"".join(kept))
