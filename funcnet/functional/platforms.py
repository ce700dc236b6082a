"""Products of two arrays. Each product has one form (implementation) for CPU and one for all other platforms. JAX
chooses between the two forms when it lowers a program for a platform.

While JAX traces a function, the platform is not known yet. `bilinear` is therefore traced as one operation,
`bilinear_product`, which contains both forms. The derivatives, transposes and batched versions of a `bilinear_product`
are `bilinear_product` operations too. As a result, the program for each platform contains only one form, and a gradient
stores only the arrays `a` and `b`.

`jax.lax.platform_dependent` also chooses the form at lowering, but its gradient stores the residuals of all forms. With
`platform_dependent`, a `scan` over depthwise convolutions carries 43 arrays instead of 6 on every platform, and
exported programs contain a conditional for each choice.
"""

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Primitive
from jax.interpreters import ad, batching, mlir

from funcnet.operators.jaxprs import JaxprEquation
from funcnet.operators.primitives import device_count
from funcnet.operators.varying_axes import vary_like

__all__ = ["KernelProduct", "Product", "batched", "bilinear", "default_program", "form", "transposed"]

Product = Callable[..., jax.Array]


class KernelProduct(Protocol):
    """A product of two arrays that contains calls of kernels, which JAX cannot transpose or batch well. It therefore
    has methods for both. Kernels are compared by value.

    Attributes:
        fallback: the same product without kernels, for exported programs.
    """

    @property
    def fallback(self) -> Product: ...

    def __call__(self, a: jax.Array, b: jax.Array, devices: int = 1) -> jax.Array:
        """Return the product, where `devices` devices may share the arrays."""
        ...

    def transposed(self, index: int, aval: ShapedArray) -> Product:
        """Return the transpose with respect to argument `index`, whose type is `aval`: a function of the other argument
        and the cotangent of the product.
        """
        ...

    def batched(self, axes: tuple[int | None, int | None]) -> Product:
        """Return the product of arrays with an additional axis 0 where `axes` are not None. The result has it too."""
        ...


def bilinear(
    default: Product, cpu: Product, a: jax.Array, b: jax.Array, *settings: Hashable, kernel: KernelProduct | None = None
) -> jax.Array:
    """Return `cpu(a, b, *settings)` on CPU, and `default(a, b, *settings)` on other platforms.

    Args:
        default: a function that is linear in `a` and in `b`. Define this function at the top level of a module, not
            inside a function, because compiled programs are cached by the function's identity.
        cpu: a function that is also linear in `a` and in `b`, and has the same result as `default`. JAX transposes both
            functions for the gradients.
        a, b: floating-point arrays.
        *settings: hashable values, not arrays.
        kernel: what computes `cpu(a, b, *settings)` on CPU instead of `cpu`, if it is given.

    Returns:
        The product. Both functions must return the same shape and dtype.

    Example:
        >>> import jax.numpy as jnp
        >>> print(bilinear(jnp.multiply, jnp.multiply, jnp.arange(3.0), jnp.ones(3)))
        [0. 1. 2.]
    """
    return _bind(a, b, (form(default, *settings), form(cpu, *settings) if kernel is None else kernel))


def default_program(equation: JaxprEquation) -> ClosedJaxpr | None:
    """If `equation` is a `bilinear_product`, return its form for platforms other than CPU, as a traced program.
    Otherwise, return None.

    Example:
        >>> import jax.numpy as jnp
        >>> program = jax.make_jaxpr(lambda a, b: bilinear(jnp.multiply, jnp.add, a, b))(1.0, 2.0)
        >>> [equation.primitive.name for equation in default_program(program.eqns[0]).eqns]
        ['mul']
    """
    if equation.primitive is not _product:
        return None
    return jax.make_jaxpr(equation.params["forms"][0])(*(v.aval for v in equation.invars))


def form(function: Callable[..., jax.Array], *settings: Hashable) -> Product:
    """Return `function` with these settings, as a product of two arrays that is compared by value."""
    return _Form(function, settings)


