"""The tables of the rules that recognise layers.

A rule gets the graph, the operands, the settings of an operation and the type of its result. A rule that recognises the
operation adds nodes to the graph and returns the value of the result. Otherwise, the rule returns None. The rules run
in two passes. The first pass sees JAX's primitives, and recognises layers and functions in them. The second pass sees
these layers, folds constants into their weights, and fuses clamps into them.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from funcnet.quantization import (
    recognised_functions,
    recognised_pooling,
    recognised_products,
    recognised_shapes,
    recognised_transformers,
)
from funcnet.quantization.graph import LayerValue

__all__ = ["FOLDING", "RULES"]

Rule = Callable[..., LayerValue | None]


def _first_of(rules: tuple[Rule, ...]) -> Rule:
    """Return a rule that tries `rules` in order, and returns the first result that is not None."""

    def rule(graph: object, operands: object, params: object, aval: object) -> LayerValue | None:
        return next((found for one in rules if (found := one(graph, operands, params, aval)) is not None), None)

    return rule


def _table(families: Sequence[Mapping[str, Sequence[Rule]]]) -> Mapping[str, Rule]:
    names = dict.fromkeys(name for family in families for name in family)
    rules = {name: _first_of(tuple(rule for family in families for rule in family.get(name, ()))) for name in names}
    return MappingProxyType(rules)


RULES = _table(
    [
        recognised_shapes.RULES,
        recognised_products.RULES,
        recognised_pooling.RULES,
        recognised_transformers.RULES,
        recognised_functions.RULES,
    ]
)
"""{name of a JAX primitive: rule that the first pass applies to it}."""

FOLDING = _table(
    [recognised_shapes.FOLDING, recognised_pooling.FOLDING, recognised_products.FOLDING, recognised_functions.FOLDING]
)
"""{name of an operation of the graph: rule that the second pass applies to it}."""
