"""A program lowered for another platform holds that platform's form alone, however it is differentiated and mapped."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import AxisType, PartitionSpec

from funcnet import functional as F
from funcnet import nn
from funcnet.functional.linear_cross_entropy import LinearCrossEntropyOptions
from funcnet.functional.platforms import bilinear, default_program
from funcnet.models import bert, resnet

from .oracle import normal


def operations(function, platforms, *arguments):
    """{StableHLO operation: how often it occurs} in the program that this machine exports for these platforms."""
    text = export.export(jax.jit(function), platforms=platforms)(*arguments).mlir_module()
    names = re.findall(r"= \"?stablehlo\.(\w+)", text)
    counts = {name: names.count(name) for name in set(names)}
    return counts | {"slice of images": len(re.findall(r"stablehlo\.slice .*: \(tensor<(?:\d+x){3}", text))}


class Small(nn.Module):
    """One of each kind of convolution that takes a form of its own on CPU."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(4, 4, 3, padding=1, groups=4),
            nn.Conv2d(4, 8, 1),
            nn.Conv2d(8, 8, 3, padding=1, groups=2),
            nn.Conv2d(8, 8, 2, stride=2),
            nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1),
            nn.Unflatten(1, (2, 2)),
            nn.Conv3d(2, 3, 2),
        )

    def forward(self, x):
        return self.layers(x)


def functions(net, *inputs, **kwargs):
    """(inference, training), each of the parameters, and the abstract parameters."""
    params, state = jax.eval_shape(net.init, jax.random.key(0))
    infer = lambda params, state: net.apply(params, state, *inputs, **kwargs)[0]

    def train(params, state):
        def loss(params):
            out, new = net.apply(params, state, *inputs, **kwargs, training=True)
            return sum((leaf.astype(jnp.float32) ** 2).mean() for leaf in jax.tree.leaves(out)), new

        return jax.value_and_grad(loss, has_aux=True)(params)

    return infer, train, (params, state)


def small_resnet():
    net = resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], num_classes=10, small_images=True)
    return net, jnp.zeros((2, 3, 16, 16)), 1


NETS = {"resnet": small_resnet, "forms": lambda: (Small(), jnp.zeros((2, 4, 8, 8)), 0)}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_export_of_convolutions(name):
    """For cuda one convolution a layer, and two more for its gradients, but for the gradient of the images."""
    net, images, products = NETS[name]()
    layers = sum(type(module).__name__.startswith("Conv") for _, module in net.named_modules())
    infer, train, arrays = functions(net, images)
    for function, convolutions, dots in ((infer, layers, products), (train, 3 * layers - 1, 3 * products)):
        cuda = operations(function, ("cuda",), *arrays)
        assert cuda["convolution"] == convolutions
        assert cuda.get("dot_general", 0) == dots  # the linear layer's alone: no kernel of one pixel is a product
        assert "case" not in cuda and cuda["slice of images"] == 0  # nor is one a sum of shifted inputs
        cpu = operations(function, ("cpu",), *arrays)
        assert cpu["dot_general"] > dots and cpu.get("convolution", 0) < convolutions and "case" not in cpu
        assert cpu["slice of images"] > 0
        both = operations(function, ("cpu", "cuda"), *arrays)
        assert both["convolution"] >= convolutions and both["dot_general"] > dots and both["case"] > 0


def test_export_of_bert():
    """Without dropout, whose bits JAX draws differently on each platform, cuda and CPU run the same operations."""
    net = bert.BertForPreTraining(
        bert.BertConfig.preset(
            "tiny",
            vocab_size=50,
            num_hidden_layers=1,
            **{f"{n}_dropout_prob": 0.0 for n in ("hidden", "attention_probs")},
        )
    )
    infer, train, arrays = functions(net, jnp.zeros((2, 8), jnp.int32), attention_mask=jnp.ones((2, 8), jnp.int32))
    for function in (infer, train):
        cuda, cpu = (operations(function, (platform,), *arrays) for platform in ("cuda", "cpu"))
        assert cuda == cpu and cuda["dot_general"] > 0
        assert not {"case", "convolution"} & set(cuda)


