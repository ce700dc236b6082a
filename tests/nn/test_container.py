"""Containers against torch's: the same program, written once for both libraries, gives the same facts."""

from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn, tree

KEY = jax.random.key(0)
LIBRARIES = (nn, torch.nn)


def names(net):
    return [name for name, _ in net.named_parameters()]


def facts(net):
    return repr(net), names(net), [name for name, _ in net.named_modules(remove_duplicate=False)], len(net)


def numbered(n, kind):
    modules = [n.Linear(1, 1), n.ReLU(), n.Linear(1, 2), n.Tanh()]
    return kind(*modules) if kind is n.Sequential else kind(modules)


PROGRAMS = {
    "slices": lambda n, c: [c[1:], c[:-1], c[::2], c[5:], c[::-1]],
    "append, extend": lambda n, c: [
        c.append(n.GELU()),
        c.extend([n.SiLU(), n.ReLU()]),
        c.extend(x for x in (n.GELU(),)),
    ],
    "insert": lambda n, c: [c.insert(1, n.GELU()) and None, c, c.insert(0, n.SiLU()) and None, c],
    "pop": lambda n, c: [c.pop(0), c, c.pop(-1), c, c.pop(slice(0, 1)), c],
    "assign": lambda n, c: [c.__setitem__(1, n.GELU()), c, c.__setitem__(-1, n.SiLU()), c],
    "delete": lambda n, c: [c.__delitem__(0), c, c.__delitem__(slice(1, None)), c],
    "none": lambda n, c: [c.append(None), c.append(n.ReLU()), c[4], c.__setitem__(0, None), c],
    "items": lambda n, c: [c[0], c[-1], c[np.int64(2)], list(map(repr, c)), n.ReLU in map(type, c)],
    "dir": lambda n, c: ["0" in dir(c), "forward" in dir(c)],
}


def shown(value):
    return facts(value) if hasattr(value, "named_parameters") else value


