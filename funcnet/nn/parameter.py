"""torch's path to `Parameter` and `Buffer`: `from funcnet.nn.parameter import Parameter`."""

from funcnet.nn.core.parameter import Buffer, Parameter

__all__ = ["Buffer", "Parameter"]
