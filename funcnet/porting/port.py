"""Ports the source of a torch model: selects the needed parts, rewrites them, writes the result to a folder, and
compares it with torch.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

import libcst as cst

from funcnet.porting.analysis.random_functions import Functions
from funcnet.porting.errors import PortError
from funcnet.porting.errors.unported_lines import RegisterEntry, as_json, as_text
from funcnet.porting.proving.proof import Proof, prove
from funcnet.porting.reading.global_names import aliases_of
from funcnet.porting.reading.slicing import Slice, module_tree, slice_of
from funcnet.porting.reading.sources import ModelSource, read
from funcnet.porting.rewriting.rewritten_file import Rewritten, plans_of, rewrite
from funcnet.porting.rules import RULES
from funcnet.porting.running.recording import Recording, record

__all__ = ["Port", "port", "ported_files"]


@dataclasses.dataclass(frozen=True)
class Port:
    """The result of a port.

    Attributes:
        out: the folder with the result.
        root: name of the ported class.
        files: the ported files.
        left_out: (name, reason) for each definition that was left out of the result.
        entries: the register.
        proof: the comparison with torch, or None if there was no example or torch is not installed.
        note: why there is no proof, or "" if there is one.
    """

    out: Path
    root: str
    files: tuple[Rewritten, ...]
    left_out: tuple[tuple[str, str], ...]
    entries: tuple[RegisterEntry, ...]
    proof: Proof | None
    note: str = ""


def port(
    path: str | Path,
    class_name: str | None,
    out: str | Path,
    *,
    construct: str | None = None,
    example: str | None = None,
    replace: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> Port:
    """Port a torch model and write the result to a folder.

    Args:
        path: the Python file that defines the model.
        class_name: the class in this file to port. By default, this is the layer that uses all other layers of the
            file, directly or indirectly. If there is no such layer, every public layer that is not a part of another
            layer is ported.
        out: the folder for the result, which is a package with the ported files, REGISTER.txt, register.json and
            PROOF.md.
        construct: an expression that makes the model, such as "ResNet(BasicBlock, [1, 1, 1, 1])".
        example: an expression for the arguments of `forward`, such as "torch.randn(2, 3, 64, 64)".
        replace: whether to replace the files of an earlier port in `out`.
        progress: function that is called with a line of text at each stage.

    Returns:
        A `Port`, which describes the result. A failed comparison is not an error, and is listed in `Port.proof`.

    Raises:
        PortError: if the source cannot be read or run, `construct` is not an expression, `out` is a file, or the folder
            `out` is not empty. With `replace`, the folder may hold an earlier port.

    Example:
        >>> import tempfile, torch
        >>> source = "from torch import nn\\nclass Net(nn.Linear):\\n    pass\\n"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path, out = Path(folder, "net.py"), Path(folder, "ported")
        ...     _ = path.write_text(source)
        ...     result = port(path, "Net", out, construct="Net(3, 2)", example="torch.ones(4, 3)")
        ...     sorted(file.name for file in out.iterdir()), result.proof.ok
        (['PROOF.md', 'REGISTER.txt', '__init__.py', 'net.py', 'register.json'], True)
    """
    new = not Path(out).exists()
    folder = _folder(Path(out), replace)
    try:
        return _ported(Path(path), class_name, folder, construct, example, progress)
    except BaseException:
        with contextlib.suppress(OSError):
            if new:
                folder.rmdir()  # if nothing was written
        raise


def _ported(
    path: Path,
    class_name: str | None,
    folder: Path,
    construct: str | None,
    example: str | None,
    progress: Callable[[str], None],
) -> Port:
    progress(f"Reading {path}")
    source = read(path)
    sliced = slice_of(source, class_name, _names(construct))
    recording, note = None, ""
    if example is None:
        note = "There was no --example, so no run showed the types, and nothing was compared with torch."
    elif importlib.util.find_spec("torch") is None:
        note = "torch is not installed, so no run showed the types, and nothing was compared with torch."
    else:
        progress(f"Running {sliced.root} in torch")
        recording = record(source.path, sliced.root, construct, example)
    progress(f"Writing {folder}")
    written = ported_files(sliced, recording)
    _write(folder, sliced, written, _exports(source, sliced, construct))
    entries = [entry for one in written for entry in one.entries]
    proof = None
    if recording is not None and example is not None:
        progress("Comparing with torch")
        home = folder / sliced.output_names[_home(sliced)]
        proof = prove(source.path, sliced.root, home, construct, example, progress)
        entries += proof.entries
        (folder / "PROOF.md").write_text(proof.as_markdown(sliced.root), encoding="utf-8")
    entries = sorted(set(entries))
    (folder / "register.json").write_text(as_json(entries), encoding="utf-8")
    (folder / "REGISTER.txt").write_text(_register(entries, sliced.left_out), encoding="utf-8")
    return Port(folder, sliced.root, written, sliced.left_out, tuple(entries), proof, note)


def ported_files(sliced: Slice, recording: Recording | None = None) -> tuple[Rewritten, ...]:
    """Return the files of a port without writing them.

    Args:
        sliced: the parts of the source that the model needs.
        recording: what a run of the model in torch showed about the types of expressions and the functions that were
            called.

    Returns:
        One `Rewritten` per file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "net.py")
        ...     _ = path.write_text("from torch import nn\\nclass Net(nn.Linear):\\n    pass\\n")
        ...     files = ported_files(slice_of(read(path)))
        >>> print(files[0].text.rstrip())
        from funcnet import nn
        class Net(nn.Linear):
            pass
    """
    names = sliced.output_names

    def ran(source: ModelSource, node: cst.CSTNode, phase: str) -> bool:
        assert recording is not None
        return recording.ran(source.path, source.span(node), phase)

    functions = Functions(names, RULES, ran if recording is not None else None)
    trees = {one: module_tree(sliced, one.source) for one in sliced.files}
    plans = plans_of(trees, functions, recording)
    return tuple(
        rewrite(
            one,
            tree,
            names[one.source],
            functions,
            functools.partial(_home_of, names, one.source),
            recording,
            plans[one.source],
        )
        for one, tree in trees.items()
    )


def _names(construct: str | None) -> list[str]:
    """Return the names in the expression that makes the model, such as "BasicBlock" and "layers.Norm"."""
    try:
        tree = ast.parse(construct or "", mode="exec")
    except SyntaxError as error:
        raise PortError(f"--construct: {construct!r} is not an expression of Python; {error.msg}.") from error
    found = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)]
    return [name for name in found if all(part.isidentifier() for part in name.split("."))]


def _home_of(
    names: dict[ModelSource, str], source: ModelSource, node: cst.ImportFrom | cst.Import, name: str
) -> tuple[str, str] | None:
    """Return where the result defines a name, such as "utils.SIZE", that a source imports from its own package.

    Returns:
        (file of the result without its suffix, name in this file), or ("", file) if the name is a module. None for
        other names.
    """
    first, *rest = name.split(".")
    targets = [source.package.imported(source, node, alias) for alias in aliases_of(node, first) if alias is not None]
    if any(one.source is None for one in targets):
        return None  # `from other import A` in a file that defines `A` as well
    target = source.package.follow(source, first, tuple(rest))
    if target is None and targets and not rest:
        target = targets[0]  # the import is inside a function
    if target is None or target.source is None or target.source not in names:
        return None
    file = names[target.source].removesuffix(".py")
    return (file, target.name) if target.name else ("", file)


def _home(sliced: Slice) -> ModelSource:
    return sliced.files[0].source


def _folder(out: Path, replace: bool) -> Path:
    if out.exists() and not out.is_dir():
        raise PortError(f"{out}: this is a file; expected a folder for the result, or a path that does not exist.")
    if out.is_dir() and any(out.iterdir()):
        if not replace:
            raise PortError(
                f"{out}: the folder is not empty; expected a new folder. To replace a port, pass --replace."
            )
        if not (out / "register.json").is_file():
            raise PortError(f"{out}: the folder is not empty and holds no port; expected a folder of an earlier port.")
        for old in [*out.glob("*.py"), out / "PROOF.md", out / "REGISTER.txt", out / "register.json"]:
            old.unlink(missing_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    return out


def _exports(source: ModelSource, sliced: Slice, construct: str | None) -> dict[str, list[str]]:
    """Return {file: names that the folder exports from it}: the classes, and the names that `construct` uses."""
    exported: dict[str, list[str]] = {}
    for name in [*sliced.roots, *_names(construct)]:
        first, *rest = name.split(".")
        target = source.package.follow(source, first, tuple(rest), aliases=True)
        if target is not None and target.source in sliced.output_names and target.name.isidentifier():
            names = exported.setdefault(sliced.output_names[target.source].removesuffix(".py"), [])
            names += [target.name] if target.name not in names else []
    return exported


def _write(folder: Path, sliced: Slice, written: Sequence[Rewritten], exports: dict[str, list[str]]) -> None:
    for one in written:
        ast.parse(one.text)  # what is written must parse
        (folder / one.name).write_text(one.text, encoding="utf-8")
    text = f'"""{sliced.root}, ported from torch by `funcnet port`. REGISTER.txt lists the lines to look at."""\n\n'
    text += "".join(f"from .{file} import {', '.join(names)}\n" for file, names in exports.items())
    text += f"\n__all__ = {sorted(name for names in exports.values() for name in names)!r}\n"
    (folder / "__init__.py").write_text(text.replace("'", '"'), encoding="utf-8")


def _register(entries: Sequence[RegisterEntry], left_out: Sequence[tuple[str, str]]) -> str:
    lines = [as_text(entries) or "Every line was decided."]
    if left_out:
        lines += ["", f"left out ({len(left_out)})", *(f"  {name}: {reason}" for name, reason in left_out)]
    return "\n".join(lines) + "\n"
