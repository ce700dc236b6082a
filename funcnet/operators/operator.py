"""Operators, declared once by a signature, with a reference, derivatives and implementations for platforms."""

import difflib
import functools
import importlib.metadata
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from funcnet.operators.argument_binding import bind_arguments
from funcnet.operators.derivatives import Derivative, derivative_of
from funcnet.operators.dimensions import OperatorDimensions, parse_dimensions
from funcnet.operators.foreign_kernels import ForeignKernel
from funcnet.operators.primitives import PLATFORMS, OperatorCall, changes, primitive
from funcnet.operators.schema import Schema
from funcnet.operators.schema_parsing import parse
from funcnet.operators.varying_axes import vary_like

__all__ = ["Implementation", "Operator", "define", "get", "load", "table"]

Function = Callable[..., Any]
_defined: dict[str, "Operator"] = {}


@dataclass(frozen=True)
class Implementation:
    """An implementation for a platform.

    Attributes:
        function: a function with the operator's arguments that returns an array, or a tuple of several results; or a
            `ForeignKernel`.
        dtypes: names of dtypes. The implementation is used if the first array has one of them. None means all.
    """

    function: Function | ForeignKernel
    dtypes: tuple[str, ...] | None

    def is_for(self, arrays: Sequence[Any]) -> bool:
        """Return whether the dtype of the first array is one of `dtypes`."""
        return self.dtypes is None or (bool(arrays) and arrays[0].dtype.name in self.dtypes)


