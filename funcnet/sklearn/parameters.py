"""The parameters of an estimator: which of them are values that a compiled program reads, and which are part of it.

A parameter with a float, such as a learning rate or a dropout rate, is a value: one program serves all of its values.
All other parameters, such as a number of units, are part of the program. So is a float with which the constructor of
the net computes, for example to find a shape.
"""

import dataclasses
import difflib
import functools
import inspect
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import jax
import optax

from funcnet import nn, tree
from funcnet.sklearn.networks import MLP

__all__ = ["Blueprint", "ModuleMaker", "NetMaker", "check_arguments", "check_names", "nearest", "without_prefix"]

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
    def of(cls, where: str, module: Callable[..., nn.Module] | None, optimizer: Any) -> "ModuleMaker":
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
    """How the net and the optimizer of an estimator are made.

    Attributes:
        maker: makes both.
        key: what tells blueprints of different programs apart: names, types and values of the fixed parameters.
        fixed: the parameters that are part of the program, as sorted pairs (name, value).
        values: {name: float}, the parameters that the program reads.
    """

    maker: NetMaker
    key: Any
    fixed: tuple[tuple[str, Any], ...] = dataclasses.field(compare=False)
    values: Mapping[str, float] = dataclasses.field(compare=False)

    @classmethod
    def of(cls, maker: NetMaker, given: Given, example: jax.ShapeDtypeStruct) -> "Blueprint":
        """Return the blueprint for some parameters.

        Args:
            maker: makes the net and the optimizer.
            given: the parameters.
            example: shape and dtype of inputs.

        Raises:
            TypeError, ValueError: if the net or the optimizer does not accept a value.
        """
        floats = {name: float(value) for name, value in given.items() if isinstance(value, numbers.Real)
                  and not isinstance(value, numbers.Integral)}  # fmt: skip
        maker.net(given)  # the constructor's own checks of its values
        others = tuple((name, value) for name, value in sorted(given.items()) if name not in floats)
        blueprint = cls(maker, _frozen(others), others, {})
        search = _traceable if _is_hashable(blueprint) else _traceable.__wrapped__
        traced = search(blueprint, tuple(sorted(floats)), example.shape, example.dtype)
        fixed = tuple((name, value) for name, value in sorted(given.items()) if name not in traced)
        return cls(maker, _frozen(fixed), fixed, {name: floats[name] for name in traced})

    def net(self, values: Given) -> nn.Module:
        """Return the net. `values` are the values that the program reads, also traced."""
        return self.maker.net(self.given(values))

    def transformation(self, values: Given) -> optax.GradientTransformation:
        """Return the optimizer, likewise."""
        return self.maker.transformation(self.given(values))

    def given(self, values: Given) -> dict[str, Any]:
        """Return all parameters."""
        return {**dict(self.fixed), **values}

    def output_shape(self, example: jax.ShapeDtypeStruct) -> tuple[int, ...]:
        """Return the shape of the outputs for inputs like `example`."""
        find = _output_shape if _is_hashable(self) else _output_shape.__wrapped__
        return find(self, tuple(sorted(self.values.items())), example.shape, example.dtype)


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


def _frozen(value: Any) -> Any:
    """Return a form of a value that can be hashed if the value can, and that tells 1, 1.0 and True apart."""
    if isinstance(value, list | tuple):
        return type(value), tuple(map(_frozen, value))
    if isinstance(value, dict):
        return dict, tuple((_frozen(key), _frozen(one)) for key, one in value.items())
    return type(value), value


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


@functools.lru_cache(maxsize=256)
def _output_shape(blueprint: Blueprint, values: Any, shape: tuple[int, ...], dtype: Any) -> tuple[int, ...]:
    def outputs(x: jax.Array) -> Any:
        net = blueprint.net(dict(values))
        return net.apply(*tree.cast(net.init(jax.random.key(0)), dtype), x)[0]

    return tuple(jax.eval_shape(outputs, jax.ShapeDtypeStruct(shape, dtype)).shape)


@functools.lru_cache(maxsize=256)
def _traceable(blueprint: Blueprint, names: tuple[str, ...], shape: tuple[int, ...], dtype: Any) -> list[str]:
    """Return the names of the floats with which the net and the optimizer can be traced. The others are part of the
    program.
    """
    example = jax.ShapeDtypeStruct(shape, dtype)

    def traces(chosen: Iterable[str]) -> bool:
        # Any number will do for the others.
        given = {name: jax.ShapeDtypeStruct((), dtype) if name in chosen else 0.5 for name in names}
        traced = {name: value for name, value in given.items() if name in chosen}
        others = {name: value for name, value in given.items() if name not in chosen}
        try:
            jax.eval_shape(lambda values, x: _once(blueprint, {**values, **others}, x), traced, example)
        except Exception:  # a constructor may raise anything for a tracer
            return False
        return True

    return list(names) if traces(names) else [name for name in names if traces([name])]


def _once(blueprint: Blueprint, values: Mapping[str, Any], x: jax.Array) -> Any:
    """Make one training step that minimises the sum of the outputs."""
    key = jax.random.key(0)
    net, optimizer = blueprint.net(values), blueprint.transformation(values)
    params, state = tree.cast(net.init(key), x.dtype)

    def total(params: tree.Tree) -> Any:
        outputs, _ = net.apply(params, state, x, training=True, rng=key)
        return sum(leaf.sum() for leaf in jax.tree.leaves(outputs))

    net.apply(params, state, x)  # evaluation may read other values
    with jax.numpy_dtype_promotion("standard"):  # as in training.py
        return optimizer.update(jax.grad(total)(params), optimizer.init(params), params)
