"""`funcnet port`: turn a torch model's source into JAX source, and prove that both compute the same."""

import dataclasses
import importlib.util
import sys
from pathlib import Path

import tyro

from funcnet.settings import with_helps

__all__ = ["PortArguments", "run_port"]


@with_helps
@dataclasses.dataclass(frozen=True)
class PortArguments:
    """Port a torch model: write its source for JAX, with jax.numpy in place of torch and the layers of funcnet.nn.

    The command collects the code that the class needs from all files of its package, and rewrites this code. Comments
    and layout stay. With --example, the command runs the model in torch to see the types of all expressions. Then it
    compares the outputs, gradients and buffers of the port with those of torch, layer by layer. It does so in float64
    and float32, in eval and training mode, and under jit.

    The command executes the file and the constructor. Lines that the example does not reach are not checked.

    The result is a Python package in --out. Its file REGISTER.txt lists the lines that the command could not port, or
    that behave differently from torch. Lines with the level "blocks" raise an error when they are reached. PROOF.md has
    the measured differences between the port and torch.

    Exit codes: 0 the port equals torch's model, or no example was given; 1 the port differs; 2 an error.
    """

    source: tyro.conf.Positional[str]
    """Python file that defines the model, and optionally the class to port: FILE or FILE:Class. By default, the command
    ports the layer that uses all other layers of the file, directly or indirectly. If there is no such layer, it ports
    every public layer that is not a part of another layer.
    """

    out: Path
    """Folder for the result. It must not exist, or be empty."""

    example: str = ""
    """Arguments of forward, as an expression in which torch can be used: "torch.randn(2, 3, 64, 64)", a tuple for
    several arguments, or dict(x=…) for keyword arguments. Without --example, the model is not run or compared."""

    construct: str = ""
    """Expression that makes the model, in which all names of the file can be used: "ResNet(BasicBlock, [1, 1, 1, 1])".
    By default, the class is called without arguments."""

    replace: bool = False
    """Replace the files of an earlier port in the folder."""


def run_port(arguments: PortArguments) -> int:
    """Run `funcnet port`.

    Args:
        arguments: the arguments of the command.

    Returns:
        The exit code: 0 if the port equals torch's model, or no example was given; 1 if the port differs.

    Raises:
        ValueError: if libcst is not installed, or for an error of `porting.port.port`.

    Example:
        >>> import tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "net.py")
        ...     _ = path.write_text("from torch import nn\\nclass Net(nn.Linear):\\n    pass\\n")
        ...     out, example = Path(folder, "ported"), "torch.ones(4, 3)"
        ...     run_port(PortArguments(f"{path}:Net", out, construct="Net(3, 2)", example=example))
        Net: 1 file, 3 lines in ...
          equal  names and shapes of the weights
        ...
        The port equals torch's model on this example. ...PROOF.md has the numbers.
        0
    """
    if importlib.util.find_spec("libcst") is None:
        raise ValueError("port: libcst is not installed; expected this command's extra. pip install 'funcnet[port]'")
    from funcnet.porting.errors.unported_lines import BLOCKS, LEVELS, summary
    from funcnet.porting.port import port

    path, name = _parts(arguments.source)
    result = port(
        path,
        name,
        arguments.out,
        construct=arguments.construct or None,
        example=arguments.example or None,
        replace=arguments.replace,
        progress=lambda text: print(f"{text} …", file=sys.stderr, flush=True),
    )
    lines = sum(one.text.count("\n") for one in result.files)
    files = "1 file" if len(result.files) == 1 else f"{len(result.files)} files"
    print(f"{result.root}: {files}, {lines} lines in {result.out}")
    counts = summary(result.entries)
    if any(counts.values()):
        print("Register: " + ", ".join(f"{counts[level]} {level}" for level in LEVELS if counts[level])
              + f" ({result.out / 'REGISTER.txt'})")  # fmt: skip
        for entry in [one for one in result.entries if one.level == BLOCKS][:5]:
            print(f"  {entry.message}")
    if result.left_out:
        print(f"Left out: {len(result.left_out)} definitions that the class does not need")
    if result.proof is None:
        print(result.note)
        return 0
    for check in result.proof.checks:
        numbers = ", ".join(
            f"{label} {value:.1e}"
            for label, value in (("outputs", check.forward), ("gradients", check.gradients), ("buffers", check.buffers))
            if value is not None
        )
        print(f"  {'equal' if check.ok else 'DIFFERS'}  {check.name}  {numbers}  {check.note}".rstrip())
    verdict = "equals torch's model on this example" if result.proof.ok else "does not equal torch's model"
    print(f"The port {verdict}. {result.out / 'PROOF.md'} has the numbers.")
    return 0 if result.proof.ok else 1


def _parts(source: str) -> tuple[Path, str | None]:
    """Split FILE:Class into (file, name of the class). For FILE alone, the name is None."""
    path, separator, name = source.rpartition(":")
    if separator and name.isidentifier():
        return Path(path), name
    return Path(source), None
