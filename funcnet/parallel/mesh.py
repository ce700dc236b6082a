"""The devices of a run, and their mesh, which is an array of devices with named axes."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from funcnet.arguments import expect, integer
from funcnet.nn.module.sharding import CONTEXT, FSDP, TENSOR
from funcnet.nn.module.sharding import DATA as AXIS

__all__ = [
    "AXIS",
    "CONTEXT",
    "FSDP",
    "TENSOR",
    "Device",
    "find_device",
    "find_devices",
    "make_mesh",
    "parse_mesh",
    "select_devices",
    "use_virtual_cpu_devices",
]

Device: TypeAlias = jax.Device | int


def use_virtual_cpu_devices(count: int) -> None:
    """Make the CPU appear as `count` devices. Call this function before JAX makes an array or lists its devices.

    Each virtual device has its own memory and its own share of the work, so a step that is correct on 8 virtual devices
    is correct on 8 GPUs. If JAX finds a GPU or TPU, that device type remains the default backend.

    Args:
        count: number of devices, at least 1.

    Raises:
        TypeError: if `count` is not an integer.
        ValueError: if `count` is below 1, or JAX has already started with fewer devices.

    Example:
        >>> use_virtual_cpu_devices(8)  # does nothing here, because the tests start with eight
    """
    integer("parallel.use_virtual_cpu_devices", "count", count, 1)
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return  # JAX accepts only one of the two settings; select_devices checks the number
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError as error:  # JAX has already started
        found = len(jax.devices("cpu"))
        if found < count:
            raise ValueError(
                f"parallel.use_virtual_cpu_devices: JAX has already started; expected {count} CPU devices, got "
                f"{found}. Call this function before the first array is made, or set the environment variable "
                f"XLA_FLAGS=--xla_force_host_platform_device_count={count}."
            ) from error


def select_devices(count: int | None = None) -> list[jax.Device]:
    """Return the first `count` devices of JAX's default backend.

    Args:
        count: number of devices. None means all devices.

    Returns:
        A list of `jax.Device`.

    Raises:
        TypeError: if `count` is not an integer.
        ValueError: if `count` is below 1, or larger than the number of devices.

    Example:
        >>> select_devices(1) == jax.devices()[:1]
        True
    """
    found = jax.devices()
    if count is None:
        return list(found)
    integer("parallel.select_devices", "count", count)
    if not 1 <= count <= len(found):
        kind = found[0].platform.upper()
        advice = (
            "Call parallel.use_virtual_cpu_devices before JAX starts, or use fewer devices."
            if kind == "CPU"
            else "Use fewer devices, or make more of them visible (CUDA_VISIBLE_DEVICES)."
        )
        raise ValueError(
            f"parallel.select_devices: the number of {kind} devices is out of range; expected 1 to {len(found)}, got "
            f"{count}. {advice}"
        )
    return list(found[:count])


def find_devices(given: Sequence[Device], where: str) -> list[jax.Device]:
    """Return devices of this process, which are given as devices or as numbers.

    Args:
        given: devices, or their numbers in `jax.local_devices()`.
        where: prefix for error messages, such as the name of the caller.

    Raises:
        ValueError: if `given` is empty, or a device does not exist in this process.
        TypeError: if `given` is not a sequence.

    Example:
        >>> find_devices([0, jax.devices()[2]], where="example")
        [CpuDevice(id=0), CpuDevice(id=2)]
    """
    if not isinstance(given, Sequence):
        raise TypeError(
            f"{where}: devices has the wrong type; expected a list of devices or of their numbers, got {given!r}."
        )
    if not given:
        raise ValueError(f"{where}: there are no devices; expected at least one, got none.")
    return [find_device(one, where) for one in given]


def find_device(given: Device, where: str) -> jax.Device:
    """Return a device of this process, which is given as a device or as its number in `jax.local_devices()`.

    Args:
        given: the device, or its number.
        where: prefix for error messages, such as the name of the caller.

    Raises:
        ValueError: if the device does not exist in this process.

    Example:
        >>> find_device(3, where="example")
        CpuDevice(id=3)
    """
    local = jax.local_devices()
    if isinstance(given, jax.Device) and given.process_index == jax.process_index():
        return given
    if isinstance(given, int | np.integer) and 0 <= given < len(local):
        return local[given]
    raise ValueError(
        f"{where}: unknown device; expected a jax.Device of this process or a number from 0 to {len(local) - 1}, got "
        f"{given!r}."
    )


def parse_mesh(text: str) -> dict[str, int]:
    """Parse the axis sizes of a mesh, written as on the command line.

    Args:
        text: axes and sizes, such as "data=4,tensor=2". A size of -1 means all remaining devices.

    Returns:
        A dict {axis: size}, in the order of the text.

    Raises:
        TypeError: if `text` is not a string.
        ValueError: if the text is not of this form, or an axis occurs twice.

    Example:
        >>> parse_mesh("data=-1,tensor=2")
        {'data': -1, 'tensor': 2}
    """
    expect(isinstance(text, str), "parallel.parse_mesh", "text", "a mesh such as 'data=4,tensor=2'", text)
    found: dict[str, int] = {}
    for part in text.split(","):
        name, equals, size = (one.strip() for one in part.partition("="))
        if not equals or not name.isidentifier() or not re.fullmatch(r"-1|[1-9]\d*", size) or name in found:
            raise ValueError(
                f"parallel.parse_mesh: {text!r} is not a mesh; expected axes with sizes, such as data=8 or "
                f"data=-1,tensor=2, got {part.strip()!r}."
            )
        found[name] = int(size)
    return found


def make_mesh(sizes: Mapping[str, int] | None = None) -> Mesh:
    """Make a mesh of the first devices.

    The axes have the type Auto. Under `jit`, the compiler then chooses the shardings of intermediate values, so a model
    written for one device runs unchanged. By default, `jax.make_mesh` makes axes of type Explicit. With these axes, the
    sharding is part of the type of every array, and JAX raises an error for an operation whose result has an ambiguous
    sharding. The layers of this package also work with a batch that is sharded along an Explicit axis, inside
    `jax.set_mesh(mesh)`.

    Args:
        sizes: {axis: size}. One size may be -1, which means all remaining devices. None puts all devices on the axis
            `data`.

    Returns:
        A `jax.sharding.Mesh`.

    Raises:
        TypeError: if `sizes` is not a dict of names and integers.
        ValueError: if there is no axis, if the mesh needs more devices than exist, if a size is neither positive nor
            -1, if more than one size is -1, or if the other sizes do not divide the number of devices.

    Example:
        >>> dict(make_mesh({"data": -1, "model": 2}).shape)
        {'data': 4, 'model': 2}
    """
    sizes = _checked(sizes)
    known = math.prod(size for size in sizes.values() if size != -1)
    open_axes = [axis for axis, size in sizes.items() if size == -1]
    if open_axes:
        count = len(select_devices())
        if len(open_axes) > 1 or count % known:
            raise ValueError(
                f"parallel.make_mesh: the sizes do not fit the devices; expected at most one -1, and other sizes that "
                f"divide the {count} devices, got {', '.join(f'{axis}={size}' for axis, size in sizes.items())}."
            )
        sizes[open_axes[0]] = count // known
    chosen = select_devices(math.prod(sizes.values()))
    return Mesh(np.array(chosen).reshape(tuple(sizes.values())), tuple(sizes), axis_types=(AxisType.Auto,) * len(sizes))


def _checked(sizes: Mapping[str, int] | None) -> dict[str, int]:
    """Return the sizes of the mesh axes as a dict of ints. Raise the errors of `make_mesh`."""
    where = "parallel.make_mesh"
    if sizes is None:
        return {AXIS: -1}
    advice = "Pass its sizes, dict(mesh.shape)." if isinstance(sizes, Mesh) else ""
    is_dict = isinstance(sizes, Mapping) and all(isinstance(axis, str) for axis in sizes)
    expect(is_dict, where, "mesh", "a dict {axis: size}, such as {'data': 8}", sizes, advice)
    if not sizes:
        raise ValueError(f"{where}: mesh has no axis; expected at least one, such as {{'data': 8}}, got {sizes!r}.")
    found = {axis: integer(where, f"the size of mesh axis {axis!r}", size) for axis, size in sizes.items()}
    for axis, size in found.items():
        if size < 1 and size != -1:
            raise ValueError(
                f"{where}: the size of mesh axis {axis!r} is out of range; expected at least 1, or -1 for the "
                f"remaining devices, got {size}."
            )
    return found
