"""`to_wasm`: what the module holds, where its weights lie, what is refused; in wasmtime and in Node."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import wasmtime

from funcnet import nn
from funcnet.export.check import compare
from funcnet.export.wasm.description import ModuleDescription
from funcnet.export.wasm.module import to_wasm
from funcnet.export.wasm.runner import Runner
from tests.export.wasm import node

X = np.random.default_rng(0).normal(size=(2, 7, 5)).astype(np.float32)
WEIGHT = jax.random.normal(jax.random.key(0), (5, 11))
MASK = np.array([[1, 1, 0, 1, 0, 1, 1]] * 2, bool)


def model(x, mask):
    scores = jax.nn.softmax(jnp.where(mask[..., None], jnp.tanh(x @ WEIGHT), -1.0), 1)
    return {"scores": scores, "best": jnp.argmax(scores, -1)}


@pytest.fixture(scope="module")
def exports():
    ways = {
        "inside": {},
        "beside": {"weights": "beside"},
        "module": {"weights": "module"},
        "imported": {"import_memory": True},
        "lengths": {"lengths": (3, 7, 12)},
    }
    return {name: to_wasm(model, X, MASK, **options) for name, options in ways.items()}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["inside", "beside", "module", "imported", "lengths"])
@pytest.mark.parametrize("host", ["wasmtime", "node"])
def test_equals_jax(exports, way, host, tmp_path):
    export = exports[way]
    assert export.check.largest < 1e-6
    for length in (3, 7, 12) if way == "lengths" else (None,):
        x, mask = (X, MASK) if length is None else (np.resize(X, (2, length, 5)), np.resize(MASK, (2, length)))
        if host == "wasmtime":
            best, scores = export.runner()(x, mask)
        else:
            (best, scores), imports = node.run(export.save(tmp_path / "model.wasm"), [x, mask], length)
            assert imports == {"module": "weights.memory", "imported": "env.memory"}.get(way, "")
        expected = jax.jit(model)(x, mask)
        assert compare(["scores"], [scores], [expected["scores"]]).largest < 1e-6
        np.testing.assert_array_equal(best, expected["best"])


def test_imports_nothing_and_describes_itself(exports):
    export = exports["inside"]
    engine = wasmtime.Engine()
    module = wasmtime.Module(engine, export.wasm)
    assert not module.imports
    assert {e.name for e in module.exports} == {"memory", "run", "input", "output"}
    assert ModuleDescription.of(export.wasm) == export.description
    (entry,) = export.description.entries
    assert [(p.name, p.shape, p.dtype) for p in entry.inputs] == [
        ("x", X.shape, "float32"),
        ("mask", MASK.shape, "bool"),
    ]
    assert [(p.name, p.dtype) for p in entry.outputs] == [("output.best", "int32"), ("output.scores", "float32")]
    assert export.code_size < 20_000 and all(p.address % 16 == 0 for p in (*entry.inputs, *entry.outputs))
    store = wasmtime.Store(engine)
    calls = wasmtime.Instance(store, module, []).exports(store)
    assert [calls["input"](store, i) for i in (0, 1, 2, -1)] == [*(p.address for p in entry.inputs), -1, -1]


def test_a_second_run_gives_the_same(exports):
    runner = exports["inside"].runner()
    first = runner(X, MASK)
    runner(-X, ~MASK)
    assert all(np.array_equal(a, b) for a, b in zip(first, runner(X, MASK), strict=True))


def test_a_failed_save_keeps_the_old_files(exports, tmp_path, monkeypatch):
    export, path = exports["beside"], tmp_path / "model.wasm"
    files = export.save(path)
    before = {file: file.read_bytes() for file in files}
    write = Path.write_bytes

    def full(file, content):
        write(file, content[: len(content) // 2])
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space left"):
        export.save(path)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.slow
def test_equal_layers_share_code_and_equal_weights_are_stored_once():
    def stack(depth, shared):
        net = nn.Sequential(*[nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.LayerNorm(16)) for _ in range(depth)])
        params, state = net.init(jax.random.key(0))
        params = {str(i): params["0"] if shared else params[str(i)] for i in range(depth)}
        return to_wasm(lambda x: net.apply(params, state, x)[0], np.ones((3, 16), np.float32))

    two, eight, tied = stack(2, False), stack(8, False), stack(8, True)
    assert eight.code_size < two.code_size + 6 * 200  # calls, and no kernels
    assert eight.description.weights.size > 3.9 * two.description.weights.size
    assert tied.description.weights.size < two.description.weights.size


NUMBERS = {
    "float32": [(-0.0, np.inf), (2.5, -0.0), (1e-38, np.nan), (-np.inf, 3e38)],
    "int32": [(3, -(2**31)), (-7, 2**31 - 1)],
    "uint32": [(3, 2**32 - 1), (2**31, 5)],
    "int16": [(3, -(2**15)), (-7, 2**15 - 1)],
    "uint16": [(3, 2**16 - 1), (2**15, 5)],
    "int8": [(3, -128), (-7, 127)],
    "uint8": [(3, 255), (128, 5)],
}


@pytest.mark.parametrize("dtype", NUMBERS)
def test_kernels_that_differ_in_numbers_keep_jax_results(dtype):
    x = np.arange(-6, 6).astype(dtype).reshape(3, 4)

    def model(x):
        one = lambda scale, shift: jax.lax.cumsum(jnp.where(x > scale, x, shift) * scale + shift, 1)
        return [one(*(np.dtype(dtype).type(n) for n in pair)) for pair in NUMBERS[dtype]]

    for array, expected in zip(to_wasm(model, x).runner()(x), jax.jit(model)(x), strict=True):
        np.testing.assert_array_equal(array, expected)


def test_lengths_share_code():
    weights = [np.random.default_rng(n).normal(size=(8, 8)).astype(np.float32) for n in range(4)]

    def model(x):
        for weight in weights:
            x = x + jax.nn.gelu(jax.nn.softmax(x) @ weight)
        return x

    x = np.ones((1, 48, 8), np.float32)
    one, four = to_wasm(model, x, lengths=(48,)), to_wasm(model, x, lengths=(16, 32, 48, 64))
    assert four.check.largest < 1e-6
    assert four.code_size < 2 * one.code_size


def test_a_tied_table_is_stored_once():
    table = jax.random.normal(jax.random.key(0), (1001, 32))
    export = to_wasm(lambda ids: jnp.take(table, ids, 0, mode="clip") @ table.T, np.array([[3, 0, 1000]], np.int32))
    assert export.check.largest < 1e-6
    assert table.nbytes <= export.description.weights.size <= 1.01 * table.nbytes


def test_weights_of_another_model_are_refused(exports):
    export = exports["beside"]
    with pytest.raises(ValueError, match=r"wasm: weights do not fit; the module has them 'beside', got none"):
        Runner(export.wasm)
    other = bytes([export.weights[0] ^ 1]) + export.weights[1:]
    with pytest.raises(ValueError, match=r"wasm: the weights are another model's, or altered; expected \d+ bytes"):
        Runner(export.wasm, other)
    with pytest.raises(ValueError, match=r"another model's"):
        Runner(export.wasm, export.weights[:-16])


def test_truncated_and_foreign_modules_are_refused(exports):
    wasm = exports["inside"].wasm
    with pytest.raises(ValueError, match=r"the module is truncated; expected \d+ bytes or more, got \d+"):
        Runner(wasm[:-100])
    with pytest.raises(ValueError, match=r"this is not a WebAssembly module; expected it to begin with"):
        Runner(b"PK\x03\x04")
    with pytest.raises(ValueError, match=r"wasm: the module has no custom section 'funcnet'"):
        Runner(wasm[:8] + b"\x00\x02\x01a")
    altered = wasm.replace(b'"version":1', b'"version":9')
    with pytest.raises(ValueError, match=r"wasm: the description is of another version; expected 1, got 9"):
        Runner(altered)


def test_inputs_of_another_shape_or_dtype_are_refused(exports):
    runner = exports["lengths"].runner()
    message = (
        r"wasm: the inputs have other shapes or dtypes; expected x float32\[2, 3, 5\], mask bool\[2, 3\] or .*got "
    )
    for arrays in [(X[:1], MASK[:1]), (X.astype(np.float16), MASK), (X,), (X, MASK.astype(np.int32))]:
        with pytest.raises(ValueError, match=message):
            runner(*arrays)


def test_unsupported_primitives_are_named_with_their_layer():
    class Spectrum(nn.Module):
        def forward(self, x):
            return jnp.abs(jnp.fft.rfft(x))

    net = nn.Sequential(nn.Tanh(), Spectrum())
    message = r"to_wasm: .*'fft'.*in layer '1'"
    with pytest.raises(ValueError, match=message):
        to_wasm(lambda x: net.apply({}, {}, x)[0], np.ones(8, np.float32))
    with pytest.raises(
        ValueError, match=r"primitive 'cholesky' is not supported.*Compute the factor before the export"
    ):
        to_wasm(jnp.linalg.cholesky, np.eye(3, dtype=np.float32))


def test_randomness_is_refused():
    net, x = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), jnp.ones((2, 4))
    params, state = net.init(jax.random.key(0))
    message = r"to_wasm: .*random.*expected a pure inference function"
    with pytest.raises(ValueError, match=message):
        to_wasm(lambda x: net.apply(params, state, x, training=True, rng=jax.random.key(0))[0], x)


def test_dtypes_that_the_module_cannot_hold_are_refused():
    message = r"to_wasm: an input has an unsupported dtype; expected one of bool, float32.*got bfloat16"
    with pytest.raises(ValueError, match=message):
        to_wasm(lambda x: x, jnp.ones(3, jnp.bfloat16))
    with pytest.raises(
        ValueError, match=r"to_wasm: the result of the primitive 'convert_element_type' has .*got float16"
    ):
        to_wasm(lambda x: x.astype(jnp.float16), jnp.ones(3))


def test_unknown_options_are_refused():
    with pytest.raises(ValueError, match=r"to_wasm: weights has an unknown value; expected inside, beside or module"):
        to_wasm(model, X, MASK, weights="outside")
    for lengths in ((4, 4), (0, 4), (4, -1)):
        with pytest.raises(ValueError, match=r"to_wasm: lengths has wrong values; expected positive numbers, each onc"):
            to_wasm(model, X, MASK, lengths=lengths)


def test_outputs_that_are_inputs_constants_or_equal():
    def same(x, y):
        return x, y + 1, x, jnp.arange(3), jnp.zeros((2, 2)), x.T, jnp.float32(2.5)

    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(4, np.int32)]
    for ours, theirs in zip(to_wasm(same, *arrays).runner()(*arrays), same(*map(jnp.asarray, arrays)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_empty_arrays():
    def empty(x):
        return x[:0], x.sum(0) + x[:0].sum(), x[:, :0] @ jnp.zeros((0, 4)), jnp.concatenate([x[:0], x])

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for ours, theirs in zip(to_wasm(empty, x).runner()(x), empty(jnp.asarray(x)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_memory_is_reused():
    def deep(x):
        for _ in range(20):
            x = jnp.cumsum(x, 0) * 0.1
        return x

    x = np.ones((1000, 16), np.float32)
    export = to_wasm(deep, x)
    arrays = export.description.pages * 65536 - 131072 - export.description.weights.size
    assert arrays < 5 * x.nbytes


def test_sums_keep_their_precision():
    x = (np.random.default_rng(1).normal(size=(3, 300_001)) + 1).astype(np.float32)
    total, column = to_wasm(lambda x: (x.sum(1), x.T.sum(0)), x).runner()(x)
    truth = x.astype(np.float64).sum(1)
    assert np.max(np.abs(total - truth) / truth) < 3e-7
    assert np.max(np.abs(column - truth) / truth) < 3e-7
