"""One's own parametrizations: against torch's, and in everything that a description meets."""

import copy
import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn, tree
from funcnet.nn.core.module_tree import description_of
from funcnet.nn.state_dict import state_dict_hooks
from funcnet.nn.utils import parametrizations, parametrize
from tests.nn.utils.training import close, double, same_state_dict, train_alike

KEY = jax.random.key(0)
X = jnp.arange(12.0).reshape(4, 3) / 7
WEIGHT = "parametrizations.weight"


def same(a, b, tolerance=1e-5):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance), a, b)


def own(library):
    """(Symmetric, RankOne, Scaled) of a library: one original, two originals, a parameter and a buffer of its own."""
    ours = library is nn
    triu = jnp.triu if ours else torch.triu

    class Symmetric(library.Module):
        def forward(self, x):
            return triu(x) + triu(x, 1).T

        def right_inverse(self, a):
            return triu(a)

    class RankOne(library.Module):
        def forward(self, x, y):
            return x[:, None] * y[None, :]

        def right_inverse(self, z):
            return z.sum(1), z.sum(0)

    class Scaled(library.Module):
        def __init__(self):
            super().__init__()
            shape = (3,) if ours else torch.full((3,), 1.5, dtype=torch.float64)
            how = {"init": nn.init.constant(1.5), "dtype": jnp.float64} if ours else {}
            self.scale = library.Parameter(shape, **how)
            calls = nn.Buffer((), dtype=jnp.float64) if ours else torch.zeros((), dtype=torch.float64)
            self.register_buffer("calls", calls)

        def forward(self, x):
            if self.training:
                self.calls = self.calls + 1
            return x * self.scale + 0.1 * self.calls

    return Symmetric, RankOne, Scaled


def registered(library, *numbers, unsafe=False):
    layer = library.Linear(3, 3, **double(library))
    for number in numbers:
        library.utils.parametrize.register_parametrization(layer, "weight", own(library)[number](), unsafe=unsafe)
    return layer


@pytest.mark.parametrize("numbers", [(1, 0), pytest.param((2, 0, 2), marks=pytest.mark.slow)], ids=["two", "chain"])
def test_trains_as_torch_does(numbers):
    train_alike(lambda library: registered(library, *numbers, unsafe=2 in numbers), np.asarray(X, float))


def test_a_parametrized_buffer_is_state():
    def make(library):
        class Net(library.Module):
            def __init__(self):
                super().__init__()
                self.fc = library.Linear(3, 3, **double(library))
                table = np.arange(9.0).reshape(3, 3)
                self.register_buffer("table", table if library is nn else torch.tensor(table))
                library.utils.parametrize.register_parametrization(self, "table", own(library)[0]())

            def forward(self, x):
                return self.fc(x) @ self.table

        return Net()

    _, _, state = train_alike(make, np.asarray(X, float))
    assert list(tree.flatten(state)) == ["parametrizations.table.original"]


# ------------------------------------------------------------------------------------------------------- the start


def test_the_weight_starts_as_it_would_have():
    plain = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    expected, _ = plain.init(KEY)
    net = copy.deepcopy(plain)
    parametrizations.weight_norm(net[0])
    parametrizations.spectral_norm(net[1])
    params, _ = net.init(KEY)
    same(params["0"]["parametrizations"]["weight"]["original1"], expected["0"]["weight"], 0)
    same(params["1"]["parametrizations"]["weight"]["original"], expected["1"]["weight"], 0)
    same(params["0"]["bias"], expected["0"]["bias"], 0)
    same(nn.utils.weight_norm(nn.Linear(3, 3)).init(KEY)[0]["weight_v"], nn.Linear(3, 3).init(KEY)[0]["weight"], 0)
    same(nn.utils.spectral_norm(nn.Linear(3, 3)).init(KEY)[0]["weight_orig"], nn.Linear(3, 3).init(KEY)[0]["weight"], 0)


