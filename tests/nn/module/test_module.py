"""A description is built, `apply` runs it; and what it refuses it names. Beside torch: `test_module_parity.py`."""

import copy
import functools
import inspect
import pickle
import types
from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import functional as F
from funcnet import nn, tree
from tests.nn.nested import IDS, KEY, ours

RNG = jax.random.key(3)
X = jnp.ones((2, 2))


class Whole(nn.Module):
    """One of everything, small."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.scale = nn.Parameter((2,), nn.init.ones())
        self.register_buffer("count", nn.Buffer((), dtype=jnp.int32))
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        self.count = self.count + 1
        return self.encode(x) * self.scale

    def encode(self, x, *, twice=False):
        return self.fc(self.fc(x)) if twice else self.fc(x)


@pytest.fixture
def whole():
    net = Whole()
    return net, *net.init(KEY)


def refuses(text, attempt, error=ValueError):
    with pytest.raises(error) as caught:
        attempt()
    message = str(caught.value) + "".join(f"\n{note}" for note in getattr(caught.value, "__notes__", ()))
    assert text in message, message


# --------------------------------------------------------------------------------------------------- building


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda m: setattr(m, "fc", 3), TypeError, "Whole.fc: expected a Module or None, got int. Assign a module"),
        (lambda m: setattr(m, "scale", np.ones(2)), TypeError, "expected a Parameter or None, got ndarray. Wrap an"),
        (lambda m: setattr(m, "scale", nn.ReLU()), TypeError, "scale: expected a Parameter or None, got ReLU. Wrap an"),
        (lambda m: setattr(m, "scale", nn.Buffer(2)), TypeError, "scale: expected a Parameter or None, got Buffer."),
        (lambda m: setattr(m, "fc", nn.Buffer(2)), TypeError, "fc: expected a Module or None, got Buffer. Assign a"),
        (lambda m: setattr(m, "init", nn.ReLU()), KeyError, "a part cannot have the name 'init', which is the method"),
        (lambda m: setattr(m, "apply", nn.ReLU()), KeyError, "a part cannot have the name 'apply', which is the met"),
        (lambda m: setattr(m, "count", 3), TypeError,
         "Whole.count: expected a Buffer or None, got int. Assign an array"),
        (lambda m: m.register_parameter("p", np.ones(2)), TypeError, "Whole.p: expected a Parameter or None, got"),
        (lambda m: m.register_buffer("b", 3.0), TypeError, "Whole.b: expected a Buffer or None, got float"),
        (lambda m: m.add_module("m", 3), TypeError, "Whole.m: expected a Module or None, got int"),
        (lambda m: m.add_module("a.b", nn.Tanh()), KeyError,
         "expected a non-empty string without dots, got 'a.b'"),
        (lambda m: m.add_module("", nn.Tanh()), KeyError, "expected a non-empty string without dots, got ''"),
        (lambda m: setattr(m, "*", nn.Tanh()), KeyError, "a part cannot have the name '*', which denotes the"),
        (lambda m: m.add_module(3, nn.Tanh()), TypeError,
         "Whole: the name has the wrong type; expected a string, got int"),
        (lambda m: m.register_buffer("fc", None), KeyError,
         "Whole: the attribute 'fc' already exists. Choose another name"),
        (lambda m: m.add_module("forward", nn.Tanh()), KeyError, "the attribute 'forward' already exists"),
        (lambda m: m.add_module("training", nn.Tanh()), KeyError, "the attribute 'training' already exists"),
        (lambda m: nn.Parameter("x"), TypeError, "Parameter: expected a shape (a tuple of ints) or an array, got 'x'"),
        (lambda m: nn.Parameter(4, 4), TypeError, "Parameter: init is not a function; expected a function of"),
        (lambda m: nn.Linear(-2, 2), ValueError, "a size is negative; expected sizes of at least 0, got (2, -2)"),
        (lambda m: m.load_state_dict("x.pt"), TypeError,
         "a dict that maps names to arrays, got str. Read it with funcnet.weights.load"),
        (lambda m: nn.Parameter(np.ones(2), nn.init.ones()), TypeError,
         "Parameter: the initial value is already given by an array"),
        (lambda m: m.get_submodule("fd"), AttributeError, "Whole: there is no module 'fd'. Nearest names: 'fc'"),
        (lambda m: m.get_parameter("fc.wait"), AttributeError,
         "Linear: there is no parameter 'fc.wait'. Nearest names: 'weight', "),
        (lambda m: m.get_buffer("scale"), AttributeError, "Whole: there is no buffer 'scale'. Nearest names: 'count'"),
        (lambda m: nn.ModuleList([m])[1], IndexError, "ModuleList: index 1 is out of range for 1 modules"),
    ],
)  # fmt: skip
def test_what_building_refuses(act, error, text):
    refuses(text, lambda: act(Whole()), error)


def test_properties_and_plain_attributes_are_pythons():
    class Rate(nn.Module):
        @property
        def rate(self):
            return self._rate

        @rate.setter
        def rate(self, value):
            self._rate = value / 2

    net = Rate()
    net.rate = 4
    assert net.rate == 2 and vars(net) == {"_rate": 2.0}


def test_a_method_kept_as_attribute_is_the_bound_copys():
    class Choice(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)
            self.act = self.double

        def double(self, x):
            return 2 * self.fc(x)

        def forward(self, x):
            return self.act(x)

    plain = Choice()
    for net in (plain, nn.remat(plain)):
        params, state = net.init(KEY)
        np.testing.assert_allclose(net.apply(params, state, X)[0], 2 * F.linear(X, **params["fc"]), rtol=1e-6)
        assert isinstance(net.act, types.MethodType) and net.act.__self__ is net
    assert plain.act.__self__ is plain


# ------------------------------------------------------------------------------------------------- initialising


class Initialised(nn.Module):
    """As constructors for torch are written: loops over modules, in-place initialisers, parts of a weight."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 3)
        self.layers = nn.Repeat(nn.Sequential(nn.Linear(3, 3), nn.Tanh()), 2, scan=True)
        self.out = nn.Linear(3, 3)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.constant_(module.weight, 2.0)
                if module.bias is not None:
                    module.bias.data.zero_()
            elif isinstance(module, nn.Embedding):
                module.weight.data.normal_(mean=0.0, std=0.02)
                module.weight.data[0].zero_()
                module.weight.data[1:3, 2].fill_(9.0)
        self.out.weight.data = np.arange(9.0).reshape(3, 3)
        for p in self.parameters():
            if p.dim() > 1 and p.size(0) == 5:
                p.requires_grad_(False)


