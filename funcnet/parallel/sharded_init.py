"""Initialisation of arrays where they are stored: each device draws only its own part of each array."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.extend.core import Jaxpr, JaxprEqn, Literal, jaxprs_in_params
from jax.typing import DTypeLike

from funcnet.parallel.layout import Layout

__all__ = ["ShardedInit"]

THREEFRY = "key<fry>"
# By default, XLA for CPU computes arrays at the same time if they do not depend on each other. Drawing all leaves at
# the same time would take four times the memory of the parameters. (On a GPU, a leaf is drawn by one kernel.)
ONE_AT_A_TIME = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
CALLS = ("closed_call", "custom_jvp_call", "custom_vjp_call", "jit", "pjit")
# Primitives that compute each entry of their outputs from a few given entries of their inputs, always with the same
# operations. An array that is computed with these alone has the same bits, however it is divided.
SEPARABLE = frozenset({
    *("abs", "add", "and", "bitcast_convert_type", "broadcast_in_dim", "ceil", "clamp", "concatenate"),
    *("convert_element_type", "copy", "copy_p", "cos", "div", "dynamic_slice", "dynamic_update_slice", "eq", "erf"),
    *("erf_inv", "erfc", "exp", "exp2", "expand_dims", "expm1", "floor", "ge", "gt", "integer_pow", "iota"),
    *("is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "nextafter", "not", "or"),
    *("pad", "pow", "random_bits", "random_clone", "random_fold_in", "random_seed", "random_split", "random_unwrap"),
    *("random_wrap", "rem", "rev", "round", "rsqrt", "scatter", "select_n", "shift_left"),
    *("shift_right_arithmetic", "shift_right_logical", "sign", "sin", "slice", "split", "sqrt", "square", "squeeze"),
    *("stack", "stop_gradient", "sub", "tan", "tanh", "transpose", "xor"),
})  # fmt: skip


class ShardedInit:
    """Initialises arrays such that each device computes and stores only its part of each array.

    The values have the same bits as those of `jax.jit(init)(key)`, on every mesh. An array is computed in parts if each
    of its entries depends only on the key and on its position. An array whose entries depend on each other, such as an
    orthogonal matrix, would be rounded differently in parts. Such arrays are computed on one device and then sharded.
    An array that `init` changes at an index (`x.at[index].set(y)`, or `nn.init.zeros_(weight[:10])`) is gathered on
    each device while it is computed; `jnp.where` with a mask computes it in parts.

    Args:
        init: a pure function of a key, such as `net.init`, that returns a pytree of arrays.
        layout: the layout of these arrays, such as `make_layout(…).for_net(net)`.

    Example:
        >>> from funcnet import nn
        >>> from funcnet.parallel import make_layout
        >>> net = nn.Linear(64, 1024)
        >>> params, state = ShardedInit(net.init, make_layout("fsdp=8").for_net(net))(jax.random.key(0))
        >>> params["weight"].addressable_shards[0].data.shape
        (1024, 8)
        >>> bool((params["weight"] == net.init(jax.random.key(0))[0]["weight"]).all())
        True
    """

    def __init__(self, init: Callable[[jax.Array], Any], layout: Layout):
        self.init, self.layout = init, layout
        self._programs = functools.cache(self._compile)

    def __call__(self, key: jax.Array) -> Any:
        """Return the arrays for a key, placed on the devices. The first call compiles.

        Raises:
            ValueError: see `Layout.shardings`.
        """
        programs = self._programs(key.dtype)
        drawn = iter(programs.parts(self.layout.place(key)) if any(programs.in_parts) else ())
        others = iter(() if all(programs.in_parts) else programs.whole(key))
        leaves = [
            next(drawn) if is_part else self.layout.place(next(others), sharding)
            for is_part, sharding in zip(programs.in_parts, programs.shardings, strict=True)
        ]
        return jax.tree.unflatten(programs.structure, leaves)

    def lower(self, key: jax.Array) -> list[jax.stages.Lowered]:
        """Return the programs that a call runs: first the program that all devices run, which computes the arrays in
        parts, and then the program of one device. A program without outputs is left out. `memory_analysis()` of a
        compiled program returns the memory that a device needs.
        """
        programs = self._programs(key.dtype)
        found = [programs.parts.lower(self.layout.place(key))] if any(programs.in_parts) else []
        return found if all(programs.in_parts) else [*found, programs.whole.lower(key)]

    def _compile(self, dtype: DTypeLike) -> "_Programs":
        traced, shapes = jax.make_jaxpr(self.init, return_shape=True)(jax.ShapeDtypeStruct((), dtype))
        shardings, structure = jax.tree.flatten(self.layout.shardings(shapes))
        devices = self.layout.mesh.devices
        if devices.size == 1 or all(sharding.is_fully_replicated for sharding in shardings):
            in_parts = [devices.size == 1] * len(shardings)  # one device draws, and the others get copies
        else:
            in_parts = _separable(traced.jaxpr)

        def leaves(key: jax.Array, *, parts: bool) -> list[jax.Array]:
            both = zip(jax.tree.leaves(self.init(key)), in_parts, strict=True)
            return [leaf for leaf, is_part in both if is_part == parts]

        parts = jax.jit(
            functools.partial(leaves, parts=True),
            out_shardings=[sharding for sharding, is_part in zip(shardings, in_parts, strict=True) if is_part],
            compiler_options=ONE_AT_A_TIME if devices.flat[0].platform == "cpu" else None,
        )
        return _Programs(in_parts, parts, jax.jit(functools.partial(leaves, parts=False)), shardings, structure)


class _Programs(NamedTuple):
    """Compiled programs of an initialisation."""

    in_parts: list[bool]  # for each leaf, whether it is computed in parts
    parts: Any  # computes the leaves for which `in_parts` is True
    whole: Any  # computes the other leaves on one device
    shardings: list[Any]
    structure: Any


def _separable(jaxpr: Jaxpr) -> list[bool]:
    """Return for each output of a program whether it can be computed in parts with the same bits."""
    mixed: set[Any] = set()
    for equation in jaxpr.eqns:
        given = [not isinstance(variable, Literal) and variable in mixed for variable in equation.invars]
        if any(given) or not _keeps_bits(equation):
            mixed.update(equation.outvars)
    return [isinstance(variable, Literal) or variable not in mixed for variable in jaxpr.outvars]


def _keeps_bits(equation: JaxprEqn) -> bool:
    name = equation.primitive.name
    if name == "random_bits":
        return str(_type_of(equation.invars[0]).dtype) == THREEFRY
    if name in CALLS:
        inner = list(jaxprs_in_params(equation.params))
        return all(_keeps_bits(one) for jaxpr in inner for one in jaxpr.eqns)
    if name == "reshape":  # of a flat array: XLA computes the whole array, and may round it in another way
        return _type_of(equation.invars[0]).shape[:1] == _type_of(equation.outvars[0]).shape[:1]
    return name in SEPARABLE


def _type_of(variable: Any) -> Any:
    return variable.aval
