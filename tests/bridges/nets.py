"""The net that crosses the bridges: weights, running statistics, dropout, in nested modules."""

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import functional as F
from funcnet import nn

KEY = jax.random.key(7)
X = jax.random.normal(jax.random.key(1), (6, 3))


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.bn = nn.BatchNorm1d(width)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return x + self.drop(F.relu(self.bn(self.fc(x))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(3, 4)
        self.blocks = nn.ModuleList([Block(4), Block(4)])
        self.head = nn.Linear(4, 2)
        self.traces: tuple[list[int]] = ([],)  # in a tuple: apply copies lists

    def forward(self, x):
        self.traces[0].append(1)
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def features(self, x):
        return self.blocks[0](self.stem(x))


def loss_of(y):
    return (y * jnp.arange(1.0, 3.0)).sum() + (y**2).mean()


def same(a, b, atol: float = 0.0) -> None:
    """The same structure and numbers."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_allclose(np.asarray(left), np.asarray(right), rtol=0, atol=atol)
