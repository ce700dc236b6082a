"""weight_norm, spectral_norm and orthogonal against torch's, new and old."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn, random, tree
from tests.nn.utils.training import close, double, same_state_dict, train_alike

KEY = jax.random.key(0)
slow = pytest.mark.slow


def x(*shape):
    return np.random.default_rng(shape).normal(size=shape)


def norm(kind, layer, *args, old=False, **kwargs):
    """A function of the library: the normalisation `kind` of a layer."""

    def make(library):
        functions = library.utils if old else library.utils.parametrizations
        name, sizes, options = layer
        options = {"bias": True, **options} if name != "Embedding" else options
        return getattr(functions, kind)(getattr(library, name)(*sizes, **options, **double(library)), *args, **kwargs)

    return make


LINEAR, CONV = ("Linear", (3, 4), {}), ("Conv2d", (4, 6, 3), {"groups": 2})
TRANSPOSED, LSTM = ("ConvTranspose2d", (2, 3, 2), {}), ("LSTM", (3, 4), {})

NORMS = {
    "weight": (norm("weight_norm", LINEAR), x(5, 3)),
    "weight, dim 1": (norm("weight_norm", LINEAR, dim=1), x(5, 3)),
    "weight, dim None": (norm("weight_norm", LINEAR, dim=None), x(5, 3)),
    "weight, dim -1": (norm("weight_norm", LINEAR, dim=-1), x(5, 3)),
    "weight, dim -2": (norm("weight_norm", LINEAR, dim=-2), x(5, 3)),
    "weight, bias": (norm("weight_norm", LINEAR, "bias"), x(5, 3)),
    "weight, conv": (norm("weight_norm", CONV, dim=2), x(2, 4, 5, 5)),
    "weight, lstm": (norm("weight_norm", LSTM, "weight_hh_l0"), x(5, 2, 3)),
    "spectral": (norm("spectral_norm", LINEAR), x(5, 3)),
    "spectral, bias": (norm("spectral_norm", LINEAR, "bias"), x(5, 3)),
    "spectral, conv": (norm("spectral_norm", CONV, n_power_iterations=2), x(2, 4, 5, 5)),
    "spectral, transposed": (norm("spectral_norm", TRANSPOSED), x(2, 2, 3, 3)),
    "spectral, dim -1": (norm("spectral_norm", LINEAR, dim=-1), x(5, 3)),
    "spectral, lstm": (norm("spectral_norm", LSTM, "weight_hh_l0"), x(5, 2, 3)),
    "old weight": (norm("weight_norm", LINEAR, old=True), x(5, 3)),
    "old weight, dim None": (norm("weight_norm", CONV, dim=None, old=True), x(2, 4, 5, 5)),
    "old spectral": (norm("spectral_norm", LINEAR, old=True), x(5, 3)),
    "old spectral, transposed": (norm("spectral_norm", TRANSPOSED, n_power_iterations=2, old=True), x(2, 2, 3, 3)),
}
SHAPES = {"tall": (3, 5), "wide": (5, 3), "square": (4, 4)}
ORTHOGONAL = {
    f"{kind}, {shape}, {trivial}": (
        norm("orthogonal", ("Linear", sizes, {}), orthogonal_map=kind, use_trivialization=trivial),
        x(5, sizes[0]),
    )
    for kind in ("matrix_exp", "cayley", "householder")
    for shape, sizes in SHAPES.items()
    for trivial in (True, False)
}
QUICK = {"weight", "spectral, transposed", "old weight", "old spectral", "householder, tall, False"}
CASES = [
    pytest.param(*case, id=name, marks=() if name in QUICK else slow) for name, case in {**NORMS, **ORTHOGONAL}.items()
]


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
@pytest.mark.parametrize(("make", "inputs"), CASES)
def test_trains_as_torch_does(make, inputs):
    train_alike(make, inputs)


@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
def test_checkpoints_of_the_old_functions_load_in_the_new(old):
    theirs = norm("weight_norm", LINEAR, old=True)(torch.nn)
    net = norm("weight_norm", LINEAR, old=old)(nn)
    with jax.enable_x64(True):
        params, state = net.load_state_dict(theirs.state_dict())
        close(net.apply(params, state, jnp.asarray(x(5, 3)))[0], theirs(torch.tensor(x(5, 3))))
    theirs = norm("spectral_norm", LINEAR, old=True)(torch.nn).eval()
    net = norm("spectral_norm", LINEAR, old=old)(nn)
    with jax.enable_x64(True):
        params, state = net.load_state_dict(theirs.state_dict())
        close(net.apply(params, state, jnp.asarray(x(5, 3)))[0], theirs(torch.tensor(x(5, 3))))
        assert net.match_state_dict(theirs.state_dict()) == ([], [], [])


def test_half_of_an_old_checkpoint_is_no_checkpoint():
    net = nn.utils.parametrizations.weight_norm(nn.Linear(3, 4))
    sd = {"bias": np.zeros(4), "weight_g": np.zeros((4, 1))}
    assert net.match_state_dict(sd).unexpected == ["weight_g"]


def starting_as(library, weight, kind, **kwargs):
    """A bare linear layer whose weight starts as `weight`, normalised after that."""
    rows, columns = weight.shape
    layer = library.Linear(columns, rows, bias=False, **double(library))
    layer.weight.data = torch.tensor(weight) if library is torch.nn else weight
    return getattr(library.utils.parametrizations, kind)(layer, **kwargs)


STARTS = [("weight_norm", {"dim": 1}), ("orthogonal", {"orthogonal_map": "householder", "use_trivialization": False})]
STARTS += [("orthogonal", {"orthogonal_map": "cayley", "use_trivialization": False})]
MORE_STARTS = [("orthogonal", {"orthogonal_map": name}) for name in ("matrix_exp", "cayley", "householder")]


@pytest.mark.parametrize("cases", [STARTS, pytest.param(MORE_STARTS, marks=slow)], ids=["quick", "more"])
def test_starts_as_torch_registers(cases):
    weight = np.random.default_rng(1).normal(size=(4, 4))
    with jax.enable_x64(True):
        for kind, options in cases:
            for start in (weight, np.linalg.qr(weight)[0]):  # what is orthogonal stays as it is, signs and all
                net, theirs = (starting_as(library, start, kind, **options) for library in (nn, torch.nn))
                same_state_dict(net, *net.init(KEY), theirs)


@pytest.mark.parametrize("sizes", [(3, 5), (5, 3)])
@pytest.mark.parametrize("trivial", [pytest.param(True, marks=slow), False])
def test_reflections_start_at_the_weight_made_orthogonal(sizes, trivial):
    """The completion to a square base is random in torch; the weight that comes of it is not."""
    weight = np.random.default_rng(1).normal(size=sizes)
    with jax.enable_x64(True):
        options = {"orthogonal_map": "householder", "use_trivialization": trivial}
        net, theirs = (starting_as(library, weight, "orthogonal", **options) for library in (nn, torch.nn))
        params, state = jax.jit(net.init)(KEY)
        out = net.apply(params, state, jnp.eye(sizes[1], dtype=jnp.float64))[0].T
        close(out, theirs.weight)
        tall = out if sizes[0] > sizes[1] else out.T
        close(tall.T @ tall, np.eye(3))


def test_spectral_norm_starts_with_fifteen_steps_and_moves_in_training_alone():
    weight = np.random.default_rng(1).normal(size=(3, 3))
    net = starting_as(nn, weight, "spectral_norm")
    names = [f"parametrizations.weight.0.{name}" for name in ("_u", "_v")]
    with jax.enable_x64(True):
        params, state = net.init(KEY)
        v = np.asarray(net.get_buffer(names[1]).start(random.key_for_name(KEY, names[1]), names[1]))

        def steps(v, count):
            for _ in range(count):
                u = weight @ v / np.linalg.norm(weight @ v)
                v = weight.T @ u / np.linalg.norm(weight.T @ u)
            return u, v

        vectors = lambda state: [tree.flatten(state)[name] for name in names]
        jax.tree.map(close, vectors(state), list(steps(v, 15)))
        _, same = net.apply(params, state, jnp.eye(3))
        jax.tree.map(np.testing.assert_array_equal, same, state)
        _, moved = net.apply(params, state, jnp.eye(3), training=True)
        jax.tree.map(close, vectors(moved), list(steps(v, 16)))


class Twice:
    """One normalised layer that runs twice in one forward, in either library."""

    def __new__(cls, library):
        class Net(library.Module):
            def __init__(self):
                super().__init__()
                layer = library.Linear(4, 4, **double(library))
                self.layer = library.utils.parametrizations.spectral_norm(layer)
                self.again = self.layer

            def forward(self, x):
                return self.again(self.layer(x))

        return Net()


def test_a_shared_layer_steps_at_each_call():
    torch.manual_seed(0)
    net, theirs = Twice(nn), Twice(torch.nn)
    with jax.enable_x64(True):
        params, state = net.load_state_dict(theirs.state_dict())
        out, state = net.apply(params, state, jnp.asarray(x(5, 4)), training=True)
        close(out, theirs(torch.tensor(x(5, 4))))
        same_state_dict(net, params, state, theirs)


@slow
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precisions_stay_and_are_computed_in_float32(dtype):
    for kind in ("weight_norm", "spectral_norm", "orthogonal"):
        wide = getattr(nn.utils.parametrizations, kind)(nn.Linear(4, 4, bias=False))
        net = getattr(nn.utils.parametrizations, kind)(nn.Linear(4, 4, bias=False, dtype=dtype))
        params, state = net.init(KEY)
        assert {leaf.dtype for leaf in jax.tree.leaves((params, state))} == {jnp.dtype(dtype)}
        out, after = net.apply(params, state, jnp.eye(4, dtype=dtype), training=True)
        raised = jax.tree.map(lambda a: a.astype(jnp.float32), (params, state))
        expected, _ = wide.apply(*raised, jnp.eye(4), training=True)
        assert out.dtype == dtype and jax.tree.structure(after) == jax.tree.structure(state)
        np.testing.assert_allclose(np.asarray(out, np.float32), expected, atol=2 * float(jnp.finfo(dtype).eps))


@slow
def test_a_batch_of_matrices_and_large_turns_are_orthogonal():
    for kind in ("matrix_exp", "cayley", "householder"):
        net = nn.Module()
        net.weight = nn.Parameter((2, 4, 3), nn.init.normal())
        net.forward = lambda: None
        nn.utils.parametrizations.orthogonal(net, orthogonal_map=kind)
        theirs = torch.nn.Module()
        theirs.weight = torch.nn.Parameter(torch.randn(2, 4, 3, dtype=torch.float64))
        torch.nn.utils.parametrizations.orthogonal(theirs, orthogonal_map=kind)
        large = theirs.state_dict()
        large["parametrizations.weight.original"] = torch.tensor(30 * x(2, 4, 3))
        theirs.load_state_dict(large)
        with jax.enable_x64(True):
            params, state = net.load_state_dict(large, into=jax.tree.map(jnp.float64, net.init(KEY)))
            _, _, seen = nn.capture(Reads(net), "net.parametrizations.weight")({"net": params}, {"net": state})
            close(seen["net.parametrizations.weight"], theirs.weight, kind)


class Reads(nn.Module):
    """Reads the weight of its child, which never runs."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self):
        return self.net.weight


