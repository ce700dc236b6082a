"""The names that torch.nn and its Module have and this package lacks, with the text of their AttributeErrors.

Each text says why the name is absent and what to use instead. For torch's spelling of operations on arrays, JAX raises
the error, and `porting_note` names the page that says what to write.
"""

import re

import jax
import jax.numpy as jnp

__all__ = ["ABSENT", "METHODS", "PORTING", "porting_note"]

_QUANTIZED = "funcnet.nn has only floating-point layers. Use the plain layer, and quantize its arrays yourself."
_LAZY = "A description holds no arrays, so every leaf is uninitialized. Use nn.Parameter or nn.Buffer with shape None."

_NO_GRAD = (
    "A context cannot see which jax.numpy functions run in it. Use h = jax.lax.stop_gradient(self.teacher(x)), or "
    "leave it out where nothing is differentiated."
)

ABSENT: dict[str, str] = {
    "Container": "Container is an old name in torch. Use nn.Module.",
    "DataParallel": "Training steps run on several devices, modules do not. Use funcnet.parallel.parallelize.",
    "parallel": "Training steps run on several devices, modules do not. Use funcnet.parallel.",
    "UninitializedParameter": _LAZY,
    "UninitializedBuffer": _LAZY,
    "factory_kwargs": "Layers take no device. Use the argument dtype of each layer.",
    "common_types": "It contains type aliases for TorchScript. Use tuple or int.",
    "modules": "The classes are in funcnet.nn itself. Use, for example, funcnet.nn.Linear.",
    "grad": "JAX differentiates functions. Use, for example, jax.vjp of F.conv2d.",
    "intrinsic": _QUANTIZED,
    **dict.fromkeys(("no_grad", "inference_mode"), _NO_GRAD),
    "qat": _QUANTIZED,
    "quantizable": _QUANTIZED,
    "quantized": _QUANTIZED,
}

_MODE = "The mode is an argument of apply.{} Use net.apply(…, training=True), or a dict {{name pattern: bool}}."
_PLACE = "A description holds no arrays. Use jax.device_put(params, device)."
_DTYPE = "A description holds no arrays. Use tree.cast(params, jnp.{})."
_HOOK = "Hooks are an argument of apply. Use hooks = nn.Hooks(), hooks.{}(pattern, fn) and net.apply(…, hooks=hooks)."
_STATE = "Only classes with extra state have this method. Define get_extra_state and set_extra_state."
_CLASS = "It is an internal setting of torch. Leave it out."

METHODS: dict[str, str] = {
    "train": _MODE.format(""),
    "eval": _MODE.format(" The default is eval."),
    "zero_grad": "jax.grad returns gradients and accumulates none. Leave the call out.",
    "compile": "JAX compiles functions. Use jax.jit(net.apply).",
    "share_memory": "Arrays are immutable, so processes cannot share changes to them. Leave the call out.",
    **dict.fromkeys(
        ("to", "cpu", "cuda", "ipu", "xpu", "mtia"), _PLACE + " To change the dtype, use tree.cast(params, dtype)."
    ),
    "to_empty": _PLACE,
    "type": _DTYPE.format("float16"),
    "half": _DTYPE.format("float16"),
    "float": _DTYPE.format("float32"),
    "double": _DTYPE.format("float64"),
    "bfloat16": _DTYPE.format("bfloat16"),
    **{
        name: _HOOK.format(name)
        for kind in ("forward", "full_backward")
        for name in (f"register_{kind}_pre_hook", f"register_{kind}_hook")
    },
    "register_backward_hook": _HOOK.format("register_full_backward_hook"),
    "get_extra_state": _STATE,
    "set_extra_state": _STATE,
    "T_destination": _CLASS,
    "call_super_init": _CLASS,
    "dump_patches": _CLASS,
}

PORTING = "docs/porting.md lists what to write in place of torch's methods and functions."

# What JAX and torch say when an array is used as a tensor, as in the comments.
_SPELLINGS = re.compile(
    r"unexpected keyword argument '(dim|dims|dim0|keepdim|unbiased|memory_format|non_blocking)'"  # x.sum(dim=1)
    r"|'int' object is not callable"  # x.size(0)
    r"|argument of array\.view\(\) is not supported"  # x.view(2, -1)
    r"|The 'out' argument to jnp"  # x.max(1, True)
    r"|Cannot interpret '[^']*' as a data type"  # x.sum(1, True), jnp.zeros(2, 3)
    r"|permutation isn't a permutation"  # x.transpose(1, 2)
    r"|Unexpected value for 'order' argument"  # x.flatten(1)
    r"|_(repeat|argsort|sort)\(\) takes from"  # x.repeat(2, 1, 1)
    r"|cannot select an axis to squeeze out"  # x.squeeze(1)
    r"|JAX arrays are immutable|object does not support item assignment"  # x[0] = 1
    r"|array split does not result in an equal division"  # jnp.split(x, 3)
    r"|(must be|expected) Tensor.*(not|got) [\w.]*(Array|Tracer)"  # torch.exp(x), torch.cat([x, x])
)


def porting_note(error: Exception) -> str | None:
    """Return `PORTING` if the error seems to come from torch's spelling on an array, such as `x.permute(1, 0)`."""
    if isinstance(error, AttributeError):
        return PORTING if isinstance(error.obj, jax.Array) or error.obj is jnp else None
    return PORTING if _SPELLINGS.search(str(error)) else None
