"""Rewrites statements that contain expressions for which no transformer found a replacement.

Each such statement gets an entry in the register. If the level of the entry is "blocks", the port raises an error when
it reaches the statement.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import libcst as cst

from funcnet.porting.errors.unported_lines import BLOCKS, RegisterEntry
from funcnet.porting.reading.expressions import code
from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["STATEMENTS", "finish", "idle", "items"]

STATEMENTS = (
    cst.SimpleStatementLine, cst.If, cst.For, cst.While, cst.With, cst.FunctionDef, cst.ClassDef, cst.Try, cst.Match,
)  # fmt: skip


def _statement_of(node: cst.CSTNode, context: RewriteContext) -> cst.CSTNode | None:
    found: cst.CSTNode | None = node
    while found is not None and not isinstance(found, STATEMENTS):
        found = context.parent(found)
    return found


def finish(original: cst.CSTNode, written: cst.CSTNode, context: RewriteContext) -> cst.CSTNode | cst.RemovalSentinel:
    """Write the register's entries for a statement, and return its replacement.

    If the level of an entry is "blocks", the replacement is the original text as comments, and a `raise` below the
    comments. At the top level of a module or a class, `pass` replaces the `raise`, so that the module can be imported.

    Args:
        original: the statement of the original tree.
        written: the statement as the other transformers have written it.
        context: the context.
    """
    mine = [one for one in context.undecided if _statement_of(one.node, context) is original]
    if not mine:
        emptied = isinstance(written, cst.SimpleStatementLine) and not written.body
        return cst.RemoveFromParent() if emptied else _with_comments(original, written)
    context.undecided = [one for one in context.undecided if one not in mine]
    bare = original.with_changes(leading_lines=[]) if hasattr(original, "leading_lines") else original
    text = code(bare).strip("\n")
    first = next((line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")), "").strip()
    entries = list(
        dict.fromkeys(
            RegisterEntry(context.file, context.line(one.node), one.level, first, one.why, one.write) for one in mine
        )
    )
    context.entries += entries
    blocking = [one for one in entries if one.level == BLOCKS]
    if not blocking:
        return _with_comments(original, written)
    comments = [cst.EmptyLine(comment=cst.Comment(f"# {line}".rstrip())) for line in text.splitlines() if line.strip()]
    home = context.parent(original)
    inside = isinstance(home, cst.IndentedBlock) and isinstance(context.parent(home), cst.ClassDef)
    if isinstance(home, cst.Module) or inside:
        kept = cst.parse_statement("pass")
    else:
        kept = cst.parse_statement(f"raise NotImplementedError({blocking[0].message!r})")
    assert isinstance(kept, cst.SimpleStatementLine)
    leading = getattr(original, "leading_lines", ())
    return kept.with_changes(leading_lines=[*leading, *comments])


_INNER = (cst.BaseSuite, cst.Else, cst.If, cst.ExceptHandler, cst.ExceptStarHandler, cst.Finally, cst.MatchCase)


def _comments(node: cst.CSTNode, whole: bool) -> list[str]:
    """Return all comments in a syntax node, or only those outside the statements inside it if `whole` is False."""
    found, stack = [], [node]
    while stack:
        one = stack.pop()
        if isinstance(one, cst.Comment):
            found.append(one.value)
        stack += [child for child in reversed(one.children) if whole or not isinstance(child, _INNER)]
    return found


def _with_comments(original: cst.CSTNode, written: Any) -> Any:
    """Put comments that are no longer in a rewritten statement on the lines above it."""
    nodes = list(written) if isinstance(written, cst.FlattenSentinel) else [written]
    before = _comments(original, whole=False)
    if not before or not nodes or not hasattr(nodes[0], "leading_lines"):
        return written
    kept = Counter(comment for node in nodes for comment in _comments(node, whole=True))
    lost = []
    for comment in before:
        if kept[comment]:
            kept[comment] -= 1
        else:
            lost.append(cst.EmptyLine(comment=cst.Comment(comment)))
    if not lost:
        return written
    nodes[0] = nodes[0].with_changes(leading_lines=[*nodes[0].leading_lines, *lost])
    return cst.FlattenSentinel(nodes) if isinstance(written, cst.FlattenSentinel) else nodes[0]


def idle(original: cst.Assign, updated: cst.Assign, context: RewriteContext) -> cst.RemovalSentinel | None:
    """Leave out an assignment that has become `x = x`, such as `x = x.clone()`, or that changes a setting of torch."""
    if any((context.qualified(one.target) or "").startswith("torch.") for one in original.targets):
        context.settle(original)  # torch.backends.cudnn.benchmark = True
        return cst.RemoveFromParent()
    targets = {code(one.target) for one in updated.targets}
    same = code(updated.value) in targets and len(targets) == 1
    return cst.RemoveFromParent() if same and code(original.value) not in targets else None


def items(original: cst.List, updated: cst.List, context: RewriteContext) -> cst.List | None:
    """Keep the trailing comma and line break of a list when its last items are left out of the port."""
    if len(original.elements) == len(updated.elements) or not updated.elements:
        return None
    *others, last = updated.elements
    return updated.with_changes(elements=[*others, last.with_changes(comma=original.elements[-1].comma)])
