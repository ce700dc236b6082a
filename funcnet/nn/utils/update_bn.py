"""Recomputed BatchNorm statistics, for example for averaged weights, as in torch/optim/swa_utils.py."""

import copy
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp

from funcnet.nn.batchnorm import BatchNorm
from funcnet.nn.core import binding
from funcnet.nn.core.module_tree import values, walk
from funcnet.nn.core.parameter import Buffer
from funcnet.nn.module.module import Module
from funcnet.tree import Tree

__all__ = ["update_bn"]


def update_bn(loader: Iterable[Any], net: Module, params: Tree, state: Tree, rng: jax.Array | None = None) -> Tree:
    """Return the state with new running means and variances of BatchNorm, averaged over the batches with equal weights.

    Args:
        loader: iterable of batches. A batch is an array, or a list or tuple whose first entry is the input.
        net: the description. It is not changed.
        params, state: params and state of `net`, such as those of an `AveragedModel`.
        rng: a key, needed if the net uses randomness in training. The entire net runs in training mode, including
            dropout, as in torch.

    Returns:
        the state with the new statistics, after the last batch. If the net has no BatchNorm, the given state is
        returned, and no batch is read.

    Differs from torch: the function is in `nn.utils`, returns the state, and compiles one program per batch shape.

    Example:
        >>> from funcnet import nn
        >>> net = nn.BatchNorm1d(1)
        >>> params, state = net.init(jax.random.key(0))
        >>> batches = [jnp.array([[1.0], [3.0]]), jnp.array([[5.0], [7.0]])]
        >>> new = update_bn(batches, net, params, state)
        >>> new["running_mean"], new["running_var"], int(new["num_batches_tracked"])
        (Array([4.], dtype=float32), Array([2.], dtype=float32), 2)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.optim.swa_utils.update_bn.html
    """
    net = copy.deepcopy(net)
    norms = [module for module in net.modules() if isinstance(module, BatchNorm)]
    if not norms:
        return state
    for module in norms:
        module.momentum = None  # each batch has the same weight
    bound = binding.bind(net, params, state)
    for place in walk(bound, Buffer):
        if isinstance(place.module, BatchNorm):
            binding.put(place.module, place.name, jnp.full_like(place.value, place.name == "running_var"))
    _, state = values(bound)
    step = jax.jit(lambda params, state, x, key: net.apply(params, state, x, training=True, rng=key)[1])
    for number, batch in enumerate(loader):
        x = batch[0] if isinstance(batch, list | tuple) else batch
        state = step(params, state, x, None if rng is None else jax.random.fold_in(rng, number))
    return state
