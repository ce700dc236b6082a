"""Rules that translate each primitive of JAX into an operation of `funcnet.loops`."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from funcnet.export.tracing import Equation
from funcnet.export.wasm.rules_control import CONTROL
from funcnet.export.wasm.trace import Rules, Tracer
from funcnet.export.wasm.unsupported import BATCH_GROUPS, OTHER_SIZES, ROUNDED_BITS
from funcnet.loops.operations import ELEMENTWISE, ArrayValue
from funcnet.loops.pointwise import identity

__all__ = ["RULES"]


def _out(equation: Equation) -> tuple[tuple[int, ...], np.dtype]:
    aval = equation.outvars[0].aval
    return tuple(aval.shape), np.dtype(aval.dtype)


def _elementwise(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    settings: dict[str, Any] = {name: e.params[name] for name in ("y", "nudge", "roundings") if name in e.params}
    if e.primitive.name == "round":
        settings["even"] = int(e.params["rounding_method"]) == 1
    return t.emit(e.primitive.name, operands, *_out(e), **settings)


def _same(t: Tracer, e: Equation, operands: list[ArrayValue]) -> list[ArrayValue]:
    return operands


def _convert(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    (x,) = operands
    return x if x.dtype == _out(e)[1] else t.emit("convert", operands, *_out(e))


def _reshape(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    return _reshaped(t, operands[0], _out(e)[0])


def _reshaped(t: Tracer, x: ArrayValue, shape: Sequence[int]) -> ArrayValue:
    if x.constant is not None:
        return ArrayValue.of(x.constant.reshape(shape))
    return x if x.shape == tuple(shape) else t.emit("reshape", [x], shape, x.dtype)


def _transpose(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    return t.emit("transpose", operands, *_out(e), permutation=tuple(e.params["permutation"]))


def _broadcast(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    return t.emit("broadcast", operands[:1], *_out(e), dims=tuple(e.params["broadcast_dimensions"]))


def _slice(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    return _sliced(t, operands[0], e.params["start_indices"], _out(e)[0], e.params["strides"])


def _sliced(
    t: Tracer, x: ArrayValue, start: Sequence[int], shape: Sequence[int], strides: Sequence[int] | None = None
) -> ArrayValue:
    strides = tuple(strides or (1,) * len(shape))
    return t.emit("slice", [x], shape, x.dtype, start=tuple(int(s) for s in start), strides=strides)


def _split(t: Tracer, e: Equation, operands: list[ArrayValue]) -> list[ArrayValue]:
    axis, place, parts = e.params["axis"], 0, []
    for out in e.outvars:
        start = [0] * len(out.aval.shape)
        start[axis] = place
        parts.append(_sliced(t, operands[0], start, out.aval.shape))
        place += out.aval.shape[axis]
    return parts


def _reverse(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    return t.emit("reverse", operands, *_out(e), axes=tuple(e.params["dimensions"]))


def _tile(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    (x,), shape = operands, _out(e)[0]
    spread = [n for size, whole in zip(x.shape, shape, strict=True) for n in (whole // size if size else 0, size)]
    dims = tuple(range(1, 2 * x.shape.__len__(), 2))
    return _reshaped(t, t.emit("broadcast", [x], spread, x.dtype, dims=dims), shape)


def _iota(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    return t.emit("iota", [], *_out(e), axis=e.params["dimension"])


def _concatenate(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    return t.emit("concatenate", operands, *_out(e), axis=e.params["dimension"])


def _stack(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    axis = e.params["axis"]
    rows = [_reshaped(t, o, (*o.shape[:axis], 1, *o.shape[axis:])) for o in operands]
    return t.emit("concatenate", rows, *_out(e), axis=axis)


def _pad(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    return _padded(t, operands[0], operands[1], [tuple(int(n) for n in one) for one in e.params["padding_config"]])


def _padded(t: Tracer, x: ArrayValue, fill: ArrayValue, config: Sequence[Sequence[int]]) -> ArrayValue:
    """Pad each axis of x by (low, high, between): before, after and between its elements.

    Negative numbers remove elements.
    """
    if all(not any(one) for one in config):
        return x
    shape = [
        max(0, low + high + n + max(0, n - 1) * between)
        for n, (low, high, between) in zip(x.shape, config, strict=True)
    ]
    return t.emit("pad", [x, fill], shape, x.dtype, config=tuple(tuple(one) for one in config))


def _gather(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    mode = e.params["mode"]
    fill = e.params["fill_value"]
    if mode == GatherScatterMode.FILL_OR_DROP and fill is None:
        kind = operands[0].dtype.kind
        fill = {"f": math.nan, "b": True}.get(kind)
        if fill is None:
            limits = np.iinfo(operands[0].dtype)
            fill = limits.min if kind == "i" else limits.max
    return t.emit(
        "gather",
        operands,
        *_out(e),
        numbers=e.params["dimension_numbers"],
        sizes=tuple(e.params["slice_sizes"]),
        fill=fill if mode == GatherScatterMode.FILL_OR_DROP else None,
    )


def _dynamic_slice(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    return t.emit("dynamic_slice", operands, *_out(e))


def _dynamic_update_slice(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    return t.emit("dynamic_update_slice", operands, *_out(e))


def _scatter(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    kind = {"scatter": "set", "scatter-add": "add", "scatter_add": "add", "scatter_mul": "mul"}
    kind |= {
        "scatter-mul": "mul",
        "scatter_min": "min",
        "scatter-min": "min",
        "scatter_max": "max",
        "scatter-max": "max",
    }
    mode = e.params["mode"]
    return t.emit(
        "scatter",
        operands,
        *_out(e),
        kind=kind[e.primitive.name],
        numbers=e.params["dimension_numbers"],
        clip=mode == GatherScatterMode.CLIP,
    )


def _dot(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    (contract_a, contract_b), (batch_a, batch_b) = e.params["dimension_numbers"]
    shape, dtype = _out(e)
    axes = {"contract": (tuple(contract_a), tuple(contract_b)), "batch": (tuple(batch_a), tuple(batch_b))}
    return t.emit("dot", operands, shape, dtype, **axes)


def _conv(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    """Translate a convolution to a `pad`, and a `conv` of (B, C, *S) and (O, C / groups, *K). Refuse batch groups."""
    x, w = operands
    p, numbers = e.params, e.params["dimension_numbers"]
    if p["batch_group_count"] != 1:
        raise ValueError(
            f"to_wasm: conv_general_dilated in layer {t.layer!r} has batch groups; expected batch_group_count=1, got "
            f"{p['batch_group_count']}. {BATCH_GROUPS.advice}"
        )
    permute = lambda v, spec: (
        v
        if tuple(spec) == tuple(range(len(spec)))
        else t.emit("transpose", [v], [v.shape[i] for i in spec], v.dtype, permutation=tuple(spec))
    )
    x, w = permute(x, numbers.lhs_spec), permute(w, numbers.rhs_spec)
    config = [(0, 0, 0), (0, 0, 0)]
    config += [(int(a), int(b), d - 1) for (a, b), d in zip(p["padding"], p["lhs_dilation"], strict=True)]
    x = _padded(t, x, ArrayValue.of(np.zeros((), x.dtype)), config)
    shape, dtype = _out(e)
    plain = [shape[i] for i in numbers.out_spec]
    settings = {"strides": tuple(p["window_strides"]), "dilations": tuple(p["rhs_dilation"])}
    y = t.emit("conv", [x, w], plain, dtype, groups=p["feature_group_count"], **settings)
    back = np.argsort(numbers.out_spec)
    return permute(y, tuple(int(i) for i in back))


def _integer_convolution(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    settings = {"strides": e.params["stride"], "dilations": e.params["dilation"], "groups": e.params["groups"]}
    return t.emit("conv", operands, *_out(e), **settings)


_REDUCED = {
    "reduce_sum": "sum",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_prod": "prod",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_xor": "xor",
}


def _reduce(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    kind = _REDUCED[e.primitive.name]
    axes = tuple(e.params["axes"])
    (x,) = operands
    if all(x.shape[a] == 1 for a in axes):
        return _reshaped(t, x, _out(e)[0])
    return t.emit("reduce", operands, *_out(e), kind=kind, axes=axes)


def _arg(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    (axis,) = e.params["axes"]
    return t.emit("arg", operands, *_out(e), kind=e.primitive.name[3:], axis=axis)


def _window(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    kind = e.primitive.name.removeprefix("reduce_window_")
    x, p = operands[0], e.params
    dilated = p.get("base_dilation") or (1,) * len(x.shape)
    config = [(int(a), int(b), d - 1) for (a, b), d in zip(p["padding"], dilated, strict=True)]
    x = _padded(t, x, ArrayValue.of(np.asarray(identity(kind, x.dtype))), config)
    settings: dict[str, Any] = {"sizes": tuple(p["window_dimensions"]), "strides": tuple(p["window_strides"])}
    dilations = tuple(p.get("window_dilation") or (1,) * len(x.shape))
    return t.emit("window", [x], *_out(e), kind=kind, dilations=dilations, **settings)


def _running(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    kind = {"cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min"}[e.primitive.name]
    return t.emit("running", operands, *_out(e), kind=kind, axis=e.params["axis"], reverse=e.params["reverse"])


def _sort(t: Tracer, e: Equation, operands: list[ArrayValue]) -> list[ArrayValue]:
    types = [(v.aval.shape, v.aval.dtype) for v in e.outvars]
    settings = {"axis": e.params["dimension"], "keys": e.params["num_keys"]}
    return t.emit_many("sort", operands, types, **settings)


def _top_k(t: Tracer, e: Equation, operands: list[ArrayValue]) -> list[ArrayValue]:
    (x,) = operands
    axis, k = e.params.get("axis", len(x.shape) - 1) % len(x.shape), e.params["k"]
    place = t.emit("iota", [], x.shape, np.int32, axis=axis)
    types = [(x.shape, x.dtype), (x.shape, np.int32)]
    both = t.emit_many("sort", [x, place], types, axis=axis, keys=1, descending=True)
    shape = [k if a == axis else n for a, n in enumerate(x.shape)]
    return [_sliced(t, v, [0] * len(shape), shape) for v in both]


def _reduce_precision(t: Tracer, e: Equation, operands: list[ArrayValue]) -> list[ArrayValue]:
    bits, own = (e.params["exponent_bits"], e.params["mantissa_bits"]), np.finfo(operands[0].dtype)
    if bits[0] < own.nexp or bits[1] < own.nmant:
        raise ValueError(
            f"to_wasm: reduce_precision in layer {t.layer!r} rounds numbers; expected at least {own.nexp} bits of the "
            f"exponent and {own.nmant} of the mantissa, got {bits[0]} and {bits[1]}. "
            f"{ROUNDED_BITS.advice}"
        )
    return operands


def _bitcast(t: Tracer, e: Equation, operands: list[ArrayValue]) -> ArrayValue:
    if operands[0].dtype.itemsize != _out(e)[1].itemsize:
        raise ValueError(
            f"to_wasm: bitcast_convert_type in layer {t.layer!r} changes the size; expected elements of "
            f"{operands[0].dtype.itemsize} bytes, got {_out(e)[1].itemsize}. {OTHER_SIZES.advice}"
        )
    return t.emit("bitcast", operands, *_out(e))


RULES: Rules = {
    **dict.fromkeys(sorted(ELEMENTWISE), _elementwise),
    **dict.fromkeys(["stop_gradient", "copy", "copy_p", "optimization_barrier", "name", "device_put"], _same),
    **dict.fromkeys(["sharding_constraint", "pvary", "mesh_cast", "reshard", "layout_constraint"], _same),
    **dict.fromkeys(["reshape", "squeeze", "expand_dims"], _reshape),
    **dict.fromkeys(_REDUCED, _reduce),
    **dict.fromkeys(["argmax", "argmin"], _arg),
    **dict.fromkeys(["reduce_window_sum", "reduce_window_max", "reduce_window_min"], _window),
    **dict.fromkeys(["cumsum", "cumprod", "cummax", "cummin"], _running),
    **dict.fromkeys(["scatter", "scatter-add", "scatter-mul", "scatter-min", "scatter-max"], _scatter),
    **dict.fromkeys(["scatter_add", "scatter_mul", "scatter_min", "scatter_max"], _scatter),
    "convert_element_type": _convert,
    "reduce_precision": _reduce_precision,
    "bitcast_convert_type": _bitcast,
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast,
    "slice": _slice,
    "split": _split,
    "rev": _reverse,
    "tile": _tile,
    "iota": _iota,
    "concatenate": _concatenate,
    "stack": _stack,
    "pad": _pad,
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "dot_general": _dot,
    "conv_general_dilated": _conv,
    "integer_convolution": _integer_convolution,
    "sort": _sort,
    "top_k": _top_k,
    **CONTROL,
}