@pytest.mark.parametrize("made", [lambda n: n, copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))])
def test_constructors_that_initialise(made):
    net = made(Initialised())
    params, _ = net.init(KEY)
    embed = np.array(params["embed"]["weight"])
    assert not embed[0].any() and (embed[1:3, 2] == 9).all()
    assert 0 < np.abs(embed[3:]).max() < 0.2
    assert (params["layers"]["*"]["0"]["weight"] == 2).all() and not params["layers"]["*"]["0"]["bias"].any()
    assert params["out"]["weight"].tolist() == np.arange(9.0).reshape(3, 3).tolist()
    assert [p.requires_grad for p in net.parameters()] == [False, True, True, True, True]


def test_parameters_read_as_torchs():
    p = nn.Parameter((4, 3), nn.init.normal())
    assert (p.shape, p.dim(), p.ndim, p.size(), p.size(-1), p.numel(), len(p)) == ((4, 3), 2, 2, (4, 3), 3, 12, 4)
    assert [row.shape for row in p] == [(3,)] * 4
    assert repr(p) == "Parameter((4, 3), dtype=float32)" and p.data is p
    assert p.requires_grad and not p.requires_grad_(False).requires_grad
    refuses("expected an array that broadcasts to shape (4, 3), got shape (5,)", lambda: p.copy_(np.ones(5)))
    refuses("the entire parameter must have an init before a part", lambda: nn.Parameter((2,))[0].zero_())
    refuses("the shape is not known before `init` gets an example", lambda: nn.Parameter(None).numel())
    for whole in (jnp.arange(3), np.ones(3, bool)):
        refuses("Parameter: this dtype does not support gradients; expected a floating or complex dtype, got",
                lambda whole=whole: nn.Parameter(whole), TypeError)  # fmt: skip
        assert nn.Parameter(whole, requires_grad=False).dtype == whole.dtype
    assert nn.Parameter(3).shape == (3,) and nn.Buffer(np.ones(2)).shape == (2,)


