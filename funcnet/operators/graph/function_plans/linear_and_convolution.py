"""Plans of linear layers, convolutions and embeddings."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.operators.graph.function_plans.single_operations import Plan
from funcnet.operators.graph.torch_operations.composite_operations import linear as linear_of
from funcnet.operators.graph.torch_operations.composite_operations import reshape
from funcnet.operators.graph.torch_operations.tape import Tape, TapeValue

__all__ = ["PRODUCTS", "numbers", "spread_over"]


def numbers(given: float | Sequence[float | None] | None, count: int) -> tuple[Any, ...]:
    """Return `count` numbers. A single number is used for all dimensions."""
    found = tuple(given) if isinstance(given, Sequence | np.ndarray) else (given,) * count
    return found * count if len(found) == 1 else found


def linear(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    weight: TapeValue,
    bias: TapeValue | None,
) -> TapeValue:
    return linear_of(tape, input, weight, bias)


def bilinear(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input1: TapeValue,
    input2: TapeValue,
    weight: TapeValue,
    bias: TapeValue | None,
) -> TapeValue:
    first = tape.run("view", input1, size=(-1, input1.shape[-1]))
    second = tape.run("view", input2, size=(-1, input2.shape[-1]))
    settings = {"expand1": (1, 3), "expand2": (0,), "expand3": (1, 2), "sumdim": (2, 3)}
    product = np.einsum("bi,oij,bj->bo", first.array, weight.array, second.array).astype(result.dtype)
    found = tape.run("_trilinear", first, weight, second, out=product, **settings)
    found = tape.run("view", found, size=result.shape)
    return found if bias is None else tape.run("add.Tensor", found, bias, out=result, alpha=1)


def spread_over(tape: Tape, x: TapeValue, dims: int) -> TapeValue:
    """Add a batch of one example if the input has none."""
    return x if x.ndim == dims + 2 else tape.run("unsqueeze", x, dim=0)


def _convolution(dims: int, is_transposed: bool = False) -> Plan:
    def plan(
        tape: Tape,
        result: NDArray[Any],
        function: Callable[..., Any],
        input: TapeValue,
        weight: TapeValue,
        bias: TapeValue | None,
        **settings: Any,
    ) -> TapeValue:
        x = spread_over(tape, input, dims)
        stride, dilation = numbers(settings["stride"], dims), numbers(settings["dilation"], dims)
        padding = settings["padding"]
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
            padding = tuple(one // 2 for one in total)
            if any(one % 2 for one in total):
                uneven = [side for one in reversed(total) for side in (0, one % 2)]
                x = tape.run("constant_pad_nd", x, pad=uneven)
        # Torch passes one 0 for all dimensions if the padding is "valid".
        more = (0,) if settings["padding"] == "valid" else numbers(settings.get("output_padding", 0), dims)
        padding = (0,) if padding == "valid" else numbers(padding, dims)
        found = tape.run(
            "convolution",
            x,
            weight,
            bias,
            out=result if input.ndim == x.ndim else result[None],
            stride=stride,
            padding=padding,
            dilation=dilation,
            transposed=is_transposed,
            output_padding=more,
            groups=settings["groups"],
        )
        return found if input.ndim == x.ndim else tape.run("squeeze.dim", found, dim=0)

    return plan


def conv_tbc(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    weight: TapeValue,
    bias: TapeValue,
    pad: int,
) -> TapeValue:
    return tape.run("conv_tbc", input, weight, bias, out=result, pad=pad)


def embedding(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    weight: TapeValue,
    padding_idx: int | None,
    scale_grad_by_freq: bool,
    sparse: bool,
    **_: object,
) -> TapeValue:
    if padding_idx is None:
        padding_idx = -1
    settings = {"padding_idx": padding_idx, "scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
    return tape.run("embedding", weight, input, out=result, **settings)


def embedding_bag(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    input: TapeValue,
    weight: TapeValue,
    offsets: TapeValue | None,
    **settings: Any,
) -> TapeValue:
    """Bags in rows become one list of ids with offsets."""
    ids, weights = input.array, settings["per_sample_weights"]
    if ids.ndim == 2:
        starts = np.arange(0, ids.size, ids.shape[1])
        if weights is not None:
            weights = reshape(tape, weights, (-1,))
    else:
        assert offsets is not None
        starts = offsets.array
    mode = {"sum": 0, "mean": 1, "max": 2}[settings["mode"]]
    padding = -1 if settings["padding_idx"] is None else settings["padding_idx"] % weight.shape[0]
    saved = {"scale_grad_by_freq": settings["scale_grad_by_freq"], "sparse": settings["sparse"]}
    saved |= _bags(ids.reshape(-1), starts, settings["include_last_offset"], padding, mode, weight)
    return tape.run(
        "_embedding_bag", weight, ids.reshape(-1), starts, weights, out=result, mode=mode, padding_idx=padding, **saved
    )


def _bags(
    ids: NDArray[Any], starts: NDArray[Any], has_end: bool, padding: int, mode: int, weight: TapeValue
) -> dict[str, Any]:
    """Return the bag of each id, the size of each bag, and the index of the maximum in each column."""
    bags = len(starts) - has_end
    which = np.searchsorted(starts[:bags], np.arange(len(ids)), side="right") - 1
    sizes = np.bincount(which[ids != padding], minlength=bags)
    sizes = sizes if mode else np.zeros_like(sizes)  # which a sum does not need
    largest = sizes if mode != 2 else np.zeros((bags, weight.shape[1]), int)
    if mode == 2:
        for bag in range(bags):
            own = ids[(which == bag) & (ids != padding)]
            if len(own):
                largest[bag] = own[weight.array[own].argmax(0)]
            else:
                largest[bag] = -1
    if mode == 0 and padding < 0:  # a faster way, which needs no bags
        which = which[:0]
    return {"result1": which, "result2": sizes, "result3": largest}


PRODUCTS: dict[str, Plan] = {
    "linear": linear,
    "bilinear": bilinear,
    **{f"conv{n}d": _convolution(n) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _convolution(n, is_transposed=True) for n in (1, 2, 3)},
    "conv_tbc": conv_tbc,
    "embedding": embedding,
    "embedding_bag": embedding_bag,
}
