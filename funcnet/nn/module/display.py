"""Displays of a module: torch's `repr` in a terminal, and a collapsible tree in a notebook."""

import html as escape
import itertools

from funcnet.nn.core.module_tree import Node, children, computed_of, is_stack, leaves, slots
from funcnet.nn.core.parameter import Buffer

__all__ = ["html", "text"]


def _indent(block: str) -> str:
    first, *rest = block.split("\n")
    return "\n".join([first, *("  " + line for line in rest)])


def _name(module: Node) -> str:
    marks = {one.mark for one in computed_of(module).values()}
    return "".join(marks) + getattr(module, "_get_name", lambda: type(module).__name__)()


def text(module: Node) -> str:
    """Return torch's `repr`: the class and the text of `extra_repr`, then each child on its own indented lines."""
    extra = module.extra_repr()
    rows = [_indent(f"({label}): {block}") for label, block in _rows(module)]
    if not rows and "\n" not in extra:
        return f"{_name(module)}({extra})"
    body = "\n  ".join([*(extra.split("\n") if extra else []), *rows])
    return f"{_name(module)}(\n  {body}\n)"


def _rows(module: Node) -> list[tuple[str, str]]:
    """Return (name, `repr`) for each child of a module. `ModuleList` and `Repeat` show equal neighbours as one row,
    such as "(0-2): 3 x Linear(…)".
    """
    blocks = [(name, repr(child)) for name, child in slots(module)]  # a class may override __repr__
    if not getattr(module, "merges_equal_rows", False):
        return blocks
    if is_stack(module):
        blocks = [(str(i), blocks[0][1]) for i in range(module.n)]
    rows = []
    for block, run in itertools.groupby(blocks, key=lambda row: row[1]):
        names = [name for name, _ in run]
        rows.append((names[0], block) if len(names) == 1 else (f"{names[0]}-{names[-1]}", f"{len(names)} x {block}"))
    return rows


def html(module: Node) -> str:
    """Return HTML with one <details> element per module, which lists the leaves and their shapes. Frozen parameters are
    marked.
    """
    return f'<div style="font-family:monospace">{_details("", module, True)}</div>'


def _details(name: str, module: Node, is_open: bool) -> str:
    title = escape.escape(f"{_name(module)}({module.extra_repr()})")
    label = f"<b>{escape.escape(name)}</b>: {title}" if name else title
    rows = []
    for leaf_name, leaf in leaves(module):
        kind = "buffer" if isinstance(leaf, Buffer) else "parameter" if leaf.requires_grad else "frozen parameter"
        rows.append(f"<div><b>{escape.escape(leaf_name)}</b> {escape.escape(str(leaf.shape))} <i>{kind}</i></div>")
    rows += [_details(child_name, child, False) for child_name, child in children(module)]
    if not rows:
        return f'<div style="margin-left:1.2em">{label}</div>'
    opened = " open" if is_open else ""
    return f'<details{opened} style="margin-left:1.2em"><summary>{label}</summary>{"".join(rows)}</details>'
