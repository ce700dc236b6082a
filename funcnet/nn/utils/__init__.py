"""The counterpart of torch.nn.utils: functions for layers and their arrays. `nn.utils.rnn` packs and pads sequences."""

import typing as _typing

from funcnet.functional.absent import refusal as _refusal
from funcnet.nn.utils import parametrizations, parametrize, prune, rnn
from funcnet.nn.utils.absent import ABSENT as _ABSENT
from funcnet.nn.utils.clip_grad import clip_grad_norm, clip_grad_value, clip_grads_with_norm, get_total_norm
from funcnet.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from funcnet.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from funcnet.nn.utils.prefix import consume_prefix_in_state_dict_if_present
from funcnet.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from funcnet.nn.utils.update_bn import update_bn
from funcnet.nn.utils.weight_norm import remove_weight_norm, weight_norm

if not _typing.TYPE_CHECKING:  # otherwise mypy would accept every name
    __getattr__ = _refusal("nn.utils", __name__, _ABSENT)
