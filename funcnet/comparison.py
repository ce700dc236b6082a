"""`funcnet.compare` compares a torch module with its port, layer by layer, forward and backward.

Both modules run once on the same inputs. The outputs of all modules are compared first, then the gradients with respect
to these outputs, then the gradients of the parameters, then the buffers. A difference is the largest absolute
difference divided by the largest absolute entry of torch's tensor. All parameters of one module share this divisor,
because the gradient of a bias before BatchNorm is zero in theory and only noise in practice. If torch has no gradient,
after `detach` or for a frozen parameter, the gradient counts as zero.

For inner modules, only values are compared, not the structure of the output. Additional arrays at the end, or leading
dimensions of 1, are only noted, because any effect becomes visible in later modules. The root's output must have the
same structure as in torch. This file does not import torch, because a caller with a torch module has already done so.
"""

import copy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import nn, table, tree
from funcnet.nn.core.call import call_name

__all__ = ["CallRow", "Comparison", "compare"]


@dataclass(frozen=True)
class CallRow:
    """One call of one module. A difference is None if there is nothing to compare."""

    name: str  # "fc:1" is the second call of "fc"
    kind: str  # name of the torch class
    forward: float | None  # difference of the outputs
    backward: float | None  # difference of the gradients with respect to the outputs
    parameters: float | None  # difference of the gradients of the module's own parameters
    buffers: float | None  # difference of the module's own buffers after the call
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`. It is shown as a table in a terminal or a notebook, and has `rows` for programs."""

    rows: tuple[CallRow, ...]  # in the order in which the calls of torch's forward returned
    weights: dict[str, float]  # differences of the state_dicts before the run, if over tolerance
    tolerance: float
    precision: str  # the matmul precision of both libraries

    @property
    def first(self) -> str | None:
        """Name of the first module over tolerance, or None if all modules are within tolerance.

        The search covers outputs in forward order, then their gradients in backward order, then the gradients of
        parameters, then buffers.
        """
        orders = (
            [(row, row.forward) for row in self.rows],
            [(row, row.backward) for row in reversed(self.rows)],
            [(row, row.parameters) for row in reversed(self.rows)],
            [(row, row.buffers) for row in self.rows],
        )
        for order in orders:
            for row, difference in order:
                if difference is not None and not difference <= self.tolerance:
                    return row.name
        return None

    @property
    def ok(self) -> bool:
        """Whether everything is within tolerance, including the weights before the run."""
        return not self.weights and self.first is None

    def to_dataframe(self) -> Any:
        """Return a pandas.DataFrame with one row per call."""
        return table.dataframe(self.rows, "Comparison.to_dataframe")

    def _verdict(self) -> str:
        lines = [f"tolerance {self.tolerance:g}; {self.precision}"]
        if self.weights:
            worst = sorted(self.weights.items(), key=lambda item: -item[1])[:5]
            shown = ", ".join(f"{name} {value:.1e}" for name, value in worst)
            lines.append(f"{len(self.weights)} weights differ before the run: {shown}. Load torch's state_dict.")
        first = self.first
        named = "the root" if first == "" else first
        whole = "the run is within tolerance, but the weights are not" if self.weights else "all within tolerance"
        lines.append(whole if first is None else f"first over tolerance: {named}")
        return "\n".join(lines)

    def _cells(self) -> list[list[str]]:
        show = lambda value: "" if value is None else f"{value:.1e}"
        return [["module", "class", "forward", "backward", "parameters", "buffers", ""]] + [
            [
                row.name or "(root)",
                row.kind,
                *map(show, (row.forward, row.backward, row.parameters, row.buffers)),
                row.note or ("<- first over tolerance" if row.name == self.first else ""),
            ]
            for row in self.rows
        ]

    def __str__(self) -> str:
        return f"{table.text(self._cells(), left=2)}\n{self._verdict()}"

    def _repr_html_(self) -> str:
        marked = [i for i, row in enumerate(self.rows) if row.name == self.first]
        return f"{table.html(self._cells(), marked)}<pre>{self._verdict()}</pre>"

    __repr__ = __str__


def compare(
    torch_module: Any,
    net: nn.Module,
    params: Any,
    state: Any,
    *inputs: Any,
    training: bool = False,
    rng: jax.Array | None = None,
    tolerance: float = 1e-5,
    seed: int = 0,
    **kwargs: Any,
) -> Comparison:
    """Compare a torch module with its port layer by layer, forward and backward, and find the first that differs.

    Args:
        torch_module: a torch.nn.Module. A copy of it is run, so it is not changed.
        net, params, state: port of the torch module, with params and state from
            `net.load_state_dict(torch_module.state_dict())`.
        *inputs, **kwargs: arguments of both forward methods. Arrays are converted to tensors (integers to int64), and
            tensors to arrays.
        training: mode of both modules. Set the rate of dropout to 0, because torch and JAX drop different elements.
        rng: random key for `net`.
        tolerance: maximum absolute difference in a tensor, divided by the largest absolute entry of torch's tensor.
        seed: seed of the random cotangents. The gradients are those of sum(output * cotangent).

    Returns:
        A `Comparison`, which is shown as a table. It has the attributes `ok`, `first` (name of the first module over
        tolerance, or None) and `rows`, and the method `to_dataframe()`.

    Raises:
        TypeError: if `torch_module` is not a torch module, or `params` or `state` is missing.
        ValueError: if `net.apply` raises one.

    Example:
        >>> import torch, funcnet
        >>> theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 2))
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.GELU("tanh"), nn.Linear(4, 2))  # torch's GELU is the exact one
        >>> params, state = net.load_state_dict(theirs.state_dict())
        >>> funcnet.compare(theirs, net, params, state, np.ones((2, 3), np.float32)).first
        '1'
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(torch_module, torch.nn.Module):
        raise TypeError(
            f"funcnet.compare: the first argument is not a torch module; expected torch.nn.Module, got "
            f"{type(torch_module).__name__}. The order is compare(torch_module, net, params, state, *inputs)."
        )
    if not isinstance(params, dict) or not isinstance(state, dict):
        raise TypeError(
            "funcnet.compare: params or state has the wrong type; expected two dicts, as returned by `init`, got "
            f"{type(params).__name__} and {type(state).__name__}. The order is compare(torch_module, net, params, "
            "state, *inputs)."
        )
    theirs = copy.deepcopy(torch_module).train(training)
    expected_weights = {name: _array(value) for name, value in theirs.state_dict().items() if hasattr(value, "shape")}
    given = net.state_dict(params, state)
    weights = {
        name: found
        for name, value in expected_weights.items()
        if (found := _difference([np.asarray(given[name])] if name in given else [], [value])) > tolerance
    }
    reference = _run_torch(torch, theirs, inputs, kwargs, seed)
    ours = _run_ours(net, params, state, inputs, kwargs, training, rng, reference.cotangents)
    return Comparison(tuple(_rows(theirs, reference, ours)), weights, tolerance, _precision(torch))


@dataclass
class _Run:
    modules: dict[str, str]  # {call: name of the module}
    outputs: dict[str, list[np.ndarray]]  # by call
    gradients: dict[str, list[np.ndarray | None]]
    parameters: dict[str, np.ndarray]  # gradients, by dotted name
    buffers: dict[str, np.ndarray]
    cotangents: list[np.ndarray]


def _run_torch(torch: Any, module: Any, inputs: Any, kwargs: Any, seed: int) -> _Run:
    run = _Run({}, {}, {}, {}, {}, [])
    calls: dict[str, int] = {}

    def watch(name: str) -> Any:
        def hook(_: Any, __: Any, output: Any) -> Any:
            count = calls.get(name, 0)
            calls[name] = count + 1
            key = call_name(name, count)
            run.modules[key] = name
            # The output is copied, because later modules may change it in place, and because only uses of the output
            # outside the module count for its gradient.
            output = _map(lambda x: x.clone() if hasattr(x, "shape") else x, output)
            tensors = list(_leaves(output))
            run.outputs[key] = [_array(t) for t in tensors]
            run.gradients[key] = [np.zeros(tuple(t.shape)) if t.requires_grad else None for t in tensors]
            for i, tensor in enumerate(tensors):
                if tensor.requires_grad:
                    tensor.register_hook(lambda g, key=key, i=i: run.gradients[key].__setitem__(i, _array(g)))
            return output

        return hook

    for name, part in module.named_modules():
        part.register_forward_hook(watch(name))
    for parameter in module.parameters():
        parameter.grad = None
    to_tensor = lambda x: _tensor(torch, x)
    output = module(*_map(to_tensor, inputs), **_map(to_tensor, kwargs))
    random = np.random.default_rng(seed)
    floating = [t for t in _leaves(output) if t.is_floating_point()]
    run.cotangents = [random.normal(size=tuple(t.shape)).astype(np.float32) for t in floating]
    terms = [
        (t * torch.tensor(c, dtype=t.dtype, device=t.device)).sum()
        for t, c in zip(floating, run.cotangents, strict=True)
        if t.requires_grad
    ]
    if terms:
        sum(terms).backward()
    run.parameters = {
        n: np.zeros(tuple(p.shape)) if p.grad is None else _array(p.grad) for n, p in module.named_parameters()
    }
    run.buffers = {n: _array(b) for n, b in module.named_buffers()}
    return run


def _run_ours(
    net: Any, params: Any, state: Any, inputs: Any, kwargs: Any, training: bool, rng: Any, cotangents: Any
) -> _Run:
    inputs, kwargs = _map(_to_jax, inputs), _map(_to_jax, kwargs)
    how = {"training": training, "rng": rng}

    def loss(output: Any) -> jax.Array:
        floating = [x for x in _leaves(output) if jnp.issubdtype(x.dtype, jnp.inexact)]
        wide = lambda x: x.astype(jnp.float32) if jnp.finfo(x.dtype).bits < 32 else x
        return jnp.asarray(
            sum(jnp.vdot(wide(x), jnp.asarray(c, wide(x).dtype)) for x, c in zip(floating, cotangents, strict=True))
        )

    def value(params: Any) -> Any:
        output, new, captured = nn.capture(net, "**")(params, state, *inputs, **kwargs, **how)
        return loss(output), (new, captured)

    parameters, (new, captured) = jax.grad(value, has_aux=True)(params)
    _, gradients = nn.capture_gradients(net, "**", loss)(params, state, *inputs, **kwargs, **how)
    array = lambda x: None if x is None else np.asarray(x)
    return _Run(
        {},
        {name: [np.asarray(x) for x in _leaves(output)] for name, output in captured.items()},
        {name: [array(x) for x in _leaves(g, none=True)] for name, g in gradients.items()},
        {name: np.asarray(g) for name, g in tree.flatten(net.unstack(parameters)).items()},
        {name: np.asarray(b) for name, b in tree.flatten(net.unstack(new)).items()},
        [],
    )


def _rows(module: Any, torchs: _Run, ours: _Run) -> Iterator[CallRow]:
    kinds = {name: type(part).__name__ for name, part in module.named_modules()}
    done: set[str] = set()
    for call in torchs.outputs:
        name = torchs.modules[call]
        own = lambda values, name=name: [n for n in values if n.rpartition(".")[0] == name and name not in done]
        after = (
            _worst(own(torchs.parameters), torchs.parameters, ours.parameters),
            _worst(own(torchs.buffers), torchs.buffers, ours.buffers),
        )
        done.add(name)
        if call not in ours.outputs:
            yield CallRow(call, kinds[name], None, None, *after, "funcnet did not call it")
            continue
        form = _values if name else list
        pairs = zip(ours.gradients[call], torchs.gradients[call], strict=False)
        seen = [(*form([mine]), *form([theirs])) for mine, theirs in pairs if mine is not None and theirs is not None]
        mine, theirs = ours.outputs[call], torchs.outputs[call]
        if name:
            both = min(len(mine), len(theirs))
            mine, theirs = mine[:both], theirs[:both]
        forward = _difference(form(mine), form(theirs))
        backward = _difference([mine for mine, _ in seen], [theirs for _, theirs in seen]) if seen else None
        shapes = [[a.shape for a in run.outputs[call]] for run in (ours, torchs)]
        note = f"shapes {shapes[0]}, torch {shapes[1]}" if shapes[0] != shapes[1] else ""
        yield CallRow(call, kinds[name], forward, backward, *after, note)
    for call in ours.outputs:
        if call not in torchs.outputs:
            yield CallRow(call, "", None, None, None, None, "torch did not call it")


def _values(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Return the arrays without leading dimensions of 1, which broadcast."""
    return [a.reshape(a.shape[next((i for i, size in enumerate(a.shape) if size != 1), a.ndim) :]) for a in arrays]


def _worst(names: list[str], torchs: dict[str, np.ndarray], ours: dict[str, np.ndarray]) -> float | None:
    names = [name for name in names if name in ours]
    least = max((np.abs(torchs[name]).max(initial=0.0) for name in names), default=0.0)
    return max((_difference([ours[name]], [torchs[name]], least) for name in names), default=None)


def _difference(ours: list[np.ndarray], torchs: list[np.ndarray], least: float = 0.0) -> float:
    """Return the largest difference divided by torch's largest absolute entry, or by `least` if `least` is larger.

    The result is infinite if shapes, infinities or NaNs differ.
    """
    if [a.shape for a in ours] != [a.shape for a in torchs]:
        return float("inf")
    worst = 0.0
    for mine, theirs in zip(ours, torchs, strict=True):
        mine, theirs = mine.astype(np.float64), theirs.astype(np.float64)
        strange = ~np.isfinite(theirs)
        if not np.array_equal(mine[strange], theirs[strange], equal_nan=True) or not np.isfinite(mine[~strange]).all():
            return float("inf")
        apart = np.abs(mine[~strange] - theirs[~strange]).max(initial=0.0)
        largest = np.abs(theirs[~strange]).max(initial=least)
        worst = max(worst, float(apart / largest) if largest else float(apart))
    return worst


def _precision(torch: Any) -> str:
    jaxs = jax.config.jax_default_matmul_precision or "default"  # type: ignore[attr-defined]
    return f"matmul precision: JAX {jaxs} on {jax.default_backend()}, torch {torch.get_float32_matmul_precision()}" + (
        "" if jaxs != "default" or jax.default_backend() == "cpu" else '; for parity, set it to "highest" in JAX'
    )


def _leaves(value: Any, none: bool = False) -> Iterator[Any]:
    """Yield the arrays or tensors of an output. Plain dicts are sorted by key, as in JAX, but other dicts are not."""
    if isinstance(value, dict):
        value = [value[key] for key in (sorted(value) if type(value) is dict else value)]
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item, none)
    elif hasattr(value, "shape") or (none and value is None):
        yield value


def _map(change: Any, value: Any) -> Any:
    if type(value) is dict:
        return {key: _map(change, item) for key, item in value.items()}
    if isinstance(value, dict):
        return type(value)(**{key: _map(change, item) for key, item in value.items()})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map(change, item) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(_map(change, item) for item in value)
    return change(value)


def _tensor(torch: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor) or not hasattr(value, "shape"):
        return value
    value = np.array(value)
    if value.dtype.name == "bfloat16":
        return torch.tensor(value.astype(np.float32)).bfloat16()
    return torch.tensor(value.astype(np.int64) if value.dtype.kind in "iu" else value)


def _to_jax(value: Any) -> Any:
    return jnp.asarray(_array(value) if hasattr(value, "detach") else value) if hasattr(value, "shape") else value


def _array(tensor: Any) -> np.ndarray:
    tensor = tensor.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy().copy()
