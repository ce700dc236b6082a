"""Transformer, its stacks and layers against torch: masks, layouts, dropout, how they start."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T
from hypothesis import given
from hypothesis import strategies as st

import funcnet.random
from funcnet import functional as F
from funcnet import nn, tree
from tests.layers.near import near
from tests.nn.test_layer_init import same_distribution

KEY = jax.random.key(0)
EXACT = 1e-11  # both sides in float64
B, S, L, D, H = 2, 4, 3, 4, 2

# What forward takes: {argument: kind}. "float" masks are added, "bool" ones hide, "causal" is -inf above the diagonal.
LAYERS = {
    "TransformerEncoderLayer": (("src",), {"src_mask": (S, S), "src_key_padding_mask": (S,)}),
    "TransformerDecoderLayer": (
        ("tgt", "memory"),
        {"tgt_mask": (L, L), "memory_mask": (L, S), "tgt_key_padding_mask": (L,), "memory_key_padding_mask": (S,)},
    ),
    "Transformer": (
        ("src", "tgt"),
        {
            "src_mask": (S, S),
            "tgt_mask": (L, L),
            "memory_mask": (L, S),
            "src_key_padding_mask": (S,),
            "tgt_key_padding_mask": (L,),
            "memory_key_padding_mask": (S,),
        },
    ),
}


def perturbed(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return module


def built(kind, options):
    torch.manual_seed(0)
    sizes = (D, H, 1, 1, 6) if kind == "Transformer" else (D, H, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nested tensors
        theirs = perturbed(getattr(torch.nn, kind)(*sizes, dropout=0.0, **options))
    return theirs, getattr(nn, kind)(*sizes, dropout=0.0, **options)


def arguments(kind, options, batched, masks, seed=0):
    random = np.random.default_rng(seed)
    names, shapes = LAYERS[kind]
    given = {}
    for name in names:
        x = random.normal(size=(L if name == "tgt" else S, B, D))
        given[name] = x[:, 0] if not batched else x.swapaxes(0, 1) if options.get("batch_first") else x
    for name, what in masks.items():
        padding = "padding" in name
        shape = (B, *shapes[name]) if padding and batched else shapes[name]
        if what == "heads":
            shape = ((B if batched else 1) * H, *shape)
        hidden = random.random(shape) < 0.35
        if what == "causal":
            hidden = np.triu(np.ones(shape, bool), 1)
        elif not padding:
            hidden[..., 0] = False
        given[name] = (
            hidden
            if what == "bool"
            else np.where(hidden, -np.inf, 0 if what == "causal" else random.normal(size=shape))
        )
    return given


def is_torchs(kind, options, batched, masks, hints=(), seed=0):
    """Value, and gradients of params, inputs and floating masks."""
    theirs, ours = built(kind, options)
    given = arguments(kind, options, batched, masks, seed)
    hints = dict.fromkeys(hints, True)
    tensors = {n: torch.tensor(a, requires_grad=a.dtype != bool) for n, a in given.items()}
    module = theirs.double()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of masks of two kinds
        want = module(**tensors, **hints)
    cotangent = np.random.default_rng(9).normal(size=want.shape)
    leaves = dict(module.named_parameters()) | {n: t for n, t in tensors.items() if t.requires_grad}
    found = torch.autograd.grad(want, list(leaves.values()), torch.tensor(cotangent), allow_unused=True)
    with jax.enable_x64(True):
        params, state = ours.load_state_dict({n: t.float() for n, t in theirs.state_dict().items()})
        params = tree.cast(params, "float64")
        moving = {n: jnp.asarray(a) for n, a in given.items() if a.dtype != bool}
        fixed = {n: jnp.asarray(a) for n, a in given.items() if a.dtype == bool} | hints
        out, pull = jax.vjp(lambda p, x: ours.apply(p, state, **x, **fixed)[0], params, moving)
        param_grads, grads = pull(jnp.asarray(cotangent))
    near(out, want.detach().numpy(), EXACT, "output")
    grads = tree.flatten(param_grads) | grads
    largest = max(float(g.abs().max()) for g in found if g is not None)
    for (name, leaf), g in zip(leaves.items(), found, strict=True):
        if g is None and name in hints and not np.any(grads[name]):
            continue
        expected = np.zeros(leaf.shape) if g is None else g.numpy()
        if g is None and "mask" in name:
            continue  # torch saw that the mask is the causal one, and did without it
        np.testing.assert_allclose(grads[name], expected, rtol=0, atol=EXACT * largest, err_msg=name)


ALL = {
    "src_mask": "float",
    "tgt_mask": "causal",
    "memory_mask": "bool",
    "src_key_padding_mask": "bool",
    "tgt_key_padding_mask": "float",
    "memory_key_padding_mask": "bool",
}


@pytest.mark.slow
def test_a_transformer_with_every_mask():
    is_torchs("Transformer", {"batch_first": True}, True, ALL)


@pytest.mark.slow
def test_a_transformer_without_a_batch_and_with_its_options():
    options = {"norm_first": True, "bias": False, "activation": "gelu", "layer_norm_eps": 1e-3}
    is_torchs("Transformer", options, False, {"tgt_mask": "causal", "src_mask": "bool"}, hints=["tgt_is_causal"])


@st.composite
def cases(draw):
    kind = draw(st.sampled_from(list(LAYERS)))
    flag = st.booleans()
    options = {"batch_first": draw(flag), "norm_first": draw(flag), "bias": draw(flag)}
    options["activation"] = draw(st.sampled_from(["relu", "gelu"]))
    masks = {}
    for name, shape in LAYERS[kind][1].items():
        kinds = [None, "bool", "float"] + ([] if "padding" in name else ["heads"])
        if len(shape) == 2 and shape[0] == shape[1]:
            kinds.append("causal")
        masks[name] = draw(st.sampled_from(kinds))
    masks = {name: what for name, what in masks.items() if what}
    hints = [name.replace("mask", "is_causal") for name, what in masks.items() if what == "causal" and draw(flag)]
    hints = [{"src_is_causal": "is_causal"}.get(h, h) if kind.endswith("EncoderLayer") else h for h in hints]
    return kind, options, draw(flag), masks, hints, draw(st.integers(0, 2))


@pytest.mark.slow
@given(cases())
def test_hypothesis_layers_are_torchs(case):
    is_torchs(*case)


@pytest.mark.parametrize("norm", [pytest.param(False, marks=pytest.mark.slow), True])
def test_an_encoder_in_eval_is_torchs_fast_path_where_nothing_is_padded(norm):
    """There torch zeroes what is padded (with nested tensors), which no other position sees."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(D, H, 6, batch_first=True)
    theirs = perturbed(torch.nn.TransformerEncoder(layer, 2, torch.nn.LayerNorm(D) if norm else None)).eval()
    ours = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(D, H, 6, batch_first=True), 2, nn.LayerNorm(D) if norm else None
    )
    assert repr(ours) == repr(theirs)
    params, state = ours.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).normal(size=(2, 5, D)).astype(np.float32)
    padded = np.array([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nested tensors, a prototype
        want = theirs(torch.tensor(x), src_key_padding_mask=torch.tensor(padded)).numpy()
    out, _ = ours.apply(params, state, x, src_key_padding_mask=jnp.asarray(padded))
    near(out[~padded], want[~padded], 3e-6, "output")
    assert not norm or not np.allclose(want[padded], out[padded])


@pytest.mark.parametrize("norm_first", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_dropout_is_where_torch_has_it(norm_first, monkeypatch):
    """Everything kept, and scaled: in torch's functions and in ours."""
    kwargs = {"dropout": 0.25, "norm_first": norm_first}
    theirs = perturbed(torch.nn.TransformerDecoderLayer(D, H, 6, **kwargs))
    ours = nn.TransformerDecoderLayer(D, H, 6, **kwargs)
    attend = T.scaled_dot_product_attention
    monkeypatch.setattr(T, "dropout", lambda x, p, training, inplace: x / (1 - p))
    monkeypatch.setattr(
        T, "scaled_dot_product_attention", lambda q, k, v, mask, p, causal: attend(q, k, v, mask, 0.0, causal) / (1 - p)
    )
    asked = []
    monkeypatch.setattr(
        funcnet.random, "dropout_mask", lambda key, shape, p: asked.append((shape, p)) or jnp.ones(shape, bool)
    )
    x, memory = (np.random.default_rng(n).normal(size=(n, B, D)).astype(np.float32) for n in (L, S))
    params, state = ours.load_state_dict(theirs.state_dict())
    out, _ = ours.apply(params, state, x, memory, training=True, rng=KEY)
    near(out, theirs(torch.tensor(x), torch.tensor(memory)).detach().numpy(), 3e-6, "output")
    shapes = [(B, H, L, L), (L, B, D), (B, H, L, S), (L, B, D), (L, B, 6), (L, B, D)]
    assert asked == [(shape, 0.25) for shape in shapes]


def test_start_is_torchs_but_every_layer_has_its_own():
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nested tensors
        theirs = torch.nn.Transformer(32, 4, 2, 2, 48)
    ours = nn.Transformer(32, 4, 2, 2, 48)
    assert repr(ours) == repr(theirs)
    params, state = ours.init(KEY)
    same_distribution(ours.state_dict(params, state), theirs.state_dict())
    first, second = (params["encoder"]["layers"][i]["linear1"]["weight"] for i in "01")
    assert not np.array_equal(first, second)
    assert abs(float(jnp.abs(first).max()) - np.sqrt(6 / 80)) < 1e-3  # Xavier's bound, not Linear's


def test_activations():
    for name, function in (("relu", F.relu), ("gelu", F.gelu), (jnp.tanh, jnp.tanh)):
        assert nn.TransformerEncoderLayer(D, H, 6, activation=name).activation is function
    layer = nn.TransformerDecoderLayer(D, H, 6, activation=nn.Tanh())
    assert repr(layer) == repr(torch.nn.TransformerDecoderLayer(D, H, 6, activation=torch.nn.Tanh()))
    with pytest.raises(
        ValueError, match="TransformerEncoderLayer: activation is unknown; expected 'relu', 'gelu' or a fun"
    ):
        nn.TransformerEncoderLayer(D, H, 6, activation="tanh")


def test_custom_stacks_start_with_xavier_too():
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(D, D)

        def forward(self, src, mask, src_key_padding_mask, is_causal):
            assert mask is None and src_key_padding_mask is None and is_causal is None
            return self.fc(src)

    net = nn.Transformer(D, H, 1, 1, 6, custom_encoder=Encoder(), dropout=0.0)
    params, state = net.init(KEY)
    assert list(params["encoder"]) == ["fc"] and net.encoder.fc.weight.init is not nn.Linear(D, D).weight.init
    assert net.apply(params, state, jnp.ones((S, B, D)), jnp.ones((L, B, D)))[0].shape == (L, B, D)


def test_a_custom_stack_of_no_modules_stays():
    for library in (nn, torch.nn):
        empty = [library.Sequential(), library.Sequential()]
        net = library.Transformer(D, H, 1, 1, 6, custom_encoder=empty[0], custom_decoder=empty[1])
        assert [net.encoder, net.decoder] == empty


def test_the_causal_mask():
    want = torch.nn.Transformer.generate_square_subsequent_mask(4)
    got = nn.Transformer.generate_square_subsequent_mask(4)
    assert got.dtype == jnp.float32 and np.array_equal(got, want)
    assert nn.Transformer.generate_square_subsequent_mask(2, jnp.bfloat16).dtype == jnp.bfloat16


def call(sizes, batch_first=False, **masks):
    """torch refuses it; then ours, without computing anything."""
    with warnings.catch_warnings(), pytest.raises((RuntimeError, AssertionError)):
        warnings.simplefilter("ignore")  # of nested tensors
        torch.nn.Transformer(D, H, 1, 1, 6, batch_first=batch_first)(*map(torch.ones, sizes), **masks)
    net = nn.Transformer(D, H, 1, 1, 6, batch_first=batch_first)
    jax.eval_shape(lambda *x: net.apply(*net.init(KEY), *x, **masks), *map(jnp.ones, sizes))


REFUSALS = [
    (r"in batch size \(dimension 1\); expected equal ranks and batch sizes", ((S, 2, D), (L, 3, D)), {}),
    (
        r"in batch size \(dimension 0\); expected equal ranks and batch sizes",
        ((2, S, D), (3, L, D)),
        {"batch_first": True},
    ),
    ("the width of src and tgt must be d_model; expected \\(\\*, 4\\), got \\(4, 2, 5\\)", ((S, 2, 5), (L, 2, D)), {}),
    ("is_causal=True requires attn_mask", ((S, 2, D), (L, 2, D)), {"tgt_is_causal": True}),
]


@pytest.mark.parametrize(("message", "sizes", "options"), REFUSALS, ids=[message for message, *_ in REFUSALS])
def test_refusals_say_why(message, sizes, options):
    with pytest.raises(ValueError, match=message):
        call(sizes, **options)
