"""Every public name of torch.nn and torch.nn.functional is here, or its AttributeError says why not and what to use."""

import functools
import importlib
import re
import types

import jax
import pytest
import torch

import funcnet.parallel
from funcnet import functional as F
from funcnet import nn, optim, train
from funcnet.functional import absent as absent_functions
from funcnet.nn.core import absent as absent_modules

# Python's own modules and torch itself, which torch/nn/functional.py imports.
IMPORTED = {
    name for name, value in vars(torch.nn.functional).items() if isinstance(value, types.ModuleType) and name != "grad"
}
NAMES = {
    # torch's contexts are looked for in nn, because there is no funcnet.no_grad either
    "nn": [*(name for name in dir(torch.nn) if not name.startswith("_")), "no_grad", "inference_mode"],
    "F": [name for name in dir(torch.nn.functional) if not name.startswith("_") and name not in IMPORTED],
}
OURS = {"nn": nn, "F": F}
ABSENT = {"nn": absent_modules.ABSENT, "F": absent_functions.ABSENT}
every_absent = pytest.mark.parametrize(("where", "name"), [(w, name) for w, table in ABSENT.items() for name in table])


@pytest.mark.parametrize(("where", "name"), [(w, name) for w, names in NAMES.items() for name in names])
def test_a_public_name_is_here_or_says_why_it_is_not(where, name):
    if name in ABSENT[where]:
        with pytest.raises(AttributeError, match=rf"^{where}\.{name} does not exist here\. .+\. .+\.$"):
            getattr(OURS[where], name)
    else:
        assert hasattr(OURS[where], name)


@every_absent
def test_the_table_holds_torchs_names_alone_and_what_it_recommends_exists(where, name):
    assert name in NAMES[where], "torch has no such name"
    libraries = {"nn": nn, "F": F, "funcnet": funcnet, "jax": jax}
    for library, path in re.findall(r"\b(nn|F|funcnet|jax)\.([\w.]*\w)", ABSENT[where][name]):
        functools.reduce(getattr, path.split("."), libraries[library])


def test_other_names_are_refused_as_python_does():
    for module, name in ((nn, "Lineer"), (F, "rellu")):
        with pytest.raises(AttributeError, match=rf"^module '{module.__name__}' has no attribute '{name}'$") as refused:
            getattr(module, name)
        assert refused.value.obj is module and refused.value.name == name
    assert importlib.import_module("funcnet.nn") is nn


def test_dir_shows_the_public_names_only():
    for module in (optim, train):
        assert dir(module) == sorted(module.__all__)
