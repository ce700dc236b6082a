"""`Parameter` and `Buffer`, the leaves of a module, which describe arrays. No array is made before `Module.init`.

A `Parameter` describes an array that an optimizer updates. A `Buffer` describes an array of the state, such as running
statistics, a counter or a cache. `nn/init/in_place.py` implements the methods that constructors written for torch call
on leaves.
"""

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from funcnet.nn.core import stale_traces
from funcnet.nn.init import initialisers
from funcnet.nn.init.composed import NamedKey, Same, copied, dtype_in_jax, fixed, with_keys
from funcnet.nn.init.constant_arithmetic import Constant
from funcnet.nn.init.in_place import Clone, Initialised, shares
from funcnet.nn.init.initialisers import Init
from funcnet.random import is_key

__all__ = ["Buffer", "Computed", "Init", "Parameter", "copied"]

ShapeOrArray = int | Sequence[int] | jax.Array | np.ndarray | Initialised | None  # None: a shape that is not known yet

_ARRAY = "The array is in the params that net.init returns."
_VALUES = {
    "grad": "Gradients are returned by jax.grad of a function of params.",
    "backward": "Use jax.grad of a function of params.",
    "register_hook": "Change the gradients that jax.grad returns, or use nn.Hooks on the module.",
    **dict.fromkeys(("device", "is_cuda", "get_device"), "Only arrays have a device. Leave it out."),
    **dict.fromkeys(("numpy", "item", "tolist", "cpu", "cuda", "to", "sum", "mean", "norm", "T"), _ARRAY),
}


# The attributes of a leaf on which the compiled programs of its net depend. Users may set any other attribute as a tag.
_FIELDS = ("shape", "dtype", "init", "requires_grad", "persistent", "formerly")


