"""New tensors from numbers, from arrays, and with the shape of another tensor."""

from funcnet.porting.rule_engine.rule import rule

__all__ = ["ROWS"]

_UNDEFINED = "Zeros. In torch, the numbers are undefined."
_INTEGERS = "Integers have 32 bits, if JAX does not have 64."

_DATA = (
    rule("torch.tensor(data, *, dtype=None)", "jnp.array(data, dtype)"),
    rule("torch.as_tensor(data, dtype=None)", "jnp.asarray(data, dtype)"),
    rule("torch.asarray(obj, *, dtype=None)", "jnp.asarray(obj, dtype)"),
    rule("torch.from_numpy(ndarray)", "jnp.asarray(ndarray)"),
    rule("torch.from_dlpack(ext_tensor)", "jnp.from_dlpack(ext_tensor)"),
    rule("torch.frombuffer(buffer, *, dtype, count=-1, offset=0)", "jnp.frombuffer(buffer, dtype, count, offset)"),
    rule("torch.scalar_tensor(s)", "jnp.asarray(s, float)"),
    rule("torch.scalar_tensor(s, *, dtype)", "jnp.asarray(s, dtype)"),
    rule("Tensor.new_tensor(input, data)", "jnp.array(data, input.dtype)"),
    rule("Tensor.new_tensor(input, data, *, dtype)", "jnp.array(data, dtype)", when="input.is_given"),
)

# {torch's old constructor: dtype of the tensor that it makes}
_CLASSES = {
    "FloatTensor": "jnp.float32", "DoubleTensor": "jnp.float64", "HalfTensor": "jnp.float16",
    "BFloat16Tensor": "jnp.bfloat16", "LongTensor": "jnp.int32", "IntTensor": "jnp.int32", "ShortTensor": "jnp.int16",
    "CharTensor": "jnp.int8", "ByteTensor": "jnp.uint8", "BoolTensor": "bool",
}  # fmt: skip

_OLD = tuple(
    row
    for name, dtype in {
        "Tensor": "jnp.float32",
        **_CLASSES,
        **{f"cuda.{name}": dtype for name, dtype in _CLASSES.items()},
    }.items()
    for row in (
        rule(f"torch.{name}(data)", f"jnp.zeros(data, {dtype})", when="data.is_only('int')", kind="semantic",
             note=_UNDEFINED),
        rule(f"torch.{name}(data)", f"jnp.array(data, {dtype})", kind="semantic",
             note="A torch.Size or an integer as its argument is a shape."),
        rule(f"torch.{name}(*shape)", f"jnp.zeros(shape, {dtype})", when="shape.given != ()", kind="semantic",
             note=_UNDEFINED),
        rule(f"torch.{name}(*shape)", f"jnp.zeros(0, {dtype})", when="shape.given == ()"),
        rule(f"torch.{name}", "jax.Array"),
    )
)  # fmt: skip

