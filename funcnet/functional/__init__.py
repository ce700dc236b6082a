"""torch.nn.functional as pure functions: its names, argument names, order and defaults; arrays in, arrays out.

Norms, softmax and reductions are computed in at least float32, and results have the dtype of their input. Random
functions take a keyword-only `rng`; what torch changes in place comes back as a value
(`batch_norm(...) -> (y, running_mean, running_var)`). Integers where floats are needed are a TypeError, shapes that do
not fit a ValueError that says what was expected. One file a family, named as in torch/nn/modules.

Example:
    >>> import jax.numpy as jnp
    >>> from funcnet import functional as F
    >>> F.relu(F.linear(jnp.ones(2), jnp.array([[1.0, 2.0], [-1.0, 0.0]])))
    Array([3., 0.], dtype=float32)
"""

from funcnet.functional.activation import gelu, log_softmax, relu, relu6, sigmoid, silu, softmax, tanh
from funcnet.functional.batchnorm import batch_norm
from funcnet.functional.conv import conv1d, conv2d, conv3d
from funcnet.functional.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from funcnet.functional.linear import bilinear, linear
from funcnet.functional.loss import binary_cross_entropy_with_logits, cross_entropy, mse_loss, nll_loss
from funcnet.functional.normalization import group_norm, layer_norm, rms_norm
from funcnet.functional.padding import pad
from funcnet.functional.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from funcnet.functional.sparse import embedding, embedding_renorm, one_hot

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy_with_logits",
    "conv1d",
    "conv2d",
    "conv3d",
    "cross_entropy",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "embedding",
    "embedding_renorm",
    "feature_alpha_dropout",
    "gelu",
    "group_norm",
    "layer_norm",
    "linear",
    "log_softmax",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "pad",
    "relu",
    "relu6",
    "rms_norm",
    "sigmoid",
    "silu",
    "softmax",
    "tanh",
]