@pytest.mark.parametrize(
    ("parameter", "text"),
    [
        (
            lambda: nn.Parameter((2,)),
            "init: 'p' has no init. Pass an init to Parameter(shape, init), or set it with nn.init",
        ),
        (lambda: nn.Parameter((2,), lambda k, s, d: jnp.ones(3)), "the init of 'p' returned shape (3,); expected (2,)"),
        (lambda: nn.Parameter(None, nn.init.ones()), "the shape of 'p' is not known. Pass an example input"),
    ],
)
def test_what_init_refuses(parameter, text):
    net = nn.Module()
    net.p = parameter()
    refuses(text, lambda: net.init(KEY))


def test_an_init_is_called_with_key_shape_and_dtype():
    seen = []
    net = nn.Module()
    net.p = nn.Parameter((2, 3), lambda *args: seen.append(args) or jnp.zeros((2, 3)), dtype=jnp.bfloat16)
    assert net.init(KEY)[0]["p"].dtype == jnp.bfloat16
    assert seen[0][1:] == ((2, 3), jnp.bfloat16) and jnp.issubdtype(seen[0][0].dtype, jax.dtypes.prng_key)


def test_lazy_modules_take_their_shapes_from_the_example():
    net = nn.Sequential(nn.LazyLinear(4), nn.Repeat(nn.LazyLinear(4), 2, scan=True))
    params, state = net.init(KEY, jnp.ones((2, 3)))
    assert params["0"]["weight"].shape == (4, 3) and params["1"]["*"]["weight"].shape == (2, 4, 4)
    net.apply(params, state, jnp.ones((5, 3)))
    refuses("the shape of '0.weight' is not known. Pass an example input", lambda: net.init(KEY))


# ------------------------------------------------------------------------------------------------------ applying


def test_params_and_state_mirror_the_modules(whole):
    _, params, state = whole
    assert jax.tree.map(jnp.shape, params) == {"scale": (2,), "fc": {"weight": (2, 2), "bias": (2,)}, "drop": {}}
    assert jax.tree.map(jnp.shape, state) == {"count": (), "fc": {}, "drop": {}}
    assert type(params) is type(params["fc"]) is dict


def test_every_submodule_is_a_function_of_its_own(whole):
    net, params, state = whole
    out, after = net.fc.apply(params["fc"], state["fc"], X)
    np.testing.assert_array_equal(out, net.apply(params, state, X, method="encode")[0])
    assert after == {}


def test_method_names_another_method(whole):
    net, params, state = whole
    out, after = net.apply(params, state, X, method="encode", twice=True)
    np.testing.assert_allclose(out, F.linear(F.linear(X, **params["fc"]), **params["fc"]), rtol=1e-6)
    assert after is state
    refuses("Whole.apply: there is no method 'decode'", lambda: net.apply(params, state, X, method="decode"))
    refuses("there is no method 'fd'", lambda: net.apply(params, state, X, method="fd"))


class Modes(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.ModuleDict({"a": nn.Dropout(0.5), "b": nn.Dropout(0.5)})
        self.head = nn.Dropout(0.5)
        self.again = self.head

    def forward(self):
        parts = (self, self.backbone, self.backbone["a"], self.backbone["b"], self.head, self.again)
        return [part.training for part in parts]


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (True, [True] * 6),
        ({"backbone": True}, [False, True, True, True, False, False]),
        ({"**": True, "backbone": False, "*.b": True}, [True, False, False, True, True, True]),
        ({"": True, "head": False}, [True, True, True, True, False, False]),
        ({}, [False] * 6),
    ],
)
def test_training_by_pattern(training, expected):
    net = Modes()
    assert net.apply(*net.init(KEY), training=training)[0] == expected


def test_a_shared_module_inside_remat_keeps_its_mode():
    net = nn.Sequential(nn.Dropout(0.5))
    net.append(nn.remat(nn.Sequential(net[0], nn.Identity())))
    out, _ = net.apply(*net.init(KEY), jnp.ones(64), training={"0": True}, rng=RNG)
    assert {0.0, 4.0} == set(np.unique(out)) and out.shape == (64,)


