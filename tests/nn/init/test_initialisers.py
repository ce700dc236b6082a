"""Every initialiser against torch's: equal where nothing is random, alike in distribution where something is."""

import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn

KEY = jax.random.key(0)


def ours(name, shape, *args, dtype=jnp.float32, **kwargs):
    return np.asarray(getattr(nn.init, name)(*args, **kwargs)(KEY, shape, dtype))


def theirs(name, shape, *args, **kwargs):
    torch.manual_seed(0)
    return getattr(torch.nn.init, f"{name}_")(torch.empty(shape), *args, **kwargs).numpy()


FIXED = [
    ("constant", (3, 2), (0.25,), {}),
    ("ones", (3,), (), {}),
    ("zeros", (3, 1, 2), (), {}),
    ("eye", (3, 5), (), {}),
    ("eye", (5, 3), (), {}),
    ("dirac", (4, 3, 3), (), {}),
    ("dirac", (3, 5, 4), (), {}),
    ("dirac", (6, 2, 3, 5), (), {"groups": 3}),
    ("dirac", (4, 3, 2, 3, 4), (2,), {}),
]


@pytest.mark.parametrize(("name", "shape", "args", "kwargs"), FIXED, ids=lambda v: str(v))
def test_what_is_not_random_is_equal(name, shape, args, kwargs):
    assert np.array_equal(ours(name, shape, *args, **kwargs), theirs(name, shape, *args, **kwargs))


