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
from typing import Any

import jax
import optax

from funcnet import nn, tree
from funcnet.sklearn.networks import MLP

__all__ = ["OPTIMIZERS", "Blueprint", "check_names", "prefixed"]

PREFIXES = ("module__", "optimizer__")
OPTIMIZERS = {name: getattr(optax, name) for name in ("adagrad", "adam", "adamw", "nadam", "radam", "rmsprop", "sgd")}


def prefixed(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the module and of the optimizer among the attributes of an estimator."""
    return {name: value for name, value in attributes.items() if name.startswith(PREFIXES)}


def check_names(where: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise a ValueError for a parameter that is neither known nor one of the module or of the optimizer."""
    known = list(known)
    for name in names:
        if name not in known and not name.startswith(PREFIXES):
            raise ValueError(
                f"{where}: unknown parameter {name!r}; expected one of {_nearest(name, known)}, or a parameter of the "
                "module (module__NAME) or of the optimizer (optimizer__NAME)."
            )


def _nearest(name: str, known: Iterable[str]) -> str:
    known = list(known)
    return ", ".join(difflib.get_close_matches(name, known, n=3, cutoff=0.3) or known)


@dataclasses.dataclass(frozen=True)
class Blueprint:
    """How the net and the optimizer of an estimator are made.

    Attributes:
        module: a class of nets, or a function that returns a net.
        optimizer: function `optimizer(learning_rate, **parameters)` that returns an optax transformation.
        key: what tells blueprints of different programs apart: names, types and values of the fixed parameters.
        fixed: the parameters that are part of the program, as sorted pairs (name, value).
        values: {name: float}, the parameters that the program reads.
    """

    module: Callable[..., nn.Module]
    optimizer: Callable[..., optax.GradientTransformation]
    key: Any
    fixed: tuple[tuple[str, Any], ...] = dataclasses.field(compare=False)
    values: Mapping[str, float] = dataclasses.field(compare=False)

    @classmethod
    def of(cls, estimator: Any, features: int, outputs: int, example: jax.ShapeDtypeStruct) -> "Blueprint":
        """Return the blueprint of an estimator.

        Args:
            estimator: a `Classifier` or a `Regressor`.
            features: number of features in the data. The net gets it as `in_features`, if its constructor has this
                argument and the estimator has no parameter `module__in_features`.
            outputs: number of outputs that the data need, in the same way for `out_features`.
            example: shape and dtype of inputs.

        Raises:
            ValueError: if a parameter has an unknown name.
            TypeError, ValueError: if the net or the optimizer does not accept a value.
        """
        where = type(estimator).__name__
        module = MLP if estimator.module is None else estimator.module
        optimizer = OPTIMIZERS.get(estimator.optimizer) if isinstance(estimator.optimizer, str) else estimator.optimizer
        if optimizer is None:
            raise ValueError(
                f"{where}: unknown optimizer; expected {', '.join(OPTIMIZERS)}, or a function of the learning rate, "
                f"got {estimator.optimizer!r}."
            )
        given = {**prefixed(vars(estimator)), "lr": estimator.lr}
        accepted = inspect.signature(module).parameters
        for name, size in (("in_features", features), ("out_features", outputs)):
            if name in accepted:
                given.setdefault(f"module__{name}", size)
        _check_arguments(where, module, "module__", given)
        _check_arguments(where, optimizer, "optimizer__", given)
        floats = {name: float(value) for name, value in given.items() if isinstance(value, numbers.Real)
                  and not isinstance(value, numbers.Integral)}  # fmt: skip
        cls(module, optimizer, None, tuple(sorted(given.items())), {}).net(
            {}
        )  # the constructor's own checks of its values
        others = tuple((name, value) for name, value in sorted(given.items()) if name not in floats)
        blueprint = cls(module, optimizer, _frozen(others), others, {})
        search = _traceable if _is_hashable(blueprint) else _traceable.__wrapped__
        traced = search(blueprint, tuple(sorted(floats)), example.shape, example.dtype)
        fixed = tuple((name, value) for name, value in sorted(given.items()) if name not in traced)
        return cls(module, optimizer, _frozen(fixed), fixed, {name: floats[name] for name in traced})

    def net(self, values: Mapping[str, Any]) -> nn.Module:
        """Return the net. `values` are the values that the program reads, also traced."""
        return self.module(**self._arguments("module__", values))

    def transformation(self, values: Mapping[str, Any]) -> optax.GradientTransformation:
        """Return the optimizer, likewise."""
        lr = {**dict(self.fixed), **values}["lr"]
        return self.optimizer(lr, **self._arguments("optimizer__", values))

    def output_shape(self, example: jax.ShapeDtypeStruct) -> tuple[int, ...]:
        """Return the shape of the outputs for inputs like `example`."""
        find = _output_shape if _is_hashable(self) else _output_shape.__wrapped__
        return find(self, tuple(sorted(self.values.items())), example.shape, example.dtype)

    def _arguments(self, prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
        both = {**dict(self.fixed), **values}
        return {name.removeprefix(prefix): value for name, value in both.items() if name.startswith(prefix)}


def _check_arguments(where: str, function: Callable[..., Any], prefix: str, given: Iterable[str]) -> None:
    """Raise a ValueError for a parameter that a module or an optimizer does not have."""
    accepted = inspect.signature(function).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in accepted.values()):
        return
    known = [prefix + name for name in accepted if name != "learning_rate"]
    for name in given:
        if name.startswith(prefix) and name not in known:
            raise ValueError(
                f"{where}: unknown parameter {name!r}; expected one of {_nearest(name, known)}, which are arguments of "
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
