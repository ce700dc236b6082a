"""Files <-> named arrays. Knows no model: what the names mean is the model's `state_dict` and `load_state_dict`."""

from funcnet.weights.errors import UnsafeFileError
from funcnet.weights.files import load, save

__all__ = ["UnsafeFileError", "load", "save"]
