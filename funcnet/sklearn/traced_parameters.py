"""The parameters of an estimator: which of them are values that a compiled program reads, and which are part of it.

A parameter with a float, such as a learning rate or a dropout rate, is a value: one program serves all of its values.
All other parameters, such as a number of units, are part of the program. So is a float with which the constructor of
the net computes, for example to find a shape.
"""

import dataclasses
import difflib
import inspect
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import jax
import optax

from funcnet import nn, tree
from funcnet.sklearn.fingerprint import fingerprint
from funcnet.sklearn.networks import MLP

__all__ = [
    "Blueprint",
    "ModuleMaker",
    "NetMaker",
    "Traces",
    "check_arguments",
    "check_names",
    "nearest",
    "without_prefix",
]

OPTIMIZERS = {name: getattr(optax, name) for name in ("adagrad", "adam", "adamw", "nadam", "radam", "rmsprop", "sgd")}
Given = Mapping[str, Any]


def check_names(where: str, names: Iterable[str], known: Iterable[str], prefixes: tuple[str, ...]) -> None:
    """Raise a ValueError for a parameter that is neither known nor begins with one of the prefixes."""
    known = list(known)
    for name in names:
        if name not in known and not name.startswith(prefixes):
            raise ValueError(
                f"{where}: unknown parameter {name!r}; expected one of {nearest(name, known)}, or a parameter of the "
                f"net ({prefixes[0]}NAME) or of the optimizer ({prefixes[1]}NAME)."
            )


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known names that resemble `name`, or all of them."""
    known = list(known)
    return ", ".join(difflib.get_close_matches(name, known, n=3, cutoff=0.3) or known)


class TracedStep(NamedTuple):
    """The result of a trace: the sorted names of the floats that can be traced, and fields as in `Blueprint`."""

    names: tuple[str, ...]
    program: str
    output_shape: tuple[int, ...]


Traces = dict[Any, Any]  # {what was traced: `TracedStep`, or the `fingerprint` of a loss}


class NetMaker(Protocol):
    """Makes the net and the optimizer of an estimator from its parameters. Equal makers make the same."""

    def net(self, given: Given) -> nn.Module:
        """Return the net. Some of the values may be traced."""

    def transformation(self, given: Given) -> optax.GradientTransformation:
        """Return the optimizer."""


@dataclasses.dataclass(frozen=True)
class ModuleMaker:
    """Makes a net with a class of nets, and an optimizer with a function of the learning rate.

    Attributes:
        module: a class of nets, or a function that returns a net.
        optimizer: function `optimizer(learning_rate, **parameters)` that returns an optax transformation.
    """

    module: Callable[..., nn.Module]
    optimizer: Callable[..., optax.GradientTransformation]

    @classmethod
    def of(
        cls,
        where: str,
        module: Callable[..., nn.Module] | None,
        optimizer: str | Callable[..., optax.GradientTransformation],
    ) -> "ModuleMaker":
        """Return the maker of an estimator with the class name `where`.

        Raises:
            ValueError: if the optimizer is unknown.
        """
        known = OPTIMIZERS.get(optimizer) if isinstance(optimizer, str) else optimizer
        if known is None:
            raise ValueError(
                f"{where}: unknown optimizer; expected {', '.join(OPTIMIZERS)}, or a function of the learning rate, "
                f"got {optimizer!r}."
            )
        return cls(MLP if module is None else module, known)

    def given(self, where: str, given: Given, features: int, outputs: int) -> Given:
        """Return the parameters with the sizes that the constructor of the net takes from the data.

        Raises:
            ValueError: if a parameter has an unknown name.
        """
        accepted = inspect.signature(self.module).parameters
        sizes = {"in_features": features, "out_features": outputs}
        found = {**{f"module__{name}": size for name, size in sizes.items() if name in accepted}, **given}
        check_arguments(where, self.module, "module__", found)
        check_arguments(where, self.optimizer, "optimizer__", found)
        return found

    def net(self, given: Given) -> nn.Module:
        return self.module(**without_prefix("module__", given))

    def transformation(self, given: Given) -> optax.GradientTransformation:
        return self.optimizer(given["lr"], **without_prefix("optimizer__", given))


@dataclasses.dataclass(frozen=True)
class Blueprint:
    """A description of how to make the net and the optimizer of an estimator. Equal blueprints have the same compiled
    programs.

    Attributes:
        names: the names of the parameters that the program reads, sorted.
        program: a `fingerprint` of a training step, without the loss, and of a prediction.
        maker: makes the net and the optimizer.
        fixed: the parameters that are part of the program.
        values: {name: float}, the parameters that the program reads.
        output_shape: shape of the outputs for one row.
    """

    names: tuple[str, ...]
    program: str
    maker: NetMaker = dataclasses.field(compare=False)
    fixed: Given = dataclasses.field(compare=False)
    values: Mapping[str, float] = dataclasses.field(compare=False)
    output_shape: tuple[int, ...] = dataclasses.field(compare=False)

    @classmethod
    def of(cls, maker: NetMaker, given: Given, example: jax.ShapeDtypeStruct, known: Traces) -> "Blueprint":
        """Return the blueprint for some parameters.

        Args:
            maker: makes the net and the optimizer.
            given: the parameters.
            example: shape and dtype of one row of inputs: (1, …).
            known: the traces that were already made for the same search. A new entry is added.

        Raises:
            TypeError, ValueError: if the net or the optimizer does not accept a value.
        """
        floats = {name: float(value) for name, value in given.items() if isinstance(value, numbers.Real)
                  and not isinstance(value, numbers.Integral)}  # fmt: skip
        layers = _layers(maker.net(given))  # the constructor's own checks of its values
        others = {name: value for name, value in given.items() if name not in floats}
        key = (maker, _frozen(others), tuple(sorted(floats)), example.shape, example.dtype)
        traced = known.get(key) if _is_hashable(key) else None
        if traced is None:
            traced = _traced(maker, given, floats, example, layers)
            if _is_hashable(key) and len(traced.names) == len(floats):  # otherwise it depends on the other floats
                known[key] = traced
        fixed = {name: value for name, value in given.items() if name not in traced.names}
        values = {name: floats[name] for name in traced.names}
        return cls(traced.names, traced.program, maker, fixed, values, traced.output_shape)

    def net(self, values: Given) -> nn.Module:
        """Return the net. `values` are the values that the program reads, also traced."""
        return self.maker.net(self.given(values))

    def transformation(self, values: Given) -> optax.GradientTransformation:
        """Return the optimizer, likewise."""
        return self.maker.transformation(self.given(values))

    def given(self, values: Given) -> dict[str, Any]:
        """Return all parameters."""
        return {**self.fixed, **values}


def without_prefix(prefix: str, given: Given) -> dict[str, Any]:
    """Return the parameters that begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}


