"""All losses of torch.nn.functional, each imported from the file that implements it.

`reduction` is 'mean', 'sum' or 'none'. `size_average` and `reduce` are torch's deprecated arguments for choosing the
reduction. If `size_average` or `reduce` is given, it overrides `reduction` and causes a DeprecationWarning.
`reduce=False` means 'none'. If `reduce` is not False, `size_average=False` means 'sum', and every other `size_average`
means 'mean'.
"""

from funcnet.functional.linear_cross_entropy import linear_cross_entropy
from funcnet.functional.loss_classification import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    nll_loss,
)
from funcnet.functional.loss_ctc import ctc_loss
from funcnet.functional.loss_distance import (
    cosine_embedding_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from funcnet.functional.loss_margin import (
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    soft_margin_loss,
)
from funcnet.functional.loss_regression import (
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "ctc_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "linear_cross_entropy",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]
