"""The network that the estimators train if they get none."""

from collections.abc import Sequence

import jax

from funcnet import functional as F
from funcnet import nn

__all__ = ["MLP"]


class MLP(nn.Module):
    """Linear layers with ReLU and dropout between them.

    Args:
        in_features: number of features of a row.
        out_features: number of outputs.
        hidden: number of units of each hidden layer.
        rate: dropout rate after each hidden layer.

    Call: (B, in_features) -> (B, out_features).

    Example:
        >>> net = MLP(4, 3, hidden=(8,))
        >>> params, state = net.init(jax.random.key(0))
        >>> net.apply(params, state, jax.numpy.ones((2, 4)))[0].shape
        (2, 3)
    """

    def __init__(self, in_features: int, out_features: int, hidden: Sequence[int] = (100,), rate: float = 0.0):
        super().__init__()
        sizes = [in_features, *hidden]
        self.hidden = nn.ModuleList([nn.Linear(size, wide) for size, wide in zip(sizes, hidden, strict=False)])
        self.drop = nn.Dropout(rate)
        self.out = nn.Linear(sizes[-1], out_features)

    def forward(self, x: jax.Array) -> jax.Array:
        for layer in self.hidden:
            x = self.drop(F.relu(layer(x)))
        return self.out(x)
