"""The initialisation of all weights of a BERT, as in Google's code."""

from funcnet import nn

__all__ = ["initialise"]


def initialise(module: nn.Module, std: float) -> None:
    """Initialise weights from N(0, std²) truncated at two standard deviations, and biases and the padding row with
    zeros.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(part.weight, std=std, a=-2 * std, b=2 * std)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
        if isinstance(part, nn.Embedding) and part.padding_idx is not None:
            part.weight[part.padding_idx].zero_()