class Operator:
    """An operator. Call it with the arguments of its signature.

    Attributes:
        schema: the signature.
        dims: the dimensions of its arrays, or None.
        implementations: {platform: implementations}.
    """

    def __init__(self, schema: Schema, dims: OperatorDimensions | None):
        self.schema, self.dims = schema, dims
        self.implementations: dict[str, list[Implementation]] = {}
        self.derivatives: dict[str, Derivative] = {}
        self.joint: Derivative | None = None
        self._reference: Function | None = None
        self._parts: Function | None = None
        self.primitive = primitive(schema.full_name)

    @property
    def is_mapped(self) -> bool:
        """Whether the arrays have the batch dimensions `...`."""
        return self.dims is not None and self.dims.is_mapped

    def __repr__(self) -> str:
        return f"<operator {self.schema}>"

    def __reduce__(self) -> Any:
        return get, (self.schema.full_name,)  # copies are the same operator

    def __call__(self, /, *arguments: object, **named: object) -> Any:
        """Return the result, or a tuple of several results.

        Raises:
            TypeError: if an argument is missing or has the wrong type.
            ValueError: if the shapes contradict the dimensions, or the operator has no reference.
        """
        arrays, settings = bind_arguments(self.schema, arguments, named)
        if self._parts is not None:
            return self._parts(**settings.arguments(arrays))
        arrays = [vary_like(array, *arrays) for array in arrays]
        found = self.primitive.bind(*arrays, call=OperatorCall(self, settings, changes.count))
        return found[0] if len(self.schema.returns) == 1 else tuple(found)

    def reference(self, function: Function) -> Function:
        """Set the reference, a function in `jax.numpy` with the operator's arguments, and return it.

        The reference determines the shapes, the dtypes and forward-mode derivatives. It runs on all platforms that have
        no implementation.
        """
        self._reference = function
        changes.count += 1
        return function

    def composite(self, function: Function) -> Function:
        """Make this a composite operator, which consists of the operations that `function` calls, and return the
        function.

        JAX differentiates, shards and batches these operations.

        Raises:
            ValueError: if the operator has dimensions, implementations or derivatives, which would have no effect.
        """
        if self.dims is not None or self.implementations or self.derivatives or self.joint:
            raise ValueError(
                f"{self.schema.full_name}.composite: dims, implementations and derivatives of a composite operator "
                "would have no effect; expected none. Give them to the operators that it calls."
            )
        self._reference = self._parts = function
        changes.count += 1
        return function

    @property
    def is_composite(self) -> bool:
        """Whether the operator consists of other operations."""
        return self._parts is not None

    def _refuse_composite(self, what: str) -> None:
        if self.is_composite:
            raise ValueError(
                f"{self.schema.full_name}.{what}: the operator is composite, so this would have no effect; expected an "
                "operator with a reference. Change the operators that it calls."
            )

    def impl(
        self, platform: str, function: Function | ForeignKernel | None = None, dtypes: Sequence[str] | None = None
    ) -> Any:
        """Add an implementation for a platform. The one added last is used. Without `function`, this is a decorator.

        Functions that `jax.jit` has compiled before keep the earlier implementation.

        The arrays may have any number of dimensions `...`. XLA does not divide a Pallas kernel for GPU or TPU among
        devices: call the operator inside `jax.shard_map`.

        Args:
            platform: "cpu", "cuda", "rocm" or "tpu". The platform is known when JAX lowers a program.
            function: a function in JAX, which may contain a Pallas kernel, or a `ForeignKernel`.
            dtypes: dtypes. The implementation is used if the first array has one of them. The default is all.

        Raises:
            ValueError: if the platform or a dtype is unknown, or the operator is composite.
        """
        self._refuse_composite("impl")
        if platform not in PLATFORMS:
            raise ValueError(
                f"{self.schema.full_name}.impl: unknown platform; expected {', '.join(PLATFORMS)}, got {platform!r}."
            )
        if function is None:
            return lambda function: self.impl(platform, function, dtypes)
        try:
            names = [jax.numpy.dtype(one).name for one in ([dtypes] if isinstance(dtypes, str) else dtypes or ())]
        except TypeError as error:
            raise ValueError(
                f"{self.schema.full_name}.impl: unknown dtype; expected names such as float32, got {dtypes!r}."
            ) from error
        one = Implementation(function, None if dtypes is None else tuple(names))
        self.implementations.setdefault(platform, []).insert(0, one)
        changes.count += 1
        return function

    def derivative(self, joint: Function | None = None, /, **formulas: str | Function) -> None:
        """Set the gradients of arguments.

        Args:
            joint: a function that returns {name: gradient} of several arguments, with the parameters of a formula.
            **formulas: for each argument, a formula or a function; see `derivatives.py`. They precede `joint`.

        Raises:
            ValueError: if an argument is unknown or is not a `Tensor`, or a formula is wrong.
        """
        self._refuse_composite("derivative")
        known = [one.name for one in self.schema.arguments if one.type.is_tensor]
        if unknown := [name for name in formulas if name not in known]:
            raise ValueError(
                f"{self.schema.full_name}.derivative: unknown argument; expected {', '.join(known)}, got "
                f"{unknown[0]!r}."
            )
        made = {name: derivative_of(self.schema, name, given) for name, given in formulas.items()}
        if joint is not None:
            self.joint = derivative_of(self.schema, "joint", joint)
        self.derivatives |= made
        changes.count += 1

    @property
    def kept(self) -> tuple[int, ...]:
        """The numbers of the results that derivatives use, which are kept for the backward pass."""
        every = [*self.derivatives.values(), *filter(None, [self.joint])]
        return tuple(sorted(set().union(*(one.keeps(len(self.schema.returns)) for one in every))))

    def gradients(self, names: Iterable[str], values: Mapping[str, Any]) -> dict[str, Any]:
        """Return {name: gradient} of some arguments.

        Args:
            names: the arguments.
            values: {name: value} for the names of a formula.

        Raises:
            ValueError: if a derivative is missing.
        """
        wanted = set(names)
        found = {} if self.joint is None or wanted <= set(self.derivatives) else dict(self.joint(values))
        found |= {name: self.derivatives[name](values) for name in wanted & set(self.derivatives)}
        if missing := wanted - set(found):
            name = min(missing)
            raise ValueError(
                f"{self.schema.full_name}: the derivative of {name!r} is missing; expected a formula or a function, "
                f"got none. Set it with operator.derivative({name}=…)."
            )
        return found

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

    def implementation(self, platform: str, arrays: Sequence[Any]) -> Function | ForeignKernel:
        """Return what computes the operator on a platform, for arrays or their types."""
        fitting = (one.function for one in self.implementations.get(platform, ()) if one.is_for(arrays))
        return next(fitting, None) or self.get_reference()


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
    types = [one.type for one in (*found.arguments, *found.returns)]
    if any(one.has_alias for one in types) or any(one.type.name != "Tensor" for one in found.returns):
        raise ValueError(
            f"operators.define: {found.full_name} changes an argument, or its results are not arrays; expected results "
            f"of the type Tensor, and no aliases such as (a!), got {schema!r}. Return changed arrays as results."
        )
    if unknown := [str(one) for one in types if one.is_tensor and "Tensor?[" in str(one)]:
        raise ValueError(
            f"operators.define: {found.full_name} has a list with optional arrays; expected Tensor[], got {unknown[0]}."
        )
    if found.takes_more or found.returns_more or len(set(names)) < len(names):
        raise ValueError(
            f"operators.define: {found.full_name} has '...' or two arguments with the same name; expected named "
            f"arguments and results, got {schema!r}."
        )
    made = _defined[found.full_name] = Operator(found, None if dims is None else parse_dimensions(dims, found))
    return made


