"""`op_db`: the functions of torch.nn.functional, every sample, value and gradient."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

import funcnet.random
from funcnet import functional as F
from tests.database import convert
from tests.database.differences import Mismatch
from tests.database.modules import Result, Run, cotangent, differences, joined, split, torch_gradients

PREFIX = "nn.functional."
OTHERS = ("softmax", "log_softmax", "sigmoid", "tanh")
FUNCTIONS = {
    "/".join(filter(None, (op.name.removeprefix(PREFIX), op.variant_test_name))): op
    for op in op_db
    if op.name.startswith(PREFIX) or op.name in OTHERS
}

# torch changes these arguments in place; here their new values come back behind the output.
IN_PLACE = {
    "batch_norm": ("running_mean", "running_var"),
    "instance_norm": ("running_mean", "running_var"),
}
SWAPPED = ("embedding", "embedding_bag")  # the database gives the table first, for it differentiates by its first
ATTENTION = ("scaled_dot_product_attention", "multi_head_attention_forward")
DROPOUTS = ("dropout", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")


def samples_of(name: str, dtype: torch.dtype) -> list[Any]:
    """The database's samples as (args, kwargs), the same ones at each call."""
    op = FUNCTIONS[name]
    there = op.supported_dtypes("cpu")
    if there and dtype not in there:
        complex_one = {torch.float32: torch.complex64, torch.float64: torch.complex128}[dtype]
        dtype = complex_one if complex_one in there else torch.int64
    torch.manual_seed(0)
    differentiable = op.supports_autograd and dtype is not torch.int64
    return [
        ((sample.input, *sample.args), dict(sample.kwargs) | drawn_before(name, sample.input))
        for sample in op.sample_inputs("cpu", dtype, requires_grad=differentiable)
    ]


def drawn_before(name: str, input: Any) -> dict[str, Any]:
    """The random numbers that a function takes as an argument."""
    if not name.startswith("fractional_max_pool"):
        return {}
    ndim = int(name[-2])
    batch = input.shape[0] if input.ndim == ndim + 2 else 1
    return {"_random_samples": torch.rand(batch, input.shape[-ndim - 1], ndim, dtype=input.dtype)}


def run(name: str, dtype: str, limit: int | None = None) -> Result:
    """All samples of a function in `dtype` ('float32' or 'float64')."""
    worst, count, failures = 0.0, 0, []
    with jax.enable_x64(dtype == "float64"):
        for number, sample in enumerate(samples_of(name, getattr(torch, dtype))[:limit]):
            count += 1
            try:
                worst = max(worst, one(name, sample, dtype))
            except Exception as error:
                text = str(error) if isinstance(error, Mismatch) else f"{type(error).__name__}: {error}"
                shown = convert.walk(sample, lambda v: tuple(v.shape) if isinstance(v, torch.Tensor) else v)
                failures.append(f"{name} {dtype} sample {number} {shown}: {text[:600]}"[:1000])
    return Result(name, count, worst, tuple(failures))


def one(name: str, sample: Any, dtype: str) -> float:
    """One sample: the largest difference, or Mismatch."""
    base = name.split("/")[0]
    theirs, function = FUNCTIONS[name].op, getattr(F, base)
    if base in SWAPPED:
        theirs, ((table, ids, *args), kwargs) = getattr(torch.nn.functional, base), sample
        sample = ((ids, table, *args), kwargs)
    changed = IN_PLACE.get(base, ())
    narrow = torch_run(theirs, sample, getattr(torch, dtype), changed)
    wide = torch_run(theirs, sample, torch.float64, changed)
    with drawn_by_torch(base, narrow, sample):
        ours = our_run(function, sample, narrow.cotangents)
    return differences(dtype, ours, narrow, wide)


@contextmanager
def drawn_by_torch(name: str, run: Run, sample: Any) -> Iterator[None]:
    """Our random numbers are torch's own, read off its results: what dropout kept, which slopes rrelu drew."""
    mask, uniform = funcnet.random.dropout_mask, jax.random.uniform

    def torchs_mask(key: Any, shape: Any, rate: float) -> jax.Array:
        kept = run.gradients["input 0"] != 0
        return jnp.asarray(kept[tuple(slice(None, n) for n in shape)])

    def torchs_slopes(key: Any, shape: Any, dtype: Any, lower: float, upper: float) -> jax.Array:
        return jnp.asarray(run.gradients["input 0"] / run.cotangents[0], dtype)

    try:
        if name in DROPOUTS:
            funcnet.random.dropout_mask = torchs_mask
        if name in ATTENTION:
            kept = attended_by_torch(name, sample)
            funcnet.random.dropout_mask = lambda key, shape, rate: jnp.asarray(kept.reshape(shape))
        if name == "rrelu":
            jax.random.uniform = torchs_slopes
        yield
    finally:
        funcnet.random.dropout_mask, jax.random.uniform = mask, uniform


def attended_by_torch(name: str, sample: Any) -> np.ndarray:
    """Which weights of attention are not zero: the same seed drops the same ones, whatever the values are."""
    args, kwargs = convert.fresh(sample)
    if name == "multi_head_attention_forward":
        return convert.array(FUNCTIONS[name].op(*args, **kwargs, average_attn_weights=False)[1]) != 0
    query, key, value = args
    identity = torch.eye(key.shape[-2], dtype=value.dtype).expand(*value.shape[:-2], -1, -1)
    return convert.array(FUNCTIONS[name].op(query, key, identity, **kwargs)) != 0


def torch_run(function: Any, sample: Any, dtype: torch.dtype, changed: tuple[str, ...]) -> Run:
    args, kwargs = widened = convert.fresh(sample, dtype)
    if "dtype" in kwargs and dtype is torch.float64 and kwargs["dtype"].is_floating_point:
        kwargs["dtype"] = dtype
    torch.manual_seed(0)
    outputs = convert.tensors_in(function(*args, **kwargs))
    if changed:
        names = list(inspect.signature(function).parameters)
        bound = {**dict(zip(names, args, strict=False)), **kwargs}
        outputs += [bound[name].detach() for name in changed if bound.get(name) is not None]
    leaves = {f"input {i}": t for i, t in enumerate(convert.tensors_in(widened)) if t.requires_grad}
    random = np.random.default_rng(2)
    cotangents = [random.normal(size=o.shape).astype(np.float32) if o.requires_grad else None for o in outputs]
    gradients = torch_gradients(outputs, leaves, cotangents)
    return Run([convert.array(o) for o in outputs], gradients, {}, cotangents)


def our_run(function: Any, sample: Any, cotangents: list[Any]) -> Run:
    asked = [tensor.requires_grad for tensor in convert.tensors_in(sample)]
    leaves, fixed = split(sample, asked)
    random = {"rng": jax.random.key(0)} if "rng" in inspect.signature(function).parameters else {}

    @jax.jit
    def go(leaves: Any) -> Any:
        def forward(leaves: Any) -> Any:
            args, kwargs = joined(sample, leaves, fixed)
            return jax.tree.leaves(function(*args, **kwargs, **random))

        outputs, pull = jax.vjp(forward, leaves)
        padded = [*cotangents, *[None] * (len(outputs) - len(cotangents))]
        return outputs, pull([cotangent(o, c) for o, c in zip(outputs, padded, strict=True)])[0]

    outputs, gradients = go(leaves)
    # JAX's gradient of a complex number is the conjugate of torch's.
    gradients = {f"input {i}": np.conj(g) if np.iscomplexobj(g) else np.asarray(g) for i, g in gradients.items()}
    return Run([np.asarray(o) for o in outputs], gradients, {}, cotangents)
