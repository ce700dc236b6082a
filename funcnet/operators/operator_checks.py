"""Checks of an operator on sample arguments: types, implementations, derivatives, `vmap`, `jit`, devices, purity."""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from funcnet.operators.argument_binding import bind_arguments
from funcnet.operators.operator import Operator

__all__ = ["check"]

Arguments = Sequence[Any] | Mapping[str, Any]
COLLECTIVE = re.compile("all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter")
STEP = 1e-5  # of a finite difference in float64, whose error is about 1e-10


def check(
    operator: Operator, samples: Sequence[Arguments], *, raises: bool = True, tolerance: float = 1e-5
) -> dict[str, str]:
    """Check an operator, like `torch.library.opcheck`.

    The checks are: `types` (the shapes by `dims`, the dtypes of all implementations), `implementations` (the values on
    this platform, compared with the reference), `derivatives` (compared with finite differences of the reference in
    double precision, in forward and reverse mode, with and without `vmap`),
    `vmap`, `jit`, `sharding` (the same values on all devices, without communication) and `purity` (two traces give the
    same values).

    Args:
        operator: the operator.
        samples: positional arguments, or {name: argument}, of some calls.
        raises: whether to raise an error if a check fails.
        tolerance: the largest difference, as a share of the largest value.

    Returns:
        {name of a check: "passed", or what is wrong, or why it was left out}.

    Raises:
        AssertionError: if a check fails and `raises`.
        ValueError: if there are no samples.

    Example:
        >>> from funcnet import operators
        >>> twice = operators.define("doctest::twice(Tensor self) -> Tensor", dims="... -> ...")
        >>> _ = twice.reference(lambda self: 2 * self)
        >>> twice.derivative(self="3 * grad")
        >>> operators.check(twice, [[jnp.arange(4.0)]], raises=False)["derivatives"]
        'sample 0: the derivative of self differs from finite differences by 0.5 of the largest value'
    """
    checks: dict[str, Callable[[_Sample], Iterator[str]]] = {
        "types": _types, "implementations": _implementations, "derivatives": _derivatives, "vmap": _vmap, "jit": _jit,
        "sharding": _sharding, "purity": _purity,
    }  # fmt: skip
    if not samples:
        raise ValueError(f"operators.check: {operator.schema.full_name}: expected at least one sample, got none.")
    found: dict[str, str] = {}
    for name, one in checks.items():
        problems = []
        for number, arguments in enumerate(samples):
            try:
                problems += [f"sample {number}: {problem}" for problem in one(_Sample(operator, arguments, tolerance))]
            except _LeftOut as reason:
                found[name] = f"left out: {reason}"
            except Exception as error:  # of the operator, or of its functions
                problems.append(f"sample {number}: {type(error).__name__}: {error}")
        if problems or name not in found:
            found[name] = "; ".join(problems) or "passed"
    if raises and (
        wrong := {name: text for name, text in found.items() if not text.startswith(("passed", "left out"))}
    ):
        lines = "\n".join(f"  {name}: {text}" for name, text in wrong.items())
        raise AssertionError(
            f"operators.check: {operator.schema.full_name} is wrong; expected no findings, got\n{lines}"
        )
    return found


class _LeftOut(Exception):
    """A check does not apply."""


class _Sample:
    """The arguments of a call, as arrays and settings."""

    def __init__(self, operator: Operator, arguments: Arguments, tolerance: float):
        given, named = ((), arguments) if isinstance(arguments, Mapping) else (arguments, {})
        self.operator, self.tolerance = operator, tolerance
        self.arrays, self.settings = bind_arguments(operator.schema, given, named)

    @property
    def differentiable(self) -> list[int]:
        """The numbers of the arrays of real or complex numbers, whose derivatives are checked."""
        return [n for n, one in enumerate(self.arrays) if jnp.issubdtype(one.dtype, jnp.inexact)]

    @property
    def maps(self) -> list[bool]:
        """Whether each array has the dimensions `...`, or all of them if there are no `dims`."""
        dims = self.operator.dims
        entries = [one.name for one in self.operator.schema.arguments if one.type.is_tensor]
        return [dims is None or dims.maps_inputs[entries.index(name)] for name in self.settings.names()]

    def run(self, *arrays: jax.Array) -> tuple[jax.Array, ...]:
        return _tuple(self.operator(**self.settings.arguments(arrays)))

    def reference(self, *arrays: jax.Array) -> tuple[jax.Array, ...]:
        return _tuple(self.operator.get_reference()(**self.settings.arguments(arrays)))

    def difference(self, found: Any, expected: Any) -> float:
        """Return the largest difference, as a share of the largest value, if it is over the tolerance, else 0."""
        shares = [0.0]
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            a, b = _doubled(a), _doubled(b)
            with np.errstate(invalid="ignore"):
                apart = np.where((a == b) | ((a != a) & (b != b)), 0, np.abs(a - b))  # equal infinities, and NaN twice
            largest = max(float(np.abs(b)[np.isfinite(b)].max(initial=0)), float(np.finfo(np.float32).tiny))
            shares.append(float(apart.max(initial=0)) / largest)
        worst = float(np.max(shares))  # which keeps NaN
        return 0.0 if worst <= self.tolerance else worst