_FILLED = (
    *(
        row
        for name, ours, note in (("zeros", "zeros", ""), ("ones", "ones", ""), ("empty", "zeros", _UNDEFINED))
        for kind in ("semantic" if note else "rename",)
        for row in (
            rule(f"torch.{name}(*shape, dtype=None)", f"jnp.{ours}(shape, dtype)", kind=kind, note=note),
            rule(f"torch.{name}_like(input, *, dtype=None)", f"jnp.{ours}_like(input, dtype)", kind=kind, note=note),
            rule(f"Tensor.new_{name}(input, *shape)", f"jnp.{ours}(shape, input.dtype)", kind=kind, note=note),
            rule(f"Tensor.new_{name}(input, *shape, dtype)", f"jnp.{ours}(shape, dtype)", when="input.is_given",
                 kind=kind, note=note),
        )
    ),
    rule("torch.full(shape, fill_value, *, dtype=None)", "jnp.full(shape, fill_value, dtype)"),
    rule("torch.full_like(input, fill_value, *, dtype=None)", "jnp.full_like(input, fill_value, dtype)"),
    rule("Tensor.new_full(input, shape, fill_value)", "jnp.full(shape, fill_value, input.dtype)"),
    rule("Tensor.new_full(input, shape, fill_value, *, dtype)", "jnp.full(shape, fill_value, dtype)",
         when="input.is_given"),
    *(
        rule(f"torch.{name}(shape, {order}, *, dtype=None)", "jnp.zeros(shape, dtype)", when=f"{order}.is_given",
             kind="semantic", note=f"{_UNDEFINED} Arrays have no strides.")
        for name, order in (("empty_strided", "stride"), ("empty_permuted", "physical_layout"))
    ),
    rule("Tensor.new_empty_strided(input, shape, stride)", "jnp.zeros(shape, input.dtype)", when="stride.is_given",
         kind="semantic", note=f"{_UNDEFINED} Arrays have no strides."),
    rule("Tensor.new_empty_strided(input, shape, stride, *, dtype)", "jnp.zeros(shape, dtype)",
         when="input.is_given and stride.is_given", kind="semantic", note=f"{_UNDEFINED} Arrays have no strides."),
    rule("Tensor.new(input)", "jnp.zeros(0, input.dtype)"),
    rule("Tensor.new(input, data)", "jnp.zeros(data, input.dtype)", when="data.is_only('int')", kind="semantic",
         note=_UNDEFINED),
    rule("Tensor.new(input, data)", "jnp.array(data, input.dtype)", kind="semantic",
         note="A torch.Size or an integer as its argument is a shape."),
    rule("Tensor.new(input, *shape)", "jnp.zeros(shape, input.dtype)", kind="semantic", note=_UNDEFINED),
    rule("torch.fill(input, value)", "jnp.full_like(input, value)"),
    rule("Tensor.fill_(input, value)", "jnp.full_like(input, value)"),
    rule("torch.fill_(input, value)", "jnp.full_like(input, value)"),
    rule("Tensor.zero_(input)", "jnp.zeros_like(input)"),
    rule("torch.zero_(input)", "jnp.zeros_like(input)"),
    rule("Tensor.copy_(input, src)", "jnp.broadcast_to(src, input.shape).astype(input.dtype)"),
)  # fmt: skip

_SEQUENCES = (
    rule("torch.arange(end, *, dtype=None)", "jnp.arange(end, dtype=dtype)", note=_INTEGERS),
    rule("torch.arange(start, end, *, dtype=None)", "jnp.arange(start, end, dtype=dtype)", note=_INTEGERS),
    rule("torch.arange(start, end, step, *, dtype=None)", "jnp.arange(start, end, step, dtype=dtype)", note=_INTEGERS),
    rule("torch.arange(end, start=0, step=1, *, dtype=None)", "jnp.arange(start, end, step, dtype=dtype)",
         note=_INTEGERS),
    rule("torch.range(start, end, step=1, *, dtype=None)", kind="register",
         note="Write jnp.arange. torch.range includes the end."),
    rule("torch.linspace(start, end, steps, *, dtype=None)", "jnp.linspace(start, end, steps, dtype=dtype)"),
    rule("torch.logspace(start, end, steps, base=10.0, *, dtype=None)",
         "jnp.logspace(start, end, steps, base=base, dtype=dtype)"),
    rule("torch.eye(n, m=None, *, dtype=None)", "jnp.eye(n, m, dtype=dtype)"),
    *(
        row
        for name in ("tril_indices", "triu_indices")
        for row in (
            rule(f"torch.{name}(row, col, offset=0)", f"jnp.stack(jnp.{name}(row, offset, col))", kind="semantic"),
            rule(f"torch.{name}(row, col, offset=0, *, dtype)",
                 f"jnp.stack(jnp.{name}(row, offset, col)).astype(dtype)", kind="semantic"),
        )
    ),
)  # fmt: skip

ROWS = (*_DATA, *_OLD, *_FILLED, *_SEQUENCES)
