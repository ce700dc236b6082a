"""Checks that name the first module with an id out of range or a new NaN, also under `jit`.

Compiled code cannot raise an error. An id out of range reads NaN, and a fully masked row of attention is NaN. Both
appear as a NaN loss many layers later. Here, hooks check every module, and `checkify` carries the result out of the
compiled function.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import checkify

from funcnet.nn.core.hooks import Hooks
from funcnet.nn.core.parts import frame_of, values

__all__ = ["IndexRange", "checked", "checking_hooks"]


class IndexRange(NamedTuple):
    """The indices among a module's arguments. They must be between 0 and `size` - 1.

    A layer that takes indices has a method ``index_range(*inputs) -> IndexRange | None``.
    """

    what: str  # "ids" or "target"
    indices: Any
    size: int
    ignored: int | None = None  # an index that is allowed and ignored


def checked(net: Any) -> Callable[..., Any]:
    """Return a compiled `net.apply` that raises an error at the first faulty module. It is slow, and intended for
    debugging.

    Args:
        net: a description.

    Returns:
        ``run(params, state, *inputs, **kwargs) -> (out, state)`` with `apply`'s arguments, except `hooks`. It compiles
        once per input shape. After a change of the description, call `checked` again.

    Raises:
        ValueError: if a module gets ids or classes out of range, or returns NaN although its inputs, parameters and
            buffers have none. The returned function raises the error, which names the first such module.

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

    To check your own train step, pass ``hooks=nn.checking_hooks()`` to its `net.apply`, and lift the errors out of it:
    ``error, out = jax.jit(checkify.checkify(step))(…); error.throw()``.

    Reference: https://docs.jax.dev/en/latest/debugging/checkify_guide.html
    """
    hooks = checking_hooks()

    @functools.partial(jax.jit, static_argnums=0)
    def compiled(how: Any, params: Any, state: Any, arrays: Any) -> Any:
        structure, fixed, training, method = how
        rest = iter(arrays)
        leaves = [next(rest) if leaf is _ARRAY else leaf for leaf in fixed]
        inputs, kwargs = jax.tree.unflatten(structure, leaves)
        training = dict(training) if isinstance(training, tuple) else training

        def run(params: Any, state: Any) -> Any:
            return net.apply(params, state, *inputs, training=training, method=method, hooks=hooks, **kwargs)

        return checkify.checkify(run)(params, state)

    def run(
        params: Any,
        state: Any,
        *inputs: Any,
        training: bool | Mapping[str, bool] = False,
        method: str | None = None,
        **kwargs: Any,
    ) -> Any:
        leaves, structure = jax.tree.flatten((inputs, kwargs))
        fixed = tuple(_ARRAY if hasattr(leaf, "dtype") else leaf for leaf in leaves)
        patterns = tuple(training.items()) if isinstance(training, Mapping) else training
        arrays = [leaf for leaf in leaves if hasattr(leaf, "dtype")]
        error, out = compiled((structure, fixed, patterns, method), params, state, arrays)
        said = error.get()
        if said is not None:
            raise ValueError(said.split(" (`check` failed)")[0])
        return out

    return run


_ARRAY = "an array stands here"


def checking_hooks() -> Hooks:
    """Return hooks that check the ids and outputs of every module. Use them only inside `checkify.checkify`."""
    hooks = Hooks()
    hooks.register_module_forward_hook(_look, with_kwargs=True)
    return hooks


def _look(module: Any, args: Any, kwargs: Any, output: Any) -> None:
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


def _nan(values: Any) -> jax.Array:
    """Return whether any floating array among the values has NaN."""
    found = jnp.zeros((), bool)
    for leaf in jax.tree.leaves(values):
        if hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact):
            found |= jnp.isnan(leaf).any()
    return found


def _index_range(module: Any, args: Any, kwargs: Any) -> IndexRange | None:
    """Return the module's `IndexRange` for these arguments, or None if the module defines none."""
    if not hasattr(module, "index_range"):
        return None
    inputs = inspect.signature(module.forward).bind(*args, **kwargs).args  # keyword-only ones are left out
    found = module.index_range(*inputs)
    return None if found is None else found._replace(indices=jnp.asarray(found.indices))
