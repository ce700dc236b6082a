"""Names in a state_dict that a wrapper has put its own in front of."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def consume_prefix_in_state_dict_if_present(state_dict: Mapping[str, Any], prefix: str) -> "OrderedDict[str, Any]":
    """The state_dict of what was wrapped: names that begin with `prefix` lose it, the others stay.

    Args:
        state_dict: {name: array}; `_metadata`, if it has that, loses the prefix too.
        prefix: "module." of DataParallel, "_orig_mod." of torch.compile.

    Returns:
        A new dict; torch changes the one that it is given.

    Example:
        >>> dict(consume_prefix_in_state_dict_if_present({"module.weight": 1, "step": 2}, "module."))
        {'weight': 1, 'step': 2}

    Reference: torch.nn.modules.utils.consume_prefix_in_state_dict_if_present.
    """
    out = OrderedDict((name.removeprefix(prefix), value) for name, value in state_dict.items())
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        wrapper = prefix.removesuffix(".")
        stripped = ((name.removeprefix(prefix), value) for name, value in metadata.items() if name != wrapper)
        root = {"": metadata[wrapper]} if wrapper in metadata else {}
        out._metadata = OrderedDict({**dict(stripped), **root})  # type: ignore[attr-defined]
    return out