@pytest.mark.parametrize(
    ("arguments", "kwargs", "error", "text"),
    [
        ((), {"training": {"fd": True}}, ValueError, "Whole.apply(training=…): pattern 'fd' matches nothing"),
        ((), {"training": 1}, TypeError,
         "Whole.apply: training must be static; expected a bool or {name pattern: bool}"),
        ((), {"training": {"fc": 1}}, TypeError, "training must be static"),
    ],
)  # fmt: skip
def test_what_training_refuses(whole, arguments, kwargs, error, text):
    net, params, state = whole
    refuses(text, lambda: net.apply(params, state, X, *arguments, **kwargs), error)


def test_training_under_jit_is_static(whole):
    net, params, state = whole
    refuses(
        "Under jit, bind the argument before tracing",
        lambda: jax.jit(net.apply)(params, state, X, training=True),
        TypeError,
    )


def changed(tree_, name, value):
    flat = dict(tree.flatten(tree_))
    flat.pop(name, None)
    return tree.unflatten(flat if value is None else {**flat, name: value})


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        (
            "fc.bias",
            None,
            "fc (Linear): params has no 'bias'. Pass the params and state that this module's own init returned.",
        ),
        ("fc.more", 1.0, "fc (Linear): params has an unexpected entry 'more'."),
        ("more", 1.0, "the root (Whole): params has an unexpected entry 'more'."),
        (
            "fc.weight",
            jnp.ones((3, 2)),
            "fc (Linear): params 'weight' has the wrong shape; expected (2, 2), got (3, 2).",
        ),
        ("drop", 1.0, "the root (Whole): 'drop' is a module; expected a dict, got float."),
    ],
)
def test_params_that_do_not_fit(whole, name, value, text):
    net, params, state = whole
    refuses(text, lambda: net.apply(changed(params, name, value), state, X))


def test_state_that_does_not_fit(whole):
    net, params, _ = whole
    refuses("the root (Whole): state has no 'count'", lambda: net.apply(params, {}, X))
    refuses(
        "Whole.apply: expected params and state, two dicts as `init` returns them, got ",
        lambda: net.apply(X),
        TypeError,
    )
    refuses("got dict and ArrayImpl. Call net.apply(params, state, *inputs)", lambda: net.apply(params, X), TypeError)


def test_a_stack_of_another_depth_does_not_fit():
    net, other = nn.Repeat(nn.Linear(2, 2), 3, scan=True), nn.Repeat(nn.Linear(2, 2), 2, scan=True)
    refuses(
        "* (Linear): params 'weight' has the wrong shape; expected (2, 2, 2), got (3, 2, 2)",
        lambda: other.apply(*net.init(KEY), X),
    )


class Does(nn.Module):
    """Runs what a test gives it, inside forward."""

    def __init__(self, act):
        super().__init__()
        self.act = act
        self.child = Whole()
        self.items = nn.ModuleList([nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2)])
        self.hidden = [nn.Linear(2, 2)]
        self.weight = nn.Parameter((2,), nn.init.zeros())
        self.register_buffer("mean", nn.Buffer((2,)))
        self.register_buffer("steps", nn.Buffer((), dtype=jnp.int32))
        self.register_buffer("off", None)

    def forward(self, x):
        return self.act(self, x)


def run(act, **kwargs):
    net = Does(act)
    return net.apply(*net.init(KEY), X, **kwargs)


