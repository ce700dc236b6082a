"""Trace a pure function of arrays for an export, and refuse functions that no form of export supports.

Symbolic sizes are those of `jax.export`. A specification such as "batch, length" names the sizes of an array that may
differ between calls. In a specification, "_" keeps one size of the example array, and "..." keeps several.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.typing import ArrayLike

from funcnet import tree
from funcnet.functional.platforms import default_program
from funcnet.operators import native
from funcnet.operators.jaxprs import JaxprEquation, called_program, layer_of, subprograms
from funcnet.tree import PyTree

__all__ = ["Dynamic", "Equation", "Traced", "canonical", "inner_program", "trace"]

RANDOM = frozenset(
    {"random_bits", "random_gamma", "random_seed", "random_wrap", "random_unwrap", "random_fold_in", "random_split"}
    | {"random_clone", "threefry2x32", "rng_bit_generator", "rng_uniform"}
)
CALLBACKS = frozenset({"pure_callback", "io_callback", "debug_callback", "debug_print", "infeed", "outfeed"})

Equation = JaxprEquation
Dynamic = str | Sequence[str | None] | None


@dataclass(frozen=True)
class Traced:
    """A traced function.

    Attributes:
        program: closed jaxpr, whose constants are the arrays that the function closes over.
        inputs: names of the arguments.
        specs: shapes and dtypes of the arguments. Sizes may be symbolic.
        outputs: names of the leaves of the result.
        structure: tree structure of the result.
        weights: names of the constants of `program`, in their order.
        examples: example arrays.
        results: leaves of the result for the example arrays.
    """

    program: ClosedJaxpr
    inputs: tuple[str, ...]
    specs: tuple[jax.ShapeDtypeStruct, ...]
    outputs: tuple[str, ...]
    structure: Any
    weights: tuple[str, ...]
    examples: tuple[np.ndarray, ...]
    results: tuple[np.ndarray, ...]


def trace(
    where: str,
    function: Callable[..., Any],
    arrays: Sequence[Any],
    dynamic: Dynamic = None,
    constraints: Sequence[str] = (),
    params: PyTree = None,
) -> Traced:
    """Trace `function(*arrays)`, and run the function once on the arrays.

    Args:
        where: name of the caller, for messages.
        function: pure function of arrays.
        arrays: example arrays.
        dynamic: specification of the symbolic sizes of all arrays, or a list with a specification or None for each
            array. None keeps all sizes of the example array.
        constraints: constraints of the symbolic sizes, such as "length <= 512".
        params: tree of arrays, or tuple of trees, that the function closes over. Each weight gets the name that it has
            in its tree.

    Raises:
        TypeError: if an argument is not an array.
        ValueError: if there is no argument, an argument is a random key, a specification does not fit its array, or the
            function draws random numbers or calls back into Python.

    Example:
        >>> traced = trace("export", lambda x: {"twice": 2 * x}, [np.ones((3, 2), np.float32)], "n, _")
        >>> traced.inputs, traced.specs[0].shape, traced.outputs
        (('x',), (n, 2), ('twice',))
    """
    examples = tuple(_example(where, number, array) for number, array in enumerate(arrays))
    if not examples:
        raise ValueError(f"{where}: there is no example array; expected one array per argument, got none.")
    inputs = _names(function, len(examples))
    specs = _specs(where, inputs, examples, dynamic, constraints)
    with native.allowed(False):  # other formats do not have the kernels
        program, shapes = jax.make_jaxpr(function, return_shape=True)(*specs)
    _refuse(where, program.jaxpr)
    leaves, structure = jax.tree_util.tree_flatten_with_path(shapes)
    results = jax.tree.leaves(jax.jit(function)(*examples))
    return Traced(
        program,
        inputs,
        specs,
        _distinct([_output_name(path) for path, _ in leaves], inputs),
        structure,
        _weight_names(program, params),
        examples,
        tuple(np.asarray(result) for result in results),
    )


def canonical(array: ArrayLike) -> np.ndarray:
    """Convert an array to the dtype that JAX gives it as an argument of a function: int64 becomes int32, for example.

    Example:
        >>> canonical(np.zeros(3)).dtype
        dtype('float32')
    """
    array = np.asarray(array)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype))


def inner_program(equation: Equation) -> ClosedJaxpr | None:
    """Return the program that an operation runs: that of a call, or the plain form of a product of two arrays or of an
    operation of `funcnet.quantization`. Return None for all other operations.

    Example:
        >>> program = jax.make_jaxpr(jax.jit(jnp.sin))(1.0)
        >>> [equation.primitive.name for equation in inner_program(program.eqns[0]).eqns]
        ['sin']
    """
    return default_program(equation) or equation.params.get("plain_program") or called_program(equation)


def _example(where: str, number: int, array: Any) -> np.ndarray:
    if not hasattr(array, "dtype") or not hasattr(array, "shape"):
        raise TypeError(
            f"{where}: argument {number} is not an array; expected a NumPy or JAX array, got {type(array).__name__}."
        )
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        raise ValueError(
            f"{where}: argument {number} is a random key; expected arrays of numbers, got {array.dtype}. Export the "
            "function that the model computes at inference."
        )
    return canonical(array)


def _names(function: Callable[..., Any], count: int) -> tuple[str, ...]:
    """Return the names of the parameters of a function, or input_0, input_1, … if they are unknown."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    return (*positional, *(f"input_{number}" for number in range(len(positional), count)))


