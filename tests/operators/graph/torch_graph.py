"""Torch's backward graph, and its comparison with ours."""

import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import torch

from funcnet.operators.graph import BackwardGraph, BackwardNode

NEAR = 1e-5  # relative to the largest entry: the same sums in float32, in another order
# What torch saves beside tensors and arguments of the operation: shapes, strides, dtypes, and geometry.
UNSAVED = re.compile(r"_sym_|_scalar_type|_options|_argsize|_geometry|_args_|values_info|source_dim|_opt$")


def torch_order(outputs: Sequence[torch.Tensor]) -> list[Any]:
    """The nodes in the order in which torch's engine runs them."""
    seen, todo, order = set(), [one.grad_fn for one in outputs if one.grad_fn is not None], []
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [one for one, _ in node.next_functions]
            node.register_prehook(lambda _, node=node: order.append(node))
    roots = [one for one in outputs if one.requires_grad]
    if roots:
        torch.autograd.backward(roots, [torch.ones_like(one) for one in roots], retain_graph=True)
    return order


def torch_name(node: Any) -> str:
    return node.name().removeprefix("torch::autograd::")


def torch_saved(node: Any) -> dict[str, Any]:
    """What a node saves: arrays, and arguments as Python values."""
    found = {}
    for name in dir(node):
        if name.startswith("_saved_") and not UNSAVED.search(name):
            value = getattr(node, name)
            if value is not None:
                found[name.removeprefix("_saved_")] = plain(value)
    return found


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().float().numpy() if value.dtype == torch.bfloat16 else value.detach().numpy()
    if isinstance(value, tuple | list):
        return tuple(plain(one) for one in value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 2**63:
        return value - 2**64  # torch shows negative numbers as unsigned ones
    return value


def differences(
    graph: BackwardGraph, nodes: Sequence[Any], saved: bool = True, ignored: Sequence[str] = ()
) -> list[str]:
    """What differs between our graph and torch's: names in order, edges, shapes, saved values."""
    ours, theirs = graph.nodes, list(nodes)
    names, expected = [one.name for one in ours], [torch_name(one) for one in theirs]
    if names != expected:
        place = next(
            (n for n, (a, b) in enumerate(zip(names, expected, strict=False)) if a != b), min(len(names), len(expected))
        )
        return [f"names from {place}: ours {names[place : place + 8]}, torch's {expected[place : place + 8]}"]
    places, torch_places = {one: n for n, one in enumerate(ours)}, {one: n for n, one in enumerate(theirs)}
    found = []
    for number, (own, node) in enumerate(zip(ours, theirs, strict=True)):
        edges = [None if edge is None else (places[edge[0]], edge[1]) for edge in own.next_functions]
        wanted = [None if one is None else (torch_places[one], output) for one, output in node.next_functions]
        if edges != wanted:
            found.append(f"{number} {own.name}: edges {edges}, torch's {wanted}")
        if own.name != "AccumulateGrad":
            shapes = [tuple(one.shape) for one in node._input_metadata]
            if [one.shape for one in own.outputs][: len(shapes)] != shapes:
                found.append(f"{number} {own.name}: shapes {[one.shape for one in own.outputs]}, torch's {shapes}")
        if saved:
            found += [f"{number} {own.name}: {line}" for line in saved_differences(own, node, ignored)]
    return found


def saved_differences(own: BackwardNode, node: Any, ignored: Sequence[str]) -> list[str]:
    theirs, found = torch_saved(node), []
    if set(own.saved) - set(ignored) != set(theirs) - set(ignored):
        found.append(f"saves {sorted(own.saved)}, torch {sorted(theirs)}")
    for name in set(own.saved) & set(theirs) - set(ignored):
        a, b = own.saved[name], theirs[name]
        if name in ("dim0", "dim1"):  # transpose(0, 1) is transpose(1, 0)
            a, b = (sorted((one["dim0"], one["dim1"])) for one in (own.saved, theirs))
            a, b = tuple(a), tuple(b)
        if not same(a, b):
            found.append(f"{name} is {str(a)[:70]}, torch's {str(b)[:70]}")
    return found


def same(a: Any, b: Any) -> bool:
    if isinstance(b, np.ndarray):
        a = np.asarray(a, np.float64 if b.dtype.kind == "f" else None)
        if a.shape != b.shape:
            return False
        most = max(float(np.abs(b[np.isfinite(b)]).max(initial=0)) if b.dtype.kind == "f" else 0, 1.0)
        return (
            bool(np.allclose(a, b, rtol=0, atol=NEAR * most, equal_nan=True))
            if b.dtype.kind == "f"
            else bool((a == b).all())
        )
    if isinstance(b, tuple):
        given = tuple(a) if isinstance(a, tuple | list) else (a,)
        return len(given) == len(b) and all(same(x, y) for x, y in zip(given, b, strict=True))
    if isinstance(b, float):
        return bool(np.isclose(float(a), b, rtol=1e-6))
    return bool(a == b)


def leaves(outputs: Any) -> list[Any]:
    return [one for one in jax.tree.leaves(outputs) if one is not None]
