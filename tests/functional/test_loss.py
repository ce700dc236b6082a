"""What all losses share: their names, `reduction` and its old names, bfloat16."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as T

from funcnet import functional as F
from funcnet import nn
from funcnet.functional import loss

from .oracle import integers, normal

X, Y, Z = normal(4, 3), normal(4, 3, seed=1), normal(4, 3, seed=2)
UNIT = np.abs(np.sin(X))
IDS, SIGNS, LISTS = integers(0, 3, 4), 2 * integers(0, 2, 4, 3) - 1, np.array([[0, 1, -1]] * 4)

# Of each loss: its tensors by name.
CALLS = {
    "binary_cross_entropy": {"input": UNIT, "target": UNIT[::-1].copy()},
    "binary_cross_entropy_with_logits": {"input": X, "target": UNIT},
    "cosine_embedding_loss": {"input1": X, "input2": Y, "target": SIGNS[:, 0]},
    "cross_entropy": {"input": X, "target": IDS},
    "gaussian_nll_loss": {"input": X, "target": Y, "var": UNIT + 0.1},
    "hinge_embedding_loss": {"input": X, "target": SIGNS},
    "huber_loss": {"input": X, "target": Y},
    "kl_div": {"input": X, "target": UNIT},
    "l1_loss": {"input": X, "target": Y},
    "linear_cross_entropy": {"input": X, "linear_weight": Y, "target": IDS},
    "margin_ranking_loss": {"input1": X, "input2": Y, "target": SIGNS},
    "mse_loss": {"input": X, "target": Y},
    "multi_margin_loss": {"input": X, "target": IDS},
    "multilabel_margin_loss": {"input": X, "target": LISTS},
    "multilabel_soft_margin_loss": {"input": X, "target": UNIT},
    "nll_loss": {"input": X, "target": IDS},
    "poisson_nll_loss": {"input": X, "target": IDS[:, None]},
    "smooth_l1_loss": {"input": X, "target": Y},
    "soft_margin_loss": {"input": X, "target": SIGNS},
    "triplet_margin_loss": {"anchor": X, "positive": Y, "negative": Z},
    "triplet_margin_with_distance_loss": {"anchor": X, "positive": Y, "negative": Z},
}
OLD = sorted(name for name in CALLS if "reduce" in inspect.signature(getattr(T, name)).parameters)
# torch's table of the old names: reduce=False is 'none', whatever size_average says.
TABLE = [(a, r) for a in (None, True, False) for r in (None, True, False) if (a, r) != (None, None)]


def ours(name, dtype=jnp.float32):
    cast = lambda a: jnp.asarray(a, dtype) if a.dtype.kind == "f" else jnp.asarray(a)
    return {key: cast(a) for key, a in CALLS[name].items()}


def theirs(name):
    return {key: torch.tensor(a) if a.dtype.kind == "f" else torch.tensor(a).long() for key, a in CALLS[name].items()}


def test_every_loss_of_torch_is_here():
    named = {name for name in dir(T) if name.endswith(("_loss", "_entropy", "_logits", "kl_div")) and name[0] != "_"}
    assert named == set(loss.__all__) == {*CALLS, "ctc_loss"}
    assert {name for name in dir(torch.nn) if name.endswith(("Loss", "Loss2d", "WithLoss"))} <= set(dir(nn))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_half_precisions_are_summed_in_float32(name):
    """A thousand copies of a term: a sum in bfloat16 would stop growing at 256 of them."""
    halves = (jnp.bfloat16, jnp.float16)

    def both(half):
        given = {k: v[:1] if k != "linear_weight" else v for k, v in ours(name, half).items()}
        copies = {k: jnp.concatenate([v] * 1000) if k != "linear_weight" else v for k, v in given.items()}
        return getattr(F, name)(**copies), getattr(F, name)(**given, reduction="none").mean()

    for half, (mean, term) in zip(halves, jax.jit(lambda: [both(h) for h in halves])(), strict=True):
        assert mean.dtype == half and abs(float(mean) / float(term) - 1) < 2 * float(jnp.finfo(half).eps)


def said_in_old_names(name, size_average, reduce):
    old = {"size_average": size_average, "reduce": reduce, "reduction": "sum"}
    want = getattr(T, name)(**theirs(name), **old)
    with pytest.warns(DeprecationWarning, match=f"F.{name}: size_average and reduce are deprecated") as caught:
        got = getattr(F, name)(**ours(name), **old)
    assert caught[0].filename == __file__
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:size_average and reduce args")
@pytest.mark.parametrize("name", OLD)
def test_the_old_names_of_reduction(name):
    said_in_old_names(name, None, False)


@pytest.mark.filterwarnings("ignore:size_average and reduce args")
@pytest.mark.parametrize(("size_average", "reduce"), TABLE)
def test_the_table_of_the_old_names(size_average, reduce):
    said_in_old_names("mse_loss", size_average, reduce)


@pytest.mark.parametrize("name", CALLS)
def test_another_reduction_is_refused(name):
    with pytest.raises(
        ValueError, match=f"F.{name}: reduction is unknown; expected 'none', 'mean' or 'sum', got 'avg'"
    ):
        getattr(F, name)(**ours(name), reduction="avg")


@pytest.mark.filterwarnings("ignore:F.kl_div")
@pytest.mark.parametrize("name", CALLS)
def test_integers_are_refused(name):
    first, *_ = CALLS[name]
    with pytest.raises(TypeError, match=f"F.{name}: {first} must hold floating-point numbers"):
        getattr(F, name)(**{**ours(name), first: jnp.zeros((4, 3), int)})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_the_mean_of_nothing_is_nan_and_the_sum_0(name):
    nothing = {k: v[:0] if k != "linear_weight" else v for k, v in ours(name).items()}
    mean, total = jax.jit(lambda: [getattr(F, name)(**nothing, reduction=r) for r in ("mean", "sum")])()
    assert np.isnan(mean) and total == 0


class Mine(nn.NLLLoss):
    def __init__(self, size_average=None):
        super().__init__(None, size_average)


@pytest.mark.parametrize(
    "kind",
    [nn.CrossEntropyLoss, nn.NLLLoss, nn.MSELoss, nn.BCEWithLogitsLoss, nn.BCELoss, nn.KLDivLoss, nn.HuberLoss, Mine],
)
def test_layers_warn_of_the_old_names_where_they_are_built(kind):
    if kind is nn.HuberLoss:  # it never had them
        with pytest.raises(TypeError, match="unexpected keyword argument 'size_average'"):
            kind(size_average=False)
        return
    with pytest.warns(DeprecationWarning, match=f"{kind.__name__}: .* reduction='sum'") as caught:
        layer = kind(size_average=False)
    assert layer.reduction == "sum" and caught[0].filename == __file__


def test_nllloss2d_is_an_old_name():
    with pytest.warns(FutureWarning, match="NLLLoss2d is deprecated. Use NLLLoss instead") as caught:
        layer = nn.NLLLoss2d(reduction="sum")
    assert caught[0].filename == __file__ and repr(layer) == "NLLLoss2d()"
    assert layer.apply({}, {}, jnp.ones((1, 2, 1, 1)), jnp.zeros((1, 1, 1), int))[0] == -1


REFUSALS = [
    (lambda: nn.MSELoss(reduction="avg"), ValueError, "MSELoss: reduction is unknown"),
    (lambda: nn.HuberLoss(delta="1"), TypeError, "HuberLoss: delta is not a number; expected float or int, got str"),
    (lambda: nn.MultiMarginLoss(p=3), ValueError, "MultiMarginLoss: p is not supported; expected 1 or 2, got 3"),
    (lambda: nn.MultiMarginLoss(weight=jnp.ones((1, 2))), ValueError, "MultiMarginLoss: weight has the wrong rank"),
    (lambda: nn.TripletMarginLoss(margin=0), ValueError, "TripletMarginLoss: margin is not positive"),
    (
        lambda: nn.TripletMarginWithDistanceLoss(margin=-1.0),
        ValueError,
        "DistanceLoss: margin is not positive; .* -1.0",
    ),
    (lambda: nn.LinearCrossEntropyLoss(3, 4, weight=jnp.ones(3)), ValueError, r"weight has the wrong shape; .*\(4,\)"),
    (
        lambda: nn.LinearCrossEntropyLoss(3, 4, label_smoothing=1.5),
        ValueError,
        "label_smoothing is out of range; .*1.5",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSALS, ids=[text for *_, text in REFUSALS])
def test_layers_refuse(call, error, text):
    with pytest.raises(error, match=text):
        call()
