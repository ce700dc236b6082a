"""What is frozen costs no gradient: shown by what the compiled program computes and keeps, both ways of freezing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import nn, tree

KEY = jax.random.key(0)
WIDTH, BATCH, DEPTH = 64, 512, 4


def make(frozen):
    """A deep body whose activations weigh more than its weights, and a small head."""
    body = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(DEPTH)))
    net = nn.Sequential(body, nn.Linear(WIDTH, WIDTH))
    if frozen:
        body.requires_grad_(False)
    return net


def costs(step, *args):
    """(bytes of temporaries and outputs, floating operations) of the compiled step."""
    compiled = jax.jit(step).lower(*args).compile()
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    return memory.temp_size_in_bytes + memory.output_size_in_bytes, cost["flops"]


def steps():
    """{way: (step, arguments)}; each gives what an SGD step makes of the params."""
    marked, plain = make(frozen=True), make(frozen=False)
    params, state = plain.init(KEY)
    x = jnp.ones((BATCH, WIDTH))
    sgd = lambda params, gradient: jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient)
    value = lambda net, params, x: jnp.mean(net.apply(params, state, x)[0] ** 2)

    def whole(net):
        return lambda params, x: sgd(params, jax.grad(lambda p: value(net, p, x))(params))

    def parted(trainable, frozen, x):
        return sgd(trainable, jax.grad(lambda t: value(plain, tree.merge(t, frozen), x))(trainable))

    return {
        "nothing frozen": (whole(plain), (params, x)),
        "requires_grad=False": (whole(marked), (params, x)),
        "tree.partition": (parted, (*tree.partition(params, "1"), x)),
        "net.partition": (parted, (*marked.partition(params), x)),
        "forward alone": (lambda params, x: value(plain, params, x), (params, x)),
    }


def test_what_is_frozen_costs_neither_operations_nor_memory():
    measured = {way: costs(step, *args) for way, (step, args) in steps().items()}
    product = 2 * BATCH * WIDTH * WIDTH
    forward = measured["forward alone"][1]
    assert forward >= (DEPTH + 1) * product
    activation = 4 * BATCH * WIDTH
    full_memory, full = measured["nothing frozen"]
    assert full > forward + 2 * DEPTH * product, "the whole gradient costs two products a layer"
    assert full_memory > DEPTH * activation, "and keeps an activation a layer"
    weights = 4 * (DEPTH + 1) * (WIDTH * WIDTH + WIDTH)
    for way in ("requires_grad=False", "tree.partition", "net.partition"):
        memory, operations = measured[way]
        assert operations < forward + 1.5 * product, f"{way}: only the head's weight has a gradient"
        assert memory < 3.5 * activation + weights, f"{way}: no activation of the body is kept"


def test_the_ways_agree_and_frozen_gradients_are_zero():
    results = {way: jax.jit(step)(*args) for way, (step, args) in steps().items()}
    reference = results["nothing frozen"]["1"]
    for way in ("requires_grad=False", "tree.partition", "net.partition"):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), results[way]["1"], reference)
    start = make(frozen=False).init(KEY)[0]
    jax.tree.map(np.testing.assert_array_equal, results["requires_grad=False"]["0"], start["0"])
    assert tree.flatten(results["net.partition"]).keys() == {"1.weight", "1.bias"}


def test_partition_goes_by_names_and_not_by_patterns():
    net = nn.ModuleDict({"a*": nn.Linear(1, 1), "ab": nn.Linear(1, 1)})
    net["ab"].requires_grad_(False)
    trainable, frozen = net.partition(net.init(KEY)[0])
    assert set(tree.flatten(trainable)) == {"a*.weight", "a*.bias"} and set(frozen["ab"]) == {"weight", "bias"}


def test_partition_by_marks():
    net = make(frozen=True)
    params, _ = net.init(KEY)
    trainable, frozen = net.partition(params)
    assert set(tree.flatten(trainable)) == {"1.weight", "1.bias"}
    assert tree.merge(trainable, frozen) == params
    assert tree.flatten(make(frozen=False).partition(params)[1]) == {}
    net.requires_grad_(False)
    assert tree.flatten(net.partition(params)[0]) == {}
    stack = nn.Repeat(nn.Linear(2, 2), 3, scan=True)
    stack.get_parameter("*.bias").requires_grad_(False)
    assert set(tree.flatten(stack.partition(stack.init(KEY)[0])[0])) == {"*.weight"}
    with pytest.raises(ValueError, match=r"Sequential\.partition: the tree has no '1\.bias', '1\.weight'; expected"):
        make(frozen=True).partition({"0": params["0"]})
