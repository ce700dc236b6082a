"""A widened source computes in float64 what it computes in float32, against torch and jax.numpy themselves."""

import ast
import textwrap

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet.porting.proving.float64_widening import widen
from funcnet.porting.running.loading import construct, load


def widened(text):
    return ast.unparse(widen(ast.parse(text)))


CASES = {
    "x.float()": "x.double()",
    "self.net.float()": "self.net.double()",
    "torch.float(x)": "torch.double(x)",
    "torch.float": "torch.double",
    "torch.complex64": "torch.complex128",
    "torch.FloatTensor([1])": "torch.DoubleTensor([1])",
    "x.to(torch.float32)": "x.to(torch.float64)",
    "jnp.float32(x)": "jnp.float64(x)",
    "np.asarray(x, dtype='float32')": "np.asarray(x, dtype='float64')",
    "x.astype('complex64')": "x.astype('complex128')",
    "x.type('torch.FloatTensor')": "x.type('torch.DoubleTensor')",
    "x.half().to(torch.bfloat16)": "x.half().to(torch.bfloat16)",
    "torch.get_default_dtype()": "torch.get_default_dtype()",
    "print('float32', float(x), self.float)": "print('float32', float(x), self.float)",
    "import torch as th\nth.float": "import torch as th\nth.double",
    "from torch import float32, nn": "from torch import float64 as float32, nn",
    "def f(x, dtype='float32', *, n=2): pass": "def f(x, dtype='float64', *, n=2):\n    pass",
    "def f(x, *, dtype='float32'): pass": "def f(x, *, dtype='float64'):\n    pass",
    "dtype = 'float32'": "dtype = 'float64'",
}


@pytest.mark.parametrize("text", CASES)
def test_names_of_dtypes(text):
    assert widened(text) == CASES[text]


def test_a_model_that_says_float_computes_in_float64(tmp_path):
    source = """
        import torch
        class Norm(torch.nn.Module):
            def forward(self, x):
                y = x.float()
                centred = y - y.mean(-1, keepdim=True, dtype=torch.float32)
                return (centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x)
        """
    (tmp_path / "norm.py").write_text(textwrap.dedent(source))
    x = torch.linspace(-1, 1, 10, dtype=torch.float64).reshape(2, 5) + 1e4
    expected = torch.nn.functional.layer_norm(x, (5,))
    narrow = construct(load(tmp_path / "norm.py", "Norm"))(x)
    wide = construct(load(tmp_path / "norm.py", "Norm", transform=lambda _, tree: widen(tree)))(x)
    torch.testing.assert_close(wide, expected, rtol=1e-9, atol=1e-9)
    assert (narrow - expected).abs().max() > 1e-5, "the case tells float32 from float64"


def test_half_precision_stays():
    assert widened("x.to(torch.float16) + x.bfloat16()") == "x.to(torch.float16) + x.bfloat16()"


def test_the_names_exist():
    for text in ("jnp.float32", "np.float32", "np.complex64", "torch.float", "torch.cfloat", "torch.FloatTensor"):
        names = {"jnp": jnp, "np": np, "torch": torch}
        assert eval(widened(text), names) is not eval(text, names)
