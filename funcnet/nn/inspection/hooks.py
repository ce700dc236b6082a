"""Forward and backward hooks with the kinds, order and return values of torch. Hooks are an argument of `apply`, not
hidden state.

Constructors written for torch may also register hooks on a module (`registered_hooks.py`). Such hooks belong to the
module, and every `apply` runs them.

A `Hooks` is a pytree without leaves. If a `Hooks` is an ordinary argument of a jitted function, the function is traced
again when the set of hooks changes. Hooks run while JAX traces, so they see tracers. Use hooks to change values, and
use `nn.capture` to look at values. Backward hooks are implemented as identity functions around a module's inputs and
outputs, with custom backward rules.
"""

import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from funcnet import tree
from funcnet.nn.core.module_tree import Node, description_of
from funcnet.tree import PyTree

__all__ = ["OWN", "BoundHooks", "Hooks", "RemovableHandle"]

OWN = "_own_hooks"  # the attribute in which a module stores its own hooks

_FORWARD_PRE, _FORWARD, _BACKWARD_PRE, _BACKWARD = "forward pre", "forward", "full backward pre", "full backward"


class _Hook(NamedTuple):
    """One registered hook. Two hooks are never equal, even if they have the same function."""

    kind: str
    pattern: str | None  # None: every module
    fn: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    def name(self) -> str:
        scope = "every module" if self.pattern is None else repr(self.pattern)
        return f"{self.kind} hook {getattr(self.fn, '__name__', type(self.fn).__name__)!r} on {scope}"


