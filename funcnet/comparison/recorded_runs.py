"""Run a torch module and its port once each, and record the outputs and gradients of all layers.

For a run in float64, the parameters, buffers and floating-point inputs are cast. The port runs as one compiled program.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import nn, tree
from funcnet.comparison.torch_objects import TorchModule, TorchTensor
from funcnet.nn.core.call import call_name
from funcnet.nn.inspection.capture import capture_all
from funcnet.tree import Params, PyTree, State

__all__ = ["Run", "array", "run_ours", "run_torch"]

# On CPU, the program is compiled with few optimizations, in a third of the time, because it runs only once.
_QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
}
# A fusion recomputes an entry wherever it is used, with different rounding each time, which breaks ties in max-pooling.
# The old emitters stay off here: together with disabled fusion, they compile some convolutions wrongly (jaxlib 0.10).
_UNFUSED = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_disable_hlo_passes": "fusion",
    "xla_cpu_use_fusion_emitters": True,
}


@dataclass
class Run:
    """The results of one run of the torch module or of the port."""

    modules: dict[str, str]  # {call: name of the module}; empty for funcnet
    outputs: dict[str, list[np.ndarray]]  # by call
    gradients: dict[str, list[np.ndarray | None]]  # with respect to the outputs, by call
    parameters: dict[str, np.ndarray]  # gradients, by dotted name
    buffers: dict[str, np.ndarray]
    cotangents: list[np.ndarray]  # empty for funcnet


def run_torch(
    torch: ModuleType,
    module: TorchModule,
    inputs: PyTree,
    kwargs: dict[str, Any],
    training: bool,
    double: bool,
    seed: int,
) -> Run:
    """Run a copy of the torch module with hooks, and return its outputs and gradients. `double` selects float64."""
    module = _copied(module).train(training)
    module = module.double() if double else module
    run = Run({}, {}, {}, {}, {}, [])
    calls: dict[str, int] = {}

    def watch(name: str) -> Any:
        def hook(_: object, __: object, output: PyTree) -> Any:
            count = calls.get(name, 0)
            calls[name] = count + 1
            key = call_name(name, count)
            run.modules[key] = name
            # The output is copied, because later modules may change it in place, and because only uses of the output
            # outside the module count for its gradient.
            output = _map(lambda x: x.clone() if hasattr(x, "shape") else x, output)
            tensors = list(_leaves(output))
            run.outputs[key] = [array(t) for t in tensors]
            run.gradients[key] = [np.zeros(tuple(t.shape)) if t.requires_grad else None for t in tensors]
            for i, tensor in enumerate(tensors):
                if tensor.requires_grad:
                    tensor.register_hook(lambda g, key=key, i=i: run.gradients[key].__setitem__(i, array(g)))
            return output

        return hook

    for name, part in module.named_modules():
        part.register_forward_hook(watch(name))
    for parameter in module.parameters():
        parameter.grad = None
    to_tensor = lambda x: _tensor(torch, x, double)
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
        n: np.zeros(tuple(p.shape)) if p.grad is None else array(p.grad) for n, p in module.named_parameters()
    }
    run.buffers = {n: array(b) for n, b in module.named_buffers()}
    return run


def _copied(module: TorchModule) -> Any:
    """Return a deep copy of a torch module. Torch refuses to copy computed tensors, such as the weight of
    `weight_norm`. In the copy, detached tensors replace the computed tensors, and `forward` computes them again.
    """
    attributes = [value for part in module.modules() for value in vars(part).values()]
    computed = [value for value in attributes if getattr(value, "grad_fn", None) is not None]
    return copy.deepcopy(module, {id(value): value.detach() for value in computed})


def run_ours(
    net: nn.Module,
    params: Params,
    state: State,
    inputs: PyTree,
    kwargs: dict[str, Any],
    training: bool,
    rng: jax.Array | None,
    double: bool,
    cotangents: Any,
) -> Run:
    """Run the port as one compiled program, and return its outputs and gradients. `double` selects float64."""
    given = {"inputs": _map(_from_torch, inputs), "kwargs": _map(_from_torch, kwargs)}
    with jax.enable_x64(True) if double else contextlib.nullcontext():
        params, state, given = (_map(lambda x: _to_jax(x, double), value) for value in (params, state, given))
        run = capture_all(net, lambda output: _loss(output, cotangents))
        # Floating inputs are arguments of the program. Integers are not, because a forward may need their values while
        # it is traced, such as the lengths of packed sequences.
        leaves, structure = jax.tree.flatten(given)
        floating = {i: leaf for i, leaf in enumerate(leaves) if _is_inexact(leaf)}

        def program(params: Params, state: State, floating: dict[int, Any], rng: jax.Array | None) -> Any:
            given = jax.tree.unflatten(structure, [floating.get(i, leaf) for i, leaf in enumerate(leaves)])
            parameters, new, outputs, gradients = run(
                params, state, *given["inputs"], **given["kwargs"], training=training, rng=rng
            )
            gradients = {name: _aligned(output, gradients[name]) for name, output in outputs.items()}
            outputs = {name: list(_leaves(output)) for name, output in outputs.items()}
            return net.unstack(parameters), net.unstack(new), outputs, gradients

        lowered = jax.jit(program).lower(params, state, floating, rng)
        results = lowered.compile(_options(net))(params, state, floating, rng)
    parameters, new, outputs, gradients = jax.tree.map(np.asarray, results)
    return Run({}, outputs, gradients, tree.flatten(parameters), tree.flatten(new), [])


def _options(net: nn.Module) -> dict[str, Any] | None:
    if jax.default_backend() != "cpu":
        return None
    pools = any("MaxPool" in type(part).__name__ for _, part in net.named_modules())
    return _UNFUSED if pools else _QUICK


def _loss(output: PyTree, cotangents: list[np.ndarray]) -> jax.Array:
    floating = [x for x in _leaves(output) if _is_inexact(x)]
    wide = lambda x: x.astype(jnp.float32) if jnp.finfo(x.dtype).bits < 32 else x
    return jnp.asarray(
        sum(jnp.vdot(wide(x), jnp.asarray(c, wide(x).dtype)) for x, c in zip(floating, cotangents, strict=True))
    )


def _is_inexact(value: PyTree) -> bool:
    return hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jnp.inexact)


def _leaves(value: PyTree) -> Iterator[Any]:
    """Yield the arrays or tensors of an output. Plain dicts are sorted by key, as in JAX. Dict subclasses are not."""
    if isinstance(value, dict):
        value = [value[key] for key in (sorted(value) if type(value) is dict else value)]
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif hasattr(value, "shape"):
        yield value


def _aligned(output: PyTree, gradient: PyTree) -> list[Any]:
    """Return the gradients of the arrays of an output, in the order of `_leaves`, with None for a missing gradient."""
    if isinstance(output, dict):
        keys = sorted(output) if type(output) is dict else output
        return [g for key in keys for g in _aligned(output[key], gradient[key])]
    if isinstance(output, list | tuple):
        return [g for item, one in zip(output, gradient, strict=True) for g in _aligned(item, one)]
    return [gradient] if hasattr(output, "shape") else []


def _map(change: Callable[[Any], Any], value: PyTree) -> Any:
    if type(value) is dict:
        return {key: _map(change, item) for key, item in value.items()}
    if isinstance(value, dict):
        return type(value)(**{key: _map(change, item) for key, item in value.items()})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map(change, item) for item in value))
    if isinstance(value, list | tuple):
        return type(value)(_map(change, item) for item in value)
    return change(value)


def _tensor(torch: ModuleType, value: PyTree, double: bool) -> Any:
    if not hasattr(value, "shape"):
        return value
    if not isinstance(value, torch.Tensor):
        value = _numpy_tensor(torch, value)
    return value.double() if double and value.is_floating_point() else value


def _numpy_tensor(torch: ModuleType, value: PyTree) -> Any:
    value = np.array(value)
    if value.dtype.name == "bfloat16":
        return torch.tensor(value.astype(np.float32)).bfloat16()
    return torch.tensor(value.astype(np.int64) if value.dtype.kind in "iu" else value)


def _from_torch(value: PyTree) -> Any:
    return array(value) if hasattr(value, "detach") else value


def _to_jax(value: PyTree, double: bool) -> Any:
    if not hasattr(value, "shape"):
        return value
    if not double:
        return jnp.asarray(value)
    if not _is_inexact(value):  # integers have the width that they have without float64
        with jax.enable_x64(False):
            return jnp.asarray(value)
    wide = np.complex128 if jnp.issubdtype(value.dtype, jnp.complexfloating) else np.float64
    return jnp.asarray(np.asarray(value).astype(wide))  # NumPy casts, because JAX would compile a cast for each shape


def array(tensor: TorchTensor) -> np.ndarray:
    """Return a copy of a tensor as a NumPy array. bfloat16 becomes float32, and a sparse tensor becomes dense."""
    tensor = tensor.detach().cpu()
    if str(tensor.layout) != "torch.strided":
        tensor = tensor.to_dense()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy().copy()
