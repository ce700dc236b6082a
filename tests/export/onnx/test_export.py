"""ONNX files: weights inside and beside, other readers of them, and wrong ids. `test_refusals.py` has wrong files."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors.numpy

from funcnet import export, nn
from funcnet.export.onnx.export import load_onnx, to_onnx
from tests.export.saved import X, saved


@pytest.mark.parametrize("weights", ["inside", "beside"])
def test_it_is_the_function(tmp_path, weights):
    run, params = saved(to_onnx, tmp_path / "net.onnx", weights=weights)
    loaded = load_onnx(tmp_path / "net.onnx", threads=1)
    more = np.concatenate([X, X])
    np.testing.assert_allclose(loaded(more)[0], run(more), rtol=0, atol=1e-6)
    assert str(loaded.arguments[0]) == "input float32 (batch, 3)" and loaded.results[0].name == "output"
    model = onnx.load(tmp_path / "net.onnx")  # with the weights beside, found by their offsets
    onnx.checker.check_model(model, full_check=True)
    held = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    np.testing.assert_array_equal(held["0.weight"], params["0"]["weight"])  # torch's name and layout
    if weights == "beside":
        beside = safetensors.numpy.load_file(tmp_path / "net.safetensors")
        assert set(beside) == {"0.weight", "0.bias", "2.weight", "2.bias"}
        np.testing.assert_array_equal(beside["2.weight"], params["2"]["weight"])
        assert (tmp_path / "net.onnx").stat().st_size < 2500


def test_the_two_libraries_agree_on_the_model(tmp_path):
    """onnx's reference evaluator, which shares no code with ONNX Runtime, computes the same."""
    module = nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 4), nn.Softmax(-1))
    params, state = module.init(jax.random.key(0))
    run = export.inference_of(module, params, state)
    to_onnx(run, X, params=params).save(tmp_path / "net.onnx")
    from onnx.reference import ReferenceEvaluator

    (got,) = ReferenceEvaluator(str(tmp_path / "net.onnx")).run(None, {"input": X})
    np.testing.assert_allclose(got, run(X), rtol=0, atol=1e-6)


def test_a_tied_weight_is_stored_once(tmp_path):
    table = jnp.asarray(np.random.default_rng(0).normal(size=(50, 8)), jnp.float32)
    run = lambda ids: nn.functional.embedding(ids, table) @ table.T
    to_onnx(run, np.array([[1, 2]], np.int32), params={"table": table}).save(tmp_path / "net.onnx")
    assert [one.name for one in onnx.load(tmp_path / "net.onnx").graph.initializer].count("table") == 1
    assert (tmp_path / "net.onnx").stat().st_size < 1.5 * table.nbytes


def test_outputs_that_are_inputs_weights_or_equal(tmp_path):
    weight = jnp.arange(3.0)
    to_onnx(lambda x: (x, weight, x + 1, x + 1), X).save(tmp_path / "net.onnx")
    got = load_onnx(tmp_path / "net.onnx")(X)
    for one, other in zip(got, (X, weight, X + 1, X + 1), strict=True):
        np.testing.assert_array_equal(one, other)
    assert names(tmp_path / "net.onnx") == (["x"], ["output_0", "output_1", "output_2", "output_3"])


