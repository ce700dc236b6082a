"""multi_head_attention_forward where the module does not reach: static keys, other matrices, what torch refuses."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T

from funcnet import functional as F

from .oracle import agrees, normal

LENGTH, BATCH, WIDTH, HEADS = 3, 2, 4, 2


def arguments(**changed):
    """A call that is good, with some of its arguments changed: tuples are shapes, of what `array` makes."""
    plain = {
        "query": (LENGTH, BATCH, WIDTH),
        "key": (LENGTH, BATCH, WIDTH),
        "value": (LENGTH, BATCH, WIDTH),
        "embed_dim_to_check": WIDTH,
        "num_heads": HEADS,
        "in_proj_weight": (3 * WIDTH, WIDTH),
        "in_proj_bias": None,
        "bias_k": None,
        "bias_v": None,
        "add_zero_attn": False,
        "dropout_p": 0.0,
        "out_proj_weight": (WIDTH, WIDTH),
        "out_proj_bias": None,
    }
    made = {
        n: normal(*v, seed=i).astype(np.float32) if isinstance(v, tuple) else v
        for i, (n, v) in enumerate((plain | changed).items())
    }
    return made


def call(library, given):
    tensor = torch.tensor if library is T else jnp.asarray
    return library.multi_head_attention_forward(
        **{n: tensor(v) if isinstance(v, np.ndarray) else v for n, v in given.items()}
    )


GOOD = [
    {"static_k": (4, 5, 2), "static_v": (4, 5, 2), "add_zero_attn": True, "key_padding_mask": (2, 5)},
    {"bias_k": (4,), "bias_v": (1, 1, 4), "is_causal": True, "attn_mask": (3, 3), "need_weights": False},
    {"bias_k": (4,), "bias_v": (4,), "static_k": None, "attn_mask": (1, 1), "is_causal": True, "need_weights": False},
    {"out_proj_weight": (6, 4), "out_proj_bias": (6,), "average_attn_weights": False},
    {
        "use_separate_proj_weight": True,
        "in_proj_weight": None,
        "in_proj_bias": (12,),
        "key": (5, 2, 3),
        "value": (5, 2, 6),
        "q_proj_weight": (4, 4),
        "k_proj_weight": (4, 3),
        "v_proj_weight": (4, 6),
    },
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [GOOD[0], *(pytest.param(c, marks=pytest.mark.slow) for c in GOOD[1:])],
    ids=lambda c: " ".join(map(str, c)),
)
def test_what_the_module_does_not_reach(changed):
    given = arguments(**changed)
    names = [n for n, v in given.items() if isinstance(v, np.ndarray)]
    ours, theirs = (
        lambda *a, library=library: library.multi_head_attention_forward(**(given | dict(zip(names, a, strict=True))))[
            0
        ]
        for library in (F, T)
    )
    agrees(ours, theirs, *(given[n].astype(np.float64) for n in names), dtypes=(np.float64,), jit=False)


def test_identical_inputs_are_multiplied_once():
    given = arguments()
    w, out = jnp.asarray(given["in_proj_weight"]), jnp.asarray(given["out_proj_weight"])
    for query in (jnp.ones((3, 2, 4)), jnp.ones((3, 4))):
        run = lambda x: F.multi_head_attention_forward(x, x, x, 4, 2, w, None, None, None, False, 0.0, out, None)[0]
        assert str(jax.make_jaxpr(run)(query)).count("dot_general") == 4


ONES = np.ones
BAD = [
    ({"query": (4,)}, "the ranks do not match; expected query, key and value of 3 dimensions"),
    ({"key": (3, 4), "value": (3, 4)}, "the ranks do not match; .* got \\[3, 2, 2\\]"),
    ({"key_padding_mask": (3,)}, "key_padding_mask has the wrong rank; expected \\(batch, keys\\), got \\(3,\\)"),
    ({"key_padding_mask": (3, 2)}, "key_padding_mask has the wrong shape; expected \\(2, 3\\), got \\(3, 2\\)"),
    ({"attn_mask": (1, 1, 3, 3)}, "attn_mask has the wrong rank; expected \\(queries, keys\\) or"),
    ({"attn_mask": (3, 2)}, "attn_mask has the wrong shape; expected \\(3, 3\\), got \\(3, 2\\)"),
    ({"attn_mask": (2, 3, 3)}, "attn_mask has the wrong shape; expected \\(4, 3, 3\\), got \\(2, 3, 3\\)"),
    ({"attn_mask": ONES((3, 3), np.int64)}, "attn_mask must hold booleans or floating-point numbers.* got int32"),
    ({"key_padding_mask": ONES((2, 3), np.int64)}, "key_padding_mask must hold booleans or floating"),
    ({"attn_mask": ONES((3, 3), np.float16)}, "the dtypes differ; .* query float32, masks float16"),
    ({"attn_mask": ONES((3, 3), np.float16), "need_weights": False}, "the dtypes differ"),
    ({"embed_dim_to_check": 5}, "the width of query does not match; expected 5, a multiple of num_heads=2"),
    ({"num_heads": 3}, "the width of query does not match; expected 4, a multiple of num_heads=3"),
    ({"value": (2, 2, 4)}, "query, key and value do not match"),
    ({"key": (3, 3, 4), "value": (3, 3, 4)}, "query, key and value do not match; .* batch_first=True"),
    ({"value": (3, 2, 5)}, "F.in_projection: w_v has the wrong shape; expected \\(4, 5\\), got \\(4, 4\\)"),
    ({"in_proj_weight": None}, "in_proj_weight is missing; expected an array, got None"),
    ({"use_separate_proj_weight": True}, "q_proj_weight is missing"),
    ({"in_proj_weight": (8, 4)}, "F.in_projection_packed: w has the wrong shape"),
    ({"is_causal": True}, "is_causal=True requires attn_mask; expected the causal mask, got None"),
    ({"bias_k": (4,)}, "bias_k and bias_v must be passed together, and not with static_k or static_v; .* bias_v None"),
    ({"bias_v": (4,)}, "bias_k and bias_v must be passed together.* bias_k None"),
    (
        {"bias_k": (4,), "bias_v": (4,), "static_k": (4, 3, 2)},
        "bias_k and bias_v must be passed together.* with static keys",
    ),
    ({"static_k": (3, 3, 2)}, "static_k has the wrong shape; expected \\(4, 'S', 2\\), got \\(3, 3, 2\\)"),
    ({"static_v": (4, 3, 3)}, "static_v has the wrong shape"),
    ({"static_k": (4, 7, 2), "need_weights": False}, "key and value differ in length"),
    ({"query": ONES((3, 2, 4), np.int64)}, "F.multi_head_attention_forward: query must hold floating"),
    ({"query": ONES((3, 2, 4), np.float16)}, "the dtypes differ"),
    ({"dropout_p": 1.5}, "F.multi_head_attention_forward: dropout_p is not a probability"),
]


@pytest.mark.parametrize(("changed", "message"), BAD, ids=[str(i) for i in range(len(BAD))])
def test_what_torch_refuses_is_refused_with_its_reason(changed, message):
    given = arguments(**changed)
    with warnings.catch_warnings(), pytest.raises((RuntimeError, AssertionError, ValueError)):
        warnings.simplefilter("ignore")
        call(T, given)
    with pytest.raises((ValueError, TypeError), match=message):
        call(F, given)


@pytest.mark.parametrize("rate", [-0.1, 2.0])
def test_a_rate_that_is_no_probability_is_refused(rate):
    with pytest.raises(ValueError, match=r"^F.multi_head_attention_forward: dropout_p is not a probability"):
        call(F, arguments(dropout_p=rate))


def test_dropout_without_a_key_is_refused():
    with pytest.raises(ValueError, match=r"F.multi_head_attention_forward: .* expected a key, got rng=None"):
        call(F, arguments(dropout_p=0.5))
    assert call(F, arguments(dropout_p=0.5, training=False))[0].shape == (3, 2, 4)