@pytest.mark.parametrize("kind", ["Sequential", "ModuleList"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_lists_of_modules(program, kind):
    ours, theirs = (
        [shown(value) if hasattr(value, "__len__") or value is None else repr(value) for value in run]
        for run in (PROGRAMS[program](n, numbered(n, getattr(n, kind))) for n in LIBRARIES)
    )
    assert ours == theirs


def test_a_list_takes_an_insertion_behind_its_end_as_an_append():
    def use(n):
        layers = n.ModuleList([n.ReLU(), n.Tanh()])
        layers.insert(5, n.GELU())
        return repr(layers)

    assert use(nn) == use(torch.nn)


def test_sums_and_products():
    def use(n):
        a, b = numbered(n, n.Sequential), n.Sequential(OrderedDict([("x", n.Linear(2, 2)), ("y", n.ReLU())]))
        out = [a + b, b + a, a * 2, 2 * b, b[1:], b[:1]]
        a += b
        c = numbered(n, n.Sequential)
        c *= 3
        layers = numbered(n, n.ModuleList)
        layers += [n.GELU()]
        return [facts(net) for net in [*out, a, b, c, layers, layers + n.ModuleList([n.ReLU()])]]

    assert use(nn) == use(torch.nn)


def test_a_product_shares_its_leaves_and_loads_torchs_file():
    net, reference = (
        nn.Sequential(nn.Linear(2, 2), nn.Tanh()) * 3,
        torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh()),
    )
    reference = reference * 3
    params, state = net.load_state_dict(reference.state_dict())
    assert len(jax.tree.leaves(params)) == 2 and list(net.state_dict(params, state)) == list(reference.state_dict())
    with jax.enable_x64(True):  # where a few units in the last place tell nothing
        wide, x = tree.cast(params, "float64"), np.ones((1, 2))
        expected = reference.double()(torch.tensor(x)).detach()
        np.testing.assert_allclose(net.apply(wide, state, x)[0], expected, rtol=1e-12)


def test_a_slice_keeps_the_names_and_so_the_params():
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
    params, state = net.init(KEY)
    hidden, _ = net[:1].apply({"0": params["0"]}, {"0": {}}, jnp.ones(2))
    tail = {name: params[name] for name in ("1", "2")}
    out, _ = net[1:].apply(tail, {name: {} for name in tail}, hidden)
    np.testing.assert_array_equal(out, net.apply(params, state, jnp.ones(2))[0])


def test_dicts_of_modules():
    def use(n):
        heads = n.ModuleDict({"b": n.Linear(1, 1), "a": n.ReLU()})
        heads.update([("c", n.Linear(1, 2)), ["d", None]])
        heads.update(n.ModuleDict({"b": n.Tanh(), "e": n.GELU()}))
        heads["f"] = n.SiLU()
        out = [facts(heads), list(heads), list(heads.keys()), [k for k, _ in heads.items()], "d" in heads, heads["d"]]
        out += [repr(heads.pop("c")), [v is None for v in heads.values()], facts(heads)]
        del heads["a"]
        out += [list(heads.keys() - {"b"})[:0], list(reversed(list(heads)))]
        heads.clear()
        return [*out, len(heads), repr(heads)]

    assert use(nn) == use(torch.nn)


# ------------------------------------------------------------------------------------------------- lists of parameters


def parameter(n, *shape, dtype="float32"):
    return (
        n.Parameter(np.zeros(shape, dtype))
        if n is nn
        else n.Parameter(torch.zeros(*shape, dtype=getattr(torch, dtype)))
    )


def array(n, *shape):
    return jnp.zeros(shape) if n is nn else torch.zeros(shape)


def test_parameter_lists():
    def use(n):
        values = n.ParameterList([parameter(n, 2, 3), array(n, 4), 5, "text", array(n)])
        out = [facts(values), values[2:4][1], facts(values[:2]), facts(values[::-2]), values[-2], values[2]]
        values.append(parameter(n, 1)).extend([array(n, 2), None])
        values += [n.Linear(1, 1)]
        values[0] = parameter(n, 7)
        values[2] = parameter(n, 8)
        values[-1] = n.Linear(1, 2)
        out += [facts(values), [tuple(p.shape) for p in values if hasattr(p, "shape")], "0" in dir(values)]
        return [*out, repr(n.ParameterList()), repr(n.ParameterList([parameter(n, 2, dtype="float64")]))]

    assert use(nn) == use(torch.nn)


def test_parameter_dicts():
    def use(n):
        values = n.ParameterDict({"b": parameter(n, 2, 3), "a": array(n, 4), "number": 5})
        out = [facts(values), list(values), list(reversed(values)), "a" in values, "z" in values]
        ordered = n.ParameterDict(OrderedDict([("z", parameter(n, 1)), ("c", parameter(n, 2))]))
        out += [facts(ordered), facts(values | ordered), facts(n.ParameterDict(ordered)), facts(ordered.copy())]
        out += [list({"q": 1} | ordered), facts(ordered | {"q": 1, "k": array(n, 1)})]
        values |= ordered
        values.update([("d", parameter(n, 3)), ["e", 7]])
        out += [facts(values), values.get("nothing"), values.get("nothing", 3), values.get("number"), values["e"]]
        out += [values.setdefault("number", 6), values.setdefault("new", 6), values.setdefault("none")]
        out += [tuple(values.pop("d").shape), values.popitem(), values.popitem(), [k for k, _ in values.items()]]
        out += [len(list(values.values())), list(values.keys())]
        same = values.fromkeys(["x", "y"], parameter(n, 2))
        out += [facts(same), same["x"] is same["y"], list(values.fromkeys(["x"]).items())]
        values["a"] = parameter(n, 9)
        del values["b"]
        out.append(facts(values))
        values.clear()
        kinds = ["bfloat16", "float16", "float64", "complex64"]
        return [
            *out,
            len(values),
            repr(values),
            repr(n.ParameterDict({f"of_{k}": parameter(n, 2, dtype=k) for k in kinds})),
        ]

    assert use(nn) == use(torch.nn)


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList([jnp.arange(3.0), nn.Parameter(jnp.ones(3)), 10])
        self.scales = nn.ParameterDict({"a": jnp.full(3, 2.0), "b": 5})

    def forward(self, x):
        first, second = self.weights[:2]
        assert isinstance(self.weights[:2], list) and self.weights.extra_repr().count("Parameter containing") == 2
        assert set(self.scales.copy()) == {"a", "b"} and "a" in self.scales and len(self.weights) == 3
        assert list(self.scales | {"c": 1}) == ["a", "b", "c"]
        return first * x + second * self.weights[2] + self.scales["a"] * self.scales.get("b")


def test_inside_forward_the_entries_are_arrays():
    net = Mixed()
    params, state = net.init(KEY)
    assert sorted(params["weights"]) == ["0", "1"] and list(params["scales"]) == ["a"]
    out, pull = jax.vjp(jax.jit(lambda params: net.apply(params, state, 2.0)[0]), params)
    assert out.tolist() == [20, 22, 24]
    (gradient,) = pull(jnp.ones(3))
    assert gradient["weights"]["1"].tolist() == [10] * 3 and gradient["scales"]["a"].tolist() == [5] * 3
    assert list(net.state_dict(params, state)) == ["weights.0", "weights.1", "scales.a"]


# ------------------------------------------------------------------------------------------------------------ refusals

SEQUENTIAL = lambda: nn.Sequential(nn.ReLU())
REFUSALS = [
    (lambda: nn.ModuleList([3]), TypeError, "ModuleList.0: expected a Module or None, got int"),
    (lambda: nn.ModuleList(3), TypeError, "ModuleList.extend: expected an iterable of modules, got int."),
    (lambda: nn.Sequential(3), TypeError, "Sequential: an entry is not a module; expected a Module or None, got int"),
    (lambda: SEQUENTIAL().insert(0, 3), TypeError, "Sequential.0: expected a Module or None, got int"),
    (lambda: SEQUENTIAL().insert(2, nn.ReLU()), IndexError, "Sequential: index 2 is out of range for 1 modules"),
    (lambda: nn.ModuleList().insert(-1, nn.ReLU()), IndexError, "ModuleList: index -1 is out of range for 0 modules"),
    (
        lambda: nn.Sequential({"a": nn.ReLU(), "b": nn.ReLU()}).insert(0, nn.Tanh()),
        KeyError,
        r"Sequential.insert: the modules are not named by position; expected the names '0', '1', …, got \['a', 'b'\]",
    ),
    (lambda: SEQUENTIAL()[1], IndexError, "Sequential: index 1 is out of range for 1 modules"),
    (lambda: SEQUENTIAL().pop(1), IndexError, "Sequential: index 1 is out of range for 1 modules"),
    (lambda: SEQUENTIAL() + nn.ReLU(), TypeError, "Sequential: only a Sequential can be added; .* got ReLU"),
    (lambda: SEQUENTIAL().__iadd__([nn.ReLU()]), TypeError, "Sequential: only a Sequential can be added"),
    (lambda: SEQUENTIAL() * 1.5, TypeError, "Sequential: the number of repetitions is not an int; .* got float"),
    (
        lambda: SEQUENTIAL() * 0,
        ValueError,
        "Sequential: the number of repetitions is too small; expected at least 1, got 0",
    ),
    (
        lambda: nn.ModuleDict(3),
        TypeError,
        "ModuleDict.update: the argument has no names; expected a mapping .* got int",
    ),
    (
        lambda: nn.ModuleDict([3]),
        ValueError,
        r"ModuleDict.update: element 0 is not a pair; expected \(name, value\), got 1",
    ),
    (lambda: nn.ModuleDict({"keys": nn.ReLU()}), KeyError, "ModuleDict: the attribute 'keys' already exists"),
    (lambda: nn.ModuleDict()["a"], KeyError, "a"),
    (lambda: nn.ParameterList(3), TypeError, "ParameterList.extend: expected an iterable of parameters, got int"),
    (lambda: nn.ParameterList(jnp.ones(3)), TypeError, "ParameterList.extend: expected an iterable .* got ArrayImpl"),
    (lambda: nn.ParameterList([1])[1], IndexError, "ParameterList: index 1 is out of range for 1 values"),
    (lambda: nn.ParameterList([1])(2), TypeError, "ParameterList: a container of parameters has no forward"),
    (lambda: nn.ParameterList([nn.Parameter(2)]).__setitem__(0, 3), TypeError, "expected a Parameter or None, got int"),
    (lambda: nn.ParameterDict(3), TypeError, "ParameterDict.update: the argument has no names; expected a mapping"),
    (
        lambda: nn.ParameterDict([(1, 2, 3)]),
        ValueError,
        "ParameterDict.update: element 0 is not a pair; .* got 3 entries",
    ),
    (lambda: nn.ParameterDict([(3, jnp.ones(3))]), TypeError, "ParameterDict: a key has the wrong type; .* got int"),
    (lambda: nn.ParameterDict({"keys": jnp.ones(3)}), KeyError, "ParameterDict: the key 'keys' is an attribute"),
    (lambda: nn.ParameterDict({"a.b": jnp.ones(3)}), KeyError, "expected a non-empty string without dots"),
    (lambda: nn.ParameterDict().popitem(), KeyError, "ParameterDict: popitem was called on an empty container"),
    (lambda: nn.ParameterDict()["training"], KeyError, "training"),
    (lambda: nn.ParameterDict().pop("a"), KeyError, "a"),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSALS, ids=[str(i) for i in range(len(REFUSALS))])
def test_refusals_say_why(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_what_is_refused_changes_nothing():
    net, values = nn.Sequential(nn.ReLU(), nn.Tanh()), nn.ParameterDict({"a": 1})
    with pytest.raises(TypeError):
        net.insert(1, 3)
    with pytest.raises(KeyError):
        values["keys"] = jnp.ones(2)
    assert len(net) == 2 and list(values) == ["a"]
