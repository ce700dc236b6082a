"""Calls of modules that are not part of the net that runs.

- A module that `forward` creates from bound modules, such as `nn.Sequential(*self.layers[:3])(x)`, runs as a part of
  the same `apply`. As in torch, a new module is in training mode, and the other modules keep their modes.
- Any other module without parameters and buffers is called like a function: `nn.ReLU()(x)`.
- A module that has parameters or buffers but is not part of the net cannot be called, because it has no arrays.
"""

from typing import Any

from funcnet.nn.core import binding
from funcnet.nn.core.call import Call, Frame, outermost
from funcnet.nn.core.inputs_and_outputs import EvalMode, arrays
from funcnet.nn.core.module_tree import Node, children, frame_of, join, leaves, walk

__all__ = ["call_unbound"]


def call_unbound(module: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a module that is not bound to a running `apply`, such as one that `forward` has just created.

    Raises:
        TypeError: if the module has parameters or buffers for which there are no arrays.
    """
    frames = [frame_of(part) for part in module.modules()]
    running = next((frame.call for frame in frames if frame is not None), None)
    if running is not None:
        path = f"{type(module).__name__}[{next(running.created)}]"
        return _joined(module, running, path, {})(*args, **kwargs)
    if next(walk(module), None) is not None:
        raise TypeError(
            f"{type(module).__name__}: a description holds no arrays and cannot be called directly. Call "
            "net.apply(params, state, x). A constructor that needs the shape of an output calls nn.dry_run(module, x). "
            "Inside forward, a module with parameters or buffers can be called if it is "
            "registered: an attribute of a module of this net, or an item of an nn.ModuleList or nn.ModuleDict. A "
            "plain list registers nothing, as in torch, and modules in objects of other classes are not found. Create "
            "modules with parameters in __init__. A lambda in a deep copy still refers to the original modules, so "
            "store a method or a functools.partial instead."
        )
    call = outermost(module, "__call__", args, None, False, None, None)
    call.training = EvalMode()
    return binding.run(module, {}, {}, arrays(args), arrays(kwargs), call)[0]


def _joined(module: Node, call: Call, path: str, made: dict[int, Any]) -> Any:
    """Bind a module that `forward` created to the running `apply`, and return the bound copy. Submodules that are
    already bound become children of this copy unchanged.

    Args:
        module: a module that `forward` created, or one of its submodules.
        call: the `Call` of the running `apply`, to which the bound submodules belong.
        path: a name for the module, which no other module of the running `apply` has.
        made: {id(module): its copy} for the modules that are already copied.
    """
    if module is None or frame_of(module) is not None:
        return module
    if id(module) in made:
        return made[id(module)]
    frame = Frame(module, path, call)
    frame.name = join(call.running, path)
    if leaves(module):
        raise TypeError(
            f"{frame.where()}: the module has parameters or buffers but is not part of the net, so apply has no arrays "
            "for it; expected a module of the net, or one without parameters and buffers. Create the module in "
            "__init__, and store it as an attribute or in an nn.ModuleList."
        )
    if isinstance(call.training, dict):
        call.training[frame.name] = True
    bound = made[id(module)] = object.__new__(type(module))
    vars(bound).update(vars(module), _frame=frame, training=True)
    for name, child in children(module):
        vars(bound)[name] = _joined(child, call, join(path, name), made)
    return bound
