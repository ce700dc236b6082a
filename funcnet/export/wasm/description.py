"""The description that a host needs to call a module: names, shapes, dtypes and addresses. The description is JSON in a
custom section of the module.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from funcnet.export.wasm.binary import read_custom

__all__ = ["SECTION", "ArrayPlace", "EntryPoint", "ModuleDescription", "WeightsPlace"]

SECTION = "funcnet"


@dataclass(frozen=True)
class ArrayPlace:
    """An input or an output of an exported function. The elements of the array are at `address` in the memory, in C
    order.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    address: int


@dataclass(frozen=True)
class EntryPoint:
    """An exported function of the model: `run`, or one for each length, such as `run_16`."""

    run: str
    length: int | None
    inputs: tuple[ArrayPlace, ...]
    outputs: tuple[ArrayPlace, ...]


@dataclass(frozen=True)
class WeightsPlace:
    """Where the weights come from ("inside", "beside" or "module"), and where they must be in the memory."""

    where: str
    address: int
    size: int
    sha256: str


@dataclass(frozen=True)
class ModuleDescription:
    """The description of a module, which its custom section "funcnet" contains.

    Args:
        version: version of the format, which is 1.
        memory: "exported", or "module.name" of the import if the memory is imported.
        pages: size of the memory in pages of 64 KiB.
        weights: where the weights come from and where they are stored.
        entries: the exported functions of the model.
    """

    version: int
    memory: str
    pages: int
    weights: WeightsPlace
    entries: tuple[EntryPoint, ...]

    def to_json(self) -> bytes:
        """Return the description as JSON, for the custom section of the module."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def of(cls, module: bytes) -> "ModuleDescription":
        """Read the description of a module.

        Raises:
            ValueError: if the bytes are not a module, or `to_wasm` did not write the module.
        """
        raw = json.loads(read_custom(module, SECTION))
        if raw.get("version") != 1:
            raise ValueError(f"wasm: the description is of another version; expected 1, got {raw.get('version')!r}.")
        entries = tuple(
            EntryPoint(e["run"], e["length"], _places(e["inputs"]), _places(e["outputs"])) for e in raw["entries"]
        )
        return cls(1, raw["memory"], raw["pages"], WeightsPlace(**raw["weights"]), entries)


def _places(raw: Sequence[dict[str, Any]]) -> tuple[ArrayPlace, ...]:
    return tuple(ArrayPlace(r["name"], tuple(r["shape"]), r["dtype"], r["address"]) for r in raw)
