"""Initialisers, as in torch.nn.init.

An *init* is a function that is called as ``init(key, shape, dtype)`` and returns an array of initial values. A function
with a trailing underscore, such as `normal_`, replaces the init of a parameter. A function without a trailing
underscore, such as `normal`, returns an init:

    nn.init.normal_(self.weight, std=0.02)          # in a constructor, as in torch
    nn.Parameter((3, 4), nn.init.normal(std=0.02))  # the same

The shapes of weights are in torch's order, (out, in, *kernel). The random numbers come from JAX, so the distributions
are those of torch but the drawn values differ. U(±a) is the uniform distribution from -a to a.

Reference: https://docs.pytorch.org/docs/stable/nn.init.html
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax

from funcnet.nn.init import arrays
from funcnet.nn.init.arrays import calculate_gain, fans

Init = Callable[[jax.Array, tuple[int, ...], Any], jax.Array]
"""The type of an init: a function of a key, a shape and a dtype, which returns an array."""

__all__ = [
    "Init",
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "fans",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros",
    "zeros_",
]


def uniform(a: float = 0.0, b: float = 1.0) -> Init:
    """Return an init that draws from U(a, b).

    Example:
        >>> uniform(-1, 1)(jax.random.key(0), (2, 3), "float32").shape
        (2, 3)

    Reference: torch.nn.init.uniform_.
    """
    return functools.partial(arrays.uniform, a=a, b=b)


def normal(mean: float = 0.0, std: float = 1.0) -> Init:
    """Return an init that draws from N(mean, std²).

    Example:
        >>> bool(normal(mean=5, std=0.1)(jax.random.key(0), (4,), "float32").mean() > 4)
        True

    Reference: torch.nn.init.normal_.
    """
    return functools.partial(arrays.normal, mean=mean, std=std)


def trunc_normal(mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Init:
    """Return an init that draws from N(mean, std²) truncated to [a, b].

    As in torch, the bounds a and b are absolute, not multiples of std.

    Example:
        >>> weight = trunc_normal(std=0.02, a=-0.04, b=0.04)(jax.random.key(0), (100, 100), "float32")
        >>> bool(abs(weight).max() <= 0.04)
        True

    Reference: torch.nn.init.trunc_normal_.
    """
    return functools.partial(arrays.trunc_normal, mean=mean, std=std, a=a, b=b)


def constant(val: float) -> Init:
    """Return an init that fills the array with `val`.

    Example:
        >>> constant(0.5)(jax.random.key(0), (2,), "float32")
        Array([0.5, 0.5], dtype=float32)

    Reference: torch.nn.init.constant_.
    """
    return functools.partial(arrays.constant, val=val)


def is_constant(init: object) -> bool:
    """Return whether an init fills the array with one number, as `constant`, `ones` and `zeros` do."""
    return isinstance(init, functools.partial) and init.func is arrays.constant


def ones() -> Init:
    """Return an init that fills the array with ones.

    Example:
        >>> ones()(jax.random.key(0), (2,), "float32")
        Array([1., 1.], dtype=float32)

    Reference: torch.nn.init.ones_.
    """
    return constant(1.0)


def zeros() -> Init:
    """Return an init that fills the array with zeros.

    Example:
        >>> zeros()(jax.random.key(0), (2,), "float32")
        Array([0., 0.], dtype=float32)

    Reference: torch.nn.init.zeros_.
    """
    return constant(0.0)


def eye() -> Init:
    """Return an init that creates the identity matrix.

    The init raises ValueError for a shape that is not 2-D.

    Example:
        >>> eye()(jax.random.key(0), (2, 3), "float32")
        Array([[1., 0., 0.],
               [0., 1., 0.]], dtype=float32)

    Reference: torch.nn.init.eye_.
    """
    return arrays.eye


def dirac(groups: int = 1) -> Init:
    """Return an init of convolution weights with which a convolution copies as many input channels as possible.

    The init raises ValueError if the shape has fewer than 3 or more than 5 dimensions, or if `groups` does not divide
    the number of output channels.

    Example:
        >>> dirac()(jax.random.key(0), (2, 2, 3), "float32")
        Array([[[0., 1., 0.],
                [0., 0., 0.]],
        <BLANKLINE>
               [[0., 0., 0.],
                [0., 1., 0.]]], dtype=float32)

    Reference: torch.nn.init.dirac_.
    """
    return functools.partial(arrays.dirac, groups=groups)


def xavier_uniform(gain: float = 1.0) -> Init:
    """Return an init that draws from U(±gain·√(6/(fan_in + fan_out))). See `fans`.

    Example:
        >>> weight = xavier_uniform()(jax.random.key(0), (2, 4), "float32")  # fan_in 4, fan_out 2
        >>> bool(abs(weight).max() <= 1)
        True

    Reference: torch.nn.init.xavier_uniform_; Glorot & Bengio, 2010, https://proceedings.mlr.press/v9/glorot10a.html.
    """
    return functools.partial(arrays.xavier_uniform, gain=gain)


def xavier_normal(gain: float = 1.0) -> Init:
    """Return an init that draws from N(0, gain²·2/(fan_in + fan_out)). See `fans`.

    Example:
        >>> weight = xavier_normal(gain=2)(jax.random.key(0), (300, 500), "float32")
        >>> round(float(weight.std()), 2)
        0.1

    Reference: torch.nn.init.xavier_normal_; Glorot & Bengio, 2010, https://proceedings.mlr.press/v9/glorot10a.html.
    """
    return functools.partial(arrays.xavier_normal, gain=gain)


def kaiming_uniform(a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Init:
    """Return an init that draws from U(±√3·gain/√fan), with gain the result of `calculate_gain`.

    Args:
        a: negative slope of leaky_relu, which `calculate_gain` uses.
        mode: which result of `fans` is used as fan, 'fan_in' or 'fan_out'.
        nonlinearity: name for `calculate_gain`.

    Example:
        >>> weight = kaiming_uniform(nonlinearity="relu")(jax.random.key(0), (5, 6), "float32")  # fan_in 6
        >>> bool(abs(weight).max() <= 1)
        True

    Reference: torch.nn.init.kaiming_uniform_; He et al., 2015, https://arxiv.org/abs/1502.01852.
    """
    return functools.partial(arrays.kaiming_uniform, a=a, mode=mode, nonlinearity=nonlinearity)


def kaiming_normal(a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Init:
    """Return an init that draws from N(0, gain²/fan), with gain the result of `calculate_gain`.

    Args:
        a, mode, nonlinearity: as in `kaiming_uniform`.

    Example:
        >>> weight = kaiming_normal(nonlinearity="relu")(jax.random.key(0), (500, 200), "float32")
        >>> round(float(weight.std()), 2)
        0.1

    Reference: torch.nn.init.kaiming_normal_; He et al., 2015, https://arxiv.org/abs/1502.01852.
    """
    return functools.partial(arrays.kaiming_normal, a=a, mode=mode, nonlinearity=nonlinearity)


def orthogonal(gain: float = 1) -> Init:
    """Return an init that creates a (semi-)orthogonal matrix times `gain`. All dimensions of the shape after the first
    are flattened into the columns of the matrix.

    The init raises ValueError for a shape of fewer than two dimensions.

    Example:
        >>> weight = orthogonal()(jax.random.key(0), (2, 3), "float32")
        >>> (weight @ weight.T).round(3) + 0.0  # + 0.0 turns -0 into 0
        Array([[1., 0.],
               [0., 1.]], dtype=float32)

    Reference: torch.nn.init.orthogonal_; Saxe et al., 2013, https://arxiv.org/abs/1312.6120.
    """
    return functools.partial(arrays.orthogonal, gain=gain)


def sparse(sparsity: float, std: float = 0.01) -> Init:
    """Return an init that draws from N(0, std²) and sets a fraction `sparsity` of each column to 0.

    The init raises ValueError for a shape that is not 2-D.

    Example:
        >>> weight = sparse(0.5)(jax.random.key(0), (4, 3), "float32")
        >>> (weight == 0).sum(0)
        Array([2, 2, 2], dtype=int32)

    Reference: torch.nn.init.sparse_; Martens, 2010, https://www.cs.toronto.edu/~jmartens/docs/Deep_HessianFree.pdf.
    """
    return functools.partial(arrays.sparse, sparsity=sparsity, std=std)


def _replace(
    make: Callable[..., Init], name: str, example: tuple[str, str, str], random: bool = True
) -> Callable[..., Any]:
    """Return the function `name`, which replaces the init of a parameter with the result of `make`.

    Args:
        make: function that returns the init.
        name: name of the function.
        example: the example in the docstring of the function: arguments, an expression of the `weight` of a layer, and
            the value of the expression.
        random: whether the function accepts torch's argument `generator`, which it ignores.
    """
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    first = inspect.Parameter("tensor", either)
    last = [inspect.Parameter("generator", either, default=None)] if random else []
    signature = inspect.Signature([first, *inspect.signature(make).parameters.values(), *last])

    def in_place(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        tensor = given.pop("tensor")
        given.pop("generator", None)
        if not hasattr(tensor, "init") or hasattr(tensor, "named_parameters"):
            raise TypeError(
                f"init.{name}: expected the description of a parameter, got {type(tensor).__name__}. Arrays cannot "
                f"change in place, so call nn.init.{name.rstrip('_')}(…)(key, shape, dtype) for a new array."
            )
        tensor.init = make(**given)
        return tensor

    in_place.__name__ = in_place.__qualname__ = name
    in_place.__signature__ = signature  # type: ignore[attr-defined]
    given, shown, value = example
    layer = "nn.Conv1d(2, 2, 3)" if name == "dirac_" else "nn.Linear(100, 50)"
    in_place.__doc__ = f"""Replace the init of a description with `{name.rstrip("_")}(…)`, and return the description.

    Args:
        tensor: the description of a parameter, such as `layer.weight`. The other arguments are those of
            `{name.rstrip("_")}`.{" `generator` is ignored." if random else ""}

    Raises:
        TypeError: if `tensor` is an array or a module.

    Example:
        >>> from funcnet import nn
        >>> layer = {layer}
        >>> _ = nn.init.{name}(layer.weight{given and ", " + given})
        >>> weight = layer.init(jax.random.key(0))[0]["weight"]
        >>> {shown}
        {value}

    Reference: torch.nn.init.{name}.
    """
    return in_place


uniform_ = _replace(uniform, "uniform_", ("-0.1, 0.1", "round(float(weight.max()), 2)", "0.1"))
normal_ = _replace(normal, "normal_", ("std=0.02", "round(float(weight.std()), 2)", "0.02"))
trunc_normal_ = _replace(trunc_normal, "trunc_normal_", ("a=-0.5, b=0.5", "round(float(weight.max()), 2)", "0.5"))
constant_ = _replace(constant, "constant_", ("0.5", "float(weight[0, 0])", "0.5"), random=False)
ones_ = _replace(ones, "ones_", ("", "float(weight[0, 0])", "1.0"), random=False)
zeros_ = _replace(zeros, "zeros_", ("", "float(weight[0, 0])", "0.0"), random=False)
eye_ = _replace(eye, "eye_", ("", "float(weight[0, 0]), float(weight[0, 1])", "(1.0, 0.0)"), random=False)
dirac_ = _replace(dirac, "dirac_", ("", "weight[0].tolist()", "[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]"), random=False)
xavier_uniform_ = _replace(xavier_uniform, "xavier_uniform_", ("gain=2", "round(float(weight.max()), 2)", "0.4"))
xavier_normal_ = _replace(xavier_normal, "xavier_normal_", ("", "round(float(weight.std()), 2)", "0.12"))
kaiming_uniform_ = _replace(
    kaiming_uniform, "kaiming_uniform_", ("nonlinearity='relu'", "round(float(weight.max()), 2)", "0.24")
)
kaiming_normal_ = _replace(
    kaiming_normal, "kaiming_normal_", ("nonlinearity='relu'", "round(float(weight.std()), 2)", "0.14")
)
orthogonal_ = _replace(orthogonal, "orthogonal_", ("gain=2", "round(float((weight @ weight.T)[0, 0]), 2)", "4.0"))
sparse_ = _replace(sparse, "sparse_", ("0.5", "int((weight == 0).sum())", "2500"))