def weight_of(layer, params, state, **kwargs):
    return layer.apply(params, state, jnp.eye(3), **kwargs)[0].T - params.get("bias", jnp.zeros(3))[:, None]


def test_a_start_given_afterwards_is_the_weights():
    layer = parametrizations.weight_norm(nn.Linear(3, 3))
    nn.init.constant_(layer.weight, 0.5)
    same(weight_of(layer, *layer.init(KEY)), jnp.full((3, 3), 0.5))
    layer.weight.data = np.arange(1.0, 10).reshape(3, 3)
    same(weight_of(layer, *layer.init(KEY)), jnp.arange(1.0, 10).reshape(3, 3))
    assert layer.weight.shape == (3, 3) and layer.weight.numel() == 9 and layer.weight.requires_grad
    assert repr(layer.weight) == "Parametrized((3, 3), dtype=float32)"


def test_assigning_goes_back_through_the_whole_chain():
    value = np.array([[1.0, 2, 3], [2, 4, 5], [3, 5, 6]])

    class Doubled(nn.Module):
        def forward(self, x):
            return 2 * x

        def right_inverse(self, x):
            return x / 2

    class TorchDoubled(torch.nn.Module):
        forward, right_inverse = Doubled.forward, Doubled.right_inverse

    net, theirs = registered(nn, 0), registered(torch.nn, 0)
    parametrize.register_parametrization(net, "weight", Doubled())
    torch.nn.utils.parametrize.register_parametrization(theirs, "weight", TorchDoubled())
    net.weight = value
    theirs.weight = torch.tensor(value)
    with jax.enable_x64(True):
        params, state = net.init(KEY)
        original = params["parametrizations"]["weight"]["original"]
        close(original, theirs.parametrizations.weight.original)
        close(weight_of(net, params, state), value)
        net, theirs = registered(nn, 0), registered(torch.nn, 0)  # not assigned: the second acts on what was there
        parametrize.register_parametrization(net, "weight", Doubled())
        plain = nn.Linear(3, 3, **double(nn)).init(KEY)[0]["weight"]
        close(net.init(KEY)[0]["parametrizations"]["weight"]["original"], np.triu(plain))


# ------------------------------------------------------------------------------------- when it is computed, and where


class Counted(nn.Module):
    """The identity, and how often it was run."""

    def __init__(self):
        super().__init__()
        self.runs = nn.Buffer((), dtype=jnp.int32)
        self.traced = [0]

    def forward(self, x):
        self.runs = self.runs + 1
        return x


def counted(layer, name="weight"):
    return parametrize.register_parametrization(layer, name, Counted())


class Uses(nn.Module):
    """Runs `run(self, x)`; its weight and its child's are counted."""

    def __init__(self, run):
        super().__init__()
        self.weight = nn.Parameter((3, 3), nn.init.eye())
        self.child = counted(nn.Linear(3, 3))
        self.run = run
        counted(self)

    def forward(self, x):
        return self.run(self, x)


def runs(run, **kwargs):
    """(of the net's own weight, of its child's) how often they were computed."""
    net = Uses(run)
    params, state = net.init(KEY)
    state = net.apply(params, state, X, **kwargs)[1]
    return [int(s["parametrizations"]["weight"]["0"]["runs"]) for s in (state, state["child"])]


def test_once_for_each_call_and_at_each_reading_from_outside():
    assert runs(lambda self, x: x @ self.weight @ self.weight) == [1, 0]
    assert runs(lambda self, x: self.child(self.child(x))) == [1, 2]
    assert runs(lambda self, x: x @ self.child.weight @ self.child.weight) == [1, 2]
    assert runs(lambda self, x: jax.lax.scan(lambda h, _: (h @ self.weight, None), x, None, 3)[0]) == [1, 0]
    assert runs(lambda self, x: nn.remat(description_of(self).child).apply(*self.subtree("child"), x)[0]) == [1, 0]


