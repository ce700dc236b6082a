"""Parameter groups by name patterns; `tests/train/test_fit.py` compares them with torch's."""

import jax.numpy as jnp
import optax
import pytest

from funcnet import optim

PARAMS = {"body": {"weight": jnp.ones(2), "bias": jnp.ones(2)}, "head": {"weight": jnp.ones(2)}}


def moved(groups):
    optimizer = optim.param_groups(groups)
    updates, _ = optimizer.update(PARAMS, optimizer.init(PARAMS), PARAMS)
    return {name: float(leaf[0]) for part in updates.values() for name, leaf in part.items()}, updates


def test_the_last_pattern_that_matches_counts():
    _, updates = moved({"**": optax.sgd(1.0), "**.weight": optax.sgd(2.0), "head": optax.sgd(3.0)})
    assert [float(updates["body"][name][0]) for name in ("bias", "weight")] == [-1, -2]
    assert float(updates["head"]["weight"][0]) == -3


def test_a_key_can_be_a_tuple_of_patterns():
    _, updates = moved({"**": optax.sgd(1.0), ("body.bias", "head"): optax.sgd(2.0)})
    assert [float(updates["body"][name][0]) for name in ("bias", "weight")] == [-2, -1]
    assert float(updates["head"]["weight"][0]) == -2


def test_a_parameter_without_a_group_and_a_pattern_without_a_parameter_are_refused():
    with pytest.raises(ValueError, match=r"'head.weight' is in no group; .* Put the pattern '\*\*' first"):
        moved({"body": optax.sgd(1.0)})
    with pytest.raises(ValueError, match=r"optim.param_groups: pattern 'haed' matches nothing. Nearest names: 'head'"):
        moved({"**": optax.sgd(1.0), "haed": optax.sgd(1.0)})
