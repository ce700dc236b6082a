"""linear_cross_entropy beside torch's, whole and in chunks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from jax.sharding import PartitionSpec

from funcnet import functional as F
from funcnet import nn

from .oracle import agrees_reduced, normal

ROWS, TABLE, BIAS = normal(7, 5), normal(11, 5), normal(11)
IDS, WEIGHT = np.array([0, 10, -100, 3, 3, 7, 1], np.int32), np.abs(normal(11, seed=3))
CHUNKS = {"batch_chunk_size": 3, "chunking_method": None}  # the last one is not full


def both(lib, options=None, **kwargs):
    chunks = None if options is None else {F: nn, T: torch.nn}[lib].LinearCrossEntropyOptions(**options)
    return lambda x, w, b, t, **kw: lib.linear_cross_entropy(x, w, t, linear_bias=b, options=chunks, **kwargs, **kw)


@pytest.mark.slow
@pytest.mark.parametrize("options", [*(pytest.param(o, marks=pytest.mark.slow) for o in (None, {})), CHUNKS], ids=str)
def test_class_ids(options):
    weight = lambda x: jnp.asarray(WEIGHT, x.dtype)
    ours, theirs = both(F, options), both(T, options)
    agrees_reduced(ours, theirs, ROWS, TABLE, BIAS, IDS)
    agrees_reduced(
        lambda x, *a, **kw: ours(x, *a, weight=weight(x), ignore_index=3, **kw),
        lambda x, *a, **kw: theirs(x, *a, weight=torch.tensor(WEIGHT), ignore_index=3, **kw),
        ROWS,
        TABLE,
        BIAS,
        np.where(IDS < 0, 3, IDS),
        dtypes=(np.float32,),
    )


@pytest.mark.slow
def test_further_dimensions_and_probabilities():
    shares = np.abs(normal(7, 4, 2, 3))
    table, bias, ids = normal(4, 2, 3, 5), normal(4, 2, 3), (np.arange(42).reshape(7, 2, 3) % 4).astype(np.int32)
    agrees_reduced(both(F), both(T), ROWS, table, bias, ids)
    smooth = {"label_smoothing": 0.1}
    agrees_reduced(both(F, **smooth), both(T, **smooth), ROWS, table, bias, shares)


@pytest.mark.slow
@pytest.mark.parametrize("options", [None, CHUNKS], ids=str)
def test_without_a_batch(options):
    agrees_reduced(both(F, options), both(T, options), ROWS[0], TABLE, BIAS, np.array(3))


def chunked(x, w, b, ids=IDS, reduction="mean", **options):
    options = nn.LinearCrossEntropyOptions(**(options or CHUNKS))
    return F.linear_cross_entropy(x, w, ids, linear_bias=b, reduction=reduction, options=options)


def whole(x, w, b, ids=IDS, reduction="mean"):
    return F.linear_cross_entropy(x, w, ids, linear_bias=b, reduction=reduction)


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_forward_mode_second_derivatives_and_vmap_in_chunks(reduction):
    """None of which torch has."""
    with jax.enable_x64(True):
        point = [jnp.asarray(a) for a in (ROWS, TABLE, BIAS)]
        direction = tuple(jnp.asarray(normal(*a.shape, seed=5)) for a in point)

        def all_ways(run, *point):
            loss = lambda *a: run(*a, reduction=reduction)
            slope = jax.grad(lambda *a: loss(*a).sum(), (0, 1, 2))
            stacked = [jnp.stack([a, 2 * a]) for a in point]
            return jax.jvp(loss, point, direction), jax.jvp(slope, point, direction), jax.vmap(slope)(*stacked)

        ours, expected = (jax.jit(all_ways, static_argnums=0)(run, *point) for run in (chunked, whole))
        for got, want in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_only_what_is_asked_for_is_computed():
    """A frozen table costs no product: 2 of the 3 of a whole gradient."""
    point = [jnp.asarray(a, jnp.float32) for a in (normal(64, 32), normal(128, 32), normal(128))]
    flops = lambda argnums: (
        jax.jit(jax.grad(lambda *a: chunked(*a, ids=np.zeros(64, int), batch_chunk_size=64), argnums))
        .lower(*point)
        .compile()
        .cost_analysis()["flops"]
    )
    product = 2 * 64 * 32 * 128
    assert flops((0, 1)) - flops(0) > 0.9 * product


def test_the_table_of_logits_is_never_whole():
    rows, table = jnp.zeros((2048, 16)), jnp.zeros((4096, 16))
    run = jax.jit(jax.grad(lambda *a: chunked(*a, None, ids=np.zeros(2048, int), batch_chunk_size=32), (0, 1)))
    assert run.lower(rows, table).compile().memory_analysis().temp_size_in_bytes < 2048 * 4096 * 4 / 8


def test_bfloat16_in_chunks_keeps_its_logits_in_float32():
    x, w, b = (jnp.asarray(a, jnp.bfloat16) for a in (4 * ROWS, TABLE, BIAS))
    got = jax.jit(lambda *a: chunked(*a, reduction="none"))(x, w, b)
    wide = [torch.tensor(np.asarray(a, np.float64)) for a in (x, w, b)]
    want = T.linear_cross_entropy(wide[0], wide[1], torch.tensor(IDS).long(), linear_bias=wide[2], reduction="none")
    assert got.dtype == jnp.bfloat16
    np.testing.assert_allclose(got.astype(jnp.float32), want, rtol=2**-8)


@pytest.mark.parametrize("ids", [np.full(7, -100), np.zeros(0, int)], ids=["ignored", "empty"])
def test_nothing_that_counts_is_nan_with_a_gradient_of_0(ids):
    point = [jnp.asarray(a, jnp.float32) for a in (ROWS[: len(ids)], TABLE, BIAS)]
    value, slopes = jax.jit(jax.value_and_grad(lambda *a: chunked(*a, ids=ids), (0, 1, 2)))(*point)
    assert np.isnan(value) and not any(slope.any() for slope in slopes)


@pytest.mark.slow
def test_gradients_of_replicated_params_over_a_sharded_batch():
    ids = np.resize(IDS, 8)
    point = [jnp.asarray(a, jnp.float32) for a in (TABLE, BIAS, normal(8, 5), np.abs(WEIGHT))]

    def slopes(w, b, x, weight, ids):
        loss = lambda *a: F.linear_cross_entropy(
            a[2], a[0], ids, linear_bias=a[1], weight=weight, reduction="sum", options=nn.LinearCrossEntropyOptions()
        )
        return jax.grad(loss, (0, 1, 2))(w, b, x)

    mesh = jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    whole, cut = PartitionSpec(), PartitionSpec("data")
    sharded = jax.shard_map(slopes, mesh=mesh, in_specs=(whole, whole, cut, whole, cut), out_specs=(whole, whole, cut))
    for got, want in zip(jax.jit(sharded)(*point, ids), jax.jit(slopes)(*point, ids), strict=True):
        np.testing.assert_allclose(got, want, atol=3e-6)


def test_rows_that_do_not_count_may_hold_anything():
    """Neither what fills the last chunk, where the first class is impossible, nor an ignored row of NaN is seen."""
    rows, bias = ROWS.copy(), BIAS.copy()
    rows[2], bias[0] = np.nan, -np.inf
    ids = np.where(IDS == 0, 1, IDS)
    for reduction in ("mean", "sum", "none"):
        got = chunked(*(jnp.asarray(a, jnp.float32) for a in (rows, TABLE, bias)), ids=ids, reduction=reduction)
        given = [torch.tensor(a) for a in (rows, TABLE, bias)]
        want = T.linear_cross_entropy(*given[:2], torch.tensor(ids).long(), linear_bias=given[2], reduction=reduction)
        np.testing.assert_allclose(got, want, rtol=1e-5)
    slopes = jax.jit(jax.grad(lambda b: chunked(jnp.asarray(rows, jnp.float32), jnp.float32(TABLE), b, ids=ids)))
    assert np.isfinite(slopes(jnp.asarray(bias, jnp.float32))).all()


def test_an_id_out_of_range_is_seen_under_jit():
    run = jax.jit(lambda ids, reduction: chunked(*point, ids=ids, reduction=reduction), static_argnums=1)
    point = [jnp.asarray(a, jnp.float32) for a in (ROWS[:3], TABLE, BIAS)]
    ids = jnp.array([11, -1, 0])
    assert np.isnan(run(ids, "none")).tolist() == [True, True, False] and np.isnan(run(ids, "sum"))


@pytest.mark.parametrize("size", [(4096, 768, 30_000), (7, 5, 11), (100, 64, 10), (1, 3, 4), (1000, 1000, 1000)])
@pytest.mark.parametrize(
    "options", [{}, {"chunking_method": "aspect_ratio:4"}, {"batch_chunk_size": 5}, CHUNKS], ids=str
)
def test_chunk_sizes_are_torchs(size, options):
    theirs = torch.nn.LinearCrossEntropyOptions(**options)._adjust(*size, torch.float32)
    assert nn.LinearCrossEntropyOptions(**options).chunk_size(*size) == theirs.batch_chunk_size


def test_options_that_do_not_apply_are_ignored_with_a_warning():
    x, w = jnp.zeros((2, 5)), jnp.zeros((3, 5))
    with pytest.warns(
        UserWarning, match="F.linear_cross_entropy: the options are ignored; .* label_smoothing 0.1"
    ) as said:
        F.linear_cross_entropy(
            x, w, IDS[:2], label_smoothing=0.1, ignore_index=10, options=nn.LinearCrossEntropyOptions()
        )
    assert said[0].filename == __file__
    assert repr(nn.LinearCrossEntropyOptions()) == repr(torch.nn.LinearCrossEntropyOptions())


X, W, ONE = jnp.zeros((2, 5)), jnp.zeros((3, 5)), np.zeros(2, int)
Options = nn.LinearCrossEntropyOptions


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: F.linear_cross_entropy(X[None], W, ONE), ValueError, "input has the wrong rank; .* got \\(1, 2, 5\\)"),
        (
            lambda: F.linear_cross_entropy(X, W[0], ONE),
            ValueError,
            r"linear_weight does not match input; .* \(classes, \*, 5\)",
        ),
        (
            lambda: F.linear_cross_entropy(X, W[:, :4], ONE),
            ValueError,
            r"linear_weight does not match input; .* got \(3, 4\)",
        ),
        (lambda: F.linear_cross_entropy(X, W, ONE, linear_bias=X[0]), ValueError, "linear_bias has the wrong shape"),
        (lambda: F.linear_cross_entropy(X[0], W[None], ONE), ValueError, "input has no batch dimension"),
        (lambda: F.linear_cross_entropy(X, W.astype(jnp.bfloat16), ONE), TypeError, "the dtypes differ"),
        (lambda: F.linear_cross_entropy(X, W, X[:, :3], ignore_index=1), ValueError, "ignore_index has no meaning"),
        (lambda: F.linear_cross_entropy(X, W, ONE[:1], options=Options()), ValueError, "target has the wrong shape"),
        (lambda: F.linear_cross_entropy(X, W, ONE + 3, options=Options()), ValueError, "target is out of range"),
        (lambda: F.linear_cross_entropy(X, W, ONE, weight=X[0], options=Options()), ValueError, "weight has the wrong"),
        (
            lambda: F.linear_cross_entropy(X, W, ONE, options=Options(acc_dtype=jnp.bfloat16)),
            ValueError,
            "acc_dtype does not fit the input; expected None, float32, .* got bfloat16 for an input of float32",
        ),
        (lambda: Options(acc_policy="fast"), ValueError, "acc_policy is unknown; .* got 'fast'"),
        (
            lambda: Options(chunking_method="aspect_ratio:0"),
            ValueError,
            "chunking_method is unknown; .* 'aspect_ratio:0'",
        ),
        (lambda: Options(chunking_method="half"), ValueError, "chunking_method is unknown"),
        (
            lambda: Options(batch_chunk_size=0),
            ValueError,
            "batch_chunk_size is invalid; expected a positive int or None, got 0",
        ),
        (
            lambda: Options(acc_dtype=jnp.int32),
            ValueError,
            "acc_dtype is not supported; expected None or one of float16",
        ),
        (
            lambda: Options(batch_chunk_size=7, chunking_method="aspect_ratio").chunk_size(64, 4, 16),
            ValueError,
            "chunking_method disagree; expected 16 rows, the chunk size that 'aspect_ratio' gives, got 7",
        ),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(
    ("target", "more", "text"),
    [
        (np.zeros(3, np.int32), {}, r"target has the wrong shape; expected \(2,\), got \(3,\)"),
        (np.zeros((2, 3), np.float32), {}, r"target has the wrong shape; expected \(2, 4\), got \(2, 3\)"),
        (np.zeros(2, np.int32), {"label_smoothing": 2.0}, "label_smoothing is not a probability; expected"),
    ],
)
def test_without_options_the_errors_name_this_function_too(target, more, text):
    with pytest.raises(ValueError, match=f"^F.linear_cross_entropy: {text}"):
        F.linear_cross_entropy(jnp.ones((2, 3)), jnp.ones((4, 3)), target, **more)
