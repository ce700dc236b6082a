"""embedding_bag against torch: modes, offsets, padding, ties, empty bags."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from hypothesis import given
from hypothesis import strategies as st

from funcnet import functional as F
from funcnet import nn

from .oracle import agrees, integers, normal

IDS = np.array([1, 4, 4, 0, 2, 1, 1, 3])
OFFSETS = np.array([0, 3, 3, 5, 8])  # an empty bag within, and one at the end
MODES = ["sum", "mean", "max"]
slow = pytest.mark.slow


def flat(library, results):
    return (jnp.concatenate if library is F else torch.cat)([r.reshape(-1) for r in results])


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_values_and_gradients(mode):
    """Bags one after the other and bags of one length, with everything that the mode has."""

    def every(library, ids, offsets, weight, factors):
        bag = functools.partial(library.embedding_bag, mode=mode)
        results = [
            bag(ids, weight, offsets),
            bag(ids, weight, offsets, include_last_offset=True),
            bag(ids, weight, offsets, padding_idx=1),
            bag(ids.reshape(4, 2), weight, padding_idx=-2),  # the second row is all padding
        ]
        if mode == "sum":
            results.append(bag(ids, weight, offsets, per_sample_weights=factors, padding_idx=4))
            results.append(bag(ids.reshape(4, 2), weight, per_sample_weights=factors.reshape(4, 2)))
        return flat(library, results)

    ids = np.where(np.arange(8) // 2 == 1, 4, IDS)
    agrees(functools.partial(every, F), functools.partial(every, T), ids, OFFSETS, normal(6, 3), normal(8))


@pytest.mark.parametrize("mode", [pytest.param("sum", marks=slow), "mean"])
def test_a_gradient_by_frequency_is_that_of_the_lookup(mode):
    """torch's lookup is the oracle: its bags divide, on CPU, by how often another id occurs."""
    ids, options = np.array([[1, 4, 4], [0, 4, 1]]), {"mode": mode, "scale_grad_by_freq": True}
    lookup = lambda i, w: getattr(T.embedding(i, w, scale_grad_by_freq=True), mode)(dim=1)
    agrees(lambda i, w: F.embedding_bag(i, w, **options), lookup, ids, normal(6, 3), dtypes=(np.float64,))
    ragged = lambda i, w: F.embedding_bag(i.ravel(), w, jnp.array([0, 3]), **options)
    agrees(ragged, lookup, ids, normal(6, 3), dtypes=(np.float64,))


@pytest.mark.parametrize("mode", MODES)
@slow
def test_max_norm_reads_renormalised_rows_and_the_table_follows(mode):
    weight = normal(6, 3).astype(np.float32) * 2
    table = torch.tensor(weight, requires_grad=True)
    options = {"max_norm": 1.0, "norm_type": 1.0, "mode": mode}
    want = T.embedding_bag(torch.tensor(IDS[:5]), table, torch.tensor([0, 2]), **options)
    cotangent = normal(2, 3).astype(np.float32)
    want.backward(torch.tensor(cotangent))
    got, pull = jax.vjp(lambda w: F.embedding_bag(jnp.asarray(IDS[:5]), w, jnp.array([0, 2]), **options), weight)
    np.testing.assert_allclose(got, want.detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pull(jnp.asarray(cotangent))[0], table.grad, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(F.embedding_renorm(weight, IDS[:5], 1.0, 1.0), table.detach(), rtol=1e-5)


@slow
def test_of_equal_entries_the_first_has_the_gradient():
    weight = np.array([[1.0, 2.0], [1.0, 1.0], [1.0, 2.0]])
    for ids in ([0, 1, 2], [2, 1, 0], [1, 1, 0]):
        both = [lambda i, w, lib=lib: lib.embedding_bag(i.reshape(1, 3), w, mode="max") for lib in (F, T)]
        agrees(*both, np.array(ids), weight, dtypes=(np.float64,), jit=False)
        both = [lambda i, o, w, lib=lib: lib.embedding_bag(i, w, o, mode="max") for lib in (F, T)]
        agrees(*both, np.array(ids), np.array([0]), weight, dtypes=(np.float64,), jit=False)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [pytest.param("sum", marks=slow), pytest.param("mean", marks=slow), "max"])