def get(name: str) -> Operator:
    """Return an operator by its name.

    Operators of other packages are found through entry points in the group `funcnet.operators`: modules or functions
    that define operators.

    Args:
        name: the name, such as "acme::leaky_relu".

    Raises:
        KeyError: if no operator has this name.
        ImportError: if an entry point cannot be loaded.

    Example:
        >>> double = define("doctest::double(Tensor self) -> Tensor", dims="... -> ...")
        >>> get("doctest::double") is double
        True
        >>> get("doctest::duoble")
        Traceback (most recent call last):
        KeyError: "operators.get: unknown operator; expected one of doctest::double..., got 'doctest::duoble'."
    """
    if name not in _defined:
        load()
    if name not in _defined:
        near = difflib.get_close_matches(name, _defined, n=3, cutoff=0.3) or sorted(_defined)
        expected = f"one of {', '.join(near)}" if near else "one that operators.define has declared"
        raise KeyError(f"operators.get: unknown operator; expected {expected}, got {name!r}.")
    return _defined[name]


@functools.cache
def load() -> None:
    """Load the entry points `funcnet.operators` of all installed packages. A second call does nothing.

    Raises:
        ImportError: if an entry point cannot be loaded.

    Example:
        >>> load()  # `get` calls it, too, when it does not find an operator
    """
    for point in importlib.metadata.entry_points(group="funcnet.operators"):
        try:
            found = point.load()
            if inspect.isfunction(found):
                found()
        except Exception as error:  # of another package
            raise ImportError(
                f"operators.load: the entry point {point.name!r} = {point.value!r} of "
                f"{point.dist.name if point.dist else 'a package'} cannot be loaded: {type(error).__name__}: {error}"
            ) from error


def table() -> list[dict[str, str]]:
    """Return a row for each operator. For each platform, it lists the dtypes with an implementation, and "reference" if
    the reference computes the others. `pandas.DataFrame(operators.table())` turns the rows into a data frame.

    Example:
        >>> import jax.numpy as jnp
        >>> half = define("doctest::half(Tensor self) -> Tensor", dims="... -> ...")
        >>> _ = half.reference(lambda self: self / 2), half.impl("cuda", lambda self: 0.5 * self, dtypes=["float32"])
        >>> [row for row in table() if row["operator"] == "doctest::half"]
        [{'operator': 'doctest::half', 'cpu': 'reference', 'cuda': 'float32, reference', 'rocm': 'reference', ...
    """
    load()
    rows = []
    for name, one in sorted(_defined.items()):
        row = {"operator": name}
        for platform in PLATFORMS:
            chosen = one.implementations.get(platform, [])
            dtypes = [dtype for implementation in chosen for dtype in implementation.dtypes or ("all",)]
            row[platform] = ", ".join(dict.fromkeys([*dtypes, *["reference"] * ("all" not in dtypes)]))
        rows.append(row)
    return rows
