"""Placeholders for modules that a torch source imports but that are not installed.

While a file is imported, a placeholder can be used like a class, a function or a decorator. While the model is built or
run, using a placeholder raises an error that names the import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from funcnet.porting.errors import PortError

__all__ = ["Stub", "reason_for"]

# {module: the name under which pip installs it}, if the two differ.
_DISTRIBUTIONS = {
    "cv2": "opencv-python", "PIL": "pillow", "yaml": "pyyaml", "sklearn": "scikit-learn", "skimage": "scikit-image",
    "ema_pytorch": "ema-pytorch", "mamba_ssm": "mamba-ssm", "flash_attn": "flash-attn",
}  # fmt: skip
_COMPILED = ("_C", "_cuda", "_ext", "_kernels", "_cpp")  # endings of the names of compiled extensions


def reason_for(name: str) -> str:
    """Return why the import of a module that is not installed failed, and what to do.

    >>> reason_for("cv2.dnn")
    'cv2 is not installed. Run `pip install opencv-python`'
    >>> reason_for("selective_scan_cuda")
    'selective_scan_cuda is a compiled extension, which cannot be ported. Choose a path through the model without it'
    """
    top = name.partition(".")[0]
    if name.endswith(_COMPILED):
        return f"{name} is a compiled extension, which cannot be ported. Choose a path through the model without it"
    return f"{top} is not installed. Run `pip install {_DISTRIBUTIONS.get(top, top)}`"


class Stub:
    """A placeholder for a module that is not installed, or for anything that a source imports from it.

    Args:
        name: the qualified name of the missing module or object.
        reason: why the module or object is missing and what to do. The error of the placeholder contains this text.
        running: function that returns whether the model is currently being built or run. If so, using the placeholder
            is an error.
    """

    __all__ = ()  # `from missing import *` imports nothing
    __version__ = "0"

    def __init__(self, name: str, reason: str, running: Callable[[], bool]):
        vars(self).update(__name__=name, __qualname__=name.rpartition(".")[2], __module__=name.rpartition(".")[0])
        vars(self).update(__path__=(), __doc__=None, stub_reason=reason, stub_running=running)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        child = self._child(f".{name}")
        vars(self)[name] = child
        return child

    def __call__(self, *args: object, **kwargs: object) -> Any:
        self._use()
        decorates = len(args) == 1 and not kwargs and hasattr(args[0], "__qualname__") and callable(args[0])
        return args[0] if decorates and not isinstance(args[0], Stub) else self._child("()")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        if self.__qualname__.endswith(("Meta", "Metaclass", "MetaClass")):
            return (type,)

        def __init__(instance: object, *args: object, **kwargs: object) -> None:
            if not any(base.__module__.startswith("torch.nn.modules") for base in type(instance).__mro__):
                self._use()
            super(base, instance).__init__(*args, **kwargs)  # type: ignore[arg-type]

        def __init_subclass__(cls: type, **kwargs: object) -> None:
            pass

        members = {"__init__": __init__, "__init_subclass__": classmethod(__init_subclass__), "__module__": __name__}
        base: type = type(self.__qualname__, (), members)
        return (base,)

    def __getitem__(self, key: object) -> Stub:
        self._use()
        return self._child("[]")

    def __iter__(self) -> Iterator[Any]:
        self._use()
        return iter(())

    def __len__(self) -> int:
        self._use()
        return 0

    def __enter__(self) -> Stub:
        self._use()
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __bool__(self) -> bool:
        return True

    def __or__(self, other: object) -> Any:
        return self

    __ror__ = __or__

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __subclasscheck__(self, subclass: object) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<placeholder for {self.__name__}>"

    def _child(self, suffix: str) -> Stub:
        return Stub(self.__name__ + suffix, self.stub_reason, self.stub_running)

    def _use(self) -> None:
        if self.stub_running():
            raise PortError(f"{self.__name__}: is used, but {self.stub_reason}.")
