"""Attributes that `forward` sets, other than buffers. Such an attribute lasts until the end of the running `apply`.

In torch, `self.mask = mask` in one module may be read by another module in the same call, or in the next call. Here,
`forward` runs on a bound copy, so the value lasts for the rest of the call and is lost afterwards. Code that would use
a value of an earlier call gets an AttributeError if the constructor has not set the attribute. If the constructor has
set it, or if `forward` looks for the attribute before setting it (`if not hasattr(self, "mask")`), a warning says that
the value is lost.
"""

import types
import warnings
from typing import Any

from funcnet.nn.core.call import Call
from funcnet.nn.core.module_tree import Node, children, frame_of, reserved
from funcnet.nn.core.parameter import Buffer, Parameter

__all__ = ["assign", "delete", "missing", "warn_of_lost_values"]

_ABSENT = object()
_KEEP = "To keep a value for later calls, register a buffer in __init__: self.register_buffer({!r}, nn.Buffer(shape))."


def assign(bound: Node, name: str, value: object) -> None:
    """Set an attribute of a bound module, other than a buffer, for the rest of the `apply`.

    Raises:
        ValueError: if `name` is a child or another part, or `value` is a `Parameter`, a `Buffer` or a module that is
            not bound.
    """
    frame = frame_of(bound)
    kind = reserved(bound).get(name, (Buffer, True))[0]
    if name in dict(children(bound)) or name in frame.computed or (value is not None and kind is not Buffer):
        raise ValueError(
            f"{frame.where()}: forward assigned to {name!r}, which is a part, so the value would be lost; expected "
            "buffers and attributes that are not parts. Use a local variable, or another name."
        )
    if isinstance(value, Parameter | Buffer) or (isinstance(value, Node) and frame_of(value) is None):
        what = "module" if isinstance(value, Node) else type(value).__name__.lower()
        raise ValueError(
            f"{frame.where()}: forward created the {what} {name!r}, but init could not initialise its arrays; expected "
            f"{what}s to be created in __init__. Create {type(value).__name__}(…) there."
        )
    if not frame.call.sets_modes:
        before = vars(bound).get(name, getattr(type(bound), name, _ABSENT))
        frame.call.scratch.setdefault((id(bound), name), (bound, name, before))
    object.__setattr__(bound, name, value)


def delete(bound: Node, name: str) -> bool:
    """Delete an attribute that `forward` has set. Return False if `forward` has set no attribute of this name."""
    if (id(bound), name) not in frame_of(bound).call.scratch or name not in vars(bound):
        return False
    object.__delattr__(bound, name)
    return True


def missing(bound: Node, name: str) -> AttributeError:
    """Record that forward looked for an attribute that the bound module lacks, and return the error to raise."""
    frame_of(bound).missed.add(name)
    return AttributeError(
        f"{type(bound).__name__!r} object has no attribute {name!r}. What forward sets lasts only for that call. "
        f"{_KEEP.format(name)}",
        name=name,
        obj=bound,
    )


def warn_of_lost_values(call: Call) -> None:
    """Warn about attributes that `forward` has set, if later code may expect their values, which are lost."""
    for bound, name, before in call.scratch.values():
        frame = frame_of(bound)
        is_data = not isinstance(before, property | types.MemberDescriptorType)
        if before is _ABSENT:
            text = f"looked for {name!r} before setting it. The value is lost after this call, so every call sets it"
            is_lost = name in frame.missed and name in vars(bound)
        else:
            text = f"set {name!r}, and the value is lost after this call. The next call gets {before!r:.40} again"
            is_lost = is_data and not _same(before, vars(bound).get(name, _ABSENT))
        if is_lost:
            warnings.warn(f"{frame.where()}: forward {text}. {_KEEP.format(name)}", stacklevel=5)


def _same(a: Any, b: Any) -> bool:
    if a is b or type(a) is not type(b):
        return a is b
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return isinstance(a, bool | int | float | str) and a == b
