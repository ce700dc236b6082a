"""`funcnet replay`: repeat a training step that failed."""

import dataclasses
import functools
from pathlib import Path

import tyro

from funcnet.settings import flag, flat, with_helps

__all__ = ["ReplayArguments", "run_replay"]


@with_helps
@dataclasses.dataclass(frozen=True)
class ReplayArguments:
    """Repeat a training step that failed, and name the first layer whose output or gradient is not finite.

    A run skips a step whose loss or gradient is not finite, and goes back to an earlier checkpoint after a spike in the
    loss (--rewind-above). For each such step, the run writes a folder with the batch, the settings and the newest
    checkpoint before the step. `funcnet replay` repeats the run from that checkpoint, on the same mesh. The command
    needs the data of the run.

    Exit codes: 0 the loss and the gradient norm are the same as in the run, bit for bit; 1 the loss or the gradient
    norm differs; 2 an error.
    """

    bundle: tyro.conf.Positional[Path]
    """Folder that the run wrote for the step, such as RUN/replay/step-00000042-batch-00000041."""


def run_replay(arguments: ReplayArguments) -> int:
    """Run `funcnet replay`; return the exit code."""
    from funcnet.cli.training import SETTINGS, open_task
    from funcnet.settings import from_record
    from funcnet.train.recovery import read_bundle
    from funcnet.train.replay import replay_step

    bundle = read_bundle(arguments.bundle)
    if bundle.where not in SETTINGS:
        raise ValueError(
            f"replay: {arguments.bundle} was written by {bundle.where}; expected one of the commands "
            f"{', '.join(SETTINGS)}. For a run of train.fit, pass replay= to train.fit, with the same arguments."
        )
    settings = from_record(SETTINGS[bundle.where], bundle.config, out=arguments.bundle)
    for name, value in flat(settings).items():
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path) and not path.exists():
                raise ValueError(
                    f"replay: {flag(name)} {path} does not exist here; expected the data of the run, which started in "
                    f"{bundle.began_in}. Change to that folder first."
                )
    return 0 if replay_step(functools.partial(open_task, bundle.where), settings, bundle) else 1
