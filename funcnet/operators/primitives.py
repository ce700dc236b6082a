"""The primitives of operators: their rules for types, lowering, `vmap` and derivatives.

Each operator has its own primitive, so its name appears in programs. Another primitive, `operator_tangent`, computes
the tangents. Its operands are the arrays, the results that derivatives use, and the tangents of some arguments. It
evaluates the derivative of the reference, and its transpose calls the derivatives of the operator. JAX therefore uses
the reference in forward mode and the derivatives in reverse mode. Both are ordinary JAX functions, which JAX can
differentiate again.
"""

import functools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.core import AbstractValue
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from funcnet.operators.argument_binding import Settings
from funcnet.operators.foreign_kernels import ForeignKernel, run_foreign
from funcnet.operators.varying_axes import vary_like

__all__ = ["PLATFORMS", "OperatorCall", "changes", "device_count", "primitive"]

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
Function = Callable[..., Any]


class _Changes:
    """The number of changes of all operators. They are counted together, because operators may call one another. A call
    after a change has a different number, so an eager call does not run a program that was compiled before the change.
    """

    count = 0


changes = _Changes()
_running = threading.local()


@dataclass(frozen=True)
class OperatorCall:
    """The static part of a call of an operator, which is a parameter of the primitive.

    Attributes:
        operator: the `Operator`.
        settings: the arguments that are not arrays.
        version: the value of `changes.count` at the call.
    """

    operator: Any
    settings: Settings
    version: int

    def results(self, function: Function, *arrays: jax.Array) -> tuple[jax.Array, ...]:
        """Return the results of a function with the operator's arguments, as a tuple."""
        found = function(**self.settings.arguments(arrays))
        return tuple(found) if isinstance(found, tuple | list) else (found,)

    def reference(self, *arrays: jax.Array) -> tuple[jax.Array, ...]:
        """Return the results of the reference."""
        return self.results(self.operator.get_reference(), *arrays)


def primitive(name: str) -> Primitive:
    """Return a new primitive for an operator, with its rules. It has the parameter `call`, a `OperatorCall`."""
    made = Primitive(name)
    made.multiple_results = True
    made.def_impl(functools.partial(_run, made))
    made.def_abstract_eval(lambda *avals, call: _result_types(call, avals))
    ad.primitive_jvps[made] = functools.partial(_jvp, made)
    batching.primitive_batchers[made] = functools.partial(_batch, made)
    mlir.register_lowering(made, functools.partial(_lower, None))
    for platform in PLATFORMS:
        mlir.register_lowering(made, functools.partial(_lower, platform), platform=platform)
    return made


def _run(one: Primitive, *arrays: jax.Array, **params: Any) -> Any:
    if getattr(_running, "is_on", False):  # `jax.debug_nans` runs a program again, without jit
        return _inline(one, params.pop("call"), params, *arrays)
    _running.is_on = True
    try:
        with jax.disable_jit(False):  # lowering chooses the implementation, so compile even if jit is disabled
            return _compiled(one, tuple(params.items()), *arrays)
    finally:
        _running.is_on = False


@functools.partial(jax.jit, static_argnums=(0, 1))
def _compiled(one: Primitive, params: tuple[tuple[str, Any], ...], *arrays: jax.Array) -> list[jax.Array]:
    return one.bind(*arrays, **dict(params))


def _result_types(call: OperatorCall, avals: tuple[Any, ...]) -> list[Any]:
    return _traced_types(call, avals, jax.dtypes.canonicalize_dtype("float64"))


@functools.lru_cache(maxsize=4096)
def _traced_types(call: OperatorCall, avals: tuple[Any, ...], widest: np.dtype) -> list[Any]:
    """Return the types of the results. `widest` is the dtype to which JAX converts float64; see `jax.enable_x64`."""
    operator = call.operator
    found = jax.make_jaxpr(call.reference)(*avals).out_avals
    if len(found) != len(operator.schema.returns):
        raise ValueError(
            f"{operator.schema.full_name}: the reference returns {len(found)} results; expected "
            f"{len(operator.schema.returns)} by the signature."
        )
    if operator.dims is not None:
        shapes = [aval.shape for aval in avals]
        expected = operator.dims.results(operator.schema.full_name, _entries(call), shapes)
        got = tuple(aval.shape for aval in found)
        if any(not _fits(shape, other) for shape, other in zip(got, expected, strict=True)):
            raise ValueError(
                f"{operator.schema.full_name}: the reference returns another shape; expected {expected} by dims "
                f"{operator.dims.text!r}, got {got}."
            )
    return found


