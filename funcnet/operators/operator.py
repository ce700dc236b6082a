"""Operators: declared once by their signature, with a reference, derivatives and implementations for platforms."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from funcnet.operators.binding import bind_arguments
from funcnet.operators.dimensions import Dimensions, parse_dimensions
from funcnet.operators.foreign import Foreign
from funcnet.operators.formulas import Derivative, derivative_of
from funcnet.operators.parsing import parse
from funcnet.operators.primitives import PLATFORMS, Call, primitive
from funcnet.operators.schema import Schema
from funcnet.operators.varying import vary_like

__all__ = ["Implementation", "Operator", "define", "defined"]

Function = Callable[..., Any]
_defined: dict[str, "Operator"] = {}


@dataclass(frozen=True)
class Implementation:
    """An implementation for a platform.

    Attributes:
        function: a function with the operator's arguments that returns an array, or a tuple of several results; or a
            `Foreign`.
        dtypes: names of the dtypes of the first array for which it is used, or None for all.
    """

    function: Function | Foreign
    dtypes: tuple[str, ...] | None


class Operator:
    """An operator. Call it with the arguments of its signature.

    Attributes:
        schema: the signature.
        dims: the dimensions of its arrays, or None.
        implementations: {platform: implementations}.
    """

    def __init__(self, schema: Schema, dims: Dimensions | None):
        self.schema, self.dims = schema, dims
        self.implementations: dict[str, list[Implementation]] = {}
        self.derivatives: dict[str, Derivative] = {}
        self._reference: Function | None = None
        self.primitive = primitive(schema.full_name)

    @property
    def is_mapped(self) -> bool:
        """Whether the arrays have dimensions `...`, which are mapped through."""
        return self.dims is not None and self.dims.is_mapped

    def __repr__(self) -> str:
        return f"<operator {self.schema}>"

    def __call__(self, /, *arguments: Any, **named: Any) -> Any:
        """Return the result, or a tuple of several results.

        Raises:
            TypeError: if an argument is missing or has the wrong type.
            ValueError: if the shapes contradict the dimensions, or the operator has no reference.
        """
        arrays, settings = bind_arguments(self.schema, arguments, named)
        arrays = [vary_like(array, *arrays) for array in arrays]
        found = self.primitive.bind(*arrays, call=Call(self, settings))
        return found[0] if len(self.schema.returns) == 1 else tuple(found)

    def reference(self, function: Function) -> Function:
        """Set the reference, a function in `jax.numpy` with the operator's arguments, and return it.

        The reference determines the shapes, the dtypes and forward-mode derivatives. It runs on all platforms that have
        no implementation.
        """
        self._reference = function
        return function

    def impl(
        self, platform: str, function: Function | Foreign | None = None, dtypes: Sequence[str] | None = None
    ) -> Any:
        """Add an implementation for a platform. The one added last is used. Without `function`, this is a decorator.

        Args:
            platform: "cpu", "cuda", "rocm" or "tpu". The platform is known when JAX lowers a program.
            function: a function in JAX, which may contain a Pallas kernel, or a `Foreign`.
            dtypes: names of the dtypes of the first array for which the implementation is used. The default is all.

        Raises:
            ValueError: if the platform is unknown.
        """
        if platform not in PLATFORMS:
            raise ValueError(
                f"{self.schema.full_name}.impl: unknown platform; expected {', '.join(PLATFORMS)}, got {platform!r}."
            )
        if function is None:
            return lambda function: self.impl(platform, function, dtypes)
        one = Implementation(function, None if dtypes is None else tuple(dtypes))
        self.implementations.setdefault(platform, []).insert(0, one)
        return function

    def derivative(self, /, **formulas: str | Function) -> None:
        """Set the gradients of arguments.

        Args:
            **formulas: for each argument, a formula or a function; see `formulas.py`.

        Raises:
            ValueError: if an argument is unknown or is not a `Tensor`, or a formula is wrong.
        """
        known = [one.name for one in self.schema.arguments if one.type.is_tensor]
        for name, given in formulas.items():
            if name not in known:
                raise ValueError(
                    f"{self.schema.full_name}.derivative: unknown argument; expected {', '.join(known)}, got {name!r}."
                )
            self.derivatives[name] = derivative_of(self.schema, name, given)

    def get_reference(self) -> Function:
        """Return the reference.

        Raises:
            ValueError: if there is none.
        """
        if self._reference is None:
            raise ValueError(
                f"{self.schema.full_name}: the operator has no reference; expected a function in jax.numpy, got none. "
                "Set it with the method `reference`."
            )
        return self._reference

    def implementation(self, platform: str, dtype: Any) -> Function | Foreign:
        """Return what computes the operator on a platform, for a dtype of the first array."""
        for one in self.implementations.get(platform, ()):
            if one.dtypes is None or str(dtype) in one.dtypes:
                return one.function
        return self.get_reference()


def define(schema: str, dims: str | None = None) -> Operator:
    """Declare an operator.

    Args:
        schema: the signature in torch's notation.
        dims: the dimensions of the arrays, such as `"... d, d -> ... d"`; see `dimensions.py`. Without it, `vmap` maps
            the reference, and implementations in other languages are not divided among devices.

    Returns:
        The operator, without a reference.

    Raises:
        ValueError: if the signature or the dimensions are wrong, or the name is already defined.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> leaky = define("doctest::leaky(Tensor self, float slope=0.01) -> Tensor", dims="... -> ...")
        >>> @leaky.reference
        ... def reference(self, slope):
        ...     return jnp.where(self > 0, self, slope * self)
        >>> leaky.derivative(self="where(self > 0, grad, slope * grad)")
        >>> leaky(jnp.array([-1.0, 2.0]), slope=0.5)
        Array([-0.5,  2. ], dtype=float32)
        >>> jax.vmap(jax.grad(leaky))(jnp.array([-1.0, 2.0]))
        Array([0.01, 1.  ], dtype=float32)
    """
    found = parse(schema)
    names = [one.name for one in found.arguments]
    if found.full_name in _defined:
        raise ValueError(
            f"operators.define: {found.full_name} is already defined; expected another name, got "
            f"{_defined[found.full_name].schema}."
        )
    if found.takes_more or found.returns_more or len(set(names)) < len(names):
        raise ValueError(
            f"operators.define: {found.full_name} has '...' or two arguments with the same name; expected named "
            f"arguments and results, got {schema!r}."
        )
    made = _defined[found.full_name] = Operator(found, None if dims is None else parse_dimensions(dims, found))
    return made


def defined() -> dict[str, Operator]:
    """Return {name: operator} for all operators."""
    return dict(_defined)
