"""The proof, which compares a torch model and its port layer by layer in float64 and float32.

For the comparison in float64, both sources are loaded with float32 widened to float64 (`float64_widening.py`), so that
even a model that calls `.float()` is compared without rounding. Random numbers are the same in both libraries
(`equal_random_numbers.py`), so dropout stays on in training mode. The proof also tests whether the torch source reads a
tensor that was changed in place under another name (`rebinding.py`).
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import dataclasses
import importlib
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import functional, nn
from funcnet.comparison import Comparison, compare
from funcnet.comparison.torch_objects import TorchModule, TorchTensor
from funcnet.porting.errors import PortError
from funcnet.porting.errors.unported_lines import BLOCKS, RegisterEntry
from funcnet.porting.proving.eager_proof import NOT_TRACED, eager_differences
from funcnet.porting.proving.equal_random_numbers import patterned
from funcnet.porting.proving.float64_widening import widen
from funcnet.porting.proving.rebinding import rebind
from funcnet.porting.rewriting.rewriter import port_expression
from funcnet.porting.running.loading import Loaded, construct, example, load

__all__ = ["DOUBLE", "SINGLE", "Check", "Proof", "prove"]

DOUBLE, SINGLE = 1e-9, 2e-4  # tolerances in float64 and in float32
_ROUNDED = 1e-2  # tolerance of gradients in float32, because rounding adds up in the backward pass


@dataclasses.dataclass(frozen=True)
class Check:
    """One comparison.

    Attributes:
        name: what was compared.
        ok: whether the differences between torch and the port are within the tolerance.
        forward, gradients, buffers: the largest differences, or None if there is nothing to compare.
        note: a remark, such as the first layer that differs.
    """

    name: str
    ok: bool
    forward: float | None = None
    gradients: float | None = None
    buffers: float | None = None
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Proof:
    """The results of all comparisons of a torch model with its port.

    Attributes:
        checks: the comparisons.
        entries: the entries that the comparisons add to the register.
        construct: the expression that made the model.
        example: the expression for the arguments of `forward`.
        seconds: how long the proof took.
        unrun: the reason why the test for tensors that are changed under another name could not run, or "" if it ran.
    """

    checks: tuple[Check, ...]
    entries: tuple[RegisterEntry, ...]
    construct: str
    example: str
    seconds: float
    unrun: str = ""

    @property
    def ok(self) -> bool:
        return bool(self.checks) and all(one.ok for one in self.checks)

    def as_markdown(self, name: str) -> str:
        """Return the text of PROOF.md."""
        verdict = "equals torch's model" if self.ok else "does not equal torch's model"
        lines = [
            f"# {name}: the port {verdict}",
            "",
            f"Made with `{self.construct}`, run on `{self.example}`. A difference is the largest absolute difference "
            "of two entries, divided by the largest absolute entry of torch's tensor. The port ran under `jit`, unless "
            "a note says otherwise.",
            "",
            "| comparison | equal | outputs | gradients | buffers | note |",
            "|---|---|---|---|---|---|",
        ]
        for one in self.checks:
            numbers = ["" if value is None else f"{value:.1e}" for value in (one.forward, one.gradients, one.buffers)]
            cells = [one.name, "yes" if one.ok else "**no**", *numbers, one.note]
            lines.append("| " + " | ".join(cells) + " |")
        if self.unrun:
            lines += ["", f"The test for aliasing (`rebinding.py`) could not run: {self.unrun}"]
        return "\n".join([*lines, "", f"It took {self.seconds:.0f} s.", ""])


def prove(
    source: Path,
    name: str,
    ported: Path,
    construct_with: str | None,
    example_with: str,
    progress: Callable[[str], None] = lambda text: None,
) -> Proof:
    """Compare a torch model with its port.

    Args:
        source: the torch source.
        name: the class.
        ported: the ported file that defines the class.
        construct_with: the expression that makes the torch model. By default, its class is called without arguments.
        example_with: the expression for the arguments of `forward`.
        progress: function that is called with a line of text at each stage.

    Returns:
        All comparisons. A port or a source that cannot be run is a failed comparison, not an error.
    """
    begun = time.monotonic()
    torch = importlib.import_module("torch")
    expression = construct_with or f"{name}()"
    checks: list[Check] = []
    entries: tuple[RegisterEntry, ...] = ()
    unrun = ""
    try:
        with _wide(torch), patterned():
            theirs, ours = load(source, name, transform=_widened), load(ported, name, transform=_widened)
            model, net = _models(torch, theirs, ours, expression)
            given = example(theirs, example_with)
            checks.append(_names(net, model))
            if not checks[0].ok:
                return Proof(tuple(checks), entries, expression, example_with, time.monotonic() - begun)
            for title, training, perturbed in _RUNS:
                progress(f"float64, {title}")
                with theirs.running():
                    checks.append(_check(torch, f"float64, {title}", model, net, given, training, perturbed, DOUBLE))
            try:
                found = _aliasing(torch, source, name, expression, model, given)
            except Exception as error:  # the changed source may do anything
                found, unrun = None, _line(error)
            right = all(one.ok for one in checks)
            entries = () if found is None or right else (found,)  # an equal port handles the aliasing correctly
        with patterned():
            theirs, ours = load(source, name), load(ported, name)
            model, net = _models(torch, theirs, ours, expression)
            given = example(theirs, example_with)
            progress("float32")
            with theirs.running():
                checks.append(_check(torch, "float32, eval", model, net, given, False, True, SINGLE))
    except (PortError, NotImplementedError) as error:
        checks.append(Check("the port runs", False, note=_line(error)))
    return Proof(tuple(checks), entries, expression, example_with, time.monotonic() - begun, unrun)


_RUNS = (("eval, its own weights", False, False), ("eval, perturbed", False, True), ("train, perturbed", True, True))


def _widened(path: Path, tree: ast.Module) -> Any:
    return widen(tree)


@contextlib.contextmanager
def _wide(torch: ModuleType) -> Iterator[None]:
    """Make a context in which both libraries compute in float64 by default."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with jax.enable_x64(True):
            yield
    finally:
        torch.set_default_dtype(before)


