"""Rows of attention and Transformer: see row.py. The batch comes first in all of them, for the table's sake."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from funcnet import nn
from tests.layers.row import BOTH, Row, both, floats

CHAINS = (3e-6, "a dozen operations in a row, LayerNorms among them, each rounded to float32")
DEEP = (1e-5, "seven LayerNorms in a row over four entries, often of nearly one size; torch's own float32 is 3e-6 away")


class Stack(Row):
    """One copy of a layer, which the row's arguments describe, and a LayerNorm."""

    def ours(self) -> nn.Module:
        layer = getattr(nn, f"{self.kind}Layer")(*self.args, **self.kwargs)
        return getattr(nn, self.kind)(layer, 1, nn.LayerNorm(self.args[0]))

    def theirs(self) -> torch.nn.Module:
        layer = Row(f"{self.kind}Layer", self.args, self.inputs, self.tolerance, self.kwargs).theirs()
        off = {"enable_nested_tensor": False} if "Encoder" in self.kind else {}  # torch warns where it has none
        stack = getattr(torch.nn, self.kind)(layer, 1, torch.nn.LayerNorm(self.args[0]), **off)
        with torch.no_grad():
            for parameter in stack.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        return stack


def padded(*shapes: tuple[int, ...], keys: int) -> Callable[[int], list[np.ndarray]]:
    """Numbers of N(0, 1), (batch, *shape) each, and the last keys of every other example hidden."""

    def make(batch: int) -> list[np.ndarray]:
        hidden = np.zeros((batch, keys), bool)
        hidden[::2, -2:] = True
        return [*(floats(*shape)(batch)[0] + i for i, shape in enumerate(shapes)), hidden]

    return make


QUIET: dict[str, Any] = {"dropout": 0.0, "batch_first": True}
ROWS = [
    Row("MultiheadAttention", (4, 2), padded((3, 4), (5, 4), (5, 4), keys=5), CHAINS, QUIET, BOTH),
    Row(
        "MultiheadAttention",
        (4, 2),
        padded((3, 4), (5, 3), (5, 6), keys=5),
        CHAINS,
        QUIET | {"kdim": 3, "vdim": 6, "add_bias_kv": True, "add_zero_attn": True, "bias": False},
    ),
    Row("TransformerEncoderLayer", (4, 2, 6), floats(3, 4), CHAINS, QUIET, BOTH),
    Row(
        "TransformerEncoderLayer",
        (4, 2, 6),
        floats(3, 4),
        CHAINS,
        QUIET | {"norm_first": True, "bias": False, "activation": "gelu"},
    ),
    Row("TransformerDecoderLayer", (4, 2, 6), both(floats(3, 4), floats(5, 4)), CHAINS, QUIET, roundings=2),
    Stack("TransformerEncoder", (4, 2, 6), floats(3, 4), CHAINS, QUIET | {"norm_first": True}, roundings=3),
    Stack("TransformerDecoder", (4, 2, 6), both(floats(3, 4), floats(5, 4)), CHAINS, QUIET, roundings=2),
    Row("Transformer", (4, 2, 1, 1, 6), both(floats(3, 4), floats(5, 4)), DEEP, QUIET, roundings=6),  # torch's own: 4
]