def test_a_method_reads_it_too():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = parametrizations.weight_norm(nn.Linear(3, 3))

        def penalty(self):
            return jnp.sum(self.fc.weight**2)

    net = Net()
    params, state = net.init(KEY)
    same(net.apply(params, state, method="penalty")[0], jnp.sum(weight_of(net.fc, params["fc"], state["fc"]) ** 2))
    child = counted(nn.Linear(3, 3))
    assert int(child.apply(*child.init(KEY), X, method="forward")[1]["parametrizations"]["weight"]["0"]["runs"]) == 1


def test_stepping_inside_a_transformation_of_ones_own_is_refused():
    net = Uses(lambda self, x: jax.lax.scan(lambda h, _: (self.child(h), None), x, None, 3)[0])
    with pytest.raises(
        ValueError, match=r"child.parametrizations.weight.0 \(Counted\): the buffer '_?\w+' is assigned"
    ):
        net.apply(*net.init(KEY), X)


def test_an_attribute_that_is_not_there_is_still_an_error():
    net = Uses(lambda self, x: self.nothing)
    with pytest.raises(AttributeError, match="'Uses' object has no attribute 'nothing'"):
        net.apply(*net.init(KEY), X)
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'nothing'"):
        nn.Linear(2, 2).nothing  # noqa: B018


# ------------------------------------------------------------------------------------------------ among other things


def layer(width=3):
    return nn.Sequential(
        parametrizations.weight_norm(nn.Linear(width, width)),
        parametrizations.spectral_norm(nn.Linear(width, width)),
    )  # fmt: skip


@pytest.mark.slow
def test_repeat_as_loop_and_as_scan_and_recomputed():
    loop, scan = nn.Repeat(layer(), 2), nn.Repeat(layer(), 2, scan=True)
    remat = nn.Repeat(nn.remat(layer()), 2)
    start = loop.init(KEY)
    same(scan.init(KEY), (scan.stack(start[0]), scan.stack(start[1])), 0)

    def run(net, params, state):
        def loss(params):
            out, after = net.apply(params, state, X, training=True)
            return jnp.sum(out**2), after

        return jax.jit(jax.grad(loss, has_aux=True))(params)

    gradient, after = run(loop, *start)
    stacked_gradient, stacked_after = run(scan, *scan.init(KEY))
    same(gradient, scan.unstack(stacked_gradient), 1e-4)
    same(after, scan.unstack(stacked_after))
    same(run(remat, *start), (gradient, after), 1e-4)
    assert list(scan.state_dict(*scan.init(KEY))) == list(loop.state_dict(*start))
    same(scan.load_state_dict(loop.state_dict(*start)), scan.init(KEY), 0)


def test_old_names_load_in_every_layer_of_a_stack():
    old = nn.Repeat(nn.utils.weight_norm(nn.Linear(3, 3)), 2, scan=True)
    new = nn.Repeat(parametrizations.weight_norm(nn.Linear(3, 3)), 2, scan=True)
    same(new.load_state_dict(old.state_dict(*old.init(KEY))), new.init(KEY), 0)


def test_vmap_and_forward_mode_in_one_program():
    net = layer()
    params, state = net.init(KEY)
    run = functools.partial(net.apply, training=True)

    @jax.jit
    def everything(params):
        double = lambda tree: jax.tree.map(lambda a: 2 * a, tree)
        several = jax.tree.map(lambda a: jnp.stack([a, 2 * a]), params)
        together = jax.vmap(lambda p: run(p, state, X))(several)
        loss = lambda p: jnp.sum(run(p, state, X)[0] ** 2)
        gradient, along = jax.grad(loss)(params), jax.tree.map(jnp.ones_like, params)
        apart = run(double(params), state, X)
        return together, apart, gradient, jax.jvp(loss, (params,), (along,))[1]

    together, apart, gradient, forward = everything(params)
    same(jax.tree.map(lambda a: a[1], together), apart)
    same(forward, sum(np.sum(leaf) for leaf in jax.tree.leaves(gradient)), 1e-3)


