"""What a checkpoint restores is bit for bit what was saved, with the same types. Anything else is refused by name."""

import collections
import enum
import os
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funcnet import functional as F
from funcnet import nn, parallel, train
from funcnet.random import is_key

IMPLEMENTATIONS = ("threefry2x32", "rbg", "unsafe_rbg")
KINDS = [("jit", "data=1"), ("jit", "data=2,fsdp=2"), ("shard_map", "data=4"), ("pmap", "data=4")]
Pair = collections.namedtuple("Pair", "first second")


class Level(enum.IntEnum):
    HIGH = 3


@flax.struct.dataclass
class Record:
    x: Any
    y: Any


def facts(tree):
    """What must be equal: the structure, and the type, dtype, shape and bytes of each leaf."""

    def leaf(x):
        data = np.asarray(jax.random.key_data(x) if is_key(x) else x)
        kind = np.ndarray if isinstance(x, jax.Array) and not is_key(x) else type(x)
        return kind, str(getattr(x, "dtype", "")), np.shape(x), data.dtype, data.tobytes()

    return jax.tree.structure(tree), [leaf(x) for x in jax.tree.leaves(tree)]


def saved(tree, folder):
    with train.Checkpoints(folder, say=lambda line: None) as checkpoints:
        checkpoints.save(tree, 1, {})
    return checkpoints


