"""Every public name of torch.nn.utils is here, or its AttributeError says why not and what to use."""

import pytest
import torch
from torch.nn.utils import prune as torch_prune

from funcnet import nn
from funcnet.nn.utils import absent

PAIRS = {
    "nn.utils": (nn.utils, torch.nn.utils, absent.ABSENT),
    "nn.utils.parametrize": (nn.utils.parametrize, torch.nn.utils.parametrize, absent.ABSENT_PARAMETRIZE),
    "nn.utils.parametrizations": (nn.utils.parametrizations, torch.nn.utils.parametrizations, {}),
    "nn.utils.prune": (nn.utils.prune, torch_prune, absent.ABSENT_PRUNE),
}


def names(where):
    theirs = PAIRS[where][1]
    if where == "nn.utils":
        return [name for name in dir(theirs) if not name.startswith("_")]
    if hasattr(theirs, "__all__"):
        return list(theirs.__all__)
    return [
        name
        for name, value in vars(theirs).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == theirs.__name__
    ]


@pytest.mark.parametrize(("where", "name"), [(where, name) for where in PAIRS for name in names(where)])
def test_a_public_name_is_here_or_says_why_it_is_not(where, name):
    ours, _, table = PAIRS[where]
    if name in table:
        with pytest.raises(AttributeError, match=rf"^{where}\.{name} does not exist here\. .+\. .+\.$"):
            getattr(ours, name)
    else:
        assert hasattr(ours, name)


def test_the_tables_hold_torchs_names_alone():
    for where, (ours, theirs, table) in PAIRS.items():
        assert all(hasattr(theirs, name) for name in table), where
        assert not set(table) & set(vars(ours)), where
