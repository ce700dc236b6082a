"""Which parameters train, and at which rate each."""

from collections.abc import Sequence

import optax

from funcnet import optim, tree
from funcnet.train import RunError

__all__ = ["layer_rates", "make_optimizer", "trainable_names"]


def make_optimizer(
    schedule: optax.Schedule,
    trainable: Sequence[str],
    layers: int,
    layer_decay: float = 1.0,
    *,
    weight_decay: float = 0.01,
) -> optax.GradientTransformation:
    """BERT's AdamW for the parameters that train, with Adam's bias correction: without it small data sets often fail.

    Args:
        schedule: of the rate.
        trainable: of `trainable_names`. Names in place of patterns: a frozen model may have no LayerNorm left, and a
            pattern that matches nothing is an error.
        layers: of the encoder.
        layer_decay: see `layer_rates`.
        weight_decay: of weights, not of biases and LayerNorm.

    Reference: Mosbach et al., 2021, "On the stability of fine-tuning BERT"
    """
    exempt = [name for name in trainable if name.endswith(".bias") or ".LayerNorm." in name]
    rates = layer_rates(trainable, layers, layer_decay) if layer_decay < 1 else None
    return optim.bert_adamw(schedule, weight_decay=weight_decay, no_decay=exempt, bias_correction=True, rates=rates)


def trainable_names(names: Sequence[str], freeze: tree.Patterns) -> list[str]:
    """The names that no pattern of `freeze` covers.

    Raises:
        ValueError: a pattern matches nothing; `RunError` where nothing is left.

    >>> trainable_names(["bert.pooler.bias", "classifier.bias"], "bert")
    ['classifier.bias']
    """
    frozen = set(tree.select(freeze, names, where="finetune: --freeze"))
    left = [name for name in names if name not in frozen]
    if not left:
        raise RunError("finetune: --freeze; expected patterns that leave something to train, got all of it frozen.")
    return left


def layer_rates(names: Sequence[str], layers: int, decay: float) -> dict[str, float]:
    """{name: factor of the rate}: 1 for the head and the pooler, `decay` for the top layer, its square for the next,
    …, and a power more than the lowest layer's for the embeddings.

    >>> layer_rates(["bert.embeddings.LayerNorm.bias", "bert.encoder.layer.1.output", "classifier.bias"], 2, 0.5)
    {'bert.embeddings.LayerNorm.bias': 0.125, 'bert.encoder.layer.1.output': 0.5, 'classifier.bias': 1.0}

    Reference: Clark et al., 2020, ELECTRA (appendix A)
    """
    depth = {"bert.embeddings": layers + 1} | {f"bert.encoder.layer.{i}": layers - i for i in range(layers)}
    known = {name: ".".join(name.split(".")[: 4 if ".layer." in name else 2]) for name in names}
    return {name: decay ** depth.get(prefix, 0) for name, prefix in known.items()}