def _tuple(found: Any) -> tuple[jax.Array, ...]:
    return tuple(found) if isinstance(found, tuple | list) else (found,)


def _types(sample: _Sample) -> Iterator[str]:
    jax.eval_shape(sample.run, *sample.arrays)  # raises if the reference contradicts `dims`
    for platform, implementations in sample.operator.implementations.items():
        for one in implementations:
            if one.is_for(sample.arrays):
                jax.jit(sample.run).trace(*sample.arrays).lower(lowering_platforms=(platform,))
    yield from ()


def _implementations(sample: _Sample) -> Iterator[str]:
    if difference := sample.difference(sample.run(*sample.arrays), sample.reference(*sample.arrays)):
        yield f"the implementation for {jax.default_backend()} differs from the reference by {_share(difference)}"


def _derivatives(sample: _Sample) -> Iterator[str]:
    if sample.operator.is_composite:
        raise _LeftOut("the operator is composite, so its derivatives are those of its parts")
    if not sample.differentiable:
        raise _LeftOut("no argument is an array of real or complex numbers")
    names, random = sample.settings.names(), np.random.default_rng(0)
    with jax.enable_x64(True):
        wide = [_doubled(one) if n in sample.differentiable else one for n, one in enumerate(sample.arrays)]
        for place in sample.differentiable:
            if names[place] not in sample.operator.derivatives and sample.operator.joint is None:
                yield f"the derivative of {names[place]} is missing"
                continue
            along, at = _random(random, wide[place]), functools.partial(_replaced, wide, place)
            ahead, behind = (_inexact(sample.reference(*at(wide[place] + sign * STEP * along))) for sign in (1, -1))
            slopes = [(np.asarray(a) - np.asarray(b)) / (2 * STEP) for a, b in zip(ahead, behind, strict=True)]
            run = lambda x, at=at: _inexact(sample.run(*at(x)))
            results, forward = jax.jvp(run, (wide[place],), (along,))
            if difference := sample.difference(forward, slopes):
                yield f"in forward mode, {names[place]} differs from finite differences by {_share(difference)}"
            weights = [_random(random, one) for one in results]
            (gradient,) = jax.vjp(run, wide[place])[1](tuple(map(jnp.asarray, weights)))
            # the real part, as the derivative of a complex argument holds for its real and its imaginary part
            expected = sum(float((w * slope).sum().real) for w, slope in zip(weights, slopes, strict=True))
            if difference := sample.difference(float((np.asarray(gradient) * along).sum().real), expected):
                yield f"the derivative of {names[place]} differs from finite differences by {_share(difference)}"
        yield from _mapped_derivatives(sample, wide)


