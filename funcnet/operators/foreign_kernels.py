"""Implementations in C++ and other languages, which XLA calls through its foreign function interface (`jax.ffi`)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir

from funcnet.operators.schema import Type

__all__ = ["ForeignKernel", "run_foreign"]


@dataclass(frozen=True)
class ForeignKernel:
    """A target of `jax.ffi.register_ffi_target`, as an implementation of an operator.

    The arrays of a call are the operands of the target, in row-major order. The other arguments are its attributes:
    floats are float64, integers are int64, and lists are arrays. An argument that is None is left out.

    If the operator has dimensions `...`, each device computes its own part of them. A target must therefore accept any
    number of these dimensions, and read the sizes of the others from the end of a shape. An array that has only
    dimensions `...` gets another one of size 1 at its end.

    Attributes:
        target: the name of the target.
        is_exported: whether programs exported by `jax.export` contain the call, which then works only where the target
            is registered. If False, they contain the reference.

    Example:
        >>> from funcnet import operators
        >>> triple = operators.define("doctest::triple(Tensor self) -> Tensor", dims="... -> ...")
        >>> _ = triple.reference(lambda self: 3 * self)
        >>> _ = triple.impl("cuda", operators.ForeignKernel("acme_triple"))  # a target that acme registers for CUDA
        >>> triple(jax.numpy.ones(2))  # on CPU, the reference runs
        Array([3., 3.], dtype=float32)
    """

    target: str
    is_exported: bool = True

    def __post_init__(self) -> None:
        jax.ffi.register_ffi_target_as_batch_partitionable(self.target)


def run_foreign(
    one: ForeignKernel,
    values: tuple[tuple[str, Type, Any], ...],
    mapped: int | None,
    maps: Sequence[bool],
    types: Sequence[Any],
    devices: int,
    *arrays: jax.Array,
) -> list[jax.Array]:
    """Call a target while a program is lowered.

    Args:
        one: the target.
        values: ((name, type, value), …) of the arguments that are not arrays.
        mapped: the number of dimensions `...`, or None if `dims` has none.
        maps: for each array, whether it has these dimensions.
        types: the types of the results.
        devices: the number of devices among which the arrays are divided.
        *arrays: the arrays.
    """
    # XLA divides the first `num_batch_dims` dimensions of all operands that have more than these. With some further
    # dimensions of size 1, the mapped arrays have more, and all others have fewer and remain whole. On one device
    # shapes stay as they are, because XLA computes an array again for each shape in which it is an operand.
    rank = max((array.ndim + 1 for array, has in zip(arrays, maps, strict=True) if not has), default=0)
    count = mapped or 0
    is_shared = count > 0 and devices > 1
    wide = max(count, rank) if is_shared else count
    wider = lambda shape: (*shape[:count], *(1,) * (wide - count), *(shape[count:] or (1,) * (mapped is not None)))
    operands = [array.reshape(wider(array.shape)) if has else array for array, has in zip(arrays, maps, strict=True)]
    made = tuple((wider(one.shape), one.dtype) for one in types)
    found = _call.bind(
        *operands, target=one.target, values=values, mapped=wide * (devices > 1), maps=tuple(maps), types=made
    )
    return [array.reshape(one.shape) for array, one in zip(found, types, strict=True)]


def _lower(
    context: mlir.LoweringRuleContext,
    *operands: mlir.ir.Value,
    target: str,
    values: tuple[Any, ...],
    mapped: int,
    maps: tuple[bool, ...],
    types: tuple[Any, ...],
) -> Any:
    more = {}
    avals = (*context.avals_in, *context.avals_out)
    if mapped and all(isinstance(size, int) for aval in avals for size in aval.shape):
        more["mhlo.frontend_attributes"] = mlir.ir_attribute({"num_batch_dims": str(mapped)})
        rule = _sharding_rule(context.avals_in, context.avals_out, mapped, maps)
        more["sdy.sharding_rule"] = mlir.ir.Attribute.parse(rule)
    attributes = {name: _attribute(name, kind, value) for name, kind, value in values if value is not None}
    return jax.ffi.ffi_lowering(target, extra_attributes=more)(context, *operands, **attributes)


def _attribute(name: str, kind: Type, value: object) -> Any:
    """Return an argument in the form that `jax.ffi` takes.

    Raises:
        TypeError: if its type has no such form.
    """
    if kind.name == "?":
        return _attribute(name, kind.inner[0], value)
    element = kind.inner[0].name if kind.name == "[]" else kind.name
    if element == "Scalar":
        element = type(value).__name__
    if element in ("float", "int", "SymInt"):
        made = np.asarray(value, np.float64 if element == "float" else np.int64)
        return made if kind.name == "[]" else made[()]
    if kind.name in ("bool", "str"):
        return value
    raise TypeError(
        f"argument {name!r} of the type {kind} has no form for a kernel in C++; expected float, int, bool, str, or a "
        f"list of float or int, got {value!r}."
    )


def _sharding_rule(inputs: Sequence[Any], outputs: Sequence[Any], mapped: int, maps: Sequence[bool]) -> str:
    """Return the rule by which Shardy divides a call: the dimensions `...` are divided, and all others are not."""
    letters = itertools.chain("ijklmnopqrstuvwxyz", (f"z_{number}" for number in itertools.count(1)))
    shared: list[str] = []
    sizes: dict[str, int] = {}

    def names(aval: ShapedArray, has: bool) -> str:
        if has and not shared:  # letters must be in the order in which they appear
            shared.extend(itertools.islice(letters, mapped))
        found = shared[: mapped if has else 0]
        found = [*found, *itertools.islice(letters, aval.ndim - len(found))]
        sizes.update(zip(found, aval.shape, strict=True))
        return f"[{', '.join(found)}]"

    left = ", ".join(names(aval, has) for aval, has in zip(inputs, maps, strict=True))
    right = ", ".join(names(aval, True) for aval in outputs)
    whole = ", ".join(name for name in sizes if name not in shared)
    shown = ", ".join(f"{name}={size}" for name, size in sizes.items())
    return (
        f"#sdy.op_sharding_rule<({left})->({right}) {{{shown}}}" + f" need_replication={{{whole}}}" * bool(whole) + ">"
    )


_call = Primitive("operator_foreign")
_call.multiple_results = True
_call.def_abstract_eval(lambda *avals, types, **params: [ShapedArray(shape, dtype) for shape, dtype in types])
mlir.register_lowering(_call, _lower)
