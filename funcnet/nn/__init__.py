"""torch.nn as descriptions: each module's mathematics is in `funcnet.functional`, its core in `module.py`."""

from funcnet.nn import init
from funcnet.nn.activation import GELU, LogSoftmax, ReLU, ReLU6, Sigmoid, SiLU, Softmax, Tanh
from funcnet.nn.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, SyncBatchNorm
from funcnet.nn.capture import capture, capture_gradients
from funcnet.nn.container import ModuleDict, ModuleList, Sequential
from funcnet.nn.conv import Conv1d, Conv2d, Conv3d
from funcnet.nn.dropout import AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout
from funcnet.nn.flatten import Flatten
from funcnet.nn.hooks import Hooks, RemovableHandle
from funcnet.nn.linear import Bilinear, Identity, LazyLinear, Linear
from funcnet.nn.loss import BCEWithLogitsLoss, CrossEntropyLoss, MSELoss, NLLLoss
from funcnet.nn.module import Module
from funcnet.nn.normalization import GroupNorm, LayerNorm, RMSNorm
from funcnet.nn.parameter import Buffer, Parameter
from funcnet.nn.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from funcnet.nn.repeat import Repeat, remat
from funcnet.nn.sparse import Embedding