def _mapped_derivatives(sample: _Sample, arrays: Sequence[Any]) -> Iterator[str]:
    """Compare the gradients of several calls under `vmap` with the gradients of separate calls."""
    known = [n for n in sample.differentiable if sample.maps[n]]
    if not known or not all(sample.settings.names()[n] in sample.operator.derivatives for n in known):
        return
    three, axes = _three(arrays, sample.maps)

    def total(run: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: sum(jnp.sin(part).sum() for one in _inexact(run(*given)) for part in (one.real, one.imag))

    together = jax.grad(total(jax.vmap(sample.run, axes)), known)(*three)
    one = lambda row: [array[row] if axis == 0 else array for array, axis in zip(three, axes, strict=True)]
    each = [jax.grad(total(sample.run), known)(*one(row)) for row in range(3)]
    if difference := sample.difference(together, [np.stack(parts) for parts in zip(*each, strict=True)]):
        yield f"the gradient of vmap differs from one gradient after the other by {_share(difference)}"


def _three(arrays: Sequence[Any], maps: Sequence[bool]) -> tuple[list[Any], tuple[int | None, ...]]:
    """Return three rows of the arrays with dimensions `...`, and the axes for `vmap`."""
    found = [
        jnp.stack([one, jnp.roll(one, 1), jnp.flip(one)]) if has else one for one, has in zip(arrays, maps, strict=True)
    ]
    return found, tuple(0 if has else None for has in maps)


def _inexact(results: Sequence[Any]) -> tuple[Any, ...]:
    """Return the results with derivatives."""
    return tuple(one for one in results if jnp.issubdtype(one.dtype, jnp.inexact))


def _doubled(array: ArrayLike) -> np.ndarray:
    """Return an array in double precision."""
    return np.asarray(array, np.complex128 if jnp.iscomplexobj(array) else np.float64)


def _random(random: np.random.Generator, like: jax.Array | np.ndarray) -> np.ndarray:
    """Return normal numbers with the shape of `like`, complex if `like` is complex."""
    real = random.normal(size=like.shape)
    return real + 1j * random.normal(size=like.shape) if jnp.iscomplexobj(like) else real


def _replaced(arrays: Sequence[Any], place: int, array: ArrayLike) -> list[Any]:
    return [*arrays[:place], array, *arrays[place + 1 :]]


def _vmap(sample: _Sample) -> Iterator[str]:
    everything = [True] * len(sample.arrays)
    for maps in (everything, sample.maps) if any(sample.maps) and sample.maps != everything else (everything,):
        three, axes = _three(sample.arrays, maps)
        mapped = jax.vmap(sample.run, axes)(*three)
        rows = [[one[n] if axis == 0 else one for one, axis in zip(three, axes, strict=True)] for n in range(3)]
        each = [sample.reference(*row) for row in rows]
        if difference := sample.difference(mapped, [np.stack(parts) for parts in zip(*each, strict=True)]):
            yield f"vmap differs from one call after the other by {_share(difference)}"


def _jit(sample: _Sample) -> Iterator[str]:
    if difference := sample.difference(jax.jit(sample.run)(*sample.arrays), sample.reference(*sample.arrays)):
        yield f"jit differs from the reference by {_share(difference)}"


def _sharding(sample: _Sample) -> Iterator[str]:
    dims, devices = sample.operator.dims, jax.local_devices()
    if dims is None or not dims.is_mapped or len(devices) == 1:
        raise _LeftOut("there is one device" if len(devices) == 1 else "the operator has no dimensions ...")
    maps = sample.maps
    mesh = jax.make_mesh((len(devices),), ("devices",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = [jnp.stack([one] * len(devices)) if has else one for one, has in zip(sample.arrays, maps, strict=True)]
    placed = [
        jax.device_put(one, jax.NamedSharding(mesh, jax.P("devices") if has else jax.P()))
        for one, has in zip(rows, maps, strict=True)
    ]
    program = jax.jit(sample.run).lower(*placed).compile()
    if found := COLLECTIVE.search(program.as_text() or ""):
        yield f"{len(devices)} devices that share the dimensions ... communicate: {found[0]}"
    if difference := sample.difference(program(*placed), sample.reference(*rows)):
        yield f"the values on {len(devices)} devices differ from the reference by {_share(difference)}"


def _purity(sample: _Sample) -> Iterator[str]:
    before = [np.array(_data(one)) for one in sample.arrays]
    twice = [jax.jit(lambda *arrays: sample.run(*arrays))(*sample.arrays) for _ in range(2)]
    same = lambda a, b: np.array_equal(_data(a), _data(b), equal_nan=jnp.issubdtype(_data(a).dtype, jnp.inexact))
    if not all(same(a, b) for a, b in zip(*twice, strict=True)):
        yield "two traces of the operator give different values, so it depends on more than its arguments"
    if not all(same(a, b) for a, b in zip(sample.arrays, before, strict=True)):
        yield "the operator changes its arguments"


def _data(array: jax.Array) -> Any:
    return jax.random.key_data(array) if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) else array


def _share(difference: float) -> str:
    return f"{difference:.2g} of the largest value"
