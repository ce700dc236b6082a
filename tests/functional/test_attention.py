"""scaled_dot_product_attention against torch; projections and heads."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from hypothesis import given
from hypothesis import strategies as st

import funcnet.random
from funcnet import functional as F

from .oracle import agrees, close, normal

HIDDEN_ROW = np.array([[True, False, True, True, False], [False] * 5, [True] * 5])  # True: attended to
ADDED = np.where(HIDDEN_ROW, normal(3, 5), -np.inf)
# (query, key, value) shapes: no batch, a batch, heads, leading dimensions that broadcast.
SHAPES = [
    pytest.param(((3, 4), (5, 4), (5, 6)), marks=pytest.mark.slow),
    pytest.param(((2, 3, 4), (2, 5, 4), (2, 5, 4)), marks=pytest.mark.slow),
    ((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 6)),
    pytest.param(((2, 3, 4), (3, 1, 5, 4), (3, 2, 5, 4)), marks=pytest.mark.slow),
]


def flat(library, results):
    return (jnp.concatenate if library is F else torch.cat)([r.reshape(-1) for r in results])


@pytest.mark.slow
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_values_and_gradients_with_every_mask(shapes):
    """A row that is hidden throughout among them: 0, with gradients of 0, also of the mask that hides it."""

    def every(library, q, k, v, shown, added):
        attend = library.scaled_dot_product_attention
        return flat(
            library,
            [
                attend(q, k, v),
                attend(q, k, v, shown),
                attend(q, k, v, shown[:1]),
                attend(q, k, v, added),
                attend(q, k, v, added[:, :1], scale=-0.3),
                attend(q, k, v, is_causal=True),
                attend(k, q, v[..., :3, :], is_causal=True, scale=0.0),
            ],
        )

    arrays = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
    agrees(functools.partial(every, F), functools.partial(every, T), *arrays, HIDDEN_ROW, ADDED)


@pytest.mark.slow
def test_a_hidden_row_is_zero_in_value_gradient_and_forward_mode():
    q, k, v = (jnp.asarray(normal(n, 4), jnp.float32) for n in (3, 5, 5))
    for mask in (HIDDEN_ROW, ADDED.astype(np.float32)):
        attend = lambda q, k, v, mask=mask: F.scaled_dot_product_attention(q, k, v, jnp.asarray(mask))
        out, change = jax.jvp(attend, (q, k, v), (q, k, v))
        assert not out[1].any() and not change[1].any() and np.isfinite(change).all()
        grads = jax.grad(lambda *a, attend=attend: (attend(*a) ** 2).sum(), argnums=(0, 1, 2))(q, k, v)
        assert all(np.isfinite(g).all() for g in grads) and not grads[0][1].any()
        second = jax.grad(lambda q, attend=attend: jax.grad(lambda q: (attend(q, k, v) ** 2).sum())(q).sum())(q)
        assert np.isfinite(second).all() and not second[1].any()


def test_scores_of_minus_infinity_are_a_hidden_row_wherever_they_come_from():
    big = np.full((1, 1, 1, 1), 3e38, np.float32)
    for sign in (-1, 1):
        given = [sign * big, np.repeat(big, 2, 2), np.ones((1, 1, 2, 1), np.float32)]
        want = T.scaled_dot_product_attention(*map(torch.tensor, given))
        np.testing.assert_array_equal(F.scaled_dot_product_attention(*given), want)


@pytest.mark.slow
def test_grouped_query_attention():
    def every(library, q, k, v, few):
        attend = functools.partial(library.scaled_dot_product_attention, enable_gqa=True)
        return flat(library, [attend(q, k, v), attend(q, few, v), attend(q[0], k[0], v[0], is_causal=True)])

    arrays = [normal(2, 6, 3, 4), normal(2, 2, 5, 4), normal(2, 3, 5, 4), normal(2, 1, 5, 4, seed=1)]
    agrees(functools.partial(every, F), functools.partial(every, T), *arrays)


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 3, 4), (2, 0, 4), (2, 0, 5)),
        ((2, 0, 4), (2, 3, 4), (2, 3, 5)),
        ((0, 2, 3, 4), (0, 2, 3, 4), (0, 2, 3, 4)),
        ((2, 3, 0), (2, 4, 0), (2, 4, 5)),
        ((1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ],
    ids=str,
)
def test_empty_and_single(shapes):
    arrays = [normal(*shape) for shape in shapes]
    agrees(F.scaled_dot_product_attention, T.scaled_dot_product_attention, *arrays, dtypes=(np.float32,))


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
def test_half_precision_is_computed_in_float32(dtype):
    arrays = [jnp.asarray(normal(2, 2, 40, 12, seed=i), dtype) for i in range(3)]
    wide = [torch.tensor(np.asarray(a, np.float64)) for a in arrays]
    for mask in (None, normal(40, 40).astype(np.float32)):  # a float32 mask goes with every dtype, as in torch
        out = F.scaled_dot_product_attention(*arrays, None if mask is None else jnp.asarray(mask))
        want = T.scaled_dot_product_attention(*wide, None if mask is None else torch.tensor(mask).double())
        assert out.dtype == dtype
        np.testing.assert_allclose(np.asarray(out, np.float64), want, rtol=0, atol=2 * float(jnp.finfo(dtype).eps))


def test_a_float32_mask_in_float64():
    with jax.enable_x64(True):
        q, mask = normal(2, 3, 4), normal(3, 3).astype(np.float32)
        out = F.scaled_dot_product_attention(*[jnp.asarray(q)] * 3, jnp.asarray(mask))
        want = T.scaled_dot_product_attention(*[torch.tensor(q)] * 3, torch.tensor(mask))
        close(out, want.numpy(), 1e-12, "value")


@pytest.mark.slow
def test_vmap_is_the_loop():
    q, k, v = (jnp.asarray(normal(3, 2, n, 4), jnp.float32) for n in (3, 5, 5))
    mask = jnp.asarray(ADDED, jnp.float32)
    together = jax.vmap(F.scaled_dot_product_attention, (0, 0, 0, None))(q, k, v, mask)
    for i in range(3):
        np.testing.assert_allclose(together[i], F.scaled_dot_product_attention(q[i], k[i], v[i], mask), atol=1e-6)


# --------------------------------------------------------------------------------------------------------- dropout


@pytest.mark.parametrize("masked", [pytest.param(False, marks=pytest.mark.slow), True])
def test_dropout_with_torchs_mask_is_torchs(masked, monkeypatch):
    """With the identity for values torch's result is its weights after dropout: what is zero in them, it dropped."""
    arrays = [normal(2, 2, n, 4, seed=n).astype(np.float32) for n in (6, 7, 7)]
    mask = [normal(6, 7).astype(np.float32)] if masked else []
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    torch.manual_seed(0)
    identity = torch.eye(7).expand(2, 2, 7, 7)
    kept = T.scaled_dot_product_attention(*tensors[:2], identity, *map(torch.tensor, mask), dropout_p=0.4) != 0
    torch.manual_seed(0)
    want = T.scaled_dot_product_attention(*tensors, *map(torch.tensor, mask), dropout_p=0.4)
    cotangent = normal(*want.shape).astype(np.float32)
    gradients = torch.autograd.grad(want, tensors, torch.tensor(cotangent))
    asked = []
    monkeypatch.setattr(
        funcnet.random, "dropout_mask", lambda key, shape, p: asked.append((shape, p)) or jnp.asarray(kept.numpy())
    )
    attend = lambda *a: F.scaled_dot_product_attention(*a, *mask, dropout_p=0.4, rng=jax.random.key(0))
    out, pull = jax.vjp(attend, *arrays)
    assert asked == [((2, 2, 6, 7), 0.4)] and 0 < kept.float().mean() < 1
    close(out, want.detach().numpy(), 3e-6, "value")
    for ours, theirs in zip(pull(jnp.asarray(cotangent)), gradients, strict=True):
        close(ours, theirs.numpy(), 3e-6, "gradient")


