"""Recurrent modules against torch: all their options, packed and padded; checkpoints, dropout, refusals."""

import functools
import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax.sharding import PartitionSpec
from torch.nn.utils import rnn as torch_rnn

import funcnet.random
from funcnet import nn, tree, weights
from funcnet.nn.utils import rnn
from tests.layers.near import near

KEY = jax.random.key(0)
BATCH, STEPS, IN, H, P = 3, 4, 3, 4, 2
LENGTHS = [2, 4, 1]
KINDS = {
    "RNN": ("RNN", {}),
    "RNN relu": ("RNN", {"nonlinearity": "relu"}),
    "GRU": ("GRU", {}),
    "LSTM": ("LSTM", {}),
    "LSTM proj": ("LSTM", {"proj_size": P}),
}
FORMS = ["padded", "packed", "lengths"]
BOOLS = [False, True]
EVERY = list(itertools.product(KINDS, FORMS, [1, 2], BOOLS, BOOLS, BOOLS, BOOLS))
# Each kind once; each value of each other option once or more.
SOME = [
    ("RNN", "lengths", 2, False, True, True, True),
    ("RNN relu", "packed", 1, True, False, False, True),
    ("GRU", "padded", 2, True, True, True, False),
    ("LSTM", "packed", 2, True, True, True, True),
    ("LSTM proj", "lengths", 1, True, False, False, True),
]
FLOAT32 = (3e-6, "a few steps over sums of a few products, each rounded to float32")
FLOAT64 = (1e-12, "the same in float64")


@pytest.mark.slow
@pytest.mark.parametrize("options", EVERY, ids=str)
def test_every_combination_of_options(options):
    compare(*options, dtype=np.float64)
    _, _, _, _, bias, batch_first, with_hx = options
    if bias and with_hx and not batch_first:  # what these change is no rounding
        compare(*options, dtype=np.float32)


@pytest.mark.parametrize("options", SOME, ids=str)
def test_options(options):
    compare(*options, dtype=np.float64)


def build(kind, layers, bidirectional, bias, batch_first):
    name, more = KINDS[kind]
    kwargs = {"bidirectional": bidirectional, "bias": bias, "batch_first": batch_first, **more}
    torch.manual_seed(0)
    return getattr(nn, name)(IN, H, layers, **kwargs), getattr(torch.nn, name)(IN, H, layers, **kwargs)


def compare(kind, form, layers, bidirectional, bias, batch_first, with_hx, *, dtype):
    """Outputs, last states, gradients of all parameters, of the input and of hx, under `jit`."""
    ours, theirs = build(kind, layers, bidirectional, bias, batch_first)
    random = np.random.default_rng(0)
    draw = lambda *shape: random.normal(size=shape).astype(np.float32)
    x = draw(*((BATCH, STEPS) if batch_first else (STEPS, BATCH)), IN)
    count = layers * (2 if bidirectional else 1)
    hx = [draw(count, BATCH, size) for size in ([P if "proj" in kind else H] + [H] * ("LSTM" in kind))]
    hx = hx if with_hx else []
    cotangents = itertools.repeat(draw(500))

    def joined(outputs, dot):
        return sum(dot(o.reshape(-1), c[: np.prod(o.shape)]) for o, c in zip(outputs, cotangents, strict=False))

    with jax.enable_x64(dtype == np.float64):
        params, state = ours.load_state_dict(theirs.state_dict())
        arrays = tree.cast((params, jnp.asarray(x), [jnp.asarray(h) for h in hx]), dtype)

        @jax.jit
        def run(arrays, lengths):
            def loss(arrays):
                params, x, hx = arrays
                given = {"lengths": lengths} if form == "lengths" else {}
                if form == "packed":
                    x = rnn.pack_padded_sequence(x, LENGTHS, batch_first, enforce_sorted=False)
                states = () if not hx else (tuple(hx) if len(hx) == 2 else hx[0],)
                out, last = ours.apply(params, state, x, *states, **given)[0]
                outputs = [out.data if form == "packed" else out, *jax.tree.leaves(last)]
                return joined(outputs, lambda o, c: jnp.vdot(o, c.astype(o.dtype))), outputs

            return jax.value_and_grad(loss, has_aux=True)(arrays)

        (_, outputs), (d_params, d_x, d_hx) = run(arrays, jnp.array(LENGTHS))

    theirs = theirs.double()
    t_x = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    t_hx = [torch.tensor(h, dtype=torch.float64, requires_grad=True) for h in hx]
    states = () if not hx else (tuple(t_hx) if len(hx) == 2 else t_hx[0],)
    given = t_x
    if form != "padded":
        given = torch_rnn.pack_padded_sequence(t_x, LENGTHS, batch_first, enforce_sorted=False)
    out, last = theirs(given, *states)
    if form == "lengths":
        out = torch_rnn.pad_packed_sequence(out, batch_first, total_length=STEPS)[0]
    expected = [out.data if form == "packed" else out, *_tuple(last)]
    joined(expected, lambda o, c: o @ torch.tensor(c, dtype=torch.float64)).backward()
    tolerance = (FLOAT64 if dtype == np.float64 else FLOAT32)[0]
    for number, (got, want) in enumerate(zip(outputs, expected, strict=True)):
        assert got.dtype == dtype
        near(got, want.detach().numpy(), tolerance, f"output {number}")
    d_params = tree.flatten(d_params)
    for name, parameter in theirs.named_parameters():
        near(d_params[name], parameter.grad.numpy(), tolerance, f"gradient of {name}")
    for got, want in zip([d_x, *d_hx], [t_x, *t_hx], strict=True):
        near(got, want.grad.numpy(), tolerance, "gradient of an input")