def test_copies_are_nets_of_their_own():
    net = layer()
    params, state = net.init(KEY)
    for made in (copy.deepcopy(net), copy.copy(net), pickle.loads(pickle.dumps(net))):
        same(made.init(KEY), (params, state), 0)
        assert repr(made) == repr(net)
    apart = copy.deepcopy(net)
    nn.init.zeros_(apart[0].weight)
    same(net.init(KEY), (params, state), 0)
    before = net.init
    hash(before)
    nn.init.zeros_(net[0].weight)
    assert before != net.init, "jax.jit(net.init) sees a new start"


def test_a_tie_stays_on_the_original():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embeddings, self.decoder = nn.Embedding(5, 3), nn.Linear(3, 5)
            self.decoder.weight = self.embeddings.weight
            self.child = parametrizations.spectral_norm(self.decoder)

        def forward(self, ids):
            return self.child(self.embeddings(ids))

    net = Tied()
    params, state = net.init(KEY)
    assert list(tree.flatten(params)) == ["embeddings.weight", "decoder.bias"]
    assert "decoder.parametrizations.weight.original" in net.state_dict(params, state)
    out, after = net.apply(params, state, jnp.arange(5), training=True)
    vectors = after["decoder"]["parametrizations"]["weight"]["0"]
    sigma = vectors["_u"] @ params["embeddings"]["weight"] @ vectors["_v"]
    table = params["embeddings"]["weight"]
    same(out, table @ table.T / sigma + params["decoder"]["bias"])
    plain, trees, after = parametrize.remove_parametrizations(net, "decoder.weight", params, after)
    same(trees["embeddings"]["weight"], table / sigma)
    assert plain.decoder.weight is plain.embeddings.weight and net.decoder.weight is not net.embeddings.weight


def test_one_parametrization_of_two_weights_is_one():
    shared = parametrize.register_parametrization
    _, _, Scaled = own(nn)
    scaled, net = Scaled(), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    for one in net:
        shared(one, "weight", scaled, unsafe=True)
    params, _ = net.init(KEY)
    assert [name for name in tree.flatten(params) if "scale" in name] == ["0.parametrizations.weight.0.scale"]


def test_freezing_and_patterns_reach_the_originals():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[0].requires_grad_(False)
    for one in net:
        parametrizations.weight_norm(one)
    params, state = net.init(KEY)
    trained, frozen = net.partition(params)
    assert not tree.flatten(trained["0"]) and not tree.flatten(frozen["1"])
    gradient = jax.grad(lambda p: net.apply(p, state, X)[0].sum())(params)
    assert not any(jnp.any(leaf) for leaf in jax.tree.leaves(gradient["0"]))
    assert all(jnp.any(leaf) for leaf in jax.tree.leaves(gradient["1"]["parametrizations"]["weight"]["original1"]))
    chosen, _ = tree.partition(params, "**.weight")
    assert len(tree.flatten(chosen)) == 4
    off = net.apply(params, state, X, training={"0.parametrizations": True})
    same(off[0], net.apply(params, state, X)[0], 0)


# --------------------------------------------------------------------------------------------- removing, carrying over


