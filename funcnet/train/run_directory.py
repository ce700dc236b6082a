"""The directory of a run: whether one may start there, go on there, or has ended there.

`run.json` appears in it before anything else and holds the configuration, then the facts that were found later (the
digest of a corpus, of a vocabulary), and at last that the run finished. What it holds, a resumed run must agree with.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from funcnet.files import lock_folder, read_json, write_json
from funcnet.train.checkpoints import versions
from funcnet.train.errors import RunError, cannot_write

__all__ = [
    "RUN_FILE",
    "abandon",
    "began_in",
    "configuration",
    "differences",
    "finish",
    "is_finished",
    "lock_run",
    "open_run",
    "pin",
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
    """Begin a run in `folder`, or go on with the one that is there.

    Call it before anything slow: from here on `--resume` works. `lock_run` the folder while the run lasts.

    Args:
        folder: made when needed.
        config: all settings of the run, as JSON; a resumed run must have the same.
        resume: go on.
        writes: names of files that the run will write: a new run refuses a folder that holds one of them.
        free: names in `config` that a resumed run may change.
        defaults: the values of settings that a run of an older release does not record, because it had none of them.

    Returns:
        The folder. Ask `is_finished` next.

    Raises:
        RunError: there is a run (or one of `writes`) and `resume` is False; there is none and it is True; the run there
            has another configuration, whose differences are listed; it is a file; it cannot be written; another process
            runs there.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     out = open_run(folder, {"steps": 100})
        ...     out = open_run(folder, {"steps": 100}, resume=True)
        ...     is_finished(out)
        False
    """
    folder = Path(folder)
    record = folder / RUN_FILE
    if file := next((one for one in (folder, *folder.parents) if one.is_file()), None):
        what = "is a file" if file == folder else f"lies beneath {file}, which is a file"
        raise RunError(f"train.open_run: {folder} {what}; expected a folder, got none. Choose another --out.")
    if resume:
        if not record.exists():
            raise RunError(
                f"train.open_run: {folder}; expected a run to resume, got {_what_is(folder)}: none ever started there. "
                "Leave out --resume to start one."
            )
        before = _record(folder)["config"]
        added = {name: value for name, value in (defaults or {}).items() if name in config}
        sides = [
            {name: value for name, value in side.items() if name not in free} for side in ({**added, **before}, config)
        ]
        _compare("train.open_run", folder, *sides)
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
    """While the block runs, no other process may: two runs in one folder would write over each other's files.

    Args:
        folder: of `open_run`.

    Raises:
        RunError: another process runs there.
        OSError: the folder is not there.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, lock_run(Path(folder)):
        ...     open_run(folder, {"steps": 100})
        Traceback (most recent call last):
        funcnet.train.errors.RunError: train.lock_run: ...: another process is running it; expected ...
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock_folder(folder))
        except BlockingIOError:
            raise RunError(
                f"train.lock_run: {folder}: another process is running it; expected a folder where none does, got a "
                "locked one. Wait for it, or choose another --out."
            ) from None
        yield


def configuration(folder: str | Path) -> dict[str, Any] | None:
    """The settings that the run in `folder` began with, as `open_run` got them as JSON; None where no run began.

    Raises:
        RunError: what lies there is no record of a run.
    """
    return _record(Path(folder))["config"] if (Path(folder) / RUN_FILE).exists() else None


def began_in(folder: str | Path) -> str | None:
    """The folder that the relative paths in a run's settings are meant from.

    Args:
        folder: of `open_run`.

    Returns:
        Its path, or None where the run does not tell it, as those of older releases.

    Raises:
        RunError: what lies there is no record of a run.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     began_in(open_run(folder, {"steps": 100})) == os.getcwd()
        True
    """
    began = _record(Path(folder)).get("began_in")
    return began if isinstance(began, str) else None