@pytest.mark.slow
def test_dropout_drops_its_share_of_the_weights_and_scales_the_others():
    q = jnp.zeros((50, 20, 4))
    identity = jnp.broadcast_to(jnp.eye(20), (50, 20, 20))
    weights = F.scaled_dot_product_attention(q, q, identity, dropout_p=0.3, rng=jax.random.key(0))
    assert abs(float((weights == 0).mean()) - 0.3) < 6 * math.sqrt(0.21 / weights.size)
    np.testing.assert_allclose(weights[weights != 0], 0.05 / 0.7, rtol=1e-6)
    assert not F.scaled_dot_product_attention(q, q, q + 1, dropout_p=1.0).any()


# ------------------------------------------------------------------------------------------- many, against torch


@st.composite
def cases(draw):
    length, keys = draw(st.sampled_from([(3, 5), (1, 1), (4, 2)]))
    leading = draw(st.sampled_from([(), (2,), (2, 2)]))
    random = np.random.default_rng(draw(st.integers(0, 5)))
    scale = draw(st.sampled_from([1.0, 1e-20, 30.0]))
    arrays = [random.normal(size=(*leading, n, 4)) * scale for n in (length, keys, keys)]
    kind = draw(st.sampled_from(["none", "causal", "bool", "float"]))
    shape = draw(st.sampled_from([(length, keys), (1, keys), (length, 1)]))
    shape = (*leading[draw(st.integers(0, len(leading))) :], *shape)
    mask = random.normal(size=shape) < draw(st.sampled_from([-0.5, 0.5, 5.0]))
    if kind == "float":
        mask = np.where(mask, random.normal(size=shape), -np.inf)
    scales = [None, 0.2] + [-1.0] * (kind != "causal")  # which torch's kernel for CPU multiplies with its -inf: NaN
    options = {"is_causal": kind == "causal", "scale": draw(st.sampled_from(scales))}
    return arrays, mask if kind in ("bool", "float") else None, options