REFUSALS = [
    (lambda u: u.weight_norm(nn.Linear(2, 2), dim=2), "dim is out of range; expected -2 to 1, got 2"),
    (lambda u: u.weight_norm(nn.Linear(2, 2), "w"), "Linear has no parameter or buffer 'w'; expected one of"),
    (lambda u: u.weight_norm(nn.LazyLinear(2)), "the shape of 'weight' is not known; expected a module"),
    (lambda u: u.spectral_norm(nn.Linear(2, 2), dim=-3), "dim is out of range; expected -2 to 1, got -3"),
    (lambda u: u.spectral_norm(nn.Linear(2, 2), n_power_iterations=0), "expected a positive number, got 0"),
    (
        lambda u: u.orthogonal(nn.Linear(2, 2), "bias"),
        "can be orthogonal; expected 'bias' to have at least 2 dimensions",
    ),
    (lambda u: u.orthogonal(nn.Linear(2, 2), orthogonal_map="qr"), "orthogonal_map is unknown; expected one of"),
    (lambda u: u.orthogonal(unitary(), orthogonal_map="householder"), "reflections cannot parametrize complex"),
    (lambda u: nn.utils.spectral_norm(nn.Linear(2, 2), n_power_iterations=0), "expected a positive number, got 0"),
    (lambda u: nn.utils.spectral_norm(nn.Linear(2, 2), dim=2), "dim is out of range; expected -2 to 1, got 2"),
    (lambda u: nn.utils.weight_norm(nn.Linear(2, 2), "w"), "utils.weight_norm: Linear has no parameter"),
]


