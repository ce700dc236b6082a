"""Batches on a mesh of Explicit axes and of symbolic size, for what the table of layers does not have."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import export
from jax.sharding import NamedSharding, PartitionSpec
from torch.nn import functional as torch_functional

from funcnet import functional as F
from funcnet import nn
from funcnet.functional import sharding
from funcnet.functional.linear_cross_entropy import LinearCrossEntropyOptions
from tests.layers.near import near

DEVICES = 8
MESH = jax.make_mesh((DEVICES,), ("data",))
KEY = jax.random.key(0)
TOLERANCE = 1e-6


def put(x, *spec):
    return jax.device_put(jnp.asarray(x), NamedSharding(MESH, PartitionSpec(*spec)))


def normal(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def on_mesh(function, whole, batched):
    with jax.set_mesh(MESH):
        return jax.jit(function)(*map(put, whole), *(put(x, "data") for x in batched))


def exported(function, whole, batched, sizes):
    """(batch, result, batched inputs) of one program for each size, which takes that many of the rows."""
    (size,) = export.symbolic_shape("b")
    specs = [jax.ShapeDtypeStruct((size, *x.shape[1:]), x.dtype) for x in map(jnp.asarray, batched)]
    program = export.export(jax.jit(function))(*map(jnp.asarray, whole), *specs)
    for n in sizes:
        rows = [jnp.asarray(x[:n]) for x in batched]
        yield n, program.call(*map(jnp.asarray, whole), *rows), rows


@pytest.mark.parametrize(
    ("before", "axis", "after", "kept"),
    [
        ((8, 3, 4), 0, (8, 12), 0),
        ((8, 12), 0, (8, 3, 2, 2), 0),
        ((8, 3, 4), 0, (24, 4), 0),
        ((8, 3, 4), 0, (1, 24, 4), 1),
        ((24, 4), 0, (8, 3, 2, 2), 0),
        ((3, 8, 2, 2), 1, (3, 8, 4), 1),
        ((3, 16, 2), 1, (3, 1, 8, 2, 2), 2),
        ((8, 3, 1), 0, (8, 1, 3), 0),
    ],
)
def test_a_reshape_keeps_the_mesh_axis(before, axis, after, kept):
    x = normal(*before)
    with jax.set_mesh(MESH):
        out = jax.jit(lambda x: sharding.reshaped(x, after))(put(x, *[None] * axis, "data"))
        slope = jax.jit(jax.grad(lambda x: (sharding.reshaped(x, after) ** 2).sum()))(put(x, *[None] * axis, "data"))
    assert np.array_equal(out, x.reshape(after)) and np.array_equal(slope, 2 * x)
    assert [i for i, entry in enumerate(out.sharding.spec) if entry == "data"] == [kept]


def test_a_reshape_that_cannot_keep_it_is_jax_own_error():
    with jax.set_mesh(MESH), pytest.raises(Exception, match="out_sharding"):
        jax.jit(lambda x: sharding.reshaped(x, (24, 2)))(put(normal(3, 8, 2), None, "data"))


@pytest.mark.parametrize(("of_ids", "of_table"), [((), (None, "data")), (("data",), (None, "data")), (("data",), ())])
def test_rows_of_a_table(of_ids, of_table):
    table, ids = normal(5, 16), np.arange(16) % 5
    with jax.set_mesh(MESH):
        out = jax.jit(F.embedding)(put(ids, *of_ids), put(table, *of_table))
    assert np.array_equal(out, table[ids])
    assert out.sharding.spec == (PartitionSpec("data", None) if of_ids else PartitionSpec(None, "data"))


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_chunks_of_cross_entropy(reduction):
    """A chunk of ten rows: two of each device's three, then the third."""
    table, weight = normal(5, 4), np.arange(1, 6, dtype=np.float32)
    rows, ids = normal(24, 4)[::-1].copy(), (np.arange(24) * 7 % 5).astype(np.int32)
    ids[3] = -100
    options = LinearCrossEntropyOptions(batch_chunk_size=10, chunking_method=None)

    def loss(table, weight, rows, ids):
        losses = F.linear_cross_entropy(rows, table, ids, weight=weight, reduction=reduction, options=options)
        return losses.sum(), losses

    def check(found, rows, ids):
        leaves = [torch.tensor(np.asarray(x), dtype=torch.float64, requires_grad=True) for x in (table, rows)]
        wide, target = torch.tensor(weight, dtype=torch.float64), torch.tensor(np.asarray(ids), dtype=torch.int64)
        losses = torch_functional.cross_entropy(leaves[1] @ leaves[0].T, target, wide, reduction=reduction)
        (_, ours), slopes = found
        near(ours, losses.detach().numpy(), TOLERANCE, "loss")
        for slope, theirs in zip(slopes, torch.autograd.grad(losses.sum(), leaves), strict=True):
            near(slope, theirs.numpy(), TOLERANCE, "gradient")

    step = jax.value_and_grad(loss, (0, 2), has_aux=True)
    check(on_mesh(step, (table, weight), (rows, ids)), rows, ids)
    for _, found, given in exported(step, (table, weight), (rows, ids), (4, 13)):
        check(found, *given)


