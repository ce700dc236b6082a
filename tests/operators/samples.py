"""Ten operators of different kinds, with arguments, and the same functions in plain JAX.

Letters: `B rows, D features, E output features, V words`.
"""

import ctypes
import dataclasses
import functools
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from funcnet import operators

__all__ = ["SAMPLES", "Sample"]

DRAW = np.random.default_rng(0)


@dataclasses.dataclass(frozen=True)
class Sample:
    """An operator of the arrays `arrays`, and the function in plain JAX that has the same results and derivatives.

    Attributes:
        call: calls the operator.
        plain: the function.
        arrays: arguments with B rows first; those that are not mapped have no such dimension.
        axes: the axis that `vmap` and devices divide, for each array.
        real: the numbers of the arrays that have derivatives.
    """

    call: Callable[..., Any]
    plain: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    axes: tuple[int | None, ...]
    real: tuple[int, ...]


def normal(*shape: int) -> np.ndarray:
    return DRAW.normal(size=shape).astype(np.float32)


def _leaky() -> Sample:
    one = operators.define("test::leaky_relu(Tensor self, float slope=0.01) -> Tensor", dims="... -> ...")
    plain = one.reference(lambda self, slope: jnp.where(self > 0, self, slope * self))
    one.derivative(self="where(self > 0, grad, slope * grad)")
    return Sample(lambda x: one(x, 0.3), lambda x: plain(x, 0.3), (normal(8, 4),), (0,), (0,))


def _layer_norm() -> Sample:
    one = operators.define("test::norm(Tensor x, Tensor weight, *, float eps=1e-5) -> Tensor", dims="... d, d -> ... d")

    @one.reference
    def plain(x: Any, weight: Any, eps: float = 1e-5) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + eps) * weight

    def gradient(grad: Any, x: Any, weight: Any, eps: float) -> Any:
        spread = jnp.sqrt(((x - x.mean(-1, keepdims=True)) ** 2).mean(-1, keepdims=True) + eps)
        unit, grad = (x - x.mean(-1, keepdims=True)) / spread, grad * weight
        return (grad - grad.mean(-1, keepdims=True) - unit * (grad * unit).mean(-1, keepdims=True)) / spread

    def of_weight(grad: Any, result: Any, weight: Any) -> Any:
        return (grad * result / weight).reshape(-1, weight.shape[-1]).sum(0)

    one.derivative(x=gradient, weight=of_weight)
    return Sample(one, plain, (normal(8, 3, 6), normal(6) + 3), (0, None), (0, 1))


def _softmax() -> Sample:
    one = operators.define("test::softmax(Tensor self) -> Tensor", dims="... d -> ... d")
    plain = one.reference(lambda self: jax.nn.softmax(self, axis=-1))
    one.derivative(self="result * (grad - (grad * result).sum(-1, keepdims=True))")
    return Sample(one, plain, (normal(8, 5),), (0,), (0,))


def _linear() -> Sample:
    one = operators.define(
        "test::linear(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor", "... d, e d, e -> ... e"
    )

    @one.reference
    def plain(x: Any, weight: Any, bias: Any = None) -> Any:
        found = jnp.matmul(x, weight.T, precision="highest")
        return found if bias is None else found + bias

    one.derivative(
        x="matmul(grad, weight, precision='highest')",
        weight="matmul(grad.reshape(-1, weight.shape[0]).T, x.reshape(-1, weight.shape[1]), precision='highest')",
        bias="grad.reshape(-1, bias.shape[0]).sum(0)",
    )
    return Sample(one, plain, (normal(8, 4), normal(3, 4), normal(3)), (0, None, None), (0, 1, 2))


def _product() -> Sample:
    one = operators.define("test::mul(Tensor self, Tensor other) -> Tensor", dims="..., ... -> ...")
    plain = one.reference(lambda self, other: self * other)
    one.derivative(self="grad * other", other="grad * self")
    return Sample(one, plain, (normal(8, 4), normal(8, 4)), (0, 0), (0, 1))


def _moments() -> Sample:
    one = operators.define("test::var_mean(Tensor self) -> (Tensor var, Tensor mean)", dims="... d -> ..., ...")
    plain = one.reference(lambda self: (self.var(-1), self.mean(-1)))
    one.derivative(
        self="(expand_dims(grads[0], -1) * 2 * (self - expand_dims(results[1], -1)) + expand_dims(grads[1], -1))"
        " / self.shape[-1]"
    )
    return Sample(one, plain, (normal(8, 5),), (0,), (0,))


