"""Operators that are declared once, with their signature, their derivative and an implementation for each platform."""

from funcnet.operators.foreign import Foreign
from funcnet.operators.operator import Operator, define, defined
from funcnet.operators.parsing import parse
from funcnet.operators.schema import Alias, OperatorArgument, Schema, Type

__all__ = ["Alias", "Foreign", "Operator", "OperatorArgument", "Schema", "Type", "define", "defined", "parse"]
