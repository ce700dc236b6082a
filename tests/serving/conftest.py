"""The sizes of the models' tests."""

from tests.models.conftest import sizes

__all__ = ["sizes"]
