"""Spectral norm with its old names, as in torch/nn/utils/spectral_norm.py, for nets whose checkpoints have `weight_u`.

The computation is that of `parametrizations.spectral_norm`, with two differences. A step computes v before u, and u and
v are initialised with random directions, without any steps. `parametrizations.spectral_norm` can load checkpoints with
`weight_u` too.
"""

import math
from typing import Any

import jax

from funcnet import functional as F
from funcnet.nn.core.module_tree import Node
from funcnet.nn.core.parameter import Buffer
from funcnet.nn.inspection.hooks import RemovableHandle
from funcnet.nn.module import computed_attributes
from funcnet.nn.module.module import Module
from funcnet.nn.utils.parametrizations import (
    as_matrix,
    check_steps,
    divided_by_sigma,
    row_axis,
    rows_dim,
    unit_vector,
)
from funcnet.nn.utils.renamed import Renamed, own_leaf, rename
from funcnet.tree import Tree

__all__ = ["remove_spectral_norm", "spectral_norm"]


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight W by its largest singular value, `W / σ(W)`. Power iteration estimates σ as uᵀ W v.

    W becomes the parameter `<name>_orig`, and u and v are the buffers `<name>_u` and `<name>_v`. In training, every
    call of the module makes `n_power_iterations` steps ``v ← Wᵀ u / ‖Wᵀ u‖, u ← W v / ‖W v‖``. In eval mode, a call
    makes no steps of power iteration. The gradient treats u and v as constants.

    Args:
        module: the description, which is changed in place and returned.
        name: name of the parameter.
        n_power_iterations: number of steps per call in training.
        eps: lower bound on each norm, to avoid division by zero.
        dim: dimension of the weight that belongs to the outputs of the layer. This dimension becomes the rows of W as a
            matrix. The default is 1 for transposed convolutions, else 0.

    Raises:
        ValueError: if there is no such parameter or dimension, or `n_power_iterations` is not positive.

    Example:
        >>> from funcnet import nn
        >>> layer = nn.utils.spectral_norm(nn.Linear(20, 40))
        >>> params, state = layer.init(jax.random.key(0))
        >>> sorted(params), sorted(state)
        (['bias', 'weight_orig'], ['weight_u', 'weight_v'])

    Reference: Miyato et al., 2018, "Spectral Normalization for Generative Adversarial Networks".
    """
    check_steps(n_power_iterations)
    leaf = own_leaf("utils.spectral_norm", module, name)
    rows = row_axis(rows_dim(module) if dim is None else dim, len(leaf.shape))
    one = _SpectralNorm(name, rename(module, name, f"{name}_orig"), leaf.shape, leaf.dtype)
    one.names = (f"{name}_orig", f"{name}_u", f"{name}_v")
    one.rows, one.eps, one.steps = rows, eps, n_power_iterations
    height = leaf.shape[rows]
    module.register_buffer(one.names[1], Buffer(height, unit_vector, dtype=leaf.dtype))
    module.register_buffer(one.names[2], Buffer(math.prod(leaf.shape) // max(height, 1), unit_vector, dtype=leaf.dtype))
    one.version = module.register_state_dict_post_hook(_Version(name))
    computed_attributes.place(module, one)
    return module


def remove_spectral_norm(net: Module, name: str, params: Tree, state: Tree) -> tuple[Module, Tree, Tree]:
    """Return (net, params, state) without the spectral norm. The weight becomes an ordinary parameter with the value
    that it has in eval mode. `net` is not changed.

    Args:
        net: the description.
        name: dotted name of the weight, as in "encoder.fc.weight".
        params, state: params and state of `net`.

    Raises:
        ValueError: if the weight has no spectral norm.

    Example:
        >>> from funcnet import nn
        >>> net = nn.utils.spectral_norm(nn.Linear(2, 2))
        >>> net, params, state = remove_spectral_norm(net, "weight", *net.init(jax.random.key(0)))
        >>> sorted(params), state
        (['bias', 'weight'], {})

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.remove_spectral_norm.html
    """
    return computed_attributes.take_out(net, name, params, state, _SpectralNorm, "utils.remove_spectral_norm")


class _SpectralNorm(Renamed):
    rows = 0  # the dimension that becomes the rows
    eps = 1e-12
    steps = 1
    version: RemovableHandle

    def value(self, bound: Node) -> jax.Array:
        weight, u, v = (getattr(bound, name) for name in self.names)
        if bound.training:
            matrix = jax.lax.stop_gradient(as_matrix(weight, self.rows))
            u = u.astype(matrix.dtype)
            for _ in range(self.steps):
                v = F.normalize(matrix.T @ u, dim=0, eps=self.eps)
                u = F.normalize(matrix @ v, dim=0, eps=self.eps)
            u, v = u.astype(weight.dtype), v.astype(weight.dtype)
            setattr(bound, self.names[1], u)
            setattr(bound, self.names[2], v)
        return divided_by_sigma(weight, u, v, self.rows)

    def take_out(self, module: Node) -> Any:
        self.version.remove()
        self.source = self.source.another()  # as in torch, sharing ends: other modules keep the original
        return super().take_out(module)


class _Version:
    """A state_dict post-hook that records the layout version of a weight with spectral norm, as torch does."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, module: Node, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any]) -> None:
        local_metadata.setdefault("spectral_norm", {})[f"{self.name}.version"] = 1
