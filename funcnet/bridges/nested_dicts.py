"""Convert flat dicts {dotted name: array}, which other libraries use, to the nested dicts that `init` returns."""

from collections.abc import Mapping
from typing import Any

from funcnet import tree
from funcnet.nn import Buffer, Module, Parameter
from funcnet.nn.core.module_tree import LeafPlace, build
from funcnet.tree import Tree

__all__ = ["check_module", "pruned", "whole"]


def whole(net: Module, params: Mapping[str, Any], state: Mapping[str, Any], where: str) -> tuple[Tree, Tree]:
    """Return (params, state) in the structure of `net.init`, from flat dicts {dotted name: array}.

    Raises:
        ValueError: if a leaf is missing or unexpected.
    """
    given = (dict(params), dict(state))
    lacking: list[str] = []

    def take(which: int) -> Any:
        def one(place: LeafPlace) -> Any:
            if place.path not in given[which]:
                lacking.append(place.path)
            return given[which].pop(place.path, None)

        return one

    trees = build(net, Parameter, take(0)), build(net, Buffer, take(1))
    beyond = [*given[0], *given[1]]
    if lacking or beyond:
        raise ValueError(
            f"{where}: the leaves do not match those of {type(net).__name__}; missing: {', '.join(lacking) or 'none'}; "
            f"unexpected: {', '.join(beyond) or 'none'}. Pass values that were made for this net."
        )
    return trees


def pruned(values: Tree) -> Tree:
    """Remove empty dicts from a tree, because flax does not store empty dicts.

    >>> pruned({"fc": {"weight": 1}, "act": {}})
    {'fc': {'weight': 1}}
    """
    return tree.unflatten(tree.flatten(values))


def check_module(net: object, where: str) -> None:
    """Raise a TypeError if `net` is not a funcnet module."""
    if not isinstance(net, Module):
        raise TypeError(
            f"{where}: net has the wrong type; expected a funcnet.nn.Module, got {type(net).__name__}. To use a flax "
            "module in a funcnet model, use FromNNX or FromLinen."
        )
