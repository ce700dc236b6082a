"""ResNet-18 and ResNet-50 with torchvision's names. Letters: `B batch, C channels, H height, W width, K classes`.

Four stages of residual blocks; each stage but the first halves height and width and doubles the channels. The
bottleneck block strides in its 3×3 convolution, as torchvision's does ("ResNet v1.5").
"""

import functools
from collections.abc import Callable, Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp

from funcnet import nn
from funcnet.models.loading import Naming

__all__ = ["NAMING", "BasicBlock", "Bottleneck", "ResNet", "resnet18", "resnet50"]

NAMING = Naming(heads=("fc.",))
"""torchvision's names, which are ours; `models.loading.load` reads its files."""

NormLayer = Callable[[int], nn.Module]


class BasicBlock(nn.Module):
    """relu(x + two 3×3 convolutions of it). Call: (B, C, H, W) -> (B, planes, H / stride, W / stride).

    Args:
        inplanes: channels in.
        planes: channels out.
        stride: of the first convolution.
        downsample: what brings x to the output's shape, or None.
        norm_layer: makes a normalisation from a number of channels.

    Reference: torchvision.models.resnet.BasicBlock; He et al. 2015, arXiv:1512.03385
    """

    expansion: ClassVar[int] = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        norm_layer: NormLayer = nn.BatchNorm2d,
    ):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, padding=1, bias=False)
        self.bn1 = norm_layer(planes)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = norm_layer(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: jax.Array) -> jax.Array:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """relu(x + 1×1, 3×3, 1×1 convolutions of it). Call: (B, C, H, W) -> (B, 4·planes, H / stride, W / stride).

    Args:
        inplanes: channels in.
        planes: channels of the 3×3 convolution.
        stride: of the 3×3 convolution.
        downsample: what brings x to the output's shape, or None.
        norm_layer: makes a normalisation from a number of channels.

    Reference: torchvision.models.resnet.Bottleneck; He et al. 2015, arXiv:1512.03385
    """

    expansion: ClassVar[int] = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        norm_layer: NormLayer = nn.BatchNorm2d,
    ):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 1, bias=False)
        self.bn1 = norm_layer(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride, padding=1, bias=False)
        self.bn2 = norm_layer(planes)
        self.conv3 = nn.Conv2d(planes, planes * self.expansion, 1, bias=False)
        self.bn3 = norm_layer(planes * self.expansion)
        self.relu = nn.ReLU()
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: jax.Array) -> jax.Array:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """A residual network for images.

    Args:
        block: `BasicBlock` or `Bottleneck`.
        layers: blocks in each of the four stages.
        num_classes: K.
        zero_init_residual: whether the last normalisation of every block starts at zero, so that each block starts as
            the identity.
        norm_layer: makes a normalisation from a number of channels; None: `nn.BatchNorm2d`.
        in_channels: C, 3 for colour and 1 for grey.
        small_images: a stem for images of some 8 to 64 pixels: one 3×3 convolution without stride, and no pooling, in
            place of a 7×7 one and a pool that together divide height and width by four.

    Call: (B, C, H, W) -> logits (B, K).

    Differs from torchvision: `in_channels` and `small_images` are ours; groups and dilation are not here.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet.models import resnet
        >>> net = resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], num_classes=10, in_channels=1, small_images=True)
        >>> params, state = jax.jit(net.init)(jax.random.key(0))
        >>> logits, state = jax.jit(net.apply)(params, state, jnp.ones((2, 1, 8, 8)))
        >>> logits.shape
        (2, 10)

    Reference: torchvision.models.resnet.ResNet; He et al. 2015, arXiv:1512.03385
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        layers: Sequence[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        norm_layer: NormLayer | None = None,
        *,
        in_channels: int = 3,
        small_images: bool = False,
    ):
        super().__init__()
        if len(layers) != 4:
            raise ValueError(
                f"ResNet: layers has the wrong length; expected the blocks of 4 stages, got {len(layers)} numbers. "
                "Give four, such as [2, 2, 2, 2]."
            )
        norm_layer = nn.BatchNorm2d if norm_layer is None else norm_layer
        if small_images:
            self.conv1 = nn.Conv2d(in_channels, 64, 3, padding=1, bias=False)
        else:
            self.conv1 = nn.Conv2d(in_channels, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = norm_layer(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.Identity() if small_images else nn.MaxPool2d(3, stride=2, padding=1)
        stage = functools.partial(_stage, block, norm_layer)
        self.layer1 = stage(64, 64, layers[0], stride=1)
        self.layer2 = stage(64 * block.expansion, 128, layers[1], stride=2)
        self.layer3 = stage(128 * block.expansion, 256, layers[2], stride=2)
        self.layer4 = stage(256 * block.expansion, 512, layers[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        _initialise(self, zero_init_residual)

    def forward(self, x: jax.Array) -> jax.Array:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))  # (B, 64, H / 4, W / 4)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))  # (B, 512·expansion, H / 32, W / 32)
        return self.fc(jnp.squeeze(self.avgpool(x), (2, 3)))


def resnet18(**options: object) -> ResNet:
    """ResNet-18: two `BasicBlock`s a stage, 11.7 million parameters. Options as `ResNet`'s.

    >>> sum(p.numel() for p in resnet18().parameters())
    11689512
    """
    return ResNet(BasicBlock, [2, 2, 2, 2], **options)  # type: ignore[arg-type]


def resnet50(**options: object) -> ResNet:
    """ResNet-50: 3, 4, 6 and 3 `Bottleneck`s, 25.6 million parameters. Options as `ResNet`'s.

    >>> sum(p.numel() for p in resnet50().parameters())
    25557032
    """
    return ResNet(Bottleneck, [3, 4, 6, 3], **options)  # type: ignore[arg-type]


def _stage(
    block: type[BasicBlock] | type[Bottleneck],
    norm_layer: NormLayer,
    inplanes: int,
    planes: int,
    blocks: int,
    stride: int,
) -> nn.Sequential:
    width = planes * block.expansion
    downsample = None
    if stride != 1 or inplanes != width:
        downsample = nn.Sequential(nn.Conv2d(inplanes, width, 1, stride, bias=False), norm_layer(width))
    rest = [block(width, planes, norm_layer=norm_layer) for _ in range(1, blocks)]
    return nn.Sequential(block(inplanes, planes, stride, downsample, norm_layer), *rest)


def _initialise(net: ResNet, zero_init_residual: bool) -> None:
    """torchvision's start: convolutions by the fan out, as suits relu; normalisations 1 and 0; fc torch's own."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    if not zero_init_residual:
        return
    for module in net.modules():
        last = module.bn3 if isinstance(module, Bottleneck) else module.bn2 if isinstance(module, BasicBlock) else None
        if last is not None and getattr(last, "weight", None) is not None:
            nn.init.zeros_(last.weight)
