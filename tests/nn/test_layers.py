"""The contract of every layer: each test walks the whole table of `tests/layer_table.py`."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.random
from funcnet import nn, tree
from tests.layer_table import TABLE, Row

BATCH = 5
KEY = jax.random.key(0)
ADDED = 1e-7  # where values are merely picked, gradients and statistics still add them up

every_row = pytest.mark.parametrize("row", TABLE, ids=str)
every_mode = pytest.mark.parametrize(
    ("row", "training"), [(row, mode) for row in TABLE for mode in row.modes], ids=lambda v: str(v)
)


def near(ours, theirs, tolerance, what):
    """`ours` lies within tolerance · (the largest entry of `theirs`) of it, everywhere."""
    theirs = np.asarray(theirs)
    assert ours.shape == theirs.shape, what
    largest = np.abs(theirs[np.isfinite(theirs)]).max(initial=0)
    np.testing.assert_allclose(np.asarray(ours, theirs.dtype), theirs, rtol=0, atol=tolerance * largest, err_msg=what)


def given(row: Row, batch: int = BATCH):
    """(description, params, state, inputs): torch's weights, carried over by its state_dict."""
    net = row.ours()
    return net, *net.load_state_dict(row.theirs().state_dict()), [jnp.asarray(x) for x in row.inputs(batch)]


def is_float(x) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)


