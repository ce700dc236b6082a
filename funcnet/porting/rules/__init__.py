"""The rules, with one file for each family of torch's functions. `RULES` is {name: its rules}."""

from collections.abc import Mapping

from funcnet.porting.rule_engine.rule import Rule, table
from funcnet.porting.rules import (
    attention,
    casts,
    comparison,
    creation,
    environment,
    indexing,
    internal,
    joining,
    linalg,
    linear_algebra,
    pointwise,
    python_side,
    random,
    reduction,
    shape,
    sorting,
    sparse,
    special,
    spectral,
    twins,
)

__all__ = ["RULES"]

RULES: Mapping[str, tuple[Rule, ...]] = table(
    [
        *shape.ROWS,
        *joining.ROWS,
        *indexing.ROWS,
        *reduction.ROWS,
        *sorting.ROWS,
        *pointwise.ROWS,
        *comparison.ROWS,
        *twins.ROWS,
        *creation.ROWS,
        *casts.ROWS,
        *random.ROWS,
        *environment.ROWS,
        *linalg.ROWS,
        *linear_algebra.ROWS,
        *special.ROWS,
        *spectral.ROWS,
        *python_side.ROWS,
        *sparse.ROWS,
        *internal.ROWS,
        *attention.ROWS,
    ]
)