def _lookup() -> Sample:
    one = operators.define("test::lookup(Tensor ids, Tensor table) -> Tensor", dims="..., v d -> ... d")
    plain = one.reference(lambda ids, table: jnp.take(table, ids, axis=0))

    def of_table(grad: Any, ids: Any, table: Any) -> Any:
        return jnp.zeros_like(table).at[ids].add(grad)

    one.derivative(table=of_table)
    ids = DRAW.integers(0, 5, (8, 3)).astype(np.int32)
    return Sample(one, plain, (ids, normal(5, 4)), (0, None), (1,))


def _joined() -> Sample:
    one = operators.define("test::stack_sum(Tensor[] parts, int[] factors) -> Tensor")
    plain = one.reference(lambda parts, factors: sum(n * part for n, part in zip(factors, parts, strict=True)))
    one.derivative(parts=lambda grad, factors: [factor * grad for factor in factors])
    call = lambda *parts: one(parts, [2, 3])
    return Sample(call, lambda *parts: plain(parts, [2, 3]), (normal(8, 4), normal(8, 4)), (0, 0), (0, 1))


SOURCE = r"""
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error Scale(
    ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::F32> w, double factor, ffi::ResultBuffer<ffi::F32> y) {
  const int64_t size = x.element_count(), width = w.element_count();
  for (int64_t i = 0; i < size; ++i)
    y->typed_data()[i] = x.typed_data()[i] * w.typed_data()[i % width] * static_cast<float>(factor);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(scale, Scale, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Arg<ffi::Buffer<ffi::F32>>()
  .Attr<double>("factor").Ret<ffi::Buffer<ffi::F32>>());
"""


@functools.cache
def library() -> ctypes.CDLL:
    """Return the compiled library of `SOURCE`."""
    name = hashlib.sha256(SOURCE.encode()).hexdigest()[:16]
    built = Path(tempfile.gettempdir()) / f"funcnet-operators-{name}.so"
    if not built.exists():
        with tempfile.TemporaryDirectory() as folder:
            source, made = Path(folder) / "scale.cc", Path(folder) / "scale.so"
            source.write_text(SOURCE)
            options = ["-O1", "-std=c++17", "-shared", "-fPIC", f"-I{jax.ffi.include_dir()}", "-w"]
            compiler = [found] if (found := shutil.which("g++")) else [sys.executable, "-m", "ziglang", "c++"]
            subprocess.run([*compiler, *options, str(source), "-o", str(made)], check=True)
            made.replace(built)
    return ctypes.CDLL(str(built))


def _foreign() -> Sample:
    jax.ffi.register_ffi_target("test_scale", jax.ffi.pycapsule(library().scale), platform="cpu")
    schema = "test::scale(Tensor x, Tensor weight, float factor=1.5) -> Tensor"
    one = operators.define(schema, dims="... d, d -> ... d")
    plain = one.reference(lambda x, weight, factor=1.5: x * weight * factor)
    one.impl("cpu", operators.ForeignKernel("test_scale"), dtypes=["float32"])
    one.derivative(x=lambda grad, weight, factor: one(grad, weight, factor),
                   weight="(grad * x * factor).reshape(-1, weight.shape[0]).sum(0)")  # fmt: skip
    return Sample(one, plain, (normal(8, 4), normal(4)), (0, None), (0, 1))


def _pallas() -> Sample:
    one = operators.define("test::pallas_square(Tensor self) -> Tensor", dims="... -> ...")
    plain = one.reference(lambda self: self * self)

    @functools.partial(one.impl, "cpu")
    def kernel(self: Any) -> Any:
        def body(source: Any, target: Any) -> None:
            target[...] = source[...] * source[...]

        return pl.pallas_call(body, out_shape=jax.typeof(self), interpret=True)(self)

    one.derivative(self="2 * self * grad")
    return Sample(one, plain, (normal(8, 4),), (0,), (0,))


@functools.cache
def _made() -> dict[str, Sample]:
    makers = (_leaky, _layer_norm, _softmax, _linear, _product, _moments, _lookup, _joined, _foreign, _pallas)
    return {maker.__name__.strip("_"): maker() for maker in makers}


SAMPLES = _made()
