"""Rewrites docstrings that name types of torch, so that they name the types of JAX."""

from __future__ import annotations

import re

import libcst as cst

from funcnet.porting.transforms.rewrite_context import RewriteContext

__all__ = ["docstring"]

_TENSOR = re.compile(r"\btorch\.\w*Tensor\b")


def docstring(
    original: cst.SimpleString, updated: cst.SimpleString, context: RewriteContext
) -> cst.SimpleString | None:
    """Write `jax.Array` for `torch.Tensor` and `torch.LongTensor` in a docstring."""
    if not isinstance(context.parent(original), cst.Expr) or not _TENSOR.search(updated.value):
        return None
    return updated.with_changes(value=_TENSOR.sub("jax.Array", updated.value))