def _tuple(last):
    return last if isinstance(last, tuple) else (last,)


# ------------------------------------------------------------------------------------------ the ways a batch may come


def test_without_a_batch_and_under_vmap_with_lengths():
    """A single sequence is a batch of one, its length a number; `vmap` makes a batch of them."""
    layer = nn.LSTM(IN, H, bidirectional=True, batch_first=True)
    params, state = layer.init(KEY)
    x = jax.random.normal(KEY, (BATCH, STEPS, IN))
    run = jax.jit(lambda x, lengths: layer.apply(params, state, x, lengths=lengths)[0])
    together, (h, c) = run(x, jnp.array(LENGTHS))
    each, (each_h, each_c) = jax.jit(jax.vmap(run))(x, jnp.array(LENGTHS))
    near(each, together, 1e-6, "output")
    near(each_h, h.swapaxes(0, 1), 1e-6, "h_n")
    near(each_c, c.swapaxes(0, 1), 1e-6, "c_n")


def test_packed_batches_pass_through_jit_and_grad():
    """Made outside, a packed batch's data is traced and its layout is not; another layout is another program."""
    layer = nn.GRU(IN, H)
    params, state = layer.init(KEY)
    traces = 0

    @jax.jit
    def run(packed):
        nonlocal traces
        traces += 1
        out, h = layer.apply(params, state, packed)[0]
        return out, h, rnn.unpack_sequence(out)

    sequences = [np.random.default_rng(n).normal(size=(n, IN)).astype(np.float32) for n in LENGTHS]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    out, h, unpacked = run(packed)
    run(packed._replace(data=packed.data * 2))
    assert traces == 1 and isinstance(out, rnn.PackedSequence)
    assert [a.tolist() for a in out[1:]] == [a.tolist() for a in packed[1:]]
    padded = rnn.pad_sequence(sequences)
    each = jax.jit(lambda x: layer.apply(params, state, x, lengths=LENGTHS)[0][0])(padded)
    for i, (got, last) in enumerate(zip(unpacked, h[0], strict=True)):
        near(got, each[: LENGTHS[i], i], 1e-6, "packed or padded")
        near(last, got[-1], 0, "h_n")
    gradient = jax.eval_shape(jax.grad(lambda p: run(p)[0].data.sum()), packed)
    assert isinstance(gradient, rnn.PackedSequence) and gradient.data.shape == packed.data.shape
    assert traces == 1
    jax.eval_shape(run, rnn.pack_sequence(sequences[:2], enforce_sorted=False))
    assert traces == 2


@pytest.mark.slow
def test_lengths_under_shard_map():
    layer = nn.LSTM(IN, H, 2, bidirectional=True)
    params, state = layer.init(KEY)
    x, lengths = jax.random.normal(KEY, (STEPS, 4, IN)), jnp.array([1, 4, 2, 3])
    mesh = jax.make_mesh((2,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:2])
    spread, whole = PartitionSpec(None, "batch"), PartitionSpec()
    run = lambda params, x, lengths: layer.apply(params, state, x, lengths=lengths)[0]
    specs = {"in_specs": (whole, spread, PartitionSpec("batch")), "out_specs": (spread, (spread, spread))}
    sharded = jax.shard_map(run, mesh=mesh, **specs)
    loss = lambda run: lambda params: sum(o.sum() for o in jax.tree.leaves(run(params, x, lengths)))
    got, want = (jax.jit(jax.value_and_grad(loss(f)))(params) for f in (sharded, run))
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        near(a, b, 1e-5, "sharded or whole")


