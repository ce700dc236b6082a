"""Comparisons with torch for `funcnet.torchlike`: values, dtypes and gradients in float64, under jit.

`agrees` runs every sample of a function in torch's op_db, and `same` runs two functions on arrays of our choice.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

import funcnet.torchlike as tl
from tests.database import convert, functions
from tests.database.differences import Mismatch
from tests.database.modules import differences

__all__ = ["agrees", "same", "samples_of"]


def samples_of(name: str) -> list[tuple[Any, Any]]:
    """(operator, sample) of all entries of the name, in float64, or in the widest dtype that the operator has."""
    found = []
    for op in op_db:
        if op.name == name:
            there = op.supported_dtypes("cpu")
            dtype = next(d for d in (torch.float64, torch.complex128, torch.int64) if d in there)
            torch.manual_seed(0)
            differentiable = op.supports_autograd and dtype is not torch.int64
            drawn = op.sample_inputs("cpu", dtype, requires_grad=differentiable)
            found += [(op, ((s.input, *s.args), dict(s.kwargs))) for s in drawn]
    return found


def agrees(name: str, ours: Callable | None = None, skip: Callable[..., bool] = lambda *args, **kwargs: False) -> None:
    """Every sample but those of `skip`: ours, under jit, and torch's."""
    ours = ours or getattr(tl, name.removeprefix("linalg."))
    failures, count = [], 0
    with jax.enable_x64(True):
        for number, (op, sample) in enumerate(samples_of(name)):
            if skip(*sample[0], **sample[1]):
                continue
            count += 1
            try:
                _one(op.op, ours, sample)
            except Exception as error:
                shown = convert.walk(sample, lambda v: (tuple(v.shape), v.dtype) if isinstance(v, torch.Tensor) else v)
                failures.append(f"{name} sample {number} {shown}: {type(error).__name__} {str(error)[:400]}")
    assert count, "the database gave no sample"
    assert not failures, f"{len(failures)} of {count}:\n" + "\n".join(failures[:20])


def same(ours: Callable, theirs: Callable, *arrays: Any, jit: bool = True) -> None:
    """`ours(*arrays)` and `theirs(*tensors)`: floating-point arrays are differentiated by."""
    tensors = tuple(_tensor(array) for array in arrays)
    with jax.enable_x64(True), contextlib.nullcontext() if jit else jax.disable_jit():
        _one(theirs, ours, (tensors, {}))


def _tensor(array: Any) -> torch.Tensor:
    tensor = torch.tensor(np.asarray(array))
    return tensor.requires_grad_(tensor.is_floating_point() or tensor.is_complex())


def _one(theirs: Callable, ours: Callable, sample: Any) -> None:
    plain = lambda *args, **kwargs: _plain(theirs(*args, **kwargs))
    wide = functions.torch_run(plain, sample, torch.float64, ())
    got = functions.our_run(ours, sample, wide.cotangents)
    differences("float64", got, wide, wide)
    dtypes = [[np.asarray(output).dtype for output in run.outputs] for run in (got, wide)]
    if dtypes[0] != dtypes[1]:
        raise Mismatch(f"dtypes {dtypes[0]}, torch {dtypes[1]}")


def _plain(output: Any) -> Any:
    """torch's named results are a kind of their own."""
    return tuple(output) if isinstance(output, tuple) else output
