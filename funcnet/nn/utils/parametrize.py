"""Weights that are functions of other arrays, as in torch/nn/utils/parametrize.py.

A parametrized attribute is no longer a part of its module; it is computed from leaves of `parametrizations`, a child of
the module: `original` (or `original0`, `original1`, …) and the parametrizations, numbered. So params and state_dict
have torch's names: `fc.parametrizations.weight.original`, `fc.parametrizations.weight.0._u`.
"""

from typing import TYPE_CHECKING, Any

import jax

from funcnet import tree
from funcnet.functional.absent import refusal
from funcnet.nn.container import ModuleDict
from funcnet.nn.core import computed
from funcnet.nn.core.module import Module
from funcnet.nn.core.parameter import Buffer, Computed, Parameter
from funcnet.nn.core.parts import computed_of, join, walk
from funcnet.nn.core.start import start
from funcnet.nn.utils.absent import ABSENT_PARAMETRIZE
from funcnet.nn.utils.parametrized import ParametrizationList, Parametrized, abstract, described_dtype, require_same
from funcnet.nn.utils.renamed import own_leaf

Tree = dict[str, Any]

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
    """Makes `module.tensor_name` a function of the original leaf: forward reads ``parametrization(original)``.

    The parametrization is a module with ``forward(original)``. Two more methods are optional:

    - ``right_inverse(value)``: the original for a value. That of the first parametrization defines the start: the
      original starts as the right inverse of the weight's own start. Several arrays become `original0`,
      `original1`, … and the arguments of forward. It may assign to buffers, and draw with `self.make_rng()`.
    - ``begin(weight)``: called at the start with the weight as it is before this parametrization; for its buffers.

    ``module.weight = array`` makes the weight start as that array, by the `right_inverse` of all parametrizations,
    the last first. Further parametrizations of the same name are applied one after the other. The weight is computed
    once for each call of its module, so a buffer that the parametrization updates in training moves once a call;
    where another module reads the weight, it is computed there, at each reading.

    Args:
        module: the description; it is changed in place and returned. This works in a constructor and afterwards.
        tensor_name: its parameter or buffer; a tie of it to others stays, on the original.
        parametrization: an instance of your class.
        unsafe: whether it may change shape and dtype; True turns the checks off.

    Returns:
        The module.

    Raises:
        ValueError: no such parameter or buffer, a lazy one, or the parametrization does not keep shape and dtype.

    Differs from torch: nothing is computed here but shapes, so forward and right_inverse must be traceable. Params that
    the plain net has already are changed by `carry_over`. The class of the module stays; `repr` is torch's.
    `nn.init.normal_(module.weight)` sets how the weight starts, and is not lost.

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
    computed.place(module, one)
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module has a parametrization, of that name if one is given.

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
    """(net, params, state) with an ordinary leaf in place of a parametrized one. The net given stays as it is.

    Args:
        net: the description.
        tensor_name: the dotted name, as in "encoder.fc.weight"; `*` for the layers of a stack, all at once.
        params, state: of `net`.
        leave_parametrized: whether the leaf takes the computed value, as in eval; else the original's.

    Raises:
        ValueError: it is not parametrized; `leave_parametrized` is False and it is made of several arrays.

    Differs from torch: pure. There it is (module, tensor_name, leave_parametrized), and a spectral norm in training
    makes one more step at removal.

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

    def value(one: Computed, bound: Any) -> jax.Array:
        if leave_parametrized:
            return one.value(bound)
        made_of = bound.parametrizations[one.name]
        if not made_of.is_tensor:
            raise ValueError(
                f"{where}: {tensor_name!r} is made of {made_of.ntensors} arrays, none of which is the original; "
                "expected leave_parametrized=True, got False. Leave it parametrized."
            )
        return made_of.original

    return computed.take_out(net, tensor_name, params, state, Parametrized, where, value)


def carry_over(net: Module, params: Tree, state: Tree, rng: jax.Array) -> tuple[Tree, Tree]:
    """(params, state) of a net that has parametrizations, from those that it had without them.

    For weights that were trained or loaded before: every original becomes the right inverse of its weight. What the
    parametrizations keep beside it (the vectors of a spectral norm) starts as in `init`.

    Args:
        net: the description, parametrized.
        params, state: of the plain net.
        rng: a key, for what starts at random.

    Raises:
        ValueError: a leaf of `net` is not in the trees, or they hold one that is not in `net`.

    Differs from torch: torch does this when registering.

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
        if plain not in given and id(place.leaf) in tied:  # it lived there, and has its own name now
            given[plain] = given[tied[id(place.leaf)]]
        if plain not in given and "parametrizations" not in place.path.split("."):
            raise ValueError(
                f"{where}: the trees have no {plain!r}; expected those of the plain net, got {sorted(given)}. Give "
                "what its init or load_state_dict made before it was parametrized."
            )
    if set(given) - known:
        raise ValueError(
            f"{where}: the trees have leaves that the net does not have; expected {sorted(known)}, got "
            f"{sorted(set(given) - known)} besides. Give the params and state of this net."
        )
    return start(net, rng, {}, given)


def parametrizable(where: str, module: Module, tensor_name: str) -> Any:
    """The parameter, buffer or parametrized attribute of that name; else ValueError."""
    held = getattr(module, tensor_name, None)
    return held if isinstance(held, Parametrized) else own_leaf(where, module, tensor_name)


def _check_further(where: str, one: Computed, parametrization: Module) -> None:
    """Checks that a parametrization after others keeps shape and dtype."""
    given = jax.ShapeDtypeStruct(one.shape, one.dtype)
    out = abstract(parametrization, "forward", given)
    require_same("the parametrized tensor", "dtype", one.dtype, out.dtype)
    require_same("the parametrized tensor", "shape", one.shape, tuple(out.shape))
    back = abstract(parametrization, "right_inverse", out)
    if isinstance(back, list):
        raise ValueError(
            f"{where}: only the first parametrization may be made of several arrays; expected one array from "
            f"{type(parametrization).__name__}.right_inverse, got {len(back)}. Register that one first."
        )
    require_same("right_inverse", "dtype", one.dtype, back.dtype)
    require_same("right_inverse", "shape", one.shape, tuple(back.shape))


if not TYPE_CHECKING:
    __getattr__ = refusal("nn.utils.parametrize", __name__, ABSENT_PARAMETRIZE)
