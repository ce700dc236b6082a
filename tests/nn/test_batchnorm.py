"""BatchNorm over time and over devices: running statistics against torch's, SyncBatchNorm against torch on all rows."""

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from funcnet import nn, tree
from tests.tracing import traced

KEY = jax.random.key(0)


def carried(theirs, **kwargs):
    """Our layer of the same kind and options, with torch's params and state."""
    options = {k: getattr(theirs, k) for k in ("eps", "momentum", "affine", "track_running_stats")}
    ours = getattr(nn, type(theirs).__name__)(theirs.num_features, **options, **kwargs)
    return ours, *ours.load_state_dict(theirs.state_dict())


# ---------------------------------------------------------------------------------------------- statistics over time

SEQUENCES = [{}, {"momentum": None}, {"momentum": 0.5}, {"track_running_stats": False}, {"affine": False}]


@pytest.mark.parametrize("options", SEQUENCES, ids=str)
def test_twenty_steps_of_running_statistics(options):
    theirs = torch.nn.BatchNorm2d(3, **options)
    net, params, state = carried(theirs)
    step, traces = traced(functools.partial(net.apply, training=True))
    random = np.random.default_rng(0)
    for i in range(20):
        x = (random.normal(size=(4, 3, 2, 5)) * (1 + i % 3) + i).astype(np.float32)
        expected = theirs(torch.tensor(x)).detach().numpy()
        out, state = step(params, state, x)
        np.testing.assert_allclose(out, expected, atol=5e-6)
        for name, buffer in theirs.named_buffers():
            np.testing.assert_allclose(state[name], buffer.numpy(), rtol=2e-6, err_msg=f"{name} after step {i}")
    assert len(traces) == 1
    theirs.eval()
    out, after = net.apply(params, state, x)
    np.testing.assert_allclose(out, theirs(torch.tensor(x)).detach().numpy(), atol=5e-6)
    assert all(a is b for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(state), strict=True))


@functools.cache
def compiled(*options):
    """(torch's layer, ours, our step): one program for all sequences under these options."""
    kind, *rest = options
    theirs = getattr(torch.nn, kind)(3, **dict(rest))
    net, _, _ = carried(theirs)

    @functools.partial(jax.jit, static_argnames="training")
    def step(params, state, x, cotangent, training):
        run = lambda params, x: net.apply(params, state, x, training=training)
        out, pull, state = jax.vjp(run, params, x, has_aux=True)
        return out, state, pull(cotangent)

    return theirs, net, step


@pytest.mark.slow
@given(
    st.sampled_from([("BatchNorm1d", (4, 3)), ("BatchNorm1d", (2, 3, 5)), ("BatchNorm2d", (2, 3, 2, 1))]),
    st.sampled_from([{"momentum": m, "affine": a} for m in (0.1, None, 0.0, 1.0) for a in (True, False)]),
    st.booleans(),
    st.lists(st.booleans(), min_size=20, max_size=20),
    st.lists(st.floats(-100, 100), min_size=20, max_size=20),
    st.integers(0, 99),
)
def test_hypothesis_twenty_steps(layer, options, tracked, modes, means, seed):
    """Twenty steps, some in eval, about a mean that wanders: output, gradients and buffers after each, in float64."""
    kind, shape = layer
    with jax.enable_x64(True):
        theirs, net, step = compiled(kind, *options.items(), ("track_running_stats", tracked))
        theirs.reset_parameters()
        theirs.double()
        params, state = (tree.cast(part, "float64") for part in net.load_state_dict(theirs.state_dict()))
        random = np.random.default_rng(seed)
        for training, mean in zip(modes, means, strict=True):
            x, cotangent = random.normal(size=shape) + mean, random.normal(size=shape)
            leaf = torch.tensor(x, requires_grad=True)
            expected = theirs.train(training)(leaf)
            gradients = torch.autograd.grad(expected, [*theirs.parameters(), leaf], torch.tensor(cotangent))
            out, state, (d_params, d_x) = step(params, state, x, cotangent, training=training)
            found = [d_params[name] for name, _ in theirs.named_parameters()] + [d_x]
            for ours, want in zip([out, *found], [expected, *gradients], strict=True):
                np.testing.assert_allclose(ours, want.detach(), rtol=1e-10, atol=1e-10)
            for name, buffer in theirs.named_buffers():
                np.testing.assert_allclose(state[name], buffer, rtol=1e-12, atol=1e-12)