def transposed(product: Product, index: int, aval: ShapedArray) -> Product:
    """Return the transpose of a product with respect to argument `index`, whose type is `aval`: a function of the other
    argument and the cotangent of the product.
    """
    return product.transposed(index, aval) if hasattr(product, "transposed") else _Transposed(product, index, aval)


def batched(product: Product, axes: tuple[int | None, int | None]) -> Product:
    """Return the product of arrays with these additional axes. The result has the additional axis 0."""
    return product.batched(axes) if hasattr(product, "batched") else _Batched(product, axes)


# Forms are compared by value, because compiled programs are cached by the settings of their operations.


@dataclass(frozen=True)
class _Form:
    function: Product
    settings: tuple[Any, ...]

    def __call__(self, a: jax.Array, b: jax.Array) -> jax.Array:
        return self.function(a, b, *self.settings)


@dataclass(frozen=True)
class _Transposed:
    """The transpose of the product `form` with respect to its argument `index` (0 or 1), whose shape and dtype are
    `aval`. The transpose takes the other argument and the cotangent of the product, and returns the cotangent of
    argument `index`.
    """

    form: Product
    index: int
    aval: Any

    def __call__(self, other: jax.Array, cotangent: jax.Array) -> jax.Array:
        linear = lambda x: self.form(*((x, other) if self.index == 0 else (other, x)))
        return jax.linear_transpose(linear, self.aval)(cotangent)[0]


@dataclass(frozen=True)
class _Batched:
    form: Product
    axes: tuple[int | None, int | None]

    def __call__(self, a: jax.Array, b: jax.Array) -> jax.Array:
        return jax.vmap(self.form, self.axes)(a, b)


def _bind(a: jax.Array, b: jax.Array, forms: tuple[Product, ...]) -> jax.Array:
    return _product.bind(vary_like(a, b), vary_like(b, a), forms=forms)


def _transpose(index: int, cotangent: jax.Array, a: Any, b: Any, *, forms: tuple[Product, ...]) -> jax.Array:
    aval, other = (a.aval, b) if index == 0 else (b.aval, a)
    return _bind(other, cotangent, tuple(transposed(form, index, aval) for form in forms))


def _batch(arrays: Sequence[jax.Array], axes: Any, *, forms: tuple[Product, ...]) -> tuple[jax.Array, int]:
    a, b = arrays
    if hasattr(forms[1], "batched"):  # a kernel
        a, b = (x if axis is None else jax.numpy.moveaxis(x, axis, 0) for x, axis in zip(arrays, axes, strict=True))
        axes = tuple(None if axis is None else 0 for axis in axes)
    return _bind(a, b, tuple(batched(form, axes) for form in forms)), 0


def _run(a: jax.Array, b: jax.Array, *, forms: tuple[Product, ...]) -> jax.Array:
    with jax.disable_jit(False):  # lowering chooses the form, so compile even if jit is disabled
        return _compiled(a, b, forms=forms)


def _lower(
    index: int, context: mlir.LoweringRuleContext, a: mlir.ir.Value, b: mlir.ir.Value, *, forms: tuple[Any, ...]
) -> Any:
    chosen = forms[index]
    if hasattr(chosen, "fallback"):
        if context.module_context.lowering_parameters.for_export:  # a kernel may be missing elsewhere
            chosen = chosen.fallback
        else:
            chosen = functools.partial(chosen, devices=device_count(context))
    return mlir.lower_fun(chosen, multiple_results=False)(context, a, b)


@functools.lru_cache(maxsize=4096)  # a model repeats its shapes: each is traced forward, backward and in every jit
def _result_type(form: Product, a: ShapedArray, b: ShapedArray) -> Any:
    return jax.make_jaxpr(form)(a, b).out_avals[0]


_product = Primitive("bilinear_product")
_compiled = jax.jit(_product.bind, static_argnames="forms")
_product.def_impl(_run)
_product.def_abstract_eval(lambda a, b, *, forms: _result_type(forms[0], a, b))
ad.defbilinear(_product, functools.partial(_transpose, 0), functools.partial(_transpose, 1))
batching.primitive_batchers[_product] = _batch
mlir.register_lowering(_product, functools.partial(_lower, 0))
mlir.register_lowering(_product, functools.partial(_lower, 1), platform="cpu")
