"""Every function has torch's parameters: their names, their order, their defaults."""

import ast
import inspect

import pytest
import torch.nn.functional as T

from funcnet import functional as F

# Ours alone, keyword-only: what torch keeps in globals (its generator, its process group), and masks.
ADDED = {"rng", "mask", "axis_name", "axis_index_groups"}
# torch chooses at the call between a function with indices and one without: its own signature is (*args, **kwargs).
DISPATCHED = {f"max_pool{n}d": f"max_pool{n}d_with_indices" for n in (1, 2, 3)}
# The pure form of what torch does in place, torch.embedding_renorm_: not in torch.nn.functional.
OURS = {"embedding_renorm"}


def parameters_of(name):
    """[(name, default)] of torch's function; a builtin has them only in the first line of its docstring."""
    function = getattr(T, DISPATCHED.get(name, name))
    try:
        found = inspect.signature(function).parameters.values()
    except ValueError:
        head = function.__doc__.strip().splitlines()[0].split(" -> ")[0]
        arguments = ast.parse(f"def {head}: ...").body[0].args
        defaults = [ast.literal_eval(d) for d in arguments.defaults]
        names = [a.arg for a in arguments.args]
        return list(zip(names, [inspect.Parameter.empty] * (len(names) - len(defaults)) + defaults, strict=True))
    return [(p.name, p.default) for p in found]


@pytest.mark.parametrize("name", sorted(set(F.__all__) - OURS))
def test_parameters_are_torchs(name):
    ours = inspect.signature(getattr(F, name)).parameters.values()
    positional = [(p.name, p.default) for p in ours if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == parameters_of(name)
    assert {p.name for p in ours if p.kind is p.KEYWORD_ONLY} <= ADDED
