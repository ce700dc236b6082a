"""Small torch modules, ported with and without a run and compared with torch: outputs, gradients and buffers."""

import contextlib
import dataclasses
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from funcnet import compare, nn
from funcnet import functional as F
from funcnet.porting.errors.unported_lines import RegisterEntry
from funcnet.porting.port import ported_files
from funcnet.porting.proving.equal_random_numbers import patterned
from funcnet.porting.proving.float64_widening import widen
from funcnet.porting.reading.slicing import slice_of
from funcnet.porting.reading.sources import read
from funcnet.porting.running.loading import construct, example, load
from funcnet.porting.running.recording import record

__all__ = ["HEAD", "Ported", "check", "compared", "module", "port_text"]

HEAD = "import math\nimport torch\nfrom torch import Tensor, nn\nimport torch.nn.functional as F\n\n"
TOLERANCE = 1e-9


@dataclasses.dataclass(frozen=True)
class Ported:
    """The result for one source: where it lies, its text and its register."""

    source: Path
    path: Path
    text: str
    entries: tuple[RegisterEntry, ...]

    @property
    def levels(self) -> set[str]:
        return {one.level for one in self.entries}

    @property
    def body(self) -> str:
        """The text without its imports and without empty lines."""
        lines = [line for line in self.text.splitlines() if line.strip()]
        return "\n".join(line for line in lines if not line.startswith(("import ", "from ")))


def module(forward: str, init: str = "", arguments: str = "x", before: str = "", more: str = "") -> str:
    """The text of a module `Net` with these lines in its methods. Its parameter `scale` is multiplied into `x`."""
    indented = lambda text, depth: textwrap.indent(textwrap.dedent(text).strip("\n"), " " * depth)
    scaled = "        x = x * self.scale\n" if arguments.startswith("x") else ""
    return (
        f"{textwrap.dedent(before).strip()}\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n        self.scale = nn.Parameter(torch.ones(1))\n{indented(init, 8)}\n\n"
        f"    def forward(self, {arguments}):\n{scaled}{indented(forward, 8)}\n\n{indented(more, 4)}\n"
    )


def port_text(
    folder: Path, text: str, construct: str | None = None, example: str | None = None, name: str = "Net"
) -> Ported:
    """Port a source, with a run of the model if there is an example, and write the result into a folder."""
    source = folder / "source" / "net.py"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(HEAD + textwrap.dedent(text), encoding="utf-8")
    recording = None if example is None else record(source, name, construct, example)
    (written,) = ported_files(slice_of(read(source), name), recording)
    path = folder / ("ported_after_a_run" if example else "ported") / "net.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(written.text, encoding="utf-8")
    return Ported(source, path, written.text, written.entries)


def check(
    folder: Path,
    text: str,
    example: str = "torch.randn(2, 3)",
    construct: str = "Net()",
    *,
    levels: set[str] | frozenset[str] = frozenset(),
    without: set[str] | frozenset[str] | None = None,
    training: tuple[bool, ...] = (False, True),
    gradients: bool = True,
) -> tuple[Ported, Ported]:
    """Port a source with and without a run of the model, and compare both results with torch.

    Args:
        folder: for the files.
        text: the source after `HEAD`.
        example: the expression for the arguments of `forward`.
        construct: the expression that makes the model.
        levels: the levels in the register. A port that blocks is not compared, one that is eager only is not compiled.
        without: the same for the port without a run. The default is `levels`.
        training: the modes that are compared.
        gradients: whether the gradients are compared. An eager comparison has none.

    Returns:
        The port with a run, and the port without one.
    """
    results = port_text(folder, text, construct, example), port_text(folder, text)
    for ported, expected in zip(results, (levels, levels if without is None else without), strict=True):
        assert ported.levels == set(expected), f"{ported.entries}\n{ported.text}"
        if "blocks" not in ported.levels and not (ported is results[1] and ported.text == results[0].text):
            compared(ported, construct, example, training, eager="eager only" in ported.levels)
    return results


def compared(
    ported: Ported, expression: str, given: str, training: tuple[bool, ...] = (False, True), eager: bool = False
) -> None:
    """Compare a port with its torch source in float64, with weights that are not those of the constructor."""
    with _wide(), patterned():
        theirs = load(ported.source, "Net", transform=lambda path, tree: widen(tree))
        ours = load(ported.path, "Net", transform=lambda path, tree: widen(tree))
        torch.manual_seed(0)
        model = construct(theirs, expression)
        _perturb(model)
        names = {"jax": jax, "jnp": jnp, "np": np, "nn": nn, "F": F, **vars(ours.module)}
        net = eval(expression, names)
        args, kwargs = example(theirs, given)
        for mode in training:
            params, state = net.load_state_dict(model.state_dict())
            with theirs.running():
                if eager:
                    _eagerly(model, net, params, state, args, kwargs, mode, ported.text)
                    continue
                found = compare(model, net, params, state, *args, training=mode, rng=jax.random.key(0),
                                tolerance=TOLERANCE, dtype="float64", **kwargs)  # fmt: skip
            assert found.ok, f"training={mode}\n{found}\n{ported.text}"


def _eagerly(model: Any, net: Any, params: Any, state: Any, args: Any, kwargs: Any, training: bool, text: str) -> None:
    """Compare outputs and buffers without compiling."""
    model.train(training)
    before = {name: buffer.clone() for name, buffer in model.state_dict().items()}
    output, state = net.apply(
        params, state, *map(_array, args), training=training, rng=jax.random.key(0),
        **{name: _array(value) for name, value in kwargs.items()},
    )  # fmt: skip
    theirs = model(*args, **kwargs)
    pairs = list(zip(jax.tree.leaves(output), _leaves(theirs), strict=True))
    after = net.state_dict(params, state)
    pairs += [(after[name], buffer) for name, buffer in model.state_dict().items()]
    model.load_state_dict(before)
    for one, other in pairs:
        np.testing.assert_allclose(one, _array(other), rtol=TOLERANCE, atol=TOLERANCE, err_msg=text)


def _array(value: Any) -> Any:
    return jnp.asarray(value.detach().numpy()) if isinstance(value, torch.Tensor) else value


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in _leaves(value[key])]
    return [leaf for one in value for leaf in _leaves(one)] if isinstance(value, list | tuple) else [value]


@contextlib.contextmanager
def _wide() -> Iterator[None]:
    """Compute in float64 by default in both libraries."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
            yield
    finally:
        torch.set_default_dtype(before)


def _perturb(model: Any) -> None:
    """Change the weights, so that none is left by the constructor, to values that float32 holds exactly."""
    random = np.random.default_rng(0)
    with torch.no_grad():
        for leaf in model.parameters():
            leaf.copy_((leaf + 0.1 * torch.as_tensor(random.normal(size=tuple(leaf.shape)))).float())
        for name, buffer in model.named_buffers():
            if buffer.is_floating_point() and name in model.state_dict():
                buffer.copy_((buffer + 0.1 * torch.as_tensor(random.uniform(size=tuple(buffer.shape)))).float())
