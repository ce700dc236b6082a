"""Accuracy on handwritten digits (scikit-learn): real numbers, integers after training, and aware of it in training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import functional as F
from funcnet import nn
from funcnet.optim import warmup_linear_decay
from funcnet.quantization import MeanSquaredErrorObserver, PercentileObserver, calibrate, convert
from tests.quantization.digits import BATCH, accuracy, read_digits, train, train_with_rounding


class Net(nn.Module):
    """A convolutional net for images of 8 x 8 pixels."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1, stride=2, bias=False), nn.BatchNorm2d(32)
        self.conv3, self.norm3 = nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.relu(self.norm2(self.conv2(x)))
        x = F.relu(x + self.norm3(self.conv3(x)))
        return self.fc(x.mean((2, 3)))


@pytest.fixture(scope="module")
def digits():
    return read_digits()


@pytest.fixture(scope="module")
def trained(digits, tmp_path_factory):
    """The net and its accuracy on the test images, in percent."""
    net, out = Net(), tmp_path_factory.mktemp("digits") / "run"
    rate = warmup_linear_decay(3e-3, 30, 600)
    params, state = train(net, net.init(jax.random.key(0)), digits, steps=600, rate=rate, out=out)
    return net, params, state, accuracy(lambda x: net.apply(params, state, x)[0], digits)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
@pytest.mark.parametrize("observer", [None, PercentileObserver(99.99), MeanSquaredErrorObserver()], ids=str)
def test_after_training_it_loses_less_than_a_point(digits, trained, observer, kernel):
    net, params, state, real = trained
    assert real > 97
    batches = [digits.images[n : n + 100] for n in range(0, 400, 100)]
    ranges = calibrate(net, params, state, batches, observer)
    integers = convert(net, params, state, ranges, digits.test_images[:BATCH], kernel)
    found = accuracy(integers, digits)
    print(f"float {real:.2f}, int8 {found:.2f}")
    assert found > real - 1
    assert integers.size < 0.27 * 4 * sum(np.size(leaf) for leaf in jax.tree.leaves(params))


@pytest.mark.slow
def test_random_ranges_lose_much(digits, trained):
    """The accuracy does depend on the ranges, so that the test above can fail."""
    net, params, state, real = trained
    ranges = calibrate(net, params, state, [jnp.full((1, 1, 8, 8), 1e-3)])
    assert accuracy(convert(net, params, state, ranges, digits.test_images[:BATCH]), digits) < real - 10


@pytest.mark.slow
def test_trained_with_rounding_it_loses_less_than_a_third_of_a_point(digits, trained, tmp_path):
    net, params, state, real = trained
    x = digits.test_images[:BATCH]
    out = tmp_path / "run"
    aware, both, buffers = train_with_rounding(net, params, state, digits, steps=100, rate=1e-4, out=out)
    integers = convert(net, both["net"], buffers["net"], aware.ranges(buffers), x)
    found = accuracy(integers, digits)
    print(f"float {real:.2f}, aware {found:.2f}")
    assert found >= real - 0.3
    simulated = lambda x: aware.apply(both, buffers, x)[0]
    # the simulation is in real numbers: it may differ by a step of an integer where a number is nearly half
    step = aware.ranges(buffers)["fc:linear"].scale
    difference = np.abs(np.asarray(simulated(x)) - np.asarray(integers(x)))
    assert (difference > 0.5 * step).mean() < 0.2 and difference.max() < 6 * step
