"""Which devices a run uses, and the mesh that names the axis along which a batch is cut.

A *mesh* is an array of devices whose axes have names; a sharding says which axis of an array lies along which of them.
Data parallel training needs one axis, `AXIS`.
"""

import os
from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

__all__ = ["AXIS", "data_mesh", "select_devices", "use_virtual_cpu_devices"]

AXIS = "data"  # the axis along which batches are cut; the `axis_name` of collectives


def use_virtual_cpu_devices(count: int) -> None:
    """Let the CPU show itself as `count` devices. Call it before anything makes an array or asks for devices.

    Each has its own memory and its own share of the work, so a step that is right on 8 of these is right on 8 GPUs.
    Where JAX finds a GPU or TPU this changes nothing: that one stays the default.

    Args:
        count: how many, at least 1.

    Raises:
        ValueError: `count` is below 1, or JAX has started already with fewer.

    Example:
        >>> use_virtual_cpu_devices(8)  # the tests start with eight: nothing to do
    """
    if count < 1:
        raise ValueError(
            f"parallel.use_virtual_cpu_devices: count; expected at least 1, got {count}. Ask for one device or more."
        )
    if "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return  # the environment has decided; JAX refuses both at once, and select_devices tells when they are too few
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError as error:  # JAX has started
        found = len(jax.devices("cpu"))
        if found < count:
            raise ValueError(
                f"parallel.use_virtual_cpu_devices: called after JAX started; expected {count} CPU devices, got "
                f"{found}. Call it before the first array is made, or set the environment variable "
                f"XLA_FLAGS=--xla_force_host_platform_device_count={count}."
            ) from error


def select_devices(count: int | None = None) -> list[jax.Device]:
    """The first `count` devices of JAX's default backend.

    Args:
        count: how many; None takes all there are.

    Returns:
        A list of `jax.Device`.

    Raises:
        ValueError: `count` is below 1 or more than there are.

    Example:
        >>> select_devices(1) == jax.devices()[:1]
        True
    """
    found = jax.devices()
    if count is None:
        return list(found)
    if not 1 <= count <= len(found):
        kind = found[0].platform.upper()
        advice = (
            "Call parallel.use_virtual_cpu_devices before JAX starts, or ask for fewer."
            if kind == "CPU"
            else "Ask for fewer, or make more visible (CUDA_VISIBLE_DEVICES)."
        )
        raise ValueError(f"parallel.select_devices: {kind} devices; expected 1 to {len(found)}, got {count}. {advice}")
    return list(found[:count])


def data_mesh(devices: Sequence[jax.Device] | None = None, axis: str = AXIS) -> Mesh:
    """A mesh of one axis over the devices.

    Its axis is of type Auto: under `jit` the compiler decides how intermediate values lie, so a model written for one
    device runs as it is. `jax.make_mesh` alone makes Explicit axes, whose shardings are part of every array's type:
    with a batch cut along one, JAX refuses under `jit` what leaves the result's sharding open, here `F.embedding`,
    `group_norm`, `instance_norm`, `unfold`, `interpolate` and, on CPU, convolutions of one pixel.

    Args:
        devices: in order; None takes all there are.
        axis: the axis' name.

    Returns:
        A `jax.sharding.Mesh`.

    Example:
        >>> data_mesh().axis_names
        ('data',)
    """
    chosen = list(jax.devices() if devices is None else devices)
    return Mesh(np.array(chosen), (axis,), axis_types=(AxisType.Auto,))
