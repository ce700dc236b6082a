"""Executes the unchanged source file of a torch model, builds the model and runs it.

The package's `__init__.py` is not executed first, imports that are missing get placeholders, and the network cannot be
used. `torch.jit.script` and `torch.compile` are switched off, so that every function is a plain function.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import importlib
import inspect
import math
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from funcnet.comparison.torch_objects import TorchModule
from funcnet.porting.errors import PortError, place_of
from funcnet.porting.running.private_modules import PrivateModules, Transform
from funcnet.porting.running.stubs import Stub

__all__ = ["Loaded", "construct", "example", "forward", "load"]


@dataclass(frozen=True)
class Loaded:
    """A source file of a torch model that was executed as a Python module.

    Attributes:
        path: the file.
        module: its module.
        cls: the requested class, or None if no class was requested.
        private: the object that keeps the source's modules out of `sys.modules`.
    """

    path: Path
    module: ModuleType
    cls: type | None
    private: PrivateModules

    @property
    def modules(self) -> dict[str, ModuleType]:
        """The modules of the source's own files, by name."""
        return dict(self.private.modules)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Make a context in which the source's functions can be called, and using a placeholder raises an error."""
        before, self.private.running = self.private.running, True
        try:
            with self.private.active(), _offline(), _plain_torch():
                yield
        finally:
            self.private.running = before


def load(
    path: str | Path,
    class_name: str | None = None,
    *,
    transform: Transform | None = None,
    names: Mapping[str, Any] | None = None,
    also: Iterable[str | Path] = (),
) -> Loaded:
    """Execute a source file.

    Args:
        path: a Python file. Its package is found from the `__init__.py` files next to it and above it.
        class_name: a class of the file.
        transform: function that is called with the path and the syntax tree of each of the source's own files, and
            returns the tree to compile.
        names: {name: value}, added to the builtins of the source's own files.
        also: folders of other packages. Their files are loaded, transformed and kept private like those of the source.
    Returns:
        The executed file, with its Python module and the requested class.
    Raises:
        PortError: if the file is missing, is not Python, fails when it is executed, or lacks the class.

    Example:
        >>> import tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "net.py")
        ...     _ = path.write_text("from torch import nn\\nclass Net(nn.Linear):\\n    pass\\n")
        ...     loaded = load(path, "Net")
        >>> loaded.cls.__name__, loaded.module.__name__ in sys.modules
        ('Net', False)
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise PortError(f"{path}: this is not a file; expected a Python file with a torch model.")
    try:
        private = PrivateModules(file, transform, names, [Path(one).resolve() for one in also])
    except SyntaxError as error:
        raise _not_python(error) from error
    try:
        with private.active(), _offline(), _plain_torch():
            module = importlib.import_module(private.target)
    except SyntaxError as error:
        raise _not_python(error) from error
    except (Exception, SystemExit) as error:
        raise _explained(error, private, "the import of the file failed", "a file that can be imported") from error
    loaded = Loaded(file, module, None, private)
    if class_name is None:
        return loaded
    cls = vars(module).get(class_name)
    if not isinstance(cls, type):
        classes = _classes(module)
        near = difflib.get_close_matches(class_name, classes, 3) or classes
        got = f"no class {class_name}" if cls is None else f"{class_name}, which is not a class"
        raise PortError(f"{file}: has {got}; expected one of {', '.join(near) or 'its classes, of which it has none'}.")
    return Loaded(file, module, cls, private)


def construct(loaded: Loaded, expression: str | None = None) -> Any:
    """Build the model.

    Args:
        loaded: the source.
        expression: a Python expression, such as "ResNet(BasicBlock, [1, 1, 1, 1])". The expression can use the names
            that the file defines or imports, the names torch, nn, F, math and np, and the names that the other files of
            the package define or import. If a name occurs several times, the first one in this order counts. By
            default, the class is called without arguments.

    Returns:
        The model.

    Raises:
        PortError: if the expression is missing and required, is not valid Python or fails, if the result has no
            `forward`, or if the result neither is an instance of the requested class nor contains one.

    Example:
        >>> import tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "net.py")
        ...     _ = path.write_text("from torch import nn\\nclass Net(nn.Linear):\\n    pass\\n")
        ...     model = construct(load(path, "Net"), "Net(3, out_features=2)")
        >>> model
        Net(in_features=3, out_features=2, bias=True)
    """
    where = "--construct"
    if expression is None:
        if loaded.cls is None:
            raise PortError(f"{where}: no class was named; expected one of {', '.join(_classes(loaded.module))}.")
        if needed := _required(loaded.cls):
            name = loaded.cls.__name__
            pattern = ", ".join(f"{one}=..." for one in needed)
            raise PortError(
                f"{where}: {name} has arguments without a default; expected values for {', '.join(needed)}, got none. "
                f'Pass --construct "{name}({pattern})".'
            )
        expression = f"{loaded.cls.__name__}()"
    model = _evaluate(loaded, expression, where)
    if not callable(getattr(model, "forward", None)):
        raise PortError(
            f"{where}: {expression} is not a model; expected an instance of nn.Module, got {_described(model)}."
        )
    if loaded.cls is not None and not any(isinstance(one, loaded.cls) for one in _modules(model)):
        raise PortError(
            f"{where}: {expression} makes a {type(model).__name__}; expected a {loaded.cls.__name__}, which is ported."
        )
    return model


def _modules(model: Any) -> list[Any]:
    return list(model.modules()) if callable(getattr(model, "modules", None)) else [model]


def example(loaded: Loaded, expression: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Make the arguments of `forward`.

    Args:
        loaded: the source.
        expression: a Python expression that can use the same names as in `construct`. A tuple gives positional
            arguments, a dict gives keyword arguments, and any other value is the only argument.
    Returns:
        (positional arguments, keyword arguments).
    Raises:
        PortError: if the expression is not valid Python or fails.

    Example:
        >>> import tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "net.py")
        ...     _ = path.write_text("from torch import nn\\nclass Net(nn.Linear):\\n    pass\\n")
        ...     args, kwargs = example(load(path), "torch.ones(2, 3), np.zeros(4)")
        >>> [type(arg).__name__ for arg in args], kwargs
        (['Tensor', 'ndarray'], {})
    """
    value = _evaluate(loaded, expression, "--example")
    if isinstance(value, dict):
        return (), {str(name): one for name, one in value.items()}
    return (value if type(value) is tuple else (value,)), {}