@pytest.mark.parametrize("groups", [1, 2])
def test_dirac_makes_a_convolution_the_identity(groups):
    conv = nn.Conv2d(4 // 2 * groups, 2 * groups, 3, padding=1, groups=groups, bias=False)
    nn.init.dirac_(conv.weight, groups)
    params, state = conv.init(KEY)
    x = jax.random.normal(KEY, (2, 2 * groups, 5, 4))
    assert np.array_equal(conv.apply(params, state, x)[0], x)


UNIFORM = [
    ("uniform", (200, 100), (), {}),
    ("uniform", (200, 100), (-3.0, 5.0), {}),
    ("xavier_uniform", (300, 100), (), {}),
    ("xavier_uniform", (60, 20, 4, 4), (), {"gain": 2.0}),
    ("kaiming_uniform", (300, 100), (), {}),
    ("kaiming_uniform", (300, 100), (), {"a": math.sqrt(5)}),
    ("kaiming_uniform", (60, 20, 4, 4), (), {"mode": "fan_out", "nonlinearity": "relu"}),
]
NORMAL = [
    ("normal", (200, 100), (), {}),
    ("normal", (200, 100), (2.0, 0.02), {}),
    ("xavier_normal", (60, 20, 4, 4), (), {"gain": 0.5}),
    ("kaiming_normal", (300, 100), (), {"nonlinearity": "selu"}),
    ("kaiming_normal", (60, 20, 4, 4), (0.2,), {"mode": "fan_out"}),
    ("trunc_normal", (200, 100), (), {}),
    ("trunc_normal", (200, 100), (), {"std": 0.02}),
    ("trunc_normal", (200, 100), (0.5, 1.0, -0.25, 2.0), {}),
    ("trunc_normal", (200, 100), (3.0, 1.0, -2.0, 2.0), {}),
]


@pytest.mark.parametrize(("name", "shape", "args", "kwargs"), UNIFORM + NORMAL, ids=lambda v: str(v))
def test_what_is_random_has_torchs_distribution(name, shape, args, kwargs):
    a = ours(name, shape, *args, **kwargs).astype(np.float64).ravel()
    b = theirs(name, shape, *args, **kwargs).astype(np.float64).ravel()
    few = 1 / math.sqrt(a.size)
    assert abs(a.mean() - b.mean()) < 8 * b.std() * few
    assert abs(a.std() / b.std() - 1) < 8 * few
    # The largest distance between the two distribution functions (Kolmogorov-Smirnov), well beyond its 1e-6 quantile.
    points = np.sort(np.concatenate([a, b]))
    distance = np.abs(
        np.searchsorted(np.sort(a), points, side="right") - np.searchsorted(np.sort(b), points, side="right")
    )
    assert distance.max() / a.size < 4 * few
    if "uniform" in name or name == "trunc_normal":
        width = b.max() - b.min()
        assert abs(a.min() - b.min()) < 50 * width / a.size + (0.2 * width if name == "trunc_normal" else 0)
        assert abs(a.max() - b.max()) < 50 * width / a.size + (0.2 * width if name == "trunc_normal" else 0)


@pytest.mark.parametrize(("mean", "std", "low", "high"), [(0, 1, -2, 2), (0, 5, -2, 2), (1, 3, 0.5, 0.75)])
def test_trunc_normal_has_absolute_bounds(mean, std, low, high):
    values = ours("trunc_normal", (300, 300), mean, std, low, high)
    assert low <= values.min() < low + 0.01 * (high - low) and high - 0.01 * (high - low) < values.max() <= high


def test_trunc_normal_at_a_small_std_is_not_truncated_at_all():
    values = ours("trunc_normal", (300, 300), std=0.02)
    assert 0.08 < np.abs(values).max() < 0.12, "torch's bounds are ±2, not ±2 std"


@pytest.mark.parametrize("shape", [(40, 40), (60, 20), (20, 60), (12, 3, 2, 5)], ids=str)
@pytest.mark.parametrize("gain", [1, 2.5])
def test_orthogonal(shape, gain):
    flat = ours("orthogonal", shape, gain).reshape(shape[0], -1)
    expected = theirs("orthogonal", shape, gain).reshape(shape[0], -1)
    product = flat @ flat.T if shape[0] <= flat.shape[1] else flat.T @ flat
    np.testing.assert_allclose(product, gain**2 * np.eye(len(product)), atol=1e-5 * gain**2)
    assert abs(flat.std() / expected.std() - 1) < 1e-2


def test_orthogonal_matrices_are_spread_evenly():
    """Without the sign of R's diagonal, QR alone prefers some corners: the diagonal's mean would not be 0."""
    draws = jax.vmap(lambda key: nn.init.orthogonal()(key, (3, 3), jnp.float32))(jax.random.split(KEY, 2000))
    assert np.abs(np.asarray(draws).mean(0)).max() < 6 / math.sqrt(3 * 2000)


@pytest.mark.parametrize("sparsity", [0.1, 0.33, 0.9])
def test_sparse_has_so_many_zeros_in_every_column(sparsity):
    a, b = (f("sparse", (50, 40), sparsity, 0.5) for f in (ours, theirs))
    assert np.array_equal((a == 0).sum(0), (b == 0).sum(0))
    assert abs(a[a != 0].std() / 0.5 - 1) < 0.2
    assert len({tuple(column) for column in (a == 0).T}) > 1, "the zeros stand elsewhere in each column"


@pytest.mark.parametrize("name", [name for name in dir(nn.init) if name.endswith("_") and not name.startswith("_")])
def test_names_come_in_pairs_as_torch_has_them(name):
    assert hasattr(torch.nn.init, name) and callable(getattr(nn.init, name[:-1]))
    given = {"constant_": (1.0,), "sparse_": (0.5,)}.get(name, ())
    leaf = nn.Parameter((4, 4, 3) if name == "dirac_" else (4, 4))
    assert getattr(nn.init, name)(leaf, *given) is leaf
    assert leaf.init(KEY, leaf.shape, jnp.bfloat16).dtype == jnp.bfloat16


IN_PLACE = [name for name in dir(torch.nn.init) if name.endswith("_") and not name.startswith("_")]


@pytest.mark.parametrize("name", [*IN_PLACE, "calculate_gain"])
def test_signatures_are_torchs(name):
    read = lambda f: [(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()]
    assert read(getattr(nn.init, name)) == read(getattr(torch.nn.init, name))
    if name in IN_PLACE:  # without the underscore: the same, less what only an array and a stream of numbers need
        assert read(getattr(nn.init, name[:-1])) == [
            p for p in read(getattr(torch.nn.init, name)) if p[0] not in ("tensor", "generator")
        ]


def test_arguments_are_taken_as_torch_takes_them():
    init = nn.init.normal_(tensor=nn.Parameter((3,)), std=0.1, generator=None).init
    assert init.keywords == nn.init.normal_(nn.Parameter((3,)), 0.0, 0.1, None).init.keywords
    for wrong in (lambda: nn.init.normal_(), lambda: nn.init.ones_(nn.Parameter(3), generator=None)):
        with pytest.raises(TypeError):
            wrong()


def test_torch_has_no_initialiser_that_is_missing_here():
    named = {n for n in dir(torch.nn.init) if n.endswith("_") and not n.startswith("_")}
    assert {n for n in named if not hasattr(nn.init, n)} == set()


GAINS = [
    *("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("sigmoid", "tanh", "relu", "leaky_relu", "selu"),
]


@pytest.mark.parametrize("name", GAINS)
def test_gains_are_torchs(name):
    assert nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)


def test_gain_of_leaky_relu_reads_its_slope():
    assert nn.init.calculate_gain("leaky_relu", 0.3) == torch.nn.init.calculate_gain("leaky_relu", 0.3)


@pytest.mark.parametrize("name", ["kaiming_uniform", "kaiming_normal", "orthogonal"])
def test_empty_shapes_stay_empty(name):
    assert ours(name, (0, 3)).shape == (0, 3)


ERRORS = [
    (lambda: ours("eye", (3,)), "init.eye_: expected 2 dimensions"),
    (lambda: ours("dirac", (3, 3)), "init.dirac_: expected 3, 4 or 5 dimensions"),
    (lambda: ours("dirac", (4, 3, 3), groups=3), "expected the size of dimension 0 to be divisible by groups=3, got 4"),
    (lambda: ours("xavier_uniform", (3,)), "init.xavier_uniform_: fan in and fan out require at least 2 dimensions"),
    (lambda: ours("xavier_normal", ()), "init.xavier_normal_: fan in and fan out require at least 2 dimensions"),
    (lambda: ours("kaiming_uniform", (3,)), "init.kaiming_uniform_: fan in and fan out"),
    (lambda: ours("kaiming_normal", (3,)), "init.kaiming_normal_: fan in and fan out"),
    (lambda: ours("kaiming_normal", (3, 3), mode="fan_avg"), "expected mode 'fan_in' or 'fan_out', got 'fan_avg'"),
    (lambda: ours("kaiming_uniform", (3, 3), nonlinearity="gelu"), "unknown nonlinearity 'gelu'"),
    (lambda: ours("kaiming_uniform", (3, 3), a="x"), "expected a number as the negative slope, got 'x'"),
    (lambda: ours("orthogonal", (3,)), "init.orthogonal_: expected at least 2 dimensions"),
    (lambda: ours("sparse", (3, 3, 3), 0.1), "init.sparse_: expected 2 dimensions"),
    (lambda: nn.init.calculate_gain("mish"), "unknown nonlinearity 'mish'"),
    (lambda: nn.init.calculate_gain("leaky_relu", True), "expected a number as the negative slope, got True"),
]


@pytest.mark.parametrize(("call", "text"), ERRORS, ids=[text for _, text in ERRORS])
def test_errors_say_what_was_expected(call, text):
    with pytest.raises(ValueError, match=text.replace("(", r"\(")):
        call()


def test_arrays_do_not_change_in_place():
    with pytest.raises(TypeError, match=r"init.normal_: expected the description .* call nn.init.normal\(…\)"):
        nn.init.normal_(jnp.ones(3))


def test_part_of_a_leaf_can_start_otherwise():
    weight = nn.init.ones_(nn.Parameter((3, 2)))
    nn.init.constant_(weight[1], 5)
    assert weight.start(KEY, "weight").tolist() == [[1, 1], [5, 5], [1, 1]]


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 5), (2, 6, 3, 1)])
def test_fans(shape):
    assert nn.init.fans(shape) == torch.nn.init._calculate_fan_in_and_fan_out(torch.ones(shape))
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        nn.init.fans((3,))