def test_momentum_none_is_the_plain_average_and_skips_what_is_masked_out():
    net = nn.BatchNorm1d(2, momentum=None)
    params, state = net.init(KEY)
    random = np.random.default_rng(0)
    batches = [random.normal(size=(6, 2)).astype(np.float32) for _ in range(3)]
    for x in batches:
        _, state = net.apply(params, state, x, training=True, mask=jnp.ones(6, bool))
        before = state
        out, state = net.apply(params, state, x + 100, training=True, mask=jnp.zeros(6, bool))
        for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(state), strict=True):
            assert np.array_equal(a, b)
        usual, _ = net.apply(params, before, x + 100)
        np.testing.assert_allclose(out, usual, rtol=1e-6)
    assert int(state["num_batches_tracked"]) == 3
    np.testing.assert_allclose(state["running_mean"], np.mean([x.mean(0) for x in batches], 0), rtol=1e-5)
    np.testing.assert_allclose(state["running_var"], np.mean([x.var(0, ddof=1) for x in batches], 0), rtol=1e-5)


def test_a_first_batch_that_is_masked_out_leaves_a_layer_as_it_was_made():
    net = nn.BatchNorm1d(2, momentum=None)
    params, state = net.init(KEY)
    x = jnp.ones((3, 2))
    out, after = net.apply(params, state, x, training=True, mask=jnp.zeros(3, bool))
    assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True))
    np.testing.assert_allclose(out, x, rtol=1e-5)


