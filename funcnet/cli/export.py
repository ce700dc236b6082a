"""`funcnet export`: write a trained model as a file that other programs run."""

import dataclasses
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from funcnet.files import require_folder, require_new, require_other
from funcnet.quantization.checkpoint import is_int8
from funcnet.settings import Range, check_ranges, with_helps

if TYPE_CHECKING:
    from funcnet.export.directory import ModelFunction

__all__ = ["ExportArguments", "run_export"]


@with_helps
@dataclasses.dataclass(frozen=True)
class ExportArguments:
    """Write a trained model as a file that runs without its Python source.

    After the export, the command runs the file on example inputs and prints the largest difference from the JAX
    function or, for tflite, the number of different values. The forms are:

    - stablehlo: one file for XLA on CPU, CUDA and TPU. Load it with funcnet.export.load_stablehlo.
    - onnx: for ONNX Runtime and other programs that read ONNX, opset 23.
    - wasm: a WebAssembly module that imports nothing, for browsers, Node and wasmtime. The sizes of its inputs are
      fixed, so texts must be padded to one of the exported lengths.
    - web: a folder with a web page that answers texts by itself. The page needs no server and sends no data.
    - tflite: an int8 model for LiteRT, formerly TensorFlow Lite, on phones and small devices.

    The file takes the input arrays of the model, and returns its outputs, such as logits. The inputs of a BERT are
    input_ids, attention_mask and token_type_ids. The input of a ResNet is images. Only the web page contains the
    tokenizer. The output of `funcnet quantize` is an int8 model, which can be exported as wasm and tflite. The command
    needs pip install "funcnet[export]".

    Exit codes: 0 the file was written; 2 an error in the arguments or the files, reported in one line.
    """

    directory: tyro.conf.Positional[Path]
    """Output directory of `funcnet pretrain`, `finetune`, `train-images` or `quantize`, or a Hugging Face directory
    with a BERT."""
    to: Literal["stablehlo", "onnx", "wasm", "web", "tflite"]
    """Form of the file."""
    out: Path
    """File to write, such as model.onnx. For web, a folder, which may exist. A file that exists is never replaced."""
    weights: Literal["inside", "beside", "module"] = "inside"
    """Where the weights are stored: inside the file, or in a separate file next to it (for wasm and web, plain bytes;
    for the others .safetensors). With "module", a wasm module has the weights in a second module. An ONNX model of more
    than 2 GB needs a separate file for its weights.
    """
    batch_size: Annotated[int | None, Range(1)] = None
    """Number of texts or images per call. The default is any number for stablehlo and onnx, and 1 for wasm. The number
    is always 1 for web, for tflite and for int8 models."""
    length: Annotated[tuple[int, ...], Range(1)] = ()
    """Number of tokens per text. wasm and web accept several lengths: a web page pads a text to the next one, and a
    program that calls a wasm module pads by itself. The default for stablehlo and onnx is any number up to the size of
    the position table; a fixed length is a few per cent faster in ONNX Runtime. The default for wasm and web is 16, 32,
    64 and 128. An int8 model has a few fixed lengths. By default, wasm takes all of them, and tflite the longest."""
    task: str | None = None
    """For web: what the page does, such as fill-mask, classify or similarity. The default is the task of the model."""
    title: str | None = None
    """For web: heading of the page. The default says what the page does."""
    examples: tuple[str, ...] = ()
    """For web: texts that the page offers. The first one is already in the input field when the page opens. In an
    example of two texts, each text has its own line."""


def run_export(arguments: ExportArguments) -> int:
    """Run `funcnet export`; return the exit code."""
    check_ranges(arguments, "export")
    if arguments.weights == "module" and arguments.to != "wasm":
        raise ValueError(f"export: --weights module is for wasm; expected inside or beside, got --to {arguments.to}.")
    if arguments.weights != "inside" and arguments.to == "tflite":
        raise ValueError(f"export: --weights {arguments.weights} is for other forms; expected inside, got --to tflite.")
    for option in ("task", "title", "examples"):
        if getattr(arguments, option) and arguments.to != "web":
            raise ValueError(f"export: --{option} is for a web page; expected --to web, got --to {arguments.to}.")
    if arguments.to == "web" and arguments.batch_size not in (None, 1):
        raise ValueError(
            f"export: --batch-size is out of range; expected 1 for a web page, got {arguments.batch_size}."
        )
    if not arguments.directory.is_dir():
        raise FileNotFoundError(f"export: {arguments.directory} does not exist; expected the directory of a model.")
    if arguments.to == "web" and (arguments.directory / "images.json").exists():
        raise ValueError(
            f"export: {arguments.directory} has a model of images; expected a BERT for --to web, which reads texts."
        )
    missing = [one for one in _PACKAGES[arguments.to] if importlib.util.find_spec(one) is None]
    if missing:
        raise ValueError(
            f"export: --to {arguments.to} needs packages that are not installed; expected {', '.join(missing)}. Run "
            'pip install "funcnet[export]".'
        )
    _require_paths(arguments)
    if is_int8(arguments.directory) != (arguments.to == "tflite") and arguments.to != "wasm":
        raise ValueError(_OTHER_NUMBERS[arguments.to == "tflite"].format(arguments.directory, arguments.to))
    print(f"Exporting {arguments.directory} as {arguments.to} …", flush=True)
    said, files = FORMS[arguments.to](arguments)
    print(f"{arguments.directory} as {arguments.to}: {said}")
    for file in files:
        print(f"wrote {file} ({file.stat().st_size / 1e6:.1f} MB)")
    return 0