@pytest.mark.parametrize(
    ("act", "error", "text"),
    [
        (lambda m, x: setattr(m, "weight", x), ValueError, "assigned to the parameter 'weight'"),
        (lambda m, x: setattr(m.child, "fc", x), ValueError, "child (Whole): forward assigned to 'fc'"),
        (lambda m, x: setattr(m, "mean", x), ValueError, "the shape of the buffer 'mean' cannot change; expected (2,)"),
        (lambda m, x: setattr(m, "steps", x[0, 0]), ValueError,
         "the dtype of the buffer 'steps' cannot change; expected int32, got float32"),
        (lambda m, x: delattr(m, "weight"), ValueError, "the root (Does): forward deleted 'weight'"),
        (lambda m, x: m.items.append(nn.Tanh()), ValueError, "items (ModuleList): forward created the module '3'"),
        (lambda m, x: m.hidden[0](x), TypeError, "Linear: a description holds no arrays and cannot be"),
        (lambda m, x: m.items(x), NotImplementedError,
         "ModuleList: the class does not define forward. Define forward(self, …)"),
        (lambda m, x: jax.random.uniform(m.child.drop.make_rng()), ValueError,
         "child.drop (Dropout): the module needs randomness. Pass apply"),
        (lambda m, x: m.child(x[:, :1]), (ValueError, TypeError), "in module child.fc (Linear)"),
        (lambda m, x: m.child.subtree("fd"), AttributeError, "Whole: there is no module 'fd'. Nearest names: 'fc'"),
    ],
)  # fmt: skip
def test_what_forward_is_refused(act, error, text):
    refuses(text, lambda: run(act), error)


@pytest.mark.parametrize(
    "make", [lambda m: functools.partial(m.double), lambda m: lambda x: m.double(x), lambda m: [m.fc]]
)
def test_what_refers_to_the_description_leads_to_the_bound_copy(make):
    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)
            self.held = make(self)

        def double(self, x):
            return 2 * self.fc(x)

        def forward(self, x):
            return (self.held[0] if isinstance(self.held, list) else self.held)(x)

    net = Holds()
    params, state = net.init(KEY)
    times = 1 if isinstance(net.held, list) else 2
    expected = times * (X @ params["fc"]["weight"].T + params["fc"]["bias"])
    np.testing.assert_allclose(net.apply(params, state, X)[0], expected, rtol=1e-6)


@pytest.mark.slow
def test_plain_lists_and_dicts_are_copied_so_that_nothing_leaks():
    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen, self.sizes, self.tags = [], {}, set()
            self.last, self.nested = deque(maxlen=2), {"a": [[], deque()], "self": None}
            self.nested["self"] = self.nested

        def forward(self, x):
            self.seen.append(x)
            self.sizes["x"] = x
            self.tags.add("x")
            self.last.append(x)
            self.nested["self"]["a"][0].append(x)
            self.nested["a"][1].append(x)
            assert self.nested["a"][0] and self.last.maxlen == 2
            return self.seen[-1] + self.sizes["x"]

    net = Keeps()
    with jax.checking_leaks():
        np.testing.assert_array_equal(jax.jit(net.apply)({}, {}, X)[0], 2 * X)
    assert (net.seen, net.sizes, net.tags, net.last) == ([], {}, set(), deque())
    assert net.nested["a"] == [[], deque()] and net.nested["self"] is net.nested


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (
            lambda m: m.train(),
            "Whole.train: a description has no mode. The mode is an argument of apply. Use net.apply(…, training=Tr",
        ),
        (lambda m: m.fc.xpu(), "Linear.xpu does not exist here. A description holds no arrays. Use jax.device_put"),
        (lambda m: m.type(jnp.float16), "Use module.to(dtype) in a constructor, or tree.cast(params, dtype)"),
        (lambda m: m.register_backward_hook(print), "Use register_full_backward_hook."),
        (lambda m: m.nothing, "'Whole' object has no attribute 'nothing'"),
    ],
)
def test_torchs_methods_that_do_not_exist_are_told(whole, use, text):
    refuses(text, lambda: use(whole[0]), AttributeError)
    assert not hasattr(whole[0], "xpu")


def test_all_of_torchs_methods_exist_or_are_told():
    torch = pytest.importorskip("torch")
    net = nn.Module()
    for name, value in inspect.getmembers(torch.nn.Module):
        added = "transformers" in str(getattr(value, "__module__", ""))  # it puts methods of its own there
        if not name.startswith("_") and not added and not hasattr(net, name):
            refuses(f"Module.{name} does not exist here. ", lambda name=name: getattr(net, name), AttributeError)


def test_a_property_that_fails_fails_as_ever():
    class Net(nn.Module):
        @property
        def xpu(self):
            return self.nothing

    refuses("'Net' object has no attribute", lambda: Net().xpu, AttributeError)


