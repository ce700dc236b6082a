"""Dtypes, casts, transfers between devices, and conversions to Python values."""

from funcnet.porting.rule_engine.rule import Rule, rule

__all__ = ["ROWS"]

_EAGER = "Under jit, an array has no numbers to read. Keep the array, or compute the number before."
_BITS = "Integers have 32 bits, if JAX does not have 64."
_WIDE = "Without jax_enable_x64, the result is float32."

# {torch's name of a dtype: the dtype in jax.numpy}
_DTYPES = {
    "float": "jnp.float32", "float32": "jnp.float32", "float64": "jnp.float64", "double": "jnp.float64",
    "float16": "jnp.float16", "half": "jnp.float16", "bfloat16": "jnp.bfloat16", "int": "jnp.int32",
    "int32": "jnp.int32", "int64": "jnp.int32", "long": "jnp.int32", "int16": "jnp.int16", "short": "jnp.int16",
    "int8": "jnp.int8", "uint8": "jnp.uint8", "uint16": "jnp.uint16", "uint32": "jnp.uint32", "uint64": "jnp.uint32",
    "bool": "bool", "complex64": "jnp.complex64", "cfloat": "jnp.complex64", "complex128": "jnp.complex128",
    "cdouble": "jnp.complex128", "float8_e4m3fn": "jnp.float8_e4m3fn", "float8_e5m2": "jnp.float8_e5m2",
    "float8_e4m3fnuz": "jnp.float8_e4m3fnuz", "float8_e5m2fnuz": "jnp.float8_e5m2fnuz",
}  # fmt: skip

# {method that casts: the dtype of its result}
_CASTS = {
    "float": "jnp.float32", "double": "jnp.float64", "half": "jnp.float16", "bfloat16": "jnp.bfloat16",
    "long": "jnp.int32", "int": "jnp.int32", "short": "jnp.int16", "char": "jnp.int8", "byte": "jnp.uint8",
    "bool": "bool", "cfloat": "jnp.complex64", "cdouble": "jnp.complex128",
}  # fmt: skip

# {"Long": the dtype of torch.LongTensor}, for `x.type(torch.LongTensor)` and similar calls
_TYPES = {
    "Float": "jnp.float32", "Double": "jnp.float64", "Half": "jnp.float16", "BFloat16": "jnp.bfloat16",
    "Long": "jnp.int32", "Int": "jnp.int32", "Short": "jnp.int16", "Char": "jnp.int8", "Byte": "jnp.uint8",
    "Bool": "bool",
}  # fmt: skip


def _note(dtype: str) -> str:
    """Return a note about a dtype that has fewer bits in JAX than in torch, or "" for any other dtype."""
    wide = dtype in ("jnp.float64", "jnp.complex128")
    return _BITS if dtype in ("jnp.int32", "jnp.uint32") else _WIDE if wide else ""


def _constant(signature: str, value: str, result: str, note: str = "") -> tuple[Rule, ...]:
    """Return the rules for an attribute or function of tensors that is the same for every array, such as `is_cuda`."""
    return rule(signature, value, when="input.is_given", result=result, note=note)


_PAIR = "Tensor.to(input, device, dtype, non_blocking=False, copy=False)"
_TARGET = "Tensor.to(input, target, non_blocking=False, copy=False)"
_TO = (
    rule("Tensor.to(input, *, dtype)", "input.astype(dtype)", when="'none' not in dtype.kinds"),
    rule("Tensor.to(input, *, dtype)", "input if dtype is None else input.astype(dtype)"),
    rule("Tensor.to(input, *, device)", "input", note="An array stays where the params are."),
    rule("Tensor.to(input, *, tensor)", "input.astype(tensor.dtype)"),
    rule(_PAIR, "input.astype(dtype)", when="not {'none', 'bool'} & dtype.kinds"),
    rule(_PAIR, "input if dtype is None else input.astype(dtype)", when="'none' in dtype.kinds"),
    rule(_TARGET, "input.astype(target)", when="target.kinds == {'dtype'}"),
    rule(_TARGET, "input.astype(target.dtype)", when="target.kinds and not target.kinds - {'tensor', 'parameter'}"),
    rule(_TARGET, "input", when="target.kinds and not target.kinds - {'device', 'str', 'int', 'none'}"),
    rule(_TARGET, "tl.to(input, target)"),
    rule("Tensor.to(input)", "input"),
)  # fmt: skip

_TYPE = (
    rule("Tensor.type(input)", kind="register", note="Compare x.dtype with a dtype, such as jnp.float32."),
    *(
        rule("Tensor.type(input, dtype)", f"input.astype({ours})",
             when=f"{{'torch.{name}Tensor', 'torch.cuda.{name}Tensor'}} & {{dtype.value, dtype.name}}")
        for name, ours in _TYPES.items()
    ),
    rule("Tensor.type(input, dtype)", "input.astype(dtype)", when="dtype.is_only('dtype')"),
    rule("Tensor.type_as(input, other)", "input.astype(other.dtype)"),
)  # fmt: skip

_VALUES = (
    rule("Tensor.item(input)", "input.item()", level="eager only", note=_EAGER, result="float"),
    rule("Tensor.tolist(input)", "input.tolist()", level="eager only", note=_EAGER, result="list"),
    rule("Tensor.numpy(input, *, force=False)", "np.asarray(input)", level="eager only", note=_EAGER, result="array"),
    rule("Tensor.__array__(input)", "np.asarray(input)", level="eager only", note=_EAGER, result="array"),
)

