"""Ten operators under JAX's transformations, beside the same functions in plain JAX."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import operators
from tests.operators.samples import SAMPLES

MESH = jax.make_mesh((8,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
COLLECTIVE = "all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter"
every = pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)


def same(found, expected, tolerance=2e-6):
    """Compare with a tolerance relative to the largest entry, because float32 sums are in another order."""
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=tolerance * np.abs(b).max(), rtol=0), found, expected
    )


def total(function):
    """A scalar function of the arrays, with different weights for all results."""

    def found(*arrays):
        leaves = jax.tree.leaves(function(*arrays))
        return sum(
            (jnp.sin(leaf) * jnp.cos(jnp.arange(leaf.size, dtype=leaf.dtype)).reshape(leaf.shape)).sum()
            for leaf in leaves
        )

    return found


@every
def test_values_eager_and_compiled(sample):
    expected = sample.plain(*sample.arrays)
    same(sample.call(*sample.arrays), expected)
    same(jax.jit(sample.call)(*sample.arrays), expected)
    with jax.disable_jit():
        same(sample.call(*sample.arrays), expected)


@every
def test_reverse_and_forward_mode(sample):
    for make in (jax.grad, jax.jacfwd):
        derive = lambda function, make=make: make(total(function), sample.real)(*sample.arrays)
        same(derive(sample.call), derive(sample.plain), 1e-5)
    x = tuple(sample.arrays[n] for n in sample.real)
    tangents = tuple(np.cos(one) for one in x)

    def of_real(function):
        def found(*real):
            whole = list(sample.arrays)
            for place, one in zip(sample.real, real, strict=True):
                whole[place] = one
            return function(*whole)

        return found

    same(jax.jvp(of_real(sample.call), x, tangents), jax.jvp(of_real(sample.plain), x, tangents), 1e-5)


@pytest.mark.slow
@every
@pytest.mark.parametrize("outer", [jax.grad, jax.jacfwd], ids=["grad of grad", "forward of grad"])
def test_second_derivatives(sample, outer):
    def second(function):
        inner = jax.grad(total(function), sample.real)
        return outer(total(inner), sample.real)(*sample.arrays)

    same(second(sample.call), second(sample.plain), 2e-5)


@pytest.mark.slow
@every
def test_jvp_of_jvp(sample):
    def second(function):
        first = jax.jacfwd(total(function), sample.real)
        return jax.jacfwd(total(first), sample.real)(*sample.arrays)

    same(second(sample.call), second(sample.plain), 2e-5)


@every
def test_vmap_and_its_derivatives(sample):
    mapped = lambda function: jax.vmap(function, sample.axes)(*sample.arrays)
    same(mapped(sample.call), mapped(sample.plain))
    nested = [np.stack([one, one[::-1]], -1) for one in sample.arrays]
    both = lambda function: jax.vmap(jax.vmap(function, sample.axes), -1)(*nested)
    same(both(sample.call), both(sample.plain), 1e-5)
    each = lambda function: jax.vmap(jax.grad(total(function), sample.real), sample.axes)(*sample.arrays)
    same(each(sample.call), each(sample.plain), 1e-5)
    whole = lambda function: jax.grad(
        lambda *x: total(lambda *y: jax.vmap(function, sample.axes)(*y))(*x), sample.real
    )(*sample.arrays)
    same(whole(sample.call), whole(sample.plain), 1e-5)


@every
def test_eight_devices_without_communication(sample):
    placed = [
        jax.device_put(one, jax.NamedSharding(MESH, jax.P(*("rows",) * (axis == 0))))
        for one, axis in zip(sample.arrays, sample.axes, strict=True)
    ]
    program = jax.jit(sample.call).lower(*placed).compile()
    assert re.findall(COLLECTIVE, program.as_text()) == []
    found = program(*placed)
    assert all(leaf.sharding.spec[0] == "rows" for leaf in jax.tree.leaves(found))
    same(found, sample.plain(*sample.arrays))
    only = (sample.real[0],)  # the gradient of what the devices share is the sum of their parts
    if sample.axes[only[0]] == 0:
        gradient = jax.jit(jax.grad(lambda *x: sum(leaf.sum() for leaf in jax.tree.leaves(sample.call(*x))), only))
        compiled = gradient.lower(*placed).compile()
        assert re.findall(COLLECTIVE, compiled.as_text()) == []


@every
@pytest.mark.parametrize("check", [True, False])
def test_shard_map(sample, check):
    specs = tuple(jax.P(*("rows",) * (axis == 0)) for axis in sample.axes)
    run = lambda function: jax.jit(
        jax.shard_map(function, mesh=MESH, in_specs=specs, out_specs=jax.P("rows"), check_vma=check)
    )
    if check and sample is SAMPLES["pallas"]:
        with pytest.raises(TypeError, match="while_loop body function carry"):  # of Pallas's interpreter
            run(sample.call)(*sample.arrays)
        return
    same(run(sample.call)(*sample.arrays), sample.plain(*sample.arrays))
    derive = lambda function: jax.grad(lambda *x: total(run(function))(*x), sample.real)(*sample.arrays)
    same(derive(sample.call), derive(sample.plain), 1e-5)


@every
def test_export_for_all_platforms(sample):
    disabled = [jax.export.DisabledSafetyCheck.custom_call("test_scale")]
    exported = jax.export.export(jax.jit(sample.call), platforms=("cpu", "cuda", "tpu"), disabled_checks=disabled)
    read = jax.export.deserialize(exported(*sample.arrays).serialize())
    assert read.platforms == ("cpu", "cuda", "tpu")
    same(read.call(*sample.arrays), sample.plain(*sample.arrays))


@every
def test_a_symbolic_number_of_rows(sample):
    (count,) = jax.export.symbolic_shape("rows")
    shapes = [
        jax.ShapeDtypeStruct((count, *one.shape[1:]) if axis == 0 else one.shape, one.dtype)
        for one, axis in zip(sample.arrays, sample.axes, strict=True)
    ]
    disabled = [jax.export.DisabledSafetyCheck.custom_call("test_scale")]
    if sample is SAMPLES["pallas"]:
        with pytest.raises(ValueError, match="shape polymorphism for Pallas does not support"):
            jax.export.export(jax.jit(sample.call))(*shapes)
        return
    exported = jax.export.export(jax.jit(sample.call), disabled_checks=disabled)(*shapes)
    fewer = [one[:3] if axis == 0 else one for one, axis in zip(sample.arrays, sample.axes, strict=True)]
    same(exported.call(*fewer), sample.plain(*fewer))


@pytest.mark.parametrize("shape", [(8,), (8, 4), (8, 2, 4)], ids=str)
def test_devices_share_a_kernel_whose_dimensions_are_all_mapped(shape):
    one = operators.define(
        f"test::first{len(shape)}(Tensor x, Tensor weight, float factor=1.5) -> Tensor", "..., d -> ..."
    )
    one.reference(lambda x, weight, factor: x * weight[0] * factor)
    one.impl("cpu", operators.ForeignKernel("test_scale"))
    x = np.linspace(-1, 1, np.prod(shape), dtype=np.float32).reshape(shape)
    placed, weight = jax.device_put(x, jax.NamedSharding(MESH, jax.P("rows"))), np.full(1, 3, np.float32)
    program = jax.jit(one).lower(placed, weight).compile()
    assert 'custom_call_target="test_scale"' in program.as_text() and not re.search(COLLECTIVE, program.as_text())
    same(program(placed, weight), 4.5 * x)
    same(jax.jit(one)(x, weight), 4.5 * x)


def test_gradients_have_the_sharding_of_their_arguments():
    mesh = jax.make_mesh((8,), ("rows",))  # explicit axes
    one = operators.get("test::mul")
    x = jax.device_put(np.linspace(-1, 1, 24, dtype=np.float32).reshape(8, 3), jax.NamedSharding(mesh, jax.P("rows")))
    weight = np.arange(1, 4, dtype=np.float32)
    derive = lambda function: jax.grad(lambda x, w: jax.vmap(function, (0, None))(x, w).sum(), (0, 1))(x, weight)
    with jax.set_mesh(mesh):
        found, expected = derive(one), derive(lambda x, w: x * w)
        assert [jax.typeof(leaf) for leaf in found] == [jax.typeof(leaf) for leaf in expected]
    same(found, expected)
