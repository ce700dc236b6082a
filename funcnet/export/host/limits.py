"""Limits on the memory and the time that linked modules may use."""

import dataclasses
import math

__all__ = ["Limits"]


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of linked modules. A limit of None restricts nothing.

    Args:
        memory: largest size of each memory, in bytes. `link` refuses a module whose memory is larger from the start. If
            a memory would grow beyond the limit, `memory.grow` returns -1.
        fuel: approximate number of instructions that one call from the host may run. Counting the instructions slows
            the code down.
        seconds: time that one call from the host may take. A host function that is running at the end of this time is
            not interrupted.

    Raises:
        ValueError: if a limit is not a positive, finite number.

    Example:
        >>> Limits(memory=1 << 20, seconds=0.5)
        Limits(memory=1048576, fuel=None, seconds=0.5)
    """

    memory: int | None = None
    fuel: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"Limits: {name} is wrong; expected a positive number or None, got {value}.")
