"""Plans of attention.

Letters: `L queries, S keys, B batch, H heads, E width of a head, D = H·E`.

Reference: torch/nn/functional.py, `multi_head_attention_forward`; aten/src/ATen/native/transformers/attention.cpp.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jax.typing import DTypeLike
from numpy.typing import NDArray

from funcnet.operators.graph.function_plans.normalization import dropped
from funcnet.operators.graph.function_plans.single_operations import Plan
from funcnet.operators.graph.torch_operations.composite_operations import contiguous, linear, matmul, reshape
from funcnet.operators.graph.torch_operations.tape import Results, Tape, TapeValue

__all__ = ["ATTENTION"]


def _added(mask: TapeValue | None, dtype: DTypeLike) -> TapeValue | None:
    """Return a mask that is added to scores. True in a boolean mask hides a position."""
    if mask is None or mask.dtype != bool:
        return mask
    return TapeValue(np.where(mask.array, -np.inf, 0).astype(dtype))


def scaled_dot_product_attention(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    query: TapeValue,
    key: TapeValue,
    value: TapeValue,
    **others: Any,
) -> TapeValue:
    mask, rate = others["attn_mask"], float(getattr(others["dropout_p"], "array", others["dropout_p"]))
    if mask is not None and mask.dtype == bool:
        mask = TapeValue(np.where(mask.array, 0, -np.inf).astype(query.dtype))  # False hides here
    settings = {"scale": others["scale"], "is_causal": others["is_causal"], "enable_gqa": others["enable_gqa"]}
    return _sdpa(tape, query, key, value, mask, rate, **settings, out=result)


def _sdpa(
    tape: Tape,
    query: TapeValue,
    key: TapeValue,
    value: TapeValue,
    mask: TapeValue | None,
    rate: float,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    out: NDArray[Any] | None = None,
) -> TapeValue:
    """One operation if torch has a fused operation for CPU, otherwise a product, a softmax and a product."""
    widths = {one.shape[-1] for one in (query, key, value)}
    is_fused = rate == 0 and {query.ndim, key.ndim, value.ndim} == {4} and len(widths) == 1
    is_fused = is_fused and (mask is None or not mask.requires_grad) and not enable_gqa
    if is_fused and query.array.size and key.array.size:
        weights, total = _weights(query.array, key.array, mask, is_causal, scale)
        output = np.empty_like(query.array, order="K")  # in memory as the queries are
        output[...] = np.matmul(weights, value.array.astype(weights.dtype)) if out is None else out
        settings = {"dropout_p": rate, "is_causal": is_causal, "scale": scale, "logsumexp": total}
        name = "_scaled_dot_product_flash_attention_for_cpu"
        return tape.run(name, query, key, value, mask, out=output, **settings)
    factor = math.sqrt(query.shape[-1] ** -0.5 if scale is None else abs(scale))
    scaled = tape.run("mul.Scalar", query, other=factor if scale is None or scale >= 0 else -factor)
    if is_causal:
        shape = (query.shape[-2], key.shape[-2])
        mask = TapeValue(np.where(np.tril(np.ones(shape, bool)), 0, -np.inf).astype(query.dtype))
    if enable_gqa:
        repeats = query.shape[-3] // key.shape[-3]
        key, value = (_repeated(tape, one, repeats) for one in (key, value))
    turned = tape.run("mul.Scalar", tape.run("transpose.int", key, dim0=-2, dim1=-1), other=factor)
    scores = matmul(tape, scaled, turned)
    if mask is not None:
        scores = tape.run("add.Tensor", scores, mask, alpha=1)
    weights = tape.run("_safe_softmax", scores, dim=-1)
    if rate > 0:
        weights = dropped(tape, None, weights, rate, np.ones(weights.shape, weights.dtype))
    return matmul(tape, weights, value)


def _repeated(tape: Tape, x: TapeValue, repeats: int) -> TapeValue:
    if repeats == 1:
        return x
    found = tape.run("expand", tape.run("unsqueeze", x, dim=-3), size=(*x.shape[:-2], repeats, *x.shape[-2:]))
    return reshape(tape, found, (*x.shape[:-3], x.shape[-3] * repeats, *x.shape[-2:]))


def _weights(
    query: NDArray[Any], key: NDArray[Any], mask: TapeValue | None, is_causal: bool, scale: float | None
) -> tuple[Any, Any]:
    """Return the weights, and the logarithm of the sum of the exponentials of the scores."""
    query, key = query.astype(np.float32), key.astype(np.float32)
    scores = np.matmul(query, key.swapaxes(-1, -2)) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    if mask is not None:
        scores = scores + mask.array
    most = np.maximum(scores.max(-1, keepdims=True), np.finfo(np.float32).min)
    exponentials = np.exp(scores - most)
    total = exponentials.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return exponentials / np.maximum(total, 1e-37), (most + np.log(total))[..., 0]


# -------------------------------------------------------------------------------------------- multi-head attention


def in_projection_packed(
    tape: Tape,
    result: Results | None,
    function: Callable[..., Any] | None,
    q: TapeValue,
    k: TapeValue,
    v: TapeValue,
    w: TapeValue,
    b: TapeValue | None,
) -> tuple[TapeValue, ...]:
    """One product if the arrays are the same, otherwise a product for each."""
    width = q.shape[-1]
    if k is v and q is k:
        return _thirds(tape, linear(tape, q, w, b), 3, width)
    if k is v:
        w_q, w_kv = tape.run("split_with_sizes", w, split_sizes=(width, 2 * width), dim=0)
        b_q = b_kv = None
        if b is not None:
            b_q, b_kv = tape.run("split_with_sizes", b, split_sizes=(width, 2 * width), dim=0)
        query = linear(tape, q, w_q, b_q)
        return (query, *_thirds(tape, linear(tape, k, w_kv, b_kv), 2, width))
    weights = tape.run("split.Tensor", w, split_size=width, dim=0)
    biases = (None, None, None) if b is None else tape.run("split.Tensor", b, split_size=width, dim=0)
    return tuple(linear(tape, x, m, n) for x, m, n in zip((q, k, v), weights, biases, strict=True))


def _thirds(tape: Tape, x: TapeValue, count: int, width: int) -> tuple[TapeValue, ...]:
    """Split the last dimension, and copy the parts one after the other in memory."""
    x = tape.run("view", x, size=(*x.shape[:-1], count, width))
    x = tape.run("transpose.int", tape.run("unsqueeze", x, dim=0), dim0=0, dim1=-2)
    x = contiguous(tape, tape.run("squeeze.dim", x, dim=-2))
    return tuple(tape.run("select.int", x, dim=0, index=number) for number in range(count))


def in_projection(tape: Tape, result: Results, function: Callable[..., Any], **given: Any) -> tuple[TapeValue, ...]:
    return tuple(linear(tape, given[x], given[f"w_{x}"], given[f"b_{x}"]) for x in "qkv")


def multi_head_attention_forward(
    tape: Tape,
    result: Results,
    function: Callable[..., Any],
    query: TapeValue,
    key: TapeValue,
    value: TapeValue,
    **given: Any,
) -> tuple[TapeValue, TapeValue | None]:
    has_batch, heads = query.ndim == 3, given["num_heads"]
    padding, mask = (_added(given[name], query.dtype) for name in ("key_padding_mask", "attn_mask"))
    if not has_batch:
        images = {id(x): tape.run("unsqueeze", x, dim=1) for x in (query, key, value)}
        query, key, value = (images[id(x)] for x in (query, key, value))
        padding = None if padding is None else TapeValue(padding.array[None])
    length, batch, width = query.shape
    causal = given["is_causal"] and padding is None and not given["need_weights"]
    mask = None if causal else mask
    q, k, v = _projected(tape, query, key, value, given)
    if mask is not None and mask.ndim == 2:
        mask = tape.run("unsqueeze", mask, dim=0)
    k, v = _with_bias(tape, k, given["bias_k"], batch), _with_bias(tape, v, given["bias_v"], batch)
    mask, padding = (_wider(tape, one, given["bias_k"] is not None) for one in (mask, padding))
    size = (batch * heads, width // heads)
    q, k, v = (_heads(tape, x, size) for x in (q, k, v))
    k, v = (x if given[f"static_{name}"] is None else given[f"static_{name}"] for name, x in (("k", k), ("v", v)))
    if given["add_zero_attn"]:
        row = np.zeros((size[0], 1, size[1]), k.dtype)
        k, v = (tape.run("cat", [x, TapeValue(row)], dim=1) for x in (k, v))
        mask, padding = _wider(tape, mask), _wider(tape, padding)
    mask = _merged(tape, mask, padding, heads)
    rate = float(getattr(given["dropout_p"], "array", given["dropout_p"])) if given["training"] else 0.0
    weights = None
    if given["need_weights"]:
        attended, weights = _with_weights(tape, (q, k, v), mask, rate, result[1], given)
        attended = tape.run("transpose.int", attended, dim0=0, dim1=1)
        rows = reshape(tape, attended, (length * batch, width))
    else:
        q, k, v = (tape.run("view", x, size=(batch, heads, *x.shape[1:])) for x in (q, k, v))
        if mask is not None:
            one = mask.shape[0] == 1
            mask = (
                tape.run("unsqueeze", mask, dim=0)
                if one
                else tape.run("view", mask, size=(batch, heads, -1, k.shape[2]))
            )
        attended = _sdpa(tape, q, k, v, mask, rate, causal)
        rows = reshape(tape, tape.run("permute", attended, dims=(2, 0, 1, 3)), (batch * length, width))
    return _projected_out(tape, result, rows, weights, given, (length, batch, has_batch))


def _projected(
    tape: Tape, query: TapeValue, key: TapeValue, value: TapeValue, given: Mapping[str, Any]
) -> tuple[TapeValue, ...]:
    if not given["use_separate_proj_weight"]:
        w, b = given["in_proj_weight"], given["in_proj_bias"]
        return in_projection_packed(tape, None, None, query, key, value, w, b)
    bias = given["in_proj_bias"]
    biases = (None,) * 3
    if bias is not None:
        biases = tape.run("split.Tensor", bias, split_size=bias.shape[0] // 3, dim=0)
    weights = [given[f"{name}_proj_weight"] for name in "qkv"]
    return tuple(linear(tape, x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))


def _with_bias(tape: Tape, x: TapeValue, bias: TapeValue | None, batch: int) -> TapeValue:
    """Append a learned key or value."""
    if bias is None:
        return x
    return tape.run("cat", [x, tape.run("repeat", bias, repeats=(1, batch, 1))], dim=0)


def _heads(tape: Tape, x: TapeValue, size: tuple[int, int]) -> TapeValue:
    return tape.run("transpose.int", tape.run("view", x, size=(x.shape[0], *size)), dim0=0, dim1=1)


def _wider(tape: Tape, mask: TapeValue | None, is_longer: bool = True) -> TapeValue | None:
    """Add a visible key to a mask."""
    return tape.run("constant_pad_nd", mask, pad=(0, 1)) if mask is not None and is_longer else mask


def _merged(tape: Tape, mask: TapeValue | None, padding: TapeValue | None, heads: int) -> TapeValue | None:
    """Return the sum of a mask (1 or B·H, L, S) and of hidden keys (B, S)."""
    if padding is None:
        return mask
    batch, keys = padding.shape
    spread = np.broadcast_to(padding.array[:, None, None], (batch, heads, 1, keys))
    hidden = TapeValue(spread.reshape(batch * heads, 1, keys))
    return hidden if mask is None else tape.run("add.Tensor", mask, hidden, alpha=1)


def _with_weights(
    tape: Tape,
    qkv: tuple[TapeValue, TapeValue, TapeValue],
    mask: TapeValue | None,
    rate: float,
    shares: NDArray[Any],
    given: Mapping[str, Any],
) -> tuple[TapeValue, TapeValue]:
    q, k, v = qkv
    scaled = tape.run("mul.Tensor", q, math.sqrt(1 / q.shape[-1]))
    turned = tape.run("transpose.int", k, dim0=-2, dim1=-1)
    if mask is None:
        scores = tape.run("bmm", scaled, turned)
    else:
        scores = tape.run("baddbmm", mask, scaled, turned, alpha=1, beta=1)
    weights = tape.run("_softmax", scores, dim=-1)
    if rate > 0:
        noise = np.ones(weights.shape, weights.dtype)
        if not given["average_attn_weights"]:  # otherwise the mask of each head is unknown
            with np.errstate(all="ignore"):
                noise = np.where(weights.array > 0, shares.reshape(weights.shape) / weights.array, 1 / (1 - rate))
        weights = dropped(tape, None, weights, rate, noise.astype(weights.dtype))
    return tape.run("bmm", weights, v), weights


def _projected_out(
    tape: Tape,
    result: Results,
    rows: TapeValue,
    weights: TapeValue | None,
    given: Mapping[str, Any],
    shape: tuple[int, int, bool],
) -> tuple[TapeValue, TapeValue | None]:
    length, batch, has_batch = shape
    y = linear(tape, rows, given["out_proj_weight"], given["out_proj_bias"])
    y = tape.run("view", y, size=(length, batch, y.shape[1]))
    if weights is not None:
        weights = tape.run("view", weights, size=(batch, given["num_heads"], length, -1))
    if weights is not None and given["average_attn_weights"]:
        weights = tape.run("mean.dim", weights, dim=(1,), keepdim=False)
    if not has_batch:
        y = tape.run("squeeze.dim", y, dim=1)
        weights = None if weights is None else tape.run("squeeze.dim", weights, dim=0)
    return y, weights


# ------------------------------------------------------------------------------------------- attention of other models


def attend(
    tape: Tape,
    result: Results,
    function: Callable[..., Any],
    query: TapeValue,
    key: TapeValue,
    value: TapeValue,
    **given: Any,
) -> Any:
    """The attention that transformers calls "eager": a product, a softmax, dropout and a product."""
    if given["heads_last"]:
        query, key, value = (_heads_first(tape, x) for x in (query, key, value))
    turned = tape.run("transpose.int", key, dim0=-1, dim1=-2)
    scale = query.shape[-1] ** -0.5 if given["scale"] is None else given["scale"]
    scores = tape.run("div.Tensor", matmul(tape, query, turned), 1 / scale)
    for mask in given["masks"]:
        if mask is not None:
            scores = tape.run("add.Tensor", scores, _added(mask, scores.dtype), alpha=1)
    weights = tape.run("_softmax", scores, dim=-1)
    shares = result[1]
    with np.errstate(all="ignore"):
        noise = np.where(weights.array > 1e-30, shares / weights.array, 1)
    if given["dropout"] is not None and np.abs(noise - 1).max(initial=0) > 1e-2:
        weights = tape.run("mul.Tensor", weights, noise.astype(weights.dtype), out=shares)
    output = matmul(tape, weights, value)
    if given["heads_last"]:
        output = contiguous(tape, tape.run("permute", output, dims=(0, 2, 1, 3)))
    return output, weights


def _heads_first(tape: Tape, x: TapeValue) -> TapeValue:
    """Move the heads (B, L, H, E) in front of the sequence, right after the operation that computed them, because
    transformers moves them before it computes the next projection.
    """
    found = tape.run("transpose.int", x, dim0=1, dim1=2)
    if x.edge is None or found.edge is None or x.edge[0].number < 0:
        return found
    return TapeValue(found.array, (dataclasses.replace(found.edge[0], number=x.edge[0].number + 0.5), 0))


def split_heads(
    tape: Tape, result: NDArray[Any], function: Callable[..., Any], input: TapeValue, num_heads: int
) -> TapeValue:
    size = (*input.shape[:-1], num_heads, input.shape[-1] // num_heads)
    return tape.run("transpose.int", reshape(tape, input, size), dim0=-2, dim1=-3)


def merge_heads(tape: Tape, result: NDArray[Any], function: Callable[..., Any], input: TapeValue) -> TapeValue:
    turned = tape.run("transpose.int", input, dim0=-2, dim1=-3)
    return reshape(tape, turned, result.shape)


ATTENTION: dict[str, Plan] = {
    "scaled_dot_product_attention": scaled_dot_product_attention,
    "multi_head_attention_forward": multi_head_attention_forward,
    "in_projection_packed": in_projection_packed,
    "in_projection": in_projection,
    "attend": attend,
    "split_heads": split_heads,
    "merge_heads": merge_heads,
}