@pytest.mark.slow
@given(cases())
def test_hypothesis_attention_is_torchs(case):
    arrays, mask, options = case
    call = lambda library: lambda *a: library.scaled_dot_product_attention(*a, **options)
    agrees(call(F), call(T), *arrays, *([] if mask is None else [mask]), dtypes=(np.float64,))


# ------------------------------------------------------------------------------------------ projections and heads


def dots(function, *arrays):
    return str(jax.make_jaxpr(function)(*arrays)).count("dot_general")


@pytest.mark.parametrize("bias", [False, True])
def test_the_packed_projection_is_torchs_and_multiplies_what_is_the_same_once(bias):
    arrays = [normal(5, 2, 4), normal(3, 2, 4), normal(3, 2, 4, seed=1), normal(12, 4), *([normal(12)] if bias else [])]

    def every(library, q, k, v, *weights):
        name = "in_projection_packed" if library is F else "_in_projection_packed"
        project = getattr(library, name)
        return flat(library, [a for qkv in ((q, q, q), (q, k, k), (q, k, v)) for a in project(*qkv, *weights)])

    agrees(functools.partial(every, F), functools.partial(every, T), *arrays)
    q, k, v, *weights = map(jnp.asarray, arrays)
    assert dots(lambda q: F.in_projection_packed(q, q, q, *weights), q) == 1
    assert dots(lambda q, k: F.in_projection_packed(q, k, k, *weights), q, k) == 2
    assert dots(lambda q, k, v: F.in_projection_packed(q, k, v, *weights), q, k, v) == 3


@pytest.mark.parametrize("bias", [False, True])
def test_the_separate_projections_are_torchs(bias):
    arrays = [normal(5, 2, 4), normal(3, 2, 3), normal(3, 2, 6), normal(4, 4), normal(4, 3), normal(4, 6)]
    arrays += [normal(4, seed=i) for i in range(3)] if bias else []
    ours, theirs = (
        lambda *a, project=project, library=library: flat(library, project(*a))
        for library, project in ((F, F.in_projection), (T, T._in_projection))
    )
    agrees(ours, theirs, *arrays)


def test_heads_are_cut_and_put_together_again():
    x = normal(2, 5, 12)
    heads = F.split_heads(jnp.asarray(x), 3)
    np.testing.assert_array_equal(heads, torch.tensor(x).view(2, 5, 3, 4).transpose(1, 2).float())
    np.testing.assert_array_equal(F.merge_heads(heads), x.astype(np.float32))
    assert F.merge_heads(F.split_heads(jnp.zeros((0, 6)), 2)).shape == (0, 6)


# -------------------------------------------------------------------------------------------------------- refusals

SDPA, A = "F.scaled_dot_product_attention", jnp.ones
Q, K = jnp.ones((2, 2, 3, 4)), jnp.ones((2, 2, 5, 4))


def refused(message, error=ValueError, q=Q, k=K, v=None, *args, **options):
    return (message, error, lambda: F.scaled_dot_product_attention(q, k, k if v is None else v, *args, **options))


