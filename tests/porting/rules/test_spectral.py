"""Rules of Fourier transforms, windows and special functions against torch."""

import pytest
import torch

from .exceptions_linear_algebra import EXCEPTIONS
from .op_samples import OPERATORS, agree, cases, check_with

NAMES = [name for name in OPERATORS if name.startswith(("fft.", "signal.", "special."))] + ["stft", "istft"]
WITHOUT = (
    "airy_ai", "bessel_", "modified_bessel_k", "scaled_modified", "chebyshev", "shifted_chebyshev", "hermite",
    "laguerre",
    "legendre",
)  # fmt: skip

DIRECT = (
    *(
        f"torch.{name}_window({size}{', periodic=False' * (not periodic)}{', dtype=torch.float64' * wide})"
        for name in ("hann", "hamming", "blackman", "bartlett", "kaiser")
        for size in ("1", "2", "7", "8", "x.shape[1]")
        for periodic in (True, False)
        for wide in (True, False)
    ),
    "torch.hamming_window(8, True, 0.6, 0.4)", "torch.kaiser_window(9, False, 3.0)",
    "torch.hann_window(window_length=8)", "torch.signal.windows.hann(6)",
    "torch.signal.windows.gaussian(6, std=2.0, sym=False)",
    "torch.signal.windows.exponential(6, center=1.0, tau=2.0, sym=False)", "torch.signal.windows.kaiser(5, beta=2.0)",
    "torch.signal.windows.general_cosine(5, a=[0.4, 0.3, 0.3])", "torch.signal.windows.general_hamming(5, alpha=0.3)",
    "torch.fft.fft(x)", "torch.fft.fft(x, 3, 0, 'ortho')", "torch.fft.rfft(x, dim=-2)", "torch.fft.irfft(z, n=5)",
    "torch.fft.fft2(x)", "torch.fft.fft2(x, dim=(0, 1))", "torch.fft.fft2(y, dim=(0, 2))",
    "torch.fft.rfft2(x, s=(2, 3))",
    "torch.fft.ifftn(z)", "torch.fft.fftn(x, dim=1)", "torch.fft.fftn(y, norm='forward')",
    "torch.fft.irfft2(z, (3, 5))",
    *(f"torch.fft.{name}({value}, norm={norm!r})" for name, value in (("hfft2", "z"), ("hfftn", "z"), ("ihfft2", "x"),
      ("ihfftn", "x")) for norm in (None, "backward", "forward", "ortho")),
    "torch.fft.hfft(z, 5)", "torch.fft.ihfft(x)", "torch.fft.fftfreq(6, 0.5)", "torch.fft.rfftfreq(5)",
    "torch.fft.fftshift(x)", "torch.fft.ifftshift(y, dim=(0, 2))", "torch.fft.fftshift(x, 1)",
    "torch.stft(x, 4, 2, window=w, return_complex=True)", "x.stft(4, hop_length=1, center=False, return_complex=False)",
    "torch.istft(torch.stft(x, 4, 1, window=w, return_complex=True), 4, 1, window=w, length=6)",
    "torch.special.expit(x)", "torch.special.logit(p, eps=1e-2)", "torch.special.logsumexp(x, 1)",
    "torch.special.logsumexp(x, (0, 1), keepdim=True)", "torch.special.softmax(x, dim=0)",
    "torch.special.log_softmax(x, 1)", "torch.special.polygamma(2, p)", "torch.special.multigammaln(p + 3, 2)",
    "torch.special.round(x, decimals=1)", "torch.special.psi(p)", "torch.special.gammaln(p)", "torch.special.erfcx(x)",
    "torch.special.gammainc(p.detach(), p)", "torch.special.xlogy(p, p)", "torch.special.sinc(x)",
    "torch.special.i1(x)",
    "torch.special.spherical_bessel_j0(x.detach())", "torch.special.zeta(p.detach() + 1, p.detach())",
)  # fmt: skip


def _tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    x, y = torch.randn(3, 6, dtype=torch.float64), torch.randn(2, 3, 4, dtype=torch.float64)
    p = torch.rand(3, 4, dtype=torch.float64) * 0.8 + 0.1
    smooth = {name: tensor.requires_grad_() for name, tensor in {"x": x, "y": y, "p": p}.items()}
    window = torch.hann_window(4, dtype=torch.float64)
    return {**smooth, "z": torch.randn(3, 4, dtype=torch.complex128), "w": window}


@pytest.mark.parametrize("text", DIRECT)
def test_call(text):
    assert check_with(text, _tensors()) is None


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), cases(NAMES))
def test_database(name, form):
    agree(name, form, EXCEPTIONS, [name] if name.startswith(tuple(f"special.{one}" for one in WITHOUT)) else [])
