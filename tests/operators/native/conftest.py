"""The tests of this folder use the kernels."""

from collections.abc import Iterator

import pytest

from funcnet.operators import native


@pytest.fixture(autouse=True)
def _kernels() -> Iterator[None]:
    with native.allowed(True):
        yield
