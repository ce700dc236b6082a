"""The start of every weight, as Google's BERT draws it."""

from funcnet import nn

__all__ = ["initialise"]


def initialise(module: nn.Module, std: float) -> None:
    """Weights from N(0, std²) cut at two standard deviations, biases zero, the padding row zero.

    >>> layer = nn.Linear(2, 2)
    >>> initialise(layer, std=0.02)
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(part.weight, std=std, a=-2 * std, b=2 * std)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
        if isinstance(part, nn.Embedding) and part.padding_idx is not None:
            part.weight[part.padding_idx].zero_()
