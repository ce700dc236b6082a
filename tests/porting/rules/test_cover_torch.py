"""Every public name of torch has a rule: an expression, or a row of the register that says what to write."""

import importlib

import pytest
import torch

from funcnet.porting.rules import RULES

# Names that need no rule: they are the same in JAX, or a rule would be asked about objects that are no tensors.
WITHOUT = {
    "Tensor.dtype": "an array of JAX has it too",
    "Tensor.ndim": "an array of JAX has it too",
    "Tensor.shape": "an array of JAX has it too",
    "Tensor.index": "torch raises an error for it, and lists have it",
    "Tensor.name": "a name of dimensions, which torch never finished; files, layers and others have it",
    "Tensor.values": "only sparse tensors have it; dictionaries have it too",
    "Tensor.eig": "torch raises an error for it; other objects have methods of that name",
    "Tensor.lstsq": "torch raises an error for it; other objects have methods of that name",
    "Tensor.solve": "torch raises an error for it; other objects have methods of that name",
    "Tensor.symeig": "torch raises an error for it; other objects have methods of that name",
}


def _public(module: str) -> list[str]:
    found = importlib.import_module(module)
    names = {*getattr(found, "__all__", ())} or {name for name in dir(found) if not name.startswith("_")}
    return sorted(f"{module}.{name}" for name in names)


NAMES = {
    "torch": _public("torch"),
    "Tensor": sorted(f"Tensor.{name}" for name in dir(torch.Tensor) if not name.startswith("_")),
    **{
        module: _public(f"torch.{module}")
        for module in (
            "linalg", "fft", "special", "signal.windows", "func", "autograd", "autograd.functional", "distributions",
            "sparse", "hub", "overrides", "utils.checkpoint", "utils.data", "jit", "cuda", "distributed", "random",
            "amp",
        )
    },
}  # fmt: skip


def is_covered(name: str) -> bool:
    """Whether a name has a rule, is a method in place of one that has, or belongs to a module that has one."""
    if name in RULES or name in WITHOUT or (name.endswith("_") and name.rstrip("_") in RULES):
        return True
    module = name.rpartition(".")[0]
    while module:
        if f"{module}.*" in RULES:
            return True
        module = module.rpartition(".")[0]
    return False


@pytest.mark.parametrize("module", NAMES)
def test_every_name_has_a_rule(module):
    missing = [name for name in NAMES[module] if not is_covered(name)]
    assert not missing, f"{len(missing)} names of {module} have no rule: {' '.join(missing)}"


def test_exceptions_are_names_of_torch_without_rules():
    for name in WITHOUT:
        assert name in NAMES["Tensor"] and name not in RULES


def test_rows_of_the_register_say_what_to_write():
    silent = [name for name, rules in RULES.items() for one in rules if one.kind == "register" and len(one.note) < 8]
    assert not silent


def test_templates_parse_and_name_functions_that_exist():
    import libcst as cst

    from funcnet.porting.reading.expressions import parse
    from funcnet.porting.rule_engine.template_filling import ROOTS

    class Paths(cst.CSTVisitor):
        def __init__(self):
            self.found = []

        def visit_Attribute(self, node):
            names = []
            while isinstance(node, cst.Attribute):
                names.insert(0, node.attr.value)
                node = node.value
            if isinstance(node, cst.Name) and node.value in ROOTS:
                self.found.append((node.value, names))
            return not isinstance(node, cst.Name)

    for name, rules in RULES.items():
        for one in rules:
            if not one.template:
                continue
            paths = Paths()
            parse(one.template).visit(paths)
            for root, names in paths.found:
                found = importlib.import_module(ROOTS[root])
                for part in names:
                    assert hasattr(found, part), f"{name}: {one.template}: {root}.{'.'.join(names)} does not exist"
                    found = getattr(found, part)
