"""The table of commands, and the function that parses a command line."""

import functools
import importlib
import operator
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import tyro

from funcnet.cli.data import Data, run_data
from funcnet.cli.export import ExportArguments, run_export
from funcnet.cli.fill_mask import FillMaskArguments, run_fill_mask
from funcnet.cli.port import PortArguments, run_port
from funcnet.cli.predict import Evaluate, Predict, run_evaluate, run_predict
from funcnet.cli.replay import ReplayArguments, run_replay
from funcnet.cli.training import (
    moved_path_hint,
    resumed_settings,
    run_finetune,
    run_pretrain,
    run_quantize,
    run_train_images,
)
from funcnet.serving.bench import BenchServe, bench_serve
from funcnet.tasks.features.command import FeaturesArguments, features
from funcnet.tasks.finetuning.settings import FinetuningSettings
from funcnet.tasks.images.settings import ImageSettings
from funcnet.tasks.pretraining.settings import PretrainingSettings
from funcnet.tasks.quantizing.settings import QuantizationSettings

__all__ = ["COMMANDS", "Command", "Parsed", "moved_path_hint", "parse"]


class Command(NamedTuple):
    """A command.

    Attributes:
        settings: class of the command's settings.
        run: function that runs the command and returns the exit code.
        module: module that `run` imports. `parse` imports this module before `run` is called. `cli.main` explains the
            reason.
    """

    settings: type
    run: Callable[[Any], int]
    module: str


class Parsed(NamedTuple):
    """A command line.

    Attributes:
        run: function that runs the command.
        settings: settings of the command, with the values from the command line.
        resumed: recorded settings of the run that is resumed, or None if no run is resumed.
    """

    run: Callable[[Any], int]
    settings: Any
    resumed: Any


COMMANDS = {
    "pretrain": Command(PretrainingSettings, run_pretrain, "funcnet.tasks.pretraining.task"),
    "data": Command(Data, run_data, "funcnet.tasks.pretraining_data.commands"),
    "finetune": Command(FinetuningSettings, run_finetune, "funcnet.tasks.finetuning.task"),
    "train-images": Command(ImageSettings, run_train_images, "funcnet.tasks.images.task"),
    "quantize": Command(QuantizationSettings, run_quantize, "funcnet.tasks.quantizing.task"),
    "replay": Command(ReplayArguments, run_replay, "funcnet.train.replay"),
    "port": Command(PortArguments, run_port, "funcnet.cli.port"),
    "predict": Command(Predict, run_predict, "funcnet.tasks.finetuning.predict"),
    "evaluate": Command(Evaluate, run_evaluate, "funcnet.tasks.finetuning.predict"),
    "features": Command(FeaturesArguments, features, "funcnet.tasks.features"),
    "fill-mask": Command(FillMaskArguments, run_fill_mask, "funcnet.serving"),
    "export": Command(ExportArguments, run_export, "funcnet.export"),
    "bench": Command(BenchServe, bench_serve, "funcnet.serving"),
}


def parse(arguments: list[str]) -> Parsed:
    """Parse a command line, and import the module of its command.

    Args:
        arguments: command-line arguments. The first argument is the command.

    Raises:
        SystemExit: if the arguments are wrong, or `--help` is given.
        ValueError, OSError: if the record of the run to resume cannot be read.
    """
    resumed = resumed_settings(arguments)
    kinds = [Annotated[command.settings, tyro.conf.subcommand(name)] for name, command in COMMANDS.items()]
    # Only a resumed run accepts --no-flag besides --flag, because the recorded value of the flag may be True.
    options: tuple[Any, ...] = (tyro.conf.FlagCreatePairsOff,) if resumed is None else ()
    settings: Any = tyro.cli(  # type: ignore[call-overload]
        functools.reduce(operator.or_, kinds),
        prog="funcnet",
        args=arguments,
        description="BERT from raw text on JAX. Set FUNCNET_TRACEBACK=1 to see the traceback of an error. "
        "`funcnet --version` prints the versions of funcnet and JAX.",
        config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.OmitArgPrefixes, *options),
        **({} if resumed is None else {"default": resumed}),
    )
    command = next(one for one in COMMANDS.values() if one.settings is type(settings))
    importlib.import_module(command.module)
    return Parsed(command.run, settings, resumed)
