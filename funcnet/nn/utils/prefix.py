"""Removal of a wrapper's prefix from the names in a state_dict."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def consume_prefix_in_state_dict_if_present(state_dict: Mapping[str, Any], prefix: str) -> "OrderedDict[str, Any]":
    """Return the state_dict of the wrapped module, with `prefix` removed from the names that begin with it.

    Args:
        state_dict: {name: array}. The prefix is also removed from the names in `state_dict._metadata`.
        prefix: the prefix to remove, such as "module." for DataParallel or "_orig_mod." for torch.compile.

    Returns:
        a new dict. In torch, the function changes `state_dict` in place.

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
