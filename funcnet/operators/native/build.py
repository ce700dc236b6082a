"""Compile kernels in C++ once for each machine, and keep the libraries in the user's cache.

The folder of a library is named by a digest of everything that determines the library: the sources, the interface of
XLA, the compiler with its options, and the processor.
"""

import contextlib
import hashlib
import importlib.util
import itertools
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import jax
import platformdirs

__all__ = ["Built", "Library", "build"]

FOLDER = Path(__file__).parent
OPTIONS = ("-std=c++20", "-O3", "-march=native", "-fPIC", "-w")
LIBRARY, FAILURE = "library.so", "failure.txt"
COMPILERS = ("g++", "clang++", "c++")
SHOWN = 8  # lines of a compiler's message


@dataclass(frozen=True)
class Library:
    """A library.

    Attributes:
        files: names of its sources.
        what: its content, for messages.
        package: a package of PyPI with headers and a library that it needs, or None.
        header, links: names of a header and of the library of this package, in the folders `include` and `lib` of the
            Python environment.
    """

    files: tuple[str, ...]
    what: str
    package: str | None = None
    header: str = ""
    links: str = ""

    def sources(self) -> list[Path]:
        """Return its files, with the headers of this folder."""
        return [*(FOLDER / file for file in self.files), *sorted(FOLDER.glob("*.h"))]

    def options(self) -> tuple[list[str], list[str]]:
        """Return the options that the package needs: those of the compiler and those of the linker. The latter follow
        the objects on the command line, because linkers require this order.
        """
        root = Path(sys.prefix)
        linking = [f"-L{root / 'lib'}", f"-l{self.links}", f"-Wl,-rpath,{root / 'lib'}"]
        return ([f"-I{root / 'include'}"], linking) if self.package else ([], [])


@dataclass(frozen=True)
class Built:
    """What a build gave.

    Attributes:
        library: path of the library, or None if it could not be built.
        what: the compiler and the digest, or the reason why there is no library.
    """

    library: Path | None
    what: str


def build(one: Library) -> Built:
    """Return a library, which is compiled on the first use. A compilation or a failure prints a line on standard error.
    A failed compilation is not tried again with the same compiler.

    The variable CXX chooses the compiler. Otherwise it is the first of g++, clang++ and c++, or that of the package
    `ziglang`.
    """
    if one.package and not Path(sys.prefix, "include", one.header).exists():
        return Built(None, f"{one.what}: {one.package} is not installed (funcnet[native])")
    command = _compiler()
    if command is None:
        return _none(one, "no C++ compiler was found; install g++ or clang++, or the package ziglang")
    try:
        version = subprocess.run([*command, "--version"], capture_output=True, text=True)
    except OSError as error:
        return _none(one, f"{command[0]} cannot be run: {error.strerror}")
    if version.returncode:
        return _none(one, f"{shlex.join(command)} --version failed: {_first_lines(version.stderr, 1)}")
    name = version.stdout.splitlines()[0] if version.stdout else command[0]
    key = _digest(one, command, version.stdout)
    try:
        folder = _private_folder(
            Path(os.environ.get("FUNCNET_CACHE", platformdirs.user_cache_dir("funcnet")), "native")
        )
        with _locked(folder / f"{key}.lock"):
            place = folder / key
            if not (place / LIBRARY).exists() and not (place / FAILURE).exists():
                _compile(one, command, place)
    except OSError as error:
        return _none(one, f"the cache cannot be used: {error}")
    if (place / LIBRARY).exists():
        return Built(place / LIBRARY, f"{one.what} {key[:12]} by {name}")
    return _none(one, f"{name} failed:\n{(place / FAILURE).read_text('utf-8')}")


def _none(one: Library, why: str) -> Built:
    print(f"funcnet: XLA computes {one.what} on CPU, without kernels: {why}", file=sys.stderr, flush=True)
    return Built(None, f"{one.what}: {why}")


def _compiler() -> list[str] | None:
    """Return the command of a C++ compiler, without arguments."""
    if chosen := os.environ.get("CXX"):
        return shlex.split(chosen)
    if found := next(filter(None, map(shutil.which, COMPILERS)), None):
        return [found]
    return [sys.executable, "-m", "ziglang", "c++"] if importlib.util.find_spec("ziglang") else None


def _digest(one: Library, command: list[str], version: str) -> str:
    found = hashlib.sha256()
    headers = sorted(Path(jax.ffi.include_dir(), "xla/ffi/api").glob("*.h"))
    own = [Path(sys.prefix, "include", one.header)] if one.package else []
    for file in [*one.sources(), *headers, *own]:
        found.update(file.read_bytes())
    for text in (*command, version, *OPTIONS, *itertools.chain(*one.options()), _processor()):
        found.update(text.encode() + b"\0")
    return found.hexdigest()


def _processor() -> str:
    """Return what `-march=native` depends on."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8").split("\n\n")[0].splitlines()
        return "\n".join(line for line in lines if line.startswith(("model name", "flags", "Features")))
    return f"{platform.machine()} {platform.processor()}"


def _private_folder(folder: Path) -> Path:
    """Create a folder that nobody else can write, because its libraries are loaded.

    Raises:
        PermissionError: if it belongs to another user, or other users can write to it.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if hasattr(os, "getuid"):
        status = folder.stat()
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise PermissionError(
                f"{folder} belongs to somebody else, or others can write it; change its owner or mode"
            )
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time compile."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows, where two processes compile, and one result remains
        yield
        return
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(one: Library, command: list[str], place: Path) -> None:
    """Put the library, or the compiler's message, into the folder `place`. The folder is created atomically."""
    name = Path(command[0]).name
    line = f"funcnet: compiling the CPU kernels of {one.what} with {name}, once on this machine (about 10 s) …"
    print(line, file=sys.stderr, flush=True)
    folder = Path(tempfile.mkdtemp(dir=place.parent))
    try:
        if message := _objects_and_library(one, command, folder):
            (folder / LIBRARY).unlink(missing_ok=True)
            (folder / FAILURE).write_text(_first_lines(message, SHOWN), "utf-8")
        folder.rename(place)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _objects_and_library(one: Library, command: list[str], folder: Path) -> str:
    """Compile the sources at the same time, and link them. Return the compiler's message if it fails, otherwise ""."""
    compiling, linking = one.options()
    objects = [folder / Path(file).with_suffix(".o") for file in one.files]
    steps = [
        [*command, *OPTIONS, f"-I{jax.ffi.include_dir()}", *compiling, "-c", str(FOLDER / file), "-o", str(target)]
        for file, target in zip(one.files, objects, strict=True)
    ]
    with ThreadPoolExecutor(len(steps)) as threads:
        message = next(filter(None, threads.map(_failure, steps)), "")
    library = folder / LIBRARY
    message = message or _failure([*command, "-shared", "-o", str(library), *map(str, objects), *linking])
    for path in objects:
        path.unlink(missing_ok=True)
    return message


def _failure(command: list[str]) -> str:
    """Run a command, and return its message if it fails, otherwise ""."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=600)
    except subprocess.TimeoutExpired:
        return "no result after 600 s"
    return done.stderr or f"exit code {done.returncode}" if done.returncode else ""


def _first_lines(text: str, count: int) -> str:
    lines = text.strip().splitlines()
    errors = [line for line in lines if "error" in line.lower()] or lines
    return "\n".join(errors[:count])
