"""How a description is read: own parts, the walk over the tree, and frames."""

import jax
import jax.numpy as jnp

from funcnet import nn, tree
from funcnet.nn.core import binding, parts
from funcnet.nn.core.parts import LeafPlace
from tests.nn.nested import ours

KEY = jax.random.key(0)


def test_own_parts():
    layer = nn.BatchNorm1d(3)
    names = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    assert [name for name, _ in parts.leaves(layer)] == names
    assert [name for name, _ in parts.leaves(layer, nn.Buffer)] == names[2:]
    net = nn.Sequential(layer, nn.ReLU())
    assert parts.children(net) == [("0", layer), ("1", net[1])] and parts.leaves(net) == []
    normed = nn.utils.weight_norm(nn.Linear(2, 2))
    assert list(parts.computed_of(normed)) == ["weight"]


def test_names_that_hold_none_keep_their_place():
    net = nn.Module()
    net.register_module("first", None)
    net.second = nn.ReLU()
    net.register_parameter("weight", None)
    assert parts.slots(net) == [("first", None), ("second", net.second)] and parts.children(net) == [
        ("second", net.second)
    ]
    assert set(parts.reserved(net)) == {"first", "weight"}


def test_a_walk_meets_what_named_parameters_and_buffers_name():
    net = ours(scan=True)
    walked = {kind: [place.path for place in parts.walk(net, kind)] for kind in (nn.Parameter, nn.Buffer)}
    assert walked[nn.Parameter] == [name for name, _ in net.named_parameters()]
    assert walked[nn.Buffer] == [name for name, _ in net.named_buffers()]
    every = [place.path for place in parts.walk(net, nn.Parameter, once=False)]
    assert every == [name for name, _ in net.named_parameters(remove_duplicate=False)]
    assert len(every) > len(walked[nn.Parameter])


def test_places_in_stacks():
    net = nn.Sequential(nn.Repeat(nn.Repeat(nn.Linear(2, 2), 3, scan=True), 4, scan=True))
    (weight, _) = parts.walk(net)
    assert (
        weight == LeafPlace("0.*.*.weight", weight.module, "weight", weight.leaf, (4, 3))
        and weight.value is weight.leaf
    )
    stack = net[0]
    assert parts.is_stack(stack) and not parts.is_stack(net)
    assert [name for name, _ in parts.children(stack, layers=True)] == ["0", "1", "2", "3"]


def test_build_has_the_structure_of_params_and_state():
    net = ours()
    params, state = net.init(KEY)
    made = [parts.build(net, kind, lambda place: place.path) for kind in (nn.Parameter, nn.Buffer)]
    assert jax.tree.structure(made) == jax.tree.structure([params, state])
    assert all(name == path for one in made for name, path in tree.flatten(one).items())


def test_a_bound_copy_and_its_description():
    net = ours()
    params, state = net.init(KEY)
    bound = binding.bind(net, params, state)
    assert parts.description_of(bound) is net is parts.description_of(net)
    assert parts.frame_of(net) is None and parts.frame_of(bound).name == ""
    assert parts.frame_of(bound.decoder).where() == "decoder (Linear)"
    jax.tree.map(lambda a, b: None if (a == b).all() else 1 / 0, parts.values(bound), (params, state))
    assert isinstance(next(parts.walk(bound)).value, jax.Array)
    borrowed, _ = parts.values(bound.decoder)
    assert jnp.array_equal(borrowed["weight"], params["embeddings"]["weight"])


def test_a_copy_with_other_children():
    net = nn.Sequential(nn.ReLU(), nn.Tanh())
    net.note = "kept"
    new = parts.with_children(net, {"0": net[1]})
    assert [child for _, child in parts.children(new)] == [net[1]] and new.note == "kept" and len(net) == 2
