"""Which devices a run uses, and the mesh that they form: an array of devices whose axes have names."""

import math
import os
import re
from collections.abc import Mapping

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

__all__ = ["AXIS", "make_mesh", "parse_mesh", "select_devices", "use_virtual_cpu_devices"]

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


def parse_mesh(text: str) -> dict[str, int]:
    """The sizes of a mesh's axes, as the command line writes them.

    Args:
        text: "data=4,model=2"; -1 stands for what is left.

    Returns:
        {axis: size}, in order.

    Raises:
        ValueError: something else, or an axis twice.

    Example:
        >>> parse_mesh("data=-1,model=2")
        {'data': -1, 'model': 2}
    """
    found: dict[str, int] = {}
    for part in text.split(","):
        name, equals, size = (one.strip() for one in part.partition("="))
        if not equals or not name.isidentifier() or not re.fullmatch(r"-1|[1-9]\d*", size) or name in found:
            raise ValueError(
                f"parallel.parse_mesh: {text!r} is no mesh; expected axes and their sizes, such as data=8 or "
                f"data=-1,model=2, got {part.strip()!r}."
            )
        found[name] = int(size)
    return found


def make_mesh(sizes: Mapping[str, int] | None = None) -> Mesh:
    """A mesh over the first devices.

    Its axes are of type Auto: under `jit` the compiler decides how intermediate values lie, so a model written for one
    device runs as it is. `jax.make_mesh` alone makes Explicit axes, whose shardings are part of every array's type:
    with a batch cut along one, JAX refuses under `jit` what leaves the result's sharding open, here `F.embedding`,
    `group_norm`, `instance_norm`, `unfold`, `interpolate` and, on CPU, convolutions of one pixel.

    Args:
        sizes: {axis: size}; one size may be -1, which takes what is left. None: all devices along `AXIS`.

    Returns:
        A `jax.sharding.Mesh`.

    Raises:
        ValueError: more devices than there are, or a -1 that does not come out even.

    Example:
        >>> dict(make_mesh({"data": -1, "model": 2}).shape)
        {'data': 4, 'model': 2}
    """
    sizes = dict(sizes or {AXIS: -1})
    known = math.prod(size for size in sizes.values() if size != -1)
    open_axes = [axis for axis, size in sizes.items() if size == -1]
    if open_axes:
        count = len(select_devices())
        if len(open_axes) > 1 or count % known:
            raise ValueError(
                f"parallel.make_mesh: {sizes}; expected at most one -1, and sizes that divide the {count} devices, got "
                f"{', '.join(f'{axis}={size}' for axis, size in sizes.items())}."
            )
        sizes[open_axes[0]] = count // known
    chosen = select_devices(math.prod(sizes.values()))
    return Mesh(np.array(chosen).reshape(tuple(sizes.values())), tuple(sizes), axis_types=(AxisType.Auto,) * len(sizes))