def _fits(shape: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    return len(shape) == len(expected) and all(b is None or a == b for a, b in zip(shape, expected, strict=True))


def _entries(call: OperatorCall) -> list[int]:
    """Return the number of the entry of `dims` for each array."""
    names = [one.name for one in call.operator.schema.arguments if one.type.is_tensor]
    return [names.index(name) for name in call.settings.names()]


def _maps(call: OperatorCall) -> list[bool]:
    """Return for each array whether it has the dimensions `...`."""
    dims = call.operator.dims
    return [dims is not None and dims.maps_inputs[place] for place in _entries(call)]


def _lower(platform: str | None, context: Any, *operands: mlir.ir.Value, call: OperatorCall) -> Any:
    operator = call.operator
    chosen = operator.get_reference() if platform is None else operator.implementation(platform, context.avals_in)
    is_exported = context.module_context.lowering_parameters.for_export
    if isinstance(chosen, ForeignKernel) and is_exported and not chosen.is_exported:
        chosen = operator.get_reference()
    if isinstance(chosen, ForeignKernel):
        mapped = 0
        if operator.is_mapped:
            shapes = [aval.shape for aval in context.avals_in]
            mapped = len(operator.dims.read(operator.schema.full_name, _entries(call), shapes)[0])
        types = {one.name: one.type for one in operator.schema.arguments}
        values = tuple((name, types[name], value) for name, value in call.settings.values)
        wide = mapped if operator.is_mapped else None
        devices = device_count(context)
        run = functools.partial(run_foreign, chosen, values, wide, _maps(call), context.avals_out, devices)
        return mlir.lower_fun(run, multiple_results=True)(context, *operands)
    if getattr(chosen, "takes_devices", False):
        alone = functools.partial(chosen, devices=device_count(context))
        chosen = operator.get_reference() if is_exported else alone
    function = functools.partial(_checked_results, platform, call, chosen, tuple(context.avals_out))
    return mlir.lower_fun(function, multiple_results=True)(context, *operands)


def device_count(context: Any) -> int:
    """Return the number of devices among which the arrays of a program are divided, while the program is lowered."""
    axes = context.module_context.axis_context
    if hasattr(axes, "manual_axes"):  # inside a `shard_map`: those of the other axes
        return math.prod(size for name, size in axes.mesh.shape.items() if name not in axes.manual_axes)
    return int(axes.num_devices)


def _checked_results(
    platform: str | None, call: OperatorCall, function: Function, expected: tuple[Any, ...], *arrays: jax.Array
) -> tuple[jax.Array, ...]:
    """Return the results of an implementation.

    Raises:
        TypeError: if their shapes or dtypes are not those of the reference.
    """
    found = call.results(function, *arrays)
    describe = lambda values: ", ".join(f"{value.dtype.name}{list(value.shape)}" for value in values)
    if describe(found) != describe(expected):
        raise TypeError(
            f"{call.operator.schema.full_name}: the implementation for {platform} returns another type than the "
            f"reference; expected {describe(expected)}, got {describe(found)}."
        )
    return found


def _batch(
    one: Primitive, arrays: Sequence[jax.Array], axes: Sequence[Any], *, call: OperatorCall, **params: Any
) -> Any:
    """Add the mapped dimension to the dimensions `...`, or map the reference if an array with the mapped dimension has
    none.
    """
    maps = _maps(call)
    if "which" in params:  # the operation of tangents, whose arrays are followed by results and tangents
        results = len(params["kept"])
        maps = [*maps, *[call.operator.is_mapped] * results, *[maps[place] for place in params["which"]]]
    if not all(has or axis is None for has, axis in zip(maps, axes, strict=True)):
        mapped = jax.vmap(lambda *given: tuple(_inline(one, call, params, *given)), tuple(axes))(*arrays)
        return mapped, (0,) * len(mapped)
    ((size,)) = {array.shape[axis] for array, axis in zip(arrays, axes, strict=True) if axis is not None}
    front = [
        array if not has else jax.numpy.broadcast_to(array, (size, *array.shape)) if axis is None
        else jax.numpy.moveaxis(array, axis, 0)
        for array, axis, has in zip(arrays, axes, maps, strict=True)
    ]  # fmt: skip
    found = one.bind(*front, call=call, **params)
    return found, (0,) * len(found)


def _inline(one: Primitive, call: OperatorCall, params: Mapping[str, Any], *arrays: jax.Array) -> tuple[jax.Array, ...]:
    return call.reference(*arrays) if one is not _tangent else _tangents(*arrays, call=call, **params)


# --------------------------------------------------------------------------------------------------- derivatives


def _jvp(one: Primitive, arrays: Sequence[jax.Array], tangents: Sequence[Any], *, call: OperatorCall) -> Any:
    results = one.bind(*arrays, call=call)
    which = tuple(place for place, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero))
    given = [tangents[place] for place in which]
    kept = call.operator.kept
    operands = [*arrays, *(results[number] for number in kept), *given]
    varying = [vary_like(one, *operands) for one in operands]
    return results, _tangent.bind(*varying, call=call, which=which, kept=kept)