def test_empty_things(mode):
    weight, none = jnp.asarray(normal(3, 2), jnp.float32), jnp.zeros(0, int)
    bag = functools.partial(F.embedding_bag, mode=mode)
    assert bag(none, weight, jnp.array([0, 0])).tolist() == [[0, 0]] * 2
    assert bag(jnp.zeros((0, 2), int), weight).shape == bag(jnp.array([1]), weight, none).shape == (0, 2)
    assert bag(jnp.zeros((2, 0), int), weight).tolist() == [[0, 0]] * 2
    assert bag(jnp.array([1, 2]), weight, jnp.array([0]), include_last_offset=True).shape == (0, 2)
    short = bag(jnp.array([1, 2]), weight, jnp.array([0, 1]), include_last_offset=True)
    np.testing.assert_array_equal(short, weight[1:2])  # what follows the last offset belongs to no bag


@slow
def test_special_numbers_stay_where_they_are():
    weight = jnp.array([[jnp.nan, -jnp.inf], [1.0, 2.0], [-jnp.inf, -jnp.inf]])
    bag = functools.partial(F.embedding_bag, weight=weight, mode="max")
    np.testing.assert_array_equal(bag(jnp.array([[1, 0], [2, 2]])), [[np.nan, 2], [-np.inf, -np.inf]])
    np.testing.assert_array_equal(bag(jnp.array([1, 0, 2]), offsets=jnp.array([0, 2])), [[np.nan, 2], [-np.inf] * 2])
    for mode in MODES:  # padding hides them
        out = F.embedding_bag(jnp.array([[1, 0]]), weight, mode=mode, padding_idx=0)
        assert out.tolist() == [[1, 2]]
        assert F.embedding_bag(jnp.array([1, 0]), weight, jnp.array([0]), mode=mode, padding_idx=0).tolist() == [[1, 2]]


@pytest.mark.slow
@pytest.mark.parametrize("bags", [4, 64])
def test_nan_is_the_largest_in_large_arrays_too(bags):
    weight, ids = jnp.zeros((9, 64)).at[8].set(jnp.nan), jnp.zeros((bags, 8), int).at[0, 5].set(8)
    out = F.embedding_bag(ids, weight, mode="max")
    assert np.isnan(out[0]).all() and not out[1:].any()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=slow)])
def test_half_precision_sums_in_float32(dtype):
    """torch's own sum of a thousand ones in bfloat16 is right too: the last step alone rounds."""
    weight = jnp.ones((2, 2), dtype)
    ids = jnp.zeros(1000, int)
    for bag in (
        F.embedding_bag(ids, weight, jnp.array([0]), mode="sum"),
        F.embedding_bag(ids[None], weight, mode="sum"),
    ):
        assert bag.dtype == dtype and bag.tolist() == [[1000.0, 1000.0]]


def test_under_jit_offsets_and_ids_are_data():
    weight = jnp.asarray(normal(6, 3), jnp.float32)
    run = jax.jit(functools.partial(F.embedding_bag, weight=weight, mode="mean"))
    starts = [OFFSETS, np.array([0, 1, 2, 3, 4])]
    for offsets in starts:
        np.testing.assert_allclose(
            run(IDS, offsets=offsets), T.embedding_bag(*map(torch.tensor, (IDS, np.array(weight), offsets))), atol=1e-6
        )
    assert np.isnan(run(jnp.array([9, 1]), offsets=jnp.array([0, 1]))).tolist() == [[True] * 3, [False] * 3]


