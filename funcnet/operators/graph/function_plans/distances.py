"""Plans of distances."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from funcnet.operators.graph.function_plans.single_operations import Plan
from funcnet.operators.graph.torch_operations.tape import Tape, TapeValue

__all__ = ["DISTANCES", "pairwise"]


def pairwise(
    tape: Tape, x: TapeValue, y: TapeValue, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> TapeValue:
    """The norm of `x - y + eps` over the last dimension."""
    apart = tape.run("add.Scalar", tape.run("sub.Tensor", x, y, alpha=1), eps)
    dim = (max(x.ndim, y.ndim) - 1,)
    return tape.run("norm.ScalarOpt_dim", apart, p=p, dim=dim, keepdim=keepdim)


def pairwise_distance(
    tape: Tape,
    result: NDArray[Any],
    function: Callable[..., Any],
    x1: TapeValue,
    x2: TapeValue,
    p: float,
    eps: float,
    keepdim: bool,
) -> TapeValue:
    return pairwise(tape, x1, x2, p, eps, keepdim)


def cosine_similarity(
    tape: Tape, result: NDArray[Any], function: Callable[..., Any], x1: TapeValue, x2: TapeValue, dim: int, eps: float
) -> TapeValue:
    shape = np.broadcast_shapes(x1.shape, x2.shape)
    if x1.shape != x2.shape:
        x2, x1 = (tape.run("expand", x, size=shape) for x in (x2, x1))
    shares = []
    for x in (x1, x2):
        norm = tape.run("clone", tape.run("linalg_vector_norm", x, ord=2, dim=(dim,), keepdim=True))
        shares.append((x, TapeValue(norm.array.clip(eps), norm.edge)))
    second, first = (tape.run("div.Tensor", x, norm) for x, norm in reversed(shares))
    return tape.run("sum.dim_IntList", tape.run("mul.Tensor", first, second), out=result, dim=(dim,), keepdim=False)


DISTANCES: dict[str, Plan] = {"pairwise_distance": pairwise_distance, "cosine_similarity": cosine_similarity}