def torch_run(row: Row, training: bool, arrays, cotangent=None, half=False):
    """(output, gradients of the floating inputs, {name: gradient}, buffers) of torch; `half` rounds the weights."""
    module = row.theirs()
    if half:
        for parameter in module.parameters():
            parameter.data = parameter.data.bfloat16()
    module = module.to(row.oracle).train(training)
    inputs = [torch.tensor(np.asarray(x, np.float32 if is_float(x) else np.int64)) for x in arrays]
    inputs = [x.to(row.oracle).requires_grad_() if x.is_floating_point() else x for x in inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the old names of `reduction`
        out = module(*inputs)
    leaves = [x for x in inputs if x.requires_grad] + list(module.parameters())
    grads = [torch.zeros_like(leaf) for leaf in leaves]
    if cotangent is not None:
        found = torch.autograd.grad(out, leaves, torch.tensor(cotangent, dtype=row.oracle), allow_unused=True)
        grads = [zero if g is None else g for zero, g in zip(grads, found, strict=True)]
    names = [name for name, _ in module.named_parameters()]
    grads = [g.numpy() for g in grads]
    split = len(grads) - len(names)
    buffers = {name: buffer.numpy() for name, buffer in module.named_buffers()}
    return out.detach().numpy(), grads[:split], dict(zip(names, grads[split:], strict=True)), buffers


@every_mode
def test_values_gradients_and_buffers(row, training):
    """Eager and compiled, against torch; state keeps its structure; the second call finds the first one's trace."""
    net, params, state, inputs = given(row)
    floating = [x for x in inputs if is_float(x)]
    traces = 0

    def run(params, state, floating):
        rest = iter(floating)
        return net.apply(params, state, *(next(rest) if is_float(x) else x for x in inputs), training=training)

    @jax.jit
    def run_and_pull(params, state, floating, cotangent):
        nonlocal traces
        traces += 1
        out, pull, new_state = jax.vjp(lambda p, x: run(p, state, x), params, floating, has_aux=True)
        return out, new_state, *pull(cotangent)

    eager, _ = run(params, state, floating)
    cotangent = np.random.default_rng(1).normal(size=eager.shape).astype(np.float32)
    out, new_state, param_grads, input_grads = run_and_pull(params, state, floating, cotangent)
    run_and_pull(params, new_state, floating, cotangent)
    assert traces == 1

    expected, expected_inputs, expected_params, expected_buffers = torch_run(row, training, inputs, cotangent)
    tolerance, _ = row.tolerance
    near(out, expected, tolerance, "output")
    near(eager, expected, tolerance, "output, eager")
    tolerance = max(tolerance, ADDED)
    for ours, theirs in zip(input_grads, expected_inputs, strict=True):
        near(ours, theirs, tolerance, "gradient of an input")
    param_grads = tree.flatten(param_grads)
    assert set(param_grads) == set(expected_params)
    for name, theirs in expected_params.items():
        near(param_grads[name], theirs, tolerance, f"gradient of {name}")
    assert jax.tree.map(lambda a: (a.shape, a.dtype), state) == jax.tree.map(lambda a: (a.shape, a.dtype), new_state)
    for name, theirs in expected_buffers.items():
        near(tree.flatten(new_state)[name], theirs, tolerance, f"buffer {name}")


@every_mode
def test_vmap_is_the_loop(row, training):
    net, params, state, _ = given(row)
    batches = [row.inputs(BATCH), [x[::-1].copy() for x in row.inputs(BATCH)]]
    stacked = [jnp.stack([jnp.asarray(x) for x in pair]) for pair in zip(*batches, strict=True)]
    together, states = jax.jit(jax.vmap(lambda *inputs: net.apply(params, state, *inputs, training=training)))(*stacked)
    for i, inputs in enumerate(batches):
        expected, *_, buffers = torch_run(row, training, inputs)
        near(together[i], expected, row.tolerance[0], f"output {i}")
        for name, theirs in buffers.items():
            near(tree.flatten(states)[name][i], theirs, max(row.tolerance[0], ADDED), f"{name} {i}")


@every_mode
def test_bfloat16_in_and_out(row, training):
    net, params, state, inputs = given(row)
    inputs = [x.astype(jnp.bfloat16) if is_float(x) else x for x in inputs]
    params = tree.cast(params, jnp.bfloat16)
    out, new_state = jax.jit(lambda *inputs: net.apply(params, state, *inputs, training=training))(*inputs)
    assert out.dtype == jnp.bfloat16
    assert jax.tree.map(lambda a: (a.shape, a.dtype), state) == jax.tree.map(lambda a: (a.shape, a.dtype), new_state)
    expected, *_ = torch_run(row, training, inputs, half=True)
    # What is given is exact; what comes back is one rounding to 8 bits away, or two where a bias is added.
    near(out.astype(jnp.float32), expected, 2**-7, "output")


@every_mode
def test_empty_batch(row, training):
    net, params, state, inputs = given(row, batch=0)
    expected, *_, buffers = torch_run(row, training, inputs)
    out, new_state = jax.jit(lambda *inputs: net.apply(params, state, *inputs, training=training))(*inputs)
    near(out, expected, 0, "output")
    for name, theirs in buffers.items():
        near(tree.flatten(new_state)[name], theirs, ADDED, name)


@every_row
def test_repr_is_torchs(row):
    assert repr(row.ours()) == repr(row.theirs())


@every_row
def test_state_dict_is_torchs_and_goes_back(row):
    net, params, state, _ = given(row)
    theirs, ours = row.theirs(), net.state_dict(params, state)
    expected = theirs.state_dict()
    assert list(ours) == list(expected)
    for name, tensor in expected.items():
        assert np.array_equal(ours[name], tensor.numpy()) and ours[name].dtype == tensor.numpy().dtype, name
    shapes = jax.eval_shape(net.init, KEY)
    fill = lambda leaf: np.arange(leaf.size).reshape(leaf.shape).astype(leaf.dtype)
    fresh = net.state_dict(*jax.tree.map(fill, shapes))
    theirs.load_state_dict({name: torch.tensor(np.asarray(value)) for name, value in fresh.items()}, strict=True)
    for name, tensor in theirs.state_dict().items():
        assert np.array_equal(fresh[name], tensor.numpy()), name


# ------------------------------------------------------------------------------------------------------- initialisation

MANY = [
    ("Linear", (20, 1000), {}),
    ("Bilinear", (20, 10, 100), {}),
    ("Embedding", (100, 200), {}),
    ("Conv1d", (8, 300, 9), {}),
    ("Conv2d", (8, 1200, 3), {"groups": 4}),
    ("Conv3d", (2, 300, 3), {}),
    ("LayerNorm", (50,), {}),
    ("GroupNorm", (5, 50), {}),
    ("RMSNorm", (50,), {}),
    ("BatchNorm1d", (50,), {}),
]


@pytest.mark.parametrize(("kind", "args", "kwargs"), MANY, ids=[kind for kind, *_ in MANY])
def test_init_has_torchs_distribution(kind, args, kwargs):
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(*args, **kwargs).state_dict()
    net = getattr(nn, kind)(*args, **kwargs)
    same_distribution(net.state_dict(*net.init(KEY)), theirs)


def same_distribution(ours, theirs):
    assert list(ours) == list(theirs)
    for name, tensor in theirs.items():
        a, b = np.asarray(ours[name], np.float64).ravel(), tensor.double().numpy().ravel()
        if b.std() == 0 or b.size == 1:
            assert np.array_equal(a, b), name
            continue
        few = 1 / np.sqrt(a.size)
        assert abs(a.std() / b.std() - 1) < 6 * few and abs(a.mean() - b.mean()) < 6 * b.std() * few, name
        if abs(b).max() < 2 * b.std():  # uniform: its bound is met and not passed
            bound = b.std() * np.sqrt(3)
            assert abs(a.max() / b.max() - 1) < 12 / a.size + 1e-6, (name, bound)
            assert abs(a.min() / b.min() - 1) < 12 / a.size + 1e-6, (name, bound)


def test_lazy_linear_takes_its_shape_and_its_bounds_from_the_example():
    net = nn.Sequential(nn.LazyLinear(500), nn.ReLU(), nn.LazyLinear(4, bias=False))
    params, state = net.init(KEY, jnp.ones((2, 30)))
    torch.manual_seed(0)
    theirs = torch.nn.Sequential(torch.nn.LazyLinear(500), torch.nn.ReLU(), torch.nn.LazyLinear(4, bias=False))
    assert repr(net) == repr(theirs)
    theirs(torch.ones(2, 30))
    same_distribution(net.state_dict(params, state), theirs.state_dict())
    params, state = net.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).normal(size=(3, 30)).astype(np.float32)
    near(net.apply(params, state, x)[0], theirs(torch.tensor(x)).detach().numpy(), 1e-6, "output")
    with pytest.raises(ValueError, match="Give init an example input"):
        net.init(KEY)


