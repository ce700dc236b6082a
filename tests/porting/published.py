"""Published models that `funcnet port` must port by itself: where they are, how they are made, what they are run on.

The sizes are small. Random parts (dropout, stochastic depth) are on, so that the proof in training mode covers them.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tests.porting.packages import package

__all__ = ["MODELS", "Model"]


@dataclasses.dataclass(frozen=True)
class Model:
    """A class in a file of a package on PyPI."""

    distribution: str
    file: str
    name: str
    construct: str
    example: str

    @property
    def path(self) -> Path:
        return package(self.distribution) / self.file


_HIFI = (
    "Generator(__import__('types').SimpleNamespace(resblock='1', resblock_kernel_sizes=[3, 7], upsample_rates=[4, 2], "
    "upsample_kernel_sizes=[8, 4], upsample_initial_channel=16, resblock_dilation_sizes=[[1, 3, 5], [1, 3, 5]]))"
)

MODELS = {
    "resnet": Model(
        "torchvision", "torchvision/models/resnet.py", "ResNet",
        "ResNet(Bottleneck, [1, 1, 1, 1], num_classes=7)", "torch.randn(2, 3, 64, 64)",
    ),
    "swin": Model(
        "torchvision", "torchvision/models/swin_transformer.py", "SwinTransformer",
        "SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=5, stochastic_depth_prob=0.2, dropout=0.1)",
        "torch.randn(2, 3, 40, 40)",
    ),
    "swin_v2": Model(
        "torchvision", "torchvision/models/swin_transformer.py", "SwinTransformer",
        "SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=5, block=SwinTransformerBlockV2, "
        "downsample_layer=PatchMergingV2)",
        "torch.randn(2, 3, 40, 40)",
    ),
    "efficientnet": Model(
        "efficientnet-pytorch", "efficientnet_pytorch/model.py", "EfficientNet",
        "EfficientNet.from_name('efficientnet-b0', num_classes=7)", "torch.randn(2, 3, 64, 64)",
    ),
    "vit": Model(
        "vit-pytorch", "vit_pytorch/vit.py", "ViT",
        "ViT(image_size=16, patch_size=4, num_classes=3, dim=8, depth=2, heads=2, mlp_dim=8, dropout=0.1)",
        "torch.randn(2, 3, 16, 16)",
    ),
    "vgg": Model(
        "easyocr", "easyocr/model/vgg_model.py", "Model", "Model(1, 16, 8, 10)", "(torch.randn(2, 1, 32, 64), None)",
    ),
    "whisper": Model(
        "openai-whisper", "whisper/model.py", "Whisper",
        "Whisper(ModelDimensions(8, 16, 8, 2, 2, 20, 8, 8, 2, 2))",
        "(torch.randn(2, 8, 32), torch.randint(0, 20, (2, 5)))",
    ),
    "hifi_gan": Model("hifi-gan", "hifi_gan/models.py", "Generator", _HIFI, "torch.randn(2, 80, 11)"),
    "diffusion_unet": Model(
        "denoising-diffusion-pytorch", "denoising_diffusion_pytorch/denoising_diffusion_pytorch.py", "Unet",
        "Unet(8, dim_mults=(1, 2), dropout=0.1)", "(torch.randn(2, 3, 16, 16), torch.rand(2))",
    ),
    "unet_3d": Model(
        "unet", "unet/unet.py", "UNet3D",
        "UNet3D(num_encoding_blocks=2, out_channels_first_layer=4, padding=1, upsampling_type='linear')",
        "torch.randn(2, 1, 16, 16, 16)",
    ),
    "segformer": Model(
        "segformer-pytorch", "segformer_pytorch/segformer_pytorch.py", "Segformer",
        "Segformer(dims=(8, 16, 24, 32), heads=(1, 2, 3, 4), decoder_dim=16)", "torch.randn(2, 3, 64, 64)",
    ),
    "tcn": Model(
        "pytorch-tcn", "pytorch_tcn/tcn.py", "TCN",
        "TCN(4, [6, 8], kernel_size=3, use_skip_connections=True)", "torch.randn(2, 4, 20)",
    ),
    "mamba": Model(
        "mambapy", "mambapy/mamba.py", "Mamba", "Mamba(MambaConfig(d_model=16, n_layers=2))", "torch.randn(2, 12, 16)",
    ),
}  # fmt: skip
