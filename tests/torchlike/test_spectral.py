"""The short-time Fourier transform against torch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import funcnet.torchlike as tl

from .database import agrees, same

X = np.random.default_rng(0).normal(size=(2, 50))
WINDOW = torch.hann_window(12, dtype=torch.float64).numpy()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stft", "istft"])
def test_database(name):
    agrees(name)


@pytest.mark.parametrize("pad_mode", ["reflect", "constant", "replicate", "circular"])
@pytest.mark.parametrize(
    "settings", [{}, {"center": False}, {"normalized": True, "onesided": False}, {"hop_length": 5}]
)
def test_stft(pad_mode, settings):
    def call(library, x, window):
        kwargs = {"win_length": 12, "pad_mode": pad_mode, "return_complex": True, **settings}
        return library.stft(x, 16, window=window, **kwargs)

    same(lambda *a: call(tl, *a), lambda *a: call(torch, *a), X, WINDOW)


def test_stft_as_speech_models_call_it():
    """Whisper's: 400 samples, hop 160; HiFi-GAN's: not centred, with real and imaginary parts."""
    audio = np.random.default_rng(1).normal(size=3200)
    window = torch.hann_window(400, dtype=torch.float64).numpy()
    whisper = lambda library: lambda x, w: library.stft(x, 400, 160, window=w, return_complex=True)
    same(whisper(tl), whisper(torch), audio, window)
    vocoder = lambda library, real: (
        lambda x, w: real(
            library.stft(
                x,
                400,
                hop_length=160,
                win_length=400,
                window=w,
                center=False,
                pad_mode="reflect",
                normalized=False,
                onesided=True,
                return_complex=True,
            )
        )
    )
    same(vocoder(tl, tl.view_as_real), vocoder(torch, torch.view_as_real), audio[None], window)
    got = tl.stft(jnp.asarray(audio, jnp.float32), 400, 160, return_complex=False)
    want = torch.stft(torch.tensor(audio), 400, 160, return_complex=False)
    np.testing.assert_allclose(got, want, atol=2e-5)


@pytest.mark.parametrize("length", [None, 40, 50, 60])
def test_istft(length):
    def call(library, real, imag, window):
        parts = real[..., None], imag[..., None]
        joined = jnp.concatenate(parts, -1) if library is tl else torch.cat(parts, -1)
        return library.istft(library.view_as_complex(joined), 12, 3, window=window, length=length)

    spectra = torch.stft(torch.tensor(X), 12, 3, window=torch.tensor(WINDOW), return_complex=True).numpy()
    parts = spectra.real.copy(), spectra.imag.copy()
    if length != 60:
        same(lambda *a: call(tl, *a), lambda *a: call(torch, *a), *parts, WINDOW)
    with jax.enable_x64(True):
        got = call(tl, *map(jnp.asarray, (*parts, WINDOW)))
    np.testing.assert_allclose(got[:, :40], X[:, :40], atol=1e-12)


def test_complex_signals():
    z = X[0] + 1j * X[1]
    call = lambda library: (
        lambda z, w: library.istft(
            library.stft(z, 12, window=w, onesided=False), 12, window=w, onesided=False, return_complex=True
        )
    )
    same(call(tl), call(torch), z, WINDOW)


def test_refusals():
    x = jnp.ones(20)
    for match, call in {
        "return_complex is missing": lambda: tl.stft(x, 8),
        "too short": lambda: tl.stft(x, 32, center=False, return_complex=True),
        "padding is too large": lambda: tl.stft(x, 64, return_complex=True),
        "window has the wrong shape": lambda: tl.stft(x, 8, window=jnp.ones(4), return_complex=True),
        "size is out of range": lambda: tl.stft(x, 8, 0, return_complex=True),
        "a mode among": lambda: tl.stft(x, 8, pad_mode="edge", return_complex=True),
        "onesided": lambda: tl.stft(jnp.ones(20, complex), 8, onesided=True),
        "frequencies": lambda: tl.istft(jnp.ones((4, 5), complex), 8, onesided=True),
        "without weight": lambda: tl.istft(jnp.ones((5, 5), complex), 8, window=jnp.zeros(8)),
    }.items():
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(TypeError, match="complex"):
        tl.istft(jnp.ones((5, 5)), 8)
