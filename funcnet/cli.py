"""The `funcnet` command: arguments in, one line for what is wrong, exit codes out. Thin: the work is in `tasks`."""

import argparse
import contextlib
import dataclasses
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TextIO, get_args, get_type_hints

import tyro

from funcnet.files import require_folder, require_other
from funcnet.serving.bench import BenchServe
from funcnet.tasks.features.command import FeaturesArguments
from funcnet.tasks.finetuning.configuration import FinetuningConfig
from funcnet.tasks.pretraining.configuration import PretrainingConfig
from funcnet.tasks.pretraining.data_settings import BuildData
from funcnet.train import began_in, configuration

__all__ = ["main"]


@dataclasses.dataclass(frozen=True)
class ReportData:
    """What lies in a folder that `funcnet data build` made: documents, tokens, pairs, masks."""

    directory: tyro.conf.Positional[Path]
    """the folder"""


@dataclasses.dataclass(frozen=True)
class ExportData:
    """Write the examples of a folder that `funcnet data build` made as Google's tf_examples.tfrecord, masks drawn."""

    directory: tyro.conf.Positional[Path]
    """the folder"""
    out: Path
    """the file"""
    seq_len: int | None = None
    """tokens a row, where the folder has rows of several lengths"""
    seed: int = 0
    """of the masks"""
    held_out: bool = False
    """the held-out examples in place of the training ones"""


@dataclasses.dataclass(frozen=True)
class ImportData:
    """Make a folder for `funcnet pretrain --data` of Google's tf_examples.tfrecord, with the masks that they have."""

    files: tyro.conf.Positional[tuple[Path, ...]]
    """of create_pretraining_data.py or `funcnet data export`, all of one length"""
    vocab: Path
    """the vocabulary that they were made with: vocab.txt, or a directory with one"""
    out: Path
    """the folder"""
    held_out: tuple[Path, ...] = ()
    """files of examples to evaluate on"""
    cased: bool = False
    """the vocabulary keeps capitals and accents"""


@dataclasses.dataclass(frozen=True)
class Data:
    """Make the data of pretraining runs, once for many."""

    command: (
        Annotated[BuildData, tyro.conf.subcommand("build")]
        | Annotated[ReportData, tyro.conf.subcommand("report")]
        | Annotated[ExportData, tyro.conf.subcommand("export")]
        | Annotated[ImportData, tyro.conf.subcommand("import")]
    )


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


@dataclasses.dataclass(frozen=True)
class Predict:
    """What a fine-tuned model says of the texts in a file.

    Writes a JSON object for each, with probabilities, answers with the n best; see `funcnet finetune`.
    """

    directory: tyro.conf.Positional[Path]
    """a run of `funcnet finetune`, or a directory of Hugging Face with a fine-tuned BERT"""
    file: tyro.conf.Positional[Path]
    """texts in the form that the model was trained on, labels or not; or plain lines of text (.txt), empty ones left
    out; a model that tags words splits a line at white space and signs"""
    out: Path | None = None
    """JSON lines, or with the suffix .csv a table; without it standard output"""
    batch_size: int = 32
    """texts at a time"""
    null_threshold: float | None = None
    """answer: how much more than the best answer "no answer" must score to be told; without it as it was trained"""


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """How right a fine-tuned model is on the labelled texts in a file: the task's figures, as JSON."""

    directory: tyro.conf.Positional[Path]
    """a run of `funcnet finetune`, or a directory of Hugging Face with a fine-tuned BERT"""
    file: tyro.conf.Positional[Path]
    """labelled texts in the form that the model was trained on"""
    out: Path | None = None
    """file for the figures"""
    batch_size: int = 32
    """texts at a time"""
    null_threshold: float | None = None
    """answer: how much more than the best answer "no answer" must score to be told; without it as it was trained"""


def _pretrain(config: PretrainingConfig) -> int:
    from funcnet.tasks.pretraining.run import pretrain

    return pretrain(config)


def _data(arguments: Data) -> int:
    from funcnet.tasks.pretraining import commands

    match arguments.command:
        case BuildData():
            return commands.build_data(arguments.command)
        case ReportData():
            return commands.report_data(arguments.command.directory)
        case ExportData(directory, out, seq_len, seed, held_out):
            return commands.export_data(directory, out, seq_len=seq_len, seed=seed, held_out=held_out)
        case ImportData(files, vocab, out, held, cased):
            return commands.import_data(files, out, vocab=vocab, held_out=held, cased=cased)


def _finetune(config: FinetuningConfig) -> int:
    from funcnet.tasks.finetuning.run import finetune

    return finetune(config)


def _predict(arguments: Predict) -> int:
    from funcnet.tasks.finetuning.predict import predict, write_predictions

    if arguments.out is not None:
        require_folder(arguments.out, "predict: --out")
        require_other(arguments.out, [arguments.file], "predict: --out")
    predictions, _ = predict(
        arguments.directory,
        arguments.file,
        batch_size=arguments.batch_size,
        null_threshold=arguments.null_threshold,
    )
    write_predictions(predictions, arguments.out)
    return 0