def _models(torch: ModuleType, theirs: Loaded, ours: Loaded, expression: str) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = construct(theirs, expression)
    with torch.no_grad():
        persistent = set(model.state_dict())
        buffers = [buffer for name, buffer in model.named_buffers() if name in persistent]
        for leaf in (*model.parameters(), *buffers):  # round to values that float32 holds exactly
            if leaf.is_floating_point():
                leaf.copy_(leaf.float())
    net = _net(theirs, ours, expression)
    inner = dict(net.named_modules())
    for name, one in model.named_modules():
        if isinstance(one, torch.nn.RNNBase) and name in inner:
            one.dropout = inner[name].dropout = 0.0  # torch draws it inside its kernel, so it cannot be replaced
    return model, net


def _net(theirs: Loaded, ours: Loaded, expression: str) -> Any:
    """Make the port's model with the expression that makes the torch model.

    The expression may use layers of torch, and names of the standard library that the torch source imports.
    """
    text, undecided = port_expression(expression, {})
    if undecided:
        raise PortError(f"--construct: {undecided[0].why} {undecided[0].write}".rstrip())
    names: dict[str, Any] = {key: value for key, value in vars(theirs.module).items() if _is_pythons(value)}
    names |= {"jax": jax, "jnp": jnp, "np": np, "nn": nn, "F": functional}
    for module in [*ours.modules.values(), ours.module]:
        names |= {key: value for key, value in vars(module).items() if not key.startswith("__")}
    names |= _exported(ours, text, names)
    try:
        return eval(text, names)
    except Exception as error:
        raise PortError(f"{text}: the port cannot be made; {type(error).__name__}: {error}") from error


def _is_pythons(value: object) -> bool:
    """Return whether a value is a module of Python's standard library or comes from one, as `partial` does."""
    home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return str(home).partition(".")[0] in sys.stdlib_module_names