FLOATS = [ml_dtypes.bfloat16, *(getattr(ml_dtypes, f"float8_{n}") for n in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz"))]
TREES = {
    **{f"one key of {name}": jax.random.key(7, impl=name) for name in IMPLEMENTATIONS},
    "keys in lists": [jax.random.split(jax.random.key(1), (2, 3)), {"a": jax.random.split(jax.random.key(2), 0)}],
    "an untyped key": {"key": jax.random.PRNGKey(3)},
    **{f"all bits of {t.__name__}": np.arange(256, dtype=np.uint8).view(t) for t in FLOATS},
    "four bits": {"a": np.arange(-8, 8).astype(ml_dtypes.int4), "b": jnp.arange(3).astype(jnp.int4)},
    "odd numbers": np.array([np.nan, -0.0, np.inf, 5e-324]).view(np.uint64).view(np.float64),
    "the payload of a NaN": np.array([0x7FC00001, 0xFFC00002, 0x7F800001], np.uint32).view(np.float32),
    "nothing but empty arrays": {"a": np.zeros((0, 3)), "b": np.zeros(0, ml_dtypes.bfloat16), "c": jnp.zeros((2, 0))},
    "no leaves": {"a": None, "b": (), "c": {}},
    "no dimensions": {"a": np.array(3.0), "b": jnp.int8(4), "c": np.array(True)},
    "numpy's scalars": [np.float32(1.5), np.int64(2**40), np.bool_(True), ml_dtypes.bfloat16(2.5), np.complex64(1j)],
    "Python's numbers": {"i": 2**63 - 1, "u": 2**64 - 1, "n": -5, "f": 0.1, "b": False, "c": 1 - 2j, "e": Level.HIGH},
    "named tuples and dataclasses": Pair(Record(np.ones(2), None), Record({"k": jax.random.key(0)}, (np.zeros(1), 2))),
    "keys of dicts": {"a b/..": np.ones(1), "": np.ones(2), "é": {"0": np.ones(3)}, "x": {1: np.ones(1), 2: 3.5}},
    "an ordered dict": collections.OrderedDict([(1, np.ones(1)), ("b", np.ones(2)), ("a", np.ones(3))]),
    "the other byte order": {"f": np.arange(3, dtype=">f8"), "i": np.arange(3, dtype=">i2")},
    "not contiguous": {"t": np.arange(6.0).reshape(2, 3).T, "r": np.arange(6)[::-2]},
}


@pytest.mark.every_row
@pytest.mark.parametrize("name", TREES)
def test_odd_leaves_come_back_bit_for_bit(tmp_path, name):
    assert facts(saved(TREES[name], tmp_path).restore(TREES[name]).state) == facts(TREES[name])


class Loose(np.ndarray):
    pass


REFUSED = {
    "a string": (
        {"a": {"note": "x"}},
        TypeError,
        r"'a.note' cannot be saved; expected an array or a number, got str\.",
    ),
    "bytes": ({"a": [b"x"]}, TypeError, r"'a.0' cannot be saved; .* got bytes"),
    "an object": (Record(object(), 1), TypeError, r"'x' cannot be saved; .* got object"),
    "a function": ({"f": len}, TypeError, r"'f' cannot be saved; .* got builtin"),
    "an array of objects": ({"o": np.array([None, 1])}, TypeError, r"'o' has a dtype that .* got object"),
    "an array of strings": (Pair(np.array(["x"]), 1), TypeError, r"'first' has a dtype that .* got <U1"),
    "dates": ({"d": np.array(["2020-01-01"], "M8[D]")}, TypeError, r"'d' has a dtype that .* got datetime64"),
    "records": ({"r": np.zeros(2, [("a", "f4")])}, TypeError, r"'r' has a dtype that .* got \[\('a', '<f4'\)\]"),
    "too long floats": ({"l": np.ones(1, np.longdouble)}, TypeError, r"'l' has a dtype that .* got float128"),
    "unsigned half bytes": ({"u": jnp.ones(1, jnp.uint4)}, TypeError, r"'u' has a dtype that .* got uint4"),
    "a masked array": ({"m": np.ma.masked_equal([1, 2], 2)}, TypeError, r"'m' cannot be saved; .* got MaskedArray"),
    "a subclass": ({"m": np.ones(2).view(Loose)}, TypeError, r"'m' cannot be saved; .* got Loose"),
    "an integer of 70 bits": ({"i": 2**70}, TypeError, r"'i' has a dtype that .* got 1180591620717411303424"),
    "a dot": ({"a.b": np.ones(1), "a": {"b": np.ones(1)}}, ValueError, r"two leaves have the name 'a\.b'"),
    "a dot and a list": ({"a.0": np.ones(1), "a": [np.ones(1)]}, ValueError, r"two leaves have the name 'a\.0'"),
    "1 and '1'": (Pair({1: np.ones(1), "1": np.ones(1)}, 0), ValueError, "the keys of 'first' .* got int and str"),
    "1 and '1' in order": (
        collections.OrderedDict([(1, np.ones(1)), ("1", np.ones(1))]),
        ValueError,
        "two leaves have the name '1'",
    ),
}


@pytest.mark.every_row
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_restored_is_refused_before_anything_is_written(tmp_path, name):
    tree, error, text = REFUSED[name]
    with train.Checkpoints(tmp_path / "new") as checkpoints, pytest.raises(error, match=text) as caught:
        checkpoints.save(tree, 1, {})
    assert str(caught.value).startswith("train.Checkpoints.save: ") and os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("about", "text"),
    [
        ({"data": {"position": {"row": np.int64(3)}}}, r"about\['data'\]\['position'\]\['row'\] is not .* got int64"),
        ({"shards": {0: 1}}, r"about\['shards'\] has the key 0; expected strings"),
        ({"seen": [1, {2}]}, r"about\['seen'\]\[1\] is not a JSON value; .* got set"),
    ],
)
def test_values_that_json_would_change_are_refused(tmp_path, about, text):
    with train.Checkpoints(tmp_path / "new") as checkpoints, pytest.raises(TypeError, match=text):
        checkpoints.save({"w": np.ones(1)}, 1, about)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (jax.random.key(0), jax.random.key(0, impl="rbg")),
        (jax.random.key(0, impl="rbg"), jax.random.key(0, impl="unsafe_rbg")),
        (jax.random.key(0), jax.random.PRNGKey(0)),
        (np.zeros((0, 2)), np.zeros((0, 3))),
        (np.float32(1), 1.0),
        (np.ones(2, ml_dtypes.int4), np.ones(2, np.int8)),
    ],
)
def test_another_kind_of_leaf_is_refused(tmp_path, before, after):
    checkpoints = saved({"w": before}, tmp_path)
    with pytest.raises(train.RunError, match=r"belongs to another run; .*: w is .* instead of "):
        checkpoints.restore({"w": after})


def test_keys_that_older_releases_saved_are_restored(tmp_path):
    """They saved the data of a key, and not its kind."""
    key = jax.random.key(5, impl="rbg")
    assert (saved({"k": jax.random.key_data(key)}, tmp_path).restore({"k": key}).state["k"] == key).all()


