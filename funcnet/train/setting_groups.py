"""Groups of settings that every training command has; see `funcnet.settings`."""

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import jax
import tyro

from funcnet.arguments import expect
from funcnet.parallel import (
    AXIS,
    Layout,
    join_processes,
    make_layout,
    parse_mesh,
    parse_rules,
    process_count,
    use_virtual_cpu_devices,
)
from funcnet.parallel.checks import check_axes
from funcnet.settings import Range, with_helps
from funcnet.train.precision import BFLOAT16, FLOAT32, Precision

__all__ = ["CheckpointSettings", "DeviceSettings", "LoopSettings", "RunSettings", "SaveEvery", "open_layout"]

SaveEvery = Annotated[int, Range(0, note="0: only at the end")]
"""The type of --save-every, the number of steps between two checkpoints; see `Cadence`."""
MOST_DEVICES = 4096  # more virtual devices can exhaust the memory of the machine


@with_helps
@dataclasses.dataclass(frozen=True)
class RunSettings:
    """The output directory and the seed of a run."""

    out: Path
    """Directory for the files of the run."""
    resume: bool = False
    """Continue the run in --out. Settings that you omit keep their values. You can change only --save-every, --keep,
    --devices, --mesh, --shard, --parallel, --rewind-above and --nan-trace. On other devices, the results differ by
    rounding errors."""
    seed: Annotated[int, Range(0, 2**62)] = 0
    """Seed of all random numbers."""


@with_helps
@dataclasses.dataclass(frozen=True)
class LoopSettings:
    """The size of an update, and how often metrics are logged."""

    batch_size: Annotated[int, Range(1)] = 32
    """Number of rows per update, over all devices and micro-batches."""
    accumulate: Annotated[int, Range(1)] = 1
    """Number of micro-batches per update. More micro-batches need less memory and give the same gradients."""
    log_every: Annotated[int, Range(1)] = 20
    """Number of steps between two logged lines of metrics."""
    nan_trace: bool = False
    """Record for each layer whether its output and its gradient are finite. If a step is skipped because a value is not
    finite, the log names the first layer with such a value. Steps take longer."""


@with_helps
@dataclasses.dataclass(frozen=True)
class DeviceSettings:
    """The devices and the precision of a run."""

    devices: Annotated[int, Range(1, MOST_DEVICES)] | None = None
    """Number of devices. --devices N is short for --mesh data=N. If N is more than 1 on a CPU, the devices are virtual.
    The default is all GPUs or TPUs, or one CPU."""
    mesh: str | None = None
    """Sizes of the axes of the device mesh, such as data=2,fsdp=4. The axes are data (each device trains on a part of
    the batch), fsdp (in addition, each device stores only a part of the parameters), tensor (each device computes a
    part of each layer) and context (each device holds a part of each sequence). A size of -1 uses all remaining
    devices."""
    shard: tuple[str, ...] = ()
    """Sharding rules that override those of the model, such as "**.dense.weight=fsdp,-". A rule is
    PATTERN=AXES. PATTERN matches names of parameters. AXES has one entry per dimension: a mesh axis, or "-" for a
    dimension that is not sharded."""
    coordinator: Annotated[str, tyro.conf.arg(metavar="HOST:PORT")] | None = None
    """Address of process 0, for a run of several processes. Start the same command in each process, each with its own
    value of --process-id. Under Slurm and Open MPI, and in a JobSet (scripts/launch), --coordinator, --num-processes
    and --process-id are detected automatically."""
    num_processes: Annotated[int, tyro.conf.arg(metavar="N")] | None = None
    """Number of processes of the run."""
    process_id: Annotated[int, tyro.conf.arg(metavar="I")] | None = None
    """Number of this process, from 0 to --num-processes - 1."""
    parallel: Literal["jit", "shard_map", "pmap"] = "jit"
    """JAX transformation that distributes a step over the devices."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Floating-point type used for matrix multiplications. Parameters and sums are always float32."""

    @property
    def policy(self) -> Precision:
        """The precision policy for the step."""
        return BFLOAT16 if self.precision == "bfloat16" else FLOAT32


@with_helps
@dataclasses.dataclass(frozen=True)
class CheckpointSettings:
    """When a run evaluates and saves checkpoints."""

    evaluate_every: Annotated[int, Range(0, note="0: only at the end")] = 250
    """Number of steps between two evaluations. With 0, the model is evaluated only at the end."""
    save_every: SaveEvery = 250
    """Number of steps between two checkpoints. With 0, a checkpoint is saved only at the end."""
    keep: Annotated[int, Range(1)] = 2
    """Number of recent checkpoints to keep, in addition to the best one."""
    rewind_above: Annotated[float, Range(0, note="0: never")] = 0.0
    """If the loss of a step exceeds this multiple of its moving average, the run goes back to an earlier checkpoint and
    continues with the batches after that step. With 0, the run never goes back."""


@contextlib.contextmanager
def _naming(where: str, name: str, value: object) -> Iterator[None]:
    """Begin the message of an error with the setting that is wrong."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if value:
            error.args = (f"{where}: {name} {value}: {error}",)
        raise


def open_layout(settings: DeviceSettings, where: str) -> Layout:
    """Return the layout of a run, without the sharding rules of its net.

    Args:
        settings: the device settings of a command.
        where: the name of the command, for error messages.

    Returns:
        The layout; see `make_layout`.

    Raises:
        ValueError: if --devices and --mesh are both given, if the mesh does not fit the devices, or if a rule in
            --shard is not valid. The error is also raised if the processes of the run cannot join, or if a run of
            several processes has a mesh that does not use all devices.

    Example:
        >>> open_layout(DeviceSettings(devices=4, parallel="shard_map"), "pretrain").batch_parts
        4
    """
    expect(isinstance(settings, DeviceSettings), where, "device", "DeviceSettings", settings)
    if settings.devices is not None and settings.mesh is not None:
        raise ValueError(
            f"{where}: --devices {settings.devices} and --mesh {settings.mesh} are both given; expected one of them, "
            f"got both. (--devices {settings.devices} is short for --mesh {AXIS}={settings.devices}.)"
        )
    join_processes(settings.coordinator, settings.num_processes, settings.process_id, where=where)
    with _naming(where, "--shard", settings.shard):
        rules = parse_rules(settings.shard)
    name, value = ("--mesh", settings.mesh) if settings.devices is None else ("--devices", settings.devices)
    with _naming(where, name, value):
        sizes = None if settings.devices is None else {AXIS: settings.devices}
        if settings.mesh is not None:
            sizes = parse_mesh(settings.mesh)
        others = [axis for axis, size in (sizes or {}).items() if axis != AXIS and size != 1]
        if settings.parallel != "jit" and (others or rules):
            raise ValueError(
                f"--parallel {settings.parallel} shards only batches; expected a mesh with the axis {AXIS} alone, and "
                f"no --shard, got {', '.join(others or rules)}. Use --parallel jit, which is the default."
            )
        check_axes(sizes or {}, rules)
        if sizes is not None and -1 not in sizes.values():
            use_virtual_cpu_devices(-(-min(math.prod(sizes.values()), MOST_DEVICES) // process_count()))
        if sizes is None and jax.default_backend() == "cpu" and process_count() == 1:
            sizes = {AXIS: 1}
        layout = make_layout(sizes, kind=settings.parallel, rules=rules)
    if process_count() > 1 and layout.mesh.size != jax.device_count():
        raise ValueError(
            f"{where}: the mesh does not use all devices of the {process_count()} processes; expected "
            f"{jax.device_count()} devices, got {layout}."
        )
    return layout