@slow
def test_vmap_is_the_loop():
    weight, starts = jnp.asarray(normal(6, 3), jnp.float32), jnp.array([OFFSETS, [0, 1, 2, 3, 4]])
    together = jax.vmap(lambda o: F.embedding_bag(IDS, weight, o, mode="max"))(starts)
    for got, offsets in zip(together, starts, strict=True):
        np.testing.assert_array_equal(got, F.embedding_bag(IDS, weight, offsets, mode="max"))


@slow
def test_forward_mode_is_the_transpose():
    weight, change = normal(6, 3), normal(6, 3, seed=1)
    with jax.enable_x64(True):
        for mode in MODES:
            run = lambda w, mode=mode: F.embedding_bag(IDS, w, OFFSETS, mode=mode, padding_idx=1)
            out, pushed = jax.jvp(run, (jnp.asarray(weight),), (jnp.asarray(change),))
            (pulled,) = jax.vjp(run, jnp.asarray(weight))[1](out)
            np.testing.assert_allclose(jnp.vdot(out, pushed), jnp.vdot(pulled, change), rtol=1e-12)


@st.composite
def cases(draw):
    size = draw(st.sampled_from([1, 6]))
    ids = draw(st.lists(st.integers(0, 4), min_size=size, max_size=size))
    cuts = sorted(draw(st.lists(st.integers(0, size), min_size=2, max_size=2)))
    last = draw(st.booleans())
    mode = draw(st.sampled_from(MODES))
    options = {"mode": mode, "padding_idx": draw(st.sampled_from([None, 0, -1])), "include_last_offset": last}
    factors = [normal(size)] if mode == "sum" and draw(st.booleans()) else []
    table = np.round(normal(5, 3, seed=draw(st.integers(0, 3))) * 2) / 2  # ties
    return np.array(ids), np.array([0, *cuts, *([size] if last else [])]), table, factors, options


@slow
@given(cases())
def test_hypothesis_bags_are_torchs(case):
    ids, offsets, table, factors, options = case

    def run(library):
        def call(i, o, w, *factors):
            return library.embedding_bag(i, w, o, per_sample_weights=factors[0] if factors else None, **options)

        return call

    agrees(run(F), run(T), ids, offsets, table, *factors, dtypes=(np.float64,), jit=False)


# -------------------------------------------------------------------------------------------- refusals, and the layer

W, ONE = np.ones((5, 3), np.float32), np.array([0, 1])
BAD = [
    ((ONE, W, np.array([1, 2])), {}, "offsets are out of range or not in increasing order; .* beginning with 0"),
    (
        (ONE, W, np.array([0, 3])),
        {},
        "offsets are out of range or not in increasing order; .* from 0 to 2, .* got \\[0 3\\]",
    ),
    ((ONE, W, np.array([0, 2, 1])), {}, "offsets are out of range or not in increasing order"),
    ((ONE, W, None), {}, "input and offsets do not match; .* got \\(2,\\) and None"),
    ((ONE[None], W, ONE), {}, "input and offsets do not match; .* got \\(1, 2\\) and \\(2,\\)"),
    ((ONE, W, ONE[None]), {}, "input and offsets do not match"),
    ((ONE[None, None], W), {}, "input and offsets do not match"),
    ((ONE, W, np.zeros(0, int)), {"include_last_offset": True}, "include_last_offset needs the end of the last bag"),
    ((ONE, W, ONE.astype(np.float32)), {}, "offsets must hold integers"),
    ((ONE.astype(np.float32), W, ONE), {}, "ids must hold integers"),
    ((ONE + 4, W, ONE), {}, "ids is out of range; expected values from 0 to 4, got values from 4 to 5"),
    ((ONE - 1, W, ONE), {}, "ids is out of range"),
    ((ONE, W[0], ONE), {}, "weight has the wrong rank"),
    ((ONE, W.astype(int), ONE), {}, "weight must hold floating-point numbers"),
    ((ONE, W, ONE), {"padding_idx": 5}, "padding_idx is out of range; expected -5 to 4, got 5"),
    ((ONE, W, ONE), {"padding_idx": -6}, "padding_idx is out of range"),
    ((ONE, W, ONE), {"mode": "min"}, "mode is unknown; expected 'sum', 'mean' or 'max', got 'min'"),
    ((ONE, W, ONE), {"mode": "max", "sparse": True}, "mode 'max' supports neither scale_grad_by_freq nor sparse"),
    ((ONE, W, ONE), {"mode": "max", "scale_grad_by_freq": True}, "mode 'max' supports neither"),
    ((ONE, W, ONE), {"per_sample_weights": W[0, :2]}, "per_sample_weights requires mode='sum'; .* got 'mean'"),
    ((ONE, W, ONE), {"mode": "sum", "per_sample_weights": W[0]}, "per_sample_weights has the wrong shape"),
    ((ONE, W, ONE), {"mode": "sum", "per_sample_weights": ONE}, "the dtypes differ; .* per_sample_weights int32"),
]


