"""A value that the processes of a run propose to each other."""

import contextlib
import json
from typing import Any

import jax

from funcnet.parallel.coordinator import coordinator_client, exchange_numbers

__all__ = ["Proposal"]


class Proposal:
    """A value that any process may propose. All processes find the value that was proposed first. Every process creates
    its proposals in the same order.

    Example:
        >>> last_step = Proposal()
        >>> last_step.find()
        >>> last_step.make(12)
        >>> last_step.make(13)
        >>> last_step.find()
        12
    """

    def __init__(self) -> None:
        self._name = f"funcnet/proposal/{next(exchange_numbers)}"
        self._own: list[Any] = []  # the proposals of a run of one process

    def make(self, value: object) -> None:
        """Propose a JSON value. The call has no effect if a process has already proposed a value."""
        client = coordinator_client()
        if client is None:
            self._own.append(value)
            return
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            client.key_value_set(self._name, json.dumps(value))

    def find(self) -> Any:
        """Return the value that was proposed first, or None if there is no proposal yet."""
        client = coordinator_client()
        if client is None:
            return self._own[0] if self._own else None
        try:
            return json.loads(client.key_value_try_get(self._name))
        except jax.errors.JaxRuntimeError:
            return None
