"""Ways in which torch's model files refer to modules: each model is written once, and torch is the oracle."""

import copy
import functools
import gc
from collections import OrderedDict, deque, namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn, tree

KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(5, 3))
Pair = namedtuple("Pair", "first second")
IDIOMS = {}


def idiom(build):
    """Add `build(library)`, which returns a model made of that library's layers."""
    IDIOMS[build.__name__] = build
    return build


def base(library):
    """A class with a few layers under various names. `prepare` runs in the constructor after them."""

    class Base(library.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = library.Linear(3, 3), library.Linear(3, 3)
            self.bn = library.BatchNorm1d(3)
            self.layers = library.ModuleList([library.Linear(3, 3) for _ in range(4)])
            self.norms = library.ModuleList([library.BatchNorm1d(3) for _ in range(4)])
            self.heads = library.ModuleDict({"x": library.Linear(3, 3), "y": library.BatchNorm1d(3)})
            self.act = library.Tanh()
            self.prepare()

        def prepare(self):
            pass

        def twice(self, x, scale=1):
            return self.bn(self.a(x)) * scale + self.b(x)

    return Base


def model(library, forward, prepare=lambda self: None):
    kind = type("Model", (base(library),), {"forward": forward, "prepare": prepare})
    return kind()


# ------------------------------------------------------------------------------ containers that forward creates


@idiom
def sequential_of_children(nn):
    return model(nn, lambda self, x: nn.Sequential(self.a, self.bn, nn.ReLU(), self.b)(x))


@idiom
def sequential_of_a_list(nn):
    return model(nn, lambda self, x: nn.Sequential(*self.layers[:3], *list(self.norms))(x))


@idiom
def sequential_of_children_of_self(nn):
    return model(nn, lambda self, x: nn.Sequential(*list(self.children())[:3])(x))


@idiom
def sequential_of_names(nn):
    return model(nn, lambda self, x: nn.Sequential(OrderedDict([("one", self.a), ("two", self.bn)]))(x))


@idiom
def sequential_of_sequentials(nn):
    def forward(self, x):
        inner = nn.Sequential(self.a, nn.Sequential(nn.Tanh(), self.bn))
        return nn.Sequential(inner, inner, self.bn)(x) + (inner[1] + nn.Sequential(self.b))(x)

    return model(nn, forward)


@idiom
def lists_in_forward(nn):
    def forward(self, x):
        blocks = nn.ModuleList([self.a, self.bn])
        blocks.append(self.b)
        for block in blocks:
            x = block(x)
        heads = nn.ModuleDict({"x": self.heads["x"], "act": nn.Tanh()})
        return heads["act"](heads["x"](x)) + blocks[0](x) + blocks[1:][0](x)

    return model(nn, forward)


@idiom
def a_class_in_forward(nn):
    class Residual(nn.Module):
        def __init__(self, *inner):
            super().__init__()
            self.inner = nn.Sequential(*inner)

        def forward(self, x):
            return x + self.inner(x)

    return model(nn, lambda self, x: Residual(self.a, self.bn)(x))


@idiom
def new_modules_without_parameters(nn):
    def forward(self, x):
        x = nn.Sequential(nn.ReLU(), nn.Identity())(nn.Softmax(dim=1)(self.a(x)))
        return nn.Upsample(size=4)(nn.LeakyReLU(0.3)(x)[None])

    return model(nn, forward)


@idiom
def parametrized_children(nn):
    net = model(nn, lambda self, x: nn.Sequential(self.a, self.act)(x) + nn.Linear.forward(self.a, x))
    nn.utils.parametrize.register_parametrization(net.a, "weight", nn.Tanh())
    return net


# ------------------------------------------------------------------------------------- references in the constructor


@idiom
def zipped(nn):
    def forward(self, x):
        for conv, norm in zip(self.layers, self.norms, strict=True):
            x = norm(conv(x))
        return x

    return model(nn, forward)


@idiom
def pairs_in_a_list(nn):
    def prepare(self):
        self.pairs = [(self.layers[i], self.norms[i]) for i in range(4)]

    def forward(self, x):
        for layer, norm in self.pairs:
            x = norm(layer(x))
        return x

    return model(nn, forward, prepare)


@idiom
def dicts_and_nested_containers(nn):
    def prepare(self):
        self.blocks = {"a": self.a, "b": [{"c": self.b}, (self.bn, {"d": deque([self.act])})]}
        self.scales = {self.a: 2.0, self.b: 3.0, (self.bn, 1): 4.0}
        self.kept = {self.bn}
        self.named = Pair(self.heads["x"], [self.heads["y"]])

    def forward(self, x):
        blocks = {"k": self.heads["x"]}
        x = self.blocks["b"][1][1]["d"][0](self.blocks["a"](x)) + blocks["k"](x)
        x = self.blocks["b"][1][0](self.blocks["b"][0]["c"](x)) * self.scales[self.b] + self.scales[self.a]
        for one in self.kept:
            x = one(x)
        return self.named.second[0](self.named.first(x)) * self.scales[(self.bn, 1)] * float(self.bn in self.kept)

    return model(nn, forward, prepare)


@idiom
def tuples(nn):
    def prepare(self):
        self.fns = (self.a, (self.bn, 2), self.act)

    return model(nn, lambda self, x: self.fns[2](self.fns[1][0](self.fns[0](x))) * self.fns[1][1], prepare)


@idiom
def lambdas(nn):
    def prepare(self):
        gate, several = self.heads["x"], [self.b, {"bn": self.heads["y"]}]
        self.one = lambda x: self.twice(x)
        self.two = lambda x, by=self.a, *, then=self.bn: then(by(x)) + gate(x)
        self.three = lambda x: several[1]["bn"](several[0](x))

        def recursive(x, n):
            return recursive(self.bn(x), n - 1) if n else self.act(x)

        self.four = recursive

    return model(nn, lambda self, x: self.four(self.one(x) + self.two(x) + self.three(x), 2), prepare)


@idiom
def partials_and_methods(nn):
    def prepare(self):
        self.one = functools.partial(self.twice, scale=3)
        self.two = functools.partial(self.a)
        self.three = self.twice
        self.four = self.layers[0].forward
        self.five = [functools.partial(lambda layer, x: layer(x), self.bn)]

    def forward(self, x):
        return self.five[0](self.one(x) + self.two(x) + self.three(x, 2) + self.four(x))

    return model(nn, forward, prepare)


@idiom
def a_child_that_refers_to_its_parent(nn):
    class Lambda(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def forward(self, x):
            return self.function(x)

    def prepare(self):
        self.gate = nn.Sequential(Lambda(lambda x: self.bn(self.a(x))), Lambda(self.twice))

    return model(nn, lambda self, x: self.gate(x), prepare)


@idiom
def containers_that_are_not_registered(nn):
    def prepare(self):
        self.stages = [nn.Sequential(self.a, self.bn, nn.ReLU()), nn.ModuleList([self.b])]
        self.plain = [nn.Tanh()]

    return model(nn, lambda self, x: self.plain[0](self.stages[1][0](self.stages[0](x))), prepare)


@idiom
def mapped(nn):
    def forward(self, x):
        one, two = map(self.a, (x, x + 1))
        three, four = map(lambda t: self.bn(t), (one, two))  # noqa: C417 - the idiom itself
        return sum(map(self.twice, [three, four]))

    return model(nn, forward)


# ----------------------------------------------------------------------------------------- torch's ways to its parts


@idiom
def parts_by_name(nn):
    def forward(self, x):
        for name, module in self.named_children():
            if name in ("a", "bn"):
                x = module(x)
        for module in self.layers._modules.values():
            x = module(x)
        for name in self.heads._modules:
            x = self.heads._modules[name](x)
        x = self._modules["b"](x) + getattr(self, f"{'b'}n")(x) + self.__getattr__("a")(x)
        assert [name for name, _ in self._modules.items()][:3] == ["a", "b", "bn"] and "c" not in self._modules
        first = list(self.children())[0]  # noqa: RUF015 - the idiom itself
        return first(x) * self.bn._parameters["weight"] + self.norms[0]._buffers["running_var"]

    return model(nn, forward)


@idiom
def slices_and_reversed_lists(nn):
    def forward(self, x):
        for layer in reversed(self.layers):
            x = layer(x)
        for norm in self.norms[1:3]:
            x = norm(x)
        return self.norms[-1](x)

    return model(nn, forward)


@idiom
def methods_of_classes(nn):
    class Own(nn.Linear):
        def __call__(self, x):
            return super().__call__(x) + 1

        def forward(self, x):
            return super().forward(x) * 2

    def prepare(self):
        self.own = Own(3, 3)

    def forward(self, x):
        return nn.Linear.forward(self.b, nn.Module.__call__(self.a, x)) + self.own(x) + self._forward_impl(x)

    net = model(nn, forward, prepare)
    type(net)._forward_impl = lambda self, x: self.bn(x)
    return net


@idiom
def changes_through_the_dicts_of_parts(nn):
    def prepare(self):
        self._modules["a"] = nn.Linear(3, 3, bias=False)
        self._modules["new"] = nn.BatchNorm1d(3)
        del self._modules["b"]
        self.add_module("empty", None)
        for name in [name for name, module in self.heads._modules.items() if isinstance(module, nn.BatchNorm1d)]:
            self.heads._modules[name] = nn.Identity()
        assert self._modules["empty"] is None and self.a._parameters["bias"] is None
        assert list(self._modules)[-2:] == ["new", "empty"] and self._buffers == {}

    def forward(self, x):
        return self.new(self.heads["y"](self.heads["x"](self.a(x))))

    return model(nn, forward, prepare)


def outcome(net, x, training):
    """torch's output, gradients of parameters and buffers after the call."""
    net.train(training)
    y = net(torch.tensor(x))
    (y * torch.arange(y.numel()).reshape(y.shape)).sum().backward()
    gradients = {name: p.grad.numpy() for name, p in net.named_parameters() if p.grad is not None}
    return y.detach().numpy(), gradients, {name: buffer.numpy() for name, buffer in net.named_buffers()}


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", IDIOMS)
def test_values_gradients_buffers_and_names_are_torchs(name, training):
    """In float64, because some of these gradients are differences of nearly equal numbers."""
    torch.manual_seed(0)
    theirs, net = IDIOMS[name](torch.nn).double(), IDIOMS[name](nn)
    assert list(net.state_dict(*net.init(KEY))) == list(theirs.state_dict())
    before = dict(vars(net))

    def loss(params, state, x):
        y, state = net.apply(params, state, x, training=training)
        return (y * jnp.arange(y.size, dtype=y.dtype).reshape(y.shape)).sum(), (y, state)

    with jax.enable_x64(True):
        params, state = (tree.cast(part, jnp.float64) for part in net.load_state_dict(theirs.state_dict()))
        expected, gradients, buffers = outcome(theirs, X, training)
        for run in (jax.grad(loss, has_aux=True), jax.jit(jax.grad(loss, has_aux=True))):
            ours, (y, new) = run(params, state, X)
            np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-9)
            for leaf, gradient in tree.flatten(ours).items():
                truth = gradients.get(leaf, np.zeros_like(gradient))
                np.testing.assert_allclose(gradient, truth, rtol=1e-9, atol=1e-9, err_msg=leaf)
            for leaf, value in tree.flatten(new).items():
                np.testing.assert_allclose(value, buffers[leaf], rtol=1e-9, atol=1e-9, err_msg=leaf)
    assert all(vars(net)[name] is value for name, value in before.items()), "apply leaves the description as it is"


# ---------------------------------------------------------------------------------------------- modes, keys and names


def test_a_new_module_in_a_new_container_is_in_training_mode_as_in_torch():
    """torch's new Dropout drops in a net in eval mode too. Here, it draws from the key of the call."""
    forward = lambda lib: lambda self, x: lib.Sequential(self.layer, lib.Dropout(0.5), self.drop, lib.Dropout(0.5))(x)

    def make(lib):
        class Net(lib.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.drop = lib.Identity(), lib.Dropout(0.5)

        Net.forward = forward(lib)
        return Net()

    net, x = make(nn), jnp.ones((100, 100))
    shares = [float((make(torch.nn).train(mode)(torch.ones(100, 100)) == 0).float().mean()) for mode in (False, True)]
    for training, theirs in zip((False, True), shares, strict=True):
        once, again, other = (
            jax.jit(functools.partial(net.apply, training=training))(
                {"layer": {}, "drop": {}}, net.init(KEY)[1], x, rng=k
            )[0]
            for k in (KEY, KEY, jax.random.key(1))
        )
        assert abs(float((once == 0).mean()) - theirs) < 0.03
        assert (once == again).all() and not (once == other).all()
    with pytest.raises(ValueError, match=r"Sequential\[0\].1 \(Dropout\): the module needs randomness. Pass apply"):
        net.apply(*net.init(KEY), x)


@pytest.mark.slow
def test_hooks_names_and_modes_of_the_modules_in_a_new_container():
    net = IDIOMS["sequential_of_children"](nn)
    params, state = net.init(KEY)
    hooks, seen = nn.Hooks(), []
    hooks.register_forward_hook("a", lambda module, args, output: seen.append(module))
    net.apply(params, state, X, hooks=hooks)
    assert seen == [net.a]
    _, new = net.apply(params, state, X, training={"bn": True})
    assert int(new["bn"]["num_batches_tracked"]) == 1
    _, _, captured = nn.capture(net, "bn")(params, state, X)
    assert list(captured) == ["bn"]
    gc.collect()
    assert nn.core.shared_parts.homes(net.a.weight) == []


@pytest.mark.parametrize(
    ("forward", "text"),
    [
        (lambda self, x: nn.Linear(3, 3)(x), r"Linear: a description holds no arrays.*Create modules with"),
        (lambda self, x: nn.Sequential(self.a, nn.Linear(3, 3))(x),
         r"Sequential\[0\].1 \(Linear\): the module has parameters or buffers but is not part of the net.*__init__"),
        (lambda self, x: self.hidden[0](x), r"Linear: a description holds no arrays.*registered.*nn.ModuleList"),
        (lambda self, x: self.outer(x), r"Linear: a description holds no arrays.*A plain list registers nothing"),
    ],
)  # fmt: skip
def test_modules_without_arrays_are_refused(forward, text):
    hidden = nn.Linear(3, 3)

    def prepare(self):
        self.hidden = [hidden]
        self.outer = lambda x: hidden(x)

    net = model(nn, forward, prepare)
    assert not [name for name, _ in net.named_parameters() if "hidden" in name]
    with pytest.raises(TypeError, match=text):
        net.apply(*net.init(KEY), X)


def test_a_copy_of_a_net_refers_to_its_own_modules():
    net = copy.deepcopy(IDIOMS["partials_and_methods"](nn))
    with_lambda = copy.deepcopy(IDIOMS["lambdas"](nn))
    assert net.apply(*net.init(KEY), X)[0].shape == X.shape
    with pytest.raises(TypeError, match="A lambda in a deep copy still refers to the original modules"):
        with_lambda.apply(*with_lambda.init(KEY), X)


@pytest.mark.parametrize("name", ["lambdas", "partials_and_methods", "pairs_in_a_list", "sequential_of_children"])
def test_remat_and_repeat_of_such_modules(name):
    net = IDIOMS[name](nn)
    params, state = net.init(KEY)
    loss = lambda net: lambda params: net.apply(params, state, X, training=True)[0].sum()
    for a, b in zip(*(jax.tree.leaves(jax.jit(jax.grad(loss(n)))(params)) for n in (net, nn.remat(net))), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    if name != "lambdas":
        stack = nn.Repeat(net, 2, scan=True)
        y, _ = stack.apply(*stack.init(KEY), X, training=True)
        assert y.shape == X.shape


def test_remat_of_a_new_container():
    plain = model(nn, lambda self, x: nn.Sequential(self.a, self.bn, nn.Tanh())(x))
    saving = model(nn, lambda self, x: nn.remat(nn.Sequential(self.a, self.bn, nn.Tanh()))(x))
    params, state = plain.init(KEY)
    runs = [
        jax.value_and_grad(
            lambda p, n=n: (lambda y, s: (y.sum(), s))(*n.apply(p, state, X, training=True)), has_aux=True
        )
        for n in (plain, saving)
    ]
    for a, b in zip(*(jax.tree.leaves(run(params)) for run in runs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_list_that_two_modules_share_is_one_list_in_a_call():
    log = []

    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.log = log

        def forward(self, x):
            self.log.append(x)
            return x

    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.child, self.log = Writes(), log

        def forward(self, x):
            self.child(x)
            return self.log[0]

    with pytest.warns(UserWarning, match="a plain list, and the change is lost"):
        assert (Reads().apply({"child": {}}, {"child": {}}, X)[0] == X).all()
    assert log == []


def test_a_change_of_a_list_of_modules_is_lost_and_says_so():
    def forward(self, x):
        self.pairs.append(self.a)
        return self.pairs[-1](x)

    net = model(nn, forward, lambda self: setattr(self, "pairs", [self.b]))
    with pytest.warns(UserWarning, match="forward changed 'pairs', a plain list"):
        net.apply(*net.init(KEY), X)


# -------------------------------------------------------------------------------- modules as keys, and their equality


def test_modules_are_keys_of_a_cache_from_call_to_call():
    """As in openai-whisper: hooks fill a dict whose keys are modules, and forward looks its children up in it."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.key = nn.Linear(3, 3)

        def forward(self, x, cache):
            return cache[self.key] if self.key in cache else self.key(x)

    net = Attention()
    params, state = net.init(KEY)
    hooks, cache = nn.Hooks(), {}
    hooks.register_forward_hook("key", lambda module, args, output: cache.__setitem__(module, output))
    first, _ = net.apply(params, state, X, {}, hooks=hooks)
    assert list(cache) == [net.key] and next(iter(cache)) is not net.key
    second, _ = net.apply(params, state, X + 1, cache)
    third, _ = net.apply(params, state, X + 1, {net.key: X})
    assert (first == second).all() and (third == X).all()
    assert (
        net.key != nn.Linear(3, 3) and net.key != 3 and net.key == net.key and hash(net.key) == hash(next(iter(cache)))
    )


# -------------------------------------------------------------------------------------------------- torch's hidden API


@pytest.mark.parametrize("mode", ["zeros", "circular"])
def test_conv_forward_may_be_overridden(mode):
    def make(library):
        class Conv1d(library.Conv1d):
            def _conv_forward(self, x, weight, bias):
                return super()._conv_forward(x, weight * 2, None if bias is None else bias + 1)

        return Conv1d(3, 4, 3, padding=1, padding_mode=mode)

    theirs, net = make(torch.nn), make(nn)
    x = np.random.default_rng(1).normal(size=(2, 3, 7)).astype(np.float32)
    y, _ = net.apply(*net.load_state_dict(theirs.state_dict()), x)
    np.testing.assert_allclose(y, theirs(torch.tensor(x)).detach().numpy(), rtol=1e-5, atol=1e-5)


def test_the_constructor_of_the_base_class_may_run_late_or_never():
    class Late(nn.Module):
        def __init__(self):
            self.width = 3
            self.a = nn.Linear(3, 3)
            super().__init__()

        def forward(self, x):
            return self.a(x) * self.width

    class Never(nn.Module):
        def __init__(self):
            self.a = nn.BatchNorm1d(3)

        def forward(self, x):
            return self.a(x)

    for net in (Late(), Never()):
        assert net.apply(*net.init(KEY), X)[0].shape == X.shape and list(net._modules) == ["a"]


def frozen_norm(library, array):
    class Frozen(library.Module):
        def __init__(self):
            if library is torch.nn:
                super().__init__()
            self.register_buffer("weight", array([1.0, 2.0, 3.0]))
            self.fc = library.Linear(3, 3)

        def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors):
            state_dict.pop(prefix + "num_batches_tracked", None)
            for name in [name for name in state_dict if name.startswith(prefix + "old.")]:
                state_dict[name.replace("old.", "fc.")] = state_dict.pop(name)
            super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)

        def forward(self, x):
            return self.fc(x) * self.weight

    return library.Sequential(library.Linear(3, 3), Frozen())


def test_an_override_that_changes_the_state_dict_before_it_is_loaded():
    theirs, net = frozen_norm(torch.nn, torch.tensor), frozen_norm(nn, jnp.array)
    old = OrderedDict((name.replace("1.fc", "1.old"), value) for name, value in theirs.state_dict().items())
    old["1.weight"] = torch.tensor([4.0, 5.0, 6.0])
    old["1.num_batches_tracked"] = torch.tensor(3)
    theirs.load_state_dict(old)
    params, state = net.load_state_dict(old)
    assert net.match_state_dict(old) == ([], [], []) and "1.old.weight" in old
    np.testing.assert_allclose(
        net.apply(params, state, X)[0], theirs(torch.tensor(X).float()).detach().numpy(), rtol=1e-5, atol=1e-6
    )
    with pytest.raises(ValueError, match=r"unexpected: 0.num_batches_tracked"):
        net.load_state_dict({**old, "0.num_batches_tracked": jnp.array(1)})
