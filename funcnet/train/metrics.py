"""What a run measured, on disk: metrics.jsonl, an object a logged step, and TensorBoard events.

Each step is there once, whatever was killed: a run that resumes at step s first cuts away what lies after s, and a
last line that was only half written.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from funcnet.files import replacing
from funcnet.train.errors import RunError, cannot_write

__all__ = ["JsonLines", "TensorBoard", "read_metrics"]


class JsonLines:
    """Appends an object a step to a file of lines.

    Args:
        path: of metrics.jsonl.
        step: the updates made so far: lines of later steps go. 0 starts anew.

    Raises:
        RunError: the file cannot be written.

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
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _cut(self.path, step)
            self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115  closed by close()
        except OSError as error:
            raise cannot_write("train.JsonLines", self.path, error) from error

    def __enter__(self) -> "JsonLines":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """One line, in one write: it survives the process from here on.

        Raises:
            RunError: the disk is full.
        """
        try:
            self._file.write(json.dumps({"step": step, **values}).encode() + b"\n")
        except OSError as error:
            raise cannot_write("train.JsonLines", self.path, error) from error

    def sync(self) -> None:
        """Let the lines outlive a loss of power: before a checkpoint that counts on them."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Done."""
        self._file.close()


class TensorBoard:
    """Writes scalars as TensorBoard events, `train/` and `eval/` apart.

    Args:
        folder: of the events.
        step: the updates made so far: TensorBoard drops what an earlier process wrote of later steps.
    """

    def __init__(self, folder: str | Path, step: int):
        from tensorboardX import SummaryWriter  # half a second that `--help` need not wait for

        try:
            # names are made of seconds: without a suffix a run resumed within the same one would overwrite the file
            self._writer = SummaryWriter(str(folder), purge_step=step + 1, filename_suffix=f".{step:08d}")
        except OSError as error:
            raise cannot_write("train.TensorBoard", Path(folder), error) from error

    def __enter__(self) -> "TensorBoard":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def write(self, step: int, values: Mapping[str, Any]) -> None:
        """One scalar a value."""
        for name, value in values.items():
            tag = f"eval/{name.removeprefix('eval_')}" if name.startswith("eval_") else f"train/{name}"
            self._writer.add_scalar(tag, value, step)

    def sync(self) -> None:
        """Write what waits in memory."""
        self._writer.flush()

    def close(self) -> None:
        """Done."""
        self._writer.close()


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """The objects of a metrics.jsonl, but for a last line that was only half written.

    Raises:
        RunError: a line before the last is no JSON object.
    """
    return [json.loads(line) for line in _sound_lines(Path(path))]


def _sound_lines(path: Path) -> list[bytes]:
    *lines, rest = path.read_bytes().split(b"\n")  # what has no newline behind it was cut short
    for number, line in enumerate(lines, start=1):
        try:
            sound = isinstance(json.loads(line)["step"], int)
        except (ValueError, KeyError, TypeError):
            sound = False
        if not sound:
            raise RunError(
                f"train.metrics: {path}, line {number}; expected a JSON object with a 'step', got {line[:40]!r}. "
                "Remove the line."
            )
    del rest
    return lines


def _cut(path: Path, step: int) -> None:
    if not path.exists():
        return
    kept = [line + b"\n" for line in (_sound_lines(path) if step else []) if json.loads(line)["step"] <= step]
    with replacing(path) as part:
        part.write_bytes(b"".join(kept))
