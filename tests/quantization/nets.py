"""Small nets for the tests of calibration, conversion and export."""

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import functional as F
from funcnet import nn
from funcnet.quantization import calibrate, convert

__all__ = ["Pieces", "images", "quantized", "started"]


class Pieces(nn.Module):
    """A net that has every operation of a convolutional net."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=8)
        self.pool = nn.MaxPool2d(2)
        self.padded_pool = nn.MaxPool2d(3, 1, 1)
        self.average = nn.AvgPool2d(3, 1, 1)
        self.grouped = nn.Conv2d(32, 16, 1, groups=4)
        self.hidden = nn.Linear(16, 12)
        self.out = nn.Linear(12, 5)

    def forward(self, x):
        x = F.relu6(self.norm(self.first(x)))
        x = F.relu(self.depthwise(x))
        x = self.pool(x)
        x = jnp.concatenate([self.padded_pool(x), F.gelu(self.average(x))], 1)
        x = F.relu(self.grouped(x))
        x = F.relu(x + F.sigmoid(x))
        x = jnp.tanh(self.hidden(x.mean((2, 3))))
        return {"logits": self.out(x), "hidden": F.relu(x)}


def images(count=4, channels=2, size=16, seed=0):
    """Return smooth images, as real ones are."""
    random = np.random.default_rng(seed)
    coarse = random.normal(size=(count, channels, size // 4, size // 4))
    fine = coarse.repeat(4, 2).repeat(4, 3) + 0.3 * random.normal(size=(count, channels, size, size))
    return fine.astype(np.float32)


def started(net, *inputs, seed=0):
    """Return params and a state whose running statistics are those of no particular data."""
    params, state = net.init(jax.random.key(seed), *inputs)
    keys = iter(jax.random.split(jax.random.key(seed + 1), 1000))
    vary = lambda x: x + 0.2 * jax.random.uniform(next(keys), x.shape) if x.dtype == jnp.float32 else x
    return params, jax.tree.map(vary, state)


def quantized(net, *inputs, kernel="reference", seed=0):
    """Return (quantized net, params, state) of a net that is calibrated on its inputs."""
    params, state = started(net, *inputs, seed=seed)
    ranges = calibrate(net, params, state, [inputs])
    return convert(net, params, state, ranges, inputs, kernel), params, state
