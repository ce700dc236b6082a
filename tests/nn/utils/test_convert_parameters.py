"""Parameters as one vector: torch's order, shared ones once, stacks layer by layer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn
from tests.nn.nested import KEY, ours, theirs

utils = nn.utils


def test_the_vector_is_torchs_in_every_form_and_comes_back():
    module = theirs()
    expected = torch.nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    for scan in (False, True):
        net = ours(scan=scan)
        params, _ = net.load_state_dict(module.state_dict())
        shuffled = jax.tree.map(lambda a: a, params)  # JAX sorts the keys
        assert list(shuffled) != list(params)
        for given in (params, shuffled):
            np.testing.assert_array_equal(
                jax.jit(lambda p, net=net: utils.parameters_to_vector(net, p))(given), expected
            )
        vec = jnp.arange(expected.size, dtype=jnp.float32)
        back = utils.vector_to_parameters(net, vec, params)
        assert jax.tree.structure(back) == jax.tree.structure(params)
        np.testing.assert_array_equal(utils.parameters_to_vector(net, back), vec)
        torch.nn.utils.vector_to_parameters(torch.arange(expected.size, dtype=torch.float32), module.parameters())
        loaded, _ = net.load_state_dict(module.state_dict())
        jax.tree.map(np.testing.assert_array_equal, back, loaded)
        torch.nn.utils.vector_to_parameters(torch.tensor(expected), module.parameters())


def test_dtypes():
    net = nn.Sequential(nn.Linear(2, 1, dtype=jnp.bfloat16), nn.Linear(1, 1))
    params, _ = jax.tree.map(lambda leaf: jnp.ones(leaf.shape, leaf.dtype), jax.eval_shape(net.init, KEY))
    vec = utils.parameters_to_vector(net, params)
    assert vec.dtype == jnp.float32
    back = utils.vector_to_parameters(net, vec, params)
    jax.tree.map(np.testing.assert_array_equal, back, params)
    assert back["0"]["weight"].dtype == jnp.bfloat16
    assert utils.parameters_to_vector(nn.ReLU(), {}).shape == (0,)
    assert utils.vector_to_parameters(nn.ReLU(), jnp.zeros(0), {}) == {}


def test_refusals_say_why():
    net = nn.Linear(2, 1)
    params, _ = net.init(KEY)
    for size in (2, 4):
        with pytest.raises(ValueError, match=rf"the vector has the wrong shape; expected \(3,\), got \({size},\)"):
            utils.vector_to_parameters(net, jnp.zeros(size), params)
    with pytest.raises(ValueError, match="params has no entry 'bias'; expected the params of Linear"):
        utils.parameters_to_vector(net, {"weight": params["weight"]})