def test_descriptions_alone_do_not_run(whole):
    net, params, _ = whole
    refuses("Whole: a description holds no arrays and cannot be called directly", lambda: net(X), TypeError)
    refuses("Whole.make_rng: this method can only be called inside forward", net.make_rng, TypeError)
    refuses("Whole.subtree: a description holds no arrays. Pass params and state", lambda: net.subtree("fc"), TypeError)
    refuses(
        "the tree has no array 'scale'; expected the params or state of this net",
        lambda: list(net.named_parameters({})),
    )
    text = "Whole: the first argument must be params or state; expected a dict as `init` returns it, got "
    refuses(
        f"{text}bool. Pass the other arguments by keyword: prefix=…, recurse=…",
        lambda: list(net.parameters(False)),
        TypeError,
    )
    refuses(
        f"{text}str. Pass the other arguments by keyword: prefix=…, recurse=…",
        lambda: list(net.named_buffers("p")),
        TypeError,
    )
    assert not hasattr(net, "weight") and params


def test_dropout_without_rng_names_the_layer():
    net = ours()
    refuses("layers.0.drop (Dropout)", lambda: net.apply(*net.init(KEY), IDS, training=True))


def test_forward_may_do_what_torchs_does():
    def act(m, x):
        m.mean = m.mean + 1
        first = m.mean
        m.steps += 2
        out = x
        for i, layer in enumerate(m.items):
            out = layer(out) if i else m.items[0](out)
        for layer in m.items[:2]:
            out = layer(out)
        assert len(m.items[1:]) == 2 and [type(k).__name__ for k in reversed(m.items)][1] == "Tanh"
        assert isinstance(m.weight, jax.Array) and isinstance(m.items[-1].weight, jax.Array)
        assert next(name for name, _ in m.named_parameters()) == "weight"
        assert all(isinstance(p, jax.Array) for p in m.parameters())
        assert m.off is None and m.get_parameter("child.fc.bias").shape == (2,)
        return out, first

    (_, first), state = run(act)
    assert first.tolist() == state["mean"].tolist() == [1, 1] and int(state["steps"]) == 2


def test_a_slice_inside_forward_runs_and_takes_no_hooks():
    class Sliced(nn.Module):
        def __init__(self):
            super().__init__()
            self.seq = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))

        def forward(self, x):
            return self.seq[1:](self.seq[:1](x)), self.seq(x)

    net, hooks, seen = Sliced(), nn.Hooks(), []
    hooks.register_forward_hook("seq", lambda *_: seen.append(1))
    (parts, whole), _ = net.apply(*net.init(KEY), X, hooks=hooks, training={"seq": True})
    np.testing.assert_array_equal(parts, whole)
    assert seen == [1] and repr(net.seq[1:]) == repr(nn.Sequential({"1": nn.Tanh(), "2": nn.Linear(2, 2)}))


# ----------------------------------------------------------------------------------------------------- ties


def test_a_borrowing_child_alone_names_the_owner_and_subtree_fills_it_in():
    net = ours()
    params, state = net.init(KEY)
    hidden = jnp.ones((3, 4))
    attempt = lambda: net.decoder.apply(params["decoder"], state["decoder"], hidden)
    refuses(
        "params has no 'weight'. It is shared and is stored under 'embeddings.weight' (in Nested). Use net", attempt
    )
    out, _ = net.decoder.apply(*net.subtree("decoder", params, state), hidden)
    np.testing.assert_allclose(out, hidden @ params["embeddings"]["weight"].T + params["decoder"]["bias"], rtol=1e-5)
    filled = net.subtree("again", params, state)
    net.again.apply(*filled, hidden, training=True, rng=RNG)
    assert set(tree.flatten(filled[1])) == {"0.bn.running_mean", "0.bn.running_var", "0.bn.num_batches_tracked"}


def test_a_tie_given_twice_is_refused():
    net = ours()
    params, state = net.init(KEY)
    params["decoder"]["weight"] = params["embeddings"]["weight"]
    refuses(
        "params has an unexpected entry 'weight'. It is shared and must be",
        lambda: net.apply(params, state, IDS),
    )
    params, state = net.init(KEY)
    params["again"]["0"] = params["shared"]
    refuses(
        "under the module's second name 'again.0'. The arrays of a shared module must be stored under",
        lambda: net.apply(params, state, IDS),
    )


