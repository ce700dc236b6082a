"""The graph of a backward pass: its nodes in torch's order, as text, as Graphviz and as a picture."""

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from funcnet.operators.graph.picture import draw
from funcnet.operators.graph.torch_operations.backward_nodes import BackwardNode, Edge, execution_order

__all__ = ["BackwardGraph"]


@dataclass(frozen=True, eq=False)
class BackwardGraph:
    """The graph of a backward pass. `str` shows a line for each node, and a notebook shows a picture.

    Attributes:
        roots: the nodes at which the backward pass starts, as (node, number of its output) for each result that has a
            gradient.
        results: what the function returned.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet.operators import graph
        >>> found = graph.backward(lambda x: jnp.sin(x) * 2)(jnp.ones(2))
        >>> found, [node.name for node in found]
        (<backward graph of 3 nodes>, ['MulBackward0', 'SinBackward0', 'AccumulateGrad'])
    """

    roots: tuple[Edge, ...]
    results: Any

    @functools.cached_property
    def nodes(self) -> list[BackwardNode]:
        """The nodes in the order in which torch's engine runs them."""
        return execution_order(self.roots)

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[BackwardNode]:
        return iter(self.nodes)

    def __repr__(self) -> str:
        return f"<backward graph of {len(self)} nodes>"

    def __str__(self) -> str:
        """Return a line for each node: its number in the order, its name, the dtype and shape of the gradient that it
        receives, and the numbers of the nodes to which it passes gradients. `-` is an input without a gradient, `4:1`
        is the second output of node 4, and `*` marks a name that torch does not have.

        Example:
            >>> import jax.numpy as jnp
            >>> from funcnet import functional as F
            >>> from funcnet.operators import graph
            >>> print(graph.backward(lambda x, w: F.relu(F.linear(x, w)))(jnp.ones((2, 3)), jnp.ones((4, 3))))
            0  ReluBackward0   float32[2,4]  -> 1
            1  MmBackward0     float32[2,4]  -> 2, 3
            2  AccumulateGrad  float32[2,3]  x
            3  TBackward0      float32[3,4]  -> 4
            4  AccumulateGrad  float32[4,3]  w
        """
        places = {node: place for place, node in enumerate(self.nodes)}
        rows = [(str(place), label(node), kind(node), _targets(node, places)) for node, place in places.items()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join([row[0].rjust(widths[0]), row[1].ljust(widths[1]), row[2].ljust(widths[2]), row[3]]).rstrip()
            for row in rows
        )

    def dot(self) -> str:
        """Return the graph in the language of Graphviz, for `dot -Tsvg`.

        Example:
            >>> import jax.numpy as jnp
            >>> from funcnet.operators import graph
            >>> print(graph.backward(jnp.sin)(jnp.ones(2)).dot())
            digraph backward {
              node [shape=box, fontname=Helvetica]
              n0 [label="SinBackward0\\nfloat32[2]"]
              n1 [label="AccumulateGrad x\\nfloat32[2]", style=filled, fillcolor=lightblue]
              n0 -> n1
            }
        """
        places = {node: place for place, node in enumerate(self.nodes)}
        lines = []
        for node, place in places.items():
            text = f"{label(node)}{'' if node.path is None else ' ' + node.path}"
            style = "" if node.path is None else ", style=filled, fillcolor=lightblue"
            lines.append(f"  n{place} [label={json.dumps(text + chr(10) + kind(node))}{style}]")
        for node, place in places.items():
            for edge in node.next_functions:
                if edge is not None:
                    lines.append(f"  n{place} -> n{places[edge[0]]}" + (f' [label="{edge[1]}"]' if edge[1] else ""))
        return "\n".join(["digraph backward {", "  node [shape=box, fontname=Helvetica]", *lines, "}"])

    def svg(self) -> str:
        """Return a picture of the graph, which needs no other program."""
        places = {node: place for place, node in enumerate(self.nodes)}
        edges = [
            (place, places[edge[0]])
            for node, place in places.items()
            for edge in node.next_functions
            if edge is not None
        ]
        boxes = [(label(node), node.path or kind(node), node.path is not None) for node in places]
        return draw(boxes, edges)

    def _repr_html_(self) -> str:
        return f'<div style="overflow:auto; max-height:40em">{self.svg()}</div>'


def label(node: BackwardNode) -> str:
    """Return the name of a node, with a star if torch has no such node."""
    return node.name + ("" if node.is_torchs else " *")


def kind(node: BackwardNode) -> str:
    """Return the dtype and the shape of the gradient that a node receives."""
    return f"{node.dtype}[{','.join(map(str, node.shape))}]"


def _targets(node: BackwardNode, places: dict[BackwardNode, int]) -> str:
    if node.path is not None:
        return node.path
    shown = [
        "-" if edge is None else f"{places[edge[0]]}{f':{edge[1]}' if edge[1] else ''}" for edge in node.next_functions
    ]
    return "-> " + ", ".join(shown)
