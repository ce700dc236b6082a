"""A row of the table of layers: how one is built, what it is given, how near torch it must come and why no nearer.

The same arguments build ours and torch's: `getattr(nn, row.kind)(*row.args, **row.kwargs)`. The oracle is torch in
float64 on the same float32 numbers, so every difference is ours. Differences are relative to the largest entry.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import torch

from funcnet import nn

EXACT = (0.0, "values are picked, not computed")
ROUNDING = (3e-7, "a few roundings to float32, whose half unit in the last place is 6e-8")
SUMS = (1e-6, "sums of up to a hundred products, each rounded to float32")
TANH = (3e-6, "the derivative 1 - tanh² cancels where tanh is near 1, and GELU multiplies it by x up to 8")
LARGE_MEAN = (2e-6, "float32 inputs near 1e4 are given exactly; only the two passes over them round")


@dataclass(frozen=True)
class Row:
    kind: str
    args: tuple[Any, ...]
    inputs: Callable[[int], Sequence[np.ndarray]]  # of the batch size
    tolerance: tuple[float, str]
    kwargs: dict[str, Any] = field(default_factory=dict)
    modes: tuple[bool, ...] = (False,)  # values of `training`
    oracle: torch.dtype = torch.float64
    note: str = ""
    batch_axis: int | tuple[int, ...] = 0  # of every input that has a batch, or of each
    most: int | None = None  # examples in a batch, if the arguments of the layer limit them
    roundings: int = 1  # in half precision, one after the other: torch's own result is as many away, or half of them

    def __str__(self) -> str:
        words = [*self.args, *(f"{k}={v if np.ndim(v) == 0 else '…'}" for k, v in self.kwargs.items()), self.note]
        return f"{self.kind}({','.join(str(w) for w in words if w != '')})".replace(" ", "")

    def batch_axes(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The batch axis of every array in the inputs, in their structure."""
        axes = self.batch_axis if isinstance(self.batch_axis, tuple) else (self.batch_axis,) * len(inputs)
        return tuple(jax.tree.map(lambda _, a=a: a, x) for x, a in zip(inputs, axes, strict=True))

    def ours(self) -> nn.Module:
        return getattr(nn, self.kind)(*self.args, **self.kwargs)

    def theirs(self) -> torch.nn.Module:
        kwargs = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in self.kwargs.items()}
        torch.manual_seed(0)
        module = getattr(torch.nn, self.kind)(*self.args, **kwargs)
        with torch.no_grad():  # weights of one and biases of zero would hide a mistake
            for parameter in module.parameters():
                if isinstance(parameter, torch.nn.UninitializedParameter):
                    continue
                parameter.add_(torch.randn_like(parameter) * 0.3)
        return module


def floats(*shape: int, mean: float = 0.0) -> Callable[[int], list[np.ndarray]]:
    """Numbers of N(mean, 1), of shape (batch, *shape)."""
    return lambda batch: [(_random(batch).normal(size=(batch, *shape)) + mean).astype(np.float32)]


def kinks(*shape: int) -> Callable[[int], list[np.ndarray]]:
    """Steps of a half from -4 to 8: among them every point where an activation has a corner."""
    return lambda batch: [np.resize(np.arange(-8, 17) / 2, (batch, *shape)).astype(np.float32)]


def ids(size: int, *shape: int, dtype: Any = np.int32) -> Callable[[int], list[np.ndarray]]:
    return lambda batch: [_random(batch).integers(size, size=(batch, *shape)).astype(dtype)]


def classes(
    count: int, *shape: int, ignored: int | None = None, dtype: Any = np.int32
) -> Callable[[int], list[np.ndarray]]:
    """Logits (batch, count, *shape) and target classes (batch, *shape), the first two of them `ignored`."""

    def make(batch: int) -> list[np.ndarray]:
        random = _random(batch)
        target = random.integers(count, size=(batch, *shape)).astype(dtype)
        if ignored is not None:
            target.flat[:2] = ignored
        return [random.normal(size=(batch, count, *shape)).astype(np.float32), target]

    return make


def pairs(*shape: int, target: str = "normal") -> Callable[[int], list[np.ndarray]]:
    def make(batch: int) -> list[np.ndarray]:
        random = _random(batch)
        draw = {"normal": random.normal, "unit": random.random}[target]
        return [a.astype(np.float32) for a in (random.normal(size=(batch, *shape)), draw(size=(batch, *shape)))]

    return make


def both(first: Callable[[int], Sequence[np.ndarray]], second: Callable[[int], Sequence[np.ndarray]]) -> Any:
    return lambda batch: [*first(batch), *second(batch)]


def _random(batch: int) -> np.random.Generator:
    return np.random.default_rng(batch)


BOTH = (False, True)
HALVES = np.array([0.5, 1.5, 2.0, 0.25, 1.0], np.float32)
