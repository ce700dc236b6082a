"""The layers of einops beside einops.layers.torch, and the functions of einops on JAX arrays."""

import copy
import pickle
import subprocess
import sys

import einops
import einops.layers.torch
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.nn.einops
from funcnet import nn, tree

KEY = jax.random.key(0)
# class, arguments, sizes, shape of the input
LAYERS = {
    "rearrange": ("Rearrange", ("b c (h p) (w q) -> b (h w) (p q c)",), {"p": 2, "q": 3}, (2, 3, 4, 6)),
    "rearrange any rank": ("Rearrange", ("b ... c -> b c ...",), {}, (2, 3, 4, 5)),
    "new axes": ("Rearrange", ("b c -> b c 1 1",), {}, (2, 3)),
    "reduce max": ("Reduce", ("b c (h h2) (w w2) -> b c h w", "max"), {"h2": 2, "w2": 2}, (2, 3, 4, 6)),
    "reduce mean": ("Reduce", ("b c ... -> b c", "mean"), {}, (2, 3, 4, 6)),
    "reduce min": ("Reduce", ("b c h -> b 1 h", "min"), {}, (2, 3, 4)),
    "reduce prod": ("Reduce", ("b c h -> h", "prod"), {}, (2, 3, 4)),
    "linear": ("EinMix", ("t b cin -> t b cout", "cin cout", "cout"), {"cin": 3, "cout": 5}, (2, 4, 3)),
    "along height": ("EinMix", ("h w c -> hout w c", "h hout", "hout"), {"h": 4, "hout": 3}, (4, 2, 5)),
    "scales": ("EinMix", ("t b c -> t b c", "c"), {"c": 3}, (2, 4, 3)),
    "heads": ("EinMix", ("t b (head cin) -> t b (head cout)", "head cin cout", "head cout"),
              {"head": 2, "cin": 3, "cout": 4}, (2, 5, 6)),
    "patches": ("EinMix", ("b c (h p) (w q) -> b (h w) d", "c p q d", "d"),
                {"c": 3, "p": 2, "q": 2, "d": 5}, (2, 3, 4, 6)),
    "any rank": ("EinMix", ("b ... c -> b ... d", "c d", "d"), {"c": 3, "d": 4}, (2, 5, 6, 3)),
}  # fmt: skip


def both(name):
    kind, arguments, sizes, shape = LAYERS[name]
    made = (getattr(library, kind)(*arguments, **sizes) for library in (einops.layers.torch, funcnet.nn.einops))
    return *made, np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("name", LAYERS)