def check_arguments(where: str, function: Callable[..., Any], prefix: str, given: Iterable[str]) -> None:
    """Raise a ValueError for a parameter that a module or an optimizer does not have."""
    accepted = inspect.signature(function).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in accepted.values()):
        return
    known = [prefix + name for name in accepted if prefix + name != "optimizer__learning_rate"]  # `lr` is
    for name in given:
        if name.startswith(prefix) and name not in known:
            raise ValueError(
                f"{where}: unknown parameter {name!r}; expected one of {nearest(name, known)}, which are arguments of "
                f"{getattr(function, '__name__', function)}."
            )


def _frozen(value: object) -> Any:
    """Return a form of a value that distinguishes 1, 1.0 and True, and that can be hashed if the value can."""
    if isinstance(value, list | tuple):
        return type(value), tuple(map(_frozen, value))
    if isinstance(value, dict):
        return dict, tuple((_frozen(key), _frozen(one)) for key, one in value.items())
    return type(value), value


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _layers(net: nn.Module) -> list[type]:
    return [type(module) for module in net.modules()]


def _traced(
    maker: NetMaker, given: Given, floats: Given, example: jax.ShapeDtypeStruct, layers: list[type]
) -> TracedStep:
    """Trace a net and its optimizer. Floats are passed as tracers where the net and the optimizer accept tracers."""
    scalar = jax.ShapeDtypeStruct((), example.dtype)

    def trace(names: Iterable[str]) -> TracedStep:
        step = lambda values, x: _once(maker, {**given, **values}, x, layers)
        chosen = dict.fromkeys(sorted(names), scalar)
        jaxpr, (outputs, _) = jax.make_jaxpr(step, return_shape=True)(chosen, example)
        return TracedStep(tuple(chosen), fingerprint(jaxpr), tuple(outputs.shape))

    def accepts(names: Iterable[str]) -> bool:
        try:
            trace(names)
        except Exception:  # a constructor may raise anything for a tracer
            return False
        return True

    try:
        return trace(floats)
    except Exception:  # likewise; what remains is raised for the concrete values
        return trace([name for name in floats if accepts([name])])


def _once(maker: NetMaker, given: Given, x: jax.Array, layers: list[type]) -> tuple[jax.Array, Any]:
    """Make one training step that minimises the sum of the outputs. Return (outputs in evaluation, updates)."""
    key = jax.random.key(0)
    net, optimizer = maker.net(given), maker.transformation(given)
    if _layers(net) != layers:
        raise TypeError("the constructor makes other layers if it gets a tracer")
    params, state = tree.cast(net.init(key), x.dtype)

    def total(params: tree.Tree) -> Any:
        outputs, after = net.apply(params, state, x, training=True, rng=key)
        return sum(leaf.sum() for leaf in jax.tree.leaves(outputs)), after

    outputs, _ = net.apply(params, state, x)
    gradient, after = jax.grad(total, has_aux=True)(params)
    with jax.numpy_dtype_promotion("standard"):  # as in training.py
        return outputs, (optimizer.update(gradient, optimizer.init(params), params), after)
