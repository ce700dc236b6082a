"""Operators that are declared once, with their signature, their derivative and an implementation for each platform."""

from funcnet.operators import graph
from funcnet.operators.foreign_kernels import ForeignKernel
from funcnet.operators.operator import Operator, define, get, load, table
from funcnet.operators.operator_checks import check
from funcnet.operators.schema import Alias, OperatorArgument, Schema, Type
from funcnet.operators.schema_parsing import parse

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
