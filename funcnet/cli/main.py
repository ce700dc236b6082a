"""The `funcnet` command: reads the arguments, runs the command, and turns errors into one line and an exit code."""

import contextlib
import functools
import operator
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TextIO

import tyro

from funcnet.cli.data import Data, run_data
from funcnet.cli.fill_mask import FillMaskArguments, run_fill_mask
from funcnet.cli.predict import Evaluate, Predict, run_evaluate, run_predict
from funcnet.cli.training import moved_path, remembered, run_finetune, run_pretrain, run_train_images
from funcnet.serving.bench import BenchServe, bench_serve
from funcnet.tasks.features.command import FeaturesArguments, features
from funcnet.tasks.finetuning.settings import FinetuningSettings
from funcnet.tasks.images.settings import ImageSettings
from funcnet.tasks.pretraining.settings import PretrainingSettings

__all__ = ["main"]


COMMANDS: dict[str, tuple[type, Callable[[Any], int]]] = {
    "pretrain": (PretrainingSettings, run_pretrain),
    "data": (Data, run_data),
    "finetune": (FinetuningSettings, run_finetune),
    "train-images": (ImageSettings, run_train_images),
    "predict": (Predict, run_predict),
    "evaluate": (Evaluate, run_evaluate),
    "features": (FeaturesArguments, features),
    "fill-mask": (FillMaskArguments, run_fill_mask),
    "bench": (BenchServe, bench_serve),
}


def _commands() -> Any:
    """The union of all commands' settings, as tyro takes subcommands."""
    kinds = [Annotated[kind, tyro.conf.subcommand(name)] for name, (kind, _) in COMMANDS.items()]
    return functools.reduce(operator.or_, kinds)


def _flags(before: Any) -> tuple[Any, ...]:
    """A flag that is on before anything is read would be known as --no-flag alone, and --flag again be refused."""
    return (tyro.conf.FlagCreatePairsOff,) if before is None else ()


def _say(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as a line of its own: whoever runs a command has no use for the line of the source."""
    print(f"funcnet: {message}", file=sys.stderr)


@contextlib.contextmanager
def _unwound_by_sigterm() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does, so that files half written go; runs save a checkpoint first themselves."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _in_words(error: ValueError | OSError) -> str:
    """An error's message; one that the system itself made names a file and little more."""
    if isinstance(error, OSError) and error.filename is not None:
        return (
            f"{error.filename}: the system refuses it; expected a path that can be used so, got '{error.strerror}'. "
            "Check the path, its permissions, and the space on the disk."
        )
    return str(error)


def main(arguments: list[str] | None = None) -> None:
    """Runs the command line.

    Args:
        arguments: None takes the process's.

    Raises:
        SystemExit: always; 0 when done, 2 when something given is wrong, 130 or 143 after a signal, 141 where nobody
            reads what is printed.
    """
    before = command = None
    try:
        before = remembered(sys.argv[1:] if arguments is None else arguments)
        command = tyro.cli(
            _commands(),  # type: ignore[arg-type]
            prog="funcnet",
            args=arguments,
            description="BERT from raw text on JAX. Set FUNCNET_TRACEBACK=1 to see the traceback of an error.",
            config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.OmitArgPrefixes, *_flags(before)),
            **({} if before is None else {"default": before}),
        )
        with warnings.catch_warnings(), _unwound_by_sigterm():
            warnings.showwarning = _say
            code = dict(COMMANDS.values())[type(command)](command)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:  # who read what we print has enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains when it ends
        code = 141
    except (ValueError, OSError) as error:
        if os.environ.get("FUNCNET_TRACEBACK"):
            raise
        more = "" if before is None or command is None else moved_path(command, before)
        print(f"funcnet: {_in_words(error)}{more}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        code = 130
    raise SystemExit(code)
