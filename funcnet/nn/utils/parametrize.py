"""Weights that are functions of other arrays, as in torch/nn/utils/parametrize.py.

A parametrized attribute is no longer a part of its module. The attribute is computed from leaves of `parametrizations`,
a child of the module. For each parametrized attribute, `parametrizations` has a list with `original` (or `original0`,
`original1`, …) and the numbered parametrizations. Params and state_dict therefore have torch's names:
`fc.parametrizations.weight.original`, `fc.parametrizations.weight.0._u`.
"""

from typing import TYPE_CHECKING, Any

import jax

from funcnet import tree
from funcnet.functional.absent import refusal
from funcnet.nn.container import ModuleDict
from funcnet.nn.core.module_tree import Node, computed_of, join, walk
from funcnet.nn.core.parameter import Buffer, Computed, Parameter
from funcnet.nn.module import computed_attributes
from funcnet.nn.module.initial_arrays import start
from funcnet.nn.module.module import Module
from funcnet.nn.utils.absent import ABSENT_PARAMETRIZE
from funcnet.nn.utils.parametrized import ParametrizationList, Parametrized, abstract, described_dtype, require_same
from funcnet.nn.utils.renamed import own_leaf
from funcnet.tree import Tree

__all__ = [
    "ParametrizationList",
    "carry_over",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
]


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Parametrize a parameter or buffer, so that it is computed from another array, the original. Inside forward,
    `module.tensor_name` is ``parametrization(original)``.

    The parametrization is a module with ``forward(original)``. The parametrization may have two more methods:

    - ``right_inverse(value)`` returns the original from which the parametrization computes `value`. `init` calls this
      method of the first parametrization with the weight's initial value, to get the original. If the method returns
      several arrays, they become `original0`, `original1`, … and the arguments of forward. `right_inverse` may assign
      to buffers and call `self.make_rng()`.
    - ``begin(weight)`` can initialise buffers. `init` calls `begin` with the array that this parametrization gets as
      its input.

    ``module.weight = array`` makes that array the initial value of the weight. `init` then computes the original from
    this value with the `right_inverse` of all parametrizations, from last to first. Several parametrizations of the
    same name are applied one after another. The weight is computed once per call of its module, so a buffer that the
    parametrization updates in training is updated once per call. If code reads the weight while the module is not
    running, the weight is computed again.

    Args:
        module: the description, which is changed in place and returned. A constructor may pass `self`.
        tensor_name: name of the parameter or buffer. If several modules share the leaf, they share the original too.
        parametrization: the parametrization, a module with the method `forward(original)`.
        unsafe: if True, the parametrization may change the shape and dtype, and nothing is checked.

    Returns:
        the module.

    Raises:
        ValueError: if there is no such parameter or buffer, the leaf is lazy, or the parametrization changes its shape
            or dtype.

    Differs from torch: this function computes only shapes, so forward and right_inverse must be traceable. Use
    `carry_over` to convert existing params of the plain net. The class of the module does not change, but `repr` is the
    same as in torch. `nn.init.normal_(module.weight)` sets the initial value of the weight, while this call has no
    effect in torch.

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> from funcnet.nn.utils import parametrize
        >>> class Symmetric(nn.Module):
        ...     def forward(self, x):
        ...         return jnp.triu(x) + jnp.triu(x, 1).T
        ...     def right_inverse(self, a):
        ...         return jnp.triu(a)
        >>> layer = parametrize.register_parametrization(nn.Linear(2, 2, bias=False), "weight", Symmetric())
        >>> layer.weight = jnp.array([[1.0, 2.0], [2.0, 3.0]])
        >>> params, state = layer.init(jax.random.key(0))
        >>> params
        {'parametrizations': {'weight': {'original': Array([[1., 2.],
           [0., 3.]], dtype=float32), '0': {}}}}
        >>> layer.apply(params, state, jnp.eye(2))[0].tolist()
        [[1.0, 2.0], [2.0, 3.0]]

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrize.register_parametrization.html
    """
    where = "parametrize.register_parametrization"
    if is_parametrized(module, tensor_name):
        made_of = module.parametrizations[tensor_name]
        if not unsafe:
            _check_further(where, getattr(module, tensor_name), parametrization)
        made_of.append(parametrization)
        made_of.unsafe |= unsafe
        one = getattr(module, tensor_name)
        result = made_of.result()
        one.shape, one.dtype = tuple(result.shape), described_dtype(result.dtype, one.dtype)
        return module
    original = own_leaf(where, module, tensor_name)
    made_of = ParametrizationList([parametrization], original, unsafe)
    original.formerly = (f"parametrizations.{tensor_name}.original", tensor_name)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = made_of
    result = made_of.result()
    dtype = described_dtype(result.dtype, original.dtype)
    one = Parametrized(tensor_name, original, tuple(result.shape), dtype, made_of.originals())
    computed_attributes.place(module, one)
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether the attribute `tensor_name` of a module is parametrized. If no name is given, return whether any
    attribute of the module is parametrized.

    >>> from funcnet import nn
    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    >>> is_parametrized(layer), is_parametrized(layer, "weight"), is_parametrized(layer, "bias")
    (True, True, False)
    """
    held = getattr(module, "parametrizations", None)
    if not isinstance(held, ModuleDict) or len(held) == 0:
        return False
    return tensor_name is None or tensor_name in held


