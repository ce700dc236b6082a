"""Check a saved position of a `DataLoader`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["check_position", "check_stream_position"]

AGAIN = "A position is only valid for the data and the order that it was saved with."


def check_position(state: Mapping[str, Any], expected: Mapping[str, Any], unit: str) -> None:
    """Check that a loader of a map-style dataset can continue from a saved position.

    Args:
        state: the saved position.
        expected: seed, length, order and dataset of the loader. The saved position must have the same values.
        unit: name of the entry that counts the position in the epoch, "examples" or "batches".

    Raises:
        ValueError: if an entry of `state` is missing or differs from `expected`, or the position is out of range.
        TypeError: if `state` is not a dict.
    """
    _check_entries(state, (*expected, "epoch", unit))
    _check_equal(state, expected)
    length = expected["length"]
    if not (_is_count(state["epoch"]) and _is_count(state[unit])) or (length is not None and state[unit] > length):
        raise ValueError(
            f"DataLoader: the saved position is out of range; expected an epoch and {unit} from 0"
            f"{'' if length is None else f' to {length}'}, got epoch {state['epoch']}, {unit} {state[unit]}."
        )


def check_stream_position(state: Mapping[str, Any], expected: Mapping[str, Any], workers: int) -> None:
    """Check that a loader of an iterable dataset can continue from a saved position.

    Raises:
        ValueError: if an entry of `state` is missing or differs from `expected`, or the number of workers differs.
        TypeError: if `state` is not a dict.
    """
    _check_entries(state, (*expected, "epoch", "turn", "workers"))
    _check_equal(state, expected)
    saved = state["workers"]
    if saved is not None and len(saved) != workers:
        raise ValueError(
            "DataLoader: the saved position was made with a different number of workers, and each worker reads its own "
            f"part of an iterable dataset; expected {workers} worker(s), got {len(saved)}. Pass "
            f"num_workers={len(saved)}."
        )


def _check_entries(state: Mapping[str, Any], names: tuple[str, ...]) -> None:
    if not isinstance(state, Mapping):
        raise TypeError(
            f"DataLoader: the saved position is not a dict; expected what state_dict() returned, got {state!r:.80}."
        )
    missing = [name for name in names if name not in state]
    if missing:
        raise ValueError(
            f"DataLoader: the saved position is incomplete; expected the entries {', '.join(names)}, got no "
            f"{', '.join(missing)}. Pass what state_dict() of a DataLoader returned."
        )


def _check_equal(state: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    for name, value in expected.items():
        if state[name] != value:
            raise ValueError(
                f"DataLoader: the saved position has a different {name}; expected {value}, got {state[name]}. {AGAIN}"
            )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0
