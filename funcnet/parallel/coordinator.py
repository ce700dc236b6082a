"""JAX's connection of this process to the coordinator of a run, and the numbers of the exchanges over it."""

import itertools
from typing import Any

__all__ = ["coordinator_client", "exchange_numbers", "process_state"]

exchange_numbers = itertools.count()  # equal in all processes, which make the same calls in the same order


def process_state() -> Any:
    """Return JAX's record of the processes. This record is not part of JAX's public API; orbax uses it in the same way.
    JAX's public functions would start the devices, which must not happen before the number of devices is set.

    Example:
        >>> process_state().process_id  # the only process of a run
        0
    """
    from jax._src import distributed

    return distributed.global_state


def coordinator_client() -> Any:
    """Return the connection to the coordinator, or None in a run of one process.

    Example:
        >>> coordinator_client() is None
        True
    """
    return process_state().client
