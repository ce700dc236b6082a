"""The graph of every function of `funcnet.functional` beside torch's, on the samples of torch's own database."""

import inspect
from typing import Any

import jax
import numpy as np
import pytest
import torch

from funcnet import functional as F
from funcnet import operators
from funcnet.operators.graph.function_plans import OPENED, PLANS, UNPLANNED
from tests.database import convert
from tests.database.functions import DROPOUTS, FUNCTIONS, IN_PLACE, SWAPPED, samples_of
from tests.operators.graph.torch_graph import differences, leaves, torch_name, torch_order

KINDS = 3  # graphs of each function that differ in their names
RANDOM = (
    *DROPOUTS,
    "dropout3d",
    "gumbel_softmax",
    "rrelu",
    "scaled_dot_product_attention",
    "multi_head_attention_forward",
)
# Functions whose graph differs, with the reason.
DIFFERENT = {
    "linear_cross_entropy/chunked": "torch has an operation of its own for chunks, without the parts as nodes",
    "linear_cross_entropy/chunked_none": "torch has an operation of its own for chunks, without the parts as nodes",
    "triplet_margin_with_distance_loss": "a distance that is given is opened, and the loss with it",
}
UNCOMPARED = {"ctc_loss": ("result1",)}  # the table of the forward variables
SLOW = ("max_pool", "max_unpool")  # torch makes very many samples
NAMES = [
    pytest.param(name, marks=[pytest.mark.slow] if name.startswith(SLOW) else [])
    for name in FUNCTIONS
    if hasattr(F, name.split("/")[0])
]


def torch_graph(name: str, sample: Any) -> list[Any]:
    args, kwargs = convert.fresh(sample)
    outputs = leaves(FUNCTIONS[name].op(*args, **kwargs))
    return torch_order([one for one in outputs if isinstance(one, torch.Tensor) and one.requires_grad])


def our_graph(name: str, sample: Any) -> Any:
    """The arrays that require gradients are arguments, the others constants."""
    base = name.split("/")[0]
    args, kwargs = convert.walk(sample, lambda one: tuple(one) if isinstance(one, torch.Size) else one)
    if base in SWAPPED:
        args = (args[1], args[0], *args[2:])
    given, structure = jax.tree.flatten((args, kwargs))
    arrays = jax.tree.leaves(convert.ours(given))
    asked = [n for n, one in enumerate(given) if isinstance(one, torch.Tensor) and one.requires_grad]
    function = getattr(F, base)
    random = {"rng": jax.random.key(0)} if "rng" in inspect.signature(function).parameters else {}

    def run(*chosen):
        values = [convert.ours(one) for one in given]
        for place, array in zip(asked, chosen, strict=True):
            values[place] = array
        args, kwargs = jax.tree.unflatten(structure, values)
        result = function(*args, **kwargs, **random)
        return result[0] if base in IN_PLACE else result

    assert len(arrays) == len(given)
    return operators.graph.backward(run)(*(convert.ours(given[n]) for n in asked))


@pytest.mark.parametrize("name", NAMES)
def test_the_graph_of_a_function(name):
    seen, found = set(), []
    for number, sample in enumerate(samples_of(name, torch.float32)[:12]):
        try:
            order = torch_graph(name, sample)
        except (RuntimeError, NotImplementedError):
            continue
        names = tuple(map(torch_name, order))
        if not order or names in seen or len(seen) == KINDS:
            continue
        seen.add(names)
        base = name.split("/")[0]
        found += [
            f"sample {number}: {line}"
            for line in differences(
                our_graph(name, sample), order, saved=base not in RANDOM, ignored=UNCOMPARED.get(base, ())
            )
        ]
    assert bool(found) == (name in DIFFERENT), "\n".join(found)


def test_every_function_has_a_plan_or_a_reason():
    """A new function needs a plan in `funcnet/operators/graph/function_plans`, or a reason in `OPENED`."""
    assert set(F.__all__) - PLANS.keys() - OPENED.keys() == set()
    assert not PLANS.keys() & OPENED.keys()
    private = {"attend", "batch_norm_and_count"}  # which layers call
    assert (PLANS.keys() | OPENED.keys()) - private <= set(F.__all__)
    assert UNPLANNED.keys() <= PLANS.keys()


@pytest.mark.every_row
@pytest.mark.parametrize(
    ("mask", "settings", "shape"),
    [
        (None, {"is_causal": True}, (2, 2, 3, 4)),
        ((3, 3), {}, (2, 2, 3, 4)),
        (None, {"scale": 0.3}, (2, 2, 3, 4)),
        (None, {}, (2, 3, 4)),
    ],
)
def test_scaled_dot_product_attention(mask, settings, shape):
    """The fused operation for four dimensions, and its parts for others."""
    random = np.random.default_rng(0)
    arrays = [random.normal(size=shape).astype(np.float32) for _ in range(3)]
    shown = None if mask is None else np.tril(np.ones(mask, bool))
    theirs = torch.nn.functional.scaled_dot_product_attention(
        *(torch.tensor(one, requires_grad=True) for one in arrays),
        attn_mask=None if shown is None else torch.tensor(shown),
        **settings,
    )
    ours = operators.graph.backward(
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, attn_mask=None if shown is None else jax.numpy.asarray(shown), **settings
        )
    )(*arrays)
    assert not differences(ours, torch_order([theirs]), ignored=("attn_mask",) if mask else ())
