"""The contract of every layer, second part: a batch sharded over an Explicit mesh axis, and one of symbolic size.

Each test walks the table of `tests/layers`, torch beside it.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import export
from jax.sharding import NamedSharding, PartitionSpec

from funcnet import tree
from tests.layers import TABLE
from tests.layers.near import is_float, near
from tests.nn.test_layers import ADDED, FIRST_ROWS, draw, given, shapes, split, torch_run

DEVICES = 8
SIZES = (3, 5)  # of the batch, of one exported program
# One class for each way in which layers once failed; the others take long.
QUICK = ["BatchNorm1d", "Conv2d", "ConvTranspose2d", "Embedding", "GroupNorm", "InstanceNorm1d", "LSTM", "MaxUnpool1d"]
QUICK += ["NLLLoss", "PairwiseDistance", "PReLU", "ReplicationPad1d", "Upsample"]


def is_quick(row) -> bool:
    return row.kind in QUICK and str(row) in FIRST_ROWS


every_mode = pytest.mark.parametrize(
    ("row", "training"),
    [
        pytest.param(row, mode, marks=() if is_quick(row) else [pytest.mark.slow], id=f"{row}-{mode}")
        for row in TABLE
        for mode in row.modes
    ],
)


def outputs_of(net, training):
    """A function of (params, state, inputs) that gives the list of outputs and the new state."""

    def run(params, state, inputs):
        out, new_state = net.apply(params, state, *inputs, training=training)
        return jax.tree.leaves(out), new_state

    return run


def step_of(net, training):
    """A function that gives ([outputs], new state, gradients of params, [gradients of the floating inputs])."""
    run = outputs_of(net, training)

    def step(params, state, inputs, cotangents):
        floating, join = split(inputs)

        def loss(params, floating):
            outputs, new_state = run(params, state, join(floating))
            pairs = zip(filter(is_float, outputs), cotangents, strict=True)
            return sum((jnp.sum(o * c) for o, c in pairs), jnp.float32(0)), (outputs, new_state)

        (_, (outputs, new_state)), gradients = jax.value_and_grad(loss, (0, 1), has_aux=True)(params, floating)
        return outputs, new_state, *gradients

    return step


def same_as_torch(row, training, inputs, cotangents, found):
    """What a step found lies within the row's tolerance of torch's outputs, gradients and buffers.

    Where the terms of a gradient cancel, its entries are small beside their rounding: a gradient may be four
    times as far from torch in float64 as torch in float32 is.
    """
    outputs, new_state, param_grads, input_grads = found
    expected, expected_inputs, expected_params, expected_buffers, _ = torch_run(row, training, inputs, cotangents)
    for i, (ours, theirs) in enumerate(zip(outputs, expected, strict=True)):
        near(ours, theirs, row.tolerance[0], f"output {i}")
    tolerance = max(row.tolerance[0], ADDED)
    for ours, theirs in zip(input_grads, expected_inputs, strict=True):
        near(ours, theirs, tolerance, "gradient of an input")
    single = torch_run(dataclasses.replace(row, oracle=torch.float32), training, inputs, cotangents)[2]
    for name, theirs in expected_params.items():
        own = np.abs(single[name] - theirs).max(initial=0) / max(np.abs(theirs).max(initial=0), 1e-30)
        near(tree.flatten(param_grads)[name], theirs, max(tolerance, 4 * own), f"gradient of {name}")
    for name, theirs in expected_buffers.items():
        near(tree.flatten(new_state)[name], theirs, tolerance, f"buffer {name}")


@every_mode
def test_on_a_mesh_of_explicit_axes(row, training):
    """Outputs stay sharded over the batch; gradients of params are whole on every device."""
    net, params, state, inputs = given(row, batch=DEVICES)
    cotangents = draw(torch_run(row, training, inputs)[0])
    mesh = jax.make_mesh((DEVICES,), ("data",))
    put = lambda x, *spec: jax.device_put(x, NamedSharding(mesh, PartitionSpec(*spec)))
    with jax.set_mesh(mesh):
        sharded = jax.tree.map(lambda x, axis: put(x, *[None] * axis, "data"), inputs, row.batch_axes(inputs))
        whole = jax.tree.map(put, (params, state))
        found = jax.jit(step_of(net, training))(*whole, sharded, list(map(put, cotangents)))
    for array in jax.tree.leaves(found[1:3]):
        assert array.is_fully_replicated
    same_as_torch(row, training, inputs, cotangents, found)


@every_mode
def test_exported_with_a_symbolic_batch(row, training):
    """One program, with its gradients, for every size of the batch."""
    net, params, state, inputs = given(row)
    (size,) = export.symbolic_shape("b", constraints=[] if row.most is None else [f"b <= {row.most}"])
    symbolic = lambda x, axis: jax.ShapeDtypeStruct((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)
    specs = jax.tree.map(symbolic, inputs, row.batch_axes(inputs))
    outputs, _ = jax.eval_shape(outputs_of(net, training), params, state, specs)
    cotangents = [x.update(dtype=jnp.float32) for x in outputs if is_float(x)]
    exported = export.export(jax.jit(step_of(net, training)))(params, state, specs, cotangents)
    for batch in SIZES:
        _, _, _, inputs = given(row, batch)
        cotangents = draw(torch_run(row, training, inputs)[0])
        found = exported.call(params, state, inputs, cotangents)
        assert shapes(found[1]) == shapes(state)
        same_as_torch(row, training, inputs, cotangents, found)
