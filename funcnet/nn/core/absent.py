"""The names of torch that are absent here, and what to use instead.

- `ABSENT` and `METHODS`: the names in torch.nn and its Module that this package lacks, with the texts of the
  AttributeErrors for them. Each text says why the name is absent and what to use instead.
- `advice`: what to write in place of a method of torch's tensors that JAX's arrays lack, or that has another meaning in
  JAX. JAX raises the error, and `Call.run` adds the advice to the error as notes.
"""

import re

import jax
import jax.numpy as jnp

__all__ = ["ABSENT", "METHODS", "PORTING", "advice"]

_QUANTIZED = "funcnet.nn has only floating-point layers. Use the plain layer, and funcnet.quantization on the net."
_LAZY = "A description holds no arrays, so every leaf is uninitialized. Use nn.Parameter or nn.Buffer with shape None."

_NO_GRAD = (
    "A context manager cannot turn off gradients in JAX. Use h = jax.lax.stop_gradient(self.teacher(x)). If nothing "
    "is differentiated, you need neither."
)

ABSENT: dict[str, str] = {
    "Container": "Container is an old name in torch. Use nn.Module.",
    "DataParallel": "It is a function here. Use funcnet.parallel.data_parallel, or train.fit to train.",
    "parallel": "Its functions are in funcnet.parallel. They take params and state.",
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
_STATE = "Only classes with extra state have this method. Define get_extra_state and set_extra_state."
_CLASS = "It is an internal setting of torch. Leave it out."

METHODS: dict[str, str] = {
    "train": _MODE.format(""),
    "eval": _MODE.format(" The default is eval."),
    "zero_grad": "jax.grad returns gradients and accumulates none. Leave the call out.",
    "compile": "JAX compiles functions. Use jax.jit(net.apply).",
    "share_memory": "Arrays are immutable, so processes cannot share changes to them. Leave the call out.",
    **dict.fromkeys(("ipu", "xpu", "mtia"), _PLACE),
    "to_empty": _PLACE,
    "type": "A description holds no arrays. Use module.to(dtype) in a constructor, or tree.cast(params, dtype).",
    "register_backward_hook": "Use register_full_backward_hook.",
    "get_extra_state": _STATE,
    "set_extra_state": _STATE,
    "T_destination": _CLASS,
    "call_super_init": _CLASS,
    "dump_patches": _CLASS,
}

_IN_PLACE = "Arrays do not change in place. Assign the result, x = x + y, or use x = x.at[index].set(y)."
_DROP = "Leave the call out."
_METHODS = {
    "permute": "Use x.transpose(0, 2, 1), with all dimensions in their new order.",
    "unsqueeze": "Use jnp.expand_dims(x, axis) or x[:, None].",
    "expand": "Use jnp.broadcast_to(x, shape).",
    "expand_as": "Use jnp.broadcast_to(x, y.shape).",
    "chunk": "Use jnp.split(x, sections, axis).",
    "numel": "Use x.size.",
    "dim": "Use x.ndim.",
    "masked_fill": "Use jnp.where(mask, value, x).",
    "detach": "Use jax.lax.stop_gradient(x).",
    "t": "Use x.T.",
    "type_as": "Use x.astype(y.dtype).",
    "to": "To change the dtype, use x.astype(dtype). To choose a device, use jax.device_put(params, device).",
    "float": "Use x.astype(jnp.float32).",
    "long": "Use x.astype(jnp.int32).",
    "int": "Use x.astype(jnp.int32).",
    "bool": "Use x.astype(bool).",
    "half": "Use x.astype(jnp.float16).",
    "bmm": "Use x @ y.",
    "matmul": "Use x @ y.",
    "softmax": "Use F.softmax(x, dim).",
    "sigmoid": "Use F.sigmoid(x).",
    "tanh": "Use jnp.tanh(x).",
    "relu": "Use F.relu(x).",
    "exp": "Use jnp.exp(x).",
    "log": "Use jnp.log(x).",
    "sqrt": "Use jnp.sqrt(x).",
    "abs": "Use jnp.abs(x).",
    "pow": "Use x**n.",
    "norm": "Use jnp.linalg.norm(x).",
    "data": "Replace the entry in params outside of forward.",
    "grad": "Gradients are returned by jax.grad of a function of params.",
    "backward": "Use jax.grad of a function of params.",
    "requires_grad": "Use jax.lax.stop_gradient(x), or requires_grad_(False) in __init__.",
    "device": "Leave it out. Under jit, an array has no device before it runs.",
    "is_cuda": "Leave it out. Under jit, an array has no device before it runs.",
    "register_hook": "Use a backward hook of nn.Hooks, or jax.custom_vjp around the value.",
    **dict.fromkeys(("contiguous", "clone", "cpu", "cuda", "numpy"), _DROP),
}
_TEXTS = {
    "'int' object is not callable": "An array's x.size and x.ndim are numbers. For torch's x.size(0), use x.shape[0].",
    "as a data type": "An array's x.view(dtype) changes the dtype. For torch's x.view(shape), use x.reshape(shape).",
    "array.view()": "An array's x.view(dtype) changes the dtype. For torch's x.view(shape), use x.reshape(shape).",
    "keyword argument 'dim'": "Methods of arrays have NumPy's names: axis in place of dim.",
    "keyword argument 'keepdim'": "Methods of arrays have NumPy's names: keepdims in place of keepdim.",
    "transpose permutation": "x.transpose takes all dimensions. For torch's x.transpose(1, 2), use x.swapaxes(1, 2).",
    "an axis to squeeze": "If the size is not 1, torch's x.squeeze(1) does nothing, and JAX's fails. Leave it out.",
    "value for 'order'": "x.flatten takes no dimensions. For torch's x.flatten(1), use x.reshape(x.shape[0], -1).",
}


PORTING = "docs/porting.md lists what to write in place of torch's methods and functions."

# The errors of JAX and torch when an array is used like a tensor. The comments show code that raises them.
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


def advice(error: Exception) -> list[str]:
    """Return sentences that say what to write instead of torch's method, and which page lists such replacements.

    If the error was not caused by a missing or different tensor method, return [].

    >>> advice(AttributeError("no add_", name="add_", obj=jax.numpy.ones(2)))[0][:36]
    'Arrays do not change in place. Assig'
    """
    return [sentence for sentence in (_in_place_of(error), _page(error)) if sentence]


def _in_place_of(error: Exception) -> str:
    if isinstance(error, AttributeError):
        if not isinstance(error.obj, jax.Array) or not error.name:
            return ""
        return _IN_PLACE if error.name.endswith("_") else _METHODS.get(error.name, "")
    return next((sentence for text, sentence in _TEXTS.items() if text in str(error)), "")


def _page(error: Exception) -> str:
    if isinstance(error, AttributeError):
        return PORTING if isinstance(error.obj, jax.Array) or error.obj is jnp else ""
    return PORTING if _SPELLINGS.search(str(error)) else ""
