"""`module_db`: each entry and input, train and eval: output, gradients, state_dict after the call."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.testing._internal.common_modules import ModuleInput, module_db

from funcnet import nn, tree
from tests.database import convert
from tests.database.differences import NETWORK, ROUNDING, Mismatch, compare

MODULES = {info.name.removeprefix("nn."): info for info in module_db}
LAYERS = (torch.nn.TransformerEncoderLayer, torch.nn.TransformerDecoderLayer)


@dataclass
class Result:
    name: str
    inputs: int = 0
    worst: float = 0.0
    failures: tuple[str, ...] = ()


@dataclass
class Run:
    outputs: list[np.ndarray]
    gradients: dict[str, np.ndarray]
    state: dict[str, np.ndarray]
    cotangents: list[np.ndarray | None]


def inputs_of(name: str, dtype: torch.dtype, training: bool) -> list[ModuleInput]:
    """The database's inputs, the same ones at each call."""
    info = MODULES[name]
    torch.manual_seed(0)
    with convert.remembering_arguments(*LAYERS):
        return list(info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training))


def run(name: str, dtype: str, limit: int | None = None, modes: tuple[bool, ...] = (True, False)) -> Result:
    """All inputs of an entry in `dtype` ('float32' or 'float64')."""
    worst, count, failures = 0.0, 0, []
    rounding = ROUNDING
    with jax.enable_x64(dtype == "float64"):
        if name.startswith("Transformer"):  # one input is a draw of a few roundings; torch's worst draw is the measure
            rounding = {dtype: max(NETWORK[dtype], torchs_worst(name, dtype, limit, modes))}
        for training in modes:
            for number, sample in enumerate(inputs_of(name, getattr(torch, dtype), training)[:limit]):
                count += 1
                try:
                    worst = max(worst, one(name, sample, dtype, training, rounding))
                except Exception as error:
                    mode = "train" if training else "eval"
                    text = str(error) if isinstance(error, Mismatch) else f"{type(error).__name__}: {error}"
                    failures.append(f"{name} {dtype} {mode} input {number} ({sample.desc}): {text[:600]}")
    return Result(name, count, worst, tuple(failures))


def torchs_worst(name: str, dtype: str, limit: int | None, modes: tuple[bool, ...]) -> float:
    """How far torch's own numbers are from its float64, in the worst of the inputs."""
    worst = 0.0
    for training in modes:
        for sample in inputs_of(name, getattr(torch, dtype), training)[:limit]:
            _, narrow, wide, _ = torch_runs(name, sample, dtype, training)
            worst = max(worst, differences(dtype, narrow, narrow, wide))
    return worst


def one(name: str, sample: ModuleInput, dtype: str, training: bool, rounding: dict[str, float]) -> float:
    """One input: the largest difference, or Mismatch."""
    start, narrow, wide, arguments = torch_runs(name, sample, dtype, training)
    built = sample.constructor_input
    net = getattr(nn, name)(*convert.ours(tuple(built.args)), **convert.ours(dict(built.kwargs)))
    params, state = (tree.cast(part, dtype) for part in net.load_state_dict(start))
    ours = our_run(net, params, state, arguments, narrow.cotangents, training)
    return differences(dtype, ours, narrow, wide, rounding)


def torch_runs(name: str, sample: ModuleInput, dtype: str, training: bool) -> tuple[dict[str, Any], Run, Run, Any]:
    """(state_dict at the start, torch's run in `dtype`, in float64, the arguments of forward)."""
    built, given = sample.constructor_input, sample.forward_input
    arguments = (tuple(given.args), dict(given.kwargs))
    theirs = MODULES[name].module_cls(*built.args, **built.kwargs).to(getattr(torch, dtype)).train(training)
    if MODULES[name].is_lazy:
        theirs(*convert.fresh(arguments)[0], **convert.fresh(arguments)[1])
    start = _perturbed(theirs)
    # torch's constructor takes tensors too (class weights, samples): the oracle is built anew from wide ones.
    wide_built = convert.fresh((tuple(built.args), dict(built.kwargs)), torch.float64)
    oracle = MODULES[name].module_cls(*wide_built[0], **wide_built[1]).double().train(training)
    if MODULES[name].is_lazy:
        wide_arguments = convert.fresh(arguments, torch.float64)
        oracle(*wide_arguments[0], **wide_arguments[1])
    oracle.load_state_dict(start)
    theirs.load_state_dict(start)

    narrow = torch_run(theirs, arguments, getattr(torch, dtype))
    wide = torch_run(oracle, arguments, torch.float64)
    return start, narrow, wide, arguments