def _specs(
    where: str, names: Sequence[str], examples: Sequence[np.ndarray], dynamic: Dynamic, constraints: Sequence[str]
) -> tuple[jax.ShapeDtypeStruct, ...]:
    written = [dynamic] * len(examples) if dynamic is None or isinstance(dynamic, str) else list(dynamic)
    if len(written) != len(examples):
        raise ValueError(
            f"{where}: dynamic has the wrong length; expected a string, or one per argument ({len(examples)}), got "
            f"{len(written)}."
        )
    scope = jax.export.SymbolicScope(constraints)
    specs = []
    for name, example, one in zip(names, examples, written, strict=True):
        try:
            one = "..." if one is None else one
            if "..." not in one and len(one.split(",")) != example.ndim:
                raise ValueError("another number of sizes")
            shape = jax.export.symbolic_shape(one, like=example.shape, scope=scope)
        except ValueError as error:
            raise ValueError(
                f"{where}: dynamic does not fit {name}; expected sizes for shape {example.shape}, such as "
                f"{', '.join(['batch', *'_' * (example.ndim - 1)])!r}, got {one!r} ({str(error).splitlines()[0]})."
            ) from None
        specs.append(jax.ShapeDtypeStruct(shape, example.dtype))
    return tuple(specs)


def _refuse(where: str, program: Jaxpr) -> None:
    found = list(_impure(program, ""))
    if not found:
        return
    name, layer = next((one for one in found if one[1]), found[0])  # a key may be made outside the layer that uses it
    layer = layer or "the function"
    if name in CALLBACKS:
        raise ValueError(
            f"{where}: {layer} calls back into Python; expected a pure function of arrays, got the primitive {name!r}. "
            "Remove the callback."
        )
    raise ValueError(
        f"{where}: {layer} draws random numbers; expected a function without randomness, got the primitive {name!r}. "
        "Export the model as it runs at inference: apply(…, training=False), without rng."
    )


def _impure(program: Jaxpr, outer: str) -> Iterator[tuple[str, str]]:
    """Yield (primitive, layer) of every operation that draws random numbers or calls back into Python."""
    equation: Equation
    for equation in program.eqns:
        layer = ".".join(filter(None, (outer, layer_of(equation))))
        if equation.primitive.name in RANDOM | CALLBACKS:
            yield equation.primitive.name, layer
        for inner in subprograms(equation):
            yield from _impure(inner, layer)


def _output_name(path: tuple[Any, ...]) -> str:
    words = [str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path]
    if not words or all(word.isdigit() for word in words):
        words = ["output", *words]
    return "_".join(words)


def _distinct(names: Sequence[str], taken: Sequence[str]) -> tuple[str, ...]:
    """Return distinct names: a name that is in `taken`, or that occurs earlier, gets a number at its end."""
    seen, out = set(taken), []
    for name in names:
        new, number = name, 1
        while new in seen:
            new, number = f"{name}_{number}", number + 1
        seen.add(new)
        out.append(new)
    return tuple(out)


def _weight_names(program: ClosedJaxpr, params: PyTree) -> tuple[str, ...]:
    """Return the dotted names of the program's constants. A constant that is not in `params` is named after the layer
    that reads it, such as `encoder.constant`.
    """
    known: dict[int, str] = {}
    parts = params if isinstance(params, tuple | list) else [params]
    for part in parts:
        for name, array in tree.flatten(part or {}).items():
            known.setdefault(id(array), name)
    layers: dict[Any, str] = {}
    for equation in program.jaxpr.eqns:
        for atom in equation.invars:
            if atom in program.jaxpr.constvars and atom not in layers:
                layers[atom] = layer_of(equation)
    names = [
        known.get(id(value)) or ".".join(filter(None, (layers.get(variable, ""), "constant")))
        for variable, value in zip(program.jaxpr.constvars, program.consts, strict=True)
    ]
    return _distinct(names, ())
