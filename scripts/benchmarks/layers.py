"""Every layer, forward and backward, against torch eager and against bare XLA, on the shapes of three real models.

    python scripts/benchmarks/layers.py                     all of them, some ten minutes
    python scripts/benchmarks/layers.py conv pooling        some families
    python scripts/benchmarks/layers.py --only LSTM         those whose line contains a text

The shapes are those of a ResNet-50 (4 images of 224 x 224), a BERT-base (8 x 128 tokens) and a two-layer LSTM (16 x
100 steps, 256 wide). A case computes the output and the gradients of all parameters and floating inputs (signs apart)
under one random cotangent: ours under `jit` by `jax.vjp`, torch's eager by `autograd.grad`. The contenders take turns,
who goes first changing every time. A line says the median of funcnet's time over torch's in the same turn,
its quartiles, and, where the operation is written in `bare_layers.py`, funcnet's time over bare XLA's.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from funcnet import nn

sys.path.insert(0, str(Path(__file__).parent))
from bare_layers import BARE

warnings.filterwarnings("ignore")

IMAGE, TOKENS, STEPS = 4, (8, 128), (100, 16)


@dataclass
class Case:
    family: str
    kind: str
    args: tuple[Any, ...]
    shapes: tuple[Any, ...]  # of the inputs: a tuple of ints, or ("ids", size, *shape), or ("unit", *shape)
    kwargs: dict[str, Any] = field(default_factory=dict)
    training: bool = True

    def __str__(self) -> str:
        said = ",".join([*map(str, self.args), *(f"{k}={v}" for k, v in self.kwargs.items())]).replace(" ", "")
        shapes = " ".join("x".join(str(n) for n in s if not isinstance(n, str)) for s in self.shapes)
        return f"{self.kind}({said}) {shapes}"

    def inputs(self) -> list[np.ndarray]:
        random = np.random.default_rng(0)
        out = []
        for shape in self.shapes:
            if shape[0] == "ids":
                out.append(random.integers(shape[1], size=shape[2:]).astype(np.int32))
            elif shape[0] == "unit":
                out.append(random.random(size=shape[1:]).astype(np.float32))
            elif shape[0] == "sign":
                out.append(np.sign(random.normal(size=shape[1:])).astype(np.float32))
            else:
                out.append(random.normal(size=shape).astype(np.float32))
        return out


def image(channels: int, size: int) -> tuple[int, ...]:
    return (IMAGE, channels, size, size)


HIDDEN = (*TOKENS, 768)
WIDE = (*TOKENS, 3072)
SEQUENCE = (*STEPS, 256)
MAPS = image(64, 56)
LINE, CUBE = (16, 64, 512), (2, 16, 16, 28, 28)
SCORES = (1024, 1000)

# fmt: off
ACTIVATIONS = [
    "ReLU", "ReLU6", "ELU", "CELU", "SELU", "GELU", "SiLU", "Mish", "Hardtanh", "Hardsigmoid", "Hardswish", "LeakyReLU",
    "PReLU", "RReLU", "Sigmoid", "Tanh", "Softplus", "Softsign", "Softshrink", "Hardshrink", "Tanhshrink", "LogSigmoid",
    "GLU",
]
PAIRED = ["MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "PoissonNLLLoss", "KLDivLoss"]
# fmt: on

CASES = [
    *(
        Case("conv", "Conv2d", args, (shape,), kwargs)
        for args, shape, kwargs in [
            ((3, 64, 7), image(3, 224), {"stride": 2, "padding": 3, "bias": False}),
            ((64, 64, 1), image(64, 56), {"bias": False}),
            ((64, 64, 3), image(64, 56), {"padding": 1, "bias": False}),
            ((64, 256, 1), image(64, 56), {"bias": False}),
            ((128, 128, 3), image(128, 56), {"stride": 2, "padding": 1, "bias": False}),
            ((256, 256, 3), image(256, 14), {"padding": 1, "bias": False}),
            ((512, 512, 3), image(512, 7), {"padding": 1, "bias": False}),
            ((512, 2048, 1), image(512, 7), {"bias": False}),
            ((64, 64, 3), image(64, 56), {"padding": 1, "groups": 64}),
        ]
    ),
    Case("conv", "Conv1d", (64, 64, 3), (LINE,), {"padding": 1}),
    Case("conv", "Conv3d", (16, 16, 3), (CUBE,), {"padding": 1}),
    Case("conv", "ConvTranspose1d", (64, 64, 4), (LINE,), {"stride": 2, "padding": 1}),
    Case("conv", "ConvTranspose2d", (64, 64, 4), (image(64, 28),), {"stride": 2, "padding": 1}),
    Case("conv", "ConvTranspose3d", (16, 16, 2), (CUBE,), {"stride": 2}),
    Case("conv", "Unfold", (3,), (image(64, 28),), {"padding": 1}),
    Case("conv", "Fold", ((28, 28), 3), ((IMAGE, 576, 784),), {"padding": 1}),
    *(
        Case("linear", "Linear", args, (shape,))
        for args, shape in [
            ((768, 768), HIDDEN),
            ((768, 3072), HIDDEN),
            ((3072, 768), WIDE),
            ((2048, 1000), (IMAGE, 2048)),
        ]
    ),
    Case("linear", "Bilinear", (64, 64, 64), ((128, 64), (128, 64))),
    Case("pooling", "MaxPool2d", (3,), (image(64, 112),), {"stride": 2, "padding": 1}),
    Case("pooling", "MaxPool1d", (2,), (LINE,)),
    Case("pooling", "MaxPool3d", (2,), (CUBE,)),
    Case("pooling", "AvgPool2d", (2,), (image(256, 56),)),
    Case("pooling", "AvgPool2d", (3,), (MAPS,), {"stride": 1, "padding": 1}),
    Case("pooling", "AdaptiveAvgPool2d", (1,), (image(2048, 7),)),
    Case("pooling", "AdaptiveAvgPool2d", (7,), (MAPS,)),
    Case("pooling", "AdaptiveMaxPool2d", (7,), (MAPS,)),
    Case("pooling", "LPPool2d", (2, 2), (MAPS,)),
    Case("normalization", "BatchNorm2d", (64,), (image(64, 112),)),
    Case("normalization", "BatchNorm2d", (256,), (image(256, 56),)),
    Case("normalization", "BatchNorm2d", (2048,), (image(2048, 7),)),
    Case("normalization", "BatchNorm2d", (256,), (image(256, 56),), training=False),
    Case("normalization", "LayerNorm", (768,), (HIDDEN,)),
    Case("normalization", "RMSNorm", (768,), (HIDDEN,)),
    Case("normalization", "GroupNorm", (32, 256), (image(256, 28),)),
    Case("normalization", "InstanceNorm2d", (64,), (MAPS,)),
    Case("normalization", "LocalResponseNorm", (5,), (MAPS,)),
    *(Case("activation", kind, (), (MAPS if kind in ("ReLU", "ReLU6") else WIDE,)) for kind in ACTIVATIONS),
    Case("activation", "Softmax", (-1,), ((8, 12, 128, 128),)),
    Case("activation", "LogSoftmax", (-1,), (SCORES,)),
    Case("dropout", "Dropout", (0.1,), (HIDDEN,)),
    Case("dropout", "Dropout2d", (0.1,), (MAPS,)),
    Case("sparse", "Embedding", (30522, 768), (("ids", 30522, *TOKENS),)),
    Case("sparse", "EmbeddingBag", (30522, 256), (("ids", 30522, 64, 32),)),
    Case("attention", "MultiheadAttention", (768, 12), (HIDDEN,) * 3, {"batch_first": True}),
    Case("attention", "TransformerEncoderLayer", (768, 12, 3072, 0.0), (HIDDEN,), {"batch_first": True}),
    Case(
        "attention", "TransformerDecoderLayer", (256, 4, 1024, 0.0), ((8, 64, 256), (8, 64, 256)), {"batch_first": True}
    ),
    *(Case("recurrent", kind, (256, 256, 2), (SEQUENCE,)) for kind in ("LSTM", "GRU", "RNN")),
    Case("recurrent", "LSTM", (256, 256, 2), (SEQUENCE,), {"bidirectional": True}),
    Case("recurrent", "LSTM", (64, 64, 1), ((100, 4, 64),)),
    *(Case("recurrent", f"{kind}Cell", (256, 256), ((16, 256),)) for kind in ("LSTM", "GRU", "RNN")),
    Case("loss", "CrossEntropyLoss", (), ((160, 30522), ("ids", 30522, 160))),
    Case("loss", "CrossEntropyLoss", (), (SCORES, ("ids", 1000, 1024))),
    Case("loss", "NLLLoss", (), (SCORES, ("ids", 1000, 1024))),
    *(Case("loss", kind, (), (SCORES, ("unit", *SCORES))) for kind in PAIRED),
    Case("loss", "BCELoss", (), (("unit", *SCORES), ("unit", *SCORES))),
    Case("loss", "BCEWithLogitsLoss", (), (SCORES, ("unit", *SCORES))),
    Case("loss", "MultiMarginLoss", (), (SCORES, ("ids", 1000, 1024))),
    Case("loss", "SoftMarginLoss", (), (SCORES, ("sign", *SCORES))),
    Case("loss", "TripletMarginLoss", (), (SCORES,) * 3),
    Case("loss", "CosineEmbeddingLoss", (), (SCORES, SCORES, ("sign", 1024))),
    Case("distance", "CosineSimilarity", (), (SCORES, SCORES)),
    Case("distance", "PairwiseDistance", (), (SCORES, SCORES)),
    Case("padding", "ReflectionPad2d", (3,), (MAPS,)),
    Case("padding", "ReplicationPad2d", (3,), (MAPS,)),
    Case("padding", "CircularPad2d", (3,), (MAPS,)),
    Case("padding", "ZeroPad2d", (3,), (MAPS,)),
    Case("upsampling", "Upsample", (), (image(64, 28),), {"scale_factor": 2, "mode": "nearest"}),
    Case("upsampling", "Upsample", (), (image(64, 28),), {"scale_factor": 2, "mode": "bilinear"}),
    Case("upsampling", "Upsample", (), (image(64, 28),), {"scale_factor": 2, "mode": "bicubic"}),
    Case("upsampling", "PixelShuffle", (2,), (image(256, 28),)),
    Case("upsampling", "ChannelShuffle", (4,), (MAPS,)),
]


def is_float(x: Any) -> bool:
    return bool(np.issubdtype(x.dtype, np.floating))


def differentiated(case: Case) -> list[bool]:
    return [shape[0] not in ("ids", "sign") for shape in case.shapes]


def torch_step(case: Case) -> Callable[[], Any]:
    torch.manual_seed(0)
    module = getattr(torch.nn, case.kind)(*case.args, **case.kwargs).train(case.training)
    inputs = [
        torch.tensor(x, requires_grad=asked) if is_float(x) else torch.tensor(x, dtype=torch.int64)
        for x, asked in zip(case.inputs(), differentiated(case), strict=True)
    ]
    leaves = [x for x in inputs if x.requires_grad] + list(module.parameters())
    output = tensors(module(*inputs))
    cotangents = [torch.randn(o.shape) for o in output]

    def step() -> Any:
        outputs = tensors(module(*inputs))
        return outputs, torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True)

    return step


def tensors(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [t for item in value for t in tensors(item)]
    return [value] if value is not None and value.requires_grad else []


def jax_step(case: Case, function: Callable[..., Any] | None = None) -> Callable[[], Any]:
    """Ours; or `function(params, *inputs)` in its place, a bare one."""
    net = getattr(nn, case.kind)(*case.args, **case.kwargs)
    inputs = [jnp.asarray(x) for x in case.inputs()]
    params, state = net.init(jax.random.key(0), *inputs)
    asked = differentiated(case)
    floating = [x for x, by in zip(inputs, asked, strict=True) if by]

    def forward(params: Any, floating: Any, key: Any) -> Any:
        rest = iter(floating)
        args = [next(rest) if by else x for x, by in zip(inputs, asked, strict=True)]
        if function is not None:
            return jax.tree.leaves(function(params, *args))
        out, new = net.apply(params, state, *args, training=case.training, rng=key)
        return [x for x in jax.tree.leaves((out, new)) if is_float(x)]

    key = jax.random.key(1)
    cotangents = [
        jax.random.normal(jax.random.key(i), o.shape)
        for i, o in enumerate(jax.eval_shape(forward, params, floating, key))
    ]

    @jax.jit
    def go(params: Any, floating: Any, key: Any, cotangents: Any) -> Any:
        outputs, pull = jax.vjp(lambda p, x: forward(p, x, key), params, floating)
        return outputs, pull(cotangents)

    return lambda: jax.block_until_ready(go(params, floating, key, cotangents))


def seconds(step: Callable[[], Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        step()
    return (time.perf_counter() - start) / calls


def measure(steps: dict[str, Callable[[], Any]], turns: int, budget: float) -> dict[str, np.ndarray]:
    """{contender: seconds of each turn}."""
    names = list(steps)
    for step in steps.values():
        step()
        step()
    slowest = max(seconds(step, 1) for step in steps.values())
    calls = max(1, int(budget / turns / len(steps) / slowest))
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(turns):
        for name in names if turn % 2 == 0 else reversed(names):
            times[name].append(seconds(steps[name], calls))
    return {name: np.array(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help="conv, linear, pooling, normalization, …; all if none is named")
    parser.add_argument("--only", default="", help="cases whose line contains this text")
    parser.add_argument("--turns", type=int, default=9, help="how often the contenders take turns")
    parser.add_argument(
        "--budget", type=float, default=3.0, help="seconds of measuring a case, all contenders together"
    )
    parser.add_argument("--json", type=Path, help="a file for the ratios")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    known = list(dict.fromkeys(case.family for case in CASES))
    if unknown := set(arguments.families) - set(known):
        parser.error(f"unknown families {sorted(unknown)}; expected some of {known}")
    chosen = [c for c in CASES if c.family in (arguments.families or known) and arguments.only in str(c)]
    records = []
    print(f"{'family':14} {'layer and inputs':78} {'ours':>9} {'ours/torch':>22} {'ours/bare':>22}")
    for case in chosen:
        steps = {"ours": jax_step(case), "torch": torch_step(case)}
        if (bare := BARE.get(case.kind)) and (function := bare(case)):
            steps["bare"] = jax_step(case, function)
            if case.family != "dropout":
                ours, theirs = (steps[name]()[0][0] for name in ("ours", "bare"))
                np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3, err_msg=f"bare_layers.py: {case}")
        times = measure(steps, arguments.turns, arguments.budget)
        record = {"family": case.family, "case": str(case), "milliseconds": float(np.median(times["ours"]) * 1e3)}
        shown = []
        for other in ("torch", "bare"):
            if other in times:
                low, middle, high = np.percentile(times["ours"] / times[other], [25, 50, 75])
                record[other] = [float(low), float(middle), float(high)]
                shown.append(f"{middle:6.2f} ({low:5.2f} to {high:5.2f})")
        line = f"{case.family:14} {str(case)[:78]:78} {record['milliseconds']:6.2f} ms"
        print(line, *(f"{text:>22}" for text in shown), flush=True)
        records.append(record)
    if arguments.json:
        arguments.json.write_text(json.dumps(records, indent=1) + "\n")
    ratios = [record["torch"][1] for record in records]
    faster = sum(ratio <= 1 for ratio in ratios)
    print(f"{faster} of {len(ratios)} cases are as fast as torch or faster; median {np.median(ratios):.2f}")


if __name__ == "__main__":
    main()