def _perturbed(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Its state_dict with noise: weights of one, biases and means of zero would hide a mistake. float32 holds it."""
    generator = torch.Generator().manual_seed(1)
    start = {}
    for name, value in module.state_dict().items():
        start[name] = value.detach().clone()
        if value.is_floating_point():
            noise = torch.rand(value.shape, generator=generator, dtype=torch.float32)
            start[name] = (value + 0.3 * noise).detach().float().to(value.dtype)  # more, as variances stay positive
    return start


def torch_run(module: torch.nn.Module, arguments: Any, dtype: torch.dtype) -> Run:
    args, kwargs = convert.fresh(arguments, dtype)
    outputs = convert.tensors_in(module(*args, **kwargs))
    leaves = {f"input {i}": t for i, t in enumerate(convert.tensors_in((args, kwargs))) if t.requires_grad}
    leaves |= {name: p for name, p in module.named_parameters() if p.requires_grad}
    random = np.random.default_rng(2)
    cotangents = [random.normal(size=o.shape).astype(np.float32) if o.requires_grad else None for o in outputs]
    gradients = torch_gradients(outputs, leaves, cotangents)
    return Run(
        [convert.array(o) for o in outputs],
        gradients,
        {name: convert.array(value) for name, value in module.state_dict().items()},
        cotangents,
    )


def torch_gradients(
    outputs: list[torch.Tensor], leaves: dict[str, torch.Tensor], cotangents: list[np.ndarray | None]
) -> dict[str, np.ndarray]:
    """{leaf: gradient} under the cotangents; zeros where torch has none."""
    pairs = [(o, torch.tensor(c).to(o.dtype)) for o, c in zip(outputs, cotangents, strict=True) if c is not None]
    if not pairs or not leaves:
        return {name: np.zeros(leaf.shape, convert.DTYPES[leaf.dtype]) for name, leaf in leaves.items()}
    found = torch.autograd.grad([o for o, _ in pairs], list(leaves.values()), [c for _, c in pairs], allow_unused=True)
    return {
        name: convert.array(torch.zeros_like(leaf) if g is None else g)
        for (name, leaf), g in zip(leaves.items(), found, strict=True)
    }


def our_run(net: Any, params: Any, state: Any, arguments: Any, cotangents: list[Any], training: bool) -> Run:
    asked = [tensor.requires_grad for tensor in convert.tensors_in(arguments)]
    leaves, fixed = split(arguments, asked)

    @jax.jit
    def go(params: Any, state: Any, leaves: Any) -> Any:
        def forward(params: Any, leaves: Any) -> Any:
            args, kwargs = joined(arguments, leaves, fixed)
            out, new = net.apply(params, state, *args, training=training, rng=jax.random.key(0), **kwargs)
            return jax.tree.leaves(out), new

        outputs, pull, new = jax.vjp(forward, params, leaves, has_aux=True)
        pulled = pull([cotangent(o, c) for o, c in zip(outputs, cotangents, strict=True)])
        return outputs, new, *pulled

    outputs, new, param_gradients, input_gradients = go(params, state, leaves)
    gradients = {f"input {i}": np.asarray(g) for i, g in input_gradients.items()}
    gradients |= {name: np.asarray(g) for name, g in tree.flatten(param_gradients).items()}
    return Run([np.asarray(o) for o in outputs], gradients, net.state_dict(params, new), cotangents)


def cotangent(output: jax.Array, given: np.ndarray | None) -> Any:
    """`given` in the output's dtype; zeros, as JAX wants them, where torch differentiates nothing."""
    if not jnp.issubdtype(output.dtype, jnp.inexact):
        return np.zeros(output.shape, jax.dtypes.float0)
    return jnp.zeros_like(output) if given is None else jnp.asarray(given).astype(output.dtype)


def split(arguments: Any, asked: list[bool]) -> tuple[dict[int, jax.Array], dict[int, Any]]:
    """(tensors that torch differentiates by, the others) by their number."""
    arrays = {i: jnp.asarray(convert.array(t)) for i, t in enumerate(convert.tensors_in(arguments))}
    return {i: a for i, a in arrays.items() if asked[i]}, {i: a for i, a in arrays.items() if not asked[i]}


def joined(arguments: Any, leaves: dict[int, Any], fixed: dict[int, Any]) -> Any:
    """Our arguments again, with these arrays in place of the tensors."""
    order: Iterator[int] = iter(range(len(leaves) + len(fixed)))
    numbered = convert.walk(arguments, lambda x: _Place(next(order)) if isinstance(x, torch.Tensor) else x)
    both = {**leaves, **fixed}

    def fill(value: Any) -> Any:
        if isinstance(value, _Place):
            return both[value.number]
        if isinstance(value, dict):
            return {key: fill(item) for key, item in value.items() if key != "device"}
        if isinstance(value, torch.nn.utils.rnn.PackedSequence):
            return nn.utils.rnn.PackedSequence(*(fill(item) for item in value))
        if isinstance(value, list | tuple):
            return (list if isinstance(value, list) else tuple)(fill(item) for item in value)
        return convert.ours(value)

    return fill(numbered)


@dataclass(frozen=True)
class _Place:
    number: int


def differences(dtype: str, ours: Run, narrow: Run, wide: Run, rounding: dict[str, float] = ROUNDING) -> float:
    """The largest of all, or Mismatch."""
    if len(ours.outputs) != len(narrow.outputs):
        raise Mismatch(f"{len(ours.outputs)} outputs, torch {len(narrow.outputs)}")
    numbered = lambda run: {str(i): output for i, output in enumerate(run.outputs)}
    asked = [c for c in wide.cotangents if c is not None]
    worst = 0.0
    for what, *runs, size in (
        ("output", numbered(ours), numbered(narrow), numbered(wide), ()),
        ("gradient of", ours.gradients, narrow.gradients, wide.gradients, asked),
        ("state", ours.state, narrow.state, wide.state, asked),
    ):
        if set(runs[0]) != set(runs[1]):
            raise Mismatch(f"{what}: {sorted(runs[0])}, torch {sorted(runs[1])}")
        worst = max(
            worst, compare(what, dtype, {name: [run[name] for run in runs] for name in runs[1]}, size, rounding)
        )
    return worst
