"""The `funcnet` command: parses the arguments, runs the command, and reports errors in one line."""

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
from funcnet.cli.training import moved_path_hint, resumed_settings, run_finetune, run_pretrain, run_train_images
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
    """The union of the settings of all commands, from which tyro makes subcommands."""
    kinds = [Annotated[kind, tyro.conf.subcommand(name)] for name, (kind, _) in COMMANDS.items()]
    return functools.reduce(operator.or_, kinds)


def _flag_options(before: Any) -> tuple[Any, ...]:
    """Options of tyro: a resumed run has both --flag and --no-flag, because the default of a flag may be on."""
    return (tyro.conf.FlagCreatePairsOff,) if before is None else ()


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning in one line, without its place in the source."""
    print(f"funcnet: {message}", file=sys.stderr)


@contextlib.contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise an exception, so that commands remove incomplete files. Training runs handle it themselves."""
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


def _message(error: ValueError | OSError) -> str:
    """The message of an error. An error of the operating system gets the form of our own messages."""
    if isinstance(error, OSError) and error.filename is not None:
        return (
            f"{error.filename}: the operating system reported an error; expected a usable path, got "
            f"'{error.strerror}'. Check the path, its permissions and the free disk space."
        )
    return str(error)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line.

    Args:
        arguments: the arguments. The default is the arguments of the process.

    Raises:
        SystemExit: always. The code is 0 for success, 2 for wrong arguments, data or files, 130 or 143 after a signal,
            and 141 if the reader of standard output has closed it.
    """
    before = command = None
    try:
        before = resumed_settings(sys.argv[1:] if arguments is None else arguments)
        command = tyro.cli(
            _commands(),  # type: ignore[arg-type]
            prog="funcnet",
            args=arguments,
            description="BERT from raw text on JAX. Set FUNCNET_TRACEBACK=1 to see the traceback of an error.",
            config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.OmitArgPrefixes, *_flag_options(before)),
            **({} if before is None else {"default": before}),
        )
        with warnings.catch_warnings(), _exit_on_sigterm():
            warnings.showwarning = _show_warning
            code = dict(COMMANDS.values())[type(command)](command)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # otherwise the interpreter reports an error at exit
        code = 141
    except (ValueError, OSError) as error:
        if os.environ.get("FUNCNET_TRACEBACK"):
            raise
        hint = "" if before is None or command is None else moved_path_hint(command, before)
        print(f"funcnet: {_message(error)}{hint}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        code = 130
    raise SystemExit(code)
