"""What torch.nn and its Module have and ours lack, why, and what to use: the text of the AttributeErrors."""

__all__ = ["ABSENT", "METHODS"]

_QUANTIZED = "funcnet.nn describes floating-point layers alone. Use the plain layer, and quantize its arrays yourself."
_LAZY = "A description holds no arrays, so every leaf is uninitialized. Use nn.Parameter and nn.Buffer with shape None."

ABSENT: dict[str, str] = {
    "Container": "It is an old name in torch. Use nn.Module.",
    "DataParallel": "A step runs over devices, not a module. Use funcnet.parallel.parallelize.",
    "parallel": "A step runs over devices, not a module. Use funcnet.parallel.",
    "UninitializedParameter": _LAZY,
    "UninitializedBuffer": _LAZY,
    "factory_kwargs": "There are no devices to pass on. Use the argument dtype of each layer.",
    "common_types": "It names types for TorchScript. Use tuple or int.",
    "modules": "The classes are in funcnet.nn itself. Use funcnet.nn.Linear or whichever it is.",
    "grad": "JAX differentiates functions. Use jax.vjp of F.conv2d or whatever it is.",
    "intrinsic": _QUANTIZED,
    "qat": _QUANTIZED,
    "quantizable": _QUANTIZED,
    "quantized": _QUANTIZED,
}

_MODE = "The mode is an argument. Use net.apply(…, training=True), or a dict from name patterns to booleans{}."
_PLACE = "A description holds no arrays. Use jax.device_put(params, device)."
_DTYPE = "A description holds no arrays. Use tree.cast(params, jnp.{})."
_HOOK = "Hooks are an argument. Use hooks = nn.Hooks(), hooks.{}(pattern, fn) and net.apply(…, hooks=hooks)."
_STATE = "Only a class that has an extra state defines it. Define get_extra_state and set_extra_state."
_CLASS = "It is an inner switch of torch's. Leave it out."

METHODS: dict[str, str] = {
    "train": _MODE.format(""),
    "eval": _MODE.format("; eval is the default"),
    "zero_grad": "jax.grad gives gradients and keeps none. Leave it out.",
    "compile": "JAX compiles functions. Use jax.jit(net.apply).",
    "share_memory": "Arrays do not change, so nothing is shared by writing. Leave it out.",
    **dict.fromkeys(("to", "cpu", "cuda", "ipu", "xpu", "mtia"), _PLACE + " For a dtype: tree.cast(params, dtype)."),
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
