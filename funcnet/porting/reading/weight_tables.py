"""Decides whether the port keeps a table with the internet addresses of pretrained weights. A table is kept if code
that loads no weights reads the table, as in `self.url = URLS.get(name)`.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from funcnet.porting.reading.name_uses import Reference, uses_of
from funcnet.porting.reading.parts_left_out import is_plain_data, loads_by_name, reason_for_function
from funcnet.porting.reading.sources import ModelSource
from funcnet.porting.reading.syntax import walk

__all__ = ["stays"]

_RUN = ("__init__", "forward", "__call__")


def stays(reference: Reference, node: cst.CSTNode, reason: Callable[[ModelSource, str], str | None]) -> bool:
    """Return whether a table of weights is kept, because the code that refers to it does not load weights.

    Args:
        reference: the expression that refers to the table.
        node: the kept function or statement that contains this expression. In a constructor, in `forward` or in
            `__call__`, only the statement with this expression is checked.
        reason: returns why the port leaves a definition of a file out, or None if it keeps the definition.
    """
    source, home, name = reference.source, reference.target.source, reference.target.name.partition(".")[0]
    known = home.bindings.get(name, ()) if home is not None else ()
    if not known or not all(is_plain_data(one.value) for one in known):
        return False
    name = ""
    if isinstance(node, cst.FunctionDef):
        inside = [one for one in node.body.body if any(part is reference.node for part in walk(one))]
        name = node.name.value
        if name in _RUN and inside:
            node = inside[0]
    uses = uses_of(source, node)
    targets = [one.target for one in uses.references if not one.lazy]
    reasons = {reason(one.source, one.name.partition(".")[0]) for one in targets if one.source is not None and one.name}
    loads = reason_for_function(name, uses) is not None or loads_by_name(uses.own)
    return not loads and "loads weights" not in reasons
