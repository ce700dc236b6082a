"""BatchNorm folded into what stands before it, against torch's."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn
from tests.nn.utils.training import close, double, same_state_dict

utils = nn.utils
KEY = jax.random.key(0)


def pair(layer, norm, sizes, features, bias=True, affine=True, **kwargs):
    """((ours, torch's) of layer and BatchNorm, params, state), in float64 with statistics that are not 0 and 1."""
    make = lambda library: library.Sequential(
        getattr(library, layer)(*sizes, bias=bias, **kwargs, **double(library)),
        getattr(library, norm)(features, affine=affine, **double(library)),
    )
    net, theirs = make(nn), make(torch.nn).eval()
    with torch.no_grad():
        for tensor in (*theirs[1].parameters(), *theirs[1].buffers()):
            if tensor.ndim:
                tensor.uniform_(0.5, 2)
    return net, theirs, *net.load_state_dict(theirs.state_dict())


CONVOLUTIONS = [
    ("Conv1d", "BatchNorm1d", (4, 6, 3), {"groups": 2}, False),
    ("Conv2d", "BatchNorm2d", (2, 3, 2), {}, False),
]
CONVOLUTIONS += [("ConvTranspose2d", "BatchNorm2d", (2, 3, 2), {"stride": 2}, True)]


@pytest.mark.parametrize(("layer", "norm", "sizes", "kwargs", "transpose"), CONVOLUTIONS)
def test_convolutions(layer, norm, sizes, kwargs, transpose):
    torch.manual_seed(0)
    x = np.random.default_rng(0).normal(size=(2, sizes[0], *[5] * int(layer[-2])))
    with jax.enable_x64(True):
        for bias, affine in itertools.product((True, False), repeat=2):
            net, theirs, params, state = pair(layer, norm, sizes, sizes[1], bias, affine, **kwargs)
            fused, new = utils.fuse_conv_bn_eval(net[0], net[1], params["0"], params["1"], state["1"], transpose)
            expected = torch.nn.utils.fuse_conv_bn_eval(theirs[0], theirs[1], transpose)
            same_state_dict(fused, new, {}, expected)
            assert repr(fused) == repr(expected).replace(", bias=False", "")  # torch's goes on saying so
            assert [p.requires_grad for p in fused.parameters()] == [p.requires_grad for p in expected.parameters()]
        close(fused.apply(new, {}, jnp.asarray(x))[0], theirs(torch.tensor(x)))
        assert net[0].bias is None


def test_linear_layers():
    torch.manual_seed(0)
    x = np.random.default_rng(0).normal(size=(5, 3))
    with jax.enable_x64(True):
        for bias in (True, False):
            net, theirs, params, state = pair("Linear", "BatchNorm1d", (3, 4), 4, bias)
            fused, new = utils.fuse_linear_bn_eval(net[0], net[1], params["0"], params["1"], state["1"])
            same_state_dict(fused, new, {}, torch.nn.utils.fuse_linear_bn_eval(theirs[0], theirs[1]))
            close(fused.apply(new, {}, jnp.asarray(x))[0], theirs(torch.tensor(x)))
        net, theirs, params, state = pair("Linear", "BatchNorm1d", (3, 4), 1)
        fused, new = utils.fuse_linear_bn_eval(net[0], net[1], params["0"], params["1"], state["1"])
        same_state_dict(fused, new, {}, torch.nn.utils.fuse_linear_bn_eval(theirs[0], theirs[1]))
        net, _, params, state = pair("Linear", "BatchNorm1d", (3, 4), 4, affine=False)
        fused, new = utils.fuse_linear_bn_eval(net[0], net[1], params["0"], params.get("1", {}), state["1"])
        close(fused.apply(new, {}, jnp.asarray(x))[0], net.apply(params, state, jnp.asarray(x))[0])


def test_half_precisions_are_folded_in_float32():
    net = nn.Sequential(nn.Conv1d(2, 3, 1, dtype=jnp.bfloat16), nn.BatchNorm1d(3, dtype=jnp.bfloat16))
    params, state = net.init(KEY)
    state["1"]["running_mean"] += 0.123
    _, new = utils.fuse_conv_bn_eval(net[0], net[1], params["0"], params["1"], state["1"])
    wide = jax.tree.map(lambda a: a.astype(jnp.float32) if a.dtype == jnp.bfloat16 else a, params)
    _, exact = utils.fuse_conv_bn_eval(net[0], net[1], wide["0"], wide["1"], state["1"])
    for name, value in new.items():
        assert value.dtype == jnp.bfloat16
        np.testing.assert_array_equal(value, exact[name].astype(jnp.bfloat16))


def blank(net):
    """Its params and state, all zero."""
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), jax.eval_shape(net.init, KEY))


def test_refusals_say_why():
    conv, bn = nn.ConvTranspose1d(4, 6, 3, groups=2), nn.BatchNorm1d(6)
    with pytest.raises(
        ValueError, match="a grouped transposed convolution cannot be fused, because its weight has no single dimension"
    ):
        utils.fuse_conv_bn_eval(conv, bn, blank(conv)[0], *blank(bn), transpose=True)
    conv = nn.Conv1d(4, 6, 3)
    with pytest.raises(ValueError, match=r"fuse_conv_bn_eval: the BatchNorm keeps no running statistics; .* got \[\]"):
        bare = nn.BatchNorm1d(6, track_running_stats=False)
        utils.fuse_conv_bn_eval(conv, bare, blank(conv)[0], *blank(bare))
    linear = nn.Linear(3, 4)
    with pytest.raises(
        ValueError,
        match="the BatchNorm has the wrong number of features; expected 4, or 1 for all outputs together, got 6",
    ):
        utils.fuse_linear_bn_eval(linear, bn, blank(linear)[0], *blank(bn))
    normed = utils.parametrizations.weight_norm(conv)
    with pytest.raises(
        ValueError, match="the params or state of the Conv1d do not contain its weight; expected an entry 'weight'"
    ):
        utils.fuse_conv_bn_eval(normed, bn, blank(normed)[0], *blank(bn))


@pytest.mark.parametrize("name", ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean"])
def test_what_is_borrowed_is_not_taken_for_none(name):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    path, _, attribute = name.partition(".")
    owner = nn.Module()
    setattr(owner, attribute, getattr(net[int(path)], attribute))
    whole = nn.Sequential(owner, *net)
    params, state = whole.init(KEY)
    with pytest.raises(
        ValueError, match=rf"do not contain its {attribute}; .*If it is shared, get the arrays with net.subtree\(…\)"
    ):
        utils.fuse_linear_bn_eval(net[0], net[1], params["1"], params["2"], state["2"])
    (linear, _), (norm, norm_state) = whole.subtree("1", params, state), whole.subtree("2", params, state)
    fused, new = utils.fuse_linear_bn_eval(net[0], net[1], linear, norm, norm_state)
    x = jnp.arange(6.0).reshape(2, 3)
    close(fused.apply(new, {}, x)[0], net.apply({"0": linear, "1": norm}, {"0": {}, "1": norm_state}, x)[0], "", 1e-6)


def test_a_bias_that_is_computed_is_refused():
    linear = nn.Linear(3, 4)
    bn = nn.BatchNorm1d(4)
    pruned, params, _ = nn.utils.prune.identity(linear, "bias", *linear.init(KEY))
    with pytest.raises(
        ValueError, match=r"of the Linear do not contain its bias; .*If bias is computed, remove the computation"
    ):
        utils.fuse_linear_bn_eval(pruned, bn, params, *blank(bn))
