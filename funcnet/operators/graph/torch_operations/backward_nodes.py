"""Nodes of a backward graph, and the order in which torch's engine runs them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

__all__ = ["BackwardNode", "Edge", "execution_order"]


@dataclass(frozen=True, eq=False)
class BackwardNode:
    """A node of the graph, as `tensor.grad_fn` of torch.

    Attributes:
        name: torch's name of the node, such as "AddmmBackward0".
        next_functions: for each input of the operation that torch differentiates, the node that receives its gradient
            and the number of that node's output, or None where no gradient flows.
        outputs: shape and dtype of each result of the operation, whose gradients the node receives.
        saved: {torch's name without "_saved_": what is kept for the backward pass}.
        number: the sequence number. Later operations have higher numbers. The number of an `AccumulateGrad` is -1.
        path: the path of the argument, for `AccumulateGrad`.
        is_torchs: whether torch has a node with this name.
    """

    name: str
    next_functions: "tuple[Edge | None, ...]"
    outputs: tuple[jax.ShapeDtypeStruct, ...]
    saved: Mapping[str, Any] = field(default_factory=dict)
    number: float = -1
    path: str | None = None
    is_torchs: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first gradient that the node receives."""
        return self.outputs[0].shape

    @property
    def dtype(self) -> Any:
        """The dtype of the first gradient that the node receives."""
        return self.outputs[0].dtype

    def __repr__(self) -> str:
        return f"<{self.name}{'' if self.path is None else ' ' + self.path}>"


Edge = tuple[BackwardNode, int]


def execution_order(roots: Sequence[Edge]) -> list[BackwardNode]:
    """Return all nodes in the order in which torch's engine runs them.

    A node is ready when all nodes that pass a gradient to it have run. `AccumulateGrad` nodes run first, and then the
    ready node with the highest sequence number. Torch keeps the ready nodes in a heap (`std::priority_queue`), which
    also determines the order of several `AccumulateGrad` nodes.

    Reference: torch/csrc/autograd/engine.cpp, `Engine::evaluate_function`.
    """
    waiting = dict.fromkeys(_reachable(roots), 0)
    for node in waiting:
        for edge in node.next_functions:
            if edge is not None:
                waiting[edge[0]] += 1
    order: list[BackwardNode] = []
    ready, queued = _Heap(), set[BackwardNode]()
    # With several roots, torch puts a node before them that passes them their gradients.
    several = len(roots) > 1
    for node, _ in roots:
        waiting[node] += several
    for node, _ in roots:
        waiting[node] -= several
        if node not in queued and (waiting[node] == 0 or not several):
            queued.add(node)
            ready.push(node)
    while ready:
        node = ready.pop()
        order.append(node)
        for edge in node.next_functions:
            if edge is not None:
                waiting[edge[0]] -= 1
                if waiting[edge[0]] == 0:
                    ready.push(edge[0])
    return order


def _reachable(roots: Iterable[Edge]) -> list[BackwardNode]:
    found: dict[BackwardNode, None] = {}
    todo = [node for node, _ in roots]
    while todo:
        node = todo.pop()
        if node not in found:
            found[node] = None
            todo += [edge[0] for edge in node.next_functions if edge is not None]
    return list(found)


class _Heap:
    """`std::priority_queue` as libstdc++ implements it, because the order in which equal elements are removed depends
    on the implementation.
    """

    def __init__(self) -> None:
        self.items: list[BackwardNode] = []

    def __len__(self) -> int:
        return len(self.items)

    @staticmethod
    def is_less(a: BackwardNode, b: BackwardNode) -> bool:
        """Whether `a` runs after `b`."""
        key = lambda node: float("inf") if node.number < 0 else node.number
        return key(a) < key(b)

    def push(self, node: BackwardNode) -> None:
        self.items.append(node)
        self._rise(len(self.items) - 1, 0)

    def pop(self) -> BackwardNode:
        """`std::pop_heap`: move the hole at the top down to a leaf, and let the last element rise from there."""
        items = self.items
        first, last = items[0], items.pop()
        if items:
            length, hole = len(items), 0
            child = 0
            while child < (length - 1) // 2:
                child = 2 * (child + 1)
                if self.is_less(items[child], items[child - 1]):
                    child -= 1
                items[hole] = items[child]
                hole = child
            if length % 2 == 0 and child == (length - 2) // 2:
                child = 2 * (child + 1)
                items[hole] = items[child - 1]
                hole = child - 1
            items[hole] = last
            self._rise(hole, 0)
        return first

    def _rise(self, hole: int, top: int) -> None:
        items = self.items
        node, parent = items[hole], (hole - 1) // 2
        while hole > top and self.is_less(items[parent], node):
            items[hole] = items[parent]
            hole, parent = parent, (parent - 1) // 2
        items[hole] = node
