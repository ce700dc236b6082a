"""The pruning methods of `prune.py`: how masks are chosen and where they are stored.

A pruning method runs outside `jit`. Its arguments are two NumPy arrays: the values to compare, and the current mask,
which is 1 for the remaining entries. A new method is a subclass of `BasePruningMethod` with `PRUNING_TYPE` and
`compute_mask`, as in torch.
"""

import functools
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from funcnet.functional import checks
from funcnet.nn import init
from funcnet.nn.core import binding
from funcnet.nn.core.module_tree import Node, values
from funcnet.nn.core.parameter import Buffer, Parameter
from funcnet.nn.module import computed_attributes
from funcnet.nn.module.module import Module
from funcnet.nn.utils.renamed import Renamed, own_leaf, rename
from funcnet.tree import Tree

Result = tuple[Any, Tree, Tree]
Rng = jax.Array | None

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PrunedWeight",
    "RandomStructured",
    "RandomUnstructured",
    "apply_mask",
    "comparable",
]


class BasePruningMethod(ABC):
    """The base class of pruning methods. `PRUNING_TYPE` defines which entries `compute_mask` receives.

    - 'unstructured': the entries that are not pruned yet, flattened if the parameter was pruned before;
    - 'structured': the channels of dimension `self.dim` that are not entirely pruned;
    - 'global': all entries.

    Example:
        >>> class Negative(BasePruningMethod):
        ...     PRUNING_TYPE = "unstructured"
        ...     def compute_mask(self, t, default_mask):
        ...         return default_mask * (t >= 0)
        >>> Negative().prune(np.array([1.0, -2.0]))
        array([ 1., -0.])

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.prune.BasePruningMethod.html
    """

    PRUNING_TYPE = "unstructured"
    dim: int

    @abstractmethod
    def compute_mask(self, t: np.ndarray, default_mask: np.ndarray) -> np.ndarray:
        """Return the new mask (with the shape of `t`), which is `default_mask` with 0 for each entry to prune now."""

    @classmethod
    def apply(
        cls,
        net: Module,
        name: str,
        params: Tree,
        state: Tree,
        *args: Any,
        importance_scores: ArrayLike | None = None,
        **kwargs: Any,
    ) -> Result:
        """Return (net, params, state) after the method ``cls(*args, **kwargs)`` has pruned the parameter `name`, a
        dotted name.
        """

        def make(index: tuple[int, ...]) -> BasePruningMethod:
            if index and kwargs.get("rng") is not None:  # every layer of a stack draws its own
                return cls(*args, **{**kwargs, "rng": functools.reduce(jax.random.fold_in, index, kwargs["rng"])})
            return cls(*args, **kwargs)

        return apply_mask(net, name, params, state, make, importance_scores)

    def prune(
        self, t: ArrayLike, default_mask: ArrayLike | None = None, importance_scores: ArrayLike | None = None
    ) -> np.ndarray:
        """Return `t` with zeros for the entries that this method prunes."""
        t = np.asarray(t)
        mask = np.ones_like(t) if default_mask is None else np.asarray(default_mask)
        return t * self.compute_mask(comparable("t", importance_scores, t), mask)

    def combined(self, t: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Return the mask after this method has pruned some of the entries that remain in `mask`."""
        chosen: Any
        if self.PRUNING_TYPE == "unstructured":
            chosen = mask == 1
        elif self.PRUNING_TYPE == "structured":
            dim = _dimension(self.dim, t)
            chosen = [slice(None)] * t.ndim
            chosen[dim] = mask.sum(tuple(i for i in range(t.ndim) if i != dim)) != 0
            chosen = tuple(chosen)
        elif self.PRUNING_TYPE == "global":
            chosen = ...
        else:
            raise ValueError(
                f"{type(self).__name__}: PRUNING_TYPE is unknown; expected 'unstructured', 'structured' or 'global', "
                f"got {self.PRUNING_TYPE!r}."
            )
        new = mask.copy()
        new[chosen] = self.compute_mask(t[chosen], mask[chosen])
        return new


class Identity(BasePruningMethod):
    """Prunes nothing. The parameter gets a mask of ones.

    Example:
        >>> Identity().prune([3.0, -1.0])
        array([ 3., -1.])
    """

    def compute_mask(self, t: np.ndarray, default_mask: np.ndarray) -> np.ndarray:
        return default_mask


class CustomFromMask(BasePruningMethod):
    """Prunes the entries for which `mask` is zero.

    Args:
        mask: array with the shape of the parameter.

    Raises:
        ValueError: when a parameter of another shape is pruned.

    Example:
        >>> CustomFromMask([1, 0]).prune([3.0, -1.0])
        array([ 3., -0.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: ArrayLike):
        self.mask = np.asarray(mask)

    def compute_mask(self, t: np.ndarray, default_mask: np.ndarray) -> np.ndarray:
        if default_mask.shape != self.mask.shape:
            raise ValueError(
                f"prune.CustomFromMask: the mask has the wrong shape; expected {default_mask.shape}, got "
                f"{self.mask.shape}. Pass one number per entry of the parameter."
            )
        return default_mask * self.mask.astype(default_mask.dtype)


class _Unstructured(BasePruningMethod):
    def __init__(self, amount: float, rng: Rng = None):
        _check_amount(amount)
        self.amount, self.rng = amount, rng

    def _order(self, t: np.ndarray) -> np.ndarray:
        """Return the flat indices of the entries of `t`, in the order in which they are pruned."""
        raise NotImplementedError

    def compute_mask(self, t: np.ndarray, default_mask: np.ndarray) -> np.ndarray:
        count = _count(self.amount, t.size)
        mask = default_mask.copy()
        if count:
            mask.reshape(-1)[self._order(t)[:count]] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Prunes `amount` entries at random.

    Args:
        amount: number of entries to prune (an int), or a fraction of the remaining entries (a float from 0 to 1).
        rng: random key.

    Example:
        >>> pruned = RandomUnstructured(2, jax.random.key(0)).prune([3.0, 1.0, 2.0, 4.0])
        >>> int((pruned == 0).sum())
        2
    """

    def _order(self, t: np.ndarray) -> np.ndarray:
        return np.asarray(jax.random.permutation(checks.key("prune.RandomUnstructured", self.rng), t.size))


class L1Unstructured(_Unstructured):
    """Prunes the `amount` entries with the smallest absolute values. Among equal values, the first are pruned.

    Args:
        amount: number of entries to prune (an int), or a fraction of the remaining entries (a float from 0 to 1).

    Example:
        >>> L1Unstructured(0.5).prune([3.0, -1.0, 2.0, 4.0])
        array([ 3., -0.,  0.,  4.])
    """

    def __init__(self, amount: float):
        super().__init__(amount)

    def _order(self, t: np.ndarray) -> np.ndarray:
        return np.argsort(np.abs(t).reshape(-1), kind="stable")


class _Structured(BasePruningMethod):
    PRUNING_TYPE = "structured"
    amount: float

    def _order(self, t: np.ndarray, dim: int) -> np.ndarray:
        """Return the indices of the channels, in the order in which they are pruned."""
        raise NotImplementedError

    def compute_mask(self, t: np.ndarray, default_mask: np.ndarray) -> np.ndarray:
        if t.ndim <= 1:
            raise ValueError(
                f"prune.{type(self).__name__}: a vector has no channels; expected at least 2 dimensions, got shape "
                f"{t.shape}. Prune its entries with an unstructured method."
            )
        dim = _dimension(self.dim, t)
        count = _count(self.amount, t.shape[dim])
        mask = default_mask.copy()
        if count:
            np.moveaxis(mask, dim, 0)[self._order(t, dim)[:count]] = 0
        return mask


class RandomStructured(_Structured):
    """Prunes `amount` channels of dimension `dim` at random.

    Args:
        amount: number of channels to prune (an int), or a fraction of the remaining channels (a float from 0 to 1).
        dim: the dimension whose entries are channels.
        rng: random key.

    Example:
        >>> pruned = RandomStructured(1, dim=0, rng=jax.random.key(0)).prune(np.ones((3, 2)))
        >>> sorted(pruned.sum(1).tolist())
        [0.0, 2.0, 2.0]
    """

    def __init__(self, amount: float, dim: int = -1, rng: Rng = None):
        _check_amount(amount)
        self.amount, self.dim, self.rng = amount, dim, rng

    def _order(self, t: np.ndarray, dim: int) -> np.ndarray:
        return np.asarray(jax.random.permutation(checks.key("prune.RandomStructured", self.rng), t.shape[dim]))


class LnStructured(_Structured):
    """Prunes the `amount` channels of dimension `dim` with the smallest norms, and among equal norms the first ones.

    Args:
        amount: number of channels to prune (an int), or a fraction of the remaining channels (a float from 0 to 1).
        n: the norm of a channel: a number p for the p-norm of its entries, "fro" for p = 2, or "nuc" for the nuclear
            norm.
        dim: the dimension whose entries are channels.

    Example:
        >>> LnStructured(1, n=2, dim=0).prune([[3.0, 1.0], [2.0, 0.0], [0.0, 4.0]])
        array([[3., 1.],
               [0., 0.],
               [0., 4.]])
    """

    def __init__(self, amount: float, n: float | str, dim: int = -1):
        _check_amount(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def _order(self, t: np.ndarray, dim: int) -> np.ndarray:
        return np.argsort(self._norms(np.moveaxis(t, dim, 0)), kind="stable")

    def _norms(self, channels: np.ndarray) -> np.ndarray:
        if self.n == "nuc":
            if channels.ndim != 3:
                raise ValueError(
                    "prune.LnStructured: the nuclear norm requires matrices; expected 2 dimensions in addition to dim, "
                    f"got {channels.ndim - 1}."
                )
            return np.linalg.norm(channels, "nuc", axis=(1, 2))
        p = 2.0 if self.n == "fro" else float(self.n)
        rows = np.abs(channels.reshape(len(channels), -1))
        if p == 0:
            return (rows != 0).sum(1)
        if math.isinf(p):
            return rows.max(1) if p > 0 else rows.min(1)
        with np.errstate(divide="ignore"):  # 0 to a negative power is infinity, whose inverse is 0
            return (rows**p).sum(1) ** (1 / p)


# ------------------------------------------------------------------------------------------------ where masks live


class PrunedWeight(Renamed):
    """A pruned weight, which is computed as the product ``weight_orig * weight_mask``."""

    def value(self, bound: Node) -> jax.Array:
        original, mask = (getattr(bound, name) for name in self.names)
        return mask.astype(original.dtype) * original


def apply_mask(
    net: Module,
    name: str,
    params: Tree,
    state: Tree,
    make: Callable[[tuple[int, ...]], BasePruningMethod],
    importance_scores: ArrayLike | None = None,
) -> Result:
    """Update the mask of the parameter `name`, and return (net, params, state). The pruning method for each layer of a
    stack is ``make(index of the layer)``.
    """
    path, _, attribute = name.rpartition(".")
    before = isinstance(getattr(net.get_submodule(path), attribute, None), PrunedWeight)
    if not before:
        net, params, state = computed_attributes.put_in(net, name, params, state, _give_mask)
    whole = binding.bind(net, params, state)
    original = getattr(whole.get_submodule(path), f"{attribute}_orig")
    scores = None if importance_scores is None else comparable(name, importance_scores, original)

    def change(bound: Node, index: tuple[int, ...]) -> None:
        original, mask = (np.asarray(getattr(bound, f"{attribute}_{kind}")) for kind in ("orig", "mask"))
        method = make(index)
        t = comparable(name, None, original * mask) if scores is None else scores[index]
        new = method.combined(t, mask) if before else method.compute_mask(t, mask)
        binding.put(bound, f"{attribute}_mask", jnp.asarray(new, mask.dtype))

    computed_attributes.each_layer(whole, path, change)
    return net, *values(whole)


def _give_mask(module: Module, attribute: str) -> None:
    leaf = own_leaf("prune", module, attribute)
    if not isinstance(leaf, Parameter):
        raise ValueError(
            f"prune: {attribute!r} of {type(module).__name__} is a buffer; expected a parameter, got {leaf}. "
            "Only parameters can be pruned."
        )
    one = PrunedWeight(attribute, rename(module, attribute, f"{attribute}_orig"), leaf.size(), leaf.dtype)
    one.names = (f"{attribute}_orig", f"{attribute}_mask")
    module.register_buffer(one.names[1], Buffer(leaf.shape, init.ones(), dtype=leaf.dtype))
    computed_attributes.place(module, one)


def comparable(name: str, importance_scores: ArrayLike | None, t: ArrayLike) -> np.ndarray:
    """Return `importance_scores`, or `t` if the scores are None, as a NumPy array with at least 32 bits per number."""
    if importance_scores is not None and np.shape(importance_scores) != np.shape(t):
        raise ValueError(
            f"prune: the importance_scores of {name!r} have the wrong shape; expected {np.shape(t)}, got "
            f"{np.shape(importance_scores)}. Pass one number per entry of the parameter."
        )
    array = np.asarray(t if importance_scores is None else importance_scores)
    return array.astype(np.float32) if array.dtype.itemsize < 4 else array


def _check_amount(amount: float) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"prune: amount has the wrong type; expected int or float, got {type(amount).__name__}.")
    if float(amount) < 0 or (not isinstance(amount, numbers.Integral) and float(amount) > 1):
        raise ValueError(
            f"prune: amount is out of range; expected a count of at least 0, or a fraction in [0, 1], got {amount}. "
            "Pass a count as an int, or a fraction as a float."
        )


def _count(amount: float, size: int) -> int:
    """Return the number of entries to prune, if `size` entries remain and `amount` is a number or a fraction of these
    entries.
    """
    count = int(amount) if isinstance(amount, numbers.Integral) else round(float(amount) * size)
    if count > size:
        raise ValueError(
            f"prune: amount is too large; expected at most {size}, the number of remaining entries, got {amount}."
        )
    return count


def _dimension(dim: int, t: np.ndarray) -> int:
    if not -t.ndim <= dim < t.ndim:
        raise ValueError(f"prune: dim is out of range; expected {-t.ndim} to {t.ndim - 1}, got {dim}.")
    return dim % t.ndim
