"""Fourier transforms and windows: `torch.fft`, `torch.stft`, `torch.signal.windows`."""

from funcnet.porting.rule_engine.rule import rule

__all__ = ["ROWS"]

_ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_TWO = ("fft2", "ifft2", "rfft2", "irfft2")
_MANY = ("fftn", "ifftn", "rfftn", "irfftn")

# jax.numpy.fft lacks hfft2, hfftn and their inverses. They are computed with conj and irfftn or rfftn, which transform
# in the opposite direction. Each pair is (`norm` in torch, `norm` of irfftn or rfftn).
_SCALES = ((None, "forward"), ("backward", "forward"), ("forward", "backward"), ("ortho", "ortho"))
_OF_ONE = "known(dim.is_only('int') and s.is_only('int', 'none'))"  # torch treats a number as a tuple with one entry
_PAIR = "known(dim.equals((-2, -1), (-1, -2), (0, 1), (1, 2), (2, 3)))"


def _several(name: str, dims: str) -> tuple[tuple, ...]:
    """Return the rules of a Fourier transform over several dimensions, such as `torch.fft.fftn`.

    Args:
        name: the name of the transform in torch.fft and jax.numpy.fft.
        dims: the default of `dim`, as text.
    """
    signature = f"torch.fft.{name}(input, s=None, dim={dims}, norm=None)"
    return (
        rule(signature, f"jnp.fft.{name.rstrip('n2')}(input, s, axis=dim, norm=norm)", when=_OF_ONE),
        rule(signature, f"jnp.fft.{name}(input, s, axes=dim, norm=norm)", when=_PAIR if name.endswith("2") else ""),
        rule(signature, f"jnp.fft.{name.rstrip('n2')}n(input, s, axes=dim, norm=norm)"),
    )


def _hermitian(
    name: str, dims: str, by: str, parts: tuple[str, str], scale: tuple[str | None, str]
) -> tuple[tuple, ...]:
    signature = f"torch.fft.{name}(input, s=None, dim={dims}, norm=None)"
    norm, other = scale
    return (
        rule(signature, f"jnp.fft.{name.rstrip('n2')}(input, s, axis=dim, norm=norm)",
             when=f"{_OF_ONE} and norm.equals({norm!r})"),
        rule(signature, f"jnp.fft.{by}({parts[0]}, s, axes=dim, norm='{other}'){parts[1]}",
             when=f"norm.equals({norm!r})"),
    )  # fmt: skip


_HERMITIAN = tuple(
    row
    for scale in _SCALES
    for name, dims in (("hfft2", "(-2, -1)"), ("hfftn", "None"))
    for row in (
        *_hermitian(name, dims, "irfftn", ("input.conj()", ""), scale),
        *_hermitian(f"i{name}", dims, "rfftn", ("input", ".conj()"), scale),
    )
)

_TRANSFORMS = (
    *(
        rule(f"torch.fft.{name}(input, n=None, dim=-1, norm=None)", f"jnp.fft.{name}(input, n, axis=dim, norm=norm)")
        for name in _ONE
    ),
    *(row for name in _TWO for row in _several(name, "(-2, -1)")),
    *(row for name in _MANY for row in _several(name, "None")),
    *_HERMITIAN,
    *(rule(f"torch.fft.{name}(n, d=1.0, *, dtype=None)", f"jnp.fft.{name}(n, d, dtype=dtype)")
      for name in ("fftfreq", "rfftfreq")),
    *(rule(f"torch.fft.{name}(input, dim=None)", f"jnp.fft.{name}(input, axes=dim)")
      for name in ("fftshift", "ifftshift")),
    rule("torch.fft.Tensor", "jax.Array", result="class"),
)  # fmt: skip

_FRAMES = (
    rule("both.stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode='reflect', "
         "normalized=False, onesided=None, return_complex=None)",
         "tl.stft(input, n_fft, hop_length=hop_length, win_length=win_length, window=window, center=center, "
         "pad_mode=pad_mode, normalized=normalized, onesided=onesided, return_complex=return_complex)", kind="semantic",
         note="jax.scipy.signal.stft pads and scales in another way."),
    rule("both.istft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, "
         "onesided=None, length=None, return_complex=False)",
         "tl.istft(input, n_fft, hop_length=hop_length, win_length=win_length, window=window, center=center, "
         "normalized=normalized, onesided=onesided, length=length, return_complex=return_complex)", kind="semantic",
         note="jax.scipy.signal.istft pads and scales in another way."),
)  # fmt: skip


def _window(name: str, numpys: str) -> tuple:
    """Return the rules of a function `torch.NAME_window`, which makes a periodic or a symmetric window.

    Args:
        name: the part NAME of torch's name, such as "hann".
        numpys: the function of jax.numpy that makes the symmetric window.
    """
    signature = f"torch.{name}_window(window_length, periodic=True, *, dtype=None)"
    known = "known(window_length.value > 1)"
    return (
        rule(signature, f"jnp.{numpys}(window_length + 1)[:-1]", when=f"{known} and periodic.equals(True)"),
        rule(signature, f"jnp.{numpys}(window_length)", when=f"{known} and periodic.equals(False)"),
        rule(signature, f"tl.windows.{name}(window_length, sym=False, dtype=dtype)", when="periodic.equals(True)"),
        rule(signature, f"tl.windows.{name}(window_length, sym=not periodic, dtype=dtype)"),
    )


def _symmetric(name: str, *given: str) -> tuple:
    """Return the rules of a function `torch.signal.windows.NAME`.

    Args:
        name: the NAME.
        given: the parameters that other windows do not have, with their defaults, such as "std=1.0".
    """
    passed = "".join(f"{one.partition('=')[0]}={one.partition('=')[0]}, " for one in given)
    return rule(
        f"torch.signal.windows.{name}(M, *, {''.join(f'{one}, ' for one in given)}sym=True, dtype=None)",
        f"tl.windows.{name}(M, {passed}sym=sym, dtype=dtype)",
    )


_GIVEN: dict[str, tuple[str, ...]] = {
    "bartlett": (), "blackman": (), "cosine": (), "exponential": ("center=None", "tau=1.0"), "gaussian": ("std=1.0",),
    "general_cosine": ("a",), "general_hamming": ("alpha=0.54",), "hamming": (), "hann": (), "kaiser": ("beta=12.0",),
    "nuttall": (),
}  # fmt: skip

_WINDOWS = (
    *(row for name, numpys in (("hann", "hanning"), ("blackman", "blackman"), ("bartlett", "bartlett"))
      for row in _window(name, numpys)),
    rule("torch.hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None)",
         "jnp.hamming(window_length + 1)[:-1]", when="known(window_length.value > 1) and periodic.equals(True)"),
    rule("torch.hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None)",
         "jnp.hamming(window_length)", when="known(window_length.value > 1) and periodic.equals(False)"),
    rule("torch.hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None)",
         "tl.windows.hamming(window_length, sym=not periodic, dtype=dtype)"),
    rule("torch.hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None)",
         "tl.windows.general_cosine(window_length, a=[alpha, beta], sym=not periodic, dtype=dtype)"),
    rule("torch.kaiser_window(window_length, periodic=True, beta=12.0, *, dtype=None)",
         "tl.windows.kaiser(window_length, beta=beta, sym=not periodic, dtype=dtype)"),
    *(_symmetric(name, *given) for name, given in _GIVEN.items()),
)  # fmt: skip

ROWS = (*_TRANSFORMS, *_FRAMES, *_WINDOWS)
