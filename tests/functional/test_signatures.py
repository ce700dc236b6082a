"""Every function has torch's parameters: their names, their order, their defaults."""

import ast
import inspect

import pytest
import torch
import torch.nn.functional as T

from funcnet import functional as F

# Ours alone, keyword-only: what torch keeps in globals (its generator, its process group), and masks.
# `lengths` stands where torch takes packed data; the last three choose how attention to long sequences is computed.
ADDED = {"rng", "mask", "axis_name", "axis_index_groups", "lengths"}
ADDED |= {"segment_ids", "context_parallel", "block_size"}
# torch chooses at the call between a function with indices and one without: its own signature is (*args, **kwargs).
DISPATCHED = {
    name: f"{name}_with_indices"
    for name in (
        *(f"{kind}max_pool{n}d" for kind in ("", "adaptive_") for n in (1, 2, 3)),
        *(f"fractional_max_pool{n}d" for n in (2, 3)),
    )
} | {name: f"_{name}" for name in ("in_projection", "in_projection_packed")}
# Not in torch.nn.functional: the pure form of what torch does in place, torch.embedding_renorm_; what it does inside.
OURS = {"embedding_renorm", "merge_heads", "split_heads"}


def parameters_of(name):
    """[(name, default, whether by keyword alone)] of torch's function; some builtins have them only in a docstring."""
    there = DISPATCHED.get(name, name)
    if not hasattr(T, there):  # recurrent layers and cells are functions of torch itself
        return parameters_of_operator(name)
    function = getattr(T, there)
    try:
        found = inspect.signature(function).parameters.values()
    except ValueError:
        head = function.__doc__.strip().splitlines()[0].split(" -> ")[0]
        if not head.startswith(name) or ")" not in head:  # no signature there, or a part; its operator has one
            return parameters_of_operator(name)
        arguments = ast.parse(f"def {head}: ...").body[0].args
        defaults = [ast.literal_eval(d) for d in arguments.defaults]
        defaults = [inspect.Parameter.empty] * (len(arguments.args) - len(defaults)) + defaults
        return [(a.arg, default, False) for a, default in zip(arguments.args, defaults, strict=True)]
    return [(p.name, p.default, p.kind is p.KEYWORD_ONLY) for p in found]


def parameters_of_operator(name):
    operator = getattr(torch.ops.aten, name)
    arguments = getattr(operator, operator.overloads()[0])._schema.arguments
    defaults = [a.default_value if a.has_default_value() else inspect.Parameter.empty for a in arguments]
    names = ["input" if a.name == "self" else a.name for a in arguments]
    return [(n, d, a.kwarg_only) for n, d, a in zip(names, defaults, arguments, strict=True)]


@pytest.mark.parametrize("name", sorted(set(F.__all__) - OURS))
def test_parameters_are_torchs(name):
    found = inspect.signature(getattr(F, name)).parameters.values()
    ours = [(p.name, p.default, p.kind is p.KEYWORD_ONLY) for p in found]
    theirs = parameters_of(name)
    added = {name for name, *_ in ours} - {name for name, *_ in theirs}
    assert added <= ADDED
    assert all(by_keyword for name, _, by_keyword in ours if name in added)
    assert [parameter for parameter in ours if parameter[0] not in added] == theirs
