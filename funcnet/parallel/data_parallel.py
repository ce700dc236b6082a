"""The parts of `torch.nn.parallel` as pure functions: `replicate`, `scatter`, `parallel_apply`, `gather`.

`data_parallel` combines all four: each device gets a copy of the parameters and a part of the rows, and the outputs are
gathered on one device. All functions can be differentiated. The gradient with respect to the parameters is the sum of
the gradients of the replicas. This gradient is on the device of the parameters.

Use these functions to port code, or to see what each device does. They run one operation at a time, and copy the
parameters to all devices at every call. `parallelize` and `train.fit` compile the complete step, and are much faster.
Inside `jax.jit`, the device arguments have no effect: the values are the same, but one device computes all of them.

Letters: B batch, N devices, K replicas (at most N).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax import lax

from funcnet import nn
from funcnet.arguments import expect
from funcnet.parallel.mesh import Device, find_device, find_devices
from funcnet.parallel.scatter_gather import gather, scatter
from funcnet.tree import Params, PyTree, State

__all__ = ["data_parallel", "parallel_apply", "replicate"]


def data_parallel(
    net: nn.Module,
    params: Params,
    state: State,
    inputs: PyTree,
    *,
    devices: Sequence[Device] | None = None,
    output_device: Device | None = None,
    dim: int = 0,
    module_kwargs: Mapping[str, Any] | None = None,
    training: bool | Mapping[str, bool] = False,
    rng: jax.Array | None = None,
    hooks: nn.Hooks | None = None,
) -> tuple[Any, Any]:
    """Run a net on several devices, each with its part of the inputs.

    Args:
        net: the description.
        params, state: as from `net.init`.
        inputs: the arguments of `forward` as a tuple. A single argument needs no tuple, and None means no arguments.
            `scatter` splits every array along `dim`.
        devices: the N devices, or their numbers in `jax.local_devices()`. None means all devices in
            `jax.local_devices()`.
        output_device: the device of the output. None means the first device.
        dim: dimension along which inputs are split and outputs are concatenated.
        module_kwargs: keyword arguments of `forward`, which are split like the inputs.
        training, hooks: as for `net.apply`. Hooks run once for each replica.
        rng: key, as for `net.apply`. Replica i draws from `jax.random.fold_in(rng, i)`, so each replica has its own
            dropout mask.

    Returns:
        (output, state): the gathered outputs on `output_device`, and the buffers of the first replica on the first
        device. The buffer updates of the other replicas are lost, as in torch.

    Raises:
        ValueError: if there are no devices, a device does not exist, the inputs cannot be split, or the outputs cannot
            be gathered; see `scatter` and `gather`.
        TypeError: if an output is neither an array nor a container of arrays.

    Differs from torch: `data_parallel` takes `devices` instead of `device_ids`, and returns the buffers. The same
    device may be given several times.

    Example:
        >>> import jax.numpy as jnp
        >>> net = nn.Linear(3, 2)
        >>> params, state = net.init(jax.random.key(0))
        >>> y, state = data_parallel(net, params, state, jnp.ones((10, 3)), devices=[0, 1, 2, 3])
        >>> y.shape, y.devices()
        ((10, 2), {CpuDevice(id=0)})

    Reference: `torch.nn.parallel.data_parallel` and `torch.nn.DataParallel`.
    """
    where = "parallel.data_parallel"
    expect(isinstance(net, nn.Module), where, "net", "a module, such as nn.Linear(2, 1)", net)
    chosen = find_devices(jax.local_devices() if devices is None else devices, where)
    target = chosen[0] if output_device is None else find_device(output_device, where)
    if not isinstance(inputs, tuple):
        inputs = () if inputs is None else (inputs,)
    keywords = dict(module_kwargs or {})
    parts = scatter((inputs, keywords), chosen, dim) if inputs or keywords else [((), {})]
    used = chosen[: len(parts)]
    replicas = replicate((params, state), used)
    arguments, keyword_parts = zip(*parts, strict=True)
    pairs = parallel_apply(
        net, replicas, arguments, keyword_parts, devices=used, training=training, rng=rng, hooks=hooks
    )
    return gather([output for output, _ in pairs], target, dim), pairs[0][1]


def replicate(network: PyTree, devices: Sequence[Device], detach: bool = False) -> list[Any]:
    """Copy parameters and buffers to every device.

    Args:
        network: a pytree of arrays, such as (params, state).
        devices: the N devices, or their numbers in `jax.local_devices()`.
        detach: whether to stop gradients at the copies.

    Returns:
        A list of N pytrees. If an array is already on a device, the copy for that device shares memory with it.

    Raises:
        ValueError: if there are no devices, or a device does not exist.

    Differs from torch: `replicate` takes arrays instead of a module. An empty `devices` is an error; torch returns [].

    Example:
        >>> import jax.numpy as jnp
        >>> [replica["weight"].devices() for replica in replicate({"weight": jnp.ones(3)}, [0, 1])]
        [{CpuDevice(id=0)}, {CpuDevice(id=1)}]

    Reference: `torch.nn.parallel.replicate`.
    """
    source = lax.stop_gradient(network) if detach else network
    return [jax.device_put(source, device) for device in find_devices(devices, "parallel.replicate")]


def parallel_apply(
    net: nn.Module,
    replicas: Sequence[tuple[Any, Any]],
    inputs: Sequence[Any],
    kwargs: Sequence[Mapping[str, Any]] | None = None,
    *,
    devices: Sequence[Device] | None = None,
    training: bool | Mapping[str, bool] = False,
    rng: jax.Array | None = None,
    hooks: nn.Hooks | None = None,
) -> list[tuple[Any, Any]]:
    """Apply the replica on each device to the inputs of that device.

    The replicas run at the same time. No replica waits for the results of another one, unless `forward` itself reads
    the value of an array.

    Args:
        net: the description.
        replicas: K pairs (params, state), as from `replicate`.
        inputs: for each replica, the arguments of `forward` as a tuple or list. A single argument needs no tuple.
        kwargs: for each replica, the keyword arguments of `forward`. None means no keyword arguments.
        devices: the K devices of the replicas. The random keys are moved to these devices, which is necessary only if
            `rng` was placed on a device explicitly.
        training, hooks: as for `net.apply`. Hooks run once for each replica.
        rng: key, as for `net.apply`. Replica i draws from `jax.random.fold_in(rng, i)`.

    Returns:
        A list of K pairs (output, state).

    Raises:
        ValueError: if the numbers of replicas, inputs, kwargs and devices differ. If a replica raises an error, a note
            with the number of the replica is added to it.

    Differs from torch: `parallel_apply` takes one description and its replicas instead of K modules, `kwargs` instead
    of `kwargs_tup`, and returns the buffers too. `parallel_apply` needs no threads, because JAX starts an operation on
    a device without waiting for its result.

    Example:
        >>> import jax.numpy as jnp
        >>> net = nn.Linear(3, 2)
        >>> replicas = replicate(net.init(jax.random.key(0)), [0, 1])
        >>> pairs = parallel_apply(net, replicas, scatter(jnp.ones((4, 3)), [0, 1]))
        >>> [output.shape for output, state in pairs]
        [(2, 2), (2, 2)]

    Reference: `torch.nn.parallel.parallel_apply`.
    """
    where = "parallel.parallel_apply"
    expect(isinstance(net, nn.Module), where, "net", "a module, such as nn.Linear(2, 1)", net)
    expect(isinstance(replicas, list | tuple), where, "replicas", "a list of pairs (params, state)", replicas)
    keywords = [{}] * len(replicas) if kwargs is None else kwargs
    targets = None if devices is None else find_devices(devices, where)
    for name, given in (("inputs", inputs), ("kwargs", keywords), ("devices", targets)):
        if given is not None and len(given) != len(replicas):
            raise ValueError(
                f"{where}: {name} do not fit the replicas; expected {len(replicas)}, one for each replica, got "
                f"{len(given)}."
            )
    found = []
    for index, ((params, state), given, named) in enumerate(zip(replicas, inputs, keywords, strict=True)):
        arguments = given if isinstance(given, tuple | list) else (given,)
        key = None if rng is None else jax.random.fold_in(rng, index)
        if key is not None and targets is not None:
            key = jax.device_put(key, targets[index])
        try:
            out, new = net.apply(params, state, *arguments, training=training, rng=key, hooks=hooks, **named)
        except Exception as error:
            error.add_note(f"in replica {index} of {len(replicas)}")
            raise
        found.append((out, new))
    return found
