"""The names that torch.nn and its Module have and this package lacks, with the text of their AttributeErrors.

Each text says why the name is absent and what to use instead. For torch's spelling of array operations, JAX raises the
error, and `advice.py` adds what to write instead.
"""

__all__ = ["ABSENT", "METHODS"]

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