class _Leaf(Initialised):
    """The base class of `Parameter` and `Buffer`. As in torch, code may set further attributes on a leaf, such as
    `p.no_decay = True`. Copies and pickles of the leaf keep these attributes.
    """

    def fields(self) -> list[Any]:
        """Return the attributes of this leaf on which the compiled programs of the net depend, such as the dtype."""
        return [vars(self).get(name) for name in _FIELDS]

    def __setattr__(self, name: str, value: object) -> None:
        if name == "requires_grad" and not isinstance(value, bool | np.bool_):
            raise TypeError(f"Parameter: requires_grad must be a bool; expected True or False, got {value!r:.40}.")
        if name == "init":
            stale_traces.warn_of_init(self)
        elif name in _FIELDS and vars(self).get(name, value) is not value:
            stale_traces.warn_of_change(self, name)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        advice = _VALUES.get(name)
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(f"{text}. It describes an array and has no values. {advice}" if advice else text)

    def __init__(self, shape_or_array: Any, init: Init | None, dtype: DTypeLike | None):
        self.formerly: tuple[str, str] | None = None  # (the end of its name, the end of its former name)
        try:  # only for the error of np.dtype, which does not know the dtypes of random keys
            dtype is None or jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key) or np.dtype(dtype)
        except TypeError:
            raise TypeError(
                f"{type(self).__name__}: dtype is unknown; expected a dtype such as jnp.float32, got {dtype!r:.60}."
            ) from None
        self.shape: tuple[int, ...] | None
        if shape_or_array is None:  # a lazy leaf
            self.shape, self.init, self.dtype = None, init, dtype or jnp.float32
        elif isinstance(shape_or_array, int | np.integer):
            self.shape, self.init, self.dtype = (int(shape_or_array),), init, dtype or jnp.float32
        elif isinstance(shape_or_array, Sequence) and all(isinstance(n, int | np.integer) for n in shape_or_array):
            self.shape, self.init, self.dtype = tuple(map(int, shape_or_array)), init, dtype or jnp.float32
        elif hasattr(shape_or_array, "shape"):
            if init is not None:
                raise TypeError(
                    f"{type(self).__name__}: the initial value is already given by an array; expected no init."
                )
            array = shape_or_array
            if isinstance(array, Initialised) and not isinstance(array.origin, Clone):  # a leaf, or a part of one
                raise shares(type(self).__name__, array)
            if not isinstance(array, jax.Array | Initialised):  # a NumPy array, or a tensor of torch
                array = np.asarray(array)
            self.shape, self.dtype = tuple(array.shape), dtype or array.dtype
            self.init = Same(array) if isinstance(array, Initialised) else functools.partial(fixed, array=array)
        else:
            raise TypeError(
                f"{type(self).__name__}: expected a shape (a tuple of ints) or an array, got {shape_or_array!r:.60}. "
                "Pass the shape as one tuple of ints. If a size comes from a division, use //."
            )
        if init is not None and not callable(init):
            raise TypeError(
                f"{type(self).__name__}: init is not a function; expected a function of (key, shape, dtype), got "
                f"{init!r:.60}. Pass the shape as one tuple."
            )
        if self.shape is not None and min(self.shape, default=0) < 0:
            raise ValueError(
                f"{type(self).__name__}: a size is negative; expected sizes of at least 0, got {self.shape}."
            )

    def key_name(self, name: str) -> str:
        """Return the name that determines the leaf's random key: the former name of a renamed leaf, else `name`."""
        if self.formerly is None or not f".{name}".endswith(f".{self.formerly[0]}"):
            return name
        return name.removesuffix(self.formerly[0]) + self.formerly[1]

    def start(
        self,
        key: jax.Array,
        name: str,
        shape: tuple[int, ...] | None = None,
        known: Callable[[Any], NamedKey | None] = lambda source: None,
    ) -> jax.Array:
        """Return the initial array of this leaf.

        Args:
            key: random key for the initial value of this leaf.
            name: name of this leaf in the net, for error messages.
            shape: shape of the array if the leaf is lazy.
            known: as in `inits.with_keys`. If this leaf is a copy of another leaf, `known` returns the name and key of
                that leaf.

        Raises:
            ValueError: if the shape or the init function is not known, or the init function returns an array of another
                shape.
        """
        shape = self.shape if self.shape is not None else shape
        if shape is None:
            raise ValueError(f"init: the shape of {name!r} is not known. Pass an example input: init(rng, x).")
        if self.init is None:
            raise ValueError(
                f"init: {name!r} has no init. Pass an init to {type(self).__name__}(shape, init), or set it with "
                "nn.init."
            )
        dtype = dtype_in_jax(self.dtype)
        try:
            value = with_keys(self.init, known)(key, shape, dtype)
        except OverflowError as error:
            raise ValueError(f"init: {name!r} {error}") from None
        if is_key(value) and value.dtype != dtype:
            raise ValueError(
                f"init: the init of {name!r} returned a random key; expected an array of {dtype}, got {value.dtype}. "
                f"Pass dtype=jax.random.key(0).dtype to {type(self).__name__}."
            )
        value = jnp.asarray(value, dtype)
        if value.shape != shape:
            raise ValueError(f"init: the init of {name!r} returned shape {value.shape}; expected {shape}.")
        return value

    def _resize(self, shape: tuple[int, ...], dtype: DTypeLike | None) -> None:
        if shape != self.shape:
            self.shape = shape
        if dtype is not None and dtype != self.dtype:
            self.dtype = dtype

    def another(self) -> Any:
        """Return a copy of this leaf with the same initial value. Even if this leaf is shared, the copy is a separate
        leaf.
        """
        return copy.copy(self)


class Parameter(_Leaf):
    """The description of a learned array: `Parameter(shape, init)`, or `Parameter(array)` for a fixed initial value.

    Args:
        data: shape (ints), or the initial array.
        init: function that is called as ``init(key, shape, dtype)``. `nn.init` has torch's initialisers.
        dtype: dtype of the array. The default is the dtype of `data` if it is an array, else float32.
        requires_grad: if False, the parameter is frozen. The gradient of a frozen parameter is zero and costs nothing.

    Differs from torch: a `Parameter` has no array. Pass a shape in place of `torch.empty(shape)`.

    Example:
        >>> from funcnet import nn
        >>> p = nn.Parameter((3, 4), nn.init.xavier_uniform())
        >>> p.shape, p.numel(), p.requires_grad
        ((3, 4), 12, True)
    """

    def __init__(
        self,
        data: ShapeOrArray,
        init: Init | None = None,
        *,
        dtype: DTypeLike | None = None,
        requires_grad: bool = True,
    ):
        super().__init__(data, init, dtype)
        if requires_grad and not jnp.issubdtype(self.dtype, jnp.inexact):
            raise TypeError(
                "Parameter: this dtype does not support gradients; expected a floating or complex dtype, got "
                f"{self.dtype}. Use nn.Buffer, or requires_grad=False."
            )
        self.requires_grad = requires_grad

    def requires_grad_(self, requires_grad: bool = True) -> "Parameter":
        self.requires_grad = requires_grad
        return self