def test_chunks_of_a_symbolic_batch_need_their_size():
    loss = lambda table, rows, ids: F.linear_cross_entropy(rows, table, ids, options=LinearCrossEntropyOptions())
    with pytest.raises(ValueError, match="symbolic batch size; expected an int as batch_chunk_size, got None"):
        next(exported(loss, (normal(5, 4),), (normal(8, 4), np.zeros(8, np.int32)), (8,)))


@pytest.mark.parametrize("name", ["dropout", "dropout2d", "alpha_dropout", "feature_alpha_dropout", "rrelu"])
def test_the_same_numbers_are_drawn(name):
    draw = lambda x: getattr(F, name)(x, training=True, rng=KEY)
    x = normal(8, 3, 4)
    assert np.array_equal(on_mesh(draw, (), (x,)), jax.jit(draw)(x))
    for _, found, (rows,) in exported(draw, (), (x,), (3, 8)):
        assert np.array_equal(found, jax.jit(draw)(rows))


def test_ragged_bags():
    table, ids = normal(7, 3), (np.arange(8) * 3 % 7).astype(np.int32)
    offsets = np.array([0, 2, 2, 5], np.int32)
    theirs = torch_functional.embedding_bag(torch.tensor(ids), torch.tensor(table), torch.tensor(offsets)).numpy()
    bags = lambda table, offsets, ids: F.embedding_bag(ids, table, offsets)
    near(on_mesh(bags, (table, offsets), (ids,)), theirs, TOLERANCE, "bags")
    for _, found, _ in exported(bags, (table, offsets), (ids,), (8,)):
        near(found, theirs, TOLERANCE, "bags")


def test_grids():
    image, theta = normal(8, 2, 5, 6), normal(8, 2, 3) / 2

    def sampled(image, theta):
        grid = F.affine_grid(theta, (image.shape[0], 2, 4, 5), align_corners=False)
        return F.grid_sample(image, grid, align_corners=False)

    grid = torch_functional.affine_grid(torch.tensor(theta).double(), [8, 2, 4, 5], align_corners=False)
    theirs = torch_functional.grid_sample(torch.tensor(image).double(), grid, align_corners=False).numpy()
    near(on_mesh(sampled, (), (image, theta)), theirs, 1e-5, "sampled")  # positions in pixels round to 2e-7 of 6
    for n, found, _ in exported(sampled, (), (image, theta), (3, 8)):
        near(found, theirs[:n], 1e-5, "sampled")


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_pads_of_symbolic_sizes(mode):
    sizes = export.symbolic_shape("b, w", constraints=["w >= 3"])
    pad = lambda x: F.pad(x, (2, 1), mode=mode)
    program = export.export(jax.jit(pad))(jax.ShapeDtypeStruct((sizes[0], 2, sizes[1]), jnp.float32))
    for batch, width in ((1, 3), (4, 5)):
        x = normal(batch, 2, width)
        assert np.array_equal(program.call(x), torch_functional.pad(torch.tensor(x), (2, 1), mode=mode).numpy())


def test_params_of_a_symbolic_size():
    (rows,) = export.symbolic_shape("v")
    net = nn.Embedding(7, 3)
    spec = {"weight": jax.ShapeDtypeStruct((rows, 3), jnp.float32)}
    program = export.export(jax.jit(lambda params, ids: net.apply(params, {}, ids)[0]))(spec, jnp.arange(4))
    for size in (7, 9):
        table = normal(size, 3)
        assert np.array_equal(program.call({"weight": table}, jnp.arange(4)), table[:4])
    with pytest.raises(ValueError, match="wrong shape"):
        net.apply({"weight": normal(9, 3)}, {}, jnp.arange(4))
