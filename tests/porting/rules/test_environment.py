"""Rules of what surrounds the tensors: what is written, and that torch on a CPU has the same value."""

import pytest
import torch

from funcnet.porting.rewriting.rewriter import port_expression

from .op_samples import check

WRITTEN = {
    "torch.utils.checkpoint.checkpoint(f, x, y, use_reentrant=False)": "f(x, y)",
    "torch.utils.checkpoint.checkpoint(self.layer, *args)": "self.layer(*args)",
    "torch.is_grad_enabled()": "True",
    "torch.is_autocast_enabled('cpu')": "False",
    "torch.is_autocast_enabled()": "False",
    "torch.device('cuda', 0)": "None",
    "torch.device(type='cpu')": "None",
    "torch.device": "jax.Device",
    "torch.Size": "tuple",
    "torch.cuda.empty_cache()": "None",
    "torch.cuda.synchronize()": "None",
    "torch.jit.annotate(list, x)": "x",
    "torch.backends.cudnn.benchmark": "False",
    "torch.channels_last": "None",
    "torch.newaxis": "None",
    "torch.pi": "jnp.pi",
    "torch.get_autocast_gpu_dtype()": "jnp.float16",
    "torch.get_autocast_dtype(d)": 'jnp.float16 if d == "cuda" else jnp.bfloat16',
    "torch.get_autocast_ipu_dtype()": None,
}  # None: it is in the register


@pytest.mark.parametrize("text", WRITTEN)
def test_what_is_written(text):
    written, undecided = port_expression(text, {})
    assert (None if undecided else written) == WRITTEN[text]


@pytest.mark.parametrize(
    "text",
    [
        "torch.jit.is_scripting()", "torch.jit.is_tracing()", "torch.compiler.is_compiling()",
        "torch._dynamo.is_compiling()",
        "torch.onnx.is_in_onnx_export()", "torch.is_inference_mode_enabled()", "torch.is_grad_enabled()",
        "torch.pi * 2",
        "torch.e", "-torch.inf", "[torch.pi, torch.inf]", "len(torch.__version__.split('.'))",
        "torch.is_autocast_enabled()",
        "torch.are_deterministic_algorithms_enabled()", "torch.full((2,), torch.nan).isnan()",
    ],
)  # fmt: skip
def test_values(text):
    assert check(text, {}) is None


def test_version_is_the_one_that_is_ported():
    assert torch.__version__.startswith(eval(port_expression("torch.__version__", {})[0]))


WRAPPERS = ["jit.script", "jit.ignore", "jit.unused", "jit.export", "compile", "compiler.disable", "fx.wrap"]


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_return_what_they_are_given(name):
    assert port_expression(f"torch.{name}(f)", {})[0] == "f"
