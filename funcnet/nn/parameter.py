"""`Parameter` and `Buffer` at torch's import path: `from funcnet.nn.parameter import Parameter`."""

from funcnet.nn.core.parameter import Buffer, Parameter

__all__ = ["Buffer", "Parameter"]