REFUSALS = [
    refused("too few dimensions; expected .* got \\(4,\\)", q=A(4)),
    refused("query and key differ in width; expected \\(\\*, S, 4\\), got key \\(2, 2, 5, 3\\)", k=A((2, 2, 5, 3))),
    refused("key and value differ in length; expected \\(\\*, 5, V\\), got value \\(2, 2, 6, 4\\)", v=A((2, 2, 6, 4))),
    refused("leading dimensions do not broadcast; .* set enable_gqa=True", q=A((2, 6, 3, 4))),
    refused(
        "is_causal=True cannot be combined with attn_mask; expected attn_mask=None", attn_mask=A((3, 5)), is_causal=True
    ),
    refused("attn_mask has the wrong shape; .* broadcasts to \\(2, 2, 3, 5\\), got \\(4, 5\\)", attn_mask=A((4, 5))),
    refused("attn_mask has the wrong shape; .* got \\(5,\\)", attn_mask=A(5, bool)),
    refused("attn_mask has the wrong shape; .* got \\(1, 2, 2, 3, 5\\)", attn_mask=A((1, 2, 2, 3, 5))),
    refused("attn_mask has the wrong shape; .* got \\(3, 1, 3, 5\\)", attn_mask=A((3, 1, 3, 5), bool)),
    refused("attn_mask must hold booleans or floating.* got int32", TypeError, attn_mask=A((3, 5), int)),
    refused("the dtypes differ; .* query float32, attn_mask bfloat16", TypeError, attn_mask=A((3, 5), jnp.bfloat16)),
    refused("the dtypes differ; .* key bfloat16", TypeError, k=K.astype(jnp.bfloat16)),
    refused("query must hold floating-point numbers", TypeError, q=Q.astype(int)),
    refused(
        "with enable_gqa, .* of heads of key; .* got query \\(2, 2, 3, 4\\)",
        k=A((2, 3, 5, 4)),
        enable_gqa=True,
    ),
    refused(
        "with enable_gqa, .* of heads of key",
        q=Q[0, 0],
        k=K[0, 0],
        enable_gqa=True,
    ),
    (
        "p is not a probability; expected a number from 0 to 1, got 1.5",
        ValueError,
        lambda: F.scaled_dot_product_attention(Q, K, K, dropout_p=1.5),
    ),
    (
        r"F.scaled_dot_product_attention: the function needs .* got rng=None\. .* in training and in evaluation\.$",
        ValueError,
        lambda: F.scaled_dot_product_attention(Q, K, K, dropout_p=0.5),
    ),
    (
        "F.in_projection_packed: w has the wrong shape; expected \\(12, 4\\)",
        ValueError,
        lambda: F.in_projection_packed(Q, Q, Q, A((8, 4))),
    ),
    (
        "F.in_projection_packed: b has the wrong shape; expected \\(12,\\)",
        ValueError,
        lambda: F.in_projection_packed(Q, Q, Q, A((12, 4)), A(4)),
    ),
    (
        "F.in_projection: w_k has the wrong shape; expected \\(4, 4\\), got \\(4, 5\\)",
        ValueError,
        lambda: F.in_projection(Q, Q, Q, A((4, 4)), A((4, 5)), A((4, 4))),
    ),
    (
        "F.in_projection: b_v has the wrong shape",
        ValueError,
        lambda: F.in_projection(Q, Q, Q, *[A((4, 4))] * 3, A(4), A(4), A(5)),
    ),
    (
        "F.in_projection_packed: q must hold floating-point numbers",
        TypeError,
        lambda: F.in_projection_packed(Q.astype(int), Q, Q, A((12, 4))),
    ),
    (
        "F.in_projection: the dtypes differ",
        TypeError,
        lambda: F.in_projection(Q, Q, Q.astype(jnp.float16), *[A((4, 4))] * 3),
    ),
    (
        "F.split_heads: the width must be a multiple of num_heads; expected \\(\\*, length, 3·E\\)",
        ValueError,
        lambda: F.split_heads(Q, 3),
    ),
    ("F.split_heads", ValueError, lambda: F.split_heads(A(4), 2)),
    ("F.merge_heads: input has too few dimensions", ValueError, lambda: F.merge_heads(A((3, 4)))),
]


@pytest.mark.parametrize(("message", "error", "call"), REFUSALS, ids=[message for message, *_ in REFUSALS])
def test_refusals_say_why(message, error, call):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    "shapes", [((3, 4), (5, 3), (5, 3)), ((2, 3, 4), (2, 5, 4), (2, 6, 4)), ((2, 6, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4))]
)
def test_torch_refuses_these_shapes_too(shapes):
    with pytest.raises(RuntimeError):
        T.scaled_dot_product_attention(*map(torch.ones, shapes))
    with pytest.raises(ValueError, match=SDPA):
        F.scaled_dot_product_attention(*map(jnp.ones, shapes))