def _exported(ours: Loaded, expression: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return {name: value} for the names in an expression that are defined in files of the port other than the main
    file.

    The expression may also name a file, as in `layers.Norm(3)`.
    """
    package = ours.modules.get(ours.module.__name__.rpartition(".")[0])
    tree = list(ast.walk(ast.parse(expression)))
    parts = {one.id for one in tree if isinstance(one, ast.Name)} | {
        one.attr for one in tree if isinstance(one, ast.Attribute)
    }
    with ours.running():
        found = {name: getattr(package, name) for name in parts - set(names) if hasattr(package, name)}
    files = {one.id for one in tree if isinstance(one, ast.Name)} - {*names, *found, *vars(builtins)}
    return {**found, **dict.fromkeys(files, types.SimpleNamespace(**names, **found))}


def _names(net: nn.Module, model: TorchModule) -> Check:
    """Compare the names and shapes of the weights of a torch model with those of its port."""
    match = net.match_state_dict(model.state_dict())
    wrong = {kind: names for kind, names in match._asdict().items() if names}
    note = "; ".join(f"{kind}: {', '.join(map(str, names[:5]))}" for kind, names in wrong.items())
    return Check("names and shapes of the weights", not wrong, note=note)


def _check(
    torch: ModuleType,
    name: str,
    model: TorchModule,
    net: nn.Module,
    given: tuple[Any, Any],
    training: bool,
    perturbed: bool,
    tolerance: float,
) -> Check:
    args, kwargs = given
    if perturbed:
        _perturb(torch, model)
    try:
        params, state = net.load_state_dict(model.state_dict())
        dtype = "float64" if tolerance == DOUBLE else None
        found = compare(
            model, net, params, state, *args, training=training, rng=jax.random.key(0), tolerance=tolerance,
            dtype=dtype, **kwargs,
        )  # fmt: skip
    except NOT_TRACED as error:
        return _eagerly(torch, name, model, net, given, training, tolerance, error)
    except Exception as error:
        return Check(name, False, note=_line(error))
    return _summed(name, found, tolerance)


def _eagerly(
    torch: ModuleType,
    name: str,
    model: TorchModule,
    net: nn.Module,
    given: tuple[Any, Any],
    training: bool,
    tolerance: float,
    why: Exception,
) -> Check:
    """Compare a torch model with its port without `jit`, because the port failed under `jit` with the error `why`."""
    try:
        args, kwargs = given
        found = eager_differences(torch, model, net, args, kwargs, training, tolerance == DOUBLE)
    except Exception as error:
        return Check(name, False, note=_line(error))
    note = f"without jit, which fails: {_line(why)[:160]}"
    return Check(name, found.largest <= tolerance, found.forward, found.gradients, found.buffers, note)


def _summed(name: str, found: Comparison, tolerance: float) -> Check:
    """Return a summary of the comparison of a model with its port. The result is ok if outputs, gradients of parameters
    and buffers are equal within the tolerance.

    The outputs of inner layers may differ even if the model's output is equal, for example in the order of equal
    entries in `topk`. The summary only notes such a difference. In float32, the tolerance of gradients is `_ROUNDED`.
    It is large, but other runs compare the same gradients in float64 with the small tolerance `DOUBLE`.
    """
    largest = lambda column: max((v for row in found.rows if (v := getattr(row, column)) is not None), default=None)
    root = next((row for row in found.rows if row.name == ""), None)
    forward = root.forward if root is not None else None
    gradients, buffers = largest("parameters"), largest("buffers")
    bounds = ((forward, tolerance), (gradients, max(tolerance, _ROUNDED * (tolerance == SINGLE))), (buffers, tolerance))
    equal = not found.weights and root is not None and all(one is None or one <= most for one, most in bounds)
    note = "" if found.ok else f"the first layer that differs is {found.first or '(root)'}"
    if equal and not found.ok:
        why = ", as rounding can make it" if tolerance == SINGLE else ""
        note = f"the result is equal, but the output or a gradient of {found.first or '(root)'} differs{why}"
    return Check(name, found.ok or equal, forward, gradients, buffers, note)


def _perturb(torch: ModuleType, model: TorchModule) -> None:
    """Add noise to every weight of a torch model, so that no zeros and ones from the constructor remain."""
    with torch.no_grad():
        for leaf in model.parameters():
            if leaf.is_floating_point():
                leaf.copy_((leaf + _noise(leaf).to(leaf.dtype)).float())
        persistent = set(model.state_dict())
        for name, buffer in model.named_buffers():
            if name in persistent and buffer.is_floating_point():
                buffer.copy_((buffer + _noise(buffer).abs().to(buffer.dtype)).float())


def _noise(leaf: TorchTensor) -> Any:
    torch = importlib.import_module("torch")
    random = np.random.default_rng(leaf.numel())
    scale = 0.1 * float(leaf.abs().mean().nan_to_num(0, 0, 0)) + 0.01
    return torch.as_tensor(random.normal(size=tuple(leaf.shape)) * scale)


def _aliasing(
    torch: ModuleType, source: Path, name: str, expression: str, model: TorchModule, given: tuple[Any, Any]
) -> RegisterEntry | None:
    """Run the torch model again with its changes in place turned into assignments, and compare the two outputs.

    Returns:
        An entry for the register if the two outputs differ. None if they are equal.
    """
    rebound = load(source, name, transform=lambda path, tree: rebind(widen(tree)))
    other = construct(rebound, expression)
    other.load_state_dict(model.state_dict())
    outputs = []
    for one, loaded in ((model, None), (other, rebound)):
        torch.manual_seed(0)
        with torch.no_grad(), loaded.running() if loaded is not None else contextlib.nullcontext():
            outputs.append(_tensors(one.eval()(*given[0], **given[1])))
    if len(outputs[0]) == len(outputs[1]) and all(_is_close(torch, a, b) for a, b in zip(*outputs, strict=True)):
        return None
    why = (
        "A tensor that is changed in place is read under another name (aliasing): with assignments in place of "
        "changes, torch's own output differs."
    )
    advice = "Find the name that is read after the change, and assign the changed array to it."
    return RegisterEntry(source.name, 1, BLOCKS, name, why, advice)


def _is_close(torch: ModuleType, a: Any, b: Any) -> bool:
    if tuple(a.shape) != tuple(b.shape) or a.dtype != b.dtype:
        return False
    a, b = torch.as_tensor(a), torch.as_tensor(b)
    a, b = (one.to(torch.uint8) if one.dtype == torch.bool else one for one in (a, b))
    return bool(torch.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True))


def _tensors(value: object) -> list[Any]:
    if hasattr(value, "shape"):
        return [value]
    if isinstance(value, dict):
        return [t for one in value.values() for t in _tensors(one)]
    return [t for one in value for t in _tensors(one)] if isinstance(value, list | tuple) else []


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip()}".replace("\n", " ").replace("|", "\\|")[:400]
