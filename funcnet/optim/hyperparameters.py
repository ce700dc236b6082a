"""Checks of the hyperparameters of optimizers. The ranges are those of torch's optimizers."""

from collections.abc import Mapping
from typing import Any

from funcnet.arguments import boolean, expect, function, number, patterns

__all__ = ["check_adam", "check_decay", "check_rate", "check_rates"]


def check_rate(where: str, learning_rate: object) -> None:
    """Check that a learning rate is a number that is not negative, or a schedule."""
    if callable(learning_rate):
        function(where, "learning_rate", learning_rate, "schedule(step)", 1)
        return
    is_parameters = isinstance(learning_rate, Mapping) or hasattr(learning_rate, "__next__")
    advice = "The parameters are an argument of the optimizer's init and update." if is_parameters else ""
    expect(hasattr(learning_rate, "__float__"), where, "learning_rate", "a number or a schedule", learning_rate, advice)
    number(where, "learning_rate", learning_rate, 0)


def check_adam(where: str, b1: object, b2: object, eps: object, bias_correction: object) -> None:
    """Check the hyperparameters of Adam's moving averages."""
    number(where, "b1", b1, 0, 1, below=True)
    number(where, "b2", b2, 0, 1, below=True)
    number(where, "eps", eps, 0)
    boolean(where, "bias_correction", bias_correction)


def check_decay(where: str, weight_decay: object, no_decay: object) -> None:
    """Check the coefficient of the weight decay, and the patterns of the parameters without it."""
    number(where, "weight_decay", weight_decay, 0)
    patterns(where, "no_decay", no_decay)


def check_rates(where: str, rates: Mapping[str, Any] | None) -> None:
    """Check multipliers of the learning rate."""
    if rates is None:
        return
    expect(isinstance(rates, Mapping), where, "rates", "a dict {name pattern: multiplier} or None", rates)
    for pattern, factor in rates.items():
        expect(isinstance(pattern, str), where, "a pattern of rates", "a string", pattern)
        number(where, f"rates[{pattern!r}]", factor, 0)