def forward(loaded: Loaded, model: TorchModule, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call the model.

    Args:
        loaded: the source.
        model: the model, from `construct`.
        args, kwargs: the arguments of `forward`, from `example`.

    Returns:
        What the model returns.

    Raises:
        PortError: if the call fails. The message has the line of the source that failed, and the message of torch.

    Example:
        >>> import tempfile, torch
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "net.py")
        ...     _ = path.write_text("from torch import nn\\nclass Net(nn.Linear):\\n    pass\\n")
        ...     loaded = load(path, "Net")
        ...     model = construct(loaded, "Net(3, 2)")
        ...     forward(loaded, model, (torch.ones(4, 3),), {}).shape
        torch.Size([4, 2])
    """
    with loaded.running():
        try:
            return model(*args, **kwargs)
        except Exception as error:
            given = [_described(one) for one in args] + [f"{name}={_described(one)}" for name, one in kwargs.items()]
            expected = (
                f"an example that fits forward, such as the one for these arguments: {', '.join(given) or 'none'}"
            )
            raise _explained(error, loaded.private, "forward failed", expected, "Change --example.") from error


# ---------------------------------------------------------------------------------------------------------- evaluation


def _evaluate(loaded: Loaded, expression: str, where: str) -> Any:
    try:
        code = compile(expression.strip(), f"<{where}>", "eval", dont_inherit=True)
    except SyntaxError as error:
        raise PortError(
            f"{where}: this is not a Python expression; expected one, got {expression!r}: {error.msg}."
        ) from error
    names: dict[str, Any] = {}
    for module in reversed(list(loaded.modules.values())):
        names |= {name: value for name, value in vars(module).items() if not name.startswith("__")}
    torch = importlib.import_module("torch")
    names |= {
        "torch": torch,
        "nn": torch.nn,
        "F": torch.nn.functional,
        "math": math,
        "np": importlib.import_module("numpy"),
    }
    names |= vars(loaded.module)
    with loaded.running():
        try:
            return eval(code, names)
        except Exception as error:
            expected = "an expression that can be evaluated"
            raise _explained(error, loaded.private, f"{where} {expression!r} failed", expected) from error


def _required(cls: type) -> list[str]:
    """Return the names of the constructor's arguments that have no default."""
    try:
        parameters = inspect.signature(cls).parameters.values()
    except (TypeError, ValueError):
        return []
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in parameters if one.default is one.empty and one.kind not in starred]