def test_removed_as_torch_removes():
    torch.manual_seed(0)
    for kind in ("weight_norm", "spectral_norm"):
        make = lambda library, kind=kind: library.Sequential(
            getattr(library.utils.parametrizations, kind)(library.Linear(3, 3, **double(library)))
        )
        net, theirs = make(nn), make(torch.nn).eval()
        with jax.enable_x64(True):
            params, state = net.load_state_dict(theirs.state_dict())
            inputs = jnp.asarray(np.asarray(X), jnp.float64)
            before = net.apply(params, state, inputs)[0]
            plain, trees, after = parametrize.remove_parametrizations(net, "0.weight", params, state)
            torch.nn.utils.parametrize.remove_parametrizations(theirs[0], "weight")
            same_state_dict(plain, trees, after, theirs)
            close(plain.apply(trees, after, inputs)[0], before)
            close(net.apply(params, state, inputs)[0], before)
        assert repr(plain) == repr(theirs) and not parametrize.is_parametrized(plain[0])
        assert plain.init(KEY)[0]["0"]["weight"].shape == (3, 3)
        assert not state_dict_hooks.registered(plain[0])


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
@pytest.mark.parametrize("both", [False, True], ids=["one", "both"])
@pytest.mark.parametrize("kind", ["parametrizations.weight_norm", "weight_norm", "spectral_norm"])
def test_removed_from_one_of_two_that_were_tied(kind, both):
    """What is made of several arrays is tied to nothing any more: the other keeps its own weight, as in torch."""
    torch.manual_seed(0)
    old = "parametrizations" not in kind

    def make(library):
        net = library.Sequential(*(library.Linear(3, 3, **double(library)) for _ in range(2)))
        net[1].weight = net[0].weight
        for one in net[: 2 if both else 1]:
            functools.reduce(getattr, kind.split("."), library.utils)(one)
        return net

    net, theirs = make(nn), make(torch.nn).eval()
    with jax.enable_x64(True):
        sd = {name: value * (2 + i) for i, (name, value) in enumerate(theirs.state_dict().items())}
        theirs.load_state_dict(sd)
        params, state = net.load_state_dict(theirs.state_dict())
        inputs = jnp.asarray(np.asarray(X), jnp.float64)
        for number in range(2 if both else 1):
            if old:
                trees = getattr(nn.utils, f"remove_{kind}")(net, f"{number}.weight", params, state)
                getattr(torch.nn.utils, f"remove_{kind}")(theirs[number])
            else:
                trees = parametrize.remove_parametrizations(net, f"{number}.weight", params, state)
                torch.nn.utils.parametrize.remove_parametrizations(theirs[number], "weight")
            net, params, state = trees
        same_state_dict(net, params, state, theirs)
        close(net.apply(params, state, inputs)[0], theirs(torch.tensor(np.asarray(inputs))))
    assert net[0].weight is not net[1].weight


@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm"])
def test_what_is_frozen_stays_frozen_at_removal(kind):
    make = lambda library: getattr(library.utils.parametrizations, kind)(library.Linear(3, 3)).requires_grad_(False)
    net, theirs = make(nn), make(torch.nn)
    assert not net.weight.requires_grad and not theirs.weight.requires_grad
    plain, *_ = parametrize.remove_parametrizations(net, "weight", *net.init(KEY))
    torch.nn.utils.parametrize.remove_parametrizations(theirs, "weight")
    assert not plain.weight.requires_grad and not theirs.weight.requires_grad
    assert net.requires_grad_(True).weight.requires_grad


def test_the_old_ones_stay_frozen_too():
    net = nn.utils.weight_norm(nn.Linear(3, 3)).requires_grad_(False)
    assert not net.weight.requires_grad
    assert not nn.utils.remove_weight_norm(net, "weight", *net.init(KEY))[0].weight.requires_grad


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
def test_the_old_ones_are_removed_too():
    for kind in ("weight_norm", "spectral_norm"):
        make = lambda library, kind=kind: getattr(library.utils, kind)(library.Linear(3, 3, **double(library)))
        net, theirs = make(nn), make(torch.nn)
        with jax.enable_x64(True):
            params, state = net.load_state_dict(theirs.state_dict())
            plain, trees, after = getattr(nn.utils, f"remove_{kind}")(net, "weight", params, state)
            getattr(torch.nn.utils, f"remove_{kind}")(theirs)
            same_state_dict(plain, trees, after, theirs)
        assert repr(plain) == repr(theirs)
        assert kind == "weight_norm" or not state_dict_hooks.registered(plain)
    with pytest.raises(
        ValueError,
        match=r"utils.remove_weight_norm: 'weight' is not a computed attribute of this kind; expected one of \[\]",
    ):
        nn.utils.remove_weight_norm(plain, "weight", trees, after)


