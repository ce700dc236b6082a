"""MultiheadAttention against torch: every mask, every layout, what is added to the keys, and how it starts."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import funcnet.random
from funcnet import nn, tree
from tests.layers.near import near
from tests.nn.test_layer_init import same_distribution

KEY = jax.random.key(0)
BATCH, LENGTH, WIDTH, HEADS = 2, 3, 4, 2
EXACT = 1e-11  # both sides in float64

CHOICES = {
    "inputs": ["self", "memory", "three"],
    "attn_mask": [None, "bool", "float", "bool of heads", "float of heads", "causal"],
    "key_padding_mask": [None, "bool", "float"],
    "is_causal": [False, True],
    "need_weights": [False, True],
    "average_attn_weights": [False, True],
    "batch_first": [False, True],
    "batched": [False, True],
    "add_bias_kv": [False, True],
    "add_zero_attn": [False, True],
    "bias": [False, True],
    "other_widths": [False, True],
}
PLAIN = {name: choices[0] for name, choices in CHOICES.items()} | {"batched": True, "bias": True}
CONSTRUCTOR = ("batch_first", "add_bias_kv", "add_zero_attn", "bias")


def masks_of(random, case, keys):
    """{argument: mask}; one in eight of the rows is hidden throughout."""
    batch, found = BATCH if case["batched"] else 1, {}
    kind = case["attn_mask"] or ""
    if kind:
        shape = (batch * HEADS, LENGTH, keys) if "heads" in kind else (LENGTH, keys)
        hidden = (random.random(shape) < 0.4) | (random.random((*shape[:-1], 1)) < 0.125)
        if kind == "causal":
            hidden = np.triu(np.ones(shape, bool), 1)
        found["attn_mask"] = np.where(hidden, -np.inf, random.normal(size=shape)) if "float" in kind else hidden
    kind = case["key_padding_mask"]
    if kind:
        hidden = random.random((batch, keys)) < 0.3
        padding = np.where(hidden, -np.inf, random.normal(size=hidden.shape)) if kind == "float" else hidden
        found["key_padding_mask"] = padding if case["batched"] else padding[0]
    return found


def build(case, seed=0):
    """(torch's module in float64, ours, arrays to differentiate by, arguments that are not arrays)."""
    random = np.random.default_rng(seed)
    options = {name: case[name] for name in CONSTRUCTOR}
    if case["other_widths"] and case["inputs"] == "three":
        options |= {"kdim": 3, "vdim": 5}
    torch.manual_seed(seed)
    theirs = torch.nn.MultiheadAttention(WIDTH, HEADS, **options)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    theirs = theirs.double()
    keys = LENGTH if case["inputs"] == "self" else 4

    def sequence(length, width):
        x = random.normal(size=(length, BATCH, width) if case["batched"] else (length, width))
        return x.swapaxes(0, 1) if case["batched"] and case["batch_first"] else x

    widths = {
        "query": (LENGTH, WIDTH),
        "key": (keys, options.get("kdim", WIDTH)),
        "value": (keys, options.get("vdim", WIDTH)),
    }
    wanted = {"self": 1, "memory": 2, "three": 3}[case["inputs"]]
    arrays = {name: sequence(*size) for name, size in list(widths.items())[:wanted]}
    fixed = {name: case[name] for name in ("need_weights", "average_attn_weights")}
    if case["attn_mask"]:
        fixed["is_causal"] = case["is_causal"]
    return theirs, nn.MultiheadAttention(WIDTH, HEADS, **options), arrays | masks_of(random, case, keys), fixed


def spread(arrays):
    """What is given once, as often as forward takes it."""
    arrays = dict(arrays)
    arrays.setdefault("key", arrays["query"])
    arrays.setdefault("value", arrays["key"])
    return arrays


def torch_answer(theirs, arrays, fixed):
    tensors = {name: torch.tensor(a, requires_grad=a.dtype != bool) for name, a in arrays.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of masks of two kinds
        outputs = [o for o in theirs(**spread(tensors), **fixed) if o is not None]
    random = np.random.default_rng(9)
    cotangents = [random.normal(size=o.shape) for o in outputs]
    leaves = dict(theirs.named_parameters()) | {name: t for name, t in tensors.items() if t.requires_grad}
    found = torch.autograd.grad(outputs, list(leaves.values()), list(map(torch.tensor, cotangents)), allow_unused=True)
    grads = {n: np.zeros(t.shape) if g is None else g.numpy() for (n, t), g in zip(leaves.items(), found, strict=True)}
    return [o.detach().numpy() for o in outputs], grads, cotangents


def our_answer(theirs, ours, arrays, fixed, cotangents):
    params, state = ours.load_state_dict(theirs.state_dict())
    params = tree.cast(params, "float64")
    moving = {name: jnp.asarray(a) for name, a in arrays.items() if a.dtype != bool}
    masks = {name: jnp.asarray(a) for name, a in arrays.items() if a.dtype == bool}

    def run(params, moving):
        return [o for o in ours.apply(params, state, **spread(moving | masks), **fixed)[0] if o is not None]

    outputs, pull = jax.vjp(run, params, moving)
    param_grads, grads = pull([jnp.asarray(c) for c in cotangents])
    return outputs, tree.flatten(param_grads) | grads


def is_torchs(case, seed=0):
    theirs, ours, arrays, fixed = build(case, seed)
    with jax.enable_x64(True):
        expected, expected_grads, cotangents = torch_answer(theirs, arrays, fixed)
        outputs, grads = our_answer(theirs, ours, arrays, fixed, cotangents)
    assert len(outputs) == len(expected) == 1 + case["need_weights"]
    for i, (got, want) in enumerate(zip(outputs, expected, strict=True)):
        near(got, want, EXACT, f"output {i} of {case}")
    assert set(grads) == set(expected_grads)
    largest = max(np.abs(g[np.isfinite(g)]).max(initial=0) for g in expected_grads.values())
    for name, want in expected_grads.items():
        np.testing.assert_allclose(grads[name], want, rtol=0, atol=EXACT * largest, err_msg=f"{name} of {case}")


SOME = [
    {
        "inputs": "memory",
        "attn_mask": "float",
        "key_padding_mask": "bool",
        "need_weights": True,
        "add_bias_kv": True,
        "add_zero_attn": True,
        "batch_first": True,
    },
    {
        "inputs": "three",
        "other_widths": True,
        "attn_mask": "bool of heads",
        "key_padding_mask": "float",
        "add_zero_attn": True,
    },
    {"inputs": "memory", "attn_mask": "causal", "is_causal": True, "add_bias_kv": True, "bias": False},
    {"batched": False, "need_weights": True, "attn_mask": "float of heads", "key_padding_mask": "float"},
]


@pytest.mark.slow
@pytest.mark.parametrize("changed", [SOME[0], *(pytest.param(c, marks=pytest.mark.slow) for c in SOME[1:])], ids=str)
def test_values_and_gradients(changed):
    is_torchs(PLAIN | changed)


@st.composite
def cases(draw):
    return {name: draw(st.sampled_from(choices)) for name, choices in CHOICES.items()}, draw(st.integers(0, 3))


@pytest.mark.slow
@given(cases())
def test_hypothesis_every_combination_is_torchs(drawn):
    is_torchs(*drawn)


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_query_with_every_key_hidden_is_nan_with_weights_and_attends_to_zero_without(need_weights):
    layer = nn.MultiheadAttention(WIDTH, HEADS)
    params, state = layer.init(KEY)
    params["out_proj"]["bias"] = jnp.arange(4.0)
    x, hidden = jnp.ones((3, 1, 4)), jnp.array([[False] * 3, [True] * 3, [False] * 3])

    @jax.jit
    def run(x):
        attend = lambda x: layer.apply(params, state, x, x, x, attn_mask=hidden, need_weights=need_weights)[0][0]
        out, pull = jax.vjp(attend, x)
        return out, pull(jnp.zeros_like(out).at[0].set(1))[0]

    out, gradient = run(x)
    assert np.isfinite(out[::2]).all()
    assert np.isnan(out[1]).all() if need_weights else out[1, 0].tolist() == [0, 1, 2, 3]
    assert np.isnan(gradient).any() == need_weights


@pytest.mark.slow
def test_an_empty_batch_and_no_keys():
    theirs, ours = torch.nn.MultiheadAttention(4, 2), nn.MultiheadAttention(4, 2)
    params, state = ours.load_state_dict(theirs.state_dict())
    for query, key in (((3, 0, 4), (5, 0, 4)), ((3, 2, 4), (0, 2, 4)), ((0, 2, 4), (5, 2, 4))):
        want, shares = theirs(torch.ones(query), torch.ones(key), torch.ones(key))
        (got, weights), _ = ours.apply(params, state, jnp.ones(query), jnp.ones(key), jnp.ones(key))
        np.testing.assert_allclose(got, want.detach(), atol=1e-6)
        assert weights.shape == tuple(shares.shape)


# ----------------------------------------------------------------------------------------------------------- dropout


@pytest.mark.parametrize("need_weights", [pytest.param(False, marks=pytest.mark.slow), True])
def test_dropout_with_torchs_mask_is_torchs(need_weights, monkeypatch):
    """Whichever way torch goes, one seed drops the same weights, and one way shows them: scaled, not normalised."""
    theirs, ours = torch.nn.MultiheadAttention(4, 2, dropout=0.4), nn.MultiheadAttention(4, 2, dropout=0.4)
    x = np.random.default_rng(0).normal(size=(7, 3, 4)).astype(np.float32)
    leaf = torch.tensor(x, requires_grad=True)
    torch.manual_seed(0)
    kept = theirs(leaf, leaf, leaf, average_attn_weights=False)[1].detach().numpy() != 0
    torch.manual_seed(0)
    want, shares = theirs(leaf, leaf, leaf, need_weights=need_weights)
    cotangent = np.random.default_rng(1).normal(size=x.shape).astype(np.float32)
    (gradient,) = torch.autograd.grad(want, leaf, torch.tensor(cotangent))
    asked = []
    monkeypatch.setattr(
        funcnet.random, "dropout_mask", lambda key, shape, p: asked.append((shape, p)) or jnp.asarray(kept)
    )
    params, state = ours.load_state_dict(theirs.state_dict())

    def run(x):
        return ours.apply(params, state, x, x, x, need_weights=need_weights, training=True, rng=KEY)[0]

    @jax.jit
    def both(x):
        out, pull, weights = jax.vjp(run, x, has_aux=True)
        return out, pull(jnp.asarray(cotangent))[0], weights

    out, pulled, weights = both(x)
    assert asked == [((3, 2, 7, 7), 0.4)] and 0 < kept.mean() < 1
    near(out, want.detach().numpy(), 1e-6, "output")
    near(pulled, gradient.numpy(), 1e-6, "gradient")
    if need_weights:
        near(weights, shares.detach().numpy(), 1e-6, "weights")
        assert not np.allclose(weights.sum(-1), 1)


def test_dropout_needs_a_key_only_where_something_is_random():
    x = jnp.ones((3, 2, 4))
    for p in (0.0, 1.0):
        layer = nn.MultiheadAttention(4, 2, dropout=p)
        params, state = layer.init(KEY)
        (out, _), _ = layer.apply(params, state, x, x, x, training=True)
        assert bool(out.any()) == (p == 0)
    layer = nn.MultiheadAttention(4, 2, dropout=0.5)
    layer.apply(params, state, x, x, x)
    with pytest.raises(ValueError, match=r"the root \(MultiheadAttention\): the module needs randomness"):
        layer.apply(params, state, x, x, x, training=True)


# ------------------------------------------------------------------------------------------------- start, masks, words


@pytest.mark.parametrize("options", [{}, {"kdim": 40, "vdim": 30}, {"add_bias_kv": True}, {"bias": False}], ids=str)
def test_start_and_names_are_torchs(options):
    """The packed matrix starts as the one matrix that it is, out_proj as Linear does, biases at 0."""
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(60, 3, **options)
    ours = nn.MultiheadAttention(60, 3, **options)
    same_distribution(ours.state_dict(*ours.init(KEY)), theirs.state_dict())
    assert repr(ours) == repr(theirs)
    if not options:
        assert abs(float(jnp.abs(ours.init(KEY)[0]["in_proj_weight"]).max()) - np.sqrt(6 / 240)) < 1e-3


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_merge_masks(kind):
    random = np.random.default_rng(0)
    masks = [random.normal(size=shape) > 0 for shape in ((3, 3), (4, 3, 3), (2, 3))]
    two, three, padding = masks if kind == "bool" else [m.astype(np.float32) for m in masks]
    theirs, ours = torch.nn.MultiheadAttention(4, 2), nn.MultiheadAttention(4, 2)
    x = np.ones((2, 3, 4), np.float32)
    for attn, pad in ((None, None), (None, padding), (two, None), (three, None), (two, padding), (three, padding)):
        want, number = theirs.merge_masks(
            *(None if m is None else torch.tensor(m) for m in (attn, pad)), torch.tensor(x)
        )
        got, ours_number = ours.merge_masks(
            *(None if m is None else jnp.asarray(m) for m in (attn, pad)), jnp.asarray(x)
        )
        assert number == ours_number
        assert (want is None and got is None) or np.array_equal(got, want)
    with pytest.raises(
        TypeError,
        match=r"merge_masks: the dtypes differ; expected masks of the same dtype, got attn_mask bool and .*int32",
    ):
        ours.merge_masks(jnp.ones((3, 3), bool), jnp.ones((2, 3), int), jnp.asarray(x))


@pytest.mark.parametrize("sizes", [(0, 1), (4, 0), (5, 2)])
def test_sizes_that_do_not_fit_are_refused_when_it_is_built(sizes):
    with pytest.raises((ValueError, AssertionError)):
        torch.nn.MultiheadAttention(*sizes)
    text = f"positive multiple of num_heads, got embed_dim={sizes[0]} and num_heads={sizes[1]}"
    with pytest.raises(ValueError, match=text):
        nn.MultiheadAttention(*sizes)
