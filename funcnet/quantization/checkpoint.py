"""The files of an int8 model: one integer net for each number of tokens. The nets share their weights.

`model.safetensors` holds the net for the longest rows. For each other number of tokens T, `length-T.safetensors` holds
the net for T tokens, without the constants that `model.safetensors` already holds under the same number. `int8.json`
holds the names of the inputs and outputs, and the SHA-256 digest of each net's file. A directory that contains
`int8.json` is an int8 model.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from funcnet.files import file_digest, parse_json, write_json
from funcnet.quantization.network import QuantizedNet

__all__ = ["INT8_FILE", "Int8Model", "is_int8", "open_int8", "refuse_int8", "save_int8"]

INT8_FILE = "int8.json"
_WEIGHTS = "model.safetensors"
_FORMAT = 2


@dataclasses.dataclass(frozen=True)
class Int8Model:
    """An int8 model: its kind, the names of its inputs and outputs, and its integer nets.

    Attributes:
        kind: name of the architecture, such as "BertForPreTraining" or "resnet18".
        inputs: names of the inputs, in order: `input_ids`, `attention_mask`, `token_type_ids`; or `images`.
        outputs: names of the output arrays, in order.
        nets: {number of tokens: net for one row} in rising order for a language model, or {0: net for one image} for an
            image model. Use `jax.vmap` to run a net on a batch.
    """

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nets: Mapping[int, QuantizedNet]


def save_int8(folder: str | Path, model: Int8Model) -> None:
    """Write the files of an int8 model.

    Args:
        folder: an existing folder.
        model: the nets.

    Raises:
        OSError: if a file cannot be written.
        ValueError: if the model has no net.

    Example:
        >>> import jax, tempfile
        >>> from funcnet import nn
        >>> from funcnet.quantization import calibrate, convert
        >>> net, x = nn.Linear(2, 3), np.float32([[0.5, -1.0]])
        >>> params, state = net.init(jax.random.key(0))
        >>> quantized = convert(net, params, state, calibrate(net, params, state, [x]), x)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_int8(folder, Int8Model("linear", ("x",), ("y",), {0: quantized}))
        ...     opened = open_int8(folder)
        >>> bool((opened.nets[0](x) == quantized(x)).all())
        True
    """
    if not model.nets:
        raise ValueError("save_int8: there is no net; expected at least one, got none.")
    folder, lengths = Path(folder), sorted(model.nets)
    (folder / INT8_FILE).unlink(missing_ok=True)  # so that a half-written directory is not taken for an int8 model
    longest = model.nets[lengths[-1]]
    for length, file in _files(folder, lengths).items():
        net = model.nets[length]
        if net is longest:
            net.save(file)
            continue
        own = {n: array for n, array in net.constants.items() if not _equal(array, longest.constants.get(n))}
        dataclasses.replace(net, constants=own).save(file)
    digests = {file.name: file_digest(file) for file in _files(folder, lengths).values()}
    about = {"kind": model.kind, "inputs": list(model.inputs), "outputs": list(model.outputs), "lengths": lengths}
    write_json(folder / INT8_FILE, {"format": _FORMAT, **about, "digests": digests})


def open_int8(path: str | Path, where: str = "open_int8") -> Int8Model:
    """Open an int8 model, as `funcnet quantize` writes it.

    Args:
        path: directory of the model.
        where: name of the caller, for error messages.

    Raises:
        FileNotFoundError: if the directory has no int8 model.
        ValueError: if a file is missing, damaged or of an older version, or differs from the file that was written.

    Example:
        >>> open_int8("no_such_folder")
        Traceback (most recent call last):
        FileNotFoundError: open_int8: no_such_folder has no int8 model; expected int8.json, as funcnet quantize ...
    """
    path = Path(path)
    if not is_int8(path):
        raise FileNotFoundError(
            f"{where}: {path} has no int8 model; expected {INT8_FILE}, as funcnet quantize writes, got none."
        )
    kind, inputs, outputs, lengths, digests = _described(path / INT8_FILE, where)
    files = _files(path, lengths)
    for file in files.values():
        if (found := file_digest(file) if file.exists() else "no file") != digests.get(file.name):
            raise ValueError(
                f"{where}: {file} does not belong to {INT8_FILE}; expected SHA-256 {digests.get(file.name)}, got "
                f"{found}. Restore the directory, or run funcnet quantize again."
            )
    longest = QuantizedNet.load(files[lengths[-1]])
    nets = {}
    for length, file in files.items():
        net = longest if length == lengths[-1] else QuantizedNet.load(file)
        nets[length] = net = _with_shared(file, net, longest, where)
        shapes = [net.values[number].shape for number in net.inputs]
        counts = len(net.inputs), len(net.outputs)
        if counts != (len(inputs), len(outputs)) or (length and set(shapes) != {(1, length)}):
            raise ValueError(
                f"{where}: {file} does not fit {INT8_FILE}; expected inputs {', '.join(inputs)} of one row"
                f"{f' of {length} tokens' if length else ''} and {len(outputs)} outputs, got {shapes} and {counts[1]}."
            )
    return Int8Model(kind, inputs, outputs, nets)


def is_int8(path: str | Path) -> bool:
    """Return whether a directory holds an int8 model.

    Example:
        >>> is_int8("no_such_folder")
        False
    """
    return (Path(path) / INT8_FILE).exists()


def refuse_int8(path: str | Path, where: str) -> None:
    """Raise ValueError if a directory holds an int8 model, for callers that need floating-point weights.

    Example:
        >>> refuse_int8("no_such_folder", "features")
    """
    if is_int8(path):
        raise ValueError(
            f"{where}: {path} holds an int8 model; expected floating-point weights, got integers. Use the directory "
            "from which it was quantized."
        )


def _described(file: Path, where: str) -> tuple[str, tuple[str, ...], tuple[str, ...], tuple[int, ...], dict[str, str]]:
    """Return the kind, inputs, outputs, lengths and digests from int8.json. Raise ValueError if the file is invalid."""
    about = parse_json(file, where)
    if isinstance(about, dict) and about.get("format") == 1:
        raise ValueError(
            f"{where}: {file} is of an older version; expected format {_FORMAT}, got 1. Run funcnet quantize again."
        )
    names = lambda found: isinstance(found, list) and found and all(isinstance(one, str) and one for one in found)
    numbers = lambda found: isinstance(found, list) and found and all(type(one) is int and one >= 0 for one in found)
    right: dict[str, Callable[[Any], Any]] = {
        "format": lambda found: found == _FORMAT,
        "kind": lambda found: isinstance(found, str) and found,
        "inputs": names,
        "outputs": names,
        "lengths": lambda found: numbers(found) and found == sorted(set(found)),
        "digests": lambda found: isinstance(found, dict),
    }
    wrong = [name for name in right if not isinstance(about, dict) or not right[name](about.get(name))]
    if wrong:
        raise ValueError(
            f"{where}: {file} is invalid; expected the file that funcnet quantize wrote, got one with another "
            f"{', '.join(wrong)}."
        )
    inputs, outputs, lengths = (tuple(about[name]) for name in ("inputs", "outputs", "lengths"))
    return about["kind"], inputs, outputs, lengths, about["digests"]


def _with_shared(file: Path, net: QuantizedNet, longest: QuantizedNet, where: str) -> QuantizedNet:
    """Return `net` with all constants that it reads, those that it lacks taken from `longest`.

    Raise ValueError if a constant is in neither of the two nets.
    """
    made = {*net.inputs, *(node.output for node in net.nodes)}
    needed = {*net.outputs, *(number for node in net.nodes for number in node.inputs)} - made
    missing = needed - {*net.constants, *longest.constants}
    if missing:
        raise ValueError(
            f"{where}: {file} is not complete; expected all constants in it and in {_WEIGHTS}, got {len(missing)} that "
            "are in neither."
        )
    shared = {number: longest.constants[number] for number in needed - set(net.constants)}
    return dataclasses.replace(net, constants={**shared, **net.constants})


def _files(folder: Path, lengths: Sequence[int]) -> dict[int, Path]:
    """Return {number of tokens: path of the file that holds the net for this number of tokens}."""
    return {length: folder / f"length-{length}.safetensors" for length in lengths[:-1]} | {
        lengths[-1]: folder / _WEIGHTS
    }


def _equal(a: np.ndarray, b: np.ndarray | None) -> bool:
    return b is not None and a.dtype == b.dtype and np.array_equal(a, b)
