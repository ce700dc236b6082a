"""Scikit-learn's handwritten digits for the tests of quantization: data, training with and without rounding, accuracy.

Each image is there five times: as it is, and moved by a pixel in each direction. So many images make the accuracy
precise to a thirtieth of a point. Letters: `N images`.
"""

from typing import NamedTuple

import jax
import numpy as np
from sklearn.datasets import load_digits

from funcnet import functional as F
from funcnet.optim import bert_adamw
from funcnet.quantization import QuantizationAware, calibrate
from funcnet.train import fit

__all__ = ["BATCH", "Digits", "accuracy", "read_digits", "train", "train_with_rounding"]

BATCH = 594  # images in one call; five calls for all test images


class Digits(NamedTuple):
    """Images (N, 1, 8, 8) float32 from 0 to 1, and labels (N,) int32: five times 1,203 to train and 594 to test.

    The first 594 test images, and the first 1,203 images to train, are not moved.
    """

    images: np.ndarray
    labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def read_digits():
    """Return the digits. Always the same third of the images is used as test images."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images = (images[order].reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    labels = labels[order].astype(np.int32)
    return Digits(moved(images[594:]), np.tile(labels[594:], 5), moved(images[:594]), np.tile(labels[:594], 5))


def moved(images):
    """Return images (N, 1, 8, 8), and then the same images moved by a pixel in each direction: (5 N, 1, 8, 8)."""
    wide = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    corners = ((1, 1), (1, 2), (1, 0), (2, 1), (0, 1))
    return np.concatenate([wide[:, :, y : y + 8, x : x + 8] for y, x in corners])


def train(net, start, digits, *, steps, rate, out):
    """Return the parameters and the buffers after some steps of Adam, with 64 images each.

    `rate` is a learning rate or a schedule.
    """

    def loss(model, batch):
        return F.cross_entropy(model(batch["image"]), batch["label"], reduction="none")

    data = {"image": digits.images, "label": digits.labels}
    adam = bert_adamw(rate, weight_decay=0.0, no_decay=(), max_norm=None, bias_correction=True)
    fitted = fit(net, loss, data, adam, out=out, steps=steps, batch_size=64, start=start)
    return fitted.params, fitted.state


def train_with_rounding(net, params, state, digits, *, steps, rate, out):
    """Train a trained net for some more steps, with the rounding of the integer net.

    Returns:
        (`QuantizationAware`, its parameters, its buffers).
    """
    aware = QuantizationAware(net, calibrate(net, params, state, [digits.images[:400]]))
    _, buffers = jax.jit(aware.init)(jax.random.key(0))
    start = {"net": params}, {**buffers, "net": state}
    return aware, *train(aware, start, digits, steps=steps, rate=rate, out=out)


def accuracy(function, digits):
    """Return the share of the test images that a function from images to logits recognises, in percent."""
    logits = [np.asarray(function(digits.test_images[n : n + BATCH])) for n in range(0, len(digits.test_labels), BATCH)]
    return 100 * float((np.concatenate(logits).argmax(-1) == digits.test_labels).mean())