def test_a_cell_in_the_users_own_scan_is_the_layer():
    layer, cell = nn.LSTM(IN, H), nn.LSTMCell(IN, H)
    params, state = layer.init(KEY)
    for_cell = {name.removesuffix("_l0"): p for name, p in params.items()}

    class Over(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = cell

        def forward(self, x):
            def step(hx, x):
                hx = self.cell(x, hx)
                return hx, hx[0]

            zeros = jnp.zeros((x.shape[1], H))
            return jax.lax.scan(step, (zeros, zeros), x)[1]

    x = jax.random.normal(KEY, (STEPS, 2, IN))
    out, _ = Over().apply({"cell": for_cell}, {"cell": {}}, x)
    near(out, layer.apply(params, state, x)[0][0], 1e-6, "output")


# -------------------------------------------------------------------------------------------- checkpoints, descriptions


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_a_checkpoint_of_torch_goes_in_and_out_byte_for_byte(suffix, tmp_path):
    torch.manual_seed(0)
    theirs = torch.nn.LSTM(5, 6, 2, bidirectional=True)
    torch.save(theirs.state_dict(), tmp_path / "theirs.pt")
    layer = nn.LSTM(5, 6, 2, bidirectional=True)
    params, state = layer.load_state_dict(weights.load(tmp_path / "theirs.pt"))
    ours = layer.state_dict(params, state)
    assert list(ours) == list(theirs.state_dict())
    weights.save(tmp_path / f"ours.{suffix}", ours)
    back = weights.load(tmp_path / f"ours.{suffix}")
    if suffix == "pt":
        back = torch.load(tmp_path / "ours.pt", weights_only=True)
    for name, tensor in theirs.state_dict().items():
        assert np.asarray(back[name]).tobytes() == tensor.numpy().tobytes(), name
    theirs.load_state_dict({name: torch.tensor(np.asarray(a)) for name, a in back.items()})


@pytest.mark.parametrize("kind", ["LSTM", "GRUCell"])
def test_init_is_torchs(kind):
    """U(±1/√hidden_size), all of them; the same names, shapes and order."""
    more = {"num_layers": 2, "bidirectional": True} if "Cell" not in kind else {}
    layer, theirs = getattr(nn, kind)(40, 100, **more), getattr(torch.nn, kind)(40, 100, **more)
    sd = layer.state_dict(*layer.init(KEY))
    assert [(n, a.shape) for n, a in sd.items()] == [(n, tuple(t.shape)) for n, t in theirs.state_dict().items()]
    for name, array in sd.items():
        assert 0.1 * 0.9 < abs(array).max() <= 0.1, name
        assert abs(array.std() * np.sqrt(3) / 0.1 - 1) < 6 / np.sqrt(array.size), name


REPRS = [
    ("LSTM", (2, 3), {}),
    ("LSTM", (2, 3, 2, False, True, 0.25, True, 1), {}),
    ("GRU", (2, 3), {"num_layers": 2, "bias": False}),
    ("RNN", (2, 3, 2, "relu"), {"batch_first": True}),
    ("RNNCell", (2, 3, False, "relu"), {}),
    ("RNNBase", ("LSTM", 2, 3), {"bidirectional": True}),
]


@pytest.mark.parametrize(("kind", "args", "kwargs"), REPRS, ids=str)
def test_repr_and_names_are_torchs(kind, args, kwargs):
    layer, theirs = getattr(nn, kind)(*args, **kwargs), getattr(torch.nn, kind)(*args, **kwargs)
    assert repr(layer) == repr(theirs)
    if "Cell" not in kind:
        shapes = [[tuple(w.shape) for w in group] for group in theirs.all_weights]
        assert [[tuple(w.shape) for w in group] for group in layer.all_weights] == shapes
        assert layer.flatten_parameters() is None


# ------------------------------------------------------------------------------------------------------------ dropout


@pytest.mark.parametrize("kind", ["LSTM", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("GRU", "RNN"))])
def test_dropout_with_a_known_mask_is_torchs_layers_with_it(kind, monkeypatch):
    mask = np.random.default_rng(0).random((STEPS, BATCH, 2 * H)) < 0.6
    asked = []

    def draw(key, shape, rate):
        asked.append((tuple(shape), rate))
        return jnp.asarray(mask)

    monkeypatch.setattr(funcnet.random, "dropout_mask", draw)
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(IN, H, 2, bidirectional=True)
    below, above = (getattr(torch.nn, kind)(n, H, bidirectional=True) for n in (IN, 2 * H))
    for layer, number in ((below, 0), (above, 1)):
        own = {n.replace("l0", f"l{number}"): n for n in layer.state_dict()}
        layer.load_state_dict({n: theirs.state_dict()[full] for full, n in own.items()})
    x = np.random.default_rng(1).normal(size=(STEPS, BATCH, IN)).astype(np.float32)
    between = below(torch.tensor(x))[0] * torch.tensor(mask) / 0.6
    layer = getattr(nn, kind)(IN, H, 2, bidirectional=True, dropout=0.4)
    params, state = layer.load_state_dict(theirs.state_dict())
    (out, _), _ = layer.apply(params, state, x, training=True, rng=KEY)
    near(out, above(between)[0].detach().numpy(), 1e-6, "output")
    assert asked == [(mask.shape, 0.4)]
    layer.apply(params, state, x)
    assert len(asked) == 1