def test_every_layer_of_a_stack_is_left_as_it_is():
    scan = nn.Repeat(layer(), 2, scan=True)
    params, state = scan.init(KEY)
    plain, trees, after = parametrize.remove_parametrizations(scan, "*.0.weight", params, state)
    plain, trees, after = parametrize.remove_parametrizations(plain, "*.1.weight", trees, after)
    same(plain.apply(trees, after, X)[0], scan.apply(params, state, X)[0])
    assert list(tree.flatten(trees)) == ["*.0.bias", "*.0.weight", "*.1.bias", "*.1.weight"] and not tree.flatten(after)


def test_left_unparametrized():
    net, theirs = registered(nn, 0), registered(torch.nn, 0)
    with jax.enable_x64(True):
        params, state = net.load_state_dict(theirs.state_dict())
        plain, trees, state = parametrize.remove_parametrizations(net, "weight", params, state, False)
        torch.nn.utils.parametrize.remove_parametrizations(theirs, "weight", False)
        same_state_dict(plain, trees, state, theirs)
    net = registered(nn, 1)
    with pytest.raises(ValueError, match="'weight' is computed from 2 arrays, none of which is its original value"):
        parametrize.remove_parametrizations(net, "weight", *net.init(KEY), leave_parametrized=False)


@pytest.mark.slow
def test_weights_that_were_trained_before_are_carried_over():
    plain = nn.Repeat(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), 2, scan=True)
    params, state = plain.init(KEY)
    params = jax.tree.map(lambda a: 3 * a + 0.1, params)
    net = copy.deepcopy(plain)
    parametrizations.weight_norm(net.get_submodule("*.0"))
    new = parametrize.carry_over(net, params, state, KEY)
    assert jax.tree.structure(new) == jax.tree.structure(net.init(KEY))
    same(net.apply(*new, X)[0], plain.apply(params, state, X)[0])
    spectral = parametrizations.spectral_norm(nn.Linear(3, 3))
    dense, _ = nn.Linear(3, 3).init(KEY)
    dense = jax.tree.map(lambda a: 5 * a, dense)
    new, vectors = parametrize.carry_over(spectral, dense, {}, KEY)
    sigma = jnp.linalg.norm(dense["weight"], 2)
    same(weight_of(spectral, new, vectors), dense["weight"] / sigma, 1e-3)
    with pytest.raises(
        ValueError, match=r"carry_over: params and state have no 'bias'; expected the arrays of the net"
    ):
        parametrize.carry_over(spectral, {"weight": dense["weight"]}, {}, KEY)
    with pytest.raises(
        ValueError,
        match=r"carry_over: params and state have entries that the net does not have;.* additional entries \['more'\]",
    ):
        parametrize.carry_over(spectral, {**dense, "more": dense["bias"]}, {}, KEY)


@pytest.mark.parametrize("places", [(0,), (1,), (0, 1)], ids=["first", "second", "both"])
def test_two_that_were_tied_start_equal_and_are_carried_over(places):
    plain = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    plain[1].weight = plain[0].weight
    net = copy.deepcopy(plain)
    for place in places:
        parametrizations.weight_norm(net[place])

    def weights(trees):
        whole = net.state_dict(*trees)
        ends = [WEIGHT + ".original1" if place in places else "weight" for place in range(2)]
        return [whole[f"{place}.{end}"] for place, end in enumerate(ends)]

    first, second = weights(net.init(KEY))
    np.testing.assert_array_equal(first, second)
    params, state = plain.init(KEY)
    new = parametrize.carry_over(net, params, state, KEY)
    for weight in weights(new):
        np.testing.assert_array_equal(weight, params["0"]["weight"])
    same(net.apply(*new, X)[0], plain.apply(params, state, X)[0])


# --------------------------------------------------------------------------------------------------------- refusals