def _evaluate(arguments: Evaluate) -> int:
    from funcnet.tasks.finetuning.predict import evaluate, write_figures

    if arguments.out is not None:
        require_folder(arguments.out, "evaluate: --out")
        require_other(arguments.out, [arguments.file], "evaluate: --out")
    figures = evaluate(
        arguments.directory,
        arguments.file,
        batch_size=arguments.batch_size,
        null_threshold=arguments.null_threshold,
    )
    write_figures(figures, arguments.out)
    return 0


def _features(arguments: FeaturesArguments) -> int:
    from funcnet.tasks.features.command import features

    return features(arguments)


def _bench(arguments: BenchServe) -> int:
    from funcnet.serving.bench import bench_serve

    return bench_serve(arguments)


def _fill_mask(arguments: FillMask) -> int:
    from funcnet.serving import inference

    if arguments.top < 1:
        raise ValueError(f"fill-mask: --top; expected at least 1, got {arguments.top}.")
    fill = inference(arguments.directory, "fill-mask", guesses=arguments.top, ahead=False)
    for text in arguments.text:
        print(text)
        for guesses in fill(text):
            print("  " + ", ".join(f"{guess.token} {guess.probability:.1%}" for guess in guesses))
    return 0


COMMANDS: dict[type, Callable[..., int]] = {
    PretrainingConfig: _pretrain,
    Data: _data,
    FinetuningConfig: _finetune,
    Predict: _predict,
    Evaluate: _evaluate,
    FeaturesArguments: _features,
    FillMask: _fill_mask,
    BenchServe: _bench,
}
Command = (
    Annotated[PretrainingConfig, tyro.conf.subcommand("pretrain")]
    | Annotated[Data, tyro.conf.subcommand("data")]
    | Annotated[FinetuningConfig, tyro.conf.subcommand("finetune")]
    | Annotated[Predict, tyro.conf.subcommand("predict")]
    | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
    | Annotated[FeaturesArguments, tyro.conf.subcommand("features")]
    | Annotated[FillMask, tyro.conf.subcommand("fill-mask")]
    | Annotated[BenchServe, tyro.conf.subcommand("bench")]
)


def _as_it_was(arguments: list[str]) -> Any:
    """With --resume: the settings of the run in --out, for those that the command line leaves out. Else None."""
    kind = {"pretrain": PretrainingConfig, "finetune": FinetuningConfig}.get(arguments[0] if arguments else "")
    if kind is None or "--resume" not in arguments:
        return None
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--out", type=Path)
    try:
        out = parser.parse_known_args(arguments[1:])[0].out
    except argparse.ArgumentError:
        return None  # --out without a value: the parser of all arguments says so
    known = configuration(out) if out else None
    if known is None or set(known) != {field.name for field in dataclasses.fields(kind)} - {"out", "resume"}:
        return None  # no run, one of another kind, or one of another release
    hints, values = get_type_hints(kind), {}
    for name, value in known.items():
        of = Path if _is_of_paths(hints[name]) else lambda one: one
        try:
            values[name] = tuple(map(of, value)) if isinstance(value, list) else None if value is None else of(value)
        except TypeError:
            return None  # edited
    return kind(out=out, **values)


def _meant_from(command: Any, before: Any) -> str:
    """Of a resumed run: which remembered path is not there, and from which folder it was meant; else empty."""
    names = [field.name for field in dataclasses.fields(command) if field.name != "out"]
    values = [(name, getattr(command, name)) for name in names if getattr(command, name) == getattr(before, name)]
    for name, value in values:
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path) and not path.is_absolute() and not path.exists():
                folder = began_in(command.out) or "the folder that it began in"
                if folder != os.getcwd():
                    return f" The run's --{name} {path} was meant from {folder}: go there first."
    return ""


def _is_of_paths(hint: Any) -> bool:
    return hint is Path or any(map(_is_of_paths, get_args(hint)))


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
        before = _as_it_was(sys.argv[1:] if arguments is None else arguments)
        command = tyro.cli(
            Command,  # type: ignore[arg-type]
            prog="funcnet",
            args=arguments,
            description="BERT from raw text on JAX. With FUNCNET_TRACEBACK=1 an error shows where it came from.",
            config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.OmitArgPrefixes, *_flags(before)),
            **({} if before is None else {"default": before}),
        )
        with warnings.catch_warnings(), _unwound_by_sigterm():
            warnings.showwarning = _say
            code = COMMANDS[type(command)](command)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:  # who read what we print has enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains when it ends
        code = 141
    except (ValueError, OSError) as error:
        if os.environ.get("FUNCNET_TRACEBACK"):
            raise
        more = "" if before is None or command is None else _meant_from(command, before)
        print(f"funcnet: {_in_words(error)}{more}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        code = 130
    raise SystemExit(code)
