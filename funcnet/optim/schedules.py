"""Learning rate schedules: a warm-up, then a decay to zero. The decay is linear. LAMB's schedule raises the linear
decay to a power.

A schedule is a pure function `schedule(step) -> learning rate`, as in optax. The argument `step` is the number of
updates before the current one. The first step of a warm-up therefore has rate 0, as in Google's and Hugging Face's
training. NVIDIA's training counts steps from 1, so its first step has a rate above 0.
"""

import jax
import jax.numpy as jnp
import optax

from funcnet.arguments import integer, number

__all__ = ["bert_schedule", "lamb_schedule", "warmup_linear_decay"]


def warmup_linear_decay(peak: float, warmup_steps: int, total_steps: int) -> optax.Schedule:
    """Return BERT's default schedule: a linear rise from 0 to `peak`, then a linear fall to 0, without a jump.

    rate(t) = peak · t / warmup                         for t < warmup
    rate(t) = peak · (total − t) / (total − warmup)     after the warm-up, and 0 for t > total

    Args:
        peak: learning rate at the end of the warm-up.
        warmup_steps: number of warm-up steps. 0 means no warm-up.
        total_steps: step at which the learning rate reaches 0.

    Returns:
        A function `schedule(step)`, where `step` is an int or an integer array.

    Raises:
        TypeError: if `peak` is not a number, or a number of steps is not an integer.
        ValueError: if `peak` is negative, if not 0 <= warmup_steps <= total_steps, or if `total_steps` is below 1.

    Example:
        >>> schedule = warmup_linear_decay(1.0, warmup_steps=2, total_steps=6)
        >>> [float(schedule(step)) for step in range(7)]
        [0.0, 0.5, 1.0, 0.75, 0.5, 0.25, 0.0]

    Reference:
        `transformers.get_linear_schedule_with_warmup`.
    """
    _check("warmup_linear_decay", peak, warmup_steps, total_steps)

    def schedule(step):
        t = _as_float(step)
        rise = t / max(1, warmup_steps)
        fall = jnp.maximum(0.0, (total_steps - t) / max(1, total_steps - warmup_steps))
        return peak * jnp.where(t < warmup_steps, rise, fall)

    return schedule


def bert_schedule(peak: float, warmup_steps: int, total_steps: int) -> optax.Schedule:
    """Return Google's schedule. The linear decay begins at step 0, so the rate drops at the end of the warm-up.

    rate(t) = peak · t / warmup          for t < warmup
    rate(t) = peak · (1 − t / total)     after the warm-up, and 0 for t > total

    With a warm-up of 10,000 out of 1,000,000 steps, the drop is 1 %. If a tenth of the steps are warm-up, the rate
    drops by 10 %. See `warmup_linear_decay` for the arguments, the result and the errors. `warmup_linear_decay` has no
    drop.

    Example:
        >>> schedule = bert_schedule(1.0, warmup_steps=2, total_steps=4)
        >>> [float(schedule(step)) for step in range(5)]
        [0.0, 0.5, 0.5, 0.25, 0.0]

    Reference:
        google-research/bert, `optimization.py`, `create_optimizer`.
    """
    _check("bert_schedule", peak, warmup_steps, total_steps)

    def schedule(step):
        t = _as_float(step)
        rise = t / max(1, warmup_steps)
        fall = jnp.maximum(0.0, total_steps - t) / total_steps  # 1 - t / total would lose precision near the last step
        return peak * jnp.where(t < warmup_steps, rise, fall)

    return schedule


def lamb_schedule(peak: float, warmup_steps: int, total_steps: int, power: float = 0.5) -> optax.Schedule:
    """Return NVIDIA's schedule for LAMB. The decay begins at step 0, so the rate drops at the end of the warm-up.

    rate(t) = peak · s / warmup                for s < warmup, where s = t + 1
    rate(t) = peak · (1 − s / total)**power    after the warm-up

    The first update has a rate above 0, and the last update has rate 0. NVIDIA trains in two phases. Phase 1 has peak
    6e-3, 7,038 steps with 2,000 warm-up steps, and batches of 65,536 sequences of 128 tokens. Phase 2 has peak 4e-3,
    1,563 steps with 200 warm-up steps, and batches of 32,768 sequences of 512 tokens. See `warmup_linear_decay` for
    the result, the errors and the other arguments.

    Args:
        power: exponent of the decay. 1 gives a linear decay.

    Example:
        >>> schedule = lamb_schedule(1.0, warmup_steps=2, total_steps=4)
        >>> [round(float(schedule(step)), 3) for step in range(4)]
        [0.5, 0.707, 0.5, 0.0]

    Reference:
        NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/BERT, `schedulers.py`, `PolyWarmUpScheduler`.
    """
    _check("lamb_schedule", peak, warmup_steps, total_steps)
    number("optim.lamb_schedule", "power", power, 0)

    def schedule(step):
        s = _as_float(step) + 1
        rise = s / max(1, warmup_steps)
        fall = (jnp.maximum(0.0, total_steps - s) / total_steps) ** power
        return peak * jnp.where(s < warmup_steps, rise, fall)

    return schedule


def _as_float(step: int | jax.Array) -> jax.Array:
    return jnp.asarray(step).astype(jnp.result_type(float))


def _check(where: str, peak: float, warmup_steps: int, total_steps: int) -> None:
    number(f"optim.{where}", "peak", peak, 0)
    integer(f"optim.{where}", "warmup_steps", warmup_steps)
    integer(f"optim.{where}", "total_steps", total_steps)
    if total_steps < 1 or not 0 <= warmup_steps <= total_steps:
        raise ValueError(
            f"optim.{where}: the numbers of steps are out of range; expected 0 <= warmup_steps <= total_steps and "
            f"total_steps >= 1, got warmup_steps={warmup_steps}, total_steps={total_steps}. Use a shorter warm-up or "
            "more steps."
        )
