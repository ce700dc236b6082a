"""A ResNet-18 that has learned handwritten digits, in integers: LiteRT's bytes, the accuracy, and the size of the file.

Each test compares LiteRT on 594 test images, and the accuracies on five times as many. To see the figures, run it with
`-s`.
"""

import jax
import numpy as np
import pytest

from funcnet.export.tflite import to_tflite
from funcnet.models import resnet
from funcnet.optim import warmup_linear_decay
from funcnet.quantization import calibrate, convert
from tests.export.tflite.test_export import compare_every_tensor
from tests.quantization.digits import BATCH, accuracy, read_digits, train, train_with_rounding

pytestmark = pytest.mark.slow
KERNELS = ["reference", "xnnpack"]


def accuracy_with_bytes_of_litert(integers, path, digits):
    """Write a file whose batch is 594 images, compare it with LiteRT byte for byte, and return the accuracy."""
    images = digits.test_images[:BATCH]
    done = to_tflite(integers, path, images)
    assert done.differing == 0 and done.compared == 10 * len(images)
    tensors = 0
    if integers.kernel == "reference":  # XNNPACK merges operations, and returns the outputs of the net only
        tensors = compare_every_tensor(integers, path, [images])
        assert tensors > 50_000 * len(images)
    print(f"\n{integers.kernel}: LiteRT has the same {4 * done.compared:,} bytes of outputs and {tensors:,} of tensors")
    return accuracy(integers, digits)


def test_after_training_and_after_more_steps_with_rounding(tmp_path):
    """One test, so that two workers do not both train.

    The learning rate falls to 0, so that BatchNorm's running statistics are those of the last parameters. That of the
    steps with rounding was chosen on images held out from training: with 1e-5, none of 1,015 was lost.
    """
    digits, net = read_digits(), resnet.resnet18(num_classes=10, in_channels=1, small_images=True)
    start, rate = jax.jit(net.init)(jax.random.key(0)), warmup_linear_decay(1e-3, 10, 200)
    params, state = train(net, start, digits, steps=200, rate=rate, out=tmp_path / "run")
    real = accuracy(jax.jit(lambda x: net.apply(params, state, x)[0]), digits)
    assert real > 97
    ranges = calibrate(net, params, state, [digits.images[n : n + 100] for n in range(0, 400, 100)])
    reals = 4 * sum(np.size(leaf) for leaf in jax.tree.leaves(params))
    for kernel in KERNELS:
        path = tmp_path / f"{kernel}.tflite"
        integers = convert(net, params, state, ranges, digits.test_images[:BATCH], kernel)
        found, size = accuracy_with_bytes_of_litert(integers, path, digits), path.stat().st_size
        print(f"float {real:.2f} %, int8 {found:.2f} %; float {reals:,} bytes, .tflite {size:,}")
        assert found > real - 1
        assert size < 0.26 * reals

    rate = warmup_linear_decay(1e-5, 10, 100)
    aware, both, buffers = train_with_rounding(net, params, state, digits, steps=100, rate=rate, out=tmp_path / "aware")
    for kernel in KERNELS:
        rounded = both["net"], buffers["net"], aware.ranges(buffers)
        integers = convert(net, *rounded, digits.test_images[:BATCH], kernel)
        found = accuracy_with_bytes_of_litert(integers, tmp_path / f"{kernel}-rounded.tflite", digits)
        print(f"float {real:.2f} %, int8 trained with rounding {found:.2f} %")
        assert found >= real - 0.3