def test_gradients_of_a_tie_add_up():
    net = ours(rate=0.0)
    params, state = net.init(KEY)
    loose = ours(rate=0.0)
    loose.decoder.weight = nn.Parameter((7, 4), nn.init.zeros())
    untied = {**params, "decoder": {"weight": params["embeddings"]["weight"], **params["decoder"]}}
    gradient = lambda net, params: jax.jit(jax.grad(lambda p: jnp.sum(net.apply(p, state, IDS)[0] ** 2)))(params)
    tied, apart = gradient(net, params), gradient(loose, untied)
    together = apart["embeddings"]["weight"] + apart["decoder"]["weight"]
    np.testing.assert_allclose(tied["embeddings"]["weight"], together, rtol=1e-4, atol=1e-4)


def test_shared_buffers_are_one():
    class Shares(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Module(), nn.Module()
            self.a.count = nn.Buffer((), dtype=jnp.int32)
            self.b.count = self.a.count

        def forward(self):
            self.a.count += 1
            self.b.count += 10
            return self.a.count

    net = Shares()
    params, state = net.init(KEY)
    assert state == {"a": {"count": 0}, "b": {}}
    out, after = net.apply(params, state)
    assert int(out) == int(after["a"]["count"]) == 11 and after["b"] == {}


def test_a_child_that_two_nets_share_names_its_owner_in_each():
    class Tied(nn.Module):
        def __init__(self, owner, child):
            super().__init__()
            setattr(self, owner, nn.Linear(2, 2))
            self.child = child
            child.weight = getattr(self, owner).weight if child.weight is None else child.weight
            getattr(self, owner).weight = child.weight

    class Other(Tied):
        pass

    child = nn.Linear(2, 2)
    first, second = Tied("one", child), Other("two", child)
    (params, state), _ = first.init(KEY), second.init(KEY)
    alone = lambda: child.apply(params["child"], state["child"], X)
    refuses("and is stored under 'one.weight' (in Tied) or 'two.weight' (in Other). Use net.subtree", alone)
    first.init(KEY)
    refuses("and is stored under 'one.weight' (in Tied) or 'two.weight' (in Other). Use net.subtree", alone)


# ------------------------------------------------------------------------------------------------------- copying


def test_descriptions_copy_with_their_ties():
    net = ours(scan=True)
    params, state = net.init(KEY)
    for made in (copy.deepcopy(net), copy.copy(net)):
        jax.tree.map(np.testing.assert_array_equal, made.init(KEY), (params, state))
        assert made.decoder.weight is made.embeddings.weight and made.again[0] is made.shared
        assert repr(made) == repr(net) and made is not net
    hash(net)


# ------------------------------------------------------------------------------------------------------ to look at


def test_html_folds_and_names_what_is_frozen():
    html = ours()._repr_html_()
    assert html.count("<details") == html.count("</details>") > 5 and html.count("<details open") == 1
    assert "frozen parameter" in html and "(7, 4)" in html and "buffer" in html
    assert "<script" not in nn.ModuleDict({"<script>": nn.Tanh()})._repr_html_()


def test_an_argument_that_apply_keeps_for_itself_is_told():
    class Net(nn.Module):
        def forward(self, x, training=False):
            return x + 1 if training else x

        def plain(self, x):
            return x

    net, x = Net(), jnp.zeros(2)
    with pytest.raises(TypeError, match=r"Net.apply: forward has an argument 'training', .* Pass it as input 2, or"):
        net.apply({}, {}, x, training=True)
    for run in (nn.capture(net, ""), nn.capture_gradients(net, "", jnp.sum)):
        with pytest.raises(
            TypeError, match=r"Net.apply: forward has an argument 'training', .* Pass it as input 2, or"
        ):
            run({}, {}, x, training=True)
    with pytest.raises(
        TypeError, match=r"Net.summary: forward has an argument 'training', which is also an argument of summary"
    ):
        net.summary(x, training=True)
    assert net.apply({}, {}, x, True)[0][0] == 1 and net.apply({}, {}, x, training=True, method="plain")[0][0] == 0
