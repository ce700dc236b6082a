"""One nested model, written once and made of either library's layers: buffers, dropout, a tie, a shared module, a
stack, a frozen parameter, a buffer that is not saved. Made of torch.nn it is the oracle of what funcnet.nn makes."""

import jax
import jax.numpy as jnp
import pytest

from funcnet import functional as F
from funcnet import nn

WIDTH, TOKENS, LAYERS = 4, 7, 3


def repeat(make, n, scan):
    return nn.Repeat(make(), n, scan=scan)


def nested(library, functional, arange, repeated, scan=False, rate=0.5):
    """The model of one library; its class body is the same for both."""

    class Block(library.Module):
        def __init__(self):
            super().__init__()
            self.fc = library.Linear(WIDTH, WIDTH)
            self.bn = library.BatchNorm1d(WIDTH)
            self.drop = library.Dropout(rate)

        def forward(self, x):
            return x + self.drop(functional.gelu(self.bn(self.fc(x))))

    class Nested(library.Module):
        def __init__(self):
            super().__init__()
            self.embeddings = library.Embedding(TOKENS, WIDTH)
            self.register_buffer("positions", arange(TOKENS), persistent=False)
            self.head = library.ModuleDict({"norm": library.LayerNorm(WIDTH)})
            self.layers = repeated(Block, LAYERS, scan)
            self.shared = Block()
            self.again = library.Sequential(self.shared, library.Linear(WIDTH, WIDTH, bias=False))
            self.decoder = library.Linear(WIDTH, TOKENS)
            self.decoder.weight = self.embeddings.weight
            self.head["norm"].bias.requires_grad = False

        def forward(self, ids):
            x = self.embeddings(ids) + self.embeddings(self.positions[: ids.shape[0]])
            x = self.again(self.shared(self.layers(x)))
            return self.decoder(self.head["norm"](x))

    return Nested()


def ours(scan=False, rate=0.5):
    return nested(nn, F, jnp.arange, repeat, scan, rate)


def theirs(rate=0.5):
    torch = pytest.importorskip("torch")

    class Repeat(torch.nn.ModuleList):
        """What `nn.Repeat` is in torch."""

        def __init__(self, make, n, scan):
            super().__init__(make() for _ in range(n))

        def forward(self, x):
            for layer in self:
                x = layer(x)
            return x

    torch.manual_seed(0)
    return nested(torch.nn, torch.nn.functional, torch.arange, Repeat, rate=rate)


KEY = jax.random.key(0)
IDS = jnp.array([1, 3, 0, 6, 2, 3])