def pin(folder: Path, facts: Mapping[str, Any], sources: Mapping[str, str] = {}) -> None:
    """Record what was found out only after the start; a resumed run must find the same.

    Args:
        folder: of `open_run`.
        facts: such as {"corpus": digest}.
        sources: the file that a fact is of, where it is one.

    Raises:
        RunError: the run began with others, which are listed, or their files named.
    """
    record = _record(folder)
    known = {name: value for name, value in record["facts"].items() if name in facts}
    changed: dict[str, list[str]] = {}
    for name in known:
        if name in sources and differences({"": known[name]}, {"": facts[name]}):
            changed.setdefault(sources[name], []).append(name)
    if changed:
        told = " and ".join(f"{source} ({', '.join(names)})" for source, names in changed.items())
        raise RunError(
            f"train.pin: {folder}; expected the files that the run began with, got others: {told} changed since. "
            f"Restore what was there, or begin anew with another --out.{_meant_from(folder, changed)}"
        )
    _compare("train.pin", folder, known, {name: value for name, value in facts.items() if name in known})
    if len(known) < len(facts):
        _write(folder, {**record, "facts": {**record["facts"], **facts}})


def finish(folder: Path) -> None:
    """Record that all is done. The last thing a run does."""
    _write(folder, {**_record(folder), "finished": True})


def abandon(folder: Path) -> None:
    """Take back `open_run` for a run that could not begin, so that it can be called again with better settings."""
    (folder / RUN_FILE).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # not empty: it was there before
        folder.rmdir()


def is_finished(folder: Path) -> bool:
    """Whether nothing is left to do."""
    return bool(_record(folder)["finished"])


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two nested configurations, a line for each name.

    >>> differences({"steps": 100, "model": {"layers": 2}}, {"steps": 200, "model": {"layers": 2}})
    ['steps was 100, now 200']
    """
    old, new = _flat(before), _flat(now)
    shown = {name: [repr(side[name]) if name in side else "absent" for side in (old, new)] for name in old | new}
    return [f"{name} was {was}, now {is_now}" for name, (was, is_now) in shown.items() if was != is_now]


def _meant_from(folder: Path, sources: Iterable[str]) -> str:
    """Where the relative ones of the paths were meant from, if elsewhere: another file may lie here under that name."""
    began = began_in(folder)
    relative = [source for source in sources if not os.path.isabs(source)]
    if not relative or began in (None, os.getcwd()):
        return ""
    return f" If {relative[0]} is another one here: the run's paths are meant from {began}; go there first."


def _require_new(folder: Path, writes: Sequence[str]) -> None:
    there = [name for name in (RUN_FILE, *writes) if (folder / name).exists()]
    if there:
        run = "a run" if RUN_FILE in there else f"{', '.join(there)}"
        advice = "Add --resume to go on with it, or take another --out" if RUN_FILE in there else "Take another --out"
        raise RunError(
            f"train.open_run: {folder} already holds {run}; expected a new or empty folder, got one with {there[0]}. "
            f"{advice}."
        )


def _compare(where: str, folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    found = differences(before, now)
    if found:
        raise RunError(
            f"{where}: {folder}; expected the configuration that the run began with, got another one: "
            f"{'; '.join(found)}. Resume with the first values, or take another --out."
        )


def _record(folder: Path) -> dict[str, Any]:
    record = read_json(folder / RUN_FILE)
    if not isinstance(record, dict) or "finished" not in record or not _are_dicts(record, "config", "facts"):
        raise RunError(
            f"train.open_run: {folder / RUN_FILE}; expected the record of a run, got something else. "
            "Take another --out."
        )
    return record


def _are_dicts(record: Mapping[str, Any], *names: str) -> bool:
    return all(isinstance(record.get(name), dict) for name in names)


def _write(folder: Path, record: Mapping[str, Any]) -> None:
    try:
        write_json(folder / RUN_FILE, record)
    except OSError as error:
        raise cannot_write("train.open_run", folder, error) from error


def _what_is(folder: Path) -> str:
    return f"a folder without {RUN_FILE}" if folder.exists() else "no such folder"


def _flat(config: Any, prefix: str = "") -> dict[str, Any]:
    """{dotted name: value}, lists as JSON gives them back."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = list(value) if isinstance(value, tuple) else value
    return flat
