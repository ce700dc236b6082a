"""The functions of torch.nn.functional as pure functions of arrays, with the same names, arguments and defaults.

Norms, softmax and reductions are computed in at least float32, and the result is cast to the dtype of the input.
Functions that draw random numbers take a random key as the keyword-only argument `rng`. If the function of torch
changes an array in place, the function here returns the new array, as in `batch_norm(...) -> (y, running_mean,
running_var)`. If a floating-point array is required, an integer array raises a TypeError. Shapes that do not match
raise a ValueError with the expected shapes. Each family of functions, such as the convolutions, is in a separate file
of `funcnet/functional`. If torch/nn/modules has a file for the same family, both files have the same name.

Example:
    >>> import jax.numpy as jnp
    >>> from funcnet import functional as F
    >>> F.relu(F.linear(jnp.ones(2), jnp.array([[1.0, 2.0], [-1.0, 0.0]])))
    Array([3., 0.], dtype=float32)
"""

import typing as _typing

from funcnet.functional import absent as _absent
from funcnet.functional.activation import (
    gelu,
    glu,
    logsigmoid,
    mish,
    sigmoid,
    silu,
    softplus,
    softsign,
    tanh,
    tanhshrink,
)
from funcnet.functional.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from funcnet.functional.attention import (
    in_projection,
    in_projection_packed,
    merge_heads,
    scaled_dot_product_attention,
    split_heads,
)
from funcnet.functional.batchnorm import batch_norm
from funcnet.functional.channelshuffle import channel_shuffle, native_channel_shuffle
from funcnet.functional.conv import conv1d, conv2d, conv3d, conv_tbc
from funcnet.functional.conv_transpose import conv_transpose1d, conv_transpose2d, conv_transpose3d
from funcnet.functional.distance import cosine_similarity, pairwise_distance, pdist
from funcnet.functional.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from funcnet.functional.fold import fold, unfold
from funcnet.functional.fractional_pooling import fractional_max_pool2d, fractional_max_pool3d
from funcnet.functional.hard import hardshrink, hardsigmoid, hardswish, hardtanh, relu6, softshrink
from funcnet.functional.instancenorm import instance_norm
from funcnet.functional.linear import bilinear, linear
from funcnet.functional.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    cross_entropy,
    ctc_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    linear_cross_entropy,
    margin_ranking_loss,
    mse_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    nll_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from funcnet.functional.lp_pooling import lp_pool1d, lp_pool2d, lp_pool3d
from funcnet.functional.multi_head_attention import multi_head_attention_forward
from funcnet.functional.normalization import group_norm, layer_norm, local_response_norm, normalize, rms_norm
from funcnet.functional.padding import pad
from funcnet.functional.pixelshuffle import pixel_shuffle, pixel_unshuffle
from funcnet.functional.pooling import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from funcnet.functional.relu import celu, elu, leaky_relu, prelu, relu, rrelu, selu, threshold
from funcnet.functional.rnn import gru, lstm, rnn_relu, rnn_tanh
from funcnet.functional.rnn_cells import gru_cell, lstm_cell, rnn_relu_cell, rnn_tanh_cell
from funcnet.functional.softmax import gumbel_softmax, log_softmax, softmax, softmin
from funcnet.functional.sparse import embedding, embedding_bag, embedding_renorm, one_hot
from funcnet.functional.unpooling import max_unpool1d, max_unpool2d, max_unpool3d
from funcnet.functional.upsampling import interpolate, upsample, upsample_bilinear, upsample_nearest
from funcnet.functional.vision import affine_grid, grid_sample
from funcnet.operators.graph.recording import recorded as _recorded

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "embedding",
    "embedding_bag",
    "embedding_renorm",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gru",
    "gru_cell",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hinge_embedding_loss",
    "huber_loss",
    "in_projection",
    "in_projection_packed",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "lstm",
    "lstm_cell",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "merge_heads",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "native_channel_shuffle",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "rnn_relu",
    "rnn_relu_cell",
    "rnn_tanh",
    "rnn_tanh_cell",
    "rrelu",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "split_heads",
    "tanh",
    "tanhshrink",
    "threshold",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

# Calls of these names are recorded while `operators.graph.backward` builds a graph. Calls inside this folder are not.
globals().update({_name: _recorded(globals()[_name], is_beside=True) for _name in __all__})

if not _typing.TYPE_CHECKING:  # otherwise mypy would accept every name
    __getattr__ = _absent.refusal("F", __name__, _absent.ABSENT)
