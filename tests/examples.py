"""How many examples the property tests draw: 200 a family, or as many as FUNCNET_EXAMPLES says (5,000 for a long run).

FUNCNET_EXAMPLES=5000 sh scripts/test.sh -k hypothesis
"""

import os
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("FUNCNET_EXAMPLES", "200"))

# Derandomized, so that a red run is red again; no deadline, for the first call of each shape compiles.
torch_says = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def first_of(cases: Sequence[Any], quick: int = 1) -> list[Any]:
    """The cases of a parametrized test, all but the first few of them marked slow: CI alone runs those."""
    return [*cases[:quick], *(_slow(case) for case in cases[quick:])]


def _slow(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