def test_values_and_gradients(name):
    theirs, layer, x = both(name)
    params, state = layer.load_state_dict(theirs.state_dict())
    given = torch.tensor(x, requires_grad=True)
    expected = theirs(given)
    weights = np.random.default_rng(1).normal(size=expected.shape).astype(np.float32)
    (expected * torch.tensor(weights)).sum().backward()

    def loss(params, x):
        y, _ = layer.apply(params, state, x)
        return (y * weights).sum(), y

    for run in (jax.grad(loss, (0, 1), has_aux=True), jax.jit(jax.grad(loss, (0, 1), has_aux=True))):
        (gradients, by_input), y = run(params, x)
        np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(by_input, given.grad.numpy(), rtol=1e-5, atol=1e-5)
        assert set(tree.flatten(gradients)) == {leaf for leaf, _ in theirs.named_parameters()}
        for leaf, parameter in theirs.named_parameters():
            np.testing.assert_allclose(gradients[leaf], parameter.grad.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pattern", ["b c h -> b c", "b c h -> h"])
def test_equal_maxima_share_the_gradient(pattern):
    x = np.random.default_rng(0).integers(0, 2, (2, 3, 4)).astype(np.float32)
    given = torch.tensor(x, requires_grad=True)
    einops.layers.torch.Reduce(pattern, "max")(given).sum().backward()
    gradient = jax.grad(lambda x: funcnet.nn.einops.Reduce(pattern, "max")(x).sum())(jnp.array(x))
    np.testing.assert_allclose(gradient, given.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_state_dict_repr_copies_and_pickles(name):
    theirs, layer, x = both(name)
    params, state = layer.init(KEY)
    sd = layer.state_dict(params, state)
    assert {n: a.shape for n, a in sd.items()} == {n: tuple(a.shape) for n, a in theirs.state_dict().items()}
    theirs.load_state_dict({n: torch.tensor(np.asarray(a)) for n, a in sd.items()})
    np.testing.assert_allclose(
        layer.apply(params, state, x)[0], theirs(torch.tensor(x)).detach().numpy(), rtol=1e-5, atol=1e-6
    )
    assert repr(layer) == repr(theirs)
    assert repr(nn.Sequential(layer, nn.ReLU())) == repr(torch.nn.Sequential(theirs, torch.nn.ReLU()))
    assert layer.extra_repr() in repr(layer) and layer.pattern in nn.Sequential(layer)._repr_html_().replace(
        "&gt;", ">"
    )
    for made in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert repr(made) == repr(layer) and type(made) is type(layer)
        np.testing.assert_array_equal(made.apply(params, state, x)[0], layer.apply(params, state, x)[0])


def test_initial_values_of_einmix():
    arguments = ("b c (h p) -> b h d", "c p d", "d")
    layer = funcnet.nn.einops.EinMix(*arguments, c=8, p=8, d=2000)
    params, _ = layer.init(KEY)
    theirs = einops.layers.torch.EinMix(*arguments, c=8, p=8, d=2000)
    for name, parameter in theirs.named_parameters():
        ours, truth = np.asarray(params[name]), parameter.detach().numpy()
        assert abs(np.abs(ours).max() / np.abs(truth).max() - 1) < 0.01
        assert abs(ours.std() / truth.std() - 1) < 0.05 and abs(ours.mean()) < 0.05 * np.abs(truth).max()


def test_inside_a_model_and_as_functions():
    def make(library, layers):
        return library.Sequential(
            layers.Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=2, q=2),
            library.Linear(12, 5),
            layers.Reduce("b n d -> b d", "mean"),
            layers.EinMix("b d -> b e", "d e", "e", d=5, e=3),
        )

    theirs, net = make(torch.nn, einops.layers.torch), make(nn, funcnet.nn.einops)
    assert list(net.state_dict(*net.init(KEY))) == list(theirs.state_dict())
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 6)).astype(np.float32)
    y, _ = jax.jit(net.apply)(*net.load_state_dict(theirs.state_dict()), x)
    np.testing.assert_allclose(y, theirs(torch.tensor(x)).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert net[0](x).shape == (2, 6, 12)
    assert tree.flatten(net.init(KEY)[0]).keys() == dict(theirs.named_parameters()).keys()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda layers: layers.Rearrange("b c -> b d"), "Identifiers only on one side"),
        (lambda layers: layers.Reduce("b c -> b", "median"), "Unknown reduction median"),
        (lambda layers: layers.EinMix("b c -> b d", "c d", c=3), "Dimension d of weight should be specified"),
        (lambda layers: layers.EinMix("b c -> b d", "c d", "e", c=3, d=2), r"Bias axes \{'e'\} not present in output"),
    ],
)
def test_errors_are_those_of_einops(make, text):
    for layers in (einops.layers.torch, funcnet.nn.einops):
        with pytest.raises(einops.EinopsError, match=text):
            make(layers)


def test_the_functions_of_einops_under_jit():
    x, w = (np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in ((2, 3, 4), (4, 5)))

    def everything(x, w):
        packed, shapes = einops.pack([x, x[:, 0]], "b * c")
        return [
            einops.rearrange(x, "b c (h p) -> b h (p c)", p=2),
            einops.repeat(x, "b c h -> b (r c) h", r=3),
            einops.reduce(x, "b c h -> b h", "max"),
            einops.einsum(x, w, "b c h, h d -> b c d"),
            packed,
            *einops.unpack(packed, shapes, "b * c"),
        ]

    expected = everything(torch.tensor(x), torch.tensor(w))
    for ours, theirs in zip(jax.jit(everything)(jnp.array(x), jnp.array(w)), expected, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_einops_is_optional():
    code = "import sys; import funcnet.nn; assert 'einops' not in sys.modules; sys.modules['einops'] = None\n"
    run = subprocess.run([sys.executable, "-c", f"{code}import funcnet.nn.einops"], capture_output=True, text=True)
    assert (
        "ImportError: funcnet.nn.einops: einops is not installed" in run.stderr and "pip install einops" in run.stderr
    )
