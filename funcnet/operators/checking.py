"""Checks of an operator on sample arguments: types, implementations, derivatives, `vmap`, `jit`, devices, purity."""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from funcnet.operators.binding import bind_arguments
from funcnet.operators.operator import Operator

__all__ = ["check"]

Arguments = Sequence[Any] | Mapping[str, Any]
COLLECTIVE = re.compile("all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter")
STEP = 1e-5  # of a finite difference in float64, whose error is about 1e-10


def check(
    operator: Operator, samples: Sequence[Arguments], *, raises: bool = True, tolerance: float = 1e-5
) -> dict[str, str]:
    """Check an operator, like `torch.library.opcheck`.

    The checks are: `types` (the shapes by `dims`, the dtypes of all implementations), `implementations` (values on this
    platform beside the reference), `derivatives` (beside finite differences of the reference, in float64, forward and
    reverse), `vmap`, `jit`, `sharding` (the same values on all devices, without communication) and `purity` (two traces
    give the same values).

    Args:
        operator: the operator.
        samples: positional arguments, or {name: argument}, of some calls.
        raises: whether to raise an error if a check fails.
        tolerance: the largest difference, as a share of the largest value.

    Returns:
        {name of a check: "passed", or what is wrong, or why it was left out}.

    Raises:
        AssertionError: if a check fails and `raises`.

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
    def reals(self) -> list[int]:
        """The numbers of the arrays with derivatives."""
        return [n for n, one in enumerate(self.arrays) if jnp.issubdtype(one.dtype, jnp.floating)]

    def run(self, *arrays: Any) -> tuple[jax.Array, ...]:
        return _tuple(self.operator(**self.settings.arguments(arrays)))

    def reference(self, *arrays: Any) -> tuple[jax.Array, ...]:
        return _tuple(self.operator.get_reference()(**self.settings.arguments(arrays)))

    def difference(self, found: Any, expected: Any) -> float:
        """Return the largest difference, as a share of the largest value, if it is over the tolerance, else 0."""
        shares = [0.0]
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            wide = np.complex128 if np.iscomplexobj(b) else np.float64
            largest = max(float(np.abs(b).max(initial=0)), float(np.finfo(np.float32).tiny))
            shares.append(float(np.abs(np.asarray(a, wide) - np.asarray(b, wide)).max(initial=0)) / largest)
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
    names, random = sample.settings.names(), np.random.default_rng(0)
    if not sample.reals:
        raise _LeftOut("no argument is an array of floats")
    with jax.enable_x64(True):
        wide = [np.asarray(one, np.float64) if n in sample.reals else one for n, one in enumerate(sample.arrays)]
        for place in sample.reals:
            if names[place] not in sample.operator.derivatives and sample.operator.joint is None:
                yield f"the derivative of {names[place]} is missing"
                continue
            along = random.normal(size=wide[place].shape)
            at = functools.partial(_replaced, wide, place)
            ahead, behind = (sample.reference(*at(wide[place] + sign * STEP * along)) for sign in (1, -1))
            slopes = [(a - b) / (2 * STEP) for a, b in zip(ahead, behind, strict=True)]
            results, forward = jax.jvp(lambda x, at=at: sample.run(*at(x)), (wide[place],), (along,))
            if difference := sample.difference(forward, slopes):
                yield f"in forward mode, {names[place]} differs from finite differences by {_share(difference)}"
            weights = [random.normal(size=one.shape) for one in results]
            (gradient,) = jax.vjp(lambda x, at=at: sample.run(*at(x)), wide[place])[1](tuple(map(jnp.asarray, weights)))
            expected = sum(float((w * slope).sum()) for w, slope in zip(weights, slopes, strict=True))
            if difference := sample.difference(float((np.asarray(gradient) * along).sum()), expected):
                yield f"the derivative of {names[place]} differs from finite differences by {_share(difference)}"


def _replaced(arrays: Sequence[Any], place: int, array: Any) -> list[Any]:
    return [*arrays[:place], array, *arrays[place + 1 :]]


def _vmap(sample: _Sample) -> Iterator[str]:
    three = [jnp.stack([one, jnp.roll(one, 1), jnp.flip(one)]) for one in sample.arrays]
    mapped = jax.vmap(sample.run)(*three)
    each = [sample.reference(*(one[n] for one in three)) for n in range(3)]
    if difference := sample.difference(mapped, [np.stack(parts) for parts in zip(*each, strict=True)]):
        yield f"vmap differs from one call after the other by {_share(difference)}"


def _jit(sample: _Sample) -> Iterator[str]:
    if difference := sample.difference(jax.jit(sample.run)(*sample.arrays), sample.reference(*sample.arrays)):
        yield f"jit differs from the reference by {_share(difference)}"


def _sharding(sample: _Sample) -> Iterator[str]:
    dims, devices = sample.operator.dims, jax.local_devices()
    if dims is None or not dims.is_mapped or len(devices) == 1:
        raise _LeftOut("there is one device" if len(devices) == 1 else "the operator has no dimensions ...")
    entries = [one.name for one in sample.operator.schema.arguments if one.type.is_tensor]
    maps = [dims.maps_inputs[entries.index(name)] for name in sample.settings.names()]
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
    before = [np.array(one) for one in sample.arrays]
    twice = [jax.jit(lambda *arrays: sample.run(*arrays))(*sample.arrays) for _ in range(2)]
    if any((np.asarray(a) != np.asarray(b)).any() for a, b in zip(*twice, strict=True)):
        yield "two traces of the operator give different values, so it depends on more than its arguments"
    if any((np.asarray(a) != b).any() for a, b in zip(sample.arrays, before, strict=True)):
        yield "the operator changes its arguments"


def _share(difference: float) -> str:
    return f"{difference:.2g} of the largest value"
