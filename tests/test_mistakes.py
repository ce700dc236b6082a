"""The mistakes that torch users make: funcnet is not silent where torch is not, and no message misleads.

The tables are in `mistakes/`, a file for each group. Every row of torch code is run with torch too.
"""

import importlib
import pkgutil
import re

import jax
import numpy as np
import pytest

from tests import mistakes
from tests.mistakes import Mistake, Result, funcnet_result, torch_result

GROUPS = {
    file.name: importlib.import_module(f"tests.mistakes.{file.name}").MISTAKES
    for file in pkgutil.iter_modules(mistakes.__path__)
}
ROWS = [pytest.param(row, id=f"{group}-{row.code[:60]}") for group, rows in GROUPS.items() for row in rows]


def _text(result: Result) -> str:
    """Return the message of the error with its notes, as a traceback shows it."""
    return "\n".join([str(result.error), *getattr(result.error, "__notes__", ())])


@pytest.mark.parametrize("mistake", ROWS)
def test_the_mistake_is_found_or_has_torchs_value(mistake: Mistake):
    ours = funcnet_result(mistake)
    theirs = torch_result(mistake) if mistake.torch else None
    if theirs is not None:
        assert (theirs.error is not None) == (mistake.torch == "raises"), theirs
    if mistake.verdict == "raises":
        assert ours.error is not None, ours.value
        assert re.search(mistake.message, _text(ours), re.DOTALL), _text(ours)
        return
    assert ours.error is None, _text(ours)
    if mistake.verdict == "warns":
        assert any(re.search(mistake.message, warning, re.DOTALL) for warning in ours.warnings), ours.warnings
    elif mistake.verdict == "same":
        values, expected = jax.tree.leaves(ours.value), jax.tree.leaves(theirs.value)
        assert len(values) == len(expected) > 0
        for value, tensor in zip(values, expected, strict=True):
            # bfloat16 has 8 bits
            np.testing.assert_allclose(np.asarray(value, np.float32), tensor.detach().float().numpy(), rtol=8e-3)


def test_there_are_180_mistakes_and_silence_has_a_reason():
    rows = [row for rows in GROUPS.values() for row in rows]
    assert len(rows) >= 180
    assert all(row.why for row in rows if row.verdict == "silent")
    assert all(row.message for row in rows if row.verdict in ("raises", "warns"))
