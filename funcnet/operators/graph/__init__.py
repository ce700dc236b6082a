"""The graph of the backward pass that torch's autograd would build for a function.

Example:
    >>> import jax.numpy as jnp
    >>> from funcnet import operators
    >>> print(operators.graph.backward(lambda x: jnp.exp(x).sum())(jnp.ones(3)))
    0  SumBackward0    float32[]   -> 1
    1  ExpBackward0    float32[3]  -> 2
    2  AccumulateGrad  float32[3]  x
"""

from funcnet.operators.graph.backward_graph import BackwardGraph
from funcnet.operators.graph.building import backward
from funcnet.operators.graph.torch_operations.backward_nodes import BackwardNode

__all__ = ["BackwardGraph", "BackwardNode", "backward"]
