"""Gradients of plain nets on every mesh, against one device: the compiler once gave wrong ones without a word."""

import itertools
import math

import jax
import numpy as np
import pytest

from funcnet import functional as F
from funcnet import nn, parallel, tree

SIZES = [sizes for sizes in itertools.product([1, 2, 4, 8], repeat=3) if math.prod(sizes) == 8]
SHAPES = [(16, 16, 64, 4), (16, 64, 128, 32), (32, 128, 256, 128), (8, 8, 8, 8), (64, 32, 16, 64)]  # rows and widths


class Vectors(nn.Module):
    def __init__(self, inner, hidden, outer):
        super().__init__()
        self.first, self.middle, self.last = (
            nn.Linear(inner, hidden),
            nn.Linear(hidden, hidden),
            nn.Linear(hidden, outer),
        )
        self.norm, self.drop = nn.LayerNorm(hidden), nn.Dropout(0.1)

    def forward(self, x):
        return self.last(self.drop(F.gelu(self.middle(self.norm(F.gelu(self.first(x)))))))


class Sequences(nn.Module):
    def __init__(self, inner, hidden, outer):
        super().__init__()
        self.first = nn.Linear(inner, 64)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 8, hidden, batch_first=True), 2)
        self.last = nn.Linear(64, outer)

    def forward(self, x):
        return self.last(self.encoder(self.first(x[:, None].repeat(8, 1)))).mean(1)


class Images(nn.Module):
    def __init__(self, inner, hidden, outer):
        super().__init__()
        self.first, self.norm = nn.Conv2d(inner, hidden, 3, padding=1, bias=False), nn.BatchNorm2d(hidden)
        self.second, self.last = nn.Conv2d(hidden, 16, 3, stride=2), nn.Linear(16, outer)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x[:, :, None, None] * np.ones((1, 1, 6, 6), np.float32))))
        return self.last(F.relu(self.second(x)).mean((2, 3)))


def gradients(net, mesh, x, y):
    layout = parallel.make_layout(mesh)
    layout = layout.for_net(net) if math.prod(mesh.values()) > 1 else layout
    run = net

    def step(params, batch, key, *, axis_name):
        def loss(params):
            out, _ = run.apply(params, state, batch["x"], training=True, rng=key)
            return ((out - batch["y"]) ** 2).sum()

        return jax.grad(loss)(params), ()

    params, state = net.init(jax.random.key(0))
    placed = layout.place(params)
    compiled = parallel.parallelize(step, layout, state=placed)
    return tree.flatten(
        layout.gather(compiled(placed, layout.shard({"x": x, "y": y}), layout.place(jax.random.key(1)))[0])
    )


def marked(kind, shape, sizes):
    quick = (shape in SHAPES[:2] and sizes == (2, 2, 2)) or (kind is Vectors and shape == SHAPES[0])
    name = f"{kind.__name__}-{'x'.join(map(str, shape))}-{'x'.join(map(str, sizes))}"
    return pytest.param(kind, shape, sizes, id=name, marks=[] if quick else [pytest.mark.slow])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "shape", "sizes"),
    [marked(*row) for row in itertools.product([Vectors, Sequences, Images], SHAPES, SIZES)],
)
def test_gradients_on_every_mesh_are_those_of_one_device(kind, shape, sizes):
    rows, inner, hidden, outer = shape
    net, random = kind(inner, hidden, outer), np.random.default_rng(0)
    x, y = (random.standard_normal((rows, width)).astype(np.float32) for width in (inner, outer))
    mesh = dict(zip(("data", "fsdp", "tensor"), sizes, strict=True))
    ours, theirs = gradients(net, mesh, x, y), gradients(net, {"data": 1}, x, y)
    for name, gradient in theirs.items():
        np.testing.assert_allclose(
            ours[name], gradient, rtol=0, atol=1e-4 * np.abs(gradient).max() + 1e-6, err_msg=name
        )
