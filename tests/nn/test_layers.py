"""The contract of every layer: each test walks the table of `tests/layers`, torch beside it.

The quick run takes values and gradients of the first row of each class; all the rest takes longer.
"""

import os
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.torch
import torch
from jax.sharding import PartitionSpec

from funcnet import tree, weights
from tests.database.coverage import record
from tests.layers import TABLE
from tests.layers.near import is_float, near
from tests.layers.row import Row

BATCH = 5
SHARDS = 2
KEY = jax.random.key(0)
ADDED = 1e-7  # where values are merely picked, gradients and statistics still add them up
SECOND = 1e-9  # derivatives of derivatives, both sides in float64
FIRST_ROWS = {str({row.kind: row for row in reversed(TABLE)}[row.kind]) for row in TABLE}


def rows(marked: bool) -> list:
    slow = lambda row: marked and str(row) not in FIRST_ROWS
    return [pytest.param(row, marks=pytest.mark.slow if slow(row) else (), id=str(row)) for row in TABLE]


def modes() -> list:
    return [
        pytest.param(row, mode, marks=() if str(row) in FIRST_ROWS else pytest.mark.slow, id=f"{row}-{mode}")
        for row in TABLE
        for mode in row.modes
    ]


every_row = pytest.mark.parametrize("row", rows(marked=True))
every_mode = pytest.mark.parametrize(("row", "training"), modes())


def given(row: Row, batch: int = BATCH):
    """(description, params, state, inputs): torch's weights, carried over by its state_dict."""
    net = row.ours()
    inputs = jax.tree.map(jnp.asarray, tuple(row.inputs(batch)))
    theirs = row.theirs()
    if any(isinstance(p, torch.nn.UninitializedParameter) for p in [*theirs.parameters(), *theirs.buffers()]):
        theirs = torch_run(row, False, jax.tree.map(jnp.asarray, tuple(row.inputs(BATCH))))[-1]
    return net, *net.load_state_dict(theirs.state_dict()), inputs


def shapes(values):
    return jax.tree.map(lambda a: (a.shape, a.dtype), values)


def split(inputs):
    """(the floating arrays of the inputs, a function that puts others in their place)."""
    leaves, structure = jax.tree.flatten(inputs)
    places = [i for i, leaf in enumerate(leaves) if is_float(leaf)]

    def join(floating):
        new = list(leaves)
        for i, value in zip(places, floating, strict=True):
            new[i] = value
        return jax.tree.unflatten(structure, new)

    return [leaves[i] for i in places], join


def torch_inputs(row: Row, arrays):
    """The inputs as torch's leaves in the oracle's dtype."""

    def tensor(x):
        if not is_float(x):
            return torch.tensor(np.asarray(x, bool if x.dtype == bool else np.int64))
        return torch.tensor(np.asarray(x, np.float32 if x.dtype != np.float64 else x.dtype)).to(row.oracle)

    inputs = jax.tree.map(tensor, tuple(arrays))
    floating = [x.requires_grad_() for x in jax.tree.leaves(inputs) if x.is_floating_point()]
    return inputs, floating


