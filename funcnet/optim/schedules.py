"""Learning rates as functions of the step: warm-up, then decay to zero, linear or (LAMB) by a root.

A schedule is optax's: `schedule(step) -> learning rate`, pure, `step` the count of updates before this one.
So the first step of a warm-up has rate 0, in Google's and in Hugging Face's training alike; NVIDIA's counts from 1.
"""

import jax
import jax.numpy as jnp
import optax

__all__ = ["bert_schedule", "lamb_schedule", "warmup_linear_decay"]


def warmup_linear_decay(peak: float, warmup_steps: int, total_steps: int) -> optax.Schedule:
    """Rises from 0 to `peak` in `warmup_steps`, then falls to 0 at `total_steps`, without a jump. The default.

    rate(t) = peak · t / warmup                         for t < warmup
    rate(t) = peak · (total − t) / (total − warmup)     after it, and 0 past the end

    Args:
        peak: the rate at the end of the warm-up.
        warmup_steps: how many steps the rise takes; 0 for none.
        total_steps: the step where the rate is 0 again.

    Returns:
        `schedule(step)`, step an int or an integer array.

    Raises:
        ValueError: not 0 <= warmup_steps <= total_steps, or total_steps below 1.

    Example:
        >>> schedule = warmup_linear_decay(1.0, warmup_steps=2, total_steps=6)
        >>> [float(schedule(step)) for step in range(7)]
        [0.0, 0.5, 1.0, 0.75, 0.5, 0.25, 0.0]

    Reference:
        `transformers.get_linear_schedule_with_warmup`.
    """
    _check("warmup_linear_decay", warmup_steps, total_steps)

    def schedule(step):
        t = _as_float(step)
        rise = t / max(1, warmup_steps)
        fall = jnp.maximum(0.0, (total_steps - t) / max(1, total_steps - warmup_steps))
        return peak * jnp.where(t < warmup_steps, rise, fall)

    return schedule


def bert_schedule(peak: float, warmup_steps: int, total_steps: int) -> optax.Schedule:
    """Google's schedule: the decay is measured from step 0, so the rate jumps down at the end of the warm-up.

    rate(t) = peak · t / warmup          for t < warmup
    rate(t) = peak · (1 − t / total)     after it, and 0 past the end

    With 10,000 of 1,000,000 steps the jump is 1 %; with a tenth of them it is 10 %. Args, Returns and Raises as
    `warmup_linear_decay`, which has no such jump.

    Example:
        >>> schedule = bert_schedule(1.0, warmup_steps=2, total_steps=4)
        >>> [float(schedule(step)) for step in range(5)]
        [0.0, 0.5, 0.5, 0.25, 0.0]

    Reference:
        google-research/bert, `optimization.py`, `create_optimizer`.
    """
    _check("bert_schedule", warmup_steps, total_steps)

    def schedule(step):
        t = _as_float(step)
        rise = t / max(1, warmup_steps)
        fall = jnp.maximum(0.0, total_steps - t) / total_steps  # 1 - t / total would lose digits at the end
        return peak * jnp.where(t < warmup_steps, rise, fall)

    return schedule


def lamb_schedule(peak: float, warmup_steps: int, total_steps: int, power: float = 0.5) -> optax.Schedule:
    """NVIDIA's schedule for LAMB: decay by a root from step 0, so the rate jumps down at the end of the warm-up.

    rate(t) = peak · s / warmup            for s < warmup, where s = t + 1: the first update has a rate above 0
    rate(t) = peak · (1 − s / total)**power    after it; the last update has rate 0

    NVIDIA's phases: peak 6e-3, 2,000 of 7,038 steps of 65,536 sequences of 128; then 4e-3, 200 of 1,563 of 32,768 of
    512. Args, Returns and Raises as `warmup_linear_decay`, and

    Args:
        power: of the decay; 1 is a straight line.

    Example:
        >>> schedule = lamb_schedule(1.0, warmup_steps=2, total_steps=4)
        >>> [round(float(schedule(step)), 3) for step in range(4)]
        [0.5, 0.707, 0.5, 0.0]

    Reference:
        NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/BERT, `schedulers.py`, `PolyWarmUpScheduler`.
    """
    _check("lamb_schedule", warmup_steps, total_steps)

    def schedule(step):
        s = _as_float(step) + 1
        rise = s / max(1, warmup_steps)
        fall = (jnp.maximum(0.0, total_steps - s) / total_steps) ** power
        return peak * jnp.where(s < warmup_steps, rise, fall)

    return schedule


def _as_float(step: int | jax.Array) -> jax.Array:
    return jnp.asarray(step).astype(jnp.result_type(float))


def _check(where: str, warmup_steps: int, total_steps: int) -> None:
    if total_steps < 1 or not 0 <= warmup_steps <= total_steps:
        raise ValueError(
            f"optim.{where}: steps; expected 0 <= warmup_steps <= total_steps and total_steps >= 1, "
            f"got warmup_steps={warmup_steps}, total_steps={total_steps}. Use a shorter warm-up or more steps."
        )