def remove_parametrizations(
    net: Module, tensor_name: str, params: Tree, state: Tree, leave_parametrized: bool = True
) -> tuple[Module, Tree, Tree]:
    """Return (net, params, state) with an ordinary leaf in place of a parametrized one. The given net is not changed.

    Args:
        net: the description.
        tensor_name: dotted name, as in "encoder.fc.weight". `*` denotes all layers of a stack at once.
        params, state: params and state of `net`.
        leave_parametrized: if True, the leaf gets the parametrized value, computed in eval mode. Otherwise, the leaf
            gets the value of the original.

    Raises:
        ValueError: if the attribute is not parametrized, or `leave_parametrized` is False and there are several
            originals.

    Differs from torch: the function is pure. torch's function takes (module, tensor_name, leave_parametrized). In
    torch, the removal of a spectral norm in training mode makes one more step.

    Example:
        >>> from funcnet import nn
        >>> net = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
        >>> params, state = net.init(jax.random.key(0))
        >>> net, params, state = remove_parametrizations(net, "weight", params, state)
        >>> sorted(params)
        ['bias', 'weight']

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrize.remove_parametrizations.html
    """
    where = "parametrize.remove_parametrizations"

    def value(one: Computed, bound: Node) -> jax.Array:
        if leave_parametrized:
            return one.value(bound)
        made_of = bound.parametrizations[one.name]
        if not made_of.is_tensor:
            raise ValueError(
                f"{where}: {tensor_name!r} is computed from {made_of.ntensors} arrays, none of which is its original "
                "value; expected leave_parametrized=True, got False."
            )
        return made_of.original

    return computed_attributes.take_out(net, tensor_name, params, state, Parametrized, where, value)


def carry_over(net: Module, params: Tree, state: Tree, rng: jax.Array) -> tuple[Tree, Tree]:
    """Convert the params and state of a plain net to those of the same net with parametrizations.

    Use this function for weights that were trained or loaded before the net was parametrized. The original of each
    parametrized weight is the `right_inverse` of the weight in the plain net. Other arrays of the parametrizations,
    such as the vectors of a spectral norm, are initialised as in `init`.

    Args:
        net: the description with parametrizations.
        params, state: params and state of the plain net.
        rng: a key for values that are initialised at random.

    Raises:
        ValueError: if the trees lack a leaf of `net`, or have a leaf that is not in `net`.

    Differs from torch: torch does this conversion when a parametrization is registered.

    Example:
        >>> from funcnet import nn
        >>> net = nn.Linear(2, 2)
        >>> plain, state = net.init(jax.random.key(0))
        >>> net = nn.utils.parametrizations.weight_norm(net)
        >>> params, state = carry_over(net, plain, state, jax.random.key(1))
        >>> bool((params["parametrizations"]["weight"]["original1"] == plain["weight"]).all())
        True
    """
    where = "parametrize.carry_over"
    given = {**tree.flatten(params), **tree.flatten(state)}
    places = [(path, one) for path, module in net.named_modules() for one in computed_of(module).values()]
    known = {join(path, one.name) for path, one in places}
    tied = {id(one.source): name for path, one in places if (name := join(path, one.name)) in given}
    for place in (*walk(net, Parameter), *walk(net, Buffer)):
        plain = place.leaf.key_name(place.path)
        known.add(plain)
        if plain not in given and id(place.leaf) in tied:  # it was stored under the name of the weight
            given[plain] = given[tied[id(place.leaf)]]
        if plain not in given and "parametrizations" not in place.path.split("."):
            raise ValueError(
                f"{where}: params and state have no {plain!r}; expected the arrays of the net without "
                f"parametrizations, got {sorted(given)}. Pass the params and state that init or load_state_dict "
                "returned before the net was parametrized."
            )
    if set(given) - known:
        raise ValueError(
            f"{where}: params and state have entries that the net does not have; expected {sorted(known)}, got the "
            f"additional entries {sorted(set(given) - known)}. Pass the params and state of this net."
        )
    return start(net, rng, {}, given)


def parametrizable(where: str, module: Module, tensor_name: str) -> Any:
    """Return the parameter, buffer or parametrized attribute `tensor_name` of a module. Raise ValueError if there is
    none.
    """
    held = getattr(module, tensor_name, None)
    return held if isinstance(held, Parametrized) else own_leaf(where, module, tensor_name)


def _check_further(where: str, one: Computed, parametrization: Module) -> None:
    """Check a parametrization that is added to an attribute that is already parametrized. Raise ValueError if the added
    parametrization changes the shape or dtype, or has several originals.
    """
    given = jax.ShapeDtypeStruct(one.shape, one.dtype)
    out = abstract(parametrization, "forward", given)
    require_same("the parametrized tensor", "dtype", one.dtype, out.dtype)
    require_same("the parametrized tensor", "shape", one.shape, tuple(out.shape))
    back = abstract(parametrization, "right_inverse", out)
    if isinstance(back, list):
        raise ValueError(
            f"{where}: only the first parametrization may have several originals; expected one array from "
            f"{type(parametrization).__name__}.right_inverse, got {len(back)}. Register this parametrization first."
        )
    require_same("right_inverse", "dtype", one.dtype, back.dtype)
    require_same("right_inverse", "shape", one.shape, tuple(back.shape))


if not TYPE_CHECKING:
    __getattr__ = refusal("nn.utils.parametrize", __name__, ABSENT_PARAMETRIZE)
