"""The run directory and its record, which determine whether a run may start or resume in the directory, and whether the
run has finished.

The run record, `run.json`, is the first file in the directory. The record contains the configuration, facts that are
found later (such as the digest of the corpus), and whether the run has finished. A run can be resumed only if its
settings and facts agree with the run record.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from funcnet.arguments import path as as_path
from funcnet.files import lock_folder, read_json, write_json
from funcnet.settings import differences
from funcnet.train.errors import RunError, cannot_write
from funcnet.train.versions import versions

__all__ = [
    "RUN_FILE",
    "began_in",
    "cancel_run",
    "check_facts",
    "configuration",
    "extend_run",
    "finish",
    "is_finished",
    "lock_run",
    "open_run",
    "record_facts",
]

RUN_FILE = "run.json"


def open_run(
    folder: str | Path,
    config: Mapping[str, Any],
    *,
    resume: bool = False,
    writes: Sequence[str] = (),
    free: Sequence[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> Path:
    """Start a run in `folder`, or resume the run in it.

    Call this function before anything slow, because a run can be resumed only after this call. Use the context manager
    `lock_run` during the run.

    Args:
        folder: the run directory. It is created if it does not exist.
        config: all settings of the run as JSON. A resumed run must have the same settings.
        resume: if True, resume the run in `folder`. If False, start a new run.
        writes: names of the files that the run will write. A new run refuses a folder that contains one of these files.
        free: names in `config` that a resumed run may change.
        defaults: default values of the settings, for settings that an older release did not record.

    Returns:
        The run directory. Call `is_finished` next.

    Raises:
        RunError: if `folder` is a file, cannot be written, or is used by another process; if `resume` is False, and the
            folder contains a run or one of the files in `writes`; or if `resume` is True, and the folder contains no
            run, or a run with a different configuration.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     out = open_run(folder, {"steps": 100})
        ...     out = open_run(folder, {"steps": 100}, resume=True)
        ...     is_finished(out)
        False
    """
    folder = as_path("train.open_run", "folder", folder)
    record = folder / RUN_FILE
    if file := next((one for one in (folder, *folder.parents) if one.is_file()), None):
        what = "is a file" if file == folder else f"is inside {file}, which is a file"
        raise RunError(f"train.open_run: {folder} {what}; expected a folder, got a file. Use another --out.")
    if resume:
        if not record.exists():
            got = f"a folder without {RUN_FILE}" if folder.exists() else "no such folder"
            raise RunError(
                f"train.open_run: there is no run to resume in {folder}; expected a folder with {RUN_FILE}, got {got}. "
                "Omit --resume to start a run."
            )
        before = _record(folder)["config"]
        added = {name: value for name, value in (defaults or {}).items() if name in config}
        compared = [
            {name: value for name, value in side.items() if name not in free} for side in ({**added, **before}, config)
        ]
        _compare(folder, *compared)
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock_run(folder):
            _require_new(folder, writes)
            facts = {"began_in": os.getcwd(), "facts": {}, "versions": versions(), "finished": False}
            write_json(record, {"config": dict(config), **facts})
    except OSError as error:
        raise cannot_write("train.open_run", folder, error) from error
    return folder


@contextlib.contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Lock a run directory while the block runs, so that two runs cannot overwrite each other's files.

    Args:
        folder: the run directory from `open_run`.

    Raises:
        RunError: if another process has the lock.
        OSError: if the folder does not exist.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, lock_run(Path(folder)):
        ...     open_run(folder, {"steps": 100})
        Traceback (most recent call last):
        funcnet.train.errors.RunError: train.lock_run: ... is locked by another process; expected ...
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock_folder(folder))
        except BlockingIOError:
            raise RunError(
                f"train.lock_run: {folder} is locked by another process; expected a folder without a running process, "
                "got a locked one. Wait for the process to end, or use another --out."
            ) from None
        yield


def configuration(folder: str | Path) -> dict[str, Any] | None:
    """Return the configuration with which the run in `folder` started.

    Args:
        folder: a run directory.

    Returns:
        The `config` that was passed to `open_run`, or None if there is no run in `folder`.

    Raises:
        RunError: if the run.json in the folder is not a run record.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     configuration(open_run(folder, {"steps": 100}))
        {'steps': 100}
    """
    return _record(Path(folder))["config"] if (Path(folder) / RUN_FILE).exists() else None


def began_in(folder: str | Path) -> str | None:
    """Return the working directory in which a run started. Relative paths in the settings of the run are relative to
    this directory.

    Args:
        folder: the run directory.

    Returns:
        The path of the directory, or None for a run of an older release, which did not record it.

    Raises:
        RunError: if the run.json in the folder is not a run record.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     began_in(open_run(folder, {"steps": 100})) == os.getcwd()
        True
    """
    began = _record(Path(folder)).get("began_in")
    return began if isinstance(began, str) else None


def record_facts(folder: Path, facts: Mapping[str, Any], sources: Mapping[str, str] = {}) -> None:
    """Record facts that are found only after the start, such as digests of the data. When the run is resumed, these
    facts must be the same.

    Args:
        folder: the run directory.
        facts: {name: JSON value}, such as {"corpus": digest}.
        sources: {name of a fact: the file that it describes}, for facts about files.

    Raises:
        RunError: if a fact differs from the recorded one. The message names the files, or lists the values.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     out = open_run(folder, {"steps": 100})
        ...     record_facts(out, {"rows": 500})
        ...     record_facts(out, {"rows": 400})  # when the run is resumed
        Traceback (most recent call last):
        funcnet.train.errors.RunError: train.record_facts: ... have changed; ...: rows was 500, now 400. ...
    """
    check_facts(folder, facts, sources, where="train.record_facts", otherwise="start a new run with another --out")
    record = _record(folder)
    if any(name not in record["facts"] for name in facts):
        _write(folder, {**record, "facts": {**record["facts"], **facts}})


def check_facts(
    folder: Path, facts: Mapping[str, Any], sources: Mapping[str, str] = {}, *, where: str, otherwise: str = ""
) -> None:
    """Compare facts with those that the run has recorded, without writing anything. Facts that the run has not recorded
    are not compared.

    Args:
        folder: the run directory.
        facts, sources: as in `record_facts`.
        where: name of the caller, for messages.
        otherwise: what the user can do instead of restoring the data, for messages.

    Raises:
        RunError: if a fact differs from the recorded one. The message names the files, or lists the values.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     check_facts(open_run(folder, {"steps": 100}), {"corpus": "ab12"}, where="quantize")
    """
    known = {name: value for name, value in _record(folder)["facts"].items() if name in facts}
    otherwise = f", or {otherwise}" if otherwise else ""
    changed: dict[str, list[str]] = {}
    for name in known:
        if name in sources and differences({"": known[name]}, {"": facts[name]}):
            changed.setdefault(sources[name], []).append(name)
    if changed:
        files = " and ".join(f"{source} ({', '.join(names)})" for source, names in changed.items())
        raise RunError(
            f"{where}: files have changed since the run in {folder} started; expected the original ones, got changed "
            f"ones: {files}. Restore the files{otherwise}.{_relative_path_hint(folder, changed)}"
        )
    if found := differences(known, {name: facts[name] for name in known}):
        raise RunError(
            f"{where}: the data of the run in {folder} have changed; expected the original values, got different ones: "
            f"{'; '.join(found)}. Restore the original values{otherwise}."
        )


def extend_run(folder: Path, config: Mapping[str, Any]) -> None:
    """Record a new configuration with more steps, so that a run continues even if it has finished. The checkpoints and
    the metrics of the run are kept.

    Args:
        folder: the run directory, locked by `lock_run`.
        config: the new configuration.
    """
    (folder / "eval.json").unlink(missing_ok=True)  # it would mark the training as concluded
    _write(folder, {**_record(folder), "config": dict(config), "finished": False})


def finish(folder: Path) -> None:
    """Record in run.json that a run has finished. Call this last.

    Args:
        folder: the run directory.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     out = open_run(folder, {"steps": 100})
        ...     finish(out)
        ...     is_finished(out)
        True
    """
    _write(folder, {**_record(folder), "finished": True})


def cancel_run(folder: Path, writes: Sequence[str] = ()) -> None:
    """Undo `open_run` for a run that could not start, so that a corrected command can use the same directory.

    Args:
        folder: the run directory, which is removed if it contains nothing except the run record.
        writes: names of the files and folders that the run writes. If the run has written one of them, nothing is
            removed, because the run can be resumed. An empty log does not count.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     out = open_run(f"{folder}/run", {"steps": 100})
        ...     cancel_run(out, writes=["model.safetensors"])
        ...     out.exists()
        False
    """
    if any(_has_content(path / name) for path in (folder, *folder.glob("seed-*")) for name in writes):
        return
    (folder / "metrics.jsonl").unlink(missing_ok=True)
    (folder / RUN_FILE).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # the folder existed before and has other files
        folder.rmdir()


def _has_content(path: Path) -> bool:
    return any(path.iterdir()) if path.is_dir() else path.is_file() and path.stat().st_size > 0


def is_finished(folder: Path) -> bool:
    """Return whether run.json records that the run has finished.

    Args:
        folder: the run directory.

    Raises:
        RunError: if the folder contains no run record.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     is_finished(open_run(folder, {"steps": 100}))
        False
    """
    return bool(_record(folder)["finished"])


def _relative_path_hint(folder: Path, sources: Iterable[str]) -> str:
    """Return a hint if the run started in another directory, in which a relative path may name another file. Otherwise,
    return an empty string.
    """
    began = began_in(folder)
    relative = [source for source in sources if not os.path.isabs(source)]
    if not relative or began in (None, os.getcwd()):
        return ""
    return f" The run started in {began}; if {relative[0]} is relative to it, change to that folder first."


def _require_new(folder: Path, writes: Sequence[str]) -> None:
    found = [name for name in (RUN_FILE, *writes) if (folder / name).exists()]
    if found:
        is_run = RUN_FILE in found
        content = "a run" if is_run else ", ".join(found)
        advice = "Add --resume to continue the run, or use another --out." if is_run else "Use another --out."
        raise RunError(
            f"train.open_run: {folder} already contains {content}; expected a new or empty folder, got one with "
            f"{found[0]}. {advice}"
        )


def _compare(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    found = differences(before, now)
    if found:
        raise RunError(
            f"train.open_run: the configuration of the run in {folder} has changed; expected the original values, got "
            f"different ones: {'; '.join(found)}. Resume with the original values, or use another --out."
        )


def _record(folder: Path) -> dict[str, Any]:
    record = read_json(folder / RUN_FILE)
    if record is None and not (folder / RUN_FILE).exists():
        raise RunError(f"train: {folder} has no run; expected {RUN_FILE}, got no such file. Check the path.")
    if (
        not isinstance(record, dict)
        or "finished" not in record
        or not all(isinstance(record.get(name), dict) for name in ("config", "facts"))
    ):
        raise RunError(
            f"train: {folder / RUN_FILE} is not a run record; expected an object with config, facts and "
            "finished, got something else. Use another --out."
        )
    return record


def _write(folder: Path, record: Mapping[str, Any]) -> None:
    try:
        write_json(folder / RUN_FILE, record)
    except OSError as error:
        raise cannot_write("train.open_run", folder, error) from error
