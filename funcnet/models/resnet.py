"""ResNet-18 and ResNet-50 with torchvision's names. Letters: `B batch, C channels, H height, W width, K classes`.

A ResNet has four stages of residual blocks. Each stage except the first halves height and width and doubles the
channels. The bottleneck block has its stride in the 3×3 convolution, as in torchvision ("ResNet v1.5").
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
"""The naming of torchvision's files, which use the same names as ours, for `models.loading.load`."""

NormLayer = Callable[[int], nn.Module]


class BasicBlock(nn.Module):
    """A residual block relu(x + f(x)), in which f consists of two 3×3 convolutions.

    Call: (B, C, H, W) -> (B, planes, H / stride, W / stride).

    Args:
        inplanes: number of input channels.
        planes: number of output channels.
        stride: stride of the first convolution.
        downsample: module that converts x to the shape of the output. It is None if the two shapes are equal.
        norm_layer: function from a number of channels to a normalisation layer.

    Example:
        >>> block = BasicBlock(4, 8, stride=2, downsample=nn.Conv2d(4, 8, 1, stride=2))
        >>> nn.output_shape(block, (1, 4, 4, 4))
        (1, 8, 2, 2)

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
    """A residual block relu(x + f(x)), in which f consists of a 1×1, a 3×3 and a 1×1 convolution.

    Call: (B, C, H, W) -> (B, 4·planes, H / stride, W / stride).

    Args:
        inplanes: number of input channels.
        planes: number of channels of the 3×3 convolution. The output has four times as many channels.
        stride: stride of the 3×3 convolution.
        downsample: module that converts x to the shape of the output. It is None if the two shapes are equal.
        norm_layer: function from a number of channels to a normalisation layer.

    Example:
        >>> block = Bottleneck(8, 2)  # 4 · 2 channels, as many as the input has
        >>> nn.output_shape(block, (1, 8, 4, 4))
        (1, 8, 4, 4)

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
        layers: number of blocks in each of the four stages.
        num_classes: number of classes, K.
        zero_init_residual: if True, the last normalisation weight of every block is initially zero, so that the
            residual branch is zero.
        norm_layer: function from a number of channels to a normalisation layer. None means `nn.BatchNorm2d`.
        in_channels: number of channels of the images, C: 3 for colour, 1 for grey.
        small_images: if True, the stem is suited to images of about 8 to 64 pixels: a 3×3 convolution without stride
            and without pooling. Otherwise, the stem is a 7×7 convolution and a pooling layer, which together divide
            height and width by four.

    Call: (B, C, H, W) -> logits (B, K).

    Differs from torchvision: `in_channels` and `small_images` are additional arguments; groups and dilation are not
    supported.

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
                f"ResNet: layers has the wrong length; expected 4 numbers of blocks, one per stage, got {len(layers)} "
                "numbers. Pass a list such as [2, 2, 2, 2]."
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
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))  # (B, 64, H / s, W / s); s is 1 for small images, else 4
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))  # (B, 512·expansion, H / 8s, W / 8s)
        return self.fc(jnp.squeeze(self.avgpool(x), (2, 3)))


def resnet18(**options: object) -> ResNet:
    """Make a ResNet-18: two `BasicBlock`s per stage, 11.7 million parameters. The options are those of `ResNet`.

    >>> sum(p.numel() for p in resnet18().parameters())
    11689512
    """
    return ResNet(BasicBlock, [2, 2, 2, 2], **options)  # type: ignore[arg-type]


def resnet50(**options: object) -> ResNet:
    """Make a ResNet-50: 3, 4, 6 and 3 `Bottleneck`s, 25.6 million parameters. The options are those of `ResNet`.

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
    """Initialise the weights as torchvision does: Kaiming normal with the fan-out for convolutions, and torch's
    defaults for all other layers.
    """
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    if not zero_init_residual:
        return
    for module in net.modules():
        last = module.bn3 if isinstance(module, Bottleneck) else module.bn2 if isinstance(module, BasicBlock) else None
        if last is not None and getattr(last, "weight", None) is not None:
            nn.init.zeros_(last.weight)