@pytest.mark.parametrize(("args", "options", "message"), BAD, ids=[f"{i}" for i in range(len(BAD))])
def test_what_torch_refuses_is_refused_with_its_reason(args, options, message):
    def given(convert):
        change = lambda v: convert(v) if isinstance(v, np.ndarray) else v
        return [change(a) for a in args], {name: change(value) for name, value in options.items()}

    tensors, others = given(torch.tensor)
    with pytest.raises((RuntimeError, ValueError, NotImplementedError)):
        T.embedding_bag(*tensors, **others)
    arrays, others = given(jnp.asarray)
    with pytest.raises((ValueError, TypeError), match=f"F.embedding_bag: {message}"):
        F.embedding_bag(*arrays, **others)


def test_the_layer_takes_its_arguments_as_torchs():
    options = {"max_norm": 1.5, "norm_type": 1.0, "mode": "sum", "include_last_offset": True, "padding_idx": -1}
    torch.manual_seed(0)
    theirs, ours = torch.nn.EmbeddingBag(5, 3, **options), nn.EmbeddingBag(5, 3, **options)
    assert repr(ours) == repr(theirs)
    assert repr(nn.EmbeddingBag(5, 3, scale_grad_by_freq=True)) == repr(
        torch.nn.EmbeddingBag(5, 3, scale_grad_by_freq=True)
    )
    params, state = ours.init(jax.random.key(0))
    assert not params["weight"][4].any() and params["weight"][:4].all()
    params, state = ours.load_state_dict(theirs.state_dict())
    ids, offsets, factors = integers(0, 5, 6), np.array([0, 2, 6]), normal(6).astype(np.float32)
    want = theirs(*map(torch.tensor, (ids, offsets, factors)))
    got, _ = ours.apply(params, state, *map(jnp.asarray, (ids, offsets, factors)))
    np.testing.assert_allclose(got, want.detach(), rtol=1e-5, atol=1e-6)


def test_the_layer_from_a_table_is_frozen_unless_told():
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    frozen = nn.EmbeddingBag.from_pretrained(table, mode="max", padding_idx=0)
    assert not frozen.weight.requires_grad and (frozen.mode, frozen.padding_idx) == ("max", 0)
    assert nn.EmbeddingBag.from_pretrained(table, freeze=False).weight.requires_grad
    np.testing.assert_array_equal(frozen.init(jax.random.key(0))[0]["weight"], table)


@pytest.mark.parametrize("layer", [nn.Embedding, nn.EmbeddingBag])
def test_what_layers_refuse_when_they_are_built(layer):
    name = layer.__name__
    for call, text in (
        (lambda: layer(3, 2, padding_idx=3), "padding_idx is out of range for num_embeddings; expected -3 to 2, got 3"),
        (lambda: layer(-1, 2), "a size of the table is negative; .* got \\(-1, 2\\)"),
        (lambda: layer(3, 2, _weight=jnp.ones((2, 3))), "the shape of weight does not match"),
        (lambda: layer.from_pretrained(jnp.ones(3)), "expected 2 dimensions, got \\(3,\\)"),
    ):
        with pytest.raises(ValueError, match=f"{name}.*{text}"):
            call()
