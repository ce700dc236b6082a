"""Facts that follow from a name alone: results of Python's functions, attributes of tensors and modules, and the items
of a module's `parameters()` and the like.
"""

from __future__ import annotations

from collections.abc import Mapping

from funcnet.porting.expression_facts.fact import BOOL, DICT, FLOAT, INT, INTS, LIST, STR, TENSOR, TUPLE, Fact

__all__ = ["BUILTINS", "MODULE_ATTRIBUTES", "PARAMETER", "TENSOR_ATTRIBUTES", "TRAVERSALS"]

PARAMETER, _MODULE = Fact(frozenset({"parameter"})), Fact(frozenset({"module"}))
BUILTINS: Mapping[str, Fact] = {
    "len": INT, "int": INT, "float": FLOAT, "bool": BOOL, "str": STR, "isinstance": BOOL, "hasattr": BOOL,
    "list": LIST, "tuple": TUPLE, "dict": DICT, "sorted": LIST, "callable": BOOL, "ord": INT, "repr": STR,
    "type": Fact(frozenset({"class"})),
    "range": Fact(frozenset({"other"}), name="range"), "slice": Fact(frozenset({"slice"})),
    "set": Fact(frozenset({"set"})),
}  # fmt: skip
TENSOR_ATTRIBUTES: Mapping[str, Fact] = {
    "shape": INTS, "dtype": Fact(frozenset({"dtype"})), "device": Fact(frozenset({"device"})), "ndim": INT,
    "requires_grad": BOOL, "is_cuda": BOOL,
}  # fmt: skip
MODULE_ATTRIBUTES: Mapping[str, Fact] = {
    "training": BOOL, "weight": TENSOR, "bias": TENSOR, "running_mean": TENSOR, "running_var": TENSOR,
}  # fmt: skip
TRAVERSALS: Mapping[str, Fact] = {
    "parameters": PARAMETER, "buffers": TENSOR, "modules": _MODULE, "children": _MODULE,
    "named_parameters": Fact(frozenset({"tuple"}), items=(STR, PARAMETER)),
    "named_buffers": Fact(frozenset({"tuple"}), items=(STR, TENSOR)),
    "named_modules": Fact(frozenset({"tuple"}), items=(STR, _MODULE)),
    "named_children": Fact(frozenset({"tuple"}), items=(STR, _MODULE)),
}  # fmt: skip