_MOVES = (
    rule("Tensor.cpu(input)", "input", note="An array stays where the params are."),
    rule("Tensor.pin_memory(input)", "input", note="An array stays where the params are."),
    rule("Tensor.cuda(input, device=None)", "input", note="An array stays where the params are."),
    rule("both.clone(input)", "input", note="Nothing changes an array, so nothing needs a copy."),
    rule("Tensor.contiguous(input)", "input", note="Arrays have no strides."),
    rule("both.detach(input)", "jax.lax.stop_gradient(input)"),
    rule("torch.detach_copy(input)", "jax.lax.stop_gradient(input)"),
    rule("Tensor.data", "jax.lax.stop_gradient(input)"),
    rule("Tensor.requires_grad_(input)", "input", note="argnums of jax.grad says which arrays get gradients."),
    rule("Tensor.share_memory_(input)", "input"),
    _constant("Tensor.retain_grad(input)", "None", "none", "jax.grad returns gradients of its arguments only."),
    rule("Tensor.record_stream(input, stream)", "None", when="input.is_given and stream.is_given", result="none"),
    rule("Tensor.backward(input)", kind="register", note="Write jax.grad of a function of the params."),
    rule("Tensor.register_hook(input, hook)", kind="register",
         note="Write a function with jax.custom_vjp, or use nn.Hooks."),
    rule("Tensor.grad", kind="register", note="jax.grad returns the gradients."),
    rule("Tensor.grad_fn", kind="register", note="jax.grad returns the gradients."),
    rule("Tensor.requires_grad", kind="register",
         note="An array does not know whether it is differentiated. Pass a flag, or leave the branch out."),
    rule("Tensor.is_leaf", kind="register", note="An array does not know how it was computed."),
)  # fmt: skip

_ATTRIBUTES = (
    rule("both.is_floating_point(input)", "jnp.issubdtype(input.dtype, jnp.floating)", result="bool"),
    rule("both.is_signed(input)", "not jnp.issubdtype(input.dtype, jnp.unsignedinteger) and input.dtype != bool",
         result="bool"),
    rule("torch.is_tensor(obj)", "isinstance(obj, jax.Array)", result="bool"),
    rule("torch.is_storage(obj)", "False", when="obj.is_given", result="bool"),
    *(_constant(f"both.{name}(input)", "False", "bool") for name in ("is_conj", "is_neg", "is_inference")),
    _constant("Tensor.get_device(input)", "-1", "int"),
    rule("Tensor.element_size(input)", "input.dtype.itemsize", result="int"),
    rule("Tensor.itemsize", "input.dtype.itemsize", result="int"),
    rule("Tensor.nbytes", "input.nbytes", result="int"),
    _constant("Tensor.device", "None", "none", "Under jit, an array has no device. Arrays stay where the params are."),
    _constant("Tensor.layout", "None", "none", "XLA chooses layouts."),
    _constant("Tensor.is_cpu", "True", "bool"),
    *(
        _constant(f"Tensor.{name}", "False", "bool")
        for name in ("is_cuda", "is_sparse", "is_sparse_csr", "is_quantized", "is_meta", "is_mps", "is_xla", "is_xpu",
                     "is_nested", "is_mkldnn", "is_vulkan", "is_ipu")
    ),
)  # fmt: skip

_OF_DTYPES = (
    *(rule(f"torch.{name}", ours, result="dtype", note=_note(ours)) for name, ours in _DTYPES.items()),
    rule("torch.dtype", "jnp.dtype"),
    rule("torch.get_default_dtype()", "jnp.result_type(float)", result="dtype"),
    rule("torch.set_default_dtype(d)", kind="register", note="Pass dtype= to nn.init, or use tree.cast."),
    rule("torch.set_default_tensor_type(t)", kind="register", note="Pass dtype= to nn.init, or use tree.cast."),
    # An attribute of jnp.finfo is a NumPy scalar, which has a dtype. In torch, it is a Python number.
    *(
        rule(f"finfo.{name}", f"float(input.{name})", kind="semantic", result="float")
        for name in ("eps", "max", "min", "resolution", "smallest_normal", "tiny")
    ),
    rule("dtype.is_floating_point", "jnp.issubdtype(input, jnp.floating)", result="bool"),
    rule("dtype.is_complex", "jnp.issubdtype(input, jnp.complexfloating)", result="bool"),
    rule("dtype.itemsize", "jnp.dtype(input).itemsize", result="int"),
    rule("torch.finfo(type)", "jnp.finfo(type)", result="other"),
    rule("torch.finfo()", "jnp.finfo(jnp.float32)", result="other"),
    rule("torch.iinfo(type)", "jnp.iinfo(type)", result="other"),
    rule("torch.promote_types(type1, type2)", "jnp.promote_types(type1, type2)", result="dtype"),
    rule("torch.result_type(tensor1, tensor2)", "jnp.result_type(tensor1, tensor2)", result="dtype"),
)

ROWS = (
    *(
        rule(f"Tensor.{name}(input)", f"input.astype({ours})", note=_note(ours))
        for name, ours in _CASTS.items()
    ),
    *(
        rule(f"torch._cast_{name}(input, non_blocking=False)", f"input.astype({ours})", note=_note(ours))
        for name, ours in _TYPES.items()
        if name not in ("BFloat16", "Bool")
    ),
    rule("Tensor.chalf(input)", kind="register", note="JAX has no complex numbers of two float16."),
    *_TO, *_TYPE, *_VALUES, *_MOVES, *_ATTRIBUTES, *_OF_DTYPES,
)  # fmt: skip
