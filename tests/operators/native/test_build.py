"""How the kernels are built: once, in a cache that is the user's own, or not at all, with a line that says why."""

import os
import shutil
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from funcnet.operators.native import build as building
from funcnet.operators.native.build import Library, build

SMALL = Library(("small.cc",), "small things")
SOURCE = '#include "kernels.h"\nextern "C" int answer() { return ANSWER; }\n'


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and a folder with the source of a small library."""
    sources = tmp_path / "sources"
    sources.mkdir()
    shutil.copy(building.FOLDER / "kernels.h", sources)
    (sources / "small.cc").write_text(SOURCE.replace("ANSWER", "42"))
    monkeypatch.setattr(building, "FOLDER", sources)
    monkeypatch.setenv("FUNCNET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def compiler(folder, body):
    """A compiler that notes each call, and does what `body` says instead of compiling. Its own name is `slowcc`."""
    path = folder / "slowcc"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "slowcc 1.0" && exit 0\necho call >> {folder}/calls\n{body}\n'
    )
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
def test_built_once(cache, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CXX", compiler(tmp_path, 'exec g++ -O0 "$@"' if shutil.which("g++") else 'exec c++ "$@"'))
    first = build(SMALL)
    err = capsys.readouterr().err
    assert err.startswith("funcnet: compiling the CPU kernels of small things with slowcc, once on this machine")
    assert first.library.exists() and first.what.startswith("small things ") and first.what.endswith(" by slowcc 1.0")
    assert build(SMALL) == first and capsys.readouterr().err == ""
    assert (tmp_path / "calls").read_text() == "call\n" * 2  # one source, and the linker
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).answer())"
    assert subprocess.check_output([sys.executable, "-c", code, first.library], text=True) == "42\n"
    assert sorted(path.name for path in first.library.parent.iterdir()) == ["library.so"]

    (building.FOLDER / "small.cc").write_text(SOURCE.replace("ANSWER", "43"))
    second = build(SMALL)
    assert second.library != first.library
    monkeypatch.setattr(building, "_processor", lambda: "another one")
    assert build(SMALL).library not in (first.library, second.library)


def test_a_compiler_that_fails_is_not_called_again(cache, tmp_path, monkeypatch, capsys):
    body = 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "a.cc:$i: error: no $i" >&2; done; exit 1'
    monkeypatch.setenv("CXX", compiler(tmp_path, body))
    assert build(SMALL).library is None
    err = capsys.readouterr().err
    assert "XLA computes small things on CPU, without kernels: slowcc 1.0 failed:\na.cc:1: error: no 1\n" in err
    assert "no 8" in err and "no 9" not in err
    assert build(SMALL).library is None and "failed:\na.cc:1" in capsys.readouterr().err
    assert (tmp_path / "calls").read_text() == "call\n"


def test_no_compiler(cache, monkeypatch, capsys):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(building.importlib.util, "find_spec", lambda name: None)
    assert build(SMALL).library is None
    assert capsys.readouterr().err == (
        "funcnet: XLA computes small things on CPU, without kernels: no C++ compiler was found; install g++ or "
        "clang++, or the package ziglang\n"
    )


def test_a_compiler_that_does_not_run(cache, tmp_path, monkeypatch, capsys):
    path = tmp_path / "broken"
    path.write_text("#!/bin/sh\necho 'cannot find libstdc++' >&2\nexit 127\n")
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))
    assert build(SMALL).library is None
    assert f"{path} --version failed: cannot find libstdc++" in capsys.readouterr().err
    monkeypatch.setenv("CXX", "/nowhere/g++")
    assert build(SMALL).library is None
    assert "/nowhere/g++ cannot be run: No such file or directory" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_processor_without_vectors(cache, monkeypatch, capsys):
    monkeypatch.setattr(building, "OPTIONS", ("-std=c++20", "-march=x86-64", "-fPIC"))
    assert build(SMALL).library is None
    assert 'error: #error "the kernels need a processor with AVX2 or NEON"' in capsys.readouterr().err


def test_a_cache_of_somebody_else(cache, monkeypatch, capsys):
    folder = cache / "native"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert build(SMALL).library is None
    assert (
        f"the cache cannot be used: {folder} belongs to somebody else, or others can write it"
        in capsys.readouterr().err
    )
    folder.chmod(0o700)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert build(SMALL).library is None
    assert "belongs to somebody else" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written(cache, capsys):
    cache.write_text("a file")
    assert build(SMALL).library is None
    assert "the cache cannot be used: [Errno 20] Not a directory" in capsys.readouterr().err


def test_a_package_that_is_missing(cache, capsys):
    built = build(Library(("small.cc",), "small things", "some-package", "some/header.h", "some"))
    assert built.library is None and built.what == "small things: some-package is not installed (funcnet[native])"
    assert capsys.readouterr().err == ""  # it is optional


@pytest.mark.slow
def test_two_processes_compile_once(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", compiler(tmp_path, 'sleep 1; exec g++ -O0 "$@"'))
    code = f"""
        import pathlib
        from funcnet.operators.native import build as building
        building.FOLDER = pathlib.Path({str(building.FOLDER)!r})
        print(building.build(building.Library(("small.cc",), "small things")).library)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = (process.communicate()[0] for process in running)
    assert first == second != "None\n"
    assert (tmp_path / "calls").read_text() == "call\n" * 2


@pytest.mark.slow
def test_the_folder_is_the_users_own(cache):
    build(SMALL)
    assert stat.S_IMODE(Path(cache, "native").stat().st_mode) & 0o077 == 0
