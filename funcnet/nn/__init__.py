"""torch.nn as descriptions: each module's mathematics is in `funcnet.functional`, its core in `module.py`."""

from funcnet.nn import init
from funcnet.nn.container import ModuleDict, ModuleList, Sequential
from funcnet.nn.linear import Identity, Linear
from funcnet.nn.module import Module
from funcnet.nn.parameter import Buffer, Parameter
from funcnet.nn.repeat import Repeat, remat