class RemovableHandle:
    """The handle of a registered hook. Its method `remove()`, or the end of a `with` block, removes the hook.

    >>> hooks = Hooks()
    >>> hooks.register_module_forward_hook(print).remove()
    >>> hooks.registered
    ()
    """

    def __init__(self, hooks: Any, hook: Any):  # `hooks.registered` is a tuple of hooks
        self._hooks, self._hook = hooks, hook

    def remove(self) -> None:
        """Remove the hook. A second call of `remove` does nothing."""
        self._hooks.registered = tuple(h for h in self._hooks.registered if h is not self._hook)

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class Hooks:
    """A set of hooks for `net.apply(…, hooks=hooks)`.

    A pattern selects the modules that it names, but not their submodules ("" is the root). The first argument of a hook
    is the module. Forward hooks get the bound module, whose attributes are arrays. Backward hooks get the module's
    description, which has no arrays.

    - forward pre: ``fn(module, args)`` may return new args, or a single argument. With ``with_kwargs=True``,
      ``fn(module, args, kwargs)`` may return ``(args, kwargs)``;
    - forward: ``fn(module, args, output)`` or ``fn(module, args, kwargs, output)`` may return a new output;
    - full backward pre: ``fn(module, grad_output)`` may return a new grad_output;
    - full backward: ``fn(module, grad_input, grad_output)`` may return a new grad_input.

    grad_input and grad_output are tuples with one entry per positional argument or output. An entry is None if the
    value is not a floating array, is not used, or is not differentiated. Global hooks run first, and then the hooks
    with a name pattern, in the order of registration.

    Differs from torch: a hook is registered for a name pattern, and runs for all modules that match the pattern. If a
    hook returns a value of the wrong form, ValueError or TypeError is raised. With backward hooks, only reverse-mode
    differentiation works. Without backward hooks, forward mode works too.

    Under `jit`, pass the hooks as an argument: ``jax.jit(net.apply)(params, state, x, hooks=hooks)`` is traced again
    when the set changes. A function that closes over the hooks keeps the set with which it was traced.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from funcnet import nn
        >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        >>> params, state = net.init(jax.random.key(0))
        >>> hooks = nn.Hooks()
        >>> handle = hooks.register_forward_hook("0", lambda module, args, output: jnp.zeros_like(output))
        >>> y, _ = net.apply(params, state, jnp.ones((1, 2)), hooks=hooks)
        >>> bool((y == params["1"]["bias"]).all())
        True

    Reference: https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html
    """

    def __init__(self) -> None:
        self.registered: tuple[_Hook, ...] = ()

    def __hash__(self) -> int:
        raise TypeError(
            "Hooks: an nn.Hooks object is mutable, so it cannot be a static argument of jax.jit. Pass it as an "
            "ordinary argument. It is a pytree without leaves, and jax.jit traces the function again when hooks are "
            "added or removed."
        )

    def _add(self, hook: _Hook, prepend: bool = False) -> RemovableHandle:
        if not callable(hook.fn):
            raise TypeError(
                f"Hooks: the {hook.kind} hook is not callable; expected a function, got {type(hook.fn).__name__}."
            )
        self.registered = (hook, *self.registered) if prepend else (*self.registered, hook)
        return RemovableHandle(self, hook)

    def register_forward_pre_hook(
        self, pattern: str, fn: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Register `fn(module, args)` to run before the forward of the modules that `pattern` names."""
        return self._add(_Hook(_FORWARD_PRE, pattern, fn, with_kwargs), prepend)

    def register_forward_hook(
        self,
        pattern: str,
        fn: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Register `fn(module, args, output)` to run after forward, with `always_call` even if `forward` fails."""
        return self._add(_Hook(_FORWARD, pattern, fn, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(
        self, pattern: str, fn: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Register `fn(module, grad_output)` to run before the backward pass of the modules."""
        return self._add(_Hook(_BACKWARD_PRE, pattern, fn), prepend)

    def register_full_backward_hook(
        self, pattern: str, fn: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Register `fn(module, grad_input, grad_output)` to run after the backward pass of the modules."""
        return self._add(_Hook(_BACKWARD, pattern, fn), prepend)

    def register_module_forward_pre_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Register `fn(module, args)` to run before every module's forward and before the module's own hooks."""
        return self._add(_Hook(_FORWARD_PRE, None, fn))

    def register_module_forward_hook(
        self, fn: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Register `fn(module, args, output)` to run after every module's forward but before the module's own hooks."""
        return self._add(_Hook(_FORWARD, None, fn, with_kwargs, always_call))

    def register_module_full_backward_pre_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Register `fn(module, grad_output)` to run before the backward pass of every module."""
        return self._add(_Hook(_BACKWARD_PRE, None, fn))

    def register_module_full_backward_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Register `fn(module, grad_input, grad_output)` to run after the backward pass of every module."""
        return self._add(_Hook(_BACKWARD, None, fn))

    def bound(self, names: Iterable[str], where: str) -> "BoundHooks":
        """Match the name patterns of the hooks, and return the hooks of each module in `names`.

        Raises:
            ValueError: if a pattern names no module, or a single layer of a stack.
        """
        names = list(names)
        everywhere = [hook for hook in self.registered if hook.pattern is None]
        own = {name: list(everywhere) for name in names}
        for hook in self.registered:
            if hook.pattern is not None:
                for name in tree.select(hook.pattern, names, covers=False, where=where):
                    own[name].append(hook)
        return BoundHooks(own, everywhere)


def _unflatten(hooks: tuple[_Hook, ...], _: object) -> Hooks:
    new = Hooks()
    new.registered = hooks
    return new


jax.tree_util.register_pytree_node(Hooks, lambda hooks: ((), hooks.registered), _unflatten)


class BoundHooks:
    """The hooks of one `apply`, stored under the names of the modules for which they run."""

    def __init__(self, own: dict[str, list[_Hook]], everywhere: list[_Hook]):
        self.own, self.everywhere = own, everywhere

    def run(
        self, module: Node, name: str, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call `forward(*args, **kwargs)` and the module's hooks, in the order of torch's `_call_impl`."""
        hooks = self.own.get(name, self.everywhere)
        if own := vars(module).get(OWN):  # they run after the global hooks and before the named ones
            hooks = [*self.everywhere, *own, *(hook for hook in hooks if hook.pattern is not None)]
        after = [hook for hook in hooks if hook.kind == _FORWARD]
        ran: list[_Hook] = []
        result = None
        try:
            for hook in hooks:
                if hook.kind == _FORWARD_PRE:
                    args, kwargs = _before(hook, module, args, kwargs)
            # The barrier is around forward and its hooks, but not around the pre-hooks, as in torch. Backward hooks see
            # the gradients of what the pre-hooks pass on, and of what the last hook returns.
            barrier = _Barrier(description_of(module), name, hooks)
            args = barrier.inputs(args)
            result = forward(*args, **kwargs)
            for hook in after:
                ran.append(hook)  # first: a hook that raises an error is not called again
                result = _after(hook, module, args, kwargs, result)
            return barrier.outputs(result)
        except Exception:
            for hook in after:
                if hook.always_call and hook not in ran:
                    try:
                        result = _after(hook, module, args, kwargs, result)
                    except Exception as error:
                        warnings.warn(
                            f"{hook.name()} raised an error, which is ignored because forward failed first: {error}",
                            stacklevel=2,
                        )
            raise


def _before(hook: _Hook, module: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    new = hook.fn(module, args, kwargs) if hook.with_kwargs else hook.fn(module, args)
    if new is None:
        return args, kwargs
    if not hook.with_kwargs:
        return new if isinstance(new, tuple) else (new,), kwargs
    if not isinstance(new, tuple) or len(new) != 2:
        raise TypeError(
            f"{hook.name()} returned the wrong type; expected None or (args, kwargs), got {type(new).__name__}."
        )
    return new


def _after(hook: _Hook, module: Node, args: tuple[Any, ...], kwargs: dict[str, Any], result: PyTree) -> Any:
    new = hook.fn(module, args, kwargs, result) if hook.with_kwargs else hook.fn(module, args, result)
    return result if new is None else new


class _Barrier:
    """Identity functions around one call of a module, whose backward rules run the module's backward hooks.

    The backward rule of the outputs runs first and stores `grad_output` for the backward rule of the inputs. Both rules
    run in the same trace, so the stored value belongs to that trace.
    """

    def __init__(self, module: Node, name: str, hooks: list[_Hook]):
        self.module, self.name = module, name
        self.before = [hook for hook in hooks if hook.kind == _BACKWARD_PRE]
        self.after = [hook for hook in hooks if hook.kind == _BACKWARD]
        self.n_inputs = 0
        self.perturbed: list[bool] = []  # for each floating input, whether it is differentiated
        self.grad_output: tuple[Any, ...] | None = None

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Pass the arguments of a module through the identity function that runs the full backward hooks."""
        self.n_inputs = len(args)
        floating = _floating(args)
        if not self.after or not floating:
            return args

        @jax.custom_vjp
        def identity(*arrays: Any) -> Any:
            return arrays

        def forward(*arrays: Any) -> Any:
            self.perturbed = [array.perturbed for array in arrays]
            return tuple(array.value for array in arrays), None

        def backward(_: object, gradients: tuple[Any, ...]) -> Any:
            shown = [_dense(g) if is_asked else None for g, is_asked in zip(gradients, self.perturbed, strict=True)]
            changed = self._run_after(_spread(shown, floating, len(args)))
            return tuple(
                None if isinstance(old, SymbolicZero) and changed[i] is seen else changed[i]
                for i, old, seen in zip(floating, gradients, shown, strict=True)
            )

        identity.defvjp(forward, backward, symbolic_zeros=True)
        return _put(args, floating, identity(*(args[i] for i in floating)))

    def outputs(self, result: PyTree) -> Any:
        """Pass the output of a module through the identity function that runs the full backward pre-hooks."""
        if not self.before and not self.after:
            return result
        if not isinstance(result, jax.Array | tuple):
            warnings.warn(
                f"{self._where()}: backward hooks cannot see the gradients of this output; expected an array or a "
                f"tuple of arrays, got {type(result).__name__}.",
                stacklevel=2,
            )
        results = result if isinstance(result, tuple) else (result,)
        floating = _floating(results)
        if not floating:
            return result

        @jax.custom_vjp
        def identity(*arrays: Any) -> Any:
            return arrays

        def backward(_: object, gradients: tuple[Any, ...]) -> Any:
            used = [None if isinstance(gradient, SymbolicZero) else gradient for gradient in gradients]
            shown = self._run_before(_spread(used, floating, len(results)))
            return tuple(shown[i] for i in floating)

        identity.defvjp(lambda *arrays: (tuple(a.value for a in arrays), None), backward, symbolic_zeros=True)
        results = _put(results, floating, identity(*(results[i] for i in floating)))
        return results if isinstance(result, tuple) else results[0]

    def _run_before(self, grad_output: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.before:
            grad_output = self._checked(hook, hook.fn(self.module, grad_output), grad_output, "grad_output")
        self.grad_output = grad_output
        if self.after and not any(self.perturbed):  # no gradient will reach the inputs
            nothing = (None,) * self.n_inputs
            for hook in self.after:
                if self._checked(hook, hook.fn(self.module, nothing, grad_output), nothing, "grad_input") != nothing:
                    raise ValueError(
                        f"{self._where()}: {hook.name()} returned a gradient for inputs that have no gradient; "
                        "expected None."
                    )
            self.grad_output = None
        return grad_output

    def _run_after(self, grad_input: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.grad_output is None:  # no gradient reached the outputs; torch then runs no hooks
            return grad_input
        for hook in self.after:
            new = hook.fn(self.module, grad_input, self.grad_output)
            grad_input = self._checked(hook, new, grad_input, "grad_input")
        self.grad_output = None
        return grad_input

    def _checked(self, hook: _Hook, new: object, old: tuple[Any, ...], what: str) -> tuple[Any, ...]:
        if new is None:
            return old
        new = tuple(new) if isinstance(new, tuple | list) else (new,)
        if len(new) != len(old):
            raise ValueError(
                f"{self._where()}: {hook.name()} returned the wrong number of gradients; expected {len(old)} "
                f"({what}), got {len(new)}."
            )
        for before, after in zip(old, new, strict=True):
            if before is not None and after is not None and jnp.shape(before) != jnp.shape(after):
                raise ValueError(
                    f"{self._where()}: {hook.name()} changed the shape of a {what}; expected {jnp.shape(before)}, got "
                    f"{jnp.shape(after)}."
                )
        return new

    def _where(self) -> str:
        return f"{self.name or 'the root'} ({type(self.module).__name__})"


def _floating(values: tuple[Any, ...]) -> list[int]:
    return [i for i, v in enumerate(values) if isinstance(v, jax.Array) and jnp.issubdtype(v.dtype, jnp.inexact)]


def _dense(gradient: jax.Array | SymbolicZero) -> Any:
    if not isinstance(gradient, SymbolicZero):
        return gradient
    aval: Any = gradient.aval
    return jnp.zeros(aval.shape, aval.dtype)


def _spread(values: Iterable[Any], places: list[int], n: int) -> tuple[Any, ...]:
    given = dict(zip(places, values, strict=True))
    return tuple(given.get(i) for i in range(n))


def _put(old: tuple[Any, ...], places: list[int], new: tuple[Any, ...]) -> Any:
    given = dict(zip(places, new, strict=True))
    values = [given.get(i, value) for i, value in enumerate(old)]
    return type(old)(*values) if hasattr(old, "_fields") else tuple(values)
