"""The optimizer of fine-tuning: which parameters are trained, and the learning rate of each."""

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
    """Return BERT's AdamW, but with Adam's bias correction, because training on small data sets often fails without it.

    Args:
        schedule: schedule of the learning rate.
        trainable: names from `trainable_names`. Names are used instead of patterns because a frozen model may have no
            trainable LayerNorm left, and a pattern that matches nothing is an error.
        layers: number of layers of the encoder.
        layer_decay: factor of `layer_rates`.
        weight_decay: weight decay of all trainable parameters except biases and LayerNorm.

    Reference: Mosbach et al., 2021, "On the stability of fine-tuning BERT"
    """
    exempt = [name for name in trainable if name.endswith(".bias") or ".LayerNorm." in name]
    rates = layer_rates(trainable, layers, layer_decay) if layer_decay < 1 else None
    return optim.bert_adamw(schedule, weight_decay=weight_decay, no_decay=exempt, bias_correction=True, rates=rates)


def trainable_names(names: Sequence[str], freeze: tree.Patterns) -> list[str]:
    """Return the names of the parameters that no pattern in `freeze` matches.

    Raises:
        ValueError: if a pattern matches no parameter.
        RunError: if every parameter matches a pattern, so that nothing would be trained.

    >>> trainable_names(["bert.pooler.bias", "classifier.bias"], "bert")
    ['classifier.bias']
    """
    frozen = set(tree.select(freeze, names, where="finetune: --freeze"))
    left = [name for name in names if name not in frozen]
    if not left:
        raise RunError(
            "finetune: --freeze leaves nothing to train; expected patterns that match only some parameters, got "
            "all of them frozen."
        )
    return left


def layer_rates(names: Sequence[str], layers: int, decay: float) -> dict[str, float]:
    """Return the factor of the learning rate for each parameter name.

    The factor is 1 for the head and the pooler, and `decay` for the top layer. For each lower layer, and finally for
    the embeddings, the factor is multiplied by `decay` again.

    >>> layer_rates(["bert.embeddings.LayerNorm.bias", "bert.encoder.layer.1.output", "classifier.bias"], 2, 0.5)
    {'bert.embeddings.LayerNorm.bias': 0.125, 'bert.encoder.layer.1.output': 0.5, 'classifier.bias': 1.0}

    Reference: Clark et al., 2020, ELECTRA (appendix A)
    """
    depth = {"bert.embeddings": layers + 1} | {f"bert.encoder.layer.{i}": layers - i for i in range(layers)}
    known = {name: ".".join(name.split(".")[: 4 if ".layer." in name else 2]) for name in names}
    return {name: decay ** depth.get(prefix, 0) for name, prefix in known.items()}