class Noisy(nn.Module):
    """Keys as a frozen parameter and as buffers, one of which every step changes."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.salt = nn.Parameter(jax.random.key(3, impl="rbg"), requires_grad=False)
        self.register_buffer("rng", jax.random.key(4))
        self.register_buffer("spare", nn.Buffer(jax.random.split(jax.random.key(4), 3), persistent=False))

    def forward(self, x):
        if self.training:
            self.rng, key = jax.random.split(self.rng)
            key = jax.random.fold_in(key, jax.random.bits(self.salt))
            x = x + 0.1 * jax.random.normal(key, x.shape)
        return self.fc(x)


def noisy(inner):
    """An optimizer with a key in its state."""

    def update(grads, state, params=None):
        key, own = jax.random.split(state[0])
        grads = jax.tree.map(lambda g: g + 0.1 * jax.random.normal(own, g.shape, g.dtype), grads)
        updates, state = inner.update(grads, state[1], params)
        return updates, (key, state)

    return optax.GradientTransformation(lambda params: (jax.random.key(9), inner.init(params)), update)


def losses(model, batch, extra):
    shift = 0.1 * jax.random.normal(extra["key"], ()) * extra["scale"]
    return F.mse_loss(model(batch["x"]) + shift.astype(jnp.float32), batch["x"], reduction="none")


def trained(out, steps, kind=KINDS[0], **more):
    return train.fit(
        Noisy(), losses, {"x": np.linspace(-1, 1, 64, dtype=np.float32).reshape(16, 4)}, noisy(optax.sgd(0.1)), out=out,
        steps=steps, batch_size=8, save_every=2, log_every=1, parallel=kind[0], mesh=kind[1],
        extra={"key": jax.random.key(1), "scale": 1.0},
        update_extra=lambda state, metrics: state.extra | {"key": jax.random.split(state.extra["key"])[0]}, **more,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_with_keys_everywhere_resumes_to_the_same_bits(tmp_path, kind):
    whole = trained(tmp_path / "whole", 4, kind)
    trained(tmp_path / "cut", 2, kind)
    again = trained(tmp_path / "cut", 4, kind, resume=True)
    assert facts((again.params, again.state)) == facts((whole.params, whole.state))
    assert again.rows[-1]["loss"] == whole.rows[-1]["loss"]
    assert not (again.state["rng"] == Noisy().init(jax.random.key(0))[1]["rng"]).all()


def resumed(start, optimizer, layout, folder, extra=None):
    """(the state after two more steps, the same after a restart in between). The buffer is a key."""

    def objective(params, state, batch, *, training, rng, extra=None):
        x = batch["x"] if extra is None else (batch["x"].astype(jnp.bfloat16) * extra["scale"]).astype(jnp.float32)
        new, key = jax.random.split(state["rng"])
        return {"": {"loss": (F.linear(x + jax.random.normal(key, ()), params["w"]) ** 2).sum()}}, {"rng": new}

    make = lambda: train.create(start, {"rng": jax.random.key(4)}, optimizer, trainable="w", extra=extra)
    update = lambda state, metrics: {
        name: jax.random.split(x)[0] if is_key(x) else x for name, x in state.extra.items()
    }
    step = train.make_step(
        objective, lambda batch: {"": 8}, optimizer, trainable="w", update_extra=None if extra is None else update
    )
    step = parallel.parallelize(step, layout)
    batch, key = layout.shard({"x": np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)}), jax.random.key(0)
    state, _ = step(layout.place(make()), batch, key)
    again = train.resume(saved(state, folder), make(), layout).state
    return step(state, batch, key)[0], step(again, batch, key)[0]


WEIGHT = jnp.ones((2, 4))
STARTS = [
    ({"w": np.ones((2, 4))}, optax.sgd(0.1, momentum=0.9), None),  # float64
    ({"w": np.ones((2, 4), np.float32), "n": 3, "many": np.arange(3)}, optax.sgd(0.1), None),
    ({"w": WEIGHT}, optax.inject_hyperparams(optax.sgd)(learning_rate=0.1), None),
    ({"w": WEIGHT}, optax.sgd(0.1), {"scale": 1.7}),  # a weak type, which float32 is not
    ({"w": WEIGHT}, optax.sgd(0.1), {"scale": jnp.asarray(1.7)}),
    ({"w": WEIGHT}, optax.sgd(0.1), {"scale": np.float64(1.7)}),
    ({"w": WEIGHT, "salt": jax.random.key(1, impl="rbg")}, noisy(optax.sgd(0.1)), {"scale": 1, "k": jax.random.key(2)}),
    ({"w": WEIGHT}, noisy(optax.sgd(0.1)), {"scale": 1, "k": jax.random.split(jax.random.key(2, impl="rbg"), 2)[0]}),
]


@pytest.mark.every_row
@pytest.mark.parametrize("kind", [KINDS[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:])])
@pytest.mark.parametrize(("start", "optimizer", "extra"), STARTS)
def test_a_state_that_a_device_has_in_another_form_is_restored(tmp_path, kind, start, optimizer, extra):
    layout = parallel.make_layout(kind[1], kind=kind[0])
    with jax.numpy_dtype_promotion("standard"):
        whole, again = resumed(start, optimizer, layout, tmp_path, extra)
    assert facts(whole) == facts(again)


@pytest.mark.parametrize(
    ("extra", "error", "text"),
    [
        ({"note": "x"}, TypeError, r"^train.fit: 'extra.note' cannot be saved; .* got str"),
        ({"a.b": 1.0, "a": {"b": 2.0}}, ValueError, r"^train.fit: two leaves have the name 'extra.a.b'"),
        ({1: 1.0, "1": 2.0}, ValueError, r"^train.fit: the keys of 'extra' cannot be sorted"),
        ({"big": 2**40}, ValueError, r"^train.fit: 'extra.big' has a number that is too large; .* got 1099511627776"),
    ],
)
def test_a_run_refuses_it_before_its_first_step(tmp_path, extra, error, text):
    fit = lambda extra: train.fit(
        nn.Linear(1, 1), lambda model, batch, extra: model(batch["x"]), {"x": np.ones((32, 1), np.float32)},
        optax.sgd(0.1), out=tmp_path, steps=1, extra=extra,
    )  # fmt: skip
    for _ in range(2):  # the folder stays free
        with pytest.raises(error, match=text):
            fit(extra)


NAMES = st.sampled_from(["a", "b", "a.b", "0", "1", ""]) | st.text(max_size=3)
SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@st.composite
def arrays(draw):
    dtype = np.dtype(draw(st.sampled_from([*FLOATS, ml_dtypes.int4, np.bool_, np.uint8, ">i4", np.int64, "f4", "c16"])))
    shape = draw(SHAPES)
    count = int(np.prod(shape)) * dtype.itemsize
    raw = np.frombuffer(draw(st.binary(min_size=count, max_size=count)), np.uint8)
    return (raw & {"bool": 1, "int4": 7}.get(dtype.name, 255)).view(dtype).reshape(shape)


LEAVES = (
    arrays()
    | st.builds(lambda seed, impl, shape: jax.random.split(jax.random.key(seed, impl=impl), shape),
                st.integers(0, 9), st.sampled_from(IMPLEMENTATIONS), SHAPES)
    | st.none() | st.booleans() | st.floats() | st.integers(-(2**80), 2**80) | st.complex_numbers()
    | st.sampled_from([np.float32(2), np.int8(-1), "text", b"x", np.array(["x"]), np.array([None]), object()])
)  # fmt: skip
ODD = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner).map(lambda pair: Pair(*pair))
        | st.builds(Record, inner, inner)
        | st.dictionaries(NAMES | st.integers(0, 2), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(tree=ODD)
def test_hypothesis_a_tree_is_restored_bit_for_bit_or_refused_at_the_save(tmp_path_factory, tree):
    folder = tmp_path_factory.mktemp("tree")
    try:
        checkpoints = saved(tree, folder)
    except (TypeError, ValueError) as error:
        assert str(error).startswith("train.Checkpoints.save: ") and os.listdir(folder) == [], error
        return
    assert facts(checkpoints.restore(tree).state) == facts(tree)
