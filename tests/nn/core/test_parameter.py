"""Leaves as torch's own class has them: what constructors register and read, tags, and what only arrays have."""

import copy
import pickle
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn, tree

KEY = jax.random.key(0)
X = jnp.ones((2, 3))


def tagged(lib):
    """The tags by which Swin, Mamba and S4 choose their weight decay; the same class for both libraries."""

    class Net(lib.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.out = lib.Linear(3, 3), lib.Linear(3, 3)
            self.fc.weight._no_weight_decay = True
            setattr(self.out.bias, "_optim", {"lr": 0.1})  # noqa: B010 - the idiom itself
            for p in self.out.parameters():
                p.group = "out"
            self.register_buffer("scale", torch.ones(1) if lib is torch.nn else jnp.ones(1))
            self.scale.kept = "also"

        def forward(self, x):
            return self.out(self.fc(x)) * self.scale

    return Net()


def tags(net):
    names = ("_no_weight_decay", "_optim", "group", "kept")
    leaves = [*net.named_parameters(), *net.named_buffers()]
    return {name: {tag: getattr(leaf, tag) for tag in names if hasattr(leaf, tag)} for name, leaf in leaves}


def test_tags_are_torchs_and_survive_copies():
    expected, net = tags(tagged(torch.nn)), tagged(nn)
    for one in (net, copy.deepcopy(net), copy.copy(net)):
        assert tags(one) == expected
    assert pickle.loads(pickle.dumps(net.out)).bias._optim == {"lr": 0.1}
    assert net.fc.weight.another()._no_weight_decay and not hasattr(net.fc.bias, "group")
    stack = nn.Repeat(net, 2, scan=True)
    assert tags(stack)["*.fc.weight"] == {"_no_weight_decay": True}
    decayed = [name for name, p in net.named_parameters() if not getattr(p, "_no_weight_decay", False)]
    assert decayed == ["fc.bias", "out.weight", "out.bias"]


def test_a_tag_changes_no_program():
    net = tagged(nn)
    params, state = net.init(KEY)
    before = net.apply
    jax.jit(before)(params, state, X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.fc.weight.new = 1
        net.fc.weight.new = [2]
        net.fc.weight._no_weight_decay = False
        del net.fc.weight.new
    assert before == net.apply
    with pytest.warns(UserWarning, match="'requires_grad' was changed after jax.jit"):
        net.fc.weight.requires_grad = False
    assert before != net.apply


def registered(lib, array):
    """What constructors register, and what they and forward read."""

    class Net(lib.Module):
        def __init__(self):
            super().__init__()
            self.scale = lib.Parameter(array(np.arange(3, dtype=np.float32)))
            self.fixed = lib.Parameter(array(np.ones(3, np.float32)), requires_grad=False)
            self.count = lib.Parameter(array(np.arange(3)), requires_grad=False)
            self.register_buffer("x", None)
            self.register_parameter("bias", None)
            self.register_buffer("ids", array(np.arange(4)), persistent=False)
            self.fc = lib.Linear(3, 2)
            for p in self.fc.parameters():
                p.requires_grad = False
            self.facts = [(p.numel(), tuple(p.size()), p.dim(), p.ndim, len(p)) for p in self.parameters()]
            self.is_half = next(self.parameters()).dtype == (torch.float16 if lib is torch.nn else jnp.float16)

        @property
        def dtype(self):
            return next(self.parameters()).dtype

        def forward(self, x):
            assert self.x is None and self.bias is None
            x = x * self.scale + self.fixed
            return self.fc(x) if self.dtype == x.dtype and self.ids.shape[0] == 4 else None

    return Net()


def test_what_constructors_register_is_torchs():
    theirs, net = registered(torch.nn, torch.tensor), registered(nn, jnp.asarray)
    assert net.facts == theirs.facts and net.is_half is theirs.is_half is False and net.dtype == jnp.float32
    params, state = net.load_state_dict(theirs.state_dict())
    assert list(net.state_dict(params, state)) == list(theirs.state_dict())
    assert [p.requires_grad for p in net.parameters()] == [p.requires_grad for p in theirs.parameters()]
    expected = theirs(torch.ones(2, 3))
    expected.sum().backward()
    for apply in (net.apply, jax.jit(net.apply)):
        np.testing.assert_allclose(apply(params, state, X)[0], expected.detach().numpy(), rtol=1e-5)
    trainable, frozen = net.partition(params)
    loss = lambda trainable: net.apply(tree.merge(trainable, frozen), state, X)[0].sum()
    np.testing.assert_allclose(jax.grad(loss)(trainable)["scale"], theirs.scale.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda p: p.device, r"It describes an array and has no values\. Only arrays have a device"),
        (lambda p: p.is_cuda, r"Only arrays have a device"),
        (lambda p: p.register_hook(print), r"Change the gradients that jax\.grad returns, or use nn\.Hooks"),
        (lambda p: p.grad, r"Gradients are returned by jax\.grad"),
    ],
)
def test_what_only_arrays_have_is_told(use, text):
    with pytest.raises(AttributeError, match=text):
        use(nn.Parameter((3,)))


@pytest.mark.parametrize("name", ["device", "is_cuda", "register_hook"])
def test_what_arrays_lack_under_jit_is_told(name):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return getattr(next(self.parameters()), name)

    net = Net()
    with pytest.raises(AttributeError) as caught:
        jax.jit(net.apply)(*net.init(KEY), X)
    assert any(note.startswith(("Leave it out.", "Use a backward hook")) for note in caught.value.__notes__)
