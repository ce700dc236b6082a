"""Small torch packages, written for one test."""

import textwrap
from pathlib import Path

import libcst as cst

from funcnet.porting.reading.sources import ModelSource
from funcnet.porting.reading.syntax import walk

__all__ = ["find", "layer", "write"]


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files, {path below the folder: text}, and return the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
    return folder


def layer(name: str, forward: str = "x", init: str = "pass", more: str = "") -> str:
    """The text of a layer."""
    methods = textwrap.indent(textwrap.dedent(more), "    ")
    return (
        f"class {name}(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n\n"
        f"    def forward(self, x):\n        return {forward}\n{methods}\n"
    )


def find(source: ModelSource, text: str, index: int = 0) -> cst.CSTNode:
    """The node of a file whose code is a text, the outermost one."""
    nodes = (one for one in walk(source.tree) if isinstance(one, cst.BaseExpression | cst.BaseSmallStatement))
    return [one for one in nodes if source.tree.code_for_node(one) == text][index]
