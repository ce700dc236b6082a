"""Window functions for signals, with the names of torch.signal.windows: `tl.windows.hann(M)`.

Every window function takes these arguments:

    M: number of entries, at least 0.
    sym: whether the window is symmetric. With `sym=False`, the window is one period of a periodic function: the first M
        entries of the symmetric window of size M + 1. The periodic form is used for Fourier transforms.
        `torch.hann_window(n)` is `tl.windows.hann(n, sym=False)`.
    dtype: dtype of the result. None means JAX's default float.

The formulas describe the symmetric window. In the formulas, n is the position of an entry, from 0 to M - 1.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann",
    "kaiser", "nuttall",
]  # fmt: skip


def general_cosine(M: int, *, a: Sequence[float], sym: bool = True, dtype: DTypeLike | None = None) -> jax.Array:
    """Compute the sum `Σ_i (-1)^i a_i cos(2 π i n / (M - 1))`.

    Args:
        M, sym, dtype: see the docstring of windows.py.
        a: the factors a_0, a_1, ….

    Returns:
        An array of shape (M,).

    Raises:
        ValueError: if M is negative.

    Example:
        >>> general_cosine(3, a=[0.5, 0.5]).tolist()
        [0.0, 1.0, 0.0]

    Reference: torch.signal.windows.general_cosine.
    """
    return _cosines("general_cosine", M, a, sym, dtype)


def hann(M: int, *, sym: bool = True, dtype: DTypeLike | None = None) -> jax.Array:
    """Compute `(1 - cos(2 π n / (M - 1))) / 2`.

    Args:
        M, sym, dtype: see the docstring of windows.py.

    Returns:
        An array of shape (M,).

    Raises:
        ValueError: if M is negative.

    Example:
        >>> hann(4, sym=False).tolist()
        [0.0, 0.5, 1.0, 0.5]

    Reference: torch.signal.windows.hann.
    """
    return _cosines("hann", M, [0.5, 0.5], sym, dtype)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: DTypeLike | None = None) -> jax.Array:
    """Compute `α - (1 - α) cos(2 π n / (M - 1))`.

    Args:
        M, sym, dtype: see the docstring of windows.py.
        alpha: the factor α.

    Returns:
        An array of shape (M,).

    Raises:
        ValueError: if M is negative.

    Example:
        >>> general_hamming(3, alpha=0.75).tolist()
        [0.5, 1.0, 0.5]

    Reference: torch.signal.windows.general_hamming.
    """
    return _cosines("general_hamming", M, [alpha, 1 - alpha], sym, dtype)


def hamming(M: int, *, sym: bool = True, dtype: DTypeLike | None = None) -> jax.Array:
    """Compute `0.54 - 0.46 cos(2 π n / (M - 1))`.

    Args:
        M, sym, dtype: see the docstring of windows.py.

    Returns:
        An array of shape (M,).

    Raises:
        ValueError: if M is negative.

    Example:
        >>> hamming(3).round(2).tolist() == jnp.array([0.08, 1.0, 0.08]).tolist()
        True

    Reference: torch.signal.windows.hamming.
    """
    return _cosines("hamming", M, [0.54, 0.46], sym, dtype)


def blackman(M: int, *, sym: bool = True, dtype: DTypeLike | None = None) -> jax.Array:
    """Compute `0.42 - 0.5 cos(2 π n / (M - 1)) + 0.08 cos(4 π n / (M - 1))`.

    Args:
        M, sym, dtype: see the docstring of windows.py.

    Returns:
        An array of shape (M,).

    Raises:
        ValueError: if M is negative.

    Example:
        >>> blackman(3).round(2).tolist()
        [-0.0, 1.0, -0.0]

    Reference: torch.signal.windows.blackman.
    """
    return _cosines("blackman", M, [0.42, 0.5, 0.08], sym, dtype)


def nuttall(M: int, *, sym: bool = True, dtype: DTypeLike | None = None) -> jax.Array:
    """Compute Nuttall's window of four cosines, which minimises the side lobes.

    Args:
        M, sym, dtype: see the docstring of windows.py.

    Returns:
        An array of shape (M,).

    Raises:
        ValueError: if M is negative.

    Example:
        >>> nuttall(3).round(2).tolist()
        [0.0, 1.0, 0.0]

    Reference: torch.signal.windows.nuttall.
    """
    return _cosines("nuttall", M, [0.3635819, 0.4891775, 0.1365995, 0.0106411], sym, dtype)


def bartlett(M: int, *, sym: bool = True, dtype: DTypeLike | None = None) -> jax.Array:
    """Compute the triangle `1 - |2 n / (M - 1) - 1|`.

    Args:
        M, sym, dtype: see the docstring of windows.py.

    Returns:
        An array of shape (M,).

    Raises:
        ValueError: if M is negative.

    Example:
        >>> bartlett(5).tolist()
        [0.0, 0.5, 1.0, 0.5, 0.0]

    Reference: torch.signal.windows.bartlett.
    """
    return _window("bartlett", M, sym, dtype, lambda n, last: 1 - np.abs(2 * n / last - 1))


def cosine(M: int, *, sym: bool = True, dtype: DTypeLike | None = None) -> jax.Array:
    """Compute half a wave: `sin(π (n + 1/2) / M)`.

    Args:
        M, sym, dtype: see the docstring of windows.py.

    Returns:
        An array of shape (M,).

    Raises:
        ValueError: if M is negative.

    Example:
        >>> cosine(3).round(2).tolist()
        [0.5, 1.0, 0.5]

    Reference: torch.signal.windows.cosine.
    """
    return _window("cosine", M, sym, dtype, lambda n, last: np.sin(np.pi * (n + 0.5) / (last + 1)))


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: DTypeLike | None = None
) -> jax.Array:
    """Compute `exp(-|n - center| / τ)`.

    Args:
        M, sym, dtype: see the docstring of windows.py.
        center: position of the largest entry. None means the middle. A value other than None requires `sym=False`.
        tau: decay τ, above 0.

    Returns:
        An array of shape (M,).

    Raises:
        ValueError: if M is negative, τ is not positive, or a center is given for a symmetric window.

    Example:
        >>> exponential(3, tau=1.4426950408889634).round(4).tolist()
        [0.5, 1.0, 0.5]

    Reference: torch.signal.windows.exponential.
    """
    if not tau > 0 or (sym and center is not None):
        raise ValueError(
            f"tl.windows.exponential: an argument does not fit; expected tau > 0, and no center for sym=True, got "
            f"{tau} and {center}."
        )
    formula = lambda n, last: np.exp(-np.abs(n - (last / 2 if center is None else center)) / tau)
    return _window("exponential", M, sym, dtype, formula)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: DTypeLike | None = None) -> jax.Array:
    """Compute `exp(-(n - (M - 1) / 2)² / (2 std²))`.

    Args:
        M, sym, dtype: see the docstring of windows.py.
        std: standard deviation, above 0.

    Returns:
        An array of shape (M,).

    Raises:
        ValueError: if M is negative, or std is not positive.

    Example:
        >>> gaussian(3).round(2).tolist() == jnp.array([0.61, 1.0, 0.61]).tolist()
        True

    Reference: torch.signal.windows.gaussian.
    """
    if not std > 0:
        raise ValueError(f"tl.windows.gaussian: std is not positive; expected std > 0, got {std}.")
    return _window("gaussian", M, sym, dtype, lambda n, last: np.exp(-(((n - last / 2) / std) ** 2) / 2))


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: DTypeLike | None = None) -> jax.Array:
    """Compute `I₀(β √(1 - (2 n / (M - 1) - 1)²)) / I₀(β)`.

    Args:
        M, sym, dtype: see the docstring of windows.py.
        beta: shape parameter β, at least 0.

    Returns:
        An array of shape (M,).

    Raises:
        ValueError: if M or β is negative.

    Example:
        >>> kaiser(3, beta=0.0).tolist()
        [1.0, 1.0, 1.0]

    Reference: torch.signal.windows.kaiser.
    """
    if beta < 0:
        raise ValueError(f"tl.windows.kaiser: beta is negative; expected at least 0, got {beta}.")
    root = lambda n, last: np.sqrt(np.maximum(1 - (2 * n / last - 1) ** 2, 0))
    return _window("kaiser", M, sym, dtype, lambda n, last: np.i0(beta * root(n, last)) / np.i0(np.float64(beta)))


def _cosines(name: str, M: int, a: Sequence[float], sym: bool, dtype: DTypeLike | None) -> jax.Array:
    def waves(n: np.ndarray, last: int) -> np.ndarray:
        return np.sum([(-1) ** i * factor * np.cos(2 * np.pi * i * n / last) for i, factor in enumerate(a)], axis=0)

    return _window(name, M, sym, dtype, waves)


def _window(
    name: str, M: int, sym: bool, dtype: DTypeLike | None, formula: Callable[[np.ndarray, int], np.ndarray]
) -> jax.Array:
    """Return `formula(n, last)` at all positions n. `last` is the last position of the symmetric window."""
    if M < 0:
        raise ValueError(f"tl.windows.{name}: M is negative; expected at least 0, got {M}.")
    n, last = np.arange(M, dtype=np.float64), max(M - 1 if sym else M, 1)
    return jnp.asarray(np.ones(1) if M == 1 else formula(n, last), float if dtype is None else dtype)