def passing(dropout, layers=3):
    """A stack that passes positive inputs on unchanged, but for dropout."""
    layer = nn.RNN(40, 40, layers, "relu", bias=False, dropout=dropout)
    eye = {"ih": jnp.eye(40), "hh": jnp.zeros((40, 40))}
    params = {name: eye[name[7:9]] for name, _ in layer.named_parameters()}
    return functools.partial(layer.apply, params, {}, jnp.ones((10, 5, 40)))


def test_dropout_acts_between_layers_anew_in_each_and_not_behind_the_last():
    run = passing(0.5)
    (out, _), _ = jax.jit(lambda key: run(training=True, rng=key))(KEY)
    assert set(np.unique(out)) == {0, 4}  # two independent masks, each kept entry doubled twice
    assert abs(np.mean(np.asarray(out) == 0) - 0.75) < 6 * np.sqrt(0.75 * 0.25 / out.size)
    assert np.array_equal(jax.jit(run)()[0][0], np.ones((10, 5, 40)))
    assert not passing(1.0, layers=2)(training=True)[0][0].any()
    with pytest.raises(ValueError, match=r"RNN\): the module needs randomness"):
        run(training=True)


def test_dropout_of_a_single_layer_warns_and_does_nothing():
    with pytest.warns(UserWarning, match="LSTM: dropout applies only between layers.*got dropout=0.5") as caught:
        layer = nn.LSTM(IN, H, dropout=0.5)
    assert caught[0].filename == __file__
    params, state = layer.init(KEY)
    x = jnp.ones((2, 1, IN))
    assert np.array_equal(layer.apply(params, state, x, training=True)[0][0], layer.apply(params, state, x)[0][0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.LSTM(IN, H, 2, dropout=0.5)


# ----------------------------------------------------------------------------------------------------------- refusals


def call(layer, *inputs, **kwargs):
    return layer.apply(*layer.init(KEY), *inputs, **kwargs)


def packed(width=IN):
    return rnn.pack_sequence([np.ones((2, width), np.float32), np.ones((1, width), np.float32)])


ZEROS = jnp.zeros
REFUSALS = [
    (lambda: nn.LSTM(2.0, 3), TypeError, "LSTM: input_size has the wrong type; expected int, got float"),
    (lambda: nn.LSTM(2, "3"), TypeError, "LSTM: hidden_size has the wrong type; expected int, got str"),
    (lambda: nn.LSTM(0, 3), ValueError, "LSTM: input_size is too small; expected greater than zero, got 0"),
    (lambda: nn.GRU(2, -1), ValueError, "GRU: hidden_size is too small; expected greater than zero, got -1"),
    (lambda: nn.RNN(2, 3, 0), ValueError, "RNN: num_layers is too small; expected greater than zero, got 0"),
    (lambda: nn.LSTM(2, 3, bias=1), TypeError, "LSTM: bias has the wrong type; expected bool, got int"),
    (lambda: nn.LSTM(2, 3, batch_first="no"), TypeError, "LSTM: batch_first has the wrong type; expected bool"),
    (lambda: nn.LSTM(2, 3, 2, dropout=1.5), ValueError, "LSTM: dropout is not a probability; .* got 1.5"),
    (lambda: nn.LSTM(2, 3, 2, dropout=True), ValueError, "LSTM: dropout is not a probability; .* got True"),
    (lambda: nn.LSTM(2, 3, proj_size=3), ValueError, "LSTM: proj_size is too large; expected less than hidden_size=3"),
    (
        lambda: nn.LSTM(2, 3, proj_size=-1),
        ValueError,
        r"LSTM: proj_size is too small; expected at least 0 \(0 means no projection\)",
    ),
    (lambda: nn.GRU(2, 3, proj_size=1), ValueError, "GRU: only LSTM supports proj_size; expected None, got 1"),
    (lambda: nn.RNN(2, 3, proj_size=0), ValueError, "RNN: only LSTM supports proj_size; expected None, got 0"),
    (lambda: nn.RNN(2, 3, nonlinearity="gelu"), ValueError, "RNN: nonlinearity is unknown; .* got 'gelu'"),
    (lambda: nn.RNNBase("ELMAN", 2, 3), ValueError, "RNNBase: mode is unknown; .* got 'ELMAN'"),
    (
        lambda: call(nn.LSTM(IN, H), ZEROS(IN)),
        ValueError,
        "LSTM: input has the wrong rank; expected 3 dimensions, or 2",
    ),
    (lambda: call(nn.LSTM(IN, H), ZEROS((2, 1, 5))), ValueError, "input does not match w_ih; expected input_size 3"),
    (lambda: call(nn.GRU(IN, H), ZEROS((2, IN)), ZEROS((1, 1, H))), ValueError, "GRU: h_0 and input differ in rank"),
    (
        lambda: call(nn.LSTM(IN, H), ZEROS((2, 1, IN)), (ZEROS((1, 1, H)), ZEROS((1, H)))),
        ValueError,
        r"LSTM: c_0 and input differ in rank; expected 3 dimensions, got shape \(1, 4\)",
    ),
    (lambda: call(nn.LSTM(IN, H), ZEROS((2, 1, IN)), ZEROS((1, 1, H))), TypeError, r"LSTM: hx is not a pair"),
    (lambda: call(nn.GRU(IN, H), ZEROS((2, 1, IN)), ZEROS((1, 2, H))), ValueError, "h_0 has the wrong shape"),
    (lambda: call(nn.GRU(IN, H), packed(), ZEROS((1, 1, H))), ValueError, "h_0 has the wrong shape"),
    (lambda: call(nn.GRU(IN, H), packed(5)), ValueError, "input does not match w_ih; expected input_size 3"),
    (lambda: call(nn.GRU(IN, H), packed(), lengths=[2, 1]), ValueError, "GRU: a packed batch already has lengths"),
    (
        lambda: call(nn.GRU(IN, H), rnn.pack_sequence([np.ones((2, 1, IN), np.float32)])),
        ValueError,
        r"GRU: the packed data has the wrong rank; expected \(steps, input_size\), got \(2, 1, 3\)",
    ),
    (lambda: call(nn.GRU(IN, H), ZEROS((2, 1, IN), int)), TypeError, "GRU: input must hold floating-point numbers"),
    (lambda: call(nn.GRUCell(IN, H), ZEROS((1, 1, IN))), ValueError, "GRUCell: input has the wrong rank"),
    (
        lambda: call(nn.GRUCell(IN, H), ZEROS((1, IN)), ZEROS((1, 1, H))),
        ValueError,
        r"GRUCell: hx\[0\] has the wrong",
    ),
    (
        lambda: call(nn.LSTMCell(IN, H), ZEROS((1, IN)), ZEROS((1, H))),
        TypeError,
        "LSTMCell: hx is not a pair",
    ),
    (lambda: call(nn.RNNCell(IN, H, nonlinearity="x"), ZEROS(IN)), ValueError, "RNNCell: nonlinearity is unknown"),
]


@pytest.mark.parametrize(("refused", "error", "text"), REFUSALS, ids=[text for *_, text in REFUSALS])
def test_refusals_say_why(refused, error, text):
    with pytest.raises(error, match=text):
        refused()


def test_a_layer_without_forward_of_its_own_is_refused_when_called():
    with pytest.raises(NotImplementedError, match="RNNBase: the class does not define forward"):
        call(nn.RNNBase("GRU", IN, H), jnp.ones((2, 1, IN)))


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_cell_of_ones_own_has_torchs_weights(chunks):
    theirs = torch.nn.RNNCellBase(IN, H, True, chunks)
    net = nn.RNNCellBase(IN, H, True, chunks)
    read = net.state_dict(*net.load_state_dict(theirs.state_dict()))
    assert [(name, a.shape) for name, a in read.items()] == [
        (n, tuple(t.shape)) for n, t in theirs.state_dict().items()
    ]
    assert repr(net) == repr(theirs)