_PACKAGES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "stablehlo": ("flatbuffers",),
        "onnx": ("onnx", "onnxruntime"),
        "wasm": ("ziglang", "wasmtime"),
        "web": ("ziglang", "wasmtime"),
        "tflite": ("flatbuffers", "ai_edge_litert"),
    }
)
_OTHER_NUMBERS = (
    "export: {0} has an int8 model; expected --to wasm or tflite, got {1}. Export the model that was quantized.",
    "export: {0} has a floating-point model; expected an int8 model for --to {1}. Run funcnet quantize {0} first.",
)
_BESIDE = {"beside": ".weights", "module": ".weights.wasm"}  # of wasm; of the other forms it is .safetensors


def _require_paths(arguments: ExportArguments) -> None:
    """Raise an error before the export if a file of the export cannot be written, or would replace another file."""
    out, placed = arguments.out, arguments.weights
    if arguments.to == "web":
        if out.is_file():
            raise NotADirectoryError(f"export: --out {out}; expected a folder, got a file. Choose another path.")
        files = [
            out / name for name in ("index.html", *(("model.wasm", "model.weights") if placed == "beside" else ()))
        ]
    else:
        require_folder(out, "export: --out")
        end = _BESIDE[placed] if arguments.to == "wasm" and placed != "inside" else ".safetensors"
        files = [out] if placed == "inside" else [out, out.with_suffix(end)]
    for file in files:
        require_other(file, arguments.directory.glob("*"), "export: --out")
        require_new(file, "export: --out")


def _opened(arguments: ExportArguments) -> "ModelFunction":
    from funcnet.export.directory import open_directory

    if len(arguments.length) > 1:
        raise ValueError(
            f"export: --length has several values; expected one for {arguments.to}, got {len(arguments.length)}."
        )
    length = arguments.length[0] if arguments.length else None
    return open_directory(arguments.directory, batch_size=arguments.batch_size, length=length)


def _exported(to_form: Callable[..., Any], arguments: ExportArguments) -> tuple[str, Any]:
    """Write a StableHLO or ONNX file. Return a line about the file for the user, and the exported model."""
    model = _opened(arguments)
    exported = to_form(
        model.function,
        *model.examples,
        dynamic=model.dynamic,
        constraints=model.constraints,
        weights=arguments.weights,
        params=model.params,
    )
    exported.save(arguments.out)
    return f"{model.kind}; {exported.check}", exported


def _stablehlo(arguments: ExportArguments) -> tuple[str, Sequence[Path]]:
    from funcnet.export import to_stablehlo

    said, exported = _exported(to_stablehlo, arguments)
    return f"{said}; platforms {', '.join(exported.platforms)}", _files(arguments)


def _onnx(arguments: ExportArguments) -> tuple[str, Sequence[Path]]:
    from funcnet.export import to_onnx

    said, exported = _exported(to_onnx, arguments)
    return f"{said}; {len(exported.graph.nodes)} operators", _files(arguments)


def _wasm(arguments: ExportArguments) -> tuple[str, Sequence[Path]]:
    from funcnet.export import to_wasm
    from funcnet.export.directory import open_directory, require_net

    asked = sorted({*arguments.length})
    model = open_directory(arguments.directory, batch_size=arguments.batch_size or 1, length=max(asked, default=None))
    if model.int8 is not None:
        for length in asked:
            require_net(arguments.directory, model.int8, length)
    lengths = asked or model.lengths
    axis = model.examples[0].ndim - 1  # of the tokens
    exported = to_wasm(model.function, *model.examples, weights=arguments.weights, lengths=lengths, axis=axis)
    files = exported.save(arguments.out)
    sizes = f"; lengths {', '.join(map(str, lengths))}" if lengths else ""
    return f"{model.kind}; {exported.check}; {exported.code_size / 1e3:.0f} kB of code{sizes}", files


def _web(arguments: ExportArguments) -> tuple[str, Sequence[Path]]:
    from funcnet.export.web import to_web

    layout: Literal["one", "several"] = "several" if arguments.weights == "beside" else "one"
    exported = to_web(
        arguments.directory,
        arguments.out,
        task=arguments.task,
        layout=layout,
        lengths=arguments.length or None,
        title=arguments.title,
        examples=arguments.examples or None,
    )
    return f"{exported.task}; {exported.check}; lengths {', '.join(map(str, exported.lengths))}", exported.files


def _tflite(arguments: ExportArguments) -> tuple[str, Sequence[Path]]:
    from funcnet.export.tflite import to_tflite

    model = _opened(arguments)
    opened = model.int8
    assert opened is not None  # run_export refuses other models
    net = opened.nets[max(model.lengths, default=0)]
    exported = to_tflite(net, arguments.out, *model.examples, inputs=opened.inputs, outputs=opened.outputs)
    sizes = f"; rows of {max(model.lengths)} tokens" if model.lengths else ""
    return f"{model.kind}; {exported.differing} of {exported.compared} values differ from LiteRT's{sizes}", _files(
        arguments
    )


def _files(arguments: ExportArguments) -> list[Path]:
    beside = arguments.out.with_suffix(".safetensors")
    return [arguments.out, beside] if arguments.weights == "beside" else [arguments.out]


FORMS: Mapping[str, Callable[[ExportArguments], tuple[str, Sequence[Path]]]] = MappingProxyType(
    {"stablehlo": _stablehlo, "onnx": _onnx, "wasm": _wasm, "web": _web, "tflite": _tflite}
)
"""{form: function that writes the files, and returns a line for the user and the paths of the files}."""