def test_lazy_linear_keeps_the_init_that_the_user_gave_and_its_dtype():
    layer = nn.LazyLinear(3, dtype=jnp.bfloat16)
    nn.init.ones_(layer.bias)
    params, _ = layer.init(KEY, jnp.ones((2, 4), jnp.bfloat16))
    assert params["bias"].tolist() == [1, 1, 1] and params["weight"].dtype == jnp.bfloat16


TYPED = [
    ("Linear", (3, 4)),
    ("Bilinear", (2, 3, 4)),
    ("Conv2d", (3, 4, 2)),
    ("Embedding", (5, 3)),
    ("LayerNorm", (3,)),
    ("GroupNorm", (1, 3)),
    ("RMSNorm", (3,)),
    ("BatchNorm2d", (3,)),
    ("SyncBatchNorm", (3,)),
]


@pytest.mark.parametrize(("kind", "args"), TYPED, ids=[kind for kind, _ in TYPED])
def test_dtype_is_that_of_the_params_and_statistics_stay_wide(kind, args):
    params, state = getattr(nn, kind)(*args, dtype=jnp.bfloat16).init(KEY)
    assert {p.dtype for p in params.values()} == {jnp.dtype(jnp.bfloat16)}
    assert {s.dtype for s in state.values() if is_float(s)} <= {jnp.dtype(jnp.float32)}


def test_a_subclass_may_reset_its_parameters_as_in_torch():
    class Small(nn.Linear):
        def reset_parameters(self):
            nn.init.constant_(self.weight, 0.25)
            nn.init.zeros_(self.bias)

    params, _ = Small(3, 2).init(KEY)
    assert np.array_equal(params["weight"], np.full((2, 3), 0.25)) and not params["bias"].any()


