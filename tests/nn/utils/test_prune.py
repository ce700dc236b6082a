"""Pruning against torch's: the same masks for the same weights, one after the other, and what is trained with them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils import prune as torch_prune

from funcnet import nn
from funcnet.nn.utils import prune
from tests.nn.utils.training import close, double, same_state_dict

KEY = jax.random.key(0)
INF = float("inf")


def start(sizes=(4, 6), library_layer="Linear", **kwargs):
    """(ours, params, state, torch's) with torch's weights."""
    theirs = getattr(torch.nn, library_layer)(*sizes, **kwargs, **double(torch.nn))
    net = getattr(nn, library_layer)(*sizes, **kwargs, **double(nn))
    return net, *net.load_state_dict(theirs.state_dict()), theirs


def both(pruned, theirs, method, *args, name="weight", scores=None):
    """One more pruning in each library; ours."""
    more = {} if scores is None else {"importance_scores": scores}
    pruned = getattr(prune, method)(pruned[0], name, *pruned[1:], *args, **more)
    more = {} if scores is None else {"importance_scores": torch.tensor(np.asarray(scores))}
    getattr(torch_prune, method)(theirs, name, *args, **more)
    return pruned


CHAINS = {
    "smallest": [("l1_unstructured", 0.3), ("l1_unstructured", 5), ("l1_unstructured", 0.5)],
    "channels": [("ln_structured", 0.25, 2, 0), ("ln_structured", 1, INF, 1), ("ln_structured", 0.5, 1, -1)],
    "mixed": [("ln_structured", 2, -INF, 0), ("l1_unstructured", 0.3), ("ln_structured", 1, "fro", 1), ("identity",)],
    "none": [("identity",), ("l1_unstructured", 0), ("l1_unstructured", 0.0), ("ln_structured", 0, 2, 0)],
    "all": [("l1_unstructured", 1.0), ("l1_unstructured", 0.5)],
    "odd norms": [("ln_structured", 1, -1, 1), ("ln_structured", 1, 3.5, 0), ("l1_unstructured", 1)],
    "counts": [("l1_unstructured", 1), ("ln_structured", 1, 0, 0)],
}


@pytest.mark.parametrize(
    "chain",
    [
        pytest.param(chain, marks=() if name in ("smallest", "mixed") else pytest.mark.slow, id=name)
        for name, chain in CHAINS.items()
    ],
)
def test_one_after_the_other_as_torch(chain):
    torch.manual_seed(3)
    with jax.enable_x64(True):
        *pruned, theirs = start()
        for method, *args in chain:
            pruned = both(pruned, theirs, method, *args)
            same_state_dict(*pruned, theirs, 0)
        x = np.random.default_rng(0).normal(size=(5, 4))
        close(pruned[0].apply(*pruned[1:], jnp.asarray(x))[0], theirs(torch.tensor(x)))
        assert prune.is_pruned(pruned[0]) and torch_prune.is_pruned(theirs)
        assert repr(pruned[0]) == repr(theirs)
        pruned = prune.remove(pruned[0], "weight", *pruned[1:])
        torch_prune.remove(theirs, "weight")
        same_state_dict(*pruned, theirs, 0)
        assert not prune.is_pruned(pruned[0])


def test_convolutions_biases_and_scores():
    torch.manual_seed(0)
    with jax.enable_x64(True):
        *pruned, theirs = start((4, 6, 3), "Conv1d", groups=2)
        scores = np.random.default_rng(0).normal(size=(6, 2, 3))
        pruned = both(pruned, theirs, "ln_structured", 0.5, "nuc", 1)
        pruned = both(pruned, theirs, "l1_unstructured", 0.4, scores=scores)
        pruned = both(pruned, theirs, "ln_structured", 2, 2, 0, scores=scores)
        pruned = both(pruned, theirs, "l1_unstructured", 2, name="bias")
        same_state_dict(*pruned, theirs, 0)
        mask = np.array([0, 1, 1, 1, 1, 0])
        pruned = prune.custom_from_mask(pruned[0], "bias", *pruned[1:], mask=mask)
        torch_prune.custom_from_mask(theirs, "bias", torch.tensor(mask))
        same_state_dict(*pruned, theirs, 0)


@pytest.mark.slow
@given(st.data())
def test_hypothesis_masks_are_torchs(data):
    rows, columns = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    seed = data.draw(st.integers(0, 10**6))
    with jax.enable_x64(True):
        torch.manual_seed(seed)
        *pruned, theirs = start((columns, rows))
        for _ in range(data.draw(st.integers(1, 4))):
            amount = data.draw(st.floats(0, 1))
            if data.draw(st.booleans()):
                args = ("l1_unstructured", amount)
            else:
                args = ("ln_structured", amount, data.draw(st.sampled_from([1, 2, INF])), data.draw(st.integers(-2, 1)))
            pruned = both(pruned, theirs, *args)
            same_state_dict(*pruned, theirs, 0)


def test_ties_prune_as_many_of_the_same_size():
    """Which of equal entries goes is an accident of torch's sort; how many, and of which size, is not."""
    weight = np.resize([3.0, 1.0, 2.0, 1.0, 2.0], (6, 4))
    with jax.enable_x64(True):
        for amount in (1, 5, 7, 10, 15, 23):
            net, params, state, theirs = start()
            theirs.weight.data = torch.tensor(weight)
            params["weight"] = jnp.asarray(weight)
            _, _, state = both((net, params, state), theirs, "l1_unstructured", amount)
            left = [
                np.sort(np.abs(weight * mask).ravel()) for mask in (state["weight_mask"], theirs.weight_mask.numpy())
            ]
            np.testing.assert_array_equal(*left)
            gone = np.flatnonzero(np.asarray(state["weight_mask"]).ravel() == 0)
            np.testing.assert_array_equal(np.sort(np.argsort(weight.ravel(), kind="stable")[:amount]), gone)


def test_training_leaves_what_is_pruned_alone():
    torch.manual_seed(0)
    x = np.random.default_rng(0).normal(size=(5, 4))
    with jax.enable_x64(True):
        *pruned, theirs = start()
        net, params, state = both(pruned, theirs, "l1_unstructured", 0.5)
        loss = lambda p: jnp.sum(jnp.sin(net.apply(p, state, jnp.asarray(x))[0]))
        step = jax.jit(lambda p: jax.tree.map(lambda p, g: p - 0.1 * g, p, jax.grad(loss)(p)))
        optimizer = torch.optim.SGD(theirs.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            torch.sin(theirs(torch.tensor(x))).sum().backward()
            optimizer.step()
            params = step(params)
        same_state_dict(net, params, state, theirs)


def net_of_two(library):
    return library.Sequential(library.Linear(3, 4, **double(library)), library.Linear(4, 2, **double(library)))


def test_globally_as_torch():
    torch.manual_seed(0)
    with jax.enable_x64(True):
        theirs, net = net_of_two(torch.nn), net_of_two(nn)
        pruned = net, *net.load_state_dict(theirs.state_dict())
        names, places = (
            ["1.weight", "0.weight", "0.bias"],
            [(theirs[1], "weight"), (theirs[0], "weight"), (theirs[0], "bias")],
        )
        for amount in (0.3, 4):
            pruned = prune.global_unstructured(
                pruned[0], names, *pruned[1:], pruning_method=prune.L1Unstructured, amount=amount
            )
            torch_prune.global_unstructured(places, torch_prune.L1Unstructured, amount=amount)
            same_state_dict(*pruned, theirs, 0)
        scores = np.random.default_rng(0).normal(size=(4, 3))
        pruned = prune.global_unstructured(
            pruned[0], names, *pruned[1:], prune.L1Unstructured, {"0.weight": scores}, amount=0.5
        )
        scores = {(theirs[0], "weight"): torch.tensor(scores)}
        torch_prune.global_unstructured(places, torch_prune.L1Unstructured, scores, amount=0.5)
        same_state_dict(*pruned, theirs, 0)


@pytest.mark.slow
def test_random_ones_prune_as_many_elsewhere_at_each_key():
    net, params, state = nn.Linear(8, 16), {"weight": np.ones((16, 8), np.float32), "bias": np.ones(16)}, {}
    masks = []
    for seed in (0, 1):
        first = prune.random_unstructured(net, "weight", params, state, 0.25, rng=jax.random.key(seed))
        second = prune.random_unstructured(first[0], "weight", *first[1:], 0.25, rng=jax.random.key(seed))
        masks.append(np.asarray(second[2]["weight_mask"]))
        assert first[2]["weight_mask"].sum() == 96 and masks[-1].sum() == 72
        assert not (masks[-1] > np.asarray(first[2]["weight_mask"])).any()
    assert (masks[0] != masks[1]).any()
    rows = prune.random_structured(net, "weight", params, state, 0.25, 0, rng=KEY)
    rows = prune.random_structured(rows[0], "weight", *rows[1:], 3, 0, rng=KEY)
    kept = np.asarray(rows[2]["weight_mask"]).sum(1)
    assert sorted(set(kept.tolist())) == [0, 8] and (kept == 8).sum() == 9


def test_a_stack_is_pruned_layer_by_layer():
    loop, scan = nn.Repeat(nn.Linear(4, 4), 3), nn.Repeat(nn.Linear(4, 4), 3, scan=True)
    start = loop.init(KEY)
    one = loop, *start
    for i in range(3):
        one = prune.l1_unstructured(one[0], f"{i}.weight", *one[1:], 0.5)
    whole = scan, *scan.init(KEY)
    whole = prune.l1_unstructured(whole[0], "*.weight", *whole[1:], 0.5)
    jax.tree.map(np.testing.assert_array_equal, whole[1:], (one[0].stack(one[1]), one[0].stack(one[2])))
    x = jnp.ones((2, 4))
    np.testing.assert_allclose(whole[0].apply(*whole[1:], x)[0], one[0].apply(*one[1:], x)[0], rtol=1e-6)
    random = prune.random_unstructured(scan, "*.weight", *scan.init(KEY), 0.5, rng=KEY)[2]["*"]["weight_mask"]
    assert (random[0] != random[1]).any() and random.sum((1, 2)).tolist() == [8, 8, 8]
    every = prune.global_unstructured(scan, ["*.weight"], *scan.init(KEY), prune.L1Unstructured, amount=24)
    assert every[2]["*"]["weight_mask"].sum() == 24
    removed = prune.remove(whole[0], "*.weight", *whole[1:])
    np.testing.assert_array_equal(removed[1]["*"]["weight"] == 0, whole[2]["*"]["weight_mask"] == 0)


def test_the_net_given_stays_and_one_that_is_pruned_keeps_its_programs():
    net = nn.Linear(4, 4)
    params, state = net.init(KEY)
    once = prune.l1_unstructured(net, "weight", params, state, 0.5)
    assert [name for name, _ in net.named_parameters()] == ["weight", "bias"] and "weight" in params and state == {}
    twice = prune.l1_unstructured(once[0], "weight", *once[1:], 0.5)
    assert twice[0] is once[0]
    fresh = once[0].init(KEY)
    np.testing.assert_array_equal(fresh[0]["weight_orig"], params["weight"])
    assert bool((fresh[1]["weight_mask"] == 1).all())
    half = prune.l1_unstructured(
        nn.Linear(4, 4, dtype=jnp.bfloat16), "weight", *nn.Linear(4, 4, dtype=jnp.bfloat16).init(KEY), 3
    )
    assert half[2]["weight_mask"].dtype == jnp.bfloat16 and half[2]["weight_mask"].sum() == 13
    assert half[0].apply(*half[1:], jnp.ones(4, jnp.bfloat16))[0].dtype == jnp.bfloat16


def test_a_method_of_ones_own():
    class EveryOther(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.copy()
            mask.reshape(-1)[::2] = 0
            return mask

    class TorchEveryOther(torch_prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    with jax.enable_x64(True):
        *pruned, theirs = start()
        for _ in range(2):
            pruned = EveryOther.apply(pruned[0], "weight", *pruned[1:])
            TorchEveryOther.apply(theirs, "weight")
            same_state_dict(*pruned, theirs, 0)
    t = np.arange(6.0)
    ours, theirs = prune.L1Unstructured(amount=2), torch_prune.L1Unstructured(amount=2)
    np.testing.assert_array_equal(ours.prune(t), theirs.prune(torch.tensor(t)))
    np.testing.assert_array_equal(
        ours.prune(t, importance_scores=-t), theirs.prune(torch.tensor(t), None, -torch.tensor(t))
    )


def linear(method, *args, name="weight", layer=None, **kwargs):
    layer = nn.Linear(3, 2) if layer is None else layer
    blank = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), jax.eval_shape(layer.init, KEY))
    return getattr(prune, method)(layer, name, *blank, *args, **kwargs)


class Unknown(prune.BasePruningMethod):
    PRUNING_TYPE = "some"

    def compute_mask(self, t, default_mask):
        return default_mask


def twice_unknown():
    once = Unknown.apply(nn.Linear(3, 2), "weight", *nn.Linear(3, 2).init(KEY))
    return Unknown.apply(once[0], "weight", *once[1:])


glob = functools.partial(prune.global_unstructured, nn.Linear(3, 2))
REFUSALS = [
    (
        lambda: linear("l1_unstructured", 7),
        ValueError,
        "amount is too large; expected at most 6, the number of remaining entries, got 7",
    ),
    (lambda: linear("l1_unstructured", -1), ValueError, "a count of at least 0, or a fraction in .* got -1"),
    (lambda: linear("l1_unstructured", 1.5), ValueError, "a fraction in .0, 1., got 1.5"),
    (lambda: linear("l1_unstructured", "1"), TypeError, "amount has the wrong type; expected int or float, got str"),
    (lambda: linear("l1_unstructured", 1, name="w"), ValueError, "prune: Linear has no parameter or buffer 'w'"),
    (lambda: linear("identity", name="running_var", layer=nn.BatchNorm1d(2)), ValueError, "is a buffer; expected a"),
    (
        lambda: linear("l1_unstructured", 1, jnp.ones(2)),
        ValueError,
        "importance_scores of 'weight' have the wrong shape",
    ),
    (lambda: linear("ln_structured", 1, 2, 2), ValueError, "dim is out of range; expected -2 to 1, got 2"),
    (lambda: linear("ln_structured", 1, 2, 0, name="bias"), ValueError, "LnStructured: a vector has no channels"),
    (lambda: linear("ln_structured", 1, "nuc", 0), ValueError, "the nuclear norm requires matrices; expected 2 dim"),
    (
        lambda: linear("random_structured", 3, 0, rng=KEY),
        ValueError,
        "expected at most 2, the number of remaining entries, got 3",
    ),
    (lambda: linear("random_structured", 1, 0), ValueError, "prune.RandomStructured: the function needs randomness"),
    (lambda: linear("random_unstructured", 1), ValueError, "prune.RandomUnstructured: the function needs randomness"),
    (lambda: linear("custom_from_mask", jnp.ones(2)), ValueError, "the mask has the wrong shape; expected .2, 3., got"),
    (lambda: linear("custom_from_mask", 1.0), ValueError, "expected the shape of 'weight', got a scalar"),
    (
        lambda: linear("remove"),
        ValueError,
        r"prune.remove: 'weight' is not a computed attribute of this kind; expected one of \[\]",
    ),
    (twice_unknown, ValueError, "Unknown: PRUNING_TYPE is unknown; expected 'unstructured', .* got 'some'"),
    (lambda: glob("weight", {}, {}, prune.L1Unstructured), TypeError, "expected a list of dotted names, got str"),
    (lambda: glob([], {}, {}, prune.L1Unstructured, [1], amount=1), TypeError, "expected {name: array}, got list"),
    (
        lambda: glob(["weight"], {}, {}, prune.LnStructured, amount=1, n=2),
        TypeError,
        "channels of different parameters cannot be compared; expected .* got LnStructured of type 'structured'",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSALS, ids=[text for *_, text in REFUSALS])
def test_refusals_say_why(call, error, text):
    with pytest.raises(error, match=text):
        call()
