"""`funcnet replay`: repeat a training step that failed."""

import importlib
from pathlib import Path
from typing import Any

from funcnet.cli.commands import COMMANDS, ReplayArguments
from funcnet.settings import flag, flat, from_record
from funcnet.train.recovery import read_bundle
from funcnet.train.replay import replay_step

__all__ = ["run_replay"]


def run_replay(arguments: ReplayArguments) -> int:
    """Run `funcnet replay`; return the exit code."""
    bundle = read_bundle(arguments.bundle)
    training = {name: command for name, command in COMMANDS.items() if command.task}
    if bundle.where not in training:
        raise ValueError(
            f"replay: {arguments.bundle} was written by {bundle.where}; expected one of the commands "
            f"{', '.join(training)}. For a run of train.fit, pass replay= to train.fit, with the same arguments."
        )
    command = training[bundle.where]
    settings: Any = from_record(command.settings, bundle.config, out=arguments.bundle)
    for name, value in flat(settings).items():
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path) and not path.exists():
                raise ValueError(
                    f"replay: {flag(name)} {path} does not exist here; expected the data of the run, which started in "
                    f"{bundle.began_in}. Change to that folder first."
                )
    open_task = getattr(importlib.import_module(command.module), command.task)
    return 0 if replay_step(open_task, settings, bundle) else 1
