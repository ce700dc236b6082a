"""Plans of pooling, padding, resizing, and of sampling images."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.operators.graph.function_plans.circular_padding import circular
from funcnet.operators.graph.function_plans.linear_and_convolution import numbers
from funcnet.operators.graph.function_plans.single_operations import Plan
from funcnet.operators.graph.torch_operations.tape import Results, Tape, TapeValue

__all__ = ["POOLS"]


def _bare(given: object) -> Any:
    return given.array if isinstance(given, TapeValue) else given


def _with_indices(function: Callable[..., Any], result: Any, arguments: dict[str, Any]) -> tuple[Any, Any]:
    """Return the results of a function and its indices. If it has not returned indices, it is called again."""
    if isinstance(result, tuple):
        return result
    again = function(**{name: _bare(one) for name, one in arguments.items()} | {"return_indices": True})
    return result, np.asarray(again[1])


def _stride(given: int | Sequence[int] | None, size: tuple[int, ...]) -> tuple[int, ...]:
    """Return the stride of a window. If the stride is not given, torch records an empty one, or in one dimension the
    size of the window.
    """
    if given is not None:
        return numbers(given, len(size))
    return size if len(size) == 1 else ()


def _max_pool(dims: int) -> Plan:
    def plan(tape: Tape, result: Results, function: Callable[..., Any], **arguments: Any) -> Any:
        x, size = arguments["input"], numbers(arguments["kernel_size"], dims)
        stride = _stride(arguments["stride"], size)
        settings = {"kernel_size": size, "stride": stride, "ceil_mode": arguments["ceil_mode"]}
        settings |= {name: numbers(arguments[name], dims) for name in ("padding", "dilation")}
        y, indices = _with_indices(function, result, arguments)
        if dims == 1:
            one = {"kernel_size": 1, "stride": 1, "padding": 0, "dilation": 1, "ceil_mode": None}
            settings = {k: v if k == "ceil_mode" else (one[k], *v) for k, v in settings.items()}
            y, indices = (np.expand_dims(a, -2) for a in (y, indices))
            x = tape.run("unsqueeze", x, dim=-2)
        operation = f"max_pool{max(dims, 2)}d_with_indices"
        found, places = tape.run(operation, x, out=(y, indices), **settings)
        if dims == 1:
            found = tape.run("squeeze.dim", found, dim=-2)
            places = TapeValue(places.array.squeeze(-2))
        return (found, places) if isinstance(result, tuple) else found

    return plan


def _avg_pool(dims: int) -> Plan:
    def plan(
        tape: Tape,
        result: NDArray[Any],
        function: Callable[..., Any] | None,
        input: TapeValue,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None,
        padding: int | Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None = None,
    ) -> TapeValue:
        size = numbers(kernel_size, dims)
        settings = {"kernel_size": size, "stride": _stride(stride, size)}
        settings["padding"] = numbers(padding, dims)
        others = {
            "ceil_mode": ceil_mode,
            "count_include_pad": count_include_pad,
            "divisor_override": divisor_override,
        }
        if dims > 1:
            return tape.run(f"avg_pool{dims}d", input, out=result, **settings, **others)
        first = {"kernel_size": 1, "stride": 1, "padding": 0}
        settings = {name: (first[name], *values) for name, values in settings.items()}
        x = tape.run("unsqueeze", input, dim=-2)
        found = tape.run("avg_pool2d", x, out=np.expand_dims(result, -2), **settings, **others)
        return tape.run("squeeze.dim", found, dim=-2)

    return plan


def _lp_pool(dims: int) -> Plan:
    def plan(
        tape: Tape,
        result: NDArray[Any],
        function: Callable[..., Any],
        input: TapeValue,
        norm_type: float,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None,
        ceil_mode: bool,
    ) -> TapeValue:
        size = numbers(kernel_size, dims)
        power = tape.run("pow.Tensor_Scalar", input, exponent=norm_type)
        wide = result.astype(np.float64)
        mean = np.sign(wide) * np.abs(wide) ** norm_type / math.prod(size)  # which NaN remains
        shape = {"stride": stride, "padding": 0, "ceil_mode": ceil_mode, "count_include_pad": True}
        pooled = _avg_pool(dims)(tape, mean.astype(result.dtype), None, power, size, **shape)
        sign, positive = tape.run("sign", pooled), tape.run("relu", tape.run("abs", pooled))
        total = tape.run("mul.Tensor", tape.run("mul.Tensor", sign, positive), math.prod(size))
        return tape.run("pow.Tensor_Scalar", total, out=result, exponent=1.0 / norm_type)

    return plan


def _adaptive_size(given: int | Sequence[int | None] | None, input: TapeValue, dims: int) -> list[int]:
    sizes = numbers(given, dims)
    return [input.shape[n - dims] if size is None else size for n, size in zip(range(dims), sizes, strict=True)]


def _adaptive_avg_pool(dims: int) -> Plan:
    def plan(
        tape: Tape,
        result: Results,
        function: Callable[..., Any],
        input: TapeValue,
        output_size: int | Sequence[int | None],
    ) -> TapeValue:
        size = _adaptive_size(output_size, input, dims)
        if dims == 1:
            x = tape.run("unsqueeze", input, dim=-2)
            if size == [1]:
                found = tape.run("mean.dim", x, out=np.expand_dims(result, -2), dim=(-1, -2), keepdim=True)
            else:
                found = tape.run("_adaptive_avg_pool2d", x, out=np.expand_dims(result, -2))
            return tape.run("squeeze.dim", found, dim=-2)
        if all(one == 1 for one in size):
            axes = tuple(range(-1, -dims - 1, -1))
            return tape.run("mean.dim", input, out=result, dim=axes, keepdim=True)
        return tape.run(f"_adaptive_avg_pool{dims}d", input, out=result)

    return plan


def _adaptive_max_pool(dims: int) -> Plan:
    def plan(tape: Tape, result: Results, function: Callable[..., Any], **arguments: Any) -> Any:
        y, indices = _with_indices(function, result, arguments)
        x = arguments["input"]
        if dims == 1:
            x = tape.run("unsqueeze", x, dim=-2)
            y, indices = (np.expand_dims(one, -2) for one in (y, indices))
        found, places = tape.run(f"adaptive_max_pool{max(dims, 2)}d", x, out=(y, indices))
        if dims == 1:
            found, places = tape.run("squeeze.dim", found, dim=-2), TapeValue(places.array.squeeze(-2))
        return (found, places) if isinstance(result, tuple) else found

    return plan


def _fractional_max_pool(dims: int) -> Plan:
    def plan(tape: Tape, result: Results, function: Callable[..., Any], **arguments: Any) -> Any:
        y, indices = _with_indices(function, result, arguments)
        settings = {
            "kernel_size": numbers(arguments["kernel_size"], dims),
            "output_size": tuple(y.shape[-dims:]),
        }
        both = tape.run(f"fractional_max_pool{dims}d", arguments["input"], out=(y, indices), **settings)
        return both if isinstance(result, tuple) else both[0]

    return plan


def _max_unpool(dims: int) -> Plan:
    def plan(
        tape: Tape,
        result: NDArray[Any],
        function: Callable[..., Any],
        input: TapeValue,
        indices: TapeValue,
        **_: object,
    ) -> TapeValue:
        if dims > 1:
            return tape.run(f"max_unpool{dims}d", input, indices, out=result)
        x = tape.run("unsqueeze", input, dim=-1)
        found = tape.run("max_unpool2d", x, indices.array[..., None], out=result[..., None])
        return tape.run("squeeze.dim", found, dim=-1)

    return plan


def pad(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    pad: Sequence[int],
    mode: str,
    value: float | None,
) -> TapeValue:
    sides = tuple(int(side) for side in pad)
    if mode == "constant":
        return tape.run("constant_pad_nd", input, out=result, pad=sides)
    if mode == "circular":
        return circular(tape, input, sides)
    kind = {"reflect": "reflection", "replicate": "replication"}[mode]
    return tape.run(f"{kind}_pad{len(sides) // 2}d", input, out=result, padding=sides)


def fold(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    output_size: int | Sequence[int],
    **settings: Any,
) -> TapeValue:
    return tape.run("col2im", input, out=result, **{name: numbers(one, 2) for name, one in settings.items()})


def unfold(
    tape: Tape, result: NDArray[Any], function: Callable[..., Any], input: TapeValue, **settings: Any
) -> TapeValue:
    return tape.run("im2col", input, out=result, **{name: numbers(one, 2) for name, one in settings.items()})


def interpolate(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any] | None,
    input: TapeValue,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> TapeValue:
    dims = input.ndim - 2
    if mode == "area":
        return _adaptive_avg_pool(dims)(tape, result, None, input, result.shape[2:])
    kinds = {"linear": "linear1d", "bilinear": "bilinear2d", "bicubic": "bicubic2d", "trilinear": "trilinear3d"}
    operation = "upsample_" + kinds.get(mode, f"nearest{dims}d")
    if mode == "nearest-exact":
        operation = f"_upsample_nearest_exact{dims}d"
    if antialias:
        operation = f"_{operation}_aa"
    settings: dict[str, Any] = {"output_size": tuple(result.shape[2:])}
    if "nearest" not in mode:
        settings["align_corners"] = bool(align_corners)
    scales = numbers(None if recompute_scale_factor else scale_factor, dims)
    names = ["scales"] if dims == 1 else ["scales_d", "scales_h", "scales_w"][-dims:]
    settings |= {name: None if one is None else float(one) for name, one in zip(names, scales, strict=True)}
    return tape.run(operation, input, out=result, **settings)


def upsample_nearest(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    size: int | Sequence[int] | None,
    scale_factor: float | Sequence[float] | None,
) -> TapeValue:
    return interpolate(tape, result, None, input, size, scale_factor)


def upsample_bilinear(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    size: int | Sequence[int] | None,
    scale_factor: float | Sequence[float] | None,
) -> TapeValue:
    return interpolate(tape, result, None, input, size, scale_factor, "bilinear", True)


def affine_grid(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    theta: TapeValue,
    size: Sequence[int],
    align_corners: bool | None,
) -> TapeValue:
    return tape.run("affine_grid_generator", theta, out=result, size=tuple(size), align_corners=bool(align_corners))


def grid_sample(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    grid: TapeValue,
    mode: str,
    padding_mode: str,
    align_corners: bool | None,
) -> TapeValue:
    settings = {
        "interpolation_mode": ["bilinear", "nearest", "bicubic"].index(mode),
        "padding_mode": ["zeros", "border", "reflection"].index(padding_mode),
        "align_corners": bool(align_corners),
    }
    return tape.run(f"grid_sampler_{input.ndim - 2}d", input, grid, out=result, **settings)


POOLS: dict[str, Plan] = {
    **{f"max_pool{n}d": _max_pool(n) for n in (1, 2, 3)},
    **{f"avg_pool{n}d": _avg_pool(n) for n in (1, 2, 3)},
    **{f"lp_pool{n}d": _lp_pool(n) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": _adaptive_avg_pool(n) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": _adaptive_max_pool(n) for n in (1, 2, 3)},
    **{f"max_unpool{n}d": _max_unpool(n) for n in (1, 2, 3)},
    "fractional_max_pool2d": _fractional_max_pool(2),
    "fractional_max_pool3d": _fractional_max_pool(3),
    "pad": pad,
    "fold": fold,
    "unfold": unfold,
    "interpolate": interpolate,
    "upsample": interpolate,
    "upsample_nearest": upsample_nearest,
    "upsample_bilinear": upsample_bilinear,
    "affine_grid": affine_grid,
    "grid_sample": grid_sample,
}