# -------------------------------------------------------------------------------------------------- dropout, with masks

DROPPED = [
    ("Dropout", (6, 40), (6, 40)),
    ("Dropout1d", (6, 20, 4), (6, 20, 1)),
    ("Dropout2d", (6, 20, 2, 2), (6, 20, 1, 1)),
    ("Dropout3d", (6, 20, 2, 2, 1), (6, 20, 1, 1, 1)),
    ("AlphaDropout", (6, 40), (6, 40)),
    ("FeatureAlphaDropout", (6, 20, 4), (6, 20, 1)),
]


@pytest.mark.parametrize(("kind", "shape", "mask_shape"), DROPPED, ids=[kind for kind, *_ in DROPPED])
def test_dropout_with_torchs_mask_is_torchs(kind, shape, mask_shape, monkeypatch):
    """torch's own draw, read off its output, in place of ours."""
    random = np.random.default_rng(0)
    x, cotangent = (random.normal(size=shape).astype(np.float32) for _ in range(2))
    torch.manual_seed(0)
    leaf = torch.tensor(x, requires_grad=True)
    expected = getattr(torch.nn, kind)(0.3)(leaf)
    (gradient,) = torch.autograd.grad(expected, leaf, torch.tensor(cotangent))
    kept = gradient.numpy() != 0
    mask = kept[tuple(slice(None, n) for n in mask_shape)]
    assert np.array_equal(np.broadcast_to(mask, shape), kept) and 0 < mask.mean() < 1
    asked = []

    def draw(key, shape, rate):
        asked.append((tuple(shape), rate))
        return jnp.asarray(mask).reshape(shape)

    monkeypatch.setattr(funcnet.random, "dropout_mask", draw)
    net = getattr(nn, kind)(0.3)
    out, pull = jax.vjp(lambda x: net.apply({}, {}, x, training=True, rng=KEY)[0], x)
    assert len(asked) == 1 and np.prod(asked[0][0]) == mask.size and asked[0][1] == 0.3
    near(out, expected.detach().numpy(), 3e-7, "output")
    near(pull(cotangent)[0], gradient.numpy(), 3e-7, "gradient")


class Twice(nn.Module):
    """One layer, called two times."""

    def __init__(self, drop):
        super().__init__()
        self.drop = drop

    def forward(self, x):
        return self.drop(x), self.drop(x)


@pytest.mark.parametrize(("kind", "shape", "mask_shape"), DROPPED, ids=[kind for kind, *_ in DROPPED])
def test_dropout_drops_its_share_and_draws_anew(kind, shape, mask_shape):
    net = Twice(getattr(nn, kind)(0.3))
    ones = jnp.ones((60, *shape[1:]))
    run = jax.jit(lambda rng: net.apply({"drop": {}}, {"drop": {}}, ones, training=True, rng=rng)[0])
    out, again = run(KEY)
    assert not np.array_equal(out, again)
    share = np.mean(np.asarray(out) == np.asarray(out).min())
    cells = 60 * np.prod(mask_shape[1:])
    assert abs(share - 0.3) < 6 * np.sqrt(0.21 / cells)
    assert np.array_equal(out, run(KEY)[0]) and not np.array_equal(out, run(jax.random.key(1))[0])


def test_dropout_needs_a_key_only_where_something_is_random():
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    params, state = net.init(KEY)
    x = jnp.ones((3, 2))
    net.apply(params, state, x)
    with pytest.raises(ValueError, match=r"1 \(Dropout\): needs randomness"):
        net.apply(params, state, x, training=True)
    for p in (0.0, 1.0):
        nn.Dropout(p).apply({}, {}, x, training=True)


# ----------------------------------------------------------------------------------------------------------- refusals