@pytest.mark.parametrize("kind", ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"])
def test_masked_positions_are_as_if_they_were_not_there(kind):
    """Rows of one position each, so that torch can be given what the mask leaves."""
    rank = int(kind[-2])
    random = np.random.default_rng(0)
    x = random.normal(size=(12, 3, *(1,) * (rank if rank > 1 else 0))).astype(np.float32)
    kept = random.random(12) < 0.6
    theirs = getattr(torch.nn, kind)(3)
    net, params, state = carried(theirs)
    expected = theirs(torch.tensor(x[kept])).detach().numpy()
    mask = jnp.asarray(kept).reshape(-1, *(1,) * (x.ndim - 2))
    out, state = net.apply(params, state, x, training=True, mask=mask)
    np.testing.assert_allclose(np.asarray(out)[kept], expected, atol=2e-6)
    for name, buffer in theirs.named_buffers():
        np.testing.assert_allclose(state[name], buffer.numpy(), rtol=2e-6)


def test_the_counter_is_torchs_int64_on_the_outside():
    net = nn.BatchNorm1d(2)
    params, state = net.init(KEY)
    _, state = net.apply(params, state, jnp.ones((2, 2)), training=True)
    counter = net.state_dict(params, state)["num_batches_tracked"]
    assert counter.dtype == np.int64 and counter.shape == () and counter == 1


def test_a_variant_of_ones_own_overrides_forward():
    class Scaled(nn.BatchNorm1d):
        def forward(self, input, **kwargs):
            return 2 * super().forward(input, **kwargs)

    net, plain = Scaled(2), nn.BatchNorm1d(2)
    params, state = net.init(KEY)
    x = jax.random.normal(KEY, (5, 2))
    out, after = net.apply(params, state, x, training=True)
    usual, expected = plain.apply(params, state, x, training=True)
    assert np.array_equal(out, 2 * usual)
    assert jax.tree.all(jax.tree.map(np.array_equal, after, expected))


def test_training_of_some_by_name():
    net = nn.Sequential(nn.BatchNorm1d(2), nn.BatchNorm1d(2))
    params, state = net.init(KEY)
    _, after = net.apply(params, state, jax.random.normal(KEY, (4, 2)), training={"**": True, "0": False})
    assert [int(after[name]["num_batches_tracked"]) for name in "01"] == [0, 1]


# ---------------------------------------------------------------------------------------------------------- refusals

REFUSALS = [
    (nn.BatchNorm1d(3), jnp.ones((2, 3, 4, 5)), ValueError, "expected 2D or 3D input, got 4D input"),
    (nn.BatchNorm1d(3), jnp.ones(3), ValueError, "BatchNorm1d: .* expected 2D or 3D input, got 1D"),
    (nn.BatchNorm2d(3), jnp.ones((2, 3, 4)), ValueError, "BatchNorm2d: .* expected 4D input, got 3D"),
    (nn.BatchNorm3d(3), jnp.ones((2, 3, 4, 4)), ValueError, "BatchNorm3d: .* expected 5D input, got 4D"),
    (nn.SyncBatchNorm(3), jnp.ones(3), ValueError, "SyncBatchNorm: .* expected at least 2D input, got 1D"),
    (nn.BatchNorm2d(3), jnp.ones((2, 4, 4, 3)), ValueError, "expected 3 channels in dimension 1, got 4"),
    (nn.BatchNorm1d(3), jnp.ones((1, 3)), ValueError, "expected more than 1 value per channel"),
    (nn.BatchNorm2d(3), jnp.ones((1, 3, 1, 1)), ValueError, "expected more than 1 value per channel"),
    (nn.BatchNorm1d(3), jnp.ones((4, 3), int), TypeError, "must hold floating-point numbers; .* got int32"),
]


@pytest.mark.parametrize(("net", "x", "error", "text"), REFUSALS, ids=[text for *_, text in REFUSALS])
def test_refusals_give_torchs_reason(net, x, error, text):
    params, state = net.init(KEY)
    with pytest.raises(error, match=text):
        net.apply(params, state, x, training=True)
    if not isinstance(net, nn.SyncBatchNorm):
        with pytest.raises((ValueError, RuntimeError)):
            getattr(torch.nn, type(net).__name__)(3)(torch.tensor(np.asarray(x)))


def test_one_value_a_channel_is_enough_in_eval():
    net = nn.BatchNorm1d(3)
    assert net.apply(*net.init(KEY), jnp.ones((1, 3)))[0].shape == (1, 3)


# -------------------------------------------------------------------------------------------------------- conversion


class Net(nn.Module):
    """A shared module, a frozen parameter, a tie, a list."""

    def __init__(self):
        super().__init__()
        self.first = nn.BatchNorm1d(3, momentum=None)
        self.list = nn.ModuleList([nn.Linear(3, 3), nn.BatchNorm1d(3, eps=1e-3, bias=False)])
        self.again = self.first
        self.tied = nn.BatchNorm1d(3, affine=False)
        self.last = nn.BatchNorm1d(3, track_running_stats=False)
        self.last.weight = self.first.weight
        self.first.bias.requires_grad = False

    def forward(self, x):
        for layer in (self.first, *self.list, self.again, self.tied, self.last):
            x = layer(x)
        return x


def test_conversion_keeps_names_ties_frozen_marks_and_numbers():
    net = Net()
    params, state = net.init(KEY)
    x = jax.random.normal(KEY, (6, 3))
    run = lambda: jax.value_and_grad(
        lambda p: (lambda y, s: ((y**3).sum(), (y, s)))(*net.apply(p, state, x, training=True)), has_aux=True
    )(params)
    before, names, text = jax.jit(run)(), list(net.state_dict(params, state)), repr(net)
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(net, "batch")
    assert converted is net and net.first is net.again and isinstance(net.first, nn.SyncBatchNorm)
    assert {type(m).__name__ for m in net.modules()} == {"Net", "ModuleList", "Linear", "SyncBatchNorm"}
    assert {m.axis_name for m in net.modules() if isinstance(m, nn.SyncBatchNorm)} == {"batch"}
    assert list(net.state_dict(params, state)) == names
    assert repr(net) == text.replace("BatchNorm1d", "SyncBatchNorm")
    after = jax.jit(run)()  # outside any axis: BatchNorm
    assert jax.tree.structure(before) == jax.tree.structure(after)
    assert jax.tree.all(jax.tree.map(np.array_equal, before, after))
    assert not after[1]["first"]["bias"].any() and after[1]["first"]["weight"].any()
    assert net.last.weight is net.first.weight


def test_conversion_of_a_batch_norm_itself_and_its_options():
    old = nn.BatchNorm2d(4, 1e-3, None, True, False, bias=False)
    new = nn.SyncBatchNorm.convert_sync_batchnorm(old, ("a", "b"), [[0], [1]])
    assert isinstance(new, nn.SyncBatchNorm) and isinstance(old, nn.BatchNorm2d)
    assert (new.axis_name, new.axis_index_groups) == (("a", "b"), [[0], [1]])
    theirs = torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.BatchNorm2d(4, 1e-3, None, True, False, bias=False))
    assert repr(new) == repr(theirs)
    assert new.weight is old.weight and new.bias is None
    again = nn.SyncBatchNorm.convert_sync_batchnorm(new, "c")
    assert again.axis_name == "c"


