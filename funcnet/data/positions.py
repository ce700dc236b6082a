"""Check a saved position of a `DataLoader`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["check_position", "states_after", "stream_position"]

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


def stream_position(
    state: Mapping[str, Any], expected: Mapping[str, Any], workers: int, depends: bool, dataset: object
) -> dict[str, Any]:
    """Return the entries "epoch", "turn" and "workers" of a saved position of an iterable dataset, for a loader with
    `workers` workers.

    A position at the start or at the end of an epoch is valid for any number of workers, unless the next epoch depends
    on the states of the dataset at the end of this one (`depends`), these differ from worker to worker, and the dataset
    has no `set_epoch`.

    Raises:
        ValueError: if an entry of `state` is missing, out of range or differs from `expected`, or the number of workers
            differs inside an epoch.
        TypeError: if `state` is not a dict.
    """
    _check_entries(state, (*expected, "epoch", "turn", "workers"))
    _check_equal(state, expected)
    epoch, turn, saved = state["epoch"], state["turn"], state["workers"]
    is_list = saved is None or (isinstance(saved, list | tuple) and len(saved) > 0 and all(map(_is_worker, saved)))
    if not (_is_count(epoch) and is_list and _is_count(turn) and turn < len(saved or [None])):
        raise ValueError(
            "DataLoader: the saved position is out of range; expected an epoch and a turn from 0, and the position of "
            f"each worker, got epoch {epoch!r:.20}, turn {turn!r:.20}, workers {saved!r:.60}."
        )
    if saved is None or not any(saved):  # the start of the epoch
        return {"epoch": epoch, "turn": 0, "workers": None}
    ended = [worker is not None and ("after" in worker or worker.get("ended", False)) for worker in saved]
    if not all(ended):
        _check_workers(saved, workers, "inside an epoch each worker reads its own part of an iterable dataset")
        return {"epoch": epoch, "turn": turn, "workers": list(saved)}
    depends = depends and (len(saved) == workers or not hasattr(dataset, "set_epoch"))
    ends = [worker.get("after", worker.get("dataset")) if depends else None for worker in saved]
    if any(end != ends[0] for end in ends):
        _check_workers(saved, workers, "the next epoch depends on the state of each worker's dataset")
    elif len(saved) != workers:
        ends = ends[:1] * workers
    if "after" in saved[0]:
        after = [{"items": 0, "after": end} for end in ends]
        return {"epoch": epoch, "turn": 0, "workers": after if any(ends) else None}
    total = sum(worker["items"] for worker in saved)
    items = [worker["items"] for worker in saved] if len(saved) == workers else [total] + [0] * (workers - 1)
    at_end = [{"items": count, "ended": True} for count in items]
    at_end = [one if end is None else {**one, "dataset": end} for one, end in zip(at_end, ends, strict=True)]
    return {"epoch": epoch, "turn": 0, "workers": at_end}


def states_after(states: Sequence[Any]) -> list[Any] | None:
    """Return the states of the workers at the start of the next pass, from those at the end of this one.

    Example:
        >>> states_after([{"items": 3, "ended": True, "dataset": {"row": 0, "epoch": 1}}])
        [{'items': 0, 'after': {'row': 0, 'epoch': 1}}]
    """
    if not any("dataset" in (state or {}) for state in states):
        return None
    return [{"items": 0, "after": state["dataset"]} for state in states]


def _check_workers(saved: Sequence[Any], workers: int, why: str) -> None:
    if len(saved) != workers:
        raise ValueError(
            f"DataLoader: the saved position was made with a different number of workers, and {why}; expected "
            f"{workers} worker(s), got {len(saved)}. Pass num_workers={len(saved)}, or save at the end of an epoch."
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


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def _is_worker(value: object) -> bool:
    """Return whether a value is the saved position of a worker. It is None before the first batch of the worker."""
    return value is None or (isinstance(value, Mapping) and _is_count(value.get("items")))
