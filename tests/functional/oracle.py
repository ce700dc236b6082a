"""One comparison for all: value and gradient against torch in float64, for inputs in float64 and in float32."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import torch

from tests.database.differences import compare

# Rounding alone: float32 results are compared with torch's float64 ones on the same float32 inputs.
TOLERANCE = {np.float64: 1e-11, np.float32: 3e-6}
# None of the inputs' seeds: a norm's gradient for a cotangent that is its input is rounding and nothing else.
COTANGENT = 1009


def normal(*shape: int, seed: int = 0, mean: float = 0.0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).normal(size=shape) + mean


def integers(low: int, high: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).integers(low, high, size=shape).astype(np.int32)


def agrees(
    ours: Callable,
    theirs: Callable,
    *inputs: np.ndarray,
    dtypes: tuple = (np.float64, np.float32),
    jit: bool = True,
) -> None:
    """Asserts that values and the gradients of all floating inputs agree, under a random cotangent."""
    for dtype in dtypes:
        arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in inputs]
        with jax.enable_x64(dtype == np.float64):
            value, gradients, cotangent = _ours(ours, arrays, jit)
            assert value.dtype == dtype
        expected, expected_gradients = _theirs(theirs, arrays, np.asarray(cotangent))
        close(value, expected, TOLERANCE[dtype], "value")
        for number, (got, want) in enumerate(zip(gradients, expected_gradients, strict=True)):
            close(got, want, TOLERANCE[dtype], f"gradient {number}")


def agrees_reduced(ours: Callable, theirs: Callable, *inputs: np.ndarray, dtypes: tuple = (np.float64,)) -> None:
    """As `agrees`, of losses: all three reductions in one compilation. float32 is for the table of layers."""

    def joined(concatenate: Callable, function: Callable) -> Callable:
        each = lambda *arrays: [function(*arrays, reduction=r).reshape(-1) for r in ("mean", "sum", "none")]
        return lambda *arrays: concatenate(each(*arrays))

    agrees(joined(jnp.concatenate, ours), joined(torch.cat, theirs), *inputs, dtypes=dtypes)


def close(got: jax.Array, want: np.ndarray, tolerance: float, what: str) -> None:
    assert got.shape == want.shape, f"{what}: {got.shape} is not {want.shape}"
    if want.size:
        scale = np.nanmax(np.abs(want), initial=1.0, where=np.isfinite(want))
        np.testing.assert_allclose(np.asarray(got), want, rtol=tolerance, atol=tolerance * scale, err_msg=what)


def as_near_as_torch(ours: Callable, theirs: Callable, *inputs: np.ndarray) -> None:
    """Value and gradients in float32, of numbers however large or small: by the rule of `tests.database.differences`.

    `ours` is compiled anew unless it is the same function as before.
    """
    arrays = [a.astype(np.float32) for a in inputs]
    narrow, wide = (_torchs(theirs, arrays, dtype) for dtype in (torch.float32, torch.float64))
    cotangent = normal(*narrow[0].shape, seed=COTANGENT).astype(np.float32)
    value, *gradients = zip(jax.device_get(_value_and_gradients(ours, cotangent, *arrays)), narrow, wide, strict=True)
    compare("value", "float32", {"": value})
    compare("gradient of input", "float32", {str(i): trio for i, trio in enumerate(gradients)})


@functools.partial(jax.jit, static_argnums=0)
def _value_and_gradients(function: Callable, cotangent: jax.Array, *arrays: jax.Array) -> list[jax.Array]:
    value, pull = jax.vjp(function, *arrays)
    return [value, *pull(cotangent)]


def _torchs(function: Callable, arrays: list, dtype: torch.dtype) -> list[np.ndarray]:
    leaves = [torch.tensor(a, dtype=dtype, requires_grad=True) for a in arrays]
    value = function(*leaves)
    gradients = torch.autograd.grad(
        value, leaves, torch.tensor(normal(*value.shape, seed=COTANGENT).astype(np.float32)).to(dtype)
    )
    return [value.detach().numpy(), *(g.numpy() for g in gradients)]


def _ours(function: Callable, arrays: list, jit: bool) -> tuple[jax.Array, list, jax.Array]:
    floats = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]

    def run(*chosen: jax.Array) -> jax.Array:
        full = [jnp.asarray(a) for a in arrays]
        for i, a in zip(floats, chosen, strict=True):
            full[i] = a
        return function(*full)

    def both(cotangent_of: Callable, *chosen: jax.Array) -> tuple:
        value, pull = jax.vjp(run, *chosen)
        cotangent = cotangent_of(value)
        return value, pull(cotangent), cotangent

    step = lambda *chosen: both(lambda v: jnp.asarray(normal(*v.shape, seed=9), v.dtype), *chosen)
    chosen = [jnp.asarray(arrays[i]) for i in floats]
    value, gradients, cotangent = (jax.jit(step) if jit else step)(*chosen)
    return value, list(gradients), cotangent


def _theirs(function: Callable, arrays: list, cotangent: np.ndarray) -> tuple[np.ndarray, list]:
    tensors = []
    for a in arrays:
        is_float = a.dtype.kind == "f"
        kind = torch.float64 if is_float else torch.bool if a.dtype == bool else torch.int64
        tensors.append(torch.tensor(a, dtype=kind, requires_grad=is_float))
    value = function(*tensors)
    leaves = [t for t in tensors if t.requires_grad]
    gradients = torch.autograd.grad(value, leaves, torch.tensor(cotangent, dtype=torch.float64), allow_unused=True)
    filled = [torch.zeros_like(t) if g is None else g for t, g in zip(leaves, gradients, strict=True)]
    return value.detach().numpy(), [g.numpy() for g in filled]