def _classes(module: ModuleType) -> list[str]:
    """Return the names of the classes that the file defines and that have a `forward`."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and hasattr(value, "forward")
    ]


def _described(value: object) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return " ".join(f"{type(value).__name__} {value!r}".split())[:60]


# ------------------------------------------------------------------------------------------------------------- context


class _NetworkError(PortError):
    """The error for a source that tries to connect to another machine while it is executed."""


@contextlib.contextmanager
def _offline() -> Iterator[None]:
    """Make a context in which connections to other machines raise an error."""

    def refusing(function: Callable[..., Any], host_of: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            host = host_of(*args, **kwargs)
            if isinstance(host, str | bytes) and not _is_local(host):
                name = host.decode() if isinstance(host, bytes) else host
                raise _NetworkError(f"a connection to {name} was tried")
            return function(*args, **kwargs)

        return call

    def of_socket(_: object, address: object) -> Any:
        return address[0] if isinstance(address, tuple) else None  # otherwise, the path of a local socket

    with contextlib.ExitStack() as stack:
        for method in ("connect", "connect_ex"):
            stack.enter_context(
                mock.patch.object(socket.socket, method, refusing(getattr(socket.socket, method), of_socket))
            )
        for name, host_of in (
            ("create_connection", lambda address, *_, **__: address[0]),
            ("getaddrinfo", lambda host, *_, **__: host),
        ):
            stack.enter_context(mock.patch.object(socket, name, refusing(getattr(socket, name), host_of)))
        yield


def _is_local(host: str | bytes) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    return name in ("", "localhost", "::1", "0.0.0.0") or name.startswith("127.")


@contextlib.contextmanager
def _plain_torch() -> Iterator[None]:
    """Make a context in which `torch.compile`, `torch.jit.script` and the like return their argument unchanged."""

    def plain(function: Any = None, *args: Any, **kwargs: Any) -> Any:
        return (lambda one: one) if function is None else function

    with contextlib.ExitStack() as stack:
        torch: Any = sys.modules.get("torch")
        if torch is not None:
            for owner, name in (
                (torch, "compile"),
                (torch.jit, "script"),
                (torch.jit, "script_if_tracing"),
                (torch.jit, "script_method"),
                (torch.jit, "trace"),
            ):
                stack.enter_context(mock.patch.object(owner, name, plain))
        yield


# -------------------------------------------------------------------------------------------------------------- errors


def _explained(error: BaseException, private: PrivateModules, what: str, expected: str, advice: str = "") -> PortError:
    """Return the `PortError` for an exception of a source: the failed line, what was expected, and what to do."""
    where = place_of(error, private.sources) or str(private.file)
    if isinstance(error, _NetworkError):
        return PortError(
            f"{where}: {error}, but a port runs without the network; expected a constructor that downloads nothing. "
            "Pass --construct with pretrained=False or weights=None."
        )
    if isinstance(error, PortError):
        return PortError(f"{where}: {error}")
    got = f"{type(error).__name__}: {error}".strip().rstrip(".:")
    if stubs := _stubs_at(error, private):
        advice = f"The line uses {stubs[0].__name__}: {stubs[0].stub_reason}."
    return PortError(f"{where}: {what}; expected {expected}, got {got}. {advice}".strip())


def _not_python(error: SyntaxError) -> PortError:
    where = f"{error.filename}:{error.lineno}"
    return PortError(f"{where}: is not valid Python; expected Python 3 source, got {error.msg}.")


def _stubs_at(error: BaseException, private: PrivateModules) -> list[Stub]:
    """Return the placeholders for missing imports to which names in the failed line of the source refer."""
    found: list[Stub] = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        tree = private.sources.get(frame.f_code.co_filename)
        if tree is not None:
            names = [
                n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.lineno <= line <= (n.end_lineno or 0)
            ]
            values = [{**frame.f_globals, **frame.f_locals}.get(name) for name in names]
            found = [value for value in values if isinstance(value, Stub)]
    return found