REFUSALS = [
    (lambda: nn.Dropout(1.5), ValueError, "dropout probability has to be between 0 and 1, got 1.5"),
    (lambda: nn.AlphaDropout(-0.1), ValueError, "AlphaDropout: dropout probability has to be between 0 and 1"),
    (lambda: nn.Embedding(3, 2, padding_idx=3), ValueError, "padding_idx must be within num_embeddings"),
    (lambda: nn.Embedding(3, 2, _weight=jnp.ones((2, 3))), ValueError, "shape of weight does not match"),
    (lambda: nn.Embedding.from_pretrained(jnp.ones(3)), ValueError, "expected a table of 2 dimensions"),
    (lambda: nn.Bilinear(0, 2, 3), ValueError, "in1_features must be > 0, got 0"),
    (lambda: nn.GroupNorm(4, 6), ValueError, "num_channels must be divisible by num_groups; got 6 channels in 4"),
    (lambda: nn.Conv1d(4, 4, 3, groups=0), ValueError, "groups must be a positive integer, got 0"),
    (lambda: nn.Conv1d(4, 4, 3, groups=3), ValueError, "in_channels must be divisible by groups; got 4 channels"),
    (lambda: nn.Conv2d(4, 5, 3, groups=4), ValueError, "out_channels must be divisible by groups; got 5 channels"),
    (lambda: nn.Conv2d(3, 4, 3, padding="full"), ValueError, "expected padding 'same', 'valid' or numbers"),
    (lambda: nn.Conv2d(3, 4, 3, stride=2, padding="same"), ValueError, "not supported for strided convolutions"),
    (lambda: nn.Conv3d(3, 4, 3, padding_mode="wrap"), ValueError, "padding_mode must be one of .* got 'wrap'"),
    (lambda: nn.MaxPool2d(2, return_indices=True), ValueError, "MaxPool2d: indices are not given"),
    (lambda: nn.Flatten(2).apply({}, {}, jnp.ones((2, 3))), ValueError, "expected -2 to 1, got 2"),
    (lambda: nn.Flatten(1, 0).apply({}, {}, jnp.ones((2, 3))), ValueError, "start_dim cannot come after end_dim"),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSALS, ids=[text for *_, text in REFUSALS])
def test_refusals_say_why(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_scalars_flatten_to_one_element_as_in_torch():
    assert nn.Flatten(0).apply({}, {}, jnp.float32(3))[0].shape == tuple(torch.nn.Flatten(0)(torch.tensor(3.0)).shape)


# ---------------------------------------------------------------------------------------------------------- embeddings


def test_embedding_padding_row_starts_at_zero_and_is_read_as_it_stands():
    layer = nn.Embedding(5, 3, padding_idx=-1)
    params, state = layer.init(KEY)
    assert not params["weight"][4].any() and params["weight"][:4].all()
    filled = {"weight": params["weight"].at[4].set(2)}
    assert layer.apply(filled, state, jnp.array([4]))[0].tolist() == [[2, 2, 2]]


def test_embedding_with_max_norm_reads_what_torch_reads():
    torch.manual_seed(0)
    theirs = torch.nn.Embedding(6, 4, max_norm=1.0)
    layer = nn.Embedding(6, 4, max_norm=1.0)
    assert repr(layer) == repr(theirs)
    params, state = layer.load_state_dict(theirs.state_dict())
    ids = np.array([[0, 3], [3, 5]])
    near(layer.apply(params, state, ids)[0], theirs(torch.tensor(ids)).detach().numpy(), 3e-7, "rows")


def test_embedding_from_pretrained_is_frozen_unless_told():
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    frozen, free = nn.Embedding.from_pretrained(table), nn.Embedding.from_pretrained(table, freeze=False)
    for layer, moves in ((frozen, False), (free, True)):
        params, state = layer.init(KEY)
        assert np.array_equal(params["weight"], table)
        gradient = jax.grad(lambda p, layer=layer, state=state: layer.apply(p, state, jnp.array([1]))[0].sum())(params)
        assert bool(gradient["weight"].any()) is moves