def torch_forward(row: Row, training: bool, arrays, half: torch.dtype | None = None):
    """(module, floating inputs, floating outputs, all outputs); `half` rounds the weights."""
    module = row.theirs().train(training)
    for parameter in module.parameters():
        if half is not None:
            parameter.data = parameter.data.to(half)
    module = module.to(row.oracle)
    inputs, floating = torch_inputs(row, arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the old names of `reduction`
        outputs = [x for x in jax.tree.leaves(module(*inputs)) if x is not None]
    return module, floating, [x for x in outputs if x.is_floating_point()], outputs


def pulled(outputs, leaves, cotangents, **kwargs):
    """torch's gradients, zeros where it has none."""
    pairs = [
        (o, torch.as_tensor(c, dtype=o.dtype)) for o, c in zip(outputs, cotangents, strict=True) if o.requires_grad
    ]
    if not pairs or not leaves:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = torch.autograd.grad([o for o, _ in pairs], leaves, [c for _, c in pairs], allow_unused=True, **kwargs)
    return [torch.zeros_like(leaf) if g is None else g for leaf, g in zip(leaves, found, strict=True)]


def torch_run(row: Row, training: bool, arrays, cotangents=None, half=None):
    """(outputs, gradients of the floating inputs, {name: gradient}, buffers, module) of torch."""
    module, floating, differentiable, outputs = torch_forward(row, training, arrays, half)
    names = [name for name, _ in module.named_parameters()]
    leaves = [*floating, *module.parameters()]
    if cotangents is None:
        grads = [torch.zeros_like(leaf) for leaf in leaves]
    else:
        grads = pulled(differentiable, leaves, cotangents)
    grads = [g.numpy() for g in grads]
    buffers = {name: buffer.numpy() for name, buffer in module.named_buffers()}
    outputs = [x.detach().numpy() for x in outputs]
    return outputs, grads[: len(floating)], dict(zip(names, grads[len(floating) :], strict=True)), buffers, module


def draw(outputs, seed=1):
    """Cotangents for the floating outputs."""
    random = np.random.default_rng(seed)
    return [random.normal(size=x.shape).astype(np.float32) for x in outputs if is_float(x)]


def filled(outputs, cotangents):
    """One for each output, in the dtype that JAX asks for."""
    rest = iter(cotangents)
    return [jnp.asarray(next(rest), x.dtype) if is_float(x) else np.zeros(x.shape, jax.dtypes.float0) for x in outputs]


@pytest.mark.every_row
@every_mode
def test_values_gradients_and_buffers(row, training):
    """Eager and compiled, against torch; state keeps its structure; the second call finds the first one's trace."""
    net, params, state, inputs = given(row)
    floating, join = split(inputs)
    traces = 0

    def run(params, state, floating):
        out, new_state = net.apply(params, state, *join(floating), training=training)
        return jax.tree.leaves(out), new_state

    @jax.jit
    def run_and_pull(params, state, floating, cotangents):
        nonlocal traces
        traces += 1
        outputs, pull, new_state = jax.vjp(lambda p, x: run(p, state, x), params, floating, has_aux=True)
        return outputs, new_state, *pull(filled(outputs, cotangents))

    eager, _ = run(params, state, floating)
    cotangents = draw(eager)
    outputs, new_state, param_grads, input_grads = run_and_pull(params, state, floating, cotangents)
    run_and_pull(params, new_state, floating, cotangents)
    assert traces == 1

    expected, expected_inputs, expected_params, expected_buffers, _ = torch_run(row, training, inputs, cotangents)
    tolerance, _ = row.tolerance
    found = []
    for i, (compiled, plain, theirs) in enumerate(zip(outputs, eager, expected, strict=True)):
        found.append(near(compiled, theirs, tolerance, f"output {i}"))
        found.append(near(plain, theirs, tolerance, f"output {i}, eager"))
    tolerance = max(tolerance, ADDED)
    for ours, theirs in zip(input_grads, expected_inputs, strict=True):
        found.append(near(ours, theirs, tolerance, "gradient of an input"))
    param_grads = tree.flatten(param_grads)
    assert set(param_grads) == set(expected_params)
    for name, theirs in expected_params.items():
        found.append(near(param_grads[name], theirs, tolerance, f"gradient of {name}"))
    assert shapes(state) == shapes(new_state)
    for name, theirs in expected_buffers.items():
        found.append(near(tree.flatten(new_state)[name], theirs, tolerance, f"buffer {name}"))
    place = TABLE.index(row) * 2 + training
    record("row", row.kind, "float32", place, max(found, default=0.0), (), os.environ.get("FUNCNET_COVERAGE"))


@pytest.mark.slow
@every_mode
def test_vmap_is_the_loop(row, training):
    net, params, state, inputs = given(row)
    batches = [inputs, jax.tree.map(jnp.flip, inputs, row.batch_axes(inputs))]
    stacked = jax.tree.map(lambda *pair: jnp.stack(pair), *batches)
    together, states = jax.jit(jax.vmap(lambda *inputs: net.apply(params, state, *inputs, training=training)))(*stacked)
    for i, one in enumerate(batches):
        expected, _, _, buffers, _ = torch_run(row, training, one)
        for ours, theirs in zip(jax.tree.leaves(together), expected, strict=True):
            near(ours[i], theirs, row.tolerance[0], f"output {i}")
        for name, theirs in buffers.items():
            near(tree.flatten(states)[name][i], theirs, max(row.tolerance[0], ADDED), f"{name} {i}")


@pytest.mark.slow
@every_mode
@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_half_precision_in_and_out(row, training, half):
    net, params, state, inputs = given(row)
    params, inputs = tree.cast(params, half), tree.cast(inputs, half)
    out, new_state = jax.jit(lambda *inputs: net.apply(params, state, *inputs, training=training))(*inputs)
    assert shapes(state) == shapes(new_state)
    expected, *_ = torch_run(row, training, inputs, half=getattr(torch, half))
    for i, (ours, theirs) in enumerate(zip(jax.tree.leaves(out), expected, strict=True)):
        if not is_float(ours):
            near(ours, theirs, 0, f"output {i}")
            continue
        assert ours.dtype == half
        # What is given is exact; what comes back is one rounding to 8 or 11 bits away, or two where a bias is added.
        near(ours.astype(jnp.float32), theirs, row.roundings * float(jnp.finfo(half).eps), f"output {i}")


@pytest.mark.slow
@every_mode
def test_empty_batch(row, training):
    """torch's result, or refused where torch refuses it."""
    net, params, state, inputs = given(row, batch=0)
    run = jax.jit(lambda *inputs: net.apply(params, state, *inputs, training=training))
    try:
        expected, _, _, buffers, _ = torch_run(row, training, inputs)
    except (RuntimeError, ValueError, IndexError):
        with pytest.raises((ValueError, TypeError), match=r": .*expected"):
            run(*inputs)
        return
    out, new_state = run(*inputs)
    if row.kind == "PixelUnshuffle":  # torch gives nothing back in the shape it came in
        expected = [theirs.reshape(ours.shape) for ours, theirs in zip(jax.tree.leaves(out), expected, strict=True)]
    for ours, theirs in zip(jax.tree.leaves(out), expected, strict=True):
        near(ours, theirs, 0, "output")
    for name, theirs in buffers.items():
        near(tree.flatten(new_state)[name], theirs, ADDED, name)


@pytest.mark.slow
@every_mode
def test_forward_mode_and_second_derivatives(row, training):
    """In float64. Forward mode is the transpose of reverse mode; a gradient's gradient is torch's, where it has one."""
    with jax.enable_x64(True):
        net, *parts = given(row)
        params, state, inputs = (tree.cast(part, "float64") for part in parts)
        floating, join = split(inputs)
        point = (params, floating)

        def run(params, floating):
            out, _ = net.apply(params, state, *join(floating), training=training)
            return [x for x in jax.tree.leaves(out) if is_float(x)]

        outputs = run(*point)
        cotangents = draw(outputs)
        random = np.random.default_rng(2)
        direction = jax.tree.map(lambda x: jnp.asarray(random.normal(size=x.shape).astype(np.float32), x.dtype), point)
        wide = [jnp.asarray(c, o.dtype) for c, o in zip(cotangents, outputs, strict=True)]

        def gradients(*point):
            return jax.vjp(run, *point)[1](wide)

        @jax.jit
        def both(point):
            _, pushed = jax.jvp(run, point, direction)
            along = lambda *point: sum(map(jnp.vdot, jax.tree.leaves(gradients(*point)), jax.tree.leaves(direction)))
            return pushed, gradients(*point), jax.grad(along, argnums=(0, 1))(*point)

        pushed, pulled_back, (second_params, second_inputs) = both(point)
        forward = sum(np.vdot(a, b) for a, b in zip(pushed, wide, strict=True))
        backward = sum(
            np.vdot(a, b) for a, b in zip(jax.tree.leaves(pulled_back), jax.tree.leaves(direction), strict=True)
        )
        size = sum(np.abs(np.asarray(a) * b).sum() for a, b in zip(pushed, wide, strict=True))
        assert abs(forward - backward) <= 1e-12 * (size + 1), (forward, backward)

        if row.oracle is not torch.float64:
            return
        expected = torch_second(row, training, inputs, cotangents, direction)
        if expected is None:
            return
        expected_inputs, expected_params = expected
        scale = max((np.abs(a).max(initial=0) for a in [*expected_inputs, *expected_params.values()]), default=0)
        for ours, theirs in zip(second_inputs, expected_inputs, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=SECOND * (scale + 1e-3))
        for name, theirs in expected_params.items():
            np.testing.assert_allclose(
                tree.flatten(second_params)[name], theirs, rtol=0, atol=SECOND * (scale + 1e-3), err_msg=name
            )


def torch_second(row, training, inputs, cotangents, direction):
    """torch's derivatives of <its gradients, direction>, of inputs and of params; None where it has none."""
    module, floating, outputs, _ = torch_forward(row, training, inputs)
    names = [name for name, _ in module.named_parameters()]
    leaves = [*floating, *module.parameters()]
    try:
        first = pulled(outputs, leaves, cotangents, create_graph=True)
        param_directions = tree.flatten(direction[0])
        along = [*direction[1], *(param_directions[name] for name in names)]
        total = sum((g * torch.tensor(np.asarray(d))).sum() for g, d in zip(first, along, strict=True))
        second = pulled([total], leaves, [1.0])
    except RuntimeError as error:
        if "is not implemented" in str(error) or "not supported" in str(error):
            return None
        raise
    second = [g.numpy(force=True) for g in second]  # zeros that torch never made are no array
    return second[: len(floating)], dict(zip(names, second[len(floating) :], strict=True))


@pytest.mark.slow
@every_mode
def test_shard_map_over_the_batch(row, training):
    """Each device's share is torch's on that share; gradients of params are summed over the devices."""
    net, params, state, inputs = given(row, batch=BATCH * SHARDS)
    mesh = jax.make_mesh((SHARDS,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    axes = row.batch_axes(inputs)
    cut = lambda axis: PartitionSpec(*[None] * axis, "data")
    halves = jax.tree.map(lambda x, axis: jnp.split(x, SHARDS, axis), inputs, axes)
    floating_axes = [axis for x, axis in zip(*map(jax.tree.leaves, (inputs, axes)), strict=True) if is_float(x)]
    shares = [jax.tree.map(lambda _, parts, i=i: parts[i], inputs, halves) for i in range(SHARDS)]
    cotangents = [draw(torch_run(row, training, share)[0], seed=i) for i, share in enumerate(shares)]

    def one(params, state, inputs, cotangents):
        floating, join = split(inputs)

        def run(params, floating):
            return jax.tree.leaves(net.apply(params, state, *join(floating), training=training)[0])

        outputs, pull = jax.vjp(run, params, floating)
        return [x[None] for x in outputs], *pull(filled(outputs, [c[0] for c in cotangents]))

    outputs, param_grads, input_grads = jax.jit(
        jax.shard_map(
            one,
            mesh=mesh,
            in_specs=(PartitionSpec(), PartitionSpec(), jax.tree.map(cut, axes), PartitionSpec("data")),
            out_specs=(PartitionSpec("data"), PartitionSpec(), list(map(cut, floating_axes))),
        )
    )(params, state, inputs, [np.stack(pair) for pair in zip(*cotangents, strict=True)])
    tolerance = max(row.tolerance[0], ADDED)
    totals: dict = {}
    for i, share in enumerate(shares):
        expected, expected_inputs, expected_params, _, _ = torch_run(row, training, share, cotangents[i])
        for ours, theirs in zip(outputs, expected, strict=True):
            near(ours[i], theirs, tolerance, f"output of device {i}")
        for ours, theirs, axis in zip(input_grads, expected_inputs, floating_axes, strict=True):
            near(jnp.split(ours, SHARDS, axis)[i], theirs, tolerance, f"gradient of an input, device {i}")
        for name, theirs in expected_params.items():
            totals[name] = totals.get(name, 0) + theirs
    for name, theirs in totals.items():
        near(tree.flatten(param_grads)[name], theirs, tolerance, f"gradient of {name}")


@every_row
def test_repr_is_torchs(row):
    assert repr(row.ours()) == repr(row.theirs())


@every_row
def test_state_dict_is_torchs_and_goes_back(row):
    net, params, state, inputs = given(row)
    theirs, ours = row.theirs(), net.state_dict(params, state)
    lazy = any(isinstance(p, torch.nn.UninitializedParameter) for p in theirs.parameters())
    if lazy:
        theirs = torch_run(row, False, inputs)[-1].float()
    expected = theirs.state_dict()
    assert list(ours) == list(expected)
    for name, tensor in expected.items():
        assert np.array_equal(ours[name], tensor.numpy()) and ours[name].dtype == tensor.numpy().dtype, name
    made = jax.eval_shape(net.init, KEY, *inputs) if lazy else jax.eval_shape(net.init, KEY)
    fill = lambda leaf: np.arange(leaf.size).reshape(leaf.shape).astype(leaf.dtype)
    fresh = net.state_dict(*jax.tree.map(fill, made))
    theirs.load_state_dict({name: torch.tensor(np.asarray(value)) for name, value in fresh.items()}, strict=True)
    for name, tensor in theirs.state_dict().items():
        assert np.array_equal(fresh[name], tensor.numpy()), name


@every_row
@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_state_dict_through_files_to_torch_and_back(row, suffix, tmp_path):
    """Byte for byte; torch opens what is written as mere tensors and takes it strictly."""
    net, params, state, inputs = given(row)
    ours, theirs = tmp_path / f"ours.{suffix}", tmp_path / f"theirs.{suffix}"
    written = net.state_dict(params, state)
    weights.save(ours, written)
    read = safetensors.torch.load_file(ours) if suffix == "safetensors" else torch.load(ours, weights_only=True)
    module = row.theirs()
    if any(isinstance(p, torch.nn.UninitializedParameter) for p in module.parameters()):
        module = torch_run(row, False, inputs)[-1].float()
    module.load_state_dict(read, strict=True)
    assert suffix == "safetensors" or read._metadata == module.state_dict()._metadata
    if suffix == "safetensors":
        safetensors.torch.save_file(module.state_dict(), theirs)
    else:
        torch.save(module.state_dict(), theirs)
    back = net.state_dict(*net.load_state_dict(weights.load(theirs)))
    assert set(back) == set(written) == set(read)
    for name, array in written.items():
        tensor = module.state_dict()[name]
        assert raw(array) == raw(tensor.numpy()) == raw(back[name]) and array.dtype == tensor.numpy().dtype, name


def raw(array) -> bytes:
    return np.ascontiguousarray(array).tobytes()
