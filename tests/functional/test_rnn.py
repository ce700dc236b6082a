"""Recurrent functions against torch's: values, gradients, sequences that end early, derivatives in both modes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jax.test_util import check_grads
from torch.nn.utils import rnn as torch_rnn

from funcnet import functional as F
from funcnet.functional.recurrence import recur

from .oracle import agrees, close, normal

IN, H, P = 3, 4, 2
GATES = {"rnn_tanh": 1, "rnn_relu": 1, "gru": 3, "lstm": 4}
slow = pytest.mark.slow
CELLS = ["rnn_tanh_cell", "rnn_relu_cell", "gru_cell", "lstm_cell"]


def arrays(name, layers=1, directions=1, biases=True, projected=False, batch=2):
    """(hx, params) as numpy arrays, hx always a list."""
    gates, out = GATES[name] * H, P if projected else H
    hx = [normal(layers * directions, batch, size, seed=7) for size in ((out, H) if name == "lstm" else (H,))]
    params = []
    for number in range(layers * directions):
        width = IN if number < directions else directions * out
        shapes = [(gates, width), (gates, out), *[(gates,)] * (2 * biases), *[(P, H)] * projected]
        params += [normal(*shape, seed=number) * 0.5 for shape in shapes]
    return hx, params


def both(name, count, *settings):
    """(ours, torch's) as functions of the input, `count` states and the params; all outputs in one vector."""

    def run(function, concatenate, x, *rest):
        hx, params = list(rest[:count]), list(rest[count:])
        outputs = function(x, hx if name.startswith("lstm") else hx[0], params, *settings)
        return concatenate([o.reshape(-1) for o in outputs])

    ours = functools.partial(run, getattr(F, name), jnp.concatenate)
    return ours, functools.partial(run, getattr(torch, name), torch.cat)


@pytest.mark.parametrize("batch_first", [False, pytest.param(True, marks=slow)])
@pytest.mark.parametrize("name", GATES)
def test_layers(name, batch_first):
    hx, params = arrays(name, layers=2, directions=2)
    x = normal(*((2, 5, IN) if batch_first else (5, 2, IN)))
    dtypes = (np.float64, np.float32) if batch_first else (np.float64,)
    agrees(*both(name, len(hx), True, 2, 0.0, False, True, batch_first), x, *hx, *params, dtypes=dtypes)


@slow
@pytest.mark.parametrize("biases", [False, True])
def test_an_lstm_that_projects(biases):
    hx, params = arrays("lstm", layers=2, directions=1, biases=biases, projected=True)
    agrees(*both("lstm", 2, biases, 2, 0.0, False, False, False), normal(4, 2, IN), *hx, *params)


@slow
@pytest.mark.parametrize("name", CELLS)
def test_cells(name):
    gates = GATES[name.removesuffix("_cell")] * H
    hx = [normal(2, H, seed=s) for s in range(2 if name == "lstm_cell" else 1)]
    weights = [normal(*shape) for shape in ((gates, IN), (gates, H), (gates,), (gates,))]

    def run(function, join, x, *rest):
        hx, weights = rest[: -len(weights_given)], rest[-len(weights_given) :]
        out = function(x, list(hx) if name == "lstm_cell" else hx[0], *weights)
        return join(out) if name == "lstm_cell" else out

    for weights_given in (weights, weights[:2]):
        ours = functools.partial(run, getattr(F, name), jnp.concatenate)
        agrees(ours, functools.partial(run, getattr(torch, name), torch.cat), normal(2, IN), *hx, *weights_given)


# ---------------------------------------------------------------------------------------- sequences that end early


@functools.cache
def compiled(name, bidirectional):
    """Ours with traced lengths: one program for all lengths of a shape."""

    def run(x, hx, params, lengths):
        def loss(x, hx, params):
            states = hx if name == "lstm" else hx[0]
            outputs = getattr(F, name)(x, states, params, True, 1, 0.0, False, bidirectional, False, lengths=lengths)
            cotangents = [jnp.cos(jnp.arange(o.size, dtype=o.dtype)).reshape(o.shape) for o in outputs]
            return sum(jnp.vdot(o, c) for o, c in zip(outputs, cotangents, strict=True)), outputs

        (_, outputs), gradients = jax.value_and_grad(loss, (0, 1, 2), has_aux=True)(x, hx, params)
        return outputs, gradients

    return jax.jit(run)


def torch_packed(name, bidirectional, x, hx, params, lengths):
    """The same of torch, which packs."""
    x, *rest = (torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x, *hx, *params))
    hx, params = rest[: len(hx)], rest[len(hx) :]
    packed = torch_rnn.pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False)
    states = [h[:, packed.sorted_indices] for h in hx]
    states = states if name == "lstm" else states[0]
    outputs = getattr(torch, name)(packed.data, packed.batch_sizes, states, params, True, 1, 0.0, False, bidirectional)
    data, *last = outputs
    padded, _ = torch_rnn.pad_packed_sequence(packed._replace(data=data), total_length=x.shape[0])
    outputs = [padded, *(h[:, packed.unsorted_indices] for h in last)]
    cotangents = [torch.cos(torch.arange(o.numel(), dtype=torch.float64)).reshape(o.shape) for o in outputs]
    gradients = torch.autograd.grad(outputs, [x, *hx, *params], cotangents)
    return [o.detach().numpy() for o in outputs], [g.numpy() for g in gradients]