def unitary():
    net = nn.Module()
    net.weight = nn.Parameter((2, 2), nn.init.normal(), dtype=jnp.complex64)
    return net


@pytest.mark.parametrize(("call", "text"), REFUSALS, ids=[text for _, text in REFUSALS])
def test_refusals_say_why(call, text):
    with pytest.raises(ValueError, match=text):
        call(nn.utils.parametrizations)


@pytest.mark.parametrize("dim", [2, -3])
def test_a_refused_spectral_norm_leaves_the_module_as_it_was(dim):
    layer = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="dim is out of range"):
        nn.utils.spectral_norm(layer, dim=dim)
    assert list(layer.init(jax.random.key(0))[0]) == list(dict(torch.nn.Linear(2, 2).named_parameters()))


def test_cayley_alone_cannot_be_assigned_to():
    layer = nn.utils.parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="cayley", use_trivialization=False)
    layer.weight = jnp.eye(2)
    with pytest.raises(
        NotImplementedError, match="orthogonal_map='cayley' and use_trivialization=False, which have no right inverse"
    ):
        layer.init(KEY)
    layer = nn.utils.parametrizations.orthogonal(nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"expected an array that broadcasts to shape \(2, 2\), got shape \(3, 3\)"):
        layer.weight = jnp.eye(3)