def _tangents(*operands: jax.Array, call: OperatorCall, which: tuple[int, ...], **params: Any) -> tuple[jax.Array, ...]:
    """Return the tangents of the results, by the reference. `operands`: the arrays, kept results, and some tangents."""
    count = len(call.settings.names())
    arrays, given = operands[:count], operands[len(operands) - len(which) :]

    def function(*chosen: jax.Array) -> tuple[jax.Array, ...]:
        whole = list(arrays)
        for place, array in zip(which, chosen, strict=True):
            whole[place] = array
        return call.reference(*whole)

    return tuple(jax.jvp(function, tuple(arrays[place] for place in which), tuple(given))[1])


def _transpose(
    cotangents: Sequence[Any], *operands: jax.Array, call: OperatorCall, which: tuple[int, ...], kept: tuple[int, ...]
) -> list[Any]:
    """Return the gradients of the arguments that have tangents, by their derivatives."""
    operator, names = call.operator, call.settings.names()
    where = operator.schema.full_name
    count, several = len(names), len(operator.schema.returns) > 1
    arrays, results = operands[:count], operands[count : len(operands) - len(which)]
    grads = tuple(map(ad.instantiate_zeros, cotangents))
    values = call.settings.arguments(arrays)
    values |= {"grads": grads} if several else {"grad": grads[0]}
    values |= {f"result{number}": one for number, one in zip(kept, results, strict=True)}
    if len(kept) == len(operator.schema.returns):
        values |= {"results": tuple(results)} if several else {"result": results[0]}
    found: list[Any] = [None] * (len(operands) - len(which))
    gradients = operator.gradients([names[place] for place in which], values)
    for place in which:
        name = names[place]
        gradient = gradients[name]
        if dict(call.settings.arrays)[name] is not None:  # of a Tensor[] argument
            many = names.count(name)
            if not isinstance(gradient, list | tuple) or len(gradient) != many:
                raise ValueError(f"{where}: the derivative of {name!r} is wrong; expected a list of {many} arrays.")
            gradient = gradient[place - names.index(name)]
        array = arrays[place]
        if getattr(gradient, "shape", None) != array.shape or gradient.dtype != array.dtype:
            got = jax.typeof(gradient) if hasattr(gradient, "shape") else repr(gradient)
            raise ValueError(
                f"{where}: the derivative of {name!r} has another type; expected {jax.typeof(array)}, got {got}."
            )
        gradient = _placed_like(gradient, array)
        found.append(gradient)
    return found


def _placed_like(gradient: jax.Array, array: jax.Array) -> jax.Array:
    """Return a gradient that varies over the same mesh axes as its array, and has the same explicit sharding."""
    gradient, wanted = vary_like(gradient, array), jax.typeof(array).sharding
    is_placed = not wanted.mesh.explicit_axes or jax.typeof(gradient).sharding == wanted
    return gradient if is_placed else jax.reshard(gradient, wanted)


def _tangent_types(*avals: AbstractValue, call: OperatorCall, **params: Any) -> list[Any]:
    """Return the types of the tangents. The derivative of the reference is not traced, because the reference may not
    have one.
    """
    return [aval.to_tangent_aval() for aval in _result_types(call, avals[: len(call.settings.names())])]


def _jvp_of_tangents(operands: Sequence[jax.Array], tangents: Sequence[Any], **params: Any) -> Any:
    given = [ad.instantiate_zeros(tangent) for tangent in tangents]
    return jax.jvp(functools.partial(_tangents, **params), tuple(operands), tuple(given))


_tangent = Primitive("operator_tangent")
_tangent.multiple_results = True
_tangent.def_impl(functools.partial(_run, _tangent))
_tangent.def_abstract_eval(_tangent_types)
ad.primitive_jvps[_tangent] = _jvp_of_tangents
ad.primitive_transposes[_tangent] = _transpose
batching.primitive_batchers[_tangent] = functools.partial(_batch, _tangent)
mlir.register_lowering(_tangent, mlir.lower_fun(_tangents, multiple_results=True))