def test_export_of_products_of_bfloat16_in_a_loop():
    """jaxlib 0.10.0 has none on CPU, where they are computed in float32."""
    rows, table = (jnp.zeros(shape, jnp.bfloat16) for shape in ((8, 4), (10, 4)))
    loss = lambda rows, table: F.linear_cross_entropy(
        rows, table, jnp.arange(8), options=LinearCrossEntropyOptions(batch_chunk_size=4)
    )
    dots = {}
    for platform in ("cuda", "cpu"):
        program = export.export(jax.jit(jax.grad(loss, (0, 1))), platforms=(platform,))(rows, table).mlir_module()
        dots[platform] = re.findall(r"stablehlo\.dot_general.*: \(tensor<\S*x(\w+)>, tensor<\S*x(\w+)>\)", program)
        assert "stablehlo.case" not in program
    assert {kind for pair in dots["cuda"] for kind in pair} == {"bf16"}
    assert {kind for pair in dots["cpu"] for kind in pair} == {"f32"}


# ---------------------------------------------------------------------------------------------------- transformations


def twice(a, b):
    return (a + a) @ b / 2


ours, theirs = partial(bilinear, jnp.matmul, twice), jnp.matmul
A, B = (jnp.asarray(normal(8, 4, 4, seed=seed), jnp.float32) for seed in (0, 1))
loss = lambda product: lambda a, b: (product(a, b) ** 3).sum()


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(
    "transformed",
    [
        lambda f: f,
        lambda f: jax.grad(loss(f), (0, 1)),
        lambda f: lambda a, b: jax.jvp(f, (a, b), (b, a)),
        lambda f: lambda a, b: jax.jvp(jax.grad(loss(f), (0, 1)), (a, b), (b, a)),
        lambda f: lambda a, b: jax.grad(lambda a: (jax.grad(loss(f), 1)(a, b) * a).sum())(a),
        lambda f: jax.vmap(jax.grad(loss(f), (0, 1))),
        lambda f: lambda a, b: jax.vmap(f, (0, None), 2)(a, b[0]),
        lambda f: lambda a, b: jax.vmap(jax.vmap(f, (None, 0)), (0, None))(a[:, 0], b),
        lambda f: jax.grad(jax.checkpoint(loss(f)), (0, 1)),
        lambda f: jax.grad(lambda a, b: (jax.lax.scan(lambda h, x: (f(h, x), None), a[0], b)[0] ** 2).sum(), (0, 1)),
    ],
)
def test_transformations(transformed, jit):
    both = [transformed(product) for product in (ours, theirs)]
    got, expected = ((jax.jit(f) if jit else f)(A / 4, B / 4) for f in both)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), got, expected)


@pytest.mark.parametrize("check", [False, True])
def test_shard_map(check):
    """One argument differs from device to device, the other does not: its gradient is a sum over devices."""
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))

    def local(a, b):
        if check:
            return jax.grad(lambda b: jax.lax.psum(loss(ours)(a, b), "data"))(b)
        return jax.lax.psum(jax.grad(lambda b: loss(ours)(a, b))(b), "data")

    specs = {"in_specs": (PartitionSpec("data"), PartitionSpec()), "out_specs": PartitionSpec(), "check_vma": check}
    got = jax.jit(jax.shard_map(local, mesh=mesh, **specs))(A, B[:1])
    np.testing.assert_allclose(got, jax.grad(loss(theirs), 1)(A, B[:1]), rtol=1e-4, atol=1e-4)


def test_pmap():
    got = jax.pmap(jax.grad(loss(ours), 1), in_axes=(0, None))(A, B[0])
    np.testing.assert_allclose(got.sum(0), jax.vmap(jax.grad(loss(theirs), 1), (0, None))(A, B[0]).sum(0), rtol=1e-5)


def test_a_pullback_stores_the_two_arrays():
    _, pull = jax.vjp(jax.jit(ours), A, B)
    assert sorted(leaf.size for leaf in jax.tree.leaves(pull)) == [A.size, B.size]


def test_without_jit():
    with jax.disable_jit():
        np.testing.assert_allclose(ours(A, B), theirs(A, B), rtol=1e-5, atol=1e-6)


def test_a_second_call_compiles_nothing(caplog):
    compilations = []
    for _ in range(2):
        caplog.clear()
        with jax.log_compiles():
            jax.grad(loss(lambda a, b: ours(a, b)), (0, 1))(A[:7], B[:7])
        compilations.append(sum("Compiling" in record.getMessage() for record in caplog.records))
    assert compilations[0] > 0 and compilations[1] == 0


def test_default_program():
    (equation, other) = jax.make_jaxpr(lambda a, b: ours(a, b) + 1)(A, B).eqns
    assert [e.primitive.name for e in default_program(equation).eqns][-1] == "dot_general"
    assert default_program(other) is None
