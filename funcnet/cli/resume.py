"""The option --resume of the training commands."""

import argparse
import os
from pathlib import Path
from typing import Any

from funcnet.settings import flag, flat, from_record
from funcnet.train import began_in, configuration

__all__ = ["moved_path_hint", "resumed_settings"]


def resumed_settings(kind: type, arguments: list[str]) -> Any:
    """Return the recorded settings of the run to resume, which are the defaults for omitted arguments.

    Args:
        kind: class of the settings of a training command.
        arguments: the arguments of the command.

    Returns:
        The settings of the run in the folder `--out`, or None if `--resume` is not given or the folder has no usable
        record.

    Raises:
        RunError: if the file run.json in the folder is not a run record.
    """
    if "--resume" not in arguments:
        return None
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--out", type=Path)
    try:
        out = parser.parse_known_args(arguments)[0].out
    except argparse.ArgumentError:
        return None  # --out has no value: the main parser reports it
    known = configuration(out) if out else None
    if known is None:
        return None
    for given, other in (("--mesh", "devices"), ("--devices", "mesh")):  # two forms of one setting
        if any(argument.split("=")[0] == given for argument in arguments):
            known = {**known, other: None}
    try:
        return from_record(kind, known, out=out)
    except TypeError:
        return None  # a run of another command or release, or an edited record


def moved_path_hint(settings: Any, before: Any) -> str:
    """Return a hint if the run is resumed from a different working directory, in which a relative path of the run does
    not exist.

    Args:
        settings: the settings from the command line.
        before: the settings from `resumed_settings`.

    Returns:
        A sentence with the path and the directory to change to, or "" if no recorded path is missing.
    """
    now, then = flat(settings), flat(before)
    for name, value in now.items():
        if name == "out" or value != then[name]:
            continue
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path) and not path.is_absolute() and not path.exists():
                folder = began_in(now["out"]) or "the folder where it started"
                if folder != os.getcwd():
                    return f" The run's {flag(name)} {path} is relative to {folder}: change to that folder first."
    return ""