def parametrization(forward, inverse=None):
    class Own(nn.Module):
        pass

    Own.forward = lambda self, x: forward(x)
    if inverse is not None:
        Own.right_inverse = lambda self, x: inverse(x)
    return Own()


def register(one, before=None, **kwargs):
    made = nn.Linear(2, 2)
    if before is not None:
        parametrize.register_parametrization(made, "weight", before)
    return parametrize.register_parametrization(made, "weight", one, **kwargs)


REFUSALS = [
    (lambda: register(parametrization(lambda x: x[:1])), "the parametrized tensor changes the shape; expected"),
    (lambda: register(parametrization(lambda x: x.astype(jnp.bfloat16))), "tensor changes the dtype; expected float32"),
    (
        lambda: register(parametrization(lambda x: x, lambda x: x.astype(jnp.int32))),
        "right_inverse.* changes the dtype",
    ),
    (lambda: register(parametrization(lambda x: (x, x))), "Own.forward: expected an array, got tuple"),
    (lambda: register(parametrization(lambda x: x, lambda x: "x")), "Own.right_inverse: expected an array or several"),
    (
        lambda: register(parametrization(lambda x: x, lambda x: (x, 1.0))),
        "expected an array or several arrays, got float",
    ),
    (lambda: register(parametrization(lambda x: x[0]), parametrization(lambda x: x)), "changes the shape; expected"),
    (
        lambda: register(parametrization(lambda x: x, lambda x: (x, x)), parametrization(lambda x: x)),
        "only the first parametrization may have several originals",
    ),
    (
        lambda: register(parametrization(lambda x: x, lambda x: x[0]), parametrization(lambda x: x)),
        "right_inverse changes the shape",
    ),
    (lambda: parametrize.ParametrizationList([], nn.Parameter(2)), "expected at least one parametrization, got none"),
    (
        lambda: parametrize.remove_parametrizations(nn.Linear(2, 2), "bias", *nn.Linear(2, 2).init(KEY)),
        r"remove_parametrizations: 'bias' is not a computed attribute of this kind; expected one of \[\] \(there are "
        r"none\), got Parameter",
    ),
]


@pytest.mark.parametrize(("call", "text"), REFUSALS, ids=[text for _, text in REFUSALS])
def test_refusals_say_why(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_what_computes_it_must_go_before_the_attribute():
    made = parametrizations.weight_norm(nn.Linear(2, 2))
    with pytest.raises(
        ValueError, match=r"Linear.weight: this attribute is computed from other leaves, so it cannot be deleted"
    ):
        del made.weight
    with pytest.raises(
        TypeError, match=r"Linear.weight: this attribute is parametrized, so only an array .*; got Param"
    ):
        made.weight = nn.Parameter((2, 2))
    with pytest.raises(
        TypeError, match=r"Linear.weight: this attribute is computed .* so nothing can be assigned to it; got nd"
    ):
        nn.utils.weight_norm(nn.Linear(2, 2)).weight = np.eye(2)
    with pytest.raises(
        ValueError,
        match=r"Linear.weight: Own does not implement right_inverse; assigning a value requires right_inverse in every",
    ):
        register(parametrization(lambda x: x)).weight = np.eye(2)
    with pytest.raises(TypeError, match=r"expected a Parameter or None, got Parametrized"):
        nn.Linear(2, 2).weight = made.weight


def test_unsafe_may_change_the_shape():
    made = nn.Linear(2, 2, bias=False)
    widened = parametrization(lambda x: jnp.concatenate([x, x]))
    parametrize.register_parametrization(made, "weight", widened, unsafe=True)
    params, state = made.init(KEY)
    assert made.weight.shape == (4, 2) and made.apply(params, state, jnp.ones((1, 2)))[0].shape == (1, 4)
    plain, trees, state = parametrize.remove_parametrizations(made, "weight", params, state)
    assert plain.weight.shape == trees["weight"].shape == (4, 2)
