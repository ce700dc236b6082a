"""The constants that choose torch's attention kernel. XLA chooses its kernels without such constants, so each constant
becomes a string.
"""

from funcnet.porting.rule_engine.rule import rule

__all__ = ["ROWS"]

_BACKENDS = ("ERROR", "MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "OVERRIDEABLE")

ROWS = tuple(rule(f"torch.nn.attention.SDPBackend.{name}", repr(name), result="str") for name in _BACKENDS)
