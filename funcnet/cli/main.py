"""The entry point of the `funcnet` command. It handles signals, prints errors, and sets the exit code.

main.py imports only small modules, so that its handler for Ctrl-C is installed as early as possible. Python's default
handler for Ctrl-C raises KeyboardInterrupt at any point of the program. While compiled libraries are imported, or the
interpreter shuts down, this exception causes a traceback or a segmentation fault.
"""

import contextlib
import importlib.metadata
import os
import platform
import signal
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TextIO

from funcnet.cli.huge_pages import use_huge_pages

__all__ = ["main"]

Handler = Callable[[int, types.FrameType | None], object]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line.

    Args:
        arguments: command-line arguments. By default, the arguments of the process are used. `--version` alone prints
            the versions of funcnet, JAX and Python.

    Raises:
        SystemExit: at the end. The exit code is that of the command: usually 0 for success; 2 if arguments, data or
            files are wrong; 130 after SIGINT; 143 after SIGTERM; and 141 if the reader of standard output has closed
            the pipe.
        ValueError, OSError: instead of exit code 2, if the environment variable FUNCNET_TRACEBACK is set.

    Example:
        >>> with contextlib.suppress(SystemExit):
        ...     main(["--version"])
        funcnet ..., jax ..., jaxlib ..., Python ...
    """
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["--version"]:
        packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("funcnet", "jax", "jaxlib"))
        print(f"{packages}, Python {platform.python_version()}")
        raise SystemExit(0)
    if arguments is None:
        use_huge_pages()
    parsed = None
    with _handling({signal.SIGINT: _leave}, leave_installed=arguments is None):
        from funcnet.cli.commands import parse  # takes about a second
        from funcnet.cli.resume import moved_path_hint

        try:
            parsed = parse(given)
            # a training run replaces these handlers with its own
            with warnings.catch_warnings(), _handling({signal.SIGINT: _Interrupt(), signal.SIGTERM: _exit}):
                warnings.showwarning = _show_warning
                code = parsed.run(parsed.settings)
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # otherwise the interpreter reports an error at exit
            code = 141
        except (ValueError, OSError) as error:
            if os.environ.get("FUNCNET_TRACEBACK"):
                raise
            hint = "" if parsed is None or parsed.resumed is None else moved_path_hint(parsed.settings, parsed.resumed)
            processes = sys.modules.get("funcnet.parallel.processes")
            name = processes.process_name() if processes else ""
            print(f"funcnet: {name}{_message(error)}{hint}", file=sys.stderr)
            code = 2
            if processes:
                processes.leave(code)
        except KeyboardInterrupt:
            _leave(signal.SIGINT, None)  # a normal shutdown may crash while threads of a computation still run
    raise SystemExit(code)


def _leave(number: int, frame: types.FrameType | None) -> None:
    """Handle SIGINT by ending the process immediately."""
    os.write(2, b"funcnet: interrupted\n")
    os._exit(128 + number)


class _Interrupt:
    """Handle SIGINT while a command runs: raise KeyboardInterrupt, so that the command removes its incomplete files.

    KeyboardInterrupt is raised only while a function of funcnet runs. In a callback of a library, such as JAX's
    garbage-collection callback, Python would print the exception and ignore it. A timer therefore tries again until a
    function of funcnet runs. If no function of funcnet runs within three seconds, the process ends without the
    exception. A second SIGINT ends the process immediately.
    """

    def __init__(self) -> None:
        self.tries = 150  # 3 seconds

    def __call__(self, number: int, frame: types.FrameType | None) -> None:
        signal.signal(signal.SIGINT, _leave)
        self.tries -= 1
        if frame is not None and frame.f_globals.get("__name__", "").startswith("funcnet."):
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt
        if self.tries <= 0:
            _leave(signal.SIGINT, None)
        signal.signal(signal.SIGALRM, self)
        signal.setitimer(signal.ITIMER_REAL, 0.02)


def _exit(number: int, frame: types.FrameType | None) -> None:
    """Handle SIGTERM while a command runs: raise SystemExit, so that the command removes its incomplete files."""
    raise SystemExit(128 + number)


@contextlib.contextmanager
def _handling(handlers: Mapping[int, Handler], *, leave_installed: bool = False) -> Iterator[None]:
    """Install {signal: handler} while the block runs, or until the process ends if `leave_installed` is True."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        if not leave_installed:
            for number, handler in before.items():
                signal.signal(number, handler)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning on one line, without the file name and line number of the source code."""
    print(f"funcnet: {message}", file=sys.stderr)


def _message(error: ValueError | OSError) -> Any:
    """Return the message of an error. An error of the operating system is reworded in the style of the others."""
    if isinstance(error, OSError) and error.filename is not None:
        return (
            f"{error.filename}: the operating system reported an error; expected a usable path, got "
            f"'{error.strerror}'. Check the path, its permissions and the free disk space."
        )
    return error
