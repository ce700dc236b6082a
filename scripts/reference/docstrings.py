"""The extension of griffe with which mkdocstrings reads funcnet's docstrings."""

import importlib
import inspect
from typing import Any

import griffe

from scripts.reference.markdown import from_docstring
from scripts.reference.public_names import MADE_AT_RUNTIME, ROOT, public_names

__all__ = ["FuncnetDocstrings"]


class FuncnetDocstrings(griffe.Extension):
    """Turns every docstring into Markdown, and names the line of the source below it."""

    def on_object(self, *, obj: griffe.Object, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Rewrite the docstring of an object. Only objects at the top of a module get a link to their source."""
        if obj.docstring is None:
            return
        text = from_docstring(obj.docstring.value)
        if obj.parent is not None and obj.parent.is_module and not obj.is_module and obj.lineno is not None:
            file = obj.filepath.relative_to(ROOT).as_posix()  # type: ignore[union-attr]
            link = f'<a href="source:{file}#line-{obj.lineno}">{file}, line {obj.lineno}</a>'
            text += f'\n\n<p class="source">Source: {link}</p>'
        obj.docstring.value = text

    def on_module(self, *, mod: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """Replace public constants of a module that are functions at runtime by these functions."""
        if mod.path not in MADE_AT_RUNTIME:
            return
        running = importlib.import_module(mod.path)
        for name in public_names(mod.path):
            made = getattr(running, name)
            constant = mod.members[name]
            if constant.is_attribute and inspect.isfunction(made) and made.__doc__:
                mod.set_member(name, _function(name, made, mod, constant.lineno))


def _function(name: str, made: Any, mod: griffe.Module, line: int | None) -> griffe.Function:
    text = f"def {name}{inspect.signature(made, eval_str=False)}: ...\n"
    function = griffe.visit(mod.path, filepath=mod.filepath, code=text, parent=mod.parent).members[name]
    assert isinstance(function, griffe.Function)
    function.lineno = function.endlineno = line
    function.docstring = griffe.Docstring(inspect.cleandoc(made.__doc__), lineno=line, parent=function)
    return function
