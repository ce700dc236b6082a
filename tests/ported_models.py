"""Models that are written once for both libraries: as torch modules and as their ports.

A class body that takes the library as an argument cannot differ between the two sides, so `funcnet.compare` must find
nothing in them. `settled` gives torch's side statistics of BatchNorm as training leaves them.

Reference: Tan & Le 2019, https://arxiv.org/abs/1905.11946, and the lite variant in
https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite (ReLU6, no squeeze-and-excitation);
Kim et al. 2018, https://arxiv.org/abs/1802.06182 (CREPE); He et al. 2015, https://arxiv.org/abs/1512.03385 (ResNet-50,
with the stride in the middle convolution, as torchvision has it); Radford et al. 2019 (GPT-2).
"""

import itertools
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["BLOCKS", "efficientnet_lite0", "gpt", "image", "resnet50", "settled", "sound", "tiny_crepe"]

# expansion, channels, repeats, stride, kernel size
BLOCKS = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)


def efficientnet_lite0(lib: ModuleType, blocks: Any = BLOCKS, classes: int = 1000) -> Any:
    """Return EfficientNet-lite0, or a shorter one with other blocks, from `torch.nn` or `funcnet.nn`."""

    def normed(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> list[Any]:
        convolution = lib.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
        return [convolution, lib.BatchNorm2d(outputs, eps=1e-3, momentum=0.01)]

    class InvertedResidual(lib.Module):
        def __init__(self, inputs, outputs, expansion, stride, size):
            super().__init__()
            width = inputs * expansion
            expand = [*normed(inputs, width, 1), lib.ReLU6(inplace=True)] if expansion > 1 else []
            spatial = [*normed(width, width, size, stride, groups=width), lib.ReLU6(inplace=True)]
            self.layers = lib.Sequential(*expand, *spatial, *normed(width, outputs, 1))
            self.residual = stride == 1 and inputs == outputs

        def forward(self, x):
            return x + self.layers(x) if self.residual else self.layers(x)

    class EfficientNetLite(lib.Module):
        def __init__(self):
            super().__init__()
            self.stem = lib.Sequential(*normed(3, 32, 3, 2), lib.ReLU6(inplace=True))
            parts, inputs = [], 32
            for expansion, outputs, repeats, stride, size in blocks:
                for i in range(repeats):
                    parts.append(InvertedResidual(inputs, outputs, expansion, 1 if i else stride, size))
                    inputs = outputs
            self.blocks = lib.Sequential(*parts)
            self.head = lib.Sequential(*normed(inputs, 1280, 1), lib.ReLU6(inplace=True))
            self.pool, self.flatten = lib.AdaptiveAvgPool2d(1), lib.Flatten()
            self.drop, self.classifier = lib.Dropout(0.2), lib.Linear(1280, classes)

        def forward(self, x):
            x = self.head(self.blocks(self.stem(x)))
            return self.classifier(self.drop(self.flatten(self.pool(x))))

    return EfficientNetLite()


def tiny_crepe(lib: ModuleType) -> Any:
    """Return the tiny CREPE, which maps 1024 samples at 16 kHz to 360 pitches, from `torch.nn` or `funcnet.nn`."""

    class Block(lib.Module):
        def __init__(self, inputs, outputs, size, stride, before, after):
            super().__init__()
            self.pad = lib.ZeroPad2d((0, 0, before, after))
            self.conv, self.relu = lib.Conv2d(inputs, outputs, (size, 1), (stride, 1)), lib.ReLU()
            self.bn = lib.BatchNorm2d(outputs, eps=1e-3, momentum=0.01)
            self.pool, self.drop = lib.MaxPool2d((2, 1)), lib.Dropout(0.25)

        def forward(self, x):
            return self.drop(self.pool(self.bn(self.relu(self.conv(self.pad(x))))))

    widths = (1, 128, 16, 16, 16, 32, 64)
    first, *rest = itertools.pairwise(widths)
    return lib.Sequential(
        lib.Unflatten(1, (1, 1024, 1)),
        Block(*first, 512, 4, 254, 254),
        *(Block(*channels, 64, 1, 31, 32) for channels in rest),
        lib.Flatten(),
        lib.Linear(256, 360),
        lib.Sigmoid(),
    )


def resnet50(lib: ModuleType) -> Any:
    """Return a ResNet-50 for 1000 classes."""

    class Bottleneck(lib.Module):
        def __init__(self, inputs: int, width: int, stride: int):
            super().__init__()
            self.conv1, self.bn1 = lib.Conv2d(inputs, width, 1, bias=False), lib.BatchNorm2d(width)
            self.conv2, self.bn2 = lib.Conv2d(width, width, 3, stride, 1, bias=False), lib.BatchNorm2d(width)
            self.conv3, self.bn3 = lib.Conv2d(width, 4 * width, 1, bias=False), lib.BatchNorm2d(4 * width)
            self.relu = lib.ReLU()
            self.shortcut = lib.Identity()
            if stride > 1 or inputs != 4 * width:
                conv = lib.Conv2d(inputs, 4 * width, 1, stride, bias=False)
                self.shortcut = lib.Sequential(conv, lib.BatchNorm2d(4 * width))

        def forward(self, x: Any) -> Any:
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.relu(self.bn2(self.conv2(y)))
            return self.relu(self.bn3(self.conv3(y)) + self.shortcut(x))

    parts, inputs = [], 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for place in range(count):
            parts.append(Bottleneck(inputs, width, 1 if place else stride))
            inputs = 4 * width
    stem = [lib.Conv2d(3, 64, 7, 2, 3, bias=False), lib.BatchNorm2d(64), lib.ReLU(), lib.MaxPool2d(3, 2, 1)]
    return lib.Sequential(*stem, *parts, lib.AdaptiveAvgPool2d(1), lib.Flatten(), lib.Linear(2048, 1000))


def gpt(lib: ModuleType, functional: ModuleType, width: int, layers: int, heads: int, words: int, length: int) -> Any:
    """Return a causal language model: ids (B, T) -> logits (B, T, words), with a position table of `length`."""

    class Block(lib.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = lib.LayerNorm(width), lib.LayerNorm(width)
            self.c_attn, self.c_proj = lib.Linear(width, 3 * width), lib.Linear(width, width)
            self.up, self.gelu, self.down = lib.Linear(width, 4 * width), lib.GELU(), lib.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            rows, steps, _ = x.shape
            parts = self.c_attn(self.ln_1(x)).reshape(rows, steps, 3, heads, width // heads)
            query, key, value = (parts[:, :, place].swapaxes(1, 2) for place in range(3))
            y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.c_proj(y.swapaxes(1, 2).reshape(rows, steps, width))
            return x + self.down(self.gelu(self.up(self.ln_2(x))))

    class Gpt(lib.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wte, self.wpe = lib.Embedding(words, width), lib.Embedding(length, width)
            self.h = lib.ModuleList([Block() for _ in range(layers)])
            self.ln_f, self.lm_head = lib.LayerNorm(width), lib.Linear(width, words, bias=False)

        def forward(self, ids: Any, places: Any) -> Any:
            x = self.wte(ids) + self.wpe(places)
            for block in self.h:
                x = block(x)
            return self.lm_head(self.ln_f(x))

    return Gpt()


def settled(torch: ModuleType, module: Any, batch: np.ndarray, seed: int = 0) -> Any:
    """Return the torch module with random scales and shifts, and statistics that BatchNorm gathered from a batch."""
    torch.manual_seed(seed)
    norms = [part for part in module.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    for norm in norms:
        torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
        torch.nn.init.normal_(norm.bias, std=0.5)
        norm.momentum = 1.0
    with torch.no_grad():
        module.train()(torch.tensor(batch))
    for norm in norms:
        norm.momentum = 0.01
    return module.eval()


def image(count: int, size: int, seed: int = 0) -> np.ndarray:
    """Return images (count, 3, size, size): noise in [-1, 1] on a smooth background, as after the usual scaling."""
    random = np.random.default_rng(seed)
    slope = np.linspace(-0.5, 0.5, size, dtype=np.float32)
    noise = random.uniform(-0.5, 0.5, size=(count, 3, size, size)).astype(np.float32)
    return noise + slope * random.uniform(-1, 1, size=(count, 3, 1, 1)).astype(np.float32)


def sound(count: int, seed: int = 0) -> np.ndarray:
    """Return frames (count, 1024) of harmonic tones in noise, each with mean 0 and standard deviation 1, as CREPE's."""
    random = np.random.default_rng(seed)
    pitch = random.uniform(80, 800, size=(count, 1, 1)) * np.arange(1, 6).reshape(1, 5, 1)
    tones = np.sin(2 * np.pi * pitch * np.arange(1024) / 16000) / np.arange(1, 6).reshape(1, 5, 1)
    frames = tones.sum(1) + random.normal(scale=0.1, size=(count, 1024))
    return ((frames - frames.mean(1, keepdims=True)) / frames.std(1, keepdims=True)).astype(np.float32)