def test_conversion_reaches_into_a_stack():
    net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Repeat(nn.BatchNorm1d(2), 2, scan=True), "batch")
    assert [type(m).__name__ for m in net.modules()] == ["Repeat", "SyncBatchNorm"]


def forward_too(self, input):
    return 2 * nn.BatchNorm1d.forward(self, input)


class Checks:
    def check_input(self, input):
        pass


@pytest.mark.parametrize(
    ("bases", "own", "lost"),
    [
        ((nn.BatchNorm1d,), {"forward": forward_too}, "forward"),
        ((nn.BatchNorm1d,), {"check_input": lambda self, input: None}, "check_input"),
        ((Checks, nn.BatchNorm1d), {}, "check_input"),
        ((nn.BatchNorm1d,), {"__call__": forward_too, "fold": forward_too}, "__call__, fold"),
        ((nn.BatchNorm1d,), {"scale": property(lambda self: 2.0)}, "scale"),
    ],
)
def test_conversion_refuses_what_it_would_lose(bases, own, lost):
    net = nn.Sequential(nn.ReLU(), type("Mine", bases, own)(2))
    with pytest.raises(
        ValueError,
        match=rf"1 \(Mine\) defines {lost}, which the conversion would lose\. Leave the module as it is and call",
    ):
        nn.SyncBatchNorm.convert_sync_batchnorm(net, "batch")
    assert type(net[1]).__name__ == "Mine"


def test_conversion_keeps_all_attributes():
    class Small(nn.BatchNorm1d):
        """Another constructor and another start are no loss; torch drops the class as well."""

        ranks = (2,)

        def __init__(self):
            super().__init__(2, eps=1e-3)
            self.note = "mine"
            self.child = nn.BatchNorm1d(3)

        def reset_parameters(self):
            nn.init.constant_(self.weight, 3.0)
            nn.init.zeros_(self.bias)

    new = nn.SyncBatchNorm.convert_sync_batchnorm(Small(), "batch")
    assert type(new) is type(new.child) is nn.SyncBatchNorm and (new.note, new.eps) == ("mine", 1e-3)
    assert new.init(KEY)[0]["weight"].tolist() == [3, 3]
    x = jax.random.normal(KEY, (5, 2))
    net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.remat(nn.BatchNorm1d(2))), "batch")
    program = jax.make_jaxpr(functools.partial(net.apply, training=True))(*net.init(KEY), x)
    assert "checkpoint" in str(program) or "remat" in str(program)


def test_conversion_leaves_a_synchronised_subclass_its_class():
    old = type("Mine", (nn.SyncBatchNorm,), {"forward": forward_too})(2, axis_name="a")
    new = nn.SyncBatchNorm.convert_sync_batchnorm(old, "b", [[0], [1]])
    assert type(new) is type(old) and (new.axis_name, new.axis_index_groups, old.axis_name) == ("b", [[0], [1]], "a")


def test_conversion_of_a_subclass_that_adds_no_method_is_torchs():
    made = []
    for library in (nn, torch.nn):
        kind = type("Mine", (library.BatchNorm1d,), {})
        made.append(library.SyncBatchNorm.convert_sync_batchnorm(library.Sequential(kind(4, momentum=None))))
    assert repr(made[0]) == repr(made[1])


# ------------------------------------------------------------------------------------------------------ over devices

DEVICES, ROWS, CHANNELS = 4, 8, 3
COUNTED = np.array([5, 3, 0, 8])
ATOL = {0.0: 1e-12, 1e4: 1e-10}  # in units of a channel's spread; float64 itself goes in steps of 2e-12 at 1e4


@contextlib.contextmanager
def float64():
    with jax.enable_x64(True):
        yield


def mesh():
    return Mesh(np.array(jax.devices()[:DEVICES]), ("batch",))


class Block(nn.Module):
    def __init__(self, **kwargs):
        super().__init__()
        self.fc = nn.Linear(CHANNELS, CHANNELS)
        self.bn = nn.SyncBatchNorm(CHANNELS, **kwargs)

    def forward(self, x, mask):
        return self.bn(self.fc(x), mask=mask)


