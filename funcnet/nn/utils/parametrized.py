"""`ParametrizationList`, the parametrizations of an attribute, and `Parametrized`, the computed attribute itself."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.typing import DTypeLike

from funcnet.nn import init
from funcnet.nn.container import ModuleList
from funcnet.nn.core import binding
from funcnet.nn.core.call import Call
from funcnet.nn.core.module_tree import Node
from funcnet.nn.core.parameter import Buffer, Computed, Parameter
from funcnet.nn.inspection.hooks import RemovableHandle
from funcnet.nn.module.module import Module
from funcnet.tree import PyTree

__all__ = ["ParametrizationList", "Parametrized", "abstract", "described_dtype", "require_same"]


class ParametrizationList(ModuleList):
    """The parametrizations of one attribute, and the leaf or leaves (the originals) from which they compute the
    attribute.

    Args:
        modules: the parametrizations, in the order in which they are applied.
        original: description of the leaf that is parametrized.
        unsafe: whether the parametrizations may change the shape and dtype.

    `register_parametrization` makes this list, and stores it as ``module.parametrizations.weight``. A single original
    is the attribute `original` of the list. Several originals are the attributes `original0`, `original1`, ….

    Example:
        >>> from funcnet import nn
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
        >>> layer.parametrizations.weight.original0
        Parameter((2, 1), dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrize.ParametrizationList.html
    """

    original: Any

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False):
        if len(modules) == 0:
            raise ValueError("ParametrizationList: expected at least one parametrization, got none.")
        super().__init__(modules)
        self.unsafe = unsafe
        new: Any = jax.ShapeDtypeStruct(original.shape, original.dtype)
        for module in reversed(modules):
            if hasattr(module, "right_inverse"):
                new = abstract(module, "right_inverse", new)
        self.is_tensor = not isinstance(new, tuple | list)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            require_same("right_inverse(original)", "dtype", original.dtype, new.dtype)
            self.original = original
        else:
            for i, one in enumerate(new):
                setattr(self, f"original{i}", _beside(original, one))
        if not unsafe:
            result = self.result()
            require_same("the parametrized tensor", "dtype", original.dtype, result.dtype)
            require_same("the parametrized tensor", "shape", tuple(original.shape), tuple(result.shape))

    def forward(self) -> jax.Array:
        value = self[0](*self.originals())
        for module in list(self)[1:]:
            value = module(value)
        return value

    def originals(self) -> list[Any]:
        """Return the originals, from which the attribute is computed: arrays inside `forward`, else `Parameter`s or
        `Buffer`s.
        """
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def result(self) -> Any:
        """Return the shape and dtype of the array that `forward` returns."""
        given = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in self.originals()]
        for module in self:
            given = [abstract(module, "forward", *given)]
            if not hasattr(given[0], "shape"):
                raise ValueError(
                    f"A parametrization must return one array; expected an array, got {type(given[0]).__name__} from "
                    f"the forward of {type(module).__name__}."
                )
        return given[0]


class Parametrized(Computed):
    """A parametrized attribute. If it is computed from several originals, its `source`, the leaf that was parametrized,
    is no longer a part of the module.
    """

    mark = "Parametrized"
    old_names: RemovableHandle | None = None  # handle of the load pre-hook that reads older files
    assigned = False  # True: the source gives the initial output of all parametrizations, not their input

    def value(self, bound: Node) -> jax.Array:
        return bound.parametrizations[self.name]()

    def begin(self, bound: Node, draw: Callable[[Any], jax.Array]) -> None:
        made_of = bound.parametrizations[self.name]
        weight = made_of.original if made_of.is_tensor else draw(self.source)
        originals: Any = weight
        if self.assigned:
            for module in reversed(list(made_of)):
                originals = module.right_inverse(originals)
        else:
            originals = _inverse(made_of[0], originals)
        originals = [originals] if made_of.is_tensor else list(originals)
        for i, original in enumerate(originals):
            binding.put(made_of, "original" if made_of.is_tensor else f"original{i}", original)
        last = max((i for i, module in enumerate(made_of) if hasattr(module, "begin")), default=-1)
        for i, module in enumerate(list(made_of)[: last + 1]):
            if hasattr(module, "begin"):
                module.begin(weight)
            weight = module(*originals) if i == 0 else module(weight)

    def assign(self, module: Node, value: Any) -> None:
        for one in module.parametrizations[self.name]:
            if not hasattr(one, "right_inverse"):
                raise ValueError(
                    f"{type(module).__name__}.{self.name}: {type(one).__name__} does not implement right_inverse; "
                    "assigning a value requires right_inverse in every parametrization."
                )
        if not hasattr(value, "shape") or isinstance(value, (Module, Parameter, Buffer, Computed)):
            raise TypeError(
                f"{type(module).__name__}.{self.name}: this attribute is parametrized, so only an array (its new "
                f"initial value) can be assigned to it; got {type(value).__name__}. Remove the parametrization before "
                "you assign a parameter, buffer or module."
            )
        self.copy_(value)
        self.assigned = True

    def take_out(self, module: Node) -> Any:
        del module.parametrizations[self.name]
        if len(module.parametrizations) == 0:
            del module.parametrizations
        if self.old_names is not None:
            self.old_names.remove()
        return super().take_out(module)


def _beside(original: Parameter | Buffer, struct: jax.ShapeDtypeStruct) -> Any:
    """Return a new parameter or buffer, like `original` but with the shape and dtype of `struct`. `Parametrized.begin`
    sets its initial value.
    """
    dtype = described_dtype(struct.dtype, original.dtype)
    if isinstance(original, Parameter):
        return Parameter(struct.shape, init.zeros(), dtype=dtype, requires_grad=original.requires_grad)
    return Buffer(struct.shape, init.zeros(), dtype=dtype, persistent=original.persistent)


def abstract(module: Module, method: str, *given: PyTree) -> Any:
    """Return the shapes and dtypes of the arrays that a method of a parametrization returns. A parametrization without
    `right_inverse` is treated as if `right_inverse` were the identity.
    """
    kinds = []

    def run(key: jax.Array, *given: PyTree) -> Any:
        params, state = module.init(key)
        bound = binding.bind(module, params, state, Call(rng=key))
        out = _inverse(bound, *given) if method == "right_inverse" else bound(*given)
        kinds.append(type(out).__name__)
        several = isinstance(out, tuple | list) and method == "right_inverse"
        for one in out if several else [out]:
            if not isinstance(one, jax.Array):
                raise ValueError(
                    f"{type(module).__name__}.{method}: expected an array"
                    f"{' or several arrays' * (method != 'forward')}, got {type(one).__name__}."
                )
        return list(out) if several else out

    return jax.eval_shape(run, jax.random.key(0), *given)


def _inverse(module: Node, value: PyTree) -> Any:
    """Return `module.right_inverse(value)`, or `value` itself if the parametrization does not implement
    `right_inverse`.
    """
    if not hasattr(module, "right_inverse"):
        return value
    try:
        return module.right_inverse(value)
    except NotImplementedError:
        return value


def described_dtype(dtype: DTypeLike, original: DTypeLike) -> Any:
    """Return `dtype`, or the dtype `original` if the two differ only because x64 is disabled. A leaf remembers the
    dtype float64 even while its array is float32.
    """
    return original if jax.dtypes.canonicalize_dtype(original) == dtype else dtype


def require_same(what: str, quality: str, expected: Any, got: Any) -> None:
    """Raise ValueError if the shapes or dtypes `expected` and `got` differ. `quality` is "shape" or "dtype"."""
    if quality == "dtype":
        expected, got = jax.dtypes.canonicalize_dtype(expected), jax.dtypes.canonicalize_dtype(got)
    if expected != got:
        raise ValueError(
            f"parametrize.register_parametrization: {what} changes the {quality}; expected {expected}, got {got}. "
            f"Keep the {quality}, or set unsafe=True."
        )
