"""Weight norm with its old names, as in torch/nn/utils/weight_norm.py, for nets whose checkpoints have `weight_g`.

The computation is that of `parametrizations.weight_norm`, which can load such checkpoints too.
"""

from collections.abc import Callable
from typing import Any

import jax

from funcnet.nn import init
from funcnet.nn.core import binding
from funcnet.nn.core.module_tree import Node
from funcnet.nn.core.parameter import Parameter
from funcnet.nn.module import computed_attributes
from funcnet.nn.module.module import Module
from funcnet.nn.utils.parametrizations import norm_dim, norm_except_dim, weight_of
from funcnet.nn.utils.renamed import Renamed, own_leaf
from funcnet.tree import Tree

__all__ = ["remove_weight_norm", "weight_norm"]


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Parametrize a weight as `w = g · v / ‖v‖`. g and v are the parameters `<name>_g` and `<name>_v` of the module.

    Args:
        module: the description, which is changed in place and returned.
        name: name of the parameter.
        dim: the one dimension over which the norm is not computed. If `dim` is None or -1, there is one norm for the
            entire weight, as in torch.

    Raises:
        ValueError: if there is no such parameter, or it has no dimension `dim`.

    Differs from torch: there is no deprecation warning. Use `parametrizations.weight_norm`, which also loads
    checkpoints with these names, unless the parameters must be named `<name>_g` and `<name>_v`.

    Example:
        >>> from funcnet import nn
        >>> [name for name, _ in nn.utils.weight_norm(nn.Linear(20, 40)).named_parameters()]
        ['bias', 'weight_g', 'weight_v']

    Reference: Salimans & Kingma, 2016, "Weight Normalization".
    """
    leaf = own_leaf("utils.weight_norm", module, name)
    kept = norm_dim(dim, leaf.ndim)
    magnitude = jax.eval_shape(lambda v: norm_except_dim(v, kept), jax.ShapeDtypeStruct(leaf.shape, leaf.dtype))
    parts = [
        Parameter(shape, init.zeros(), dtype=leaf.dtype, requires_grad=leaf.requires_grad)
        for shape in (magnitude.shape, leaf.shape)
    ]
    one = _WeightNorm(name, leaf, leaf.shape, leaf.dtype, parts)
    one.kept, one.names = kept, (f"{name}_g", f"{name}_v")
    delattr(module, name)
    for part_name, part in zip(one.names, parts, strict=True):
        module.register_parameter(part_name, part)
    computed_attributes.place(module, one)
    return module


def remove_weight_norm(net: Module, name: str, params: Tree, state: Tree) -> tuple[Module, Tree, Tree]:
    """Return (net, params, state) in which an ordinary parameter, the weight itself, replaces the parameters g and v.
    The given net is not changed.

    Args:
        net: the description.
        name: dotted name of the weight, as in "encoder.fc.weight".
        params, state: params and state of `net`.

    Raises:
        ValueError: if the weight has no weight norm.

    Example:
        >>> from funcnet import nn
        >>> net = nn.utils.weight_norm(nn.Linear(2, 2))
        >>> net, params, state = remove_weight_norm(net, "weight", *net.init(jax.random.key(0)))
        >>> sorted(params)
        ['bias', 'weight']

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.remove_weight_norm.html
    """
    return computed_attributes.take_out(net, name, params, state, _WeightNorm, "utils.remove_weight_norm")


class _WeightNorm(Renamed):
    kept = 0  # the one dimension over which the norm is not computed

    def value(self, bound: Node) -> jax.Array:
        magnitude, direction = (getattr(bound, name) for name in self.names)
        return weight_of(magnitude, direction, self.kept)

    def begin(self, bound: Node, draw: Callable[[Any], jax.Array]) -> None:
        weight = draw(self.source)
        binding.put(bound, self.names[0], norm_except_dim(weight, self.kept))
        binding.put(bound, self.names[1], weight)