class TorchBlock(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(CHANNELS, CHANNELS)
        self.bn = torch.nn.BatchNorm1d(CHANNELS)

    def forward(self, x):
        return self.bn(self.fc(x))


def problem(mean, counted):
    """(torch module in float64, rows (devices, rows, C), mask, cotangent that is zero where the mask is False)."""
    torch.manual_seed(0)
    theirs = TorchBlock().double()
    with torch.no_grad():
        theirs.bn.weight.add_(torch.randn(CHANNELS) * 0.3)
        theirs.bn.bias.add_(torch.randn(CHANNELS))
    random = np.random.default_rng(0)
    x = random.normal(size=(DEVICES, ROWS, CHANNELS)) + mean
    mask = np.arange(ROWS) < counted[:, None]
    return theirs, x, mask, random.normal(size=x.shape) * mask[..., None]


def torch_truth(theirs, x, mask, cotangent):
    leaf = torch.tensor(x[mask], requires_grad=True)
    out = theirs(leaf)
    out.backward(torch.tensor(cotangent[mask]))
    whole = np.zeros_like(x)
    whole[mask] = leaf.grad.numpy()
    params = {name: parameter.grad.numpy() for name, parameter in theirs.named_parameters()}
    return out.detach().numpy(), whole, params, {name: b.numpy() for name, b in theirs.named_buffers()}


def spread(way, one):
    """`one(params, state, x, mask, cotangent)`, the program of a device, on all of them: everything with an axis."""
    if way == "vmap":
        return jax.jit(jax.vmap(one, in_axes=(None, None, 0, 0, 0), axis_name="batch"))
    if way == "pmap":
        return jax.pmap(one, "batch", in_axes=(None, None, 0, 0, 0), devices=jax.devices()[:DEVICES])

    def body(params, state, *rows):
        return jax.tree.map(lambda a: a[None], one(params, state, *(row[0] for row in rows)))

    p = PartitionSpec("batch")
    specs = {"in_specs": (PartitionSpec(), PartitionSpec(), p, p, p), "out_specs": p}
    return jax.jit(jax.shard_map(body, mesh=mesh(), check_vma=False, **specs))


@pytest.mark.parametrize("mean", [0.0, 1e4])
@pytest.mark.parametrize("way", ["vmap", "pmap", "shard_map"])
def test_synchronised_is_torch_on_the_whole_batch(way, mean):
    theirs, x, mask, cotangent = problem(mean, COUNTED)
    with float64():
        net = Block(axis_name="batch")
        params, state = net.load_state_dict(theirs.state_dict(), into=tree.cast(net.init(KEY), jnp.float64))

        def one(params, state, x, mask, cotangent):
            run = lambda p, x: net.apply(p, state, x, mask, training=True)
            out, pull, new_state = jax.vjp(run, params, x, has_aux=True)
            param_grads, x_grads = pull(cotangent)
            return out, new_state, param_grads, x_grads  # each device's own share of the params' gradients

        out, states, grads, x_grads = spread(way, one)(params, state, x, mask, cotangent)
    expected, expected_x, expected_params, expected_buffers = torch_truth(theirs, x, mask, cotangent)
    near = functools.partial(np.testing.assert_allclose, rtol=0, atol=ATOL[mean])
    near(np.asarray(out)[mask], expected)
    near(x_grads, expected_x)
    assert not np.asarray(x_grads)[~mask].any()
    for name, theirs_grad in expected_params.items():
        ours = np.asarray(tree.flatten(grads)[name]).sum(0)
        size = max(1, mean)  # of the inputs that multiply the gradient's own error
        near(ours / size, theirs_grad / size, err_msg=name)
    for name, buffer in expected_buffers.items():
        for device in range(DEVICES):
            np.testing.assert_allclose(tree.flatten(states)[name][device], buffer, rtol=1e-11, err_msg=name)


@pytest.mark.parametrize("mean", [0.0, 1e4])
def test_under_jit_a_sharded_batch_is_one_batch(mean):
    theirs, x, mask, cotangent = problem(mean, np.full(DEVICES, ROWS))
    with float64():
        net = Block()
        params, state = net.load_state_dict(theirs.state_dict(), into=tree.cast(net.init(KEY), jnp.float64))
        rows = jax.device_put(x.reshape(-1, CHANNELS), NamedSharding(mesh(), PartitionSpec("batch")))
        out, after = jax.jit(lambda x: net.apply(params, state, x, None, training=True))(rows)
    expected, *_, expected_buffers = torch_truth(theirs, x, mask, cotangent)
    np.testing.assert_allclose(out, expected, rtol=0, atol=ATOL[mean])
    for name, buffer in expected_buffers.items():
        np.testing.assert_allclose(tree.flatten(after)[name], buffer, rtol=1e-11, err_msg=name)


def test_state_leaves_a_checked_shard_map_as_replicated():
    net = nn.SyncBatchNorm(CHANNELS, axis_name="batch")
    params, state = net.init(KEY)
    x = jax.random.normal(KEY, (DEVICES * ROWS, CHANNELS))
    everywhere, rows = PartitionSpec(), PartitionSpec("batch")
    run = jax.shard_map(
        lambda x, mask: net.apply(params, state, x, training=True, mask=mask),
        mesh=mesh(),
        in_specs=(rows, rows),
        out_specs=(rows, everywhere),
    )
    mask = jnp.arange(len(x)) % 3 > 0
    out, after = jax.jit(run)(x, mask)
    expected, expected_after = nn.BatchNorm1d(CHANNELS).apply(params, state, x, training=True, mask=mask)
    np.testing.assert_allclose(out, expected, atol=1e-6)
    for ours, theirs in zip(jax.tree.leaves(after), jax.tree.leaves(expected_after), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("kind", ["SyncBatchNorm", "BatchNorm1d"])
def test_groups_of_devices_share_their_statistics_alone(kind):
    groups = [[0, 1], [2, 3]]
    named = {"axis_name": "batch", "axis_index_groups": groups}
    net, call = (nn.SyncBatchNorm(CHANNELS, **named), {}) if kind == "SyncBatchNorm" else (nn.BatchNorm1d(3), named)
    params, state = net.init(KEY)
    x = jax.random.normal(KEY, (DEVICES, ROWS, CHANNELS)) * jnp.arange(1.0, 1 + DEVICES)[:, None, None]
    mask = jnp.arange(ROWS) < jnp.array([8, 3, 0, 0])[:, None]
    run = lambda x, mask: net.apply(params, state, x, training=True, mask=mask, **call)
    out, after = jax.pmap(run, "batch", devices=jax.devices()[:DEVICES])(x, mask)
    assert after["num_batches_tracked"].tolist() == [1, 1, 0, 0]
    for group in groups:
        rows, kept = x[jnp.array(group)].reshape(-1, CHANNELS), mask[jnp.array(group)].reshape(-1)
        expected, expected_after = nn.BatchNorm1d(CHANNELS).apply(params, state, rows, training=True, mask=kept)
        np.testing.assert_allclose(np.asarray(out)[group].reshape(-1, CHANNELS), expected, atol=2e-6)
        np.testing.assert_allclose(after["running_var"][group[0]], expected_after["running_var"], rtol=2e-6)


@pytest.mark.slow
def test_where_no_device_counts_anything_nothing_changes():
    net = nn.SyncBatchNorm(CHANNELS, axis_name=("rows", "unbound"), momentum=None)
    params, state = net.init(KEY)
    x = jax.random.normal(KEY, (DEVICES, ROWS, CHANNELS))
    run = lambda mask: jax.vmap(lambda x, m: net.apply(params, state, x, training=True, mask=m), axis_name="rows")(
        x, mask
    )
    out, after = run(jnp.zeros((DEVICES, ROWS), bool))
    np.testing.assert_allclose(out, net.apply(params, state, x.reshape(-1, CHANNELS))[0].reshape(x.shape), rtol=1e-6)
    for old, new in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
        assert np.array_equal(np.broadcast_to(old, new.shape), new)
    _, after = run(jnp.zeros((DEVICES, ROWS), bool).at[1].set(True))
    assert after["num_batches_tracked"].tolist() == [1] * DEVICES


def test_in_eval_nothing_is_exchanged_as_in_torch():
    """Neither with running statistics nor without: there torch takes each device's own batch."""
    x = jax.random.normal(KEY, (2, ROWS, CHANNELS)) * jnp.array([1.0, 5.0])[:, None, None]
    for options in ({}, {"track_running_stats": False}):
        net = nn.SyncBatchNorm(CHANNELS, axis_name="rows", **options)
        params, state = net.init(KEY)
        out, _ = jax.vmap(lambda x, n=net, p=params, s=state: n.apply(p, s, x), axis_name="rows")(x)
        for i in range(2):
            np.testing.assert_allclose(out[i], net.apply(params, state, x[i])[0], atol=1e-6)
