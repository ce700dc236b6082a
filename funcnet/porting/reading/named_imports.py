"""Replaces calls that import a library, such as
`Rearrange, found = optional_import("einops.layers.torch", name="Rearrange")`.

The equivalent import statement takes the place of the call on the same line, so line numbers do not change. Only
imports of libraries that a port may need are replaced. If the call also returns a flag for the success of the import,
the flag becomes True.
"""

from __future__ import annotations

import libcst as cst

__all__ = ["with_plain_imports"]

_FUNCTIONS = ("optional_import", "try_import", "import_module")
_LIBRARIES = ("torch", "einops", "numpy", "math")


def with_plain_imports(tree: cst.Module) -> cst.Module:
    """Return the file with import statements in place of calls that import a library.

    Args:
        tree: the file. Only statements at its top level are examined.

    >>> with_plain_imports(cst.parse_module('np, _ = optional_import("numpy")')).code
    'import numpy as np'
    """
    body = [_plain(one) if isinstance(one, cst.SimpleStatementLine) else one for one in tree.body]
    return tree if all(new is old for new, old in zip(body, tree.body, strict=True)) else tree.with_changes(body=body)


def _plain(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
    statement = line.body[0]
    if len(line.body) != 1 or not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return line
    path, name, pair = _imported(statement.value)
    target = statement.targets[0].target
    names = [one.value for one in target.elements] if isinstance(target, cst.Tuple) else [target]
    if path.partition(".")[0] not in _LIBRARIES or len(names) != 1 + pair:
        return line
    if not all(isinstance(one, cst.Name) for one in names):
        return line
    bound, *flags = (one.value for one in names if isinstance(one, cst.Name))
    texts = [f"from {path} import {name} as {bound}" if name else f"import {path} as {bound}"]
    texts += [f"{flag} = True" for flag in flags if flag != "_"]
    made = cst.parse_statement("; ".join(texts).replace(f" {bound} as {bound}", f" {bound}"))
    assert isinstance(made, cst.SimpleStatementLine)
    return line.with_changes(body=made.body)


def _imported(call: cst.BaseExpression) -> tuple[str, str, bool]:
    """Return (imported module, name in it or "", whether the call also returns a flag) for a call that imports a
    library, and ("", "", False) for other expressions.
    """
    first = isinstance(call, cst.Subscript)  # optional_import("numpy")[0]
    if isinstance(call, cst.Subscript):
        index = call.slice[0].slice
        if not isinstance(index, cst.Index) or not isinstance(index.value, cst.Integer) or index.value.value != "0":
            return "", "", False
        call = call.value
    if not isinstance(call, cst.Call) or not call.args:
        return "", "", False
    func = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    values = {arg.keyword.value if arg.keyword else str(i): arg.value for i, arg in enumerate(call.args)}
    known = {key: str(one.evaluated_value) for key, one in values.items() if isinstance(one, cst.SimpleString)}
    path = known.get("0", known.get("module", ""))
    if not isinstance(func, cst.Name) or func.value not in _FUNCTIONS or not path:
        return "", "", False
    if "name" in values and "name" not in known:
        return "", "", False
    return path, known.get("name", ""), func.value == "optional_import" and not first
