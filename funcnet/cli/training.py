"""The commands that train: `funcnet pretrain`, `finetune`, `train-images`; and what --resume remembers of them."""

import argparse
import os
from pathlib import Path
from typing import Any

from funcnet.settings import flag, flat, from_record
from funcnet.tasks.finetuning.settings import FinetuningSettings
from funcnet.tasks.images.settings import ImageSettings
from funcnet.tasks.pretraining.settings import PretrainingSettings
from funcnet.train import began_in, configuration

__all__ = ["moved_path", "remembered", "run_finetune", "run_pretrain", "run_train_images"]

KINDS = {"pretrain": PretrainingSettings, "finetune": FinetuningSettings, "train-images": ImageSettings}


def run_pretrain(settings: PretrainingSettings) -> int:
    """Runs `funcnet pretrain`; returns the exit code."""
    from funcnet.tasks.pretraining.task import pretrain

    return pretrain(settings)


def run_finetune(settings: FinetuningSettings) -> int:
    """Runs `funcnet finetune`; returns the exit code."""
    from funcnet.tasks.finetuning.task import finetune

    return finetune(settings)


def run_train_images(settings: ImageSettings) -> int:
    """Runs `funcnet train-images`; returns the exit code."""
    from funcnet.tasks.images.task import train_images

    return train_images(settings)


def remembered(arguments: list[str]) -> Any:
    """With --resume, the settings of the run in --out, for those that the command line leaves out; otherwise None.

    Args:
        arguments: of the command line, the command first.
    """
    kind = KINDS.get(arguments[0] if arguments else "")
    if kind is None or "--resume" not in arguments:
        return None
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--out", type=Path)
    try:
        out = parser.parse_known_args(arguments[1:])[0].out
    except argparse.ArgumentError:
        return None  # --out without a value: the parser of all arguments says so
    known = configuration(out) if out else None
    if known is None:
        return None
    try:
        return from_record(kind, known, out=out)
    except TypeError:
        return None  # a run of another command or of another release, or an edited file


def moved_path(settings: Any, before: Any) -> str:
    """Of a resumed run: which remembered path is missing, and the folder that it is relative to; otherwise empty.

    Args:
        settings: of the command line.
        before: of `remembered`.
    """
    now, then = flat(settings), flat(before)
    for name, value in now.items():
        if name == "out" or value != then[name]:
            continue
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path) and not path.is_absolute() and not path.exists():
                folder = began_in(now["out"]) or "the folder in which it began"
                if folder != os.getcwd():
                    return f" The run's {flag(name)} {path} is relative to {folder}: change to that folder first."
    return ""
