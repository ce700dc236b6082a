"""The layers, losses and containers of torch.nn as descriptions. Most layers call a function of `funcnet.functional`,
and `funcnet.nn.core` contains the base class `Module`.
"""

import typing as _typing

from funcnet.functional.absent import refusal as _refusal
from funcnet.nn import functional, init, parameter, utils
from funcnet.nn.activation import GELU, GLU, LogSigmoid, Mish, Sigmoid, SiLU, Softplus, Softsign, Tanh, Tanhshrink
from funcnet.nn.adaptive import AdaptiveLogSoftmaxWithLoss
from funcnet.nn.adaptive_pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
)
from funcnet.nn.attention import MultiheadAttention
from funcnet.nn.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm
from funcnet.nn.channelshuffle import ChannelShuffle
from funcnet.nn.container import ModuleDict, ModuleList, Sequential
from funcnet.nn.conv import Conv1d, Conv2d, Conv3d
from funcnet.nn.conv_transpose import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from funcnet.nn.core.absent import ABSENT as _ABSENT
from funcnet.nn.core.abstract_run import dry_run, output_shape
from funcnet.nn.core.parameter import Buffer, Parameter
from funcnet.nn.core.pure_calls import remat
from funcnet.nn.distance import CosineSimilarity, PairwiseDistance
from funcnet.nn.dropout import AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout
from funcnet.nn.flatten import Flatten, Unflatten
from funcnet.nn.fold import Fold, Unfold
from funcnet.nn.fractional_pooling import FractionalMaxPool2d, FractionalMaxPool3d
from funcnet.nn.hard import Hardshrink, Hardsigmoid, Hardswish, Hardtanh, ReLU6, Softshrink
from funcnet.nn.inspection.capture import capture, capture_gradients
from funcnet.nn.inspection.checked import checked, checking_hooks
from funcnet.nn.inspection.hooks import Hooks, RemovableHandle
from funcnet.nn.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from funcnet.nn.lazy_conv import (
    LazyConv1d,
    LazyConv2d,
    LazyConv3d,
    LazyConvTranspose1d,
    LazyConvTranspose2d,
    LazyConvTranspose3d,
)
from funcnet.nn.lazy_norm import (
    LazyBatchNorm1d,
    LazyBatchNorm2d,
    LazyBatchNorm3d,
    LazyInstanceNorm1d,
    LazyInstanceNorm2d,
    LazyInstanceNorm3d,
)
from funcnet.nn.linear import Bilinear, Identity, LazyLinear, Linear
from funcnet.nn.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    CTCLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    LinearCrossEntropyLoss,
    LinearCrossEntropyOptions,
    MarginRankingLoss,
    MSELoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    NLLLoss,
    NLLLoss2d,
    PoissonNLLLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from funcnet.nn.lp_pooling import LPPool1d, LPPool2d, LPPool3d
from funcnet.nn.module.module import Module
from funcnet.nn.normalization import CrossMapLRN2d, GroupNorm, LayerNorm, LocalResponseNorm, RMSNorm
from funcnet.nn.padding import (
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
from funcnet.nn.parameter_container import ParameterDict, ParameterList
from funcnet.nn.pixelshuffle import PixelShuffle, PixelUnshuffle
from funcnet.nn.pooling import AvgPool1d, AvgPool2d, AvgPool3d, MaxPool1d, MaxPool2d, MaxPool3d
from funcnet.nn.relu import CELU, ELU, SELU, LeakyReLU, PReLU, ReLU, RReLU, Threshold
from funcnet.nn.repeat import Repeat
from funcnet.nn.rnn import GRU, LSTM, RNN, RNNBase
from funcnet.nn.rnn_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from funcnet.nn.softmax import LogSoftmax, Softmax, Softmax2d, Softmin
from funcnet.nn.sparse import Embedding, EmbeddingBag
from funcnet.nn.transformer import Transformer, TransformerDecoder, TransformerEncoder
from funcnet.nn.transformer_layer import TransformerDecoderLayer, TransformerEncoderLayer
from funcnet.nn.unpooling import MaxUnpool1d, MaxUnpool2d, MaxUnpool3d
from funcnet.nn.upsampling import Upsample, UpsamplingBilinear2d, UpsamplingNearest2d

if not _typing.TYPE_CHECKING:  # otherwise mypy would accept every name
    __getattr__ = _refusal("nn", __name__, _ABSENT)
