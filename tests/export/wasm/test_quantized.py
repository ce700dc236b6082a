"""Integer nets as modules: every byte of the outputs is JAX's, in wasmtime and in Node, and the weights stay int8."""

import jax
import numpy as np
import pytest

from funcnet.export.wasm.module import WasmExport, to_wasm
from funcnet.models import bert, resnet
from funcnet.quantization import QuantizedNet, calibrate, convert
from tests import real_data
from tests.export.tflite.test_transformers import tiny
from tests.export.wasm import node
from tests.quantization.nets import Pieces, images, quantized

CODE = 100_000
KERNELS = pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
SLOW = pytest.mark.slow


def assert_same_bytes(export: WasmExport, net, inputs, length=None, folder=None):
    """Compare the outputs with JAX's in wasmtime, and in Node if there is a folder."""
    expected = [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(net(*inputs))]
    assert [array.tobytes() for array in export.runner()(*inputs)] == expected
    assert len(set(expected)) == len(expected) and all(len(set(one)) > 8 for one in expected)  # they say something
    if folder is not None:
        outputs, imports = node.run(export.save(folder / "net.wasm"), inputs, length)
        assert [array.tobytes() for array in outputs] == expected and imports == ""


def size_in_panels(net: QuantizedNet) -> int:
    """Return the bytes of the constants, matrices filled up to eight columns and to pairs of rows."""
    up = lambda n, to: -(-n // to) * to
    sizes = [up(a.shape[0], 8) * up(a.shape[1], 2) if a.ndim == 2 else a.nbytes for a in net.constants.values()]
    return sum(sizes)


@pytest.mark.parametrize("kernel", ["reference", pytest.param("xnnpack", marks=SLOW)])
def test_a_convolutional_net(kernel, tmp_path):
    x = images()
    net, _, _ = quantized(Pieces(), x, kernel=kernel)
    export = to_wasm(net, x)
    assert_same_bytes(export, net, [x], folder=tmp_path)
    assert_same_bytes(export, net, [images(seed=1) * 3])  # beyond the calibrated range
    assert export.code_size < CODE


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [pytest.param("reference", marks=SLOW), "xnnpack"])
def test_a_tiny_bert(kernel, tmp_path):
    module, params, state, inputs = tiny()
    net = convert(module, params, state, calibrate(module, params, state, [inputs]), inputs, kernel)
    export = to_wasm(net, *inputs)
    assert_same_bytes(export, net, inputs, folder=tmp_path)
    ids, mask, types = inputs
    assert_same_bytes(export, net, [(ids + 31) % 100, mask[::-1].copy(), 1 - types])
    assert export.code_size < CODE


@SLOW
def test_several_lengths_share_the_weights():
    module, params, state, (ids, mask, types) = tiny()
    nets = {}
    for length in (3, 8):
        inputs = ids[:, :length], mask[:, :length], types[:, :length]
        nets[length] = convert(module, params, state, calibrate(module, params, state, [(ids, mask, types)]), inputs)
    export = to_wasm(lambda *arrays: nets[arrays[0].shape[1]](*arrays), ids, mask, types, lengths=(3, 8))
    for length, net in nets.items():
        assert_same_bytes(export, net, [array[:, :length] for array in (ids, mask, types)], length)
    alone = to_wasm(nets[8], ids, mask, types)
    assert export.code_size < CODE
    assert export.description.weights.size < 1.2 * alone.description.weights.size


@SLOW
@KERNELS
def test_resnet18(kernel, tmp_path):
    x = images(1, 3, 96)
    net, _, _ = quantized(resnet.resnet18(num_classes=100), x, kernel=kernel)
    export = to_wasm(net, x)
    assert_same_bytes(export, net, [x], folder=tmp_path)
    assert export.code_size < CODE
    assert export.description.weights.size < 1.01 * size_in_panels(net) < 12e6


@SLOW
def test_minilm_at_four_lengths(tmp_path):
    module, params, state = bert.from_pretrained(real_data.minilm())
    random = np.random.default_rng(0)
    ids = random.integers(1000, 30_000, (1, 128)).astype(np.int32)
    mask = (np.arange(128) % 16 < 12).astype(np.int32)[None]
    ranges = calibrate(module, params, state, [(ids, mask)])
    lengths = (16, 32, 64, 128)
    nets = {n: convert(module, params, state, ranges, (ids[:, :n], mask[:, :n])) for n in lengths}
    export = to_wasm(lambda *arrays: nets[arrays[0].shape[1]](*arrays), ids, mask, lengths=lengths)
    for length, net in nets.items():
        assert_same_bytes(export, net, [ids[:, -length:], mask[:, :length]], length, tmp_path)
    assert export.code_size < CODE
    assert export.description.weights.size < 1.03 * nets[128].size < 24e6
