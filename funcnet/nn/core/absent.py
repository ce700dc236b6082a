"""The names in torch.nn and its Module that this package lacks, with the texts of the AttributeErrors for them.

Each text says why the name is absent and what to use instead. If a forward calls a tensor method that JAX's arrays
lack, JAX raises the error, and `advice.py` adds what to write instead.
"""

__all__ = ["ABSENT", "METHODS"]

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
