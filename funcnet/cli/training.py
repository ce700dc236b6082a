"""The training commands `funcnet pretrain`, `finetune` and `train-images`, and their option --resume."""

import argparse
import os
from pathlib import Path
from typing import Any

from funcnet.settings import flag, flat, from_record
from funcnet.tasks.finetuning.settings import FinetuningSettings
from funcnet.tasks.images.settings import ImageSettings
from funcnet.tasks.pretraining.settings import PretrainingSettings
from funcnet.train import began_in, configuration

__all__ = ["moved_path_hint", "resumed_settings", "run_finetune", "run_pretrain", "run_train_images"]

SETTINGS = {"pretrain": PretrainingSettings, "finetune": FinetuningSettings, "train-images": ImageSettings}


def run_pretrain(settings: PretrainingSettings) -> int:
    """Run `funcnet pretrain`; return the exit code."""
    from funcnet.tasks.pretraining.task import pretrain

    return pretrain(settings)


def run_finetune(settings: FinetuningSettings) -> int:
    """Run `funcnet finetune`; return the exit code."""
    from funcnet.tasks.finetuning.task import finetune

    return finetune(settings)


def run_train_images(settings: ImageSettings) -> int:
    """Run `funcnet train-images`; return the exit code."""
    from funcnet.tasks.images.task import train_images

    return train_images(settings)


def resumed_settings(arguments: list[str]) -> Any:
    """Return the recorded settings of the run to resume. They are the defaults of the arguments that are not given.

    Args:
        arguments: the arguments of the command line. The first argument is the command.

    Returns:
        The settings of the run in `--out`, or None if `--resume` is not given or no usable settings are recorded there.
    """
    kind = SETTINGS.get(arguments[0] if arguments else "")
    if kind is None or "--resume" not in arguments:
        return None
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--out", type=Path)
    try:
        out = parser.parse_known_args(arguments[1:])[0].out
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
    """Return a hint if the run is resumed from another directory in which one of the run's relative paths does not
    exist.

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
