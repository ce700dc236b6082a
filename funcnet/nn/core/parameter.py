"""The leaves of a description, with their shape, dtype and init. No array is made before `Module.init`.

An optimizer updates a `Parameter`. A `Buffer` is state (running statistics, counters, caches). `initialised.py`
implements the methods that constructors written for torch call on them.
"""

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.nn import init as initialisers
from funcnet.nn.core import notes
from funcnet.nn.core.initialised import Init, Initialised, copied, fixed

__all__ = ["Buffer", "Computed", "Init", "Parameter", "copied"]

_ARRAY = "The array is in the params that net.init returns."
_VALUES = {
    "grad": "Gradients are returned by jax.grad of a function of params.",
    "backward": "Use jax.grad of a function of params.",
    **dict.fromkeys(("detach", "numpy", "item", "tolist", "cpu", "cuda", "to", "sum", "mean", "norm", "T"), _ARRAY),
}


class _Leaf(Initialised):
    def __setattr__(self, name: str, value: Any) -> None:
        if name == "requires_grad" and not isinstance(value, bool | np.bool_):
            raise TypeError(f"Parameter: requires_grad must be a bool; expected True or False, got {value!r:.40}.")
        if name == "init":
            notes.warn_of_init(self)
        elif vars(self).get(name, value) is not value:
            notes.warn_of_change(self, name)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        advice = _VALUES.get(name)
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(f"{text}. It describes an array and has no values. {advice}" if advice else text)

    @property
    def aval(self) -> Any:
        """The attribute that JAX reads when a description is used as an array."""
        raise TypeError(
            f"{self!r} is a description and has no values; expected an array. The arrays are in the params and state "
            "that net.init returns. Inside forward, they are attributes of the modules. Parameters in a plain list "
            "are not replaced by arrays: use nn.ParameterList."
        )

    def __jax_array__(self) -> Any:
        return self.aval

    def __init__(self, shape_or_array: Any, init: Init | None, dtype: Any):
        self.formerly: tuple[str, str] | None = None  # (the end of its name, the end of its former name)
        try:
            dtype is None or np.dtype(dtype)
        except TypeError:
            raise TypeError(
                f"{type(self).__name__}: dtype is unknown; expected a dtype such as jnp.float32, got {dtype!r:.60}."
            ) from None
        self.shape: tuple[int, ...] | None
        if shape_or_array is None:
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
            array = shape_or_array if isinstance(shape_or_array, jax.Array) else np.asarray(shape_or_array)
            self.shape, self.dtype = tuple(array.shape), dtype or array.dtype
            self.init = functools.partial(fixed, array=array)
        else:
            raise TypeError(
                f"{type(self).__name__}: expected a shape (a tuple of ints) or an array, got {shape_or_array!r:.60}. "
                "Pass the shape as one tuple of ints. A size that comes from a division needs //."
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
        """Return the name from which the leaf's key is folded. For a renamed leaf, it is the earlier name."""
        if self.formerly is None or not f".{name}".endswith(f".{self.formerly[0]}"):
            return name
        return name.removesuffix(self.formerly[0]) + self.formerly[1]

    def start(self, key: jax.Array, name: str, shape: tuple[int, ...] | None = None) -> jax.Array:
        """Return the initial array of this leaf."""
        shape = self.shape if self.shape is not None else shape
        if shape is None:
            raise ValueError(f"init: the shape of {name!r} is not known. Pass an example input: init(rng, x).")
        if self.init is None:
            raise ValueError(
                f"init: {name!r} has no init. Pass an init to {type(self).__name__}(shape, init), or set it with "
                "nn.init."
            )
        dtype = jax.dtypes.canonicalize_dtype(self.dtype)
        try:
            value = jnp.asarray(self.init(key, shape, dtype), dtype)
        except OverflowError as error:
            raise ValueError(f"init: {name!r} {error}") from None
        if value.shape != shape:
            raise ValueError(f"init: the init of {name!r} returned shape {value.shape}; expected {shape}.")
        return value

    def another(self) -> Any:
        """Return a copy of this leaf with the same initial value. The copy is not shared."""
        return copy.copy(self)

    def __repr__(self) -> str:
        shape = "lazy" if self.shape is None else self.shape
        return f"{type(self).__name__}({shape}, dtype={np.dtype(self.dtype).name})"


class Parameter(_Leaf):
    """The description of a learned array: `Parameter(shape, init)`, or `Parameter(array)` for a fixed initial value.

    Args:
        data: shape (ints), or the initial array.
        init: function that is called as ``init(key, shape, dtype)``. `nn.init` has torch's initialisers.
        dtype: dtype of the array. The default is the dtype of `data` if it is an array, else float32.
        requires_grad: if False, the parameter is frozen. Its gradient is then zero and costs nothing.

    Differs from torch: a `Parameter` has no array. Pass a shape in place of `torch.empty(shape)`.

    Example:
        >>> from funcnet import nn
        >>> p = nn.Parameter((3, 4), nn.init.xavier_uniform())
        >>> p.shape, p.numel(), p.requires_grad
        ((3, 4), 12, True)
    """

    def __init__(self, data: Any, init: Init | None = None, *, dtype: Any = None, requires_grad: bool = True):
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


class Buffer(_Leaf):
    """The description of an array of state, which has no gradient: `Buffer(shape, init)` or `Buffer(array)`.

    Args:
        data: shape (ints), or the initial array.
        init: function that is called as ``init(key, shape, dtype)``. The default is zeros.
        persistent: whether `state_dict` contains the buffer.
        dtype: dtype of the array. The default is the dtype of `data` if it is an array, else float32. Without x64,
            int64 counters are int32 in JAX, and `state_dict` widens them again.

    Example:
        >>> from funcnet import nn
        >>> nn.Buffer((3,)).persistent
        True
    """

    def __init__(self, data: Any, init: Init | None = None, *, persistent: bool = True, dtype: Any = None):
        if init is None and not hasattr(data, "shape"):
            init = initialisers.zeros()
        super().__init__(data, init, dtype)
        self.persistent = persistent


class Computed(Initialised):
    """The description of an attribute that is computed from other leaves, such as a normalised or pruned weight.

    The attribute is not a part and has no name in params or state. Inside `forward`, it is the computed array. It is
    computed once per call of its module. If another module reads the attribute, it is computed at every read.

    Args:
        name: name of the attribute.
        source: leaf that gives the initial value. `nn.init` on this attribute sets the init of `source`.
        shape, dtype: shape and dtype of the computed array.
        leaves: leaves from which the array is computed. The default is `source` alone.
    """

    mark = ""  # the text before the module's class in `repr`

    def __init__(
        self, name: str, source: Any, shape: tuple[int, ...], dtype: Any, leaves: Sequence[_Leaf] | None = None
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
        """Return the computed array, for the bound module that has this attribute."""
        raise NotImplementedError

    def begin(self, bound: Any, draw: Callable[[_Leaf], jax.Array]) -> None:
        """Set the leaves of the bound module so that the computed array starts with the initial value of its source.

        `draw(leaf)` returns the initial value of a leaf.
        """

    def assign(self, module: Any, value: Any) -> None:
        """Carry out `module.name = value` on a description."""
        raise TypeError(
            f"{type(module).__name__}.{self.name}: this attribute is computed from other leaves, so nothing can be "
            f"assigned to it; got {type(value).__name__}. Set its initial value with nn.init, or remove the "
            "computation first."
        )

    def take_out(self, module: Any) -> Any:
        """Put a leaf back in place of this attribute in the description, and return the leaf.

        If the source is one of the leaves, the source itself is put back and stays shared. Otherwise a copy of it is
        put back, because other modules may still have the source with another value.
        """
        leaf = self.source if any(one is self.source for one in self.leaves) else self.source.another()
        if isinstance(leaf, Parameter):
            leaf.requires_grad = self.requires_grad
        leaf.formerly = None
        del vars(module)[self.name]
        setattr(module, self.name, leaf)
        return leaf

    def __repr__(self) -> str:
        return f"{type(self).__name__.strip('_')}({self.shape}, dtype={np.dtype(self.dtype).name})"
