"""Every loss of torch.nn as a module, from the file that holds it.

`reduction` is 'mean', 'sum' or 'none' in all of them. `size_average` and `reduce` are torch's older form of it and
cause a DeprecationWarning.
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
