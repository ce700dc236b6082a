"""torch's names, shapes and order, both ways, on one nested model that both libraries make from one class body."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn, tree
from tests.nn.nested import IDS, KEY, ours, theirs

both = pytest.mark.parametrize("scan", [False, True], ids=["loop", "scan"])


def torch_after_a_step():
    """torch's model whose numbers are nobody's default."""
    model = theirs(rate=0.0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.train()(torch.tensor(np.array(IDS), dtype=torch.long))
    return model


@both
def test_names_shapes_dtypes_and_order_are_torchs(scan):
    net = ours(scan)
    sd = net.state_dict(*net.init(KEY))
    expected = theirs().state_dict()
    assert list(sd) == list(expected)
    assert {n: a.shape for n, a in sd.items()} == {n: tuple(a.shape) for n, a in expected.items()}
    assert {n: str(a.dtype) for n, a in sd.items()} == {n: str(a.dtype)[6:] for n, a in expected.items()}
    assert "positions" not in sd and sd["decoder.weight"] is sd["embeddings.weight"]
    assert sd["layers.1.bn.num_batches_tracked"].dtype == np.int64


@both
def test_from_torch_and_back(scan):
    reference = torch_after_a_step()
    expected = reference.state_dict()
    net = ours(scan, rate=0.0)
    params, state = net.load_state_dict(expected)
    assert jax.tree.structure((params, state)) == jax.tree.structure(net.init(KEY))
    back = net.state_dict(params, state)
    for name, array in expected.items():
        np.testing.assert_array_equal(back[name], array.numpy(), err_msg=name)
    other = theirs()
    other.load_state_dict({name: torch.tensor(np.array(array)) for name, array in back.items()})
    ids = torch.tensor(np.array(IDS), dtype=torch.long)
    for training in (False, True):
        out, state = net.apply(params, state, IDS, training=training)
        np.testing.assert_allclose(out, reference.train(training)(ids).detach(), rtol=1e-4, atol=1e-5)
    after = net.state_dict(params, state)
    for name, buffer in reference.named_buffers():
        if name != "positions":
            np.testing.assert_allclose(after[name], buffer, rtol=1e-5, atol=1e-6, err_msg=name)


def test_traversal_is_torchs():
    net, reference = ours(), theirs()
    params, state = net.init(KEY)
    names = lambda pairs: [name for name, _ in pairs]
    for once in (True, False):
        assert names(net.named_modules(remove_duplicate=once)) == names(reference.named_modules(remove_duplicate=once))
        for method in ("named_parameters", "named_buffers"):
            expected = names(getattr(reference, method)(remove_duplicate=once))
            values = params if method == "named_parameters" else state
            assert names(getattr(net, method)(remove_duplicate=once)) == expected
            assert names(getattr(net, method)(values, remove_duplicate=once)) == expected
            assert names(getattr(net, method)(prefix="net", recurse=False)) == names(
                getattr(reference, method)(prefix="net", recurse=False)
            )
    assert names(net.named_modules(prefix="net")) == names(reference.named_modules(prefix="net"))
    assert names(net.named_children()) == names(reference.named_children())
    assert [p.requires_grad for p in net.parameters()] == [p.requires_grad for p in reference.parameters()]
    assert [tuple(p.shape) for p in net.parameters(params)] == [tuple(p.shape) for p in reference.parameters()]
    assert [type(m).__name__ for m in net.modules()][-1] == [type(m).__name__ for m in reference.modules()][-1]
    assert len(list(net.buffers(state))) == len(list(reference.buffers()))


@both
def test_what_is_shared_has_one_home(scan):
    net = ours(scan)
    params, state = net.init(KEY)
    assert list(params["decoder"]) == ["bias"]
    assert tree.flatten(params["again"]["0"]) == tree.flatten(state["again"]["0"]) == {}
    assert set(tree.flatten(params["shared"])) == {"fc.weight", "fc.bias", "bn.weight", "bn.bias"}


def test_one_name_of_a_tie_is_enough():
    net = ours()
    sd = {name: np.array(a) for name, a in net.state_dict(*net.init(KEY)).items()}
    partial = {n: a for n, a in sd.items() if n != "embeddings.weight" and not n.startswith("shared.")}
    params, _ = net.load_state_dict(partial)
    np.testing.assert_array_equal(params["embeddings"]["weight"], sd["decoder.weight"])
    np.testing.assert_array_equal(params["shared"]["fc"]["weight"], sd["again.0.fc.weight"])


def test_every_mismatch_in_one_error():
    net = ours()
    sd = dict(net.state_dict(*net.init(KEY)))
    sd["layers.0.fc.wieght"] = sd.pop("layers.0.fc.weight")
    sd["shared.fc.bias"] = jnp.zeros(9)
    del sd["again.1.weight"]
    missing, unexpected, mis_shaped = net.match_state_dict(sd)
    assert missing == ["layers.0.fc.weight", "again.1.weight"]
    assert unexpected == ["layers.0.fc.wieght"]
    assert mis_shaped == ["shared.fc.bias"]
    with pytest.raises(ValueError) as error:
        net.load_state_dict(sd)
    for line in (
        "Nested.load_state_dict: sd does not fit the module.",
        "missing: layers.0.fc.weight, again.1.weight",
        "unexpected: layers.0.fc.wieght (near layers.0.fc.weight)",
        "mis-shaped: shared.fc.bias expected (4,), got (9,)",
        "strict=False, into=(params, state)",
    ):
        assert line in str(error.value)
    with pytest.raises(ValueError, match="mis-shaped"):  # torch too raises here
        net.load_state_dict(sd, strict=False, into=net.init(KEY))


@both
def test_not_strict_fills_from_into(scan):
    net = ours(scan)
    start = net.init(KEY)
    sd = {"layers.1.fc.weight": np.ones((4, 4)), "unknown": np.ones(3)}
    with pytest.raises(ValueError, match=r"sd lacks embeddings.weight, .* into=net.init\(key\)"):
        net.load_state_dict(sd, strict=False)
    params, state = net.load_state_dict(sd, strict=False, into=start)
    expected = dict(net.state_dict(*start)) | {"layers.1.fc.weight": np.ones((4, 4), np.float32)}
    for name, array in net.state_dict(params, state).items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int64"])
def test_casts_as_copy_does(dtype):
    net = nn.Linear(2, 2)
    values = torch.tensor([[1.5, -2.25], [3.0, 0.125]]).to(getattr(torch, dtype))
    target = torch.nn.Linear(2, 2)
    target.load_state_dict({"weight": values, "bias": values[0]})
    given = {"weight": values.requires_grad_(values.is_floating_point()), "bias": values[0]}
    params, _ = net.load_state_dict(given)
    assert params["weight"].dtype == jnp.float32
    np.testing.assert_array_equal(params["weight"], target.weight.detach())
    start = tree.cast(net.init(KEY)[0], jnp.bfloat16)
    assert net.load_state_dict(given, into=(start, {}))[0]["weight"].dtype == jnp.bfloat16


def test_loading_copies():
    reference = torch.nn.Linear(8, 8)
    net = nn.Linear(8, 8)
    params, _ = net.load_state_dict(reference.state_dict())
    before = np.array(params["weight"])
    with torch.no_grad():
        reference.weight.zero_()
    np.testing.assert_array_equal(params["weight"], before)
    again, _ = net.load_state_dict(net.state_dict(params, {}))
    jax.jit(lambda p: jax.tree.map(lambda a: a + 1, p), donate_argnums=0)(again)
    np.testing.assert_array_equal(params["weight"], before)


def test_old_files_without_counters_load_as_in_torch():
    net = nn.BatchNorm1d(3)
    sd = {n: a for n, a in torch.nn.BatchNorm1d(3).state_dict().items() if n != "num_batches_tracked"}
    assert not torch.nn.BatchNorm1d(3).load_state_dict(sd).missing_keys
    _, state = net.load_state_dict(sd)
    assert int(state["num_batches_tracked"]) == 0


class Kept(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("saved", jnp.arange(3))
        self.register_buffer("scratch", nn.Buffer((2,), nn.init.ones()), persistent=False)


def test_buffers_that_are_not_saved_start_anew_or_come_from_into():
    net = Kept()
    params, state = net.init(KEY)
    assert list(net.state_dict(params, state)) == ["saved"]
    assert net.load_state_dict({"saved": np.arange(3)})[1]["scratch"].tolist() == [1, 1]
    kept = {"saved": state["saved"], "scratch": jnp.full(2, 5.0)}
    assert net.load_state_dict({"saved": np.arange(3)}, into=({}, kept))[1]["scratch"].tolist() == [5, 5]


# ------------------------------------------------------------------------------------------------- what does not fit


class Counts(nn.Module):
    def __init__(self, start=None):
        super().__init__()
        start = np.zeros(2, np.int64) if start is None else np.asarray(start, np.int64)
        self.register_buffer("counts", nn.Buffer(start))


def test_an_integer_that_jax_cannot_hold_is_refused_by_name():
    large = np.array([2**40 + 7, 1])
    for into in (None, Counts().init(KEY)):
        with pytest.raises(ValueError, match=r"Counts.load_state_dict: 'counts' holds 1099511627783; .*jax_enable_x64"):
            Counts().load_state_dict({"counts": large}, into=into)
    with pytest.raises(ValueError, match=r"'0.counts' holds -2147483649"):
        nn.Sequential(Counts()).load_state_dict({"0.counts": torch.tensor([-(2**31) - 1, 0])})
    with pytest.raises(ValueError, match="init: 'counts' holds 1099511627783"):
        Counts(large).init(KEY)
    with jax.enable_x64(True):
        assert Counts(large).init(KEY)[1]["counts"].tolist() == large.tolist()
        assert Counts().load_state_dict({"counts": large})[1]["counts"].tolist() == large.tolist()
    edges = [2**31 - 1, -(2**31)]
    assert Counts().load_state_dict({"counts": np.array(edges)})[1]["counts"].tolist() == edges
    scan = nn.Repeat(Counts(), 2, scan=True)
    with pytest.raises(ValueError, match=r"'\*.counts' holds 1099511627783"):
        scan.load_state_dict({f"{i}.counts": large for i in range(2)})


def test_narrow_integers_wrap_as_in_torch():
    net = nn.Sequential(Counts())
    net[0].counts = np.zeros(2, np.int8)
    target = torch.nn.Module()
    target.register_buffer("counts", torch.zeros(2, dtype=torch.int8))
    target.load_state_dict({"counts": torch.tensor([300, -1])})
    _, state = net.load_state_dict({"0.counts": np.array([300, -1])})
    assert state["0"]["counts"].tolist() == target.counts.tolist() == [44, -1]


def test_values_that_are_no_arrays_are_told_with_the_others():
    net = nn.Linear(2, 2)
    for strict in (True, False):
        with pytest.raises(
            ValueError, match=r"mis-shaped: weight expected \(2, 2\), got int; bias expected \(2,\), got"
        ):
            net.load_state_dict({"weight": 3, "bias": "x"}, strict, into=net.init(KEY))
    assert net.match_state_dict({"weight": 3, "bias": np.ones(2)}).mis_shaped == ["weight"]


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_the_small_floats_of_torch_load(dtype):
    values = torch.tensor([[1.5, -2.0], [3.0, 0.125]]).to(getattr(torch, dtype))
    target = torch.nn.Linear(2, 2, bias=False)
    target.load_state_dict({"weight": values})
    params, _ = nn.Linear(2, 2, bias=False).load_state_dict({"weight": values})
    np.testing.assert_array_equal(params["weight"], target.weight.detach())


def test_flagged_tensors_load_and_others_are_refused_by_name():
    net = nn.Linear(2, 2, bias=False, dtype=jnp.complex64)
    values = torch.tensor([[1 + 2j, 3], [4, 5 - 1j]])
    np.testing.assert_array_equal(net.load_state_dict({"weight": values.conj()})[0]["weight"], values.numpy().conj())
    net = nn.Linear(2, 2, bias=False)
    negative = values.conj().imag
    np.testing.assert_array_equal(net.load_state_dict({"weight": negative})[0]["weight"], -values.imag.numpy())
    with pytest.raises(ValueError, match=r"Linear.load_state_dict: 'weight' has no equivalent in NumPy; .*to_dense"):
        net.load_state_dict({"weight": torch.ones(2, 2).to_sparse()})


@pytest.mark.parametrize(
    "metadata", ["abc", {"": "abc"}, {"": {"version": "a"}}], ids=["no dict", "no dict beneath", "no number"]
)
def test_metadata_that_is_none_is_refused(metadata):
    net = nn.BatchNorm1d(2)
    sd = net.state_dict(*net.init(KEY))
    sd._metadata = metadata
    with pytest.raises(ValueError, match=r"BatchNorm1d.load_state_dict: sd._metadata.*expected .*got"):
        net.load_state_dict(sd)


def test_one_layer_of_a_stack_may_lack_what_is_optional_or_excused():
    net = nn.Repeat(nn.BatchNorm1d(2), 2, scan=True)
    sd = net.state_dict(*net.init(KEY))
    sd._metadata["0"]["version"] = 1
    del sd["0.num_batches_tracked"]
    sd["1.num_batches_tracked"] = np.array(5)
    assert net.load_state_dict(sd)[1]["*"]["num_batches_tracked"].tolist() == [0, 5]
    del sd["1.weight"]
    net.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    sd["0.weight"] = np.full(2, 3.0)
    assert net.load_state_dict(sd)[0]["*"]["weight"].tolist() == [[3, 3], [1, 1]]


def test_advice_is_what_helps():
    net = nn.Linear(2, 2)
    good = {"weight": np.ones((2, 2)), "bias": np.ones(2)}

    def said(sd, strict=True):
        with pytest.raises(ValueError) as error:
            net.load_state_dict(sd, strict, into=net.init(KEY))
        return str(error.value)

    for strict in (True, False):
        text = said({**good, "bias": np.ones(3)}, strict)
        assert "Reshape or remove the mis-shaped entries. strict=False does not accept them." in text
        assert "Rename" not in text
    text = said({"weight": good["weight"]})
    assert (
        "Rename the entries, or load those that fit with strict=False, into=(params, state)." in text
        and "Reshape" not in text
    )


@both
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_random_keys_are_buffers_and_become_their_data_in_a_state_dict(scan, impl):
    """torch has no such dtype, but its files can contain the data."""

    class Keys(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("fixed", jax.random.split(jax.random.key(3, impl=impl), (2, 3)))
            self.drawn = nn.Buffer((), lambda key, shape, dtype: jax.random.key(5, impl=impl), dtype=kind)
            self.frozen = nn.Parameter(jax.random.key(4, impl=impl), requires_grad=False)

        def forward(self, x):
            self.drawn, key = jax.random.split(self.drawn)
            return x + jax.random.normal(key, x.shape)

    kind = jax.random.key(0, impl=impl).dtype
    net = nn.Repeat(Keys(), 2, scan=scan)
    params, state = net.init(KEY)
    _, after = net.apply(params, state, jnp.zeros(3))
    sd = net.state_dict(params, after)
    words = jax.random.key_data(jax.random.key(0, impl=impl)).shape
    shapes = {"frozen": words, "fixed": (2, 3, *words), "drawn": words}
    assert {name: (array.shape, array.dtype.name) for name, array in sd.items()} == {
        f"{layer}.{name}": (shape, "uint32") for layer in (0, 1) for name, shape in shapes.items()
    }
    back = net.load_state_dict({name: torch.tensor(np.asarray(array)) for name, array in sd.items()})
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: a.dtype == b.dtype and (a == b).all(), back, (params, after))))
    with pytest.raises(ValueError, match=rf"mis-shaped: 1.drawn expected \({words[0]},\), got \(9,\)"):
        net.load_state_dict(sd | {"1.drawn": np.zeros(9, np.uint32)})


def test_keys_and_numbers_are_not_mixed():
    class Mixed(nn.Module):
        def __init__(self, init, new):
            super().__init__()
            self.seed, self.new = nn.Buffer(()) if init is None else init, new

        def forward(self):
            self.seed = self.new

    with pytest.raises(ValueError, match=r"init of 'seed' returned a random key; expected an array of float32"):
        Mixed(nn.Buffer((), lambda key, shape, dtype: key), None).init(KEY)
    for init, new in ((None, KEY), (nn.Buffer(KEY), 1), (nn.Buffer(KEY), jax.random.key(0, impl="rbg"))):
        net = Mixed(init, new)
        with pytest.raises(ValueError, match=r"the dtype of the buffer 'seed' cannot change; expected .*, got "):
            net.apply(*net.init(KEY))


def shared(lib):
    """One Linear under two names, and single weights of others under two names, of this library or of torch."""

    class Shared(lib.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = lib.Linear(3, 3), lib.Linear(3, 3)
            self.b.weight = self.a.weight
            self.c = self.a
            self.blocks = lib.ModuleList([lib.Linear(3, 3), lib.BatchNorm1d(3), lib.Linear(3, 3)])
            self.blocks[2].bias = self.blocks[0].bias
            self.norm = self.blocks[1]

    return Shared()


DIFFERENT = [
    ({"a.weight": 1.0}, ["b.weight is not equal to a.weight", "c.weight is not equal to a.weight"]),
    ({"b.weight": 1.0}, ["b.weight is not equal to a.weight"]),
    ({"b.weight": 1.0, "c.weight": 2.0}, ["b.weight is not equal to a.weight", "c.weight is not equal to a.weight"]),
    ({"a.bias": np.nan}, ["c.bias is not equal to a.bias"]),
    ({"blocks.2.bias": -1.0}, ["blocks.2.bias is not equal to blocks.0.bias"]),
    ({"norm.running_var": 3.0}, ["norm.running_var is not equal to blocks.1.running_var"]),
    ({"blocks.1.num_batches_tracked": 7}, ["norm.num_batches_tracked is not equal to blocks.1.num_batches_tracked"]),
    ({"a.bias": np.nan, "c.bias": np.nan, "blocks.0.bias": -0.0, "blocks.2.bias": 0.0}, []),
]


@pytest.mark.every_row
@pytest.mark.parametrize(("changed", "told"), DIFFERENT)
def test_names_of_one_array_that_differ_are_refused_or_the_last_counts_as_in_torch(changed, told):
    net, reference = shared(nn), shared(torch.nn)
    sd = {name: tensor.clone() for name, tensor in reference.state_dict().items()}
    sd |= {name: torch.full_like(sd[name], value) for name, value in changed.items()}
    reference.load_state_dict(sd)
    into = net.init(KEY)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loaded = net.load_state_dict(sd, strict=False, into=into)
    assert [text in str(w.message) for w in caught for text in told] == [True] * len(told)
    for name, array in net.state_dict(*loaded).items():
        np.testing.assert_array_equal(array, reference.state_dict()[name])
    if told:
        with pytest.raises(ValueError, match=rf"tied but different: {', '.join(told)}\. Remove one"):
            net.load_state_dict(sd)
    else:
        net.load_state_dict(sd)


@both
def test_names_of_one_array_that_differ_in_a_stack_or_only_in_their_dtype(scan):
    net = nn.Repeat(shared(nn), 2, scan=scan)
    sd = dict(net.state_dict(*net.init(KEY)))
    net.load_state_dict(sd | {"1.b.weight": np.asarray(sd["1.b.weight"], np.float64)})
    with pytest.raises(ValueError, match=r"tied but different: 1.b.weight is not equal to 1.a.weight\. Remove"):
        net.load_state_dict(sd | {"1.b.weight": np.asarray(sd["1.b.weight"]).astype(np.float16)})
    jax.jit(net.load_state_dict)(sd | {"1.b.weight": sd["0.b.weight"]})  # traced arrays have no values
