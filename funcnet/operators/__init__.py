"""Operators that are declared once, with their signature, their derivative and an implementation for each platform."""

from funcnet.operators import graph
from funcnet.operators.checking import check
from funcnet.operators.foreign import ForeignKernel
from funcnet.operators.operator import Operator, define, get, load, table
from funcnet.operators.parsing import parse
from funcnet.operators.schema import Alias, OperatorArgument, Schema, Type

__all__ = [
    "Alias",
    "ForeignKernel",
    "Operator",
    "OperatorArgument",
    "Schema",
    "Type",
    "check",
    "define",
    "get",
    "graph",
    "load",
    "parse",
    "table",
]
