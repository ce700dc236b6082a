"""Ten operators under JAX's transformations, beside the same functions in plain JAX."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.operators.samples import SAMPLES

MESH = jax.make_mesh((8,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
COLLECTIVE = "all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter"
every = pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)


def same(found, expected, rtol=2e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=2e-6), found, expected)


def total(function):
    """A scalar function of the arrays, with different weights for all results."""

    def found(*arrays):
        leaves = jax.tree.leaves(function(*arrays))
        return sum((jnp.sin(leaf) * jnp.arange(1, leaf.size + 1, dtype=leaf.dtype).reshape(leaf.shape)).sum() for leaf in leaves)

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
        same(derive(sample.call), derive(sample.plain), 1e-4)
    x = tuple(sample.arrays[n] for n in sample.real)
    tangents = tuple(np.cos(one) for one in x)

    def of_real(function):
        def found(*real):
            whole = list(sample.arrays)
            for place, one in zip(sample.real, real, strict=True):
                whole[place] = one
            return function(*whole)

        return found

    same(jax.jvp(of_real(sample.call), x, tangents), jax.jvp(of_real(sample.plain), x, tangents), 1e-4)


@every
@pytest.mark.parametrize("outer", [jax.grad, jax.jacfwd], ids=["grad of grad", "forward of grad"])
def test_second_derivatives(sample, outer):
    def second(function):
        inner = jax.grad(total(function), sample.real)
        return outer(lambda *x: sum(jnp.sin(one).sum() for one in inner(*x)), sample.real)(*sample.arrays)

    same(second(sample.call), second(sample.plain), 5e-4)


@every
def test_jvp_of_jvp(sample):
    def second(function):
        first = lambda *x: jax.jacfwd(total(function), sample.real)(*x)
        return jax.jacfwd(lambda *x: sum(jnp.sin(one).sum() for one in first(*x)), sample.real)(*sample.arrays)

    same(second(sample.call), second(sample.plain), 5e-4)


@every
def test_vmap_and_its_derivatives(sample):
    mapped = lambda function: jax.vmap(function, sample.axes)(*sample.arrays)
    same(mapped(sample.call), mapped(sample.plain))
    nested = [np.stack([one, 2 * one], -1) for one in sample.arrays]
    both = lambda function: jax.vmap(jax.vmap(function, sample.axes), -1)(*nested)
    same(both(sample.call), both(sample.plain), 1e-4)
    each = lambda function: jax.vmap(jax.grad(total(function), sample.real), sample.axes)(*sample.arrays)
    same(each(sample.call), each(sample.plain), 1e-4)
    whole = lambda function: jax.grad(
        lambda *x: total(lambda *y: jax.vmap(function, sample.axes)(*y))(*x), sample.real
    )(*sample.arrays)
    same(whole(sample.call), whole(sample.plain), 1e-4)


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
    same(run(sample.call)(*sample.arrays), sample.plain(*sample.arrays))
    derive = lambda function: jax.grad(lambda *x: total(run(function))(*x), sample.real)(*sample.arrays)
    same(derive(sample.call), derive(sample.plain), 1e-4)


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
    exported = jax.export.export(jax.jit(sample.call), disabled_checks=disabled)(*shapes)
    fewer = [one[:3] if axis == 0 else one for one, axis in zip(sample.arrays, sample.axes, strict=True)]
    same(exported.call(*fewer), sample.plain(*fewer))
