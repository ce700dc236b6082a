"""Describes what is known about the value of an expression in a torch source: its kind and, for a tensor, its dtype and
sizes.

A run of the torch model records a fact for every expression (`running/recording.py`). For code that the run did not
reach, facts are inferred from the source alone (`analysis/type_inference.py`). The conditions of rules read the `is_…`
attributes of a fact, which are True, False, or None for "not known".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = [
    "BOOL", "DICT", "FLOAT", "INT", "INTS", "KINDS", "LIST", "METADATA", "NONE", "STR", "TENSOR", "TUPLE", "UNKNOWN",
    "Fact", "Span", "fact_of", "is_tensor", "join",
]  # fmt: skip

# Attributes of a tensor that do not depend on its values.
METADATA = frozenset(["shape", "ndim", "dtype", "device", "size", "numel", "dim", "nelement", "requires_grad"])
Span = tuple[int, int, int, int]  # first line (from 1), first column (from 0), last line, column after the end

KINDS = (
    "tensor",  # torch.Tensor
    "parameter",  # torch.nn.Parameter: a tensor in forward, a description in a constructor
    "module",  # an instance of torch.nn.Module
    "int",
    "float",
    "bool",
    "complex",
    "str",
    "none",
    "tuple",  # torch.Size and named tuples too
    "list",
    "dict",
    "set",
    "slice",
    "ellipsis",
    "dtype",
    "device",
    "array",  # numpy.ndarray or a NumPy scalar
    "function",
    "class",
    "other",
)


@dataclasses.dataclass(frozen=True)
class Fact:
    """What is known about the value of an expression. An empty `kinds` means that nothing is known.

    Attributes:
        kinds: the kinds that the value may have.
        dtype: dtype of a tensor or an array, such as "float32". "" if it is unknown or not always the same.
        shape: sizes of a tensor or an array, with None for a size that is not always the same. None if the number of
            dimensions is unknown.
        items: facts of the items of a tuple or list of known length.
        name: the qualified name of a class, a function or a dtype. For a module or another object, the qualified name
            of its class. For a torch.Size, "sizes".
    """

    kinds: frozenset[str] = frozenset()
    dtype: str = ""
    shape: tuple[int | None, ...] | None = None
    items: tuple[Fact, ...] | None = None
    name: str = ""

    def is_only(self, *kinds: str) -> bool | None:
        """Return whether the described value is always of one of the given kinds, or None if nothing is known about it.

        >>> Fact(frozenset({"int", "none"})).is_only("int"), Fact().is_only("int")
        (False, None)
        """
        return self.kinds <= set(kinds) if self.kinds else None

    @property
    def is_tensor(self) -> bool | None:
        """Whether the value is a tensor whenever it is not None. If the value is always None, the result is False."""
        return self.is_only("tensor", "parameter", "none") if self.kinds != {"none"} else False

    @property
    def ndim(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def is_floating(self) -> bool | None:
        return self.dtype.startswith(("float", "bfloat")) if self.dtype else None

    @property
    def is_integral(self) -> bool | None:
        return self.dtype.startswith(("int", "uint")) if self.dtype else None

    @property
    def is_boolean(self) -> bool | None:
        return self.dtype == "bool" if self.dtype else None


UNKNOWN = Fact()
TENSOR, INT, FLOAT, BOOL = (Fact(frozenset({kind})) for kind in ("tensor", "int", "float", "bool"))
STR, NONE, TUPLE, LIST, DICT = (Fact(frozenset({kind})) for kind in ("str", "none", "tuple", "list", "dict"))
INTS = Fact(frozenset({"tuple"}), name="sizes")


def join(facts: Iterable[Fact]) -> Fact:
    """Return one fact that is true for all values that any of the given facts describes.

    >>> a, b = Fact(frozenset({"tensor"}), "float32", (2, 3)), Fact(frozenset({"tensor"}), "float32", (2, 5))
    >>> join([a, b]).shape
    (2, None)
    """
    given = list(facts)
    if not given or any(not fact.kinds for fact in given):
        return UNKNOWN
    kinds = frozenset().union(*(fact.kinds for fact in given))
    shaped = [fact for fact in given if fact.kinds - {"none"}]  # None does not change the properties of a tensor
    dtypes, names = {fact.dtype for fact in shaped}, {fact.name for fact in shaped}
    shapes = [fact.shape for fact in shaped]
    shape, items = None, None
    if shapes and all(one is not None for one in shapes) and len({len(one) for one in shapes if one is not None}) == 1:
        shape = tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True))  # type: ignore[arg-type]
    if shaped and all(f.items is not None for f in shaped) and len({len(f.items or ()) for f in shaped}) == 1:
        items = tuple(join(parts) for parts in zip(*(f.items or () for f in shaped), strict=True))
    dtype, name = (found.pop() if len(found) == 1 else "" for found in (dtypes, names))
    return Fact(kinds, dtype, shape, items, name)


_PLAIN = {
    bool: "bool", int: "int", float: "float", complex: "complex", str: "str", type(None): "none", dict: "dict",
    set: "set", frozenset: "set", slice: "slice", type(...): "ellipsis",
}  # fmt: skip


def fact_of(value: Any, depth: int = 2) -> Fact:
    """Return the fact of one value of a torch run. Classes of torch are recognised by name, without importing torch.

    Args:
        value: the value.
        depth: number of nested levels of tuples and lists for whose items the fact has facts too.

    >>> sorted(fact_of((1, "a")).kinds), [sorted(item.kinds) for item in fact_of((1, "a")).items]
    (['tuple'], [['int'], ['str']])
    """
    kind = type(value)
    if kind in _PLAIN:
        return Fact(frozenset({_PLAIN[kind]}))
    bases = {f"{one.__module__}.{one.__name__}" for one in kind.__mro__}
    if "torch.Tensor" in bases or "numpy.ndarray" in bases or "numpy.generic" in bases:
        named = (
            "parameter" if "torch.nn.parameter.Parameter" in bases or getattr(value, "_is_param", False) else "tensor"
        )
        shape = tuple(int(n) for n in value.shape)
        of = "array" if "torch.Tensor" not in bases else named
        return Fact(frozenset({of}), str(value.dtype).removeprefix("torch."), shape)
    if "torch.nn.modules.module.Module" in bases:
        return Fact(frozenset({"module"}), name=f"{kind.__module__}.{kind.__qualname__}")
    if isinstance(value, tuple | list):
        items = tuple(fact_of(item, depth - 1) for item in value) if depth and len(value) <= 16 else None
        name = "sizes" if "torch.Size" in bases else ""
        return Fact(frozenset({"list" if isinstance(value, list) else "tuple"}), items=items, name=name)
    if "torch.dtype" in bases:
        return Fact(frozenset({"dtype"}), name=str(value))
    if "torch.device" in bases:
        return Fact(frozenset({"device"}))
    if isinstance(value, dict):
        return Fact(frozenset({"dict"}))
    if isinstance(value, type):
        return Fact(frozenset({"class"}), name=f"{value.__module__}.{value.__qualname__}")
    if callable(value):
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', kind.__qualname__)}"
        return Fact(frozenset({"function"}), name=name)
    return Fact(frozenset({"other"}), name=f"{kind.__module__}.{kind.__qualname__}")


# Attributes that objects other than tensors have too. Reading one of them does not show that the object is a tensor.
_OTHERS = frozenset(
    name
    for kind in (str, bytes, list, dict, tuple, set, int, float, complex, slice, range, Path, BaseException)
    for name in dir(kind)
) | frozenset(
    ["apply", "bfloat16", "buffers", "cpu", "cuda", "double", "eval", "float", "half", "parameters", "to", "train",
     "type", "requires_grad_", "zero_grad", "dtype", "data", "add", "log", "fill", "step",
     "register_hook", "grad", "name", "names", "sum", "log_prob", "sample"]
)  # fmt: skip


def is_tensor(fact: Fact, name: str) -> bool | None:
    """Return whether a value with this fact is a tensor, or None if that is not known.

    If the kind of the value is unknown, the attribute `name` that the source reads decides. The value is taken for a
    tensor if other objects do not have this attribute.
    """
    kinds = fact.kinds - {"none"}
    if not kinds:
        return True if name not in _OTHERS else None
    tensors = kinds & {"tensor", "parameter"}
    return bool(tensors) if tensors in (kinds, set()) else None
