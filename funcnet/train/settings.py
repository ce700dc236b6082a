"""The settings that every command that trains has, in groups; see `funcnet.settings`."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import jax

from funcnet.parallel import AXIS, Layout, make_layout, parse_mesh, use_virtual_cpu_devices
from funcnet.settings import Range
from funcnet.train.precision import BFLOAT16, FLOAT32, Precision

__all__ = ["CheckpointSettings", "DeviceSettings", "LoopSettings", "RunSettings", "open_layout"]

MOST_DEVICES = 4096  # more virtual ones than this take the machine down with them


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """Where a run lies, and its seed."""

    out: Path
    """Directory of the run."""
    resume: bool = False
    """Continue the run in --out. Settings that are left out stay as they were; other values are refused, except for
    --save-every and --keep."""
    seed: Annotated[int, Range(0, 2**62)] = 0
    """Seed of all random numbers."""


@dataclasses.dataclass(frozen=True)
class LoopSettings:
    """How large an update is, and how often metrics are logged."""

    batch_size: Annotated[int, Range(1)] = 32
    """Rows per update, over all devices and micro-batches."""
    accumulate: Annotated[int, Range(1)] = 1
    """Micro-batches per update: less memory, the same gradients."""
    log_every: Annotated[int, Range(1)] = 20
    """Steps from one line of metrics to the next."""


@dataclasses.dataclass(frozen=True)
class DeviceSettings:
    """On which devices a run computes, and how precisely."""

    devices: Annotated[int, Range(1, MOST_DEVICES)] | None = None
    """Number of devices, short for --mesh data=N; on a CPU they are virtual. The default is all GPUs or TPUs, or one
    CPU."""
    mesh: str | None = None
    """Sizes of the mesh's axes, such as data=8; -1 takes the devices that are left."""
    parallel: Literal["jit", "shard_map", "pmap"] = "jit"
    """How the step runs on the devices."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Type of matrix products; parameters and sums are float32 either way."""

    @property
    def policy(self) -> Precision:
        """The precision as the step takes it."""
        return BFLOAT16 if self.precision == "bfloat16" else FLOAT32


@dataclasses.dataclass(frozen=True)
class CheckpointSettings:
    """When a run evaluates and saves; a resumed run may change these."""

    evaluate_every: Annotated[int, Range(0, note="0: only at the end")] = 250
    """Steps from one evaluation to the next; 0: only at the end."""
    save_every: Annotated[int, Range(0, note="0: only at the end")] = 250
    """Steps from one checkpoint to the next; 0: only at the end."""
    keep: Annotated[int, Range(1)] = 2
    """Number of checkpoints to keep, besides the best one."""


def open_layout(settings: DeviceSettings, where: str) -> Layout:
    """The layout of a run: a data-parallel mesh.

    Args:
        settings: the device group of a command.
        where: the command, for messages.

    Raises:
        ValueError: both --devices and --mesh; more devices than there are; a mesh that does not fit.

    Example:
        >>> open_layout(DeviceSettings(devices=4, parallel="shard_map"), "pretrain").batch_parts
        4
    """
    if settings.devices is not None and settings.mesh is not None:
        raise ValueError(
            f"{where}: --devices {settings.devices} together with --mesh {settings.mesh}; expected one of them, got "
            f"both. --devices {settings.devices} is short for --mesh {AXIS}={settings.devices}."
        )
    sizes = None if settings.devices is None else {AXIS: settings.devices}
    if settings.mesh is not None:
        sizes = parse_mesh(settings.mesh)
    if sizes is not None and -1 not in sizes.values():
        count = 1
        for size in sizes.values():
            count *= size
        use_virtual_cpu_devices(min(count, MOST_DEVICES))
    if sizes is None and jax.default_backend() == "cpu":
        sizes = {AXIS: 1}
    return make_layout(sizes, kind=settings.parallel)
