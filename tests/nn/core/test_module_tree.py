"""How a description is read: own parts, the walk over the tree, and frames."""

import jax
import jax.numpy as jnp

from funcnet import nn, tree
from funcnet.nn.core import binding, module_tree
from funcnet.nn.core.module_tree import LeafPlace
from tests.nn.nested import ours

KEY = jax.random.key(0)


def test_own_parts():
    layer = nn.BatchNorm1d(3)
    names = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    assert [name for name, _ in module_tree.leaves(layer)] == names
    assert [name for name, _ in module_tree.leaves(layer, nn.Buffer)] == names[2:]
    net = nn.Sequential(layer, nn.ReLU())
    assert module_tree.children(net) == [("0", layer), ("1", net[1])] and module_tree.leaves(net) == []
    normed = nn.utils.weight_norm(nn.Linear(2, 2))
    assert list(module_tree.computed_of(normed)) == ["weight"]


def test_names_that_hold_none_keep_their_place():
    net = nn.Module()
    net.register_module("first", None)
    net.second = nn.ReLU()
    net.register_parameter("weight", None)
    assert module_tree.slots(net) == [("first", None), ("second", net.second)] and module_tree.children(net) == [
        ("second", net.second)
    ]
    assert set(module_tree.reserved(net)) == {"first", "weight"}


def test_a_walk_meets_what_named_parameters_and_buffers_name():
    net = ours(scan=True)
    walked = {kind: [place.path for place in module_tree.walk(net, kind)] for kind in (nn.Parameter, nn.Buffer)}
    assert walked[nn.Parameter] == [name for name, _ in net.named_parameters()]
    assert walked[nn.Buffer] == [name for name, _ in net.named_buffers()]
    every = [place.path for place in module_tree.walk(net, nn.Parameter, once=False)]
    assert every == [name for name, _ in net.named_parameters(remove_duplicate=False)]
    assert len(every) > len(walked[nn.Parameter])


def test_places_in_stacks():
    net = nn.Sequential(nn.Repeat(nn.Repeat(nn.Linear(2, 2), 3, scan=True), 4, scan=True))
    (weight, _) = module_tree.walk(net)
    assert (
        weight == LeafPlace("0.*.*.weight", weight.module, "weight", weight.leaf, (4, 3))
        and weight.value is weight.leaf
    )
    stack = net[0]
    assert module_tree.is_stack(stack) and not module_tree.is_stack(net)
    assert [name for name, _ in module_tree.children(stack, layers=True)] == ["0", "1", "2", "3"]


def test_build_has_the_structure_of_params_and_state():
    net = ours()
    params, state = net.init(KEY)
    made = [module_tree.build(net, kind, lambda place: place.path) for kind in (nn.Parameter, nn.Buffer)]
    assert jax.tree.structure(made) == jax.tree.structure([params, state])
    assert all(name == path for one in made for name, path in tree.flatten(one).items())


def test_a_bound_copy_and_its_description():
    net = ours()
    params, state = net.init(KEY)
    bound = binding.bind(net, params, state)
    assert module_tree.description_of(bound) is net is module_tree.description_of(net)
    assert module_tree.frame_of(net) is None and module_tree.frame_of(bound).name == ""
    assert module_tree.frame_of(bound.decoder).where() == "decoder (Linear)"
    jax.tree.map(lambda a, b: None if (a == b).all() else 1 / 0, module_tree.values(bound), (params, state))
    assert isinstance(next(module_tree.walk(bound)).value, jax.Array)
    borrowed, _ = module_tree.values(bound.decoder)
    assert jnp.array_equal(borrowed["weight"], params["embeddings"]["weight"])


def test_a_copy_with_other_children():
    net = nn.Sequential(nn.ReLU(), nn.Tanh())
    net.note = "kept"
    new = module_tree.with_children(net, {"0": net[1]})
    assert [child for _, child in module_tree.children(new)] == [net[1]] and new.note == "kept" and len(net) == 2
