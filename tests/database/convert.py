"""From torch's values to ours: tensors, dtypes, packed sequences, modules and functions among arguments."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch

from funcnet import functional as F
from funcnet import nn

DTYPES = {
    torch.float64: "float64",
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.complex64: "complex64",
    torch.complex128: "complex128",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.int16: "int16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.bool: "bool",
}


def walk(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with `change` of every leaf. Packed sequences are named tuples, and keep their kind."""
    if isinstance(value, dict):
        return {key: walk(item, change) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(walk(item, change) for item in value))
    if type(value) in (list, tuple):
        return type(value)(walk(item, change) for item in value)
    return change(value)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors of a structure, in its order."""
    found: list[torch.Tensor] = []

    def note(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        return leaf

    walk(value, note)
    return found


def fresh(value: Any, dtype: torch.dtype | None = None) -> Any:
    """A copy for one run of torch: tensors are leaves of their own, the floating ones of `dtype`."""

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        new = leaf.detach().clone()
        if dtype is not None and new.is_floating_point():
            new = new.to(dtype)
        if dtype is torch.float64 and new.is_complex():
            new = new.to(torch.complex128)
        return new.requires_grad_(leaf.requires_grad)

    return walk(value, copy)


def array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's numbers."""
    tensor = tensor.detach().resolve_conj().cpu()
    if tensor.dtype is torch.bfloat16:
        return np.asarray(tensor.float().numpy(), jnp.bfloat16)
    return tensor.numpy()


def ours(value: Any) -> Any:
    """Arguments of torch's as arguments of ours."""
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return nn.utils.rnn.PackedSequence(*(ours(item) for item in value))
    if isinstance(value, dict):
        return {key: ours(item) for key, item in value.items() if key != "device"}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple(ours(item) for item in value)
    if isinstance(value, list | tuple):  # torch.Size too
        return (list if isinstance(value, list) else tuple)(ours(item) for item in value)
    if isinstance(value, torch.Tensor):
        return jnp.asarray(array(value))
    if isinstance(value, torch.dtype):
        return jnp.dtype(DTYPES[value])
    if isinstance(value, torch.nn.LinearCrossEntropyOptions):
        return nn.LinearCrossEntropyOptions(**{f.name: ours(getattr(value, f.name)) for f in dataclasses.fields(value)})
    if isinstance(value, torch.nn.PairwiseDistance):  # a description is no function
        return partial(F.pairwise_distance, p=value.norm, eps=value.eps, keepdim=value.keepdim)
    if isinstance(value, torch.nn.Module):
        args, kwargs = vars(value)["_built_with"]
        kwargs = {name: ours(v) for name, v in kwargs.items() if name not in ("device", "dtype")}
        return getattr(nn, type(value).__name__)(*ours(args), **kwargs)
    name = getattr(value, "__name__", "")
    if callable(value) and name and getattr(torch.nn.functional, name, None) is value:
        return getattr(F, name)
    return value


@contextmanager
def remembering_arguments(*kinds: type[torch.nn.Module]) -> Iterator[None]:
    """Modules of these kinds that are made inside remember what they were built with, so that ours can be built."""
    originals = {kind: kind.__init__ for kind in kinds}

    def wrap(original: Callable[..., None]) -> Callable[..., None]:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            self.__dict__["_built_with"] = (args, dict(kwargs))

        return init

    for kind, original in originals.items():
        kind.__init__ = wrap(original)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for kind, original in originals.items():
            kind.__init__ = original  # type: ignore[method-assign]
