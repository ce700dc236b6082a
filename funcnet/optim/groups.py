"""Parameter groups with different hyperparameters, as in torch's optimizers."""

from collections.abc import Mapping
from typing import Any

import optax

from funcnet import tree
from funcnet.arguments import expect, patterns, transformation

__all__ = ["param_groups"]


def param_groups(groups: Mapping[Any, optax.GradientTransformation]) -> optax.GradientTransformation:
    """Return an optimizer that updates each group of parameters with a separate transformation.

    Args:
        groups: {name pattern: optax transformation}; see `funcnet.tree` for patterns. A key may also be a tuple of
            patterns. If several patterns match a parameter, the last one is used. The pattern "**" matches all
            parameters. A parameter with several names (tied weights) is matched only by its first name.

    Returns:
        An `optax.GradientTransformation`. To clip the norm of all gradients together, put the clipping before this
        transformation with `optax.chain`. For a lower learning rate in one group, scale the schedule of this group:
        `optax.adamw(lambda step: 0.1 * schedule(step))`.

    Raises:
        TypeError: if `groups` is not a dict of patterns and transformations.
        ValueError: if there is no group, if a pattern matches no parameter, or if a parameter is matched by no pattern.

    Example:
        >>> import jax.numpy as jnp
        >>> optimizer = param_groups({"**": optax.sgd(0.1), "head": optax.sgd(1.0)})
        >>> params = {"body": {"weight": jnp.ones(1)}, "head": {"weight": jnp.ones(1)}}
        >>> updates, _ = optimizer.update(params, optimizer.init(params), params)
        >>> updates["body"]["weight"].item(), updates["head"]["weight"].item()
        (-0.10000000149011612, -1.0)
        >>> optimizer = param_groups({"body": optax.adam(0.1), ("head", "neck.**.bias"): optax.sgd(1.0)})

    Reference: https://docs.pytorch.org/docs/stable/optim.html#per-parameter-options
    """
    _check(groups)
    labels = {pattern: str(number) for number, pattern in enumerate(groups)}  # short names in checkpoints

    def labelled(params: tree.Tree) -> tree.Tree:
        chosen = tree.assign(labels, tree.flatten(params), None, where="optim.param_groups")
        left = [name for name, label in chosen.items() if label is None]
        if left:
            raise ValueError(
                f"optim.param_groups: {left[0]!r} is in no group; expected a pattern for every parameter, got "
                f"{', '.join(map(repr, groups))}. Put the pattern '**' first for the remaining parameters."
            )
        return tree.map_with_name(lambda name, _: chosen[name], params)

    return optax.multi_transform({labels[pattern]: group for pattern, group in groups.items()}, labelled)


def _check(groups: Mapping[Any, Any]) -> None:
    where, form = "optim.param_groups", "a dict {name pattern: optax transformation}"
    advice = "Write {'**': optax.adamw(1e-3), 'head': optax.adamw(1e-4)}."
    expect(isinstance(groups, Mapping), where, "groups", form, groups, advice)
    if not groups:
        raise ValueError(f"{where}: groups is empty; expected at least one group, got {groups!r}.")
    for pattern, group in groups.items():
        patterns(where, "a key of groups", pattern)
        transformation(where, f"groups[{pattern!r}]", group)
