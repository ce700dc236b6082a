"""Optimizers that optax lacks: BERT's AdamW and NVIDIA's LAMB, with their schedules.

This package also has torch's gradient clipping, parameter groups and weight averaging, and it converts torch's
optimizer states. For all other optimizers, use optax.
"""

from typing import NoReturn

from funcnet.optim import swa_utils
from funcnet.optim.adamw import NO_DECAY, bert_adamw, scale_by_bert_adam
from funcnet.optim.clipping import clip_by_global_norm
from funcnet.optim.groups import param_groups
from funcnet.optim.lamb import lamb, scale_by_layer_norms
from funcnet.optim.schedules import bert_schedule, lamb_schedule, warmup_linear_decay
from funcnet.optim.torch_state import from_torch, to_torch

__all__ = [
    "NO_DECAY",
    "bert_adamw",
    "bert_schedule",
    "clip_by_global_norm",
    "from_torch",
    "lamb",
    "lamb_schedule",
    "param_groups",
    "scale_by_bert_adam",
    "scale_by_layer_norms",
    "swa_utils",
    "to_torch",
    "warmup_linear_decay",
]


def __dir__() -> list[str]:
    """Return the public names of `funcnet.optim`, without submodules and imports."""
    return __all__


_OPTAX = {
    "Adam": "optax.adam",
    "AdamW": "optax.adamw, or optim.bert_adamw",
    "SGD": "optax.sgd",
    "RMSprop": "optax.rmsprop",
    "Adagrad": "optax.adagrad",
    "Adadelta": "optax.adadelta",
    "Adamax": "optax.adamax",
    "NAdam": "optax.nadam",
    "RAdam": "optax.radam",
    "LBFGS": "optax.lbfgs",
    "Optimizer": "optax.GradientTransformation",
    "lr_scheduler": "a schedule as the learning rate: optax.cosine_decay_schedule, or optim.warmup_linear_decay",
}


def __getattr__(name: str) -> NoReturn:
    """Raise an AttributeError. If `name` is in torch.optim, the message recommends the alternative in `_OPTAX`."""
    text = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(f"{text}. Use {_OPTAX[name]}." if name in _OPTAX else text, name=name)
