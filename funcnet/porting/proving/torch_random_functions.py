"""Replaces torch's random functions with functions that return the same numbers as JAX does inside `patterned`."""

from __future__ import annotations

import importlib
import math
import statistics
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from funcnet.comparison.torch_objects import TorchTensor

__all__ = ["normals", "replacements", "uniforms"]

Replacements = list[tuple[Any, str, Any]]  # (object, name of its attribute, new value)

_GOLDEN = (math.sqrt(5) - 1) / 2
_NORMAL = statistics.NormalDist()


def uniforms(shape: Sequence[int]) -> np.ndarray:
    """Return float64 numbers that are evenly spread over the open interval (0, 1).

    >>> uniforms((3,)).round(3).tolist()
    [0.618, 0.236, 0.854]
    """
    count = math.prod(shape)
    return (((np.arange(count) + 1) * _GOLDEN) % 1.0).reshape(tuple(shape))


def normals(shape: Sequence[int]) -> np.ndarray:
    flat = [_NORMAL.inv_cdf(float(u)) for u in uniforms(shape).ravel()]
    return np.array(flat).reshape(tuple(shape))


def replacements() -> Replacements:
    """Return (object, attribute, new function) for each random function of torch that `patterned` replaces. The list is
    empty if torch is not installed.
    """
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return []
    return [*_made(torch), *_filled(torch), *_dropped_out(torch)]


def _made(torch: ModuleType) -> Replacements:
    """Return the replacements of random functions of torch that make a new tensor, such as `torch.randn`."""

    def drawn(values: Callable[[Sequence[int]], np.ndarray], *size: Any, dtype: Any = None, **options: Any) -> Any:
        sizes = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
        kept = {name: options[name] for name in ("device", "requires_grad") if name in options}
        found = torch.as_tensor(values(tuple(sizes))).to(dtype or torch.get_default_dtype())
        return found.to(kept.get("device")).requires_grad_(kept.get("requires_grad", False))

    def rand(*size: int | Sequence[int], **options: Any) -> Any:
        return drawn(uniforms, *(options.pop("size", None) or size), **options)

    def randn(*size: int | Sequence[int], **options: Any) -> Any:
        return drawn(normals, *(options.pop("size", None) or size), **options)

    def rand_like(input: TorchTensor, **options: Any) -> Any:
        return drawn(uniforms, tuple(input.shape), **{"dtype": input.dtype, **options})

    def randn_like(input: TorchTensor, **options: Any) -> Any:
        return drawn(normals, tuple(input.shape), **{"dtype": input.dtype, **options})

    def randint(low: Any, high: Any = None, size: Any = None, **options: Any) -> Any:
        low, high, size = (0, low, high) if size is None else (low, high, size)
        values = lambda sizes: np.floor(uniforms(sizes) * (high - low) + low)
        return drawn(values, tuple(size), **{"dtype": torch.int64, **options})

    def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, **options: Any) -> Any:
        tensors = [one for one in (mean, std) if isinstance(one, torch.Tensor)]
        sizes = size if size is not None else torch.broadcast_tensors(*tensors)[0].shape
        return drawn(normals, tuple(sizes), **options) * std + mean

    def randperm(n: int, **options: object) -> Any:
        return torch.as_tensor(np.argsort(uniforms((n,))))

    def bernoulli(input: TorchTensor, p: Any = None, **options: object) -> Any:
        rate = input if p is None else p
        return (torch.as_tensor(uniforms(input.shape)) < rate).to(input.dtype)

    def zeros(make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, memory_format=None, **options: make(*args, **options)

    made = (rand, randn, rand_like, randn_like, randint, normal, randperm, bernoulli)
    return [
        (torch, "empty", zeros(torch.zeros)),  # the content of uninitialised memory differs from run to run
        (torch, "empty_like", zeros(torch.zeros_like)),
        (torch.Tensor, "new_empty", zeros(torch.Tensor.new_zeros)),
        *((torch, one.__name__, one) for one in made),
        (torch.Tensor, "bernoulli", bernoulli),
    ]


def _filled(torch: ModuleType) -> Replacements:
    """Return the replacements of tensor methods that fill a tensor with random numbers, such as `normal_`."""

    def filled(values: Callable[..., np.ndarray]) -> Callable[..., Any]:
        def fill(self: Any, *args: Any, generator: object = None, **kwargs: Any) -> Any:
            with torch.no_grad():
                return self.copy_(torch.as_tensor(values(tuple(self.shape), *args, **kwargs)))

        return fill

    def below(shape: Sequence[int], p: Any = 0.5) -> Any:
        rate = p.detach().cpu().numpy() if hasattr(p, "detach") else p
        return uniforms(shape) < rate

    between = lambda shape, a=0.0, b=1.0, **names: (
        uniforms(shape) * (names.get("to", b) - names.get("from", a)) + names.get("from", a)
    )
    gaussian = lambda shape, mean=0.0, std=1.0: normals(shape) * std + mean
    waits = lambda shape, lambd=1.0: -np.log1p(-uniforms(shape)) / lambd

    return [
        (torch.Tensor, "bernoulli_", filled(below)),
        (torch.Tensor, "uniform_", filled(between)),
        (torch.Tensor, "normal_", filled(gaussian)),
        (torch.Tensor, "exponential_", filled(waits)),
    ]


def _dropped_out(torch: ModuleType) -> Replacements:
    """Return the replacements of torch's dropout functions and of its attention function, which has a dropout rate."""
    functional = torch.nn.functional

    def dropout(input: TorchTensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return _dropped(torch, input, p, training, tuple(input.shape), inplace)

    def channels(spatial: int) -> Callable[..., Any]:
        def dropout_of_channels(
            input: TorchTensor, p: float = 0.5, training: bool = True, inplace: bool = False
        ) -> Any:
            leading = min(2, input.ndim) if spatial == 0 else input.ndim - spatial
            shape = [*input.shape[:leading], *([1] * (input.ndim - leading))]
            return _dropped(torch, input, p, training, shape, inplace)

        return dropout_of_channels

    attention = functional.scaled_dot_product_attention

    def attend(
        query: TorchTensor, key: TorchTensor, value: TorchTensor, attn_mask: TorchTensor | None = None,
        dropout_p: float = 0.0, is_causal: bool = False, **options: Any,
    ) -> Any:  # fmt: skip
        options["is_causal"] = is_causal
        if not dropout_p:
            return attention(query, key, value, attn_mask, **options)
        identity = torch.eye(key.shape[-2], dtype=value.dtype).expand(*value.shape[:-2], -1, -1)
        weights = attention(query, key, identity, attn_mask, **options)
        return dropout(weights, dropout_p) @ value

    return [
        (functional, "dropout", dropout),
        (torch, "dropout", lambda input, p, train: dropout(input, p, train)),
        (functional, "dropout1d", channels(1)),
        (functional, "dropout2d", channels(0)),
        (functional, "dropout3d", channels(3)),
        (functional, "scaled_dot_product_attention", attend),
    ]


def _dropped(
    torch: ModuleType, input: TorchTensor, p: float, training: bool, shape: Sequence[int], inplace: bool
) -> Any:
    if not training or p == 0:
        return input
    kept = torch.as_tensor(uniforms(shape) >= p, device=input.device)
    factor = kept / (1 - p) if p < 1 else kept * 0.0
    return input.mul_(factor) if inplace else input * factor
