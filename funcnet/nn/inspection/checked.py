"""Checks that name the first module that gets an id out of range or creates a NaN. They work under `jit` too.

Compiled code cannot raise an error. A lookup with an id out of range returns NaN, and so does a fully masked row of
attention. Without checks, such a NaN is noticed only in the loss, many layers later. `nn.checked` registers hooks that
check every module, and JAX's `checkify` returns the results of the checks from the compiled function.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import checkify

from funcnet.nn.core.module_tree import Node, frame_of, values
from funcnet.nn.inspection.finite_flags import FLAGS, PROBES, describe_broken, zeros_like
from funcnet.nn.inspection.hooks import Hooks
from funcnet.tree import Params, PyTree, State

__all__ = ["IndexRange", "checked", "checking_hooks"]


class IndexRange(NamedTuple):
    """The integer indices that a module receives as an argument, such as token ids or class labels. Each index must be
    from 0 to `size` - 1, or equal to `ignored`.

    A layer that takes indices has a method ``index_range(*inputs) -> IndexRange | None``.
    """

    what: str  # "ids" or "target"
    indices: Any
    size: int
    ignored: int | None = None  # an index that is allowed and ignored


def checked(net: Node, loss: Callable[[Any], jax.Array] | None = None) -> Callable[..., Any]:
    """Return a compiled `net.apply` that raises an error if a module gets an index out of range or creates a NaN. If a
    loss is given, the backward pass is checked too. The checks are slow, so use them for debugging.

    Args:
        net: a description.
        loss: function that takes the net's output and returns a scalar. If `loss` is None, only the forward pass runs.

    Returns:
        a function ``run(params, state, *inputs, **kwargs) -> (out, state)``, which takes the arguments of `apply`,
        except `hooks`. The function is compiled once per input shape. If `net` changes, call `checked` again. If a loss
        is given, `run` returns (loss, gradients of params, state).

    Raises:
        ValueError: if a module gets ids or classes out of range, or returns NaN although its inputs, parameters and
            buffers have none. If a loss is given, ValueError is also raised if the loss, an output or a gradient is not
            finite. The returned function raises the error, and the message names the first module that fails.

    Example:
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Embedding(3, 2), nn.Linear(2, 2))
        >>> params, state = net.init(jax.random.key(0))
        >>> run = nn.checked(net)
        >>> run(params, state, jnp.array([0, 2]))[0].shape
        (2, 2)
        >>> run(params, state, jnp.array([0, 3]))
        Traceback (most recent call last):
        ValueError: 0 (Embedding): ids out of range; expected values from 0 to 2, got values from 0 to 3. Check ...

        >>> net = nn.Sequential(nn.Linear(2, 1), nn.Softplus())
        >>> params, state = net.init(jax.random.key(0))
        >>> step = nn.checked(net, lambda y: jnp.sqrt(y - y).sum())  # the derivative of a root at 0
        >>> step(params, state, jnp.ones((3, 2)))
        Traceback (most recent call last):
        ValueError: nn.checked: backward: the gradient of the output of '1' is the first that is not finite; look at ...

    To check your own train step, pass ``hooks=nn.checking_hooks()`` to its `net.apply`. Then get the errors from the
    compiled step: ``error, out = jax.jit(checkify.checkify(step))(…); error.throw()``.

    Reference: https://docs.jax.dev/en/latest/debugging/checkify_guide.html
    """
    hooks = checking_hooks()

    @functools.partial(jax.jit, static_argnums=0)
    def compiled(how: tuple[Any, ...], params: Params, state: State, arrays: list[Any]) -> Any:
        structure, fixed, training, method = how
        rest = iter(arrays)
        leaves = [next(rest) if leaf is _ARRAY else leaf for leaf in fixed]
        inputs, kwargs = jax.tree.unflatten(structure, leaves)
        training = dict(training) if isinstance(training, tuple) else training

        def run(params: Params, state: State) -> Any:
            return net.apply(params, state, *inputs, training=training, method=method, hooks=hooks, **kwargs)

        step = None if loss is None else _step(net, loss, inputs, {**kwargs, "training": training, "method": method})
        return checkify.checkify(run)(params, state), step and step(params, state)

    def run(
        params: Params,
        state: State,
        *inputs: PyTree,
        training: bool | Mapping[str, bool] = False,
        method: str | None = None,
        **kwargs: object,
    ) -> Any:
        leaves, structure = jax.tree.flatten((inputs, kwargs))
        fixed = tuple(_ARRAY if hasattr(leaf, "dtype") else leaf for leaf in leaves)
        patterns = tuple(training.items()) if isinstance(training, Mapping) else training
        arrays = [leaf for leaf in leaves if hasattr(leaf, "dtype")]
        (error, out), step = compiled((structure, fixed, patterns, method), params, state, arrays)
        said = error.get()
        if said is not None:
            raise ValueError(said.split(" (`check` failed)")[0])
        if step is None:
            return out
        value, gradients, state, flags = step
        flags = jax.device_get(flags)
        is_finite = all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves((value, gradients)))
        if not is_finite or any(flag[..., 0].any() for flag in jax.tree.leaves(flags)):
            raise ValueError(f"nn.checked: {describe_broken(*flags)}.")
        return value, gradients, state

    return run


def _step(
    net: Node, loss: Callable[[Any], jax.Array], inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Callable[[Any, Any], Any]:
    """Return a function that runs the net forward and backward, and flags outputs and gradients that are not finite.

    The function is `step(params, state) -> (loss, gradients, state, (flags of outputs, flags of their gradients))`.
    """

    def run(params: Params, probes: PyTree, state: State) -> Any:
        out, state = net.apply({**params, PROBES: probes}, state, *inputs, **kwargs)
        flags = state.pop(FLAGS)
        return loss(out), (state, flags)

    def step(params: Params, state: State) -> Any:
        _, (_, flags) = jax.eval_shape(run, params, {}, state)
        (value, (state, forward)), (gradients, backward) = jax.value_and_grad(run, (0, 1), has_aux=True)(
            params, zeros_like(flags), state
        )
        return value, gradients, state, (forward, backward)

    return step


_ARRAY = "an array stands here"


def checking_hooks() -> Hooks:
    """Return hooks that check the ids and outputs of every module. Use these hooks only inside `checkify.checkify`.

    Returns:
        A `Hooks` for the argument `hooks` of `apply`. A failed check does not raise an error, because compiled code
        cannot. The error that `checkify` returns has the message, and its method `throw` raises it.

    Example:
        >>> from funcnet import nn
        >>> net = nn.Embedding(3, 2)
        >>> params, state = net.init(jax.random.key(0))
        >>> def total(params, ids):
        ...     return net.apply(params, state, ids, hooks=nn.checking_hooks())[0].sum()
        >>> error, _ = jax.jit(checkify.checkify(total))(params, jnp.array([0, 3]))
        >>> print(error.get())
        the root (Embedding): ids out of range; expected values from 0 to 2, got values from 0 to 3. Check ...
    """
    hooks = Hooks()
    hooks.register_module_forward_hook(_look, with_kwargs=True)
    return hooks


def _look(module: Node, args: tuple[Any, ...], kwargs: dict[str, Any], output: PyTree) -> None:
    where = frame_of(module).where().replace("{", "{{").replace("}", "}}")
    found = _index_range(module, args, kwargs)
    if found is not None and found.indices.size:
        indices, last = found.indices, found.size - 1
        wrong = (indices < 0) | (indices > last)
        if found.ignored is not None:
            wrong &= indices != found.ignored
        checkify.check(
            ~wrong.any(),
            f"{where}: {found.what} out of range; expected values from 0 to {last}, got values from {{low}} to "
            "{high}. Check the vocabulary size or the number of classes. Negative ids do not count from the end.",
            low=indices.min(),
            high=indices.max(),
        )
    before = _nan((args, kwargs, values(module)))
    checkify.check(
        before | ~_nan(output),
        f"{where}: the output contains NaN, but the inputs, parameters and buffers do not; expected no NaN. Look for a "
        "fully masked row, a logarithm or root of a negative number, or an overflow in an earlier operation.",
    )


def _nan(values: PyTree) -> jax.Array:
    """Return whether any floating array among the values contains NaN."""
    found = jnp.zeros((), bool)
    for leaf in jax.tree.leaves(values):
        if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact):
            found |= jnp.isnan(leaf).any()
    return found


def _index_range(module: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> IndexRange | None:
    """Return the `IndexRange` of a module for the arguments of its call, or None if the module checks no indices."""
    if not hasattr(module, "index_range"):
        return None
    inputs = inspect.signature(module.forward).bind(*args, **kwargs).args  # without keyword-only arguments
    found = module.index_range(*inputs)
    return None if found is None else found._replace(indices=jnp.asarray(found.indices))
