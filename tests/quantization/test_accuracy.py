"""Accuracy on handwritten digits (scikit-learn): real numbers, integers after training, and aware of it in training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits

from funcnet import functional as F
from funcnet import nn
from funcnet.optim import bert_adamw
from funcnet.quantization import (
    MeanSquaredErrorObserver,
    PercentileObserver,
    QuantizationAware,
    calibrate,
    convert,
)
from funcnet.train import fit

BATCH = 297


class Digits(nn.Module):
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
    """Images (N, 1, 8, 8) and labels: 1,203 to train and 594 to test."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images = (images[order].reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    labels = labels[order].astype(np.int32)
    return images[594:], labels[594:], images[:594], labels[:594]


def train(net, start, images, labels, steps, rate, out):
    """The parameters and buffers after some steps of Adam."""

    def loss(model, batch):
        return F.cross_entropy(model(batch["image"]), batch["label"], reduction="none")

    data = {"image": images, "label": labels}
    adam = bert_adamw(rate, weight_decay=0.0, no_decay=(), max_norm=None, bias_correction=True)
    fitted = fit(net, loss, data, adam, out=out, steps=steps, batch_size=64, start=start)
    return fitted.params, fitted.state


@pytest.fixture(scope="module")
def trained(digits, tmp_path_factory):
    """The net and its accuracy on the test images, in percent."""
    net, out = Digits(), tmp_path_factory.mktemp("digits") / "run"
    params, state = train(net, net.init(jax.random.key(0)), *digits[:2], steps=300, rate=3e-3, out=out)
    return net, params, state, accuracy(lambda x: net.apply(params, state, x)[0], digits)


def accuracy(function, digits):
    images, labels = digits[2:]
    right = [np.argmax(function(images[n : n + BATCH]), -1) == labels[n : n + BATCH] for n in range(0, 594, BATCH)]
    return 100 * float(np.concatenate(right).mean())


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["reference", "xnnpack"])
@pytest.mark.parametrize("observer", [None, PercentileObserver(99.99), MeanSquaredErrorObserver()], ids=str)
def test_after_training_it_loses_less_than_a_point(digits, trained, observer, kernel):
    net, params, state, real = trained
    assert real > 97
    batches = [digits[0][n : n + 100] for n in range(0, 400, 100)]
    ranges = calibrate(net, params, state, batches, observer)
    integers = convert(net, params, state, ranges, digits[2][:BATCH], kernel)
    found = accuracy(integers, digits)
    print(f"float {real:.2f}, int8 {found:.2f}")
    assert found > real - 1
    assert integers.size < 0.27 * 4 * sum(np.size(leaf) for leaf in jax.tree.leaves(params))


@pytest.mark.slow
def test_random_ranges_lose_much(digits, trained):
    """The accuracy does depend on the ranges, so that the test above can fail."""
    net, params, state, real = trained
    ranges = calibrate(net, params, state, [jnp.full((1, 1, 8, 8), 1e-3)])
    assert accuracy(convert(net, params, state, ranges, digits[2][:BATCH]), digits) < real - 10


@pytest.mark.slow
def test_trained_with_rounding_it_loses_less_than_a_third_of_a_point(digits, trained, tmp_path):
    net, params, state, real = trained
    ranges = calibrate(net, params, state, [digits[0][:400]])
    aware = QuantizationAware(net, ranges)
    _, buffers = aware.init(jax.random.key(0))
    start = {"net": params}, {**buffers, "net": state}
    both, buffers = train(aware, start, *digits[:2], steps=100, rate=1e-4, out=tmp_path / "run")
    integers = convert(net, both["net"], buffers["net"], aware.ranges(buffers), digits[2][:BATCH])
    found = accuracy(integers, digits)
    print(f"float {real:.2f}, aware {found:.2f}")
    assert found >= real - 0.3
    simulated = lambda x: aware.apply(both, buffers, x)[0]
    x = digits[2][:BATCH]
    # the simulation is in real numbers: it may differ by a step of an integer where a number is nearly half
    step = aware.ranges(buffers)["fc:linear"].scale
    difference = np.abs(np.asarray(simulated(x)) - np.asarray(integers(x)))
    assert (difference > 0.5 * step).mean() < 0.2 and difference.max() < 6 * step