def names(path):
    """The names of a model's inputs and outputs, as ONNX Runtime sees them."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return [one.name for one in session.get_inputs()], [one.name for one in session.get_outputs()]


def equal_outputs(x):
    y = x + 1
    return {"a": y, "b": y}


def test_outputs_keep_the_names_that_the_export_reports(tmp_path):
    for run, expected in ((lambda x: (x, x + 1), ["output_0", "output_1"]), (equal_outputs, ["a", "b"])):
        exported = to_onnx(run, X, dynamic="n, _")
        exported.save(tmp_path / "net.onnx")
        assert names(tmp_path / "net.onnx") == (["x"], expected)
        assert [one.name for one in exported.arguments] == ["x"]
        assert [one.name for one in exported.results] == expected
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(["a"], {"x": X})[0], X + 1)


W = jnp.asarray(np.random.default_rng(0).normal(size=(3, 3)), jnp.float32)


@pytest.mark.parametrize("placed", ["inside", "beside"])
@pytest.mark.parametrize(
    "run, inputs, outputs",
    [
        (
            lambda *a: jax.lax.scan(lambda c, row: (c + a[0][1], row), a[0][0], a[0]),
            ["input_0"],
            ["output_0", "output_1"],
        ),
        (lambda weight: weight @ W, ["weight"], ["output"]),
        (lambda x: {"weight": x @ W}, ["x"], ["weight"]),
        (lambda MatMul_0: {"weight_0": MatMul_0 @ W}, ["MatMul_0"], ["weight_0"]),
        (lambda weight: {"weight_0": weight @ W}, ["weight"], ["weight_0"]),
    ],
)
def test_names_that_are_taken(tmp_path, run, inputs, outputs, placed):
    to_onnx(run, X, params={"weight": W}, weights=placed).save(tmp_path / "net.onnx")
    assert names(tmp_path / "net.onnx") == (inputs, outputs)
    for got, expected in zip(load_onnx(tmp_path / "net.onnx")(X), jax.tree.leaves(run(X)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)
    if (tmp_path / "net.safetensors").exists():  # where the weight has its own name
        np.testing.assert_array_equal(safetensors.numpy.load_file(tmp_path / "net.safetensors")["weight"], W)


@pytest.mark.parametrize("wrong", [-1, 7, 100])
def test_an_id_out_of_range_is_an_error(tmp_path, wrong):
    """JAX gives NaN there; ONNX would count -1 from the end, if nothing were done."""
    module = nn.Embedding(7, 3)
    params, state = module.init(jax.random.key(0))
    run = export.inference_of(module, params, state)
    to_onnx(run, np.array([0, 6], np.int32)).save(tmp_path / "net.onnx")
    with pytest.raises(ValueError, match=r"ONNX Runtime refused the inputs.*out of data bounds"):
        load_onnx(tmp_path / "net.onnx")(np.array([0, wrong], np.int32))


class Odd(nn.Module):
    def forward(self, x):
        return jax.lax.lgamma(x)


def test_an_operation_without_a_form_is_named_with_its_layer():
    net = nn.Sequential(nn.Identity(), nn.Sequential(Odd()))
    run = export.inference_of(net, *net.init(jax.random.key(0)))
    with pytest.raises(ValueError, match=r"to_onnx: 1\.0 uses an operation without a form in ONNX; .* got 'lgamma'"):
        to_onnx(run, X)
    net = nn.Sequential(nn.Identity(), nn.Repeat(nn.Sequential(Odd()), 2, scan=True))
    run = export.inference_of(net, *net.init(jax.random.key(0), X))
    with pytest.raises(ValueError, match=r"to_onnx: 1.*uses an operation without a form in ONNX; .* got 'lgamma'"):
        to_onnx(run, X)


class Low(nn.Module):
    def forward(self, x):
        return jnp.sin(x.astype(jnp.bfloat16))


def test_a_dtype_without_a_kernel_is_named_with_its_layer():
    net = nn.Sequential(nn.Identity(), nn.Sequential(Low()))
    run = export.inference_of(net, *net.init(jax.random.key(0)))
    message = r"^to_onnx: ONNX Runtime has no kernel for Sin of bfloat16 in layer 1\.0; .* got"
    with pytest.raises(ValueError, match=message) as error:
        to_onnx(run, X)
    assert "model.onnx" not in str(error.value)
    with pytest.raises(ValueError, match=r"no kernel for Neg of uint32 in the function; .* got"):
        to_onnx(lambda x: -x, np.ones(3, np.uint32))
    with pytest.raises(ValueError, match=r"no kernel for Sin of bfloat16 in layer loop; "):
        to_onnx(lambda x: jax.lax.scan(lambda c, row: (c, in_a_loop(row)), 0, x)[1], X.astype(jnp.bfloat16))


@jax.named_scope("loop")
def in_a_loop(row):
    return jnp.sin(row)
