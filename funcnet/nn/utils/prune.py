"""Pruning with masks, as in torch/nn/utils/prune.py. The functions are pure: they take a net, its params and its state.

A pruned weight is ``weight_orig * weight_mask``, the product of a parameter and a buffer of its module. The product is
computed at every call of the module. The mask is an array and part of the state. Each function returns a new net, new
params and a new state. `init` sets all masks to ones. The functions that choose masks run outside `jit`. The layers of
a stack (`*`) are pruned separately, by the same amount.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.typing import ArrayLike

from funcnet.functional.absent import refusal
from funcnet.nn.core import binding
from funcnet.nn.core.module_tree import computed_of
from funcnet.nn.module import computed_attributes
from funcnet.nn.module.module import Module
from funcnet.nn.utils.absent import ABSENT_PRUNE
from funcnet.nn.utils.prune_methods import (
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PrunedWeight,
    RandomStructured,
    RandomUnstructured,
    apply_mask,
    comparable,
)
from funcnet.tree import Tree

Pruned = tuple[Any, Tree, Tree]

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


def identity(net: Module, name: str, params: Tree, state: Tree) -> Pruned:
    """Return (net, params, state) in which the weight is multiplied by a mask of ones, so that nothing is pruned. The
    new net can load checkpoints of pruned nets.

    Args:
        net: the description. It is not changed.
        name: dotted name of a parameter, as in "encoder.fc.weight".
        params, state: params and state of `net`.

    Raises:
        ValueError: if there is no such parameter.

    Differs from torch: all functions in `prune.py` are pure, and take (net, name, params, state, …). torch's functions
    take (module, name, …).

    Example:
        >>> from funcnet import nn
        >>> net = nn.Linear(2, 2)
        >>> net, params, state = identity(net, "weight", *net.init(jax.random.key(0)))
        >>> list(net.state_dict(params, state))
        ['bias', 'weight_orig', 'weight_mask']

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.identity.html
    """
    return Identity.apply(net, name, params, state)


def random_unstructured(
    net: Module, name: str, params: Tree, state: Tree, amount: float, *, rng: jax.Array | None = None
) -> Pruned:
    """Prune entries at random, among those that are not pruned yet.

    Args:
        net, name, params, state: as in `prune.identity`.
        amount: number of entries to prune (int), or fraction of the remaining entries (float in [0, 1]).
        rng: a key.

    Example:
        >>> from funcnet import nn
        >>> net = nn.Linear(2, 4)
        >>> *_, state = random_unstructured(net, "weight", *net.init(jax.random.key(0)), 3, rng=jax.random.key(1))
        >>> float(state["weight_mask"].sum())
        5.0

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.random_unstructured.html
    """
    return RandomUnstructured.apply(net, name, params, state, amount, rng=rng)


def l1_unstructured(
    net: Module, name: str, params: Tree, state: Tree, amount: float, importance_scores: jax.Array | None = None
) -> Pruned:
    """Prune the entries with the smallest absolute values, among those that are not pruned yet.

    Args:
        net, name, params, state: as in `prune.identity`.
        amount: number of entries to prune (int), or fraction of the remaining entries (float in [0, 1]).
        importance_scores: scores that are compared in place of the weight, an array of the same shape.

    Differs from torch: among equal magnitudes, the first entries are pruned. torch does not specify which.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> net = nn.Linear(2, 1, bias=False)
        >>> net, params, state = l1_unstructured(net, "weight", {"weight": jnp.array([[3.0, -1.0]])}, {}, amount=1)
        >>> state, net.apply(params, state, jnp.ones(2))[0]
        ({'weight_mask': Array([[1., 0.]], dtype=float32)}, Array([3.], dtype=float32))

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.l1_unstructured.html
    """
    return L1Unstructured.apply(net, name, params, state, amount, importance_scores=importance_scores)


def random_structured(
    net: Module, name: str, params: Tree, state: Tree, amount: float, dim: int, *, rng: jax.Array | None = None
) -> Pruned:
    """Prune entire channels at random, among those that are not pruned yet.

    Args:
        net, name, params, state: as in `prune.identity`.
        amount: number of channels to prune (int), or fraction of the remaining channels (float in [0, 1]).
        dim: dimension of the channels.
        rng: a key.

    Example:
        >>> from funcnet import nn
        >>> net = nn.Linear(2, 4)
        >>> *_, state = random_structured(net, "weight", *net.init(jax.random.key(0)), 3, 0, rng=jax.random.key(1))
        >>> sorted(state["weight_mask"].sum(1).tolist())
        [0.0, 0.0, 0.0, 2.0]

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.random_structured.html
    """
    return RandomStructured.apply(net, name, params, state, amount, dim, rng=rng)


def ln_structured(
    net: Module,
    name: str,
    params: Tree,
    state: Tree,
    amount: float,
    n: float | str,
    dim: int,
    importance_scores: jax.Array | None = None,
) -> Pruned:
    """Prune the entire channels with the smallest norms, among those that are not pruned yet.

    Args:
        net, name, params, state: as in `prune.identity`.
        amount: number of channels to prune (int), or fraction of the remaining channels (float in [0, 1]).
        n: order of the norm, any number including ±inf, or 'fro' or 'nuc'.
        dim: dimension of the channels.
        importance_scores: scores that are compared in place of the weight, an array of the same shape.

    Differs from torch: among equal norms, the first channels are pruned. torch does not specify which.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> net = nn.Linear(2, 2, bias=False)
        >>> weight = {"weight": jnp.array([[3.0, 0.0], [2.0, 2.0]])}
        >>> ln_structured(net, "weight", weight, {}, amount=1, n=2, dim=0)[2]
        {'weight_mask': Array([[1., 1.],
           [0., 0.]], dtype=float32)}

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.ln_structured.html
    """
    return LnStructured.apply(net, name, params, state, amount, n, dim, importance_scores=importance_scores)


def custom_from_mask(net: Module, name: str, params: Tree, state: Tree, mask: ArrayLike) -> Pruned:
    """Prune the entries for which a mask is zero, in addition to those that are already pruned.

    Args:
        net, name, params, state: as in `prune.identity`.
        mask: array of the weight's shape, with 0 or False for entries to prune.

    Raises:
        ValueError: if the mask has the wrong shape, or there is no such parameter.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> net = nn.Linear(1, 3)
        >>> custom_from_mask(net, "bias", *net.init(jax.random.key(0)), mask=jnp.array([0, 1, 0]))[2]
        {'bias_mask': Array([0., 1., 0.], dtype=float32)}

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.custom_from_mask.html
    """
    if np.ndim(mask) == 0:
        raise ValueError(
            f"prune.custom_from_mask: the mask has the wrong shape; expected the shape of {name!r}, got a scalar. Pass "
            "one number per entry of the parameter."
        )
    return apply_mask(net, name, params, state, lambda index: CustomFromMask(np.asarray(mask)[index]))


def global_unstructured(
    net: Module,
    parameters: Iterable[str],
    params: Tree,
    state: Tree,
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[str, jax.Array] | None = None,
    **kwargs: Any,
) -> Pruned:
    """Prune several parameters as if they were one, so that some may lose more entries than others.

    Args:
        net, params, state: as in `prune.identity`.
        parameters: dotted names of the parameters.
        pruning_method: class of an unstructured pruning method, such as `L1Unstructured`.
        importance_scores: {name: scores that are compared in place of the weight}.
        **kwargs: arguments of the class, such as `amount`.

    Raises:
        TypeError: if `parameters` is not an iterable of names, `importance_scores` is not a mapping, or the method is
            not unstructured.
        ValueError: if there is no such parameter, or scores have the wrong shape.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Linear(2, 1, bias=False), nn.Linear(1, 2, bias=False))
        >>> params = {"0": {"weight": jnp.array([[5.0, 4.0]])}, "1": {"weight": jnp.array([[1.0], [2.0]])}}
        >>> names, state = ["0.weight", "1.weight"], {"0": {}, "1": {}}
        >>> *_, state = global_unstructured(net, names, params, state, L1Unstructured, amount=2)
        >>> state["0"]["weight_mask"].tolist(), state["1"]["weight_mask"].tolist()
        ([[1.0, 1.0]], [[0.0], [0.0]])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.global_unstructured.html
    """
    where = "prune.global_unstructured"
    if isinstance(parameters, str) or not isinstance(parameters, Iterable):
        raise TypeError(
            f"{where}: parameters is not a list; expected a list of dotted names, got {type(parameters).__name__}."
        )
    if importance_scores is not None and not isinstance(importance_scores, Mapping):
        raise TypeError(
            f"{where}: importance_scores is not a dict; expected {{name: array}}, got "
            f"{type(importance_scores).__name__}."
        )
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f"{where}: channels of different parameters cannot be compared; expected a method of type 'unstructured', "
            f"got {pruning_method.__name__} of type {method.PRUNING_TYPE!r}. Prune the channels of each parameter "
            "separately."
        )
    names = list(parameters)
    for name in names:
        net, params, state = identity(net, name, params, state)
    bound = binding.bind(net, params, state)
    weights, masks, scores = {}, {}, importance_scores or {}
    for name in names:
        path, _, attribute = name.rpartition(".")
        weights[name], masks[name] = (
            np.asarray(getattr(bound.get_submodule(path), f"{attribute}_{kind}")) for kind in ("orig", "mask")
        )
    vector = np.concatenate([comparable(name, scores.get(name), weights[name]).reshape(-1) for name in names])
    mask = method.combined(vector, np.concatenate([masks[name].reshape(-1) for name in names]))
    for name in names:
        size = weights[name].size
        part, mask = mask[:size], mask[size:]
        net, params, state = custom_from_mask(net, name, params, state, part.reshape(weights[name].shape))
    return net, params, state


def remove(net: Module, name: str, params: Tree, state: Tree) -> Pruned:
    """Return (net, params, state) in which an ordinary parameter with the pruned values replaces the original and its
    mask.

    Args:
        net, name, params, state: as in `prune.identity`.

    Raises:
        ValueError: if the parameter is not pruned.

    Example:
        >>> from funcnet import nn
        >>> net = nn.Linear(1, 2)
        >>> pruned = l1_unstructured(net, "weight", *net.init(jax.random.key(0)), amount=1)
        >>> net, params, state = remove(pruned[0], "weight", *pruned[1:])
        >>> int((params["weight"] == 0).sum()), state
        (1, {})

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.remove.html
    """
    return computed_attributes.take_out(net, name, params, state, PrunedWeight, "prune.remove")


def is_pruned(module: Module) -> bool:
    """Return whether the module or any of its submodules has a pruned parameter.

    >>> from funcnet import nn
    >>> is_pruned(nn.Linear(2, 2))
    False
    """
    return any(isinstance(one, PrunedWeight) for inner in module.modules() for one in computed_of(inner).values())


if not TYPE_CHECKING:
    __getattr__ = refusal("nn.utils.prune", __name__, ABSENT_PRUNE)
