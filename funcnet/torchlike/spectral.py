"""The short-time Fourier transform and its inverse.

Letters: `B batch, L samples, N frequencies, T frames, n size of the transform`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from funcnet.functional import checks
from funcnet.torchlike.arguments import common_dtype
from funcnet.torchlike.shaping import unfold, view_as_real

__all__ = ["istft", "stft"]

_PAD_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def stft(
    input: jax.Array,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: jax.Array | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
) -> jax.Array:
    """Compute the Fourier transforms of overlapping frames of a signal.

    Args:
        input: floating-point or complex array of shape (L,) or (B, L).
        n_fft: size n of a frame and of its transform.
        hop_length: distance between frames. None means n // 4.
        win_length: size of the window, at most n. None means n.
        window: array of shape (win_length,), which is padded with zeros on both sides to size n. None means ones.
        center: whether the signal is padded by n // 2 on both sides, so that frame t is centred at t · hop_length.
        pad_mode: "reflect", "constant", "replicate" or "circular".
        normalized: whether the transform is divided by √n.
        onesided: whether to return only the n // 2 + 1 non-negative frequencies. None means True if signal and window
            are real.
        return_complex: whether the result is complex. This argument is required if the signal and the window are real.

    Returns:
        A complex array of shape (N, T) or (B, N, T). If `return_complex` is False, a real array with an additional last
        dimension of size 2, which contains the real and imaginary parts.

    Raises:
        ValueError: if a size or a mode does not fit, `return_complex` is missing, or `onesided` is True for complex
            numbers.

    Differs from torch:
        There is no argument `align_to_window`. `jax.scipy.signal.stft` pads and scales differently.

    Example:
        >>> stft(jnp.ones(8), 4, window=jnp.ones(4), return_complex=True).shape
        (3, 9)

    Reference: torch.stft.
    """
    where = "tl.stft"
    hop, size = _sizes(where, n_fft, hop_length, win_length)
    if input.ndim not in (1, 2) or pad_mode not in _PAD_MODES:
        raise ValueError(
            f"{where}: the input or the mode does not fit; expected shape (L,) or (B, L) and a mode among "
            f"{tuple(_PAD_MODES)}, got {input.shape} and {pad_mode!r}."
        )
    is_complex = jnp.iscomplexobj(input) or (window is not None and jnp.iscomplexobj(window))
    if return_complex is None and not is_complex:
        raise ValueError(
            f"{where}: return_complex is missing; expected True or False, because nothing in the input is complex, got "
            "None."
        )
    if center:
        if pad_mode == "reflect" and n_fft // 2 >= input.shape[-1]:
            raise ValueError(
                f"{where}: the padding is too large; expected less than {input.shape[-1]} samples, got {n_fft // 2}."
            )
        input = jnp.pad(input, [(0, 0)] * (input.ndim - 1) + [(n_fft // 2,) * 2], mode=_PAD_MODES[pad_mode])
    if n_fft > input.shape[-1]:
        raise ValueError(f"{where}: the signal is too short; expected {n_fft} samples or more, got {input.shape[-1]}.")
    frames = unfold(input, -1, n_fft, hop)  # (…, T, n)
    if window is not None or size < n_fft:
        frames = _product(frames, _window(where, window, size, n_fft, frames.dtype))
    onesided = not is_complex if onesided is None else onesided
    if onesided and is_complex:
        raise ValueError(f"{where}: onesided needs real numbers; expected onesided=False for complex ones, got True.")
    transform = jnp.fft.rfft if onesided else jnp.fft.fft
    out = jnp.swapaxes(transform(frames, norm="ortho" if normalized else None), -1, -2)
    return view_as_real(out) if return_complex is False else out


def istft(
    input: jax.Array,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: jax.Array | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> jax.Array:
    """Compute the signal whose short-time Fourier transform is nearest to the input.

    Args:
        input: complex array of shape (N, T) or (B, N, T), as `stft` returns it.
        n_fft, hop_length, win_length, window, center, normalized, onesided: as in `stft`. If `onesided` is None, the
            number of frequencies determines its value.
        length: number of samples. Samples at the end that no frame covers are zeros. None means all samples that the
            frames cover.
        return_complex: whether the signal is complex. If False, only the non-negative frequencies of the input are
            read.

    Returns:
        An array of shape (L,) or (B, L).

    Raises:
        ValueError: if a size does not fit, or the windows leave samples without any weight. The weights are not checked
            if the window is traced.
        TypeError: if the input is not complex.

    Example:
        >>> x, hann = jnp.arange(8.0), jnp.sin(jnp.arange(4.0) * jnp.pi / 4) ** 2
        >>> istft(stft(x, 4, window=hann, return_complex=True), 4, window=hann).round(2).tolist()
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]

    Reference: torch.istft.
    """
    where = "tl.istft"
    hop, size = _sizes(where, n_fft, hop_length, win_length)
    if not jnp.iscomplexobj(input):
        raise TypeError(f"{where}: input must hold complex numbers; expected complex64, got {input.dtype}.")
    if input.ndim not in (2, 3) or input.size == 0 or hop > size:
        raise ValueError(
            f"{where}: a size does not fit; expected shape (N, T) or (B, N, T), not empty, and a hop of at most {size}"
            f", got {input.shape} and {hop}."
        )
    onesided = input.shape[-2] != n_fft if onesided is None else onesided
    expected = n_fft // 2 + 1 if onesided else n_fft
    if input.shape[-2] != expected or (onesided and return_complex):
        raise ValueError(
            f"{where}: the frequencies do not fit; expected {expected} of them, and all for return_complex=True, got "
            f"{input.shape[-2]} and return_complex={return_complex}."
        )
    spectra = jnp.swapaxes(input, -1, -2)  # (…, T, N)
    norm = "ortho" if normalized else None
    if return_complex:
        frames = jnp.fft.ifft(spectra, norm=norm)
    else:
        frames = jnp.fft.irfft(spectra[..., : n_fft // 2 + 1], n_fft, norm=norm)
    weights = _window(where, window, size, n_fft, input.real.dtype)
    signal = _overlapped(_product(frames, weights), hop)
    weight = _overlapped(jnp.broadcast_to(weights**2, frames.shape[-2:]), hop)
    start = n_fft // 2 if center else 0
    stop = start + length if length is not None else signal.shape[-1] - start
    signal, weight = signal[..., start:stop], weight[start:stop]
    if checks.known(weight) and np.abs(np.asarray(weight)).min() < 1e-11:  # torch's bound
        raise ValueError(
            f"{where}: the windows leave samples without weight; expected sums of squares of at least 1e-11, got "
            f"{np.abs(np.asarray(weight)).min()}. Use a smaller hop or another window."
        )
    missing = 0 if length is None else length - signal.shape[-1]
    dtype = common_dtype(signal, weight)
    out = signal.astype(dtype) / weight.astype(dtype)
    return jnp.pad(out, [(0, 0)] * (out.ndim - 1) + [(0, missing)]) if missing > 0 else out


def _product(frames: jax.Array, window: jax.Array) -> jax.Array:
    dtype = common_dtype(frames, window)
    return frames.astype(dtype) * window.astype(dtype)


def _overlapped(frames: jax.Array, hop: int) -> jax.Array:
    """Add up frames of shape (…, T, n), each of which starts `hop` samples after the previous one."""
    count, size = frames.shape[-2:]
    places = np.arange(count)[:, None] * hop + np.arange(size)
    return jnp.zeros((*frames.shape[:-2], size + hop * (count - 1)), frames.dtype).at[..., places].add(frames)


def _sizes(where: str, n_fft: int, hop_length: int | None, win_length: int | None) -> tuple[int, int]:
    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    if not 0 < size <= n_fft or hop < 1:
        raise ValueError(
            f"{where}: a size is out of range; expected hop_length >= 1 and win_length from 1 to n_fft = {n_fft}, got "
            f"{hop} and {size}."
        )
    return hop, size


def _window(where: str, window: jax.Array | None, size: int, n_fft: int, dtype: DTypeLike | None) -> jax.Array:
    """Return the window with zeros on both sides, of shape (n,)."""
    window = jnp.ones(size, dtype) if window is None else window
    if window.shape != (size,):
        raise ValueError(f"{where}: window has the wrong shape; expected {(size,)}, got {window.shape}.")
    left = (n_fft - size) // 2
    return jnp.pad(window, (left, n_fft - size - left))
