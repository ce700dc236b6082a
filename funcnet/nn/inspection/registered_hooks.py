"""torch's methods that register a hook on a module. A hook that is registered on a module belongs to the module, and
every `apply` runs the hook.

An `nn.Hooks` contains the hooks for one call of `apply`. A module's own hooks are part of the model, and its
constructor registers them. A module's own hooks run after the global hooks of an `nn.Hooks`, and before the hooks that
select the module by name. If a hook is a method of a module, or a function that refers to a module, the hook gets the
bound copy of that module. With the bound copy, the hook can read arrays, and can set attributes for the current call.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from funcnet.nn.core.module_tree import Node, frame_of, walk
from funcnet.nn.inspection.hooks import OWN, BoundHooks, Hooks, RemovableHandle
from funcnet.tree import PyTree

__all__ = ["Hooked", "hooked"]


class _Own(Hooks):
    """The hooks that are registered on one module and stored in an attribute of this module."""

    def __init__(self, module: Node):
        self.module = module

    @property
    def registered(self) -> Any:
        return vars(self.module).get(OWN, ())

    @registered.setter
    def registered(self, hooks: tuple[Any, ...]) -> None:
        setattr(self.module, OWN, hooks)


def _own(module: Any, kind: str) -> tuple[_Own, str]:
    """Return the set of hooks that are registered on a module, and the name that error messages show for the module.
    Inside `forward`, raise TypeError.
    """
    name = type(module).__name__
    if frame_of(module) is not None:
        raise TypeError(
            f"{name}.register_{kind}_hook: forward cannot register a hook, because it would be lost after the call. "
            "Register it in __init__, or pass an nn.Hooks to apply."
        )
    return _Own(module), name


class Hooked:
    """A base class of `Module` with torch's methods for registering hooks. The hook functions have the arguments that
    are described in `Hooks`.

    Example:
        >>> import jax
        >>> from funcnet import nn
        >>> net = nn.Identity()
        >>> handle = net.register_forward_hook(lambda module, args, output: output + 1)
        >>> float(net.apply({}, {}, jax.numpy.zeros(()))[0])
        1.0
        >>> handle.remove()
        >>> float(net.apply({}, {}, jax.numpy.zeros(()))[0])
        0.0
    """

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Register `hook(module, args)` to run before `forward`. The hook may return new args."""
        own, name = _own(self, "forward_pre")
        return own.register_forward_pre_hook(name, hook, prepend=prepend, with_kwargs=with_kwargs)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Register `hook(module, args, output)` to run after `forward`. The hook may return a new output."""
        own, name = _own(self, "forward")
        return own.register_forward_hook(name, hook, prepend=prepend, with_kwargs=with_kwargs, always_call=always_call)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Register `hook(module, grad_output)` to run before the module's backward pass."""
        own, name = _own(self, "full_backward_pre")
        return own.register_full_backward_pre_hook(name, hook, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Register `hook(module, grad_input, grad_output)` to run after the module's backward pass."""
        own, name = _own(self, "full_backward")
        return own.register_full_backward_hook(name, hook, prepend)


def hooked(hooks: Any, module: Node, name: str, forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `forward` of a bound module, together with the hooks of the `apply` and the module's
    own hooks.

    Args:
        hooks: the result of `Hooks.bound`, or an observer with the same method `run`, or None.
        module: a bound module.
        name: dotted name of the module.
        forward: the `forward` of the module.

    Raises:
        TypeError: if a hook of the module refers to a module outside of the current run. The `apply` of a child,
            `nn.Repeat` and `nn.remat` start a separate run.
    """
    observers = [] if hooks is None else [hooks]
    own = vars(module).get(OWN)
    if own and not isinstance(hooks, BoundHooks):
        observers.insert(0, BoundHooks({}, []))
    outside = next(filter(_is_outside, _referred(own or ())), None)
    if outside is not None:
        raise TypeError(
            f"{frame_of(module).where()}: a hook of the module refers to a {type(outside).__name__} outside of this "
            "run (nn.remat, nn.Repeat, or apply of a child), so what it stores there would leak; expected a hook that "
            "refers to modules of the run. Register the hook on the outer module, or use nn.capture."
        )
    for observer in observers:
        forward = functools.partial(_run, observer, module, name, forward)
    return forward


def _run(
    hooks: Any,
    module: Node,
    name: str,
    forward: Callable[..., Any],
    /,
    *args: PyTree,
    **kwargs: object,
) -> Any:
    return hooks.run(module, name, forward, args, kwargs)


def _referred(hooks: tuple[Any, ...]) -> list[Any]:
    """Return the modules to which hook functions refer, as the `self` of a method or as a variable of a closure."""
    found: list[Any] = []
    for hook in hooks:
        fn = hook.fn.func if isinstance(hook.fn, functools.partial) else hook.fn
        found.append(getattr(fn, "__self__", None))
        if inspect.isroutine(fn) and not inspect.isbuiltin(fn):
            found += inspect.getclosurevars(fn).nonlocals.values()
    return [value for value in found if isinstance(value, Node)]


def _is_outside(module: Node) -> bool:
    """Return whether a module, to which a hook refers, is outside of the current run: it is not bound, but contains
    leaves or bound modules.
    """
    return frame_of(module) is None and (
        next(walk(module), None) is not None or any(frame_of(part) is not None for part in module.modules())
    )
