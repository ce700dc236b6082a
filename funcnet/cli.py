"""The `funcnet` command: arguments in, one line for what is wrong, exit codes out. Thin: the work is in `tasks`."""

import dataclasses
import os
import sys
from pathlib import Path
from typing import Annotated

import tyro

from funcnet.tasks.pretraining.configuration import PretrainingConfig

__all__ = ["main"]


@dataclasses.dataclass(frozen=True)
class FillMask:
    """Let a pretrained BERT guess the words hidden by [MASK].

    Prints, for each [MASK], the likeliest words with their probabilities.
    """

    directory: tyro.conf.Positional[Path]
    """a run of `funcnet pretrain`, or any directory with config.json, model.safetensors and a vocabulary"""
    text: tyro.conf.Positional[tuple[str, ...]]
    """one text or several, each with [MASK] in it"""
    top: int = 5
    """guesses for each"""


def _pretrain(config: PretrainingConfig) -> int:
    from funcnet.tasks.pretraining.run import pretrain

    return pretrain(config)


def _fill_mask(arguments: FillMask) -> int:
    from funcnet.models import bert

    if arguments.top < 1:
        raise ValueError(f"fill-mask: --top; expected at least 1, got {arguments.top}.")
    fill = bert.inference(arguments.directory, guesses=arguments.top)
    for text in arguments.text:
        print(text)
        for guesses in fill(text):
            print("  " + ", ".join(f"{guess.token} {guess.probability:.1%}" for guess in guesses))
    return 0


Command = (
    Annotated[PretrainingConfig, tyro.conf.subcommand("pretrain")]
    | Annotated[FillMask, tyro.conf.subcommand("fill-mask")]
)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line.

    Args:
        arguments: None takes the process's.

    Raises:
        SystemExit: always; 0 when done, 2 when something given is wrong, 130 or 143 after a signal.
    """
    command = tyro.cli(
        Command,  # type: ignore[arg-type]
        prog="funcnet",
        args=arguments,
        description="BERT from raw text on JAX. With FUNCNET_TRACEBACK=1 an error shows where it came from.",
        config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    try:
        code = _pretrain(command) if isinstance(command, PretrainingConfig) else _fill_mask(command)
    except (ValueError, OSError) as error:
        if os.environ.get("FUNCNET_TRACEBACK"):
            raise
        print(f"funcnet: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        code = 130
    raise SystemExit(code)
