"""Read and write files of named arrays.

This package does not depend on any model. The `state_dict` and `load_state_dict` of a model define the meaning of the
names.
"""

from funcnet.weights.errors import UnsafeFileError
from funcnet.weights.load_and_save import load, save

__all__ = ["UnsafeFileError", "load", "save"]