class Buffer(Constant, _Leaf):
    """The description of an array of state, which has no gradient: `Buffer(shape, init)` or `Buffer(array)`.

    Args:
        data: shape (ints), or the initial array.
        init: function that is called as ``init(key, shape, dtype)``. The default is zeros.
        persistent: whether `state_dict` contains the buffer.
        dtype: dtype of the array. The default is the dtype of `data` if it is an array, else float32. If x64 is
            disabled in JAX, the array of an int64 buffer is int32, and `state_dict` converts it to int64.

    In a constructor, a buffer that starts as an array or a constant can be used like this array: `2 * self.index`. To
    pass the array to a function, write `self.index.value`.

    Example:
        >>> from funcnet import nn
        >>> nn.Buffer((3,)).persistent
        True
    """

    def __init__(
        self, data: ShapeOrArray, init: Init | None = None, *, persistent: bool = True, dtype: DTypeLike | None = None
    ):
        if init is None and not hasattr(data, "shape"):
            init = initialisers.zeros()
        super().__init__(data, init, dtype)
        self.persistent = persistent

    @property
    def value(self) -> jax.Array:
        """The initial array of a buffer that starts as an array or a constant, for constructors that compute with it.

        Raises:
            TypeError: if the initial array is not known before `init`, or if `init` has already made the net's values.

        Example:
            >>> import jax.numpy as jnp
            >>> from funcnet import nn
            >>> (2 * nn.Buffer(jnp.ones(2)).value).tolist()
            [2.0, 2.0]
        """
        init: Any = self.init
        is_array = isinstance(init, functools.partial) and init.func is fixed
        known = (is_array or initialisers.is_constant(init)) and self not in stale_traces.STARTED
        if not known or self.shape is None:
            raise TypeError(
                f"{self!r} is a description and has no values; expected an array, or in a constructor a buffer that "
                "starts as an array or a constant. The arrays are in the params and state that net.init returns. "
                "Inside forward, they are attributes of the modules."
            )
        dtype = dtype_in_jax(self.dtype)
        return jnp.asarray(init(jax.random.key(0), self.shape, dtype), dtype)


class Computed(Initialised):
    """The description of an attribute that is computed from other leaves, such as a normalised or pruned weight.

    A computed attribute is not a leaf, so params and state have no entry for it. Inside `forward`, the attribute is the
    computed array, which is computed once per call of its module. If code reads the attribute while its module is not
    running, the array is computed again.

    Args:
        name: name of the attribute.
        source: leaf that gives the initial value. `nn.init` on this attribute sets the init of `source`.
        shape, dtype: shape and dtype of the computed array.
        leaves: leaves from which the array is computed. The default is `source` alone.
    """

    can_be_copied = False
    mark = ""  # the text before the module's class in `repr`

    def __init__(
        self, name: str, source: Any, shape: tuple[int, ...], dtype: DTypeLike, leaves: Sequence[_Leaf] | None = None
    ):
        self.name, self.source, self.shape, self.dtype = name, source, shape, dtype
        self.leaves = (source,) if leaves is None else tuple(leaves)

    @property
    def init(self) -> Init | None:
        return self.source.init

    @init.setter
    def init(self, new: Init | None) -> None:
        self.source.init = new

    @property
    def requires_grad(self) -> bool:
        return any(getattr(leaf, "requires_grad", False) for leaf in self.leaves)

    def value(self, bound: Any) -> jax.Array:
        """Compute the array of this attribute from the leaves of the bound module that has the attribute."""
        raise NotImplementedError

    def begin(self, bound: Any, draw: Callable[[_Leaf], jax.Array]) -> None:
        """Set the leaves of the bound module so that the computed array starts with the initial value of its source.

        `draw(leaf)` returns the initial value of a leaf.
        """

    def assign(self, module: Any, value: object) -> None:
        """Carry out the assignment of `value` to this attribute of `module`, outside of `forward`. Raise TypeError,
        unless a subclass overrides this method.
        """
        raise TypeError(
            f"{type(module).__name__}.{self.name}: this attribute is computed from other leaves, so nothing can be "
            f"assigned to it; got {type(value).__name__}. Set its initial value with nn.init, or remove the "
            "computation first."
        )

    def take_out(self, module: Any) -> Any:
        """Replace this computed attribute of `module` by an ordinary parameter or buffer, and return the latter.

        If the attribute is computed from its source, the source itself becomes the attribute and stays shared.
        Otherwise, a copy of the source becomes the attribute, because other modules may still use the source with a
        different value.
        """
        leaf = self.source if any(one is self.source for one in self.leaves) else self.source.another()
        if isinstance(leaf, Parameter):
            leaf.requires_grad = self.requires_grad
        leaf.formerly = None
        del vars(module)[self.name]
        setattr(module, self.name, leaf)
        return leaf
