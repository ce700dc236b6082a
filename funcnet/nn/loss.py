"""This file imports every loss of torch.nn from the file that implements the loss.

The `reduction` of every loss is 'mean', 'sum' or 'none', and that of `KLDivLoss` may also be 'batchmean'.
`size_average` and `reduce` are torch's deprecated names for `reduction`, and setting either of them emits a
DeprecationWarning.
"""

from funcnet.nn.loss_classification import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    CTCLoss,
    LinearCrossEntropyLoss,
    LinearCrossEntropyOptions,
    NLLLoss,
    NLLLoss2d,
)
from funcnet.nn.loss_distance import CosineEmbeddingLoss, TripletMarginLoss, TripletMarginWithDistanceLoss
from funcnet.nn.loss_margin import (
    HingeEmbeddingLoss,
    MarginRankingLoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    SoftMarginLoss,
)
from funcnet.nn.loss_regression import (
    GaussianNLLLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    PoissonNLLLoss,
    SmoothL1Loss,
)

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LinearCrossEntropyLoss",
    "LinearCrossEntropyOptions",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]
