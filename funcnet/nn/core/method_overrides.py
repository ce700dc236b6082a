"""Overrides of the methods of torch's Module: `train` and `eval` take effect, and overrides without effect are refused.

In torch, a training script calls `net.train()`, and a class may override `train` to keep some layers in eval mode, for
example a frozen BatchNorm. In funcnet, the mode is an argument of `apply`, so `apply` calls the overridden methods on
the bound copy.
"""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import jax

from funcnet.nn.core.absent import METHODS
from funcnet.nn.core.call import Call
from funcnet.nn.core.module_tree import Node, frame_of, walk
from funcnet.nn.core.parameter import Parameter

__all__ = ["changes_mode", "honour_modes", "refuse_device", "refuse_ignored", "set_mode"]

_HOOKS = "Use register_state_dict_post_hook or register_load_state_dict_pre_hook."
_TREES = "The arrays are in params and state. Filter these dicts, or use funcnet.tree."
_IGNORED = {
    **dict.fromkeys(("state_dict", "load_state_dict", "_save_to_state_dict"), _HOOKS),
    **dict.fromkeys(("named_parameters", "parameters", "named_buffers", "buffers"), _TREES),
    "_apply": "A module has no arrays to change. Use jax.tree.map on params and state.",
}


def refuse_ignored(cls: type) -> None:
    """Raise TypeError if a class overrides a method of torch that funcnet never calls.

    Args:
        cls: the class of a module that is being created.
    """
    name = next((name for name in _IGNORED if name in _defined(cls)), None)
    if name is not None:
        raise TypeError(
            f"{cls.__name__}.{name}: this override would never be called; expected a class without it. {_IGNORED[name]}"
        )


def refuse_device(cls: type, arguments: Mapping[str, Any]) -> None:
    """Raise TypeError for torch's argument `device`, unless the class has an argument of this name."""
    if "device" in arguments and "device" not in inspect.signature(cls).parameters:
        raise TypeError(
            f"{cls.__name__}: layers take no device, because a description holds no arrays; expected no device, got "
            f"{arguments['device']!r}. Place the arrays on the device instead: jax.device_put(params, device)."
        )


def changes_mode(cls: type) -> bool:
    """Return whether a class overrides `train` or `eval`."""
    return not _defined(cls).isdisjoint(("train", "eval"))


def set_mode(module: Node, mode: bool) -> Any:
    """Set the mode of a bound copy, and call `train(mode)` of each child. This implements `Module.train`."""
    frame = frame_of(module)
    if frame is None:
        raise AttributeError(
            f"{type(module).__name__}.{'train' if mode else 'eval'}: a description has no mode. {METHODS['train']}",
            name="train",
            obj=module,
        )
    if not frame.call.sets_modes:
        raise ValueError(
            f"{frame.where()}: forward changed the training mode, and this change would be lost after the call. Pass "
            "the mode to apply: training={name pattern: bool}."
        )
    vars(module)["training"] = bool(mode)
    for child in module.children():
        child.train(mode)
    return module


def honour_modes(bound: Node, call: Call) -> None:
    """Set the modes of a bound copy and its submodules by calling their `train` and `eval`, which may be overridden.

    If `call.training` is True, `train` of the bound copy is called, and if it is False, `eval`. If `call.training` is
    {name: bool}, a module that has the same mode after `train()` and after `eval()` keeps that mode, and the other
    modules get their mode from the dict. Parameters that an override freezes with requires_grad=False get no gradient
    in this call.
    """
    modules = list(bound.modules())
    places = [(*place, place.value) for place in walk(bound, Parameter, once=False)]
    stand_ins = {id(leaf): leaf.another() for _, _, _, leaf, _, _ in places}  # train() may set requires_grad
    for _, module, name, leaf, _, _ in places:
        vars(module)[name] = stand_ins[id(leaf)]
    call.sets_modes = True
    try:
        if isinstance(call.training, bool):
            bound.train() if call.training else bound.eval()
            modes = [vars(module)["training"] for module in modules]
        else:
            bound.train()
            trained = [vars(module)["training"] for module in modules]
            bound.eval()
            modes = [
                mode if mode == vars(module)["training"] else call.training[frame_of(module).name]
                for module, mode in zip(modules, trained, strict=True)
            ]
    finally:
        call.sets_modes = False
        for _, module, name, leaf, _, value in places:
            is_frozen = leaf.requires_grad and not stand_ins[id(leaf)].requires_grad
            vars(module)[name] = jax.lax.stop_gradient(value) if is_frozen else value
    for module, mode in zip(modules, modes, strict=True):
        vars(module)["training"] = mode
    call.training = {frame_of(module).name: mode for module, mode in zip(modules, modes, strict=True)}


@functools.cache
def _defined(cls: type) -> frozenset[str]:
    """Return the names that a class and its base classes define, except for base classes that belong to funcnet."""
    bases = (base for base in cls.__mro__ if base is not object and not base.__module__.startswith("funcnet."))
    return frozenset(name for base in bases for name in vars(base))
