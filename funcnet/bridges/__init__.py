"""Bridges to flax: a funcnet module as a `flax.nnx` or `flax.linen` module, and theirs inside a funcnet model."""

from funcnet.bridges.from_linen import FromLinen
from funcnet.bridges.from_nnx import FromNNX
from funcnet.bridges.to_linen import ToLinen
from funcnet.bridges.to_nnx import FrozenParam, ToNNX

__all__ = ["FromLinen", "FromNNX", "FrozenParam", "ToLinen", "ToNNX"]