@slow
@given(
    name=st.sampled_from(sorted(GATES)),
    bidirectional=st.booleans(),
    batch=st.sampled_from([1, 3]),
    steps=st.sampled_from([1, 4]),
    data=st.data(),
)
def test_hypothesis_lengths_are_torchs_packing(name, bidirectional, batch, steps, data):
    lengths = data.draw(st.lists(st.integers(1, steps), min_size=batch, max_size=batch))
    against_torch(name, bidirectional, steps, lengths)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_lengths_are_torchs_packing(name):
    against_torch(name, True, 4, [2, 4, 1])


def against_torch(name, bidirectional, steps, lengths):
    hx, params = arrays(name, directions=2 if bidirectional else 1, batch=len(lengths))
    x = normal(steps, len(lengths), IN)
    with jax.enable_x64(True):
        outputs, (d_x, d_hx, d_params) = compiled(name, bidirectional)(x, hx, params, np.array(lengths))
    expected, gradients = torch_packed(name, bidirectional, x, hx, params, lengths)
    for got, want in zip(outputs, expected, strict=True):
        close(got, want, 1e-12, "output")
    for got, want in zip([d_x, *d_hx, *d_params], gradients, strict=True):
        close(got, want, 1e-11, "gradient")


def test_lengths_do_not_recompile_and_what_lies_behind_does_not_matter():
    hx, params = arrays("gru", directions=2)
    x = normal(5, 2, IN)
    traces = 0

    @jax.jit
    def run(x, lengths):
        nonlocal traces
        traces += 1
        loss = lambda x, params: F.gru(x, hx[0], params, True, 1, 0.0, False, True, False, lengths=lengths)[0].sum()
        return jax.grad(loss, (0, 1))(x, params)

    with jax.enable_x64(True):
        clean = run(x, jnp.array([3, 5]))
        x[3:, 0] = np.nan
        for a, b in zip(jax.tree.leaves(run(x, jnp.array([3, 5]))), jax.tree.leaves(clean), strict=True):
            assert np.array_equal(a, b)
        run(x, jnp.array([1, 4]))
    assert traces == 1
    assert not np.asarray(clean[0][3:, 0]).any() and np.asarray(clean[0][:3, 0]).all()


def test_a_length_of_zero_gives_back_the_start():
    hx, params = jax.tree.map(jnp.float32, arrays("lstm", directions=2))
    x = jnp.float32(normal(3, 2, IN))
    output, h, c = F.lstm(x, hx, params, True, 1, 0.0, False, True, False, lengths=[0, 3])
    assert not output[:, 0].any() and output[:, 1].all()
    assert np.array_equal(h[:, 0], hx[0][:, 0]) and np.array_equal(c[:, 0], hx[1][:, 0])


# ----------------------------------------------------------------------------------------------------- derivatives

CORES = [("RNN_TANH", 1, None), ("RNN_RELU", 1, None), ("GRU", 3, None), ("GRU", 3, (H,)), ("LSTM", 4, None)]


@slow
@pytest.mark.parametrize(("mode", "gates", "second"), [*CORES, ("LSTM", 4, (P, H))])
def test_derivatives_of_both_modes_and_orders(mode, gates, second):
    size = P if second == (P, H) else H
    with jax.enable_x64(True):
        state = (normal(2, size), normal(2, H, seed=1))[: 2 if mode == "LSTM" else 1]
        weights = (normal(gates * H, size), None if second is None else normal(*second))
        mask = np.array([[1, 1], [1, 0], [1, 0]], bool)[:, :, None]
        run = jax.jit(lambda *args: recur(mode, True, *args, mask))
        check_grads(run, (normal(3, 2, gates * H), state, weights), order=2, modes=["fwd", "rev"])


def test_what_does_not_move_costs_no_product():
    """A frozen matrix adds no product over all the steps to the derivative."""
    hx, params = jax.tree.map(jnp.float32, arrays("lstm"))
    x = jnp.float32(normal(3, 2, IN))

    def products(*moving):
        run = lambda *some: F.lstm(x, hx, _put(params, moving, some), True, 1, 0.0, False, False, False)[0].sum()
        text = jax.jit(jax.grad(run, tuple(range(len(moving))))).lower(*(params[i] for i in moving)).as_text()
        return text.count("dot_general")

    assert products(2) < products(1, 2)


def _put(params, places, values):
    new = list(params)
    for place, value in zip(places, values, strict=True):
        new[place] = value
    return new


