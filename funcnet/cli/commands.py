"""The table of commands, and the function that parses a command line."""

import dataclasses
import functools
import importlib
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import tyro

from funcnet.cli.export import ExportArguments, run_export
from funcnet.cli.fill_mask import FillMaskArguments, run_fill_mask
from funcnet.cli.port import PortArguments, run_port
from funcnet.cli.predict import Evaluate, Predict, run_evaluate, run_predict
from funcnet.cli.resume import resumed_settings
from funcnet.serving.bench import BenchServe, bench_serve
from funcnet.settings import with_helps
from funcnet.tasks.features.command import FeaturesArguments, features
from funcnet.tasks.finetuning.settings import FinetuningSettings
from funcnet.tasks.images.settings import ImageSettings
from funcnet.tasks.pretraining.settings import PretrainingSettings
from funcnet.tasks.pretraining_data.commands import Data
from funcnet.tasks.quantizing.settings import QuantizationSettings

__all__ = ["COMMANDS", "Command", "Parsed", "ReplayArguments", "parse"]


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


class Command(NamedTuple):
    """A command.

    Attributes:
        settings: class of the command's settings.
        module: module with the work of the command. `parse` imports this module before the command runs. `cli.main`
            explains the reason.
        run: function that runs the command and returns the exit code, or the name of this function in `module`.
        task: for a training command, the name in `module` of the class that trains. Otherwise empty.
    """

    settings: type
    module: str
    run: Callable[[Any], int] | str
    task: str = ""


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
    "pretrain": Command(PretrainingSettings, "funcnet.tasks.pretraining.task", "pretrain", "PretrainingTask"),
    "data": Command(Data, "funcnet.tasks.pretraining_data.commands", Data.run),
    "finetune": Command(FinetuningSettings, "funcnet.tasks.finetuning.task", "finetune", "FinetuningTask"),
    "train-images": Command(ImageSettings, "funcnet.tasks.images.task", "train_images", "ImageTask"),
    "quantize": Command(QuantizationSettings, "funcnet.tasks.quantizing.task", "quantize_run", "QuantizationTask"),
    "replay": Command(ReplayArguments, "funcnet.cli.replay", "run_replay"),
    "port": Command(PortArguments, "funcnet.cli.port", run_port),
    "predict": Command(Predict, "funcnet.tasks.finetuning.predict", run_predict),
    "evaluate": Command(Evaluate, "funcnet.tasks.finetuning.predict", run_evaluate),
    "features": Command(FeaturesArguments, "funcnet.tasks.features", features),
    "fill-mask": Command(FillMaskArguments, "funcnet.serving", run_fill_mask),
    "export": Command(ExportArguments, "funcnet.export", run_export),
    "bench": Command(BenchServe, "funcnet.serving", bench_serve),
}


def parse(arguments: list[str]) -> Parsed:
    """Parse a command line, and import the module of its command.

    Args:
        arguments: command-line arguments. The first argument is the command.

    Raises:
        SystemExit: if the arguments are wrong, or `--help` is given.
        ValueError, OSError: if the record of the run to resume cannot be read.
    """
    named = COMMANDS.get(arguments[0]) if arguments else None
    resumed = resumed_settings(named.settings, arguments[1:]) if named and named.task else None
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
    module = importlib.import_module(command.module)
    run = getattr(module, command.run) if isinstance(command.run, str) else command.run
    return Parsed(run, settings, resumed)
