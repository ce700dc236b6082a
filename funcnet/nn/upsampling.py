"""Upsample, UpsamplingNearest2d and UpsamplingBilinear2d, as in torch/nn/modules/upsampling.py.

Letters: `B batch, C channels, S spatial sizes`.
"""

import jax

from funcnet import functional as F
from funcnet.functional.upsampling import Factors, Sizes
from funcnet.nn.module.module import Module

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Resizes the spatial dimensions of images, as `F.interpolate` does.

    Args:
        size: size of the output. Exactly one of `size` and `scale_factor` must be given.
        scale_factor: ratio of the output's size to the input's size. The resulting size of the output is rounded down.
        mode: 'nearest', 'linear', 'bilinear', 'bicubic', 'trilinear' or another mode of `F.interpolate`.
        align_corners: if True, the centres of the corner pixels of input and output coincide.
        recompute_scale_factor: if True, the coordinates of the input pixels are computed from the sizes of input and
            output, even if scale_factor is given.

    Call: (B, C, *S) -> (B, C, *S').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.Upsample(scale_factor=2).apply({}, {}, jnp.array([[[1.0, 2.0]]]))[0]
        Array([[[1., 1., 2., 2.]]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Upsample.html
    """

    def __init__(
        self,
        size: Sizes = None,
        scale_factor: Factors = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ):
        super().__init__()
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Factors = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None  # type: ignore[arg-type]
        self.mode, self.align_corners = mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: jax.Array) -> jax.Array:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        given = f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{given}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resizes images by nearest-neighbour interpolation.

    Args:
        size: (H, W) of the output, or one int for both. Exactly one of `size` and `scale_factor` must be given.
        scale_factor: ratio of the output's size to the input's size. The resulting size of the output is rounded down.

    Call: (B, C, H, W) -> (B, C, H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.UpsamplingNearest2d(scale_factor=2).apply({}, {}, jnp.ones((1, 1, 2, 3)))[0].shape
        (1, 1, 4, 6)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.UpsamplingNearest2d.html
    """

    def __init__(self, size: Sizes = None, scale_factor: Factors = None):
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resizes images by bilinear interpolation, so that the corner pixels of input and output have the same centres.

    Args:
        size: (H, W) of the output, or one int for both. Exactly one of `size` and `scale_factor` must be given.
        scale_factor: ratio of the output's size to the input's size. The resulting size of the output is rounded down.

    Call: (B, C, H, W) -> (B, C, H', W').

    Example:
        >>> import jax.numpy as jnp
        >>> from funcnet import nn
        >>> nn.UpsamplingBilinear2d((1, 3)).apply({}, {}, jnp.array([[[[1.0, 2.0]]]]))[0]
        Array([[[[1. , 1.5, 2. ]]]], dtype=float32)

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.UpsamplingBilinear2d.html
    """

    def __init__(self, size: Sizes = None, scale_factor: Factors = None):
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
