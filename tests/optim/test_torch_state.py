"""A run that began with a torch optimizer goes on in optax, and back, step for step."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from funcnet import nn, optim, weights

NAMES = ["fc.weight", "fc.bias", "head.weight"]
SHAPES = {"fc.weight": (3, 2), "fc.bias": (3,), "head.weight": (1, 3)}
BEFORE, AFTER = 4, 6

PAIRS = {
    "adam": (
        lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.95), eps=1e-6),
        optax.adam(0.01, b1=0.8, b2=0.95, eps=1e-6),
    ),
    "adam with L2": (
        lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
        optax.chain(optax.add_decayed_weights(0.1), optax.adam(0.01)),
    ),
    "adamw": (
        lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
        optax.adamw(0.01, weight_decay=0.1),
    ),
    "adamw of this package": (
        lambda p: torch.optim.AdamW(p, lr=0.01, eps=1e-6, weight_decay=0.1),
        optim.bert_adamw(0.01, weight_decay=0.1, no_decay=(), max_norm=None, bias_correction=True),
    ),
    "adam that maximizes": (
        lambda p: torch.optim.Adam(p, lr=0.01, maximize=True),
        optax.chain(optax.scale(-1.0), optax.adam(0.01)),
    ),
    "adam of injected rate": (
        lambda p: torch.optim.Adam(p, lr=0.01),
        optax.inject_hyperparams(optax.adam)(learning_rate=0.01),
    ),
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.1), optax.sgd(0.1)),
    "sgd with momentum": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), optax.sgd(0.1, momentum=0.9)),
    "sgd of Nesterov with L2": (
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
        optax.chain(optax.add_decayed_weights(0.1), optax.sgd(0.1, momentum=0.9, nesterov=True)),
    ),
}


def draws():
    rng = np.random.default_rng(0)
    draw = lambda: {name: rng.normal(size=shape) for name, shape in SHAPES.items()}
    return draw(), [draw() for _ in range(BEFORE + AFTER)]


def nested(flat):
    return {"fc": {k: flat[f"fc.{k}"] for k in ("weight", "bias")}, "head": {"weight": flat["head.weight"]}}


def torch_steps(make, start, gradients, state=None):
    """Parameters after each step, and the optimizer."""
    leaves = [torch.nn.Parameter(torch.from_numpy(np.array(start[name]))) for name in NAMES]
    optimizer = make(leaves)
    if state is not None:
        optimizer.load_state_dict(state)
    after = []
    for grads in gradients:
        for name, leaf in zip(NAMES, leaves, strict=True):
            leaf.grad = torch.from_numpy(grads[name])
        optimizer.step()
        after.append({name: leaf.detach().numpy().copy() for name, leaf in zip(NAMES, leaves, strict=True)})
    return after, optimizer


def optax_steps(optimizer, start, gradients, fill=lambda state: state):
    params = jax.tree.map(jnp.asarray, nested(start))
    state = fill(optimizer.init(params))
    update = jax.jit(optimizer.update)
    after = []
    for grads in gradients:
        updates, state = update(jax.tree.map(jnp.asarray, nested(grads)), state, params)
        params = optax.apply_updates(params, updates)
        after.append(
            {
                "fc.weight": params["fc"]["weight"],
                "fc.bias": params["fc"]["bias"],
                "head.weight": params["head"]["weight"],
            }
        )
    return after, state


def assert_same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        for name in NAMES:
            np.testing.assert_allclose(a[name], b[name], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("kind", PAIRS)
def test_optax_goes_on_where_torch_stopped(kind, tmp_path):
    make, optimizer = PAIRS[kind]
    start, gradients = draws()
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):  # optax asks for the latter
        before, torch_optimizer = torch_steps(make, start, gradients[:BEFORE])
        torch.save(torch_optimizer.state_dict(), tmp_path / "optimizer.pt")
        file = weights.load(tmp_path / "optimizer.pt")
        whole, _ = torch_steps(make, start, gradients)
        ours, _ = optax_steps(optimizer, before[-1], gradients[BEFORE:], lambda s: optim.from_torch(file, NAMES, s))
        assert_same(ours, whole[BEFORE:])


@pytest.mark.parametrize("kind", PAIRS)
def test_torch_goes_on_where_optax_stopped(kind, tmp_path):
    make, optimizer = PAIRS[kind]
    start, gradients = draws()
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):  # optax asks for the latter
        before, state = optax_steps(optimizer, start, gradients[:BEFORE])
        groups = make([torch.nn.Parameter(torch.zeros(1))]).state_dict()["param_groups"]
        groups[0].pop("params")
        converted = optim.to_torch(state, NAMES, groups)
        make([torch.nn.Parameter(torch.ones(start[name].shape)) for name in NAMES]).load_state_dict(
            converted
        )  # as it is
        weights.save(tmp_path / "optimizer.pt", converted)
        file = torch.load(tmp_path / "optimizer.pt", weights_only=True)
        whole, _ = optax_steps(optimizer, start, gradients)
        theirs, _ = torch_steps(make, before[-1], gradients[BEFORE:], file)
        assert_same(theirs, whole[BEFORE:])


def test_a_net_says_its_names_and_tied_parameters_are_one():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2)
            self.b = nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight

    class TorchTied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(2, 2)
            self.b = torch.nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight

    theirs = TorchTied()
    optimizer = torch.optim.Adam(theirs.parameters())
    theirs.b(theirs.a(torch.ones(1, 2))).sum().backward()
    optimizer.step()
    params, _ = Tied().init(jax.random.key(0))
    state = optim.from_torch(optimizer.state_dict(), Tied(), optax.adam(1e-3).init(params))
    np.testing.assert_array_equal(state[0].mu["a"]["weight"], optimizer.state[theirs.a.weight]["exp_avg"])
    np.testing.assert_array_equal(state[0].nu["a"]["bias"], optimizer.state[theirs.a.bias]["exp_avg_sq"])


def test_groups_frozen_parameters_and_names_in_the_file():
    start, gradients = draws()
    params = jax.tree.map(jnp.asarray, nested(start))
    leaves = {name: torch.nn.Parameter(torch.from_numpy(start[name])) for name in NAMES}
    leaves["fc.bias"].requires_grad = False
    optimizer = torch.optim.Adam(
        [{"params": [leaves["head.weight"]]}, {"params": [leaves["fc.weight"], leaves["fc.bias"]], "lr": 0.1}]
    )
    for name in ("fc.weight", "head.weight"):
        leaves[name].grad = torch.from_numpy(gradients[0][name])
    optimizer.step()
    ours = optax.partition(
        {"slow": optax.adam(1e-3), "fast": optax.adam(0.1), "not": optax.set_to_zero()},
        {"fc": {"weight": "fast", "bias": "not"}, "head": {"weight": "slow"}},
    )
    order = ["head.weight", "fc.weight", "fc.bias"]
    state = optim.from_torch(optimizer.state_dict(), order, ours.init(params))
    back = optim.to_torch(state, order, optimizer.state_dict()["param_groups"])
    assert list(back["state"]) == [0, 1]  # what is frozen has no entry, there and here
    for number, name in ((0, "head.weight"), (1, "fc.weight")):
        np.testing.assert_allclose(
            back["state"][number]["exp_avg"], optimizer.state[leaves[name]]["exp_avg"], rtol=1e-6
        )
    named = torch.optim.Adam(list(leaves.items()))  # with their names, as torch allows since 2.6
    leaves["fc.bias"].requires_grad = True
    for name, leaf in leaves.items():
        leaf.grad = torch.from_numpy(gradients[0][name])
    named.step()
    state = optim.from_torch(named.state_dict(), (), optax.adam(1e-3).init(params))
    np.testing.assert_allclose(state[0].mu["fc"]["bias"], named.state[leaves["fc.bias"]]["exp_avg"], rtol=1e-6)


def test_counts_of_schedules():
    start, gradients = draws()
    params = jax.tree.map(jnp.asarray, nested(start))
    _, adam = torch_steps(PAIRS["adam"][0], start, gradients[:3])
    schedule = optax.linear_schedule(0.1, 0.0, 10)
    state = optim.from_torch(adam.state_dict(), NAMES, optax.adam(schedule).init(params))
    assert int(state[0].count) == int(state[1].count) == 3
    _, sgd = torch_steps(PAIRS["sgd with momentum"][0], start, gradients[:3])
    fresh = optax.sgd(schedule, momentum=0.9).init(params)
    assert int(optim.from_torch(sgd.state_dict(), NAMES, fresh, steps=3)[1].count) == 3
    with pytest.raises(
        ValueError, match=r"counts updates, but the state of torch's SGD has no count; expected steps=…, got None"
    ):
        optim.from_torch(sgd.state_dict(), NAMES, fresh)
    unused = torch.optim.Adam([torch.nn.Parameter(torch.zeros(2))]).state_dict()
    state = optim.from_torch(unused, ["w"], optax.adam(schedule).init({"w": jnp.ones(2)}))
    assert int(state[1].count) == 0 and not state[0].mu["w"].any()


def refusals():
    start, gradients = draws()
    params = jax.tree.map(jnp.asarray, nested(start))
    adam = torch_steps(PAIRS["adam"][0], start, gradients[:2])[1].state_dict()
    state = optax.adam(0.1).init(params)
    amsgrad = torch_steps(lambda p: torch.optim.Adam(p, amsgrad=True), start, gradients[:1])[1].state_dict()
    damped = torch_steps(lambda p: torch.optim.SGD(p, momentum=0.9, dampening=0.5), start, gradients[:1])[
        1
    ].state_dict()
    adagrad = torch_steps(torch.optim.Adagrad, start, gradients[:1])[1].state_dict()
    radam = torch_steps(torch.optim.RAdam, start, gradients[:1])[1].state_dict()
    sgd = torch_steps(PAIRS["sgd with momentum"][0], start, gradients[:1])[1].state_dict()
    uneven = {**adam, "state": {**adam["state"], 0: {**adam["state"][0], "step": torch.tensor(1.0)}}}
    partial = {**adam, "state": {0: adam["state"][0]}}
    groups = {**adam, "param_groups": [{"params": [0]}, {"params": [1, 2]}]}
    net = nn.Linear(2, 2)
    load, dump = optim.from_torch, optim.to_torch
    group = adam["param_groups"][0]
    return {
        r"amsgrad=False, got True": lambda: load(amsgrad, NAMES, state),
        r"an amsgrad state cannot be converted; expected Adam, AdamW or SGD, got amsgrad": lambda: load(
            adam, NAMES, optax.amsgrad(0.1).init(params)
        ),
        r"dampening=0, got 0.5": lambda: load(damped, NAMES, optax.sgd(0.1, 0.9).init(params)),
        r"the state belongs to a different optimizer; .* got \['step', 'sum'\]": lambda: load(adagrad, NAMES, state),
        r"the state belongs to a different optimizer; expected Adam, AdamW or SGD, got RAdam": lambda: load(
            radam, NAMES, state
        ),
        r"optimizers are of different kinds; expected an optax state "
        r"for momentum_buffer, got one for exp_avg": lambda: load(sgd, NAMES, state),
        r"different numbers of updates; expected one number, got \[1, 2\]": lambda: load(uneven, NAMES, state),
        r"torch's state lacks 'fc.bias'": lambda: load(partial, NAMES, state),
        r"the optax state lacks the parameters fc.bias": lambda: load(adam, NAMES, optax.sgd(0.1).init(params)),
        r"exp_avg of 'fc.bias' has the wrong shape; expected \(3,\), got \(3, 2\)": lambda: load(
            adam, ["fc.bias", "fc.weight", "head.weight"], state
        ),
        r"torch's 3 parameters; expected 3 different names, got 2 \(2 different\)": lambda: load(adam, net, state),
        r"has 2 groups, but a net does not determine": lambda: load(groups, net, state),
        r"parameters that are not in names; .* got head.weight": lambda: dump(
            state, NAMES[:2], [{**group, "params": [0, 1]}]
        ),
        r"got none of betas, eps. Add the missing": lambda: dump(state, NAMES, [{"lr": 1.0, "weight_decay": 0.0}]),
        r"expected amsgrad=False, got True.*Start with a new optimizer state": lambda: dump(
            state, NAMES, [{**group, "amsgrad": True}]
        ),
    }


def test_what_cannot_be_carried_is_refused():
    for text, call in refusals().items():
        with pytest.raises(ValueError, match=text):
            call()