def test_slopes_where_tanh_is_one():
    """1 - tanh² would be a rounding error there."""
    x, zero = jnp.full((1, 1, 1), 9.0), jnp.zeros((1, 1, 1))
    one, none = jnp.ones((1, 1)), jnp.zeros((1, 1))
    gradient = jax.grad(lambda x: F.rnn_tanh(x, zero, [one, none], False, 1, 0.0, False, False, False)[0].sum())(x)
    assert np.isclose(gradient, 1 / np.cosh(9.0) ** 2, rtol=1e-5)


# -------------------------------------------------------------------------------------------------------- refusals


def call(name="rnn_tanh", x=(3, 2, IN), h=(1, 2, H), params=None, biases=False, layers=1, lengths=None, dtype=None):
    params = [jnp.ones((H, IN)), jnp.ones((H, H))] if params is None else params
    hx = jnp.ones(h) if name != "lstm" else h
    return getattr(F, name)(jnp.ones(x, dtype), hx, params, biases, layers, 0.0, False, False, False, lengths=lengths)


def cell(x=(2, IN), h=(2, H), w_hh=(H, H), **biases):
    return F.rnn_tanh_cell(jnp.ones(x), jnp.ones(h), jnp.ones((H, IN)), jnp.ones(w_hh), **biases)


REFUSALS = [
    (
        lambda: call(x=(3, IN)),
        ValueError,
        r"F.rnn_tanh: input has the wrong rank; expected \(time, batch, input_size\).*got \(3, 3\)",
    ),
    (lambda: call(x=(0, 2, IN)), ValueError, r"F.rnn_tanh: the sequence is empty; expected at least 1 step"),
    (lambda: call(x=(3, 2, 5)), ValueError, r"input does not match w_ih; expected input_size 3 in the last dimension"),
    (lambda: call(h=(1, 3, H)), ValueError, r"h_0 has the wrong shape; expected \(1, 2, 4\), got \(1, 3, 4\)"),
    (lambda: call(h=(2, 2, H)), ValueError, r"h_0 has the wrong shape; expected \(1, 2, 4\), got \(2, 2, 4\)"),
    (
        lambda: call(biases=True),
        ValueError,
        r"params has the wrong length; expected 4 arrays for each of 1 layers.*got 2",
    ),
    (lambda: call(layers=2), ValueError, r"params has the wrong length; expected 2 arrays for each of 2 layers.*got 2"),
    (
        lambda: call(params=[jnp.ones((H, IN)), jnp.ones((H, 3))]),
        ValueError,
        r"params\[1\] has the wrong shape; expected \(4, 4\), got \(4, 3\). The array belongs to layer 0",
    ),
    (lambda: call(dtype="int32"), TypeError, "input must hold floating-point numbers"),
    (lambda: call(dtype="float16"), TypeError, "the dtypes differ"),
    (lambda: call(lengths=jnp.array([1, 2, 3])), ValueError, r"lengths has the wrong shape; expected \(2,\)"),
    (lambda: call(lengths=jnp.array([1, 4])), ValueError, r"lengths are out of range; expected 0 to 3.*got 1 to 4"),
    (lambda: call(lengths=[-1, 3]), ValueError, r"lengths are out of range; expected 0 to 3.*got -1 to 3"),
    (lambda: call(lengths=jnp.array([1.0, 2.0])), TypeError, "lengths must hold integers"),
    (
        lambda: call("lstm", h=jnp.ones((2, 1, 2, H))),
        TypeError,
        r"F.lstm: hx is not a pair; expected \(h, c\), got Arr",
    ),
    (
        lambda: call("lstm", h=[jnp.ones(1)]),
        TypeError,
        r"F.lstm: hx is not a pair; expected \(h, c\), got a sequence of length 1",
    ),
    (
        lambda: cell(x=(2, 5)),
        ValueError,
        r"input does not match w_ih; expected \(batch, input_size = 3\)",
    ),
    (lambda: cell(x=(3, IN)), ValueError, r"hidden0 has the wrong shape; expected \(3, 4\), got \(2, 4\)"),
    (lambda: cell(h=(2, 5)), ValueError, r"hidden0 has the wrong shape; expected \(2, 4\), got \(2, 5\)"),
    (lambda: cell(w_hh=(H, 5)), ValueError, r"w_ih has the wrong shape; expected \(5, 3\), got \(4, 3\)"),
    (lambda: cell(b_ih=jnp.ones(3)), ValueError, r"b_ih has the wrong shape; expected \(4,\), got \(3,\)"),
    (lambda: cell(b_ih=jnp.ones(4, "bfloat16")), TypeError, "F.rnn_tanh_cell: the dtypes differ"),
]


@pytest.mark.parametrize(("refused", "error", "text"), REFUSALS, ids=[text for *_, text in REFUSALS])
def test_refusals_say_why(refused, error, text):
    with pytest.raises(error, match=text):
        refused()
