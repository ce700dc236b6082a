"""Bridges to flax: use funcnet modules as `flax.nnx` or `flax.linen` modules, and flax modules in funcnet models."""

from funcnet.bridges.from_linen import FromLinen
from funcnet.bridges.from_nnx import FromNNX
from funcnet.bridges.to_linen import ToLinen
from funcnet.bridges.to_nnx import FrozenParam, ToNNX

__all__ = ["FromLinen", "FromNNX", "FrozenParam", "ToLinen", "ToNNX"]
