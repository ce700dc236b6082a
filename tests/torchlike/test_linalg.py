"""The names of `tl.linalg`. Their values are in test_decompositions.py, test_norms.py and test_solving.py."""

import inspect

import torch

import funcnet.torchlike as tl


def test_names_and_arguments_are_those_of_torch():
    for name in tl.linalg.__all__:
        assert hasattr(torch.linalg, name)
        parameters = inspect.signature(getattr(tl.linalg, name)).parameters
        text = getattr(torch.linalg, name).__doc__
        assert all(one in text for one in parameters), name
