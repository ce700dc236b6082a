"""Connectionist temporal classification. Letters: `T input length, B batch, C classes, S target length`.

An alignment of a target to the input is a walk through the positions blank 0, label 0, blank 1, label 1, …, blank S. A
frame is one step of the input. At each frame, the walk stays at its position or moves to the next position. If two
neighbouring labels differ, the walk may skip the blank between them.

The arrays `blanks (B, S + 1)` and `labels (B, S)` hold one log-probability for each position of the walk. In the
forward pass, the log-probability of a position is that of all walks that end at this position. In the backward pass,
the log-probability of a position is that of all walks that begin at this position.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

from funcnet.functional import checks
from funcnet.functional.reduction import reduced
from funcnet.functional.sharding import unchanged

__all__ = ["ctc_loss"]

Walks = tuple[jax.Array, jax.Array]  # (blanks, labels)


def ctc_loss(
    log_probs: jax.Array,
    targets: jax.Array,
    input_lengths: ArrayLike | Sequence[int],
    target_lengths: ArrayLike | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> jax.Array:
    """Compute `-log Σ p(alignment)`. The sum is over all alignments that become the target if repeated labels and then
    blanks are removed.

    As in torch, the gradient is `exp(log_probs)` minus the probability that a frame is aligned to the class. This
    gradient is correct only if `log_probs` is the output of `log_softmax`.

    Args:
        log_probs: log-probabilities, a floating-point array of shape (T, B, C) or (T, C).
        targets: integer class ids, (B, S) with any padding, or (sum of `target_lengths`,), where the targets of all
            examples are concatenated. The concatenated form is expensive if `target_lengths` is traced under `jit`,
            because every example is then padded to the total length. Pass `target_lengths` as a tuple, or pad the
            targets.
        input_lengths: (B,) integers in [0, T], as an array or a tuple. Without a batch, pass one number or a scalar
            array.
        target_lengths: (B,) integers in [0, S], in the same form as `input_lengths`.
        blank: class id of the blank.
        reduction: 'mean', 'sum' or 'none'. For 'mean', each loss is first divided by the length of its target, or by 1
            if this length is 0.
        zero_infinity: if True, infinite losses and their gradients are set to 0. If False, the gradient of an infinite
            loss is NaN. The loss of an example is infinite if its target requires more frames than its input has.

    Returns:
        A scalar, or an array (B,) for 'none', in the dtype of `log_probs`. The computation uses at least float32.

    Raises:
        ValueError: if the shapes do not match, `reduction` is unknown, or `blank` is out of range. An id or a length
            out of range is also a ValueError, except under `jit`, where the loss of the example is NaN.
        TypeError: if `log_probs` is not floating-point, or the targets or lengths are not of an integer dtype.

    Differs from torch: the gradient with respect to a log-probability of -inf is 0, not NaN. Second derivatives are
        supported.

    Example:
        >>> log_probs = jnp.log(jnp.full((3, 1, 2), 0.5))
        >>> ctc_loss(log_probs, jnp.array([[1]]), (3,), (1,)).round(4)  # 6 of 8 alignments read as [1]
        Array(0.2877, dtype=float32)

    Reference: torch.nn.functional.ctc_loss; Graves et al. 2006.
    """
    where = "F.ctc_loss"
    reduction = checks.reduction_name(where, reduction)
    log_probs = checks.floating(where, "log_probs", log_probs)
    if log_probs.ndim not in (2, 3) or log_probs.size == 0:
        raise ValueError(
            f"{where}: log_probs has the wrong shape; expected (time, batch, classes) or (time, classes) without "
            f"empty dimensions, got {log_probs.shape}."
        )
    scores = log_probs.astype(checks.wide_dtype(log_probs))
    scores = scores if scores.ndim == 3 else scores[:, None]
    length, batch, classes = scores.shape
    if not 0 <= checks.as_int(where, "blank", blank) < classes:
        raise ValueError(
            f"{where}: blank is out of range; expected 0 to {classes - 1}, got {blank}. The blank is one of the "
            "classes."
        )
    frames = _lengths(where, "input_lengths", input_lengths, batch, length)
    ids, counts, fits = _padded(where, checks.integers(where, "targets", targets), target_lengths, batch, blank)
    checks.ids_in_range(where, "targets", ids, classes)
    fits &= (frames >= 0) & (frames <= length) & ((ids >= 0) & (ids < classes)).all(1)
    losses = _loss(scores, ids, frames, counts, blank, zero_infinity)
    losses = jnp.where(fits, losses, jnp.nan)
    if reduction == "mean":
        losses = losses / jnp.maximum(counts, 1).astype(losses.dtype)
    return reduced(losses if log_probs.ndim == 3 else losses[0], reduction).astype(log_probs.dtype)


def _lengths(where: str, name: str, lengths: ArrayLike | Sequence[int], batch: int, most: int) -> jax.Array:
    """Return the lengths as (B,) integers, or raise ValueError if a length is outside [0, most]. Traced lengths are not
    checked.
    """
    lengths = checks.integers(where, name, lengths).astype(jnp.int32)
    if lengths.shape != (batch,) and (batch != 1 or lengths.shape != ()):
        raise ValueError(
            f"{where}: {name} has the wrong shape; expected ({batch},), got {lengths.shape}. Pass one length per "
            "example."
        )
    if not checks.known(lengths):
        return lengths.reshape(batch)
    looked_at = np.asarray(lengths).reshape(batch)
    low, high = looked_at.min(), looked_at.max()
    if low < 0 or high > most:
        raise ValueError(
            f"{where}: {name} is out of range; expected lengths from 0 to {most}, got lengths from {low} to {high}. "
            "Pass the lengths without padding."
        )
    return jnp.asarray(looked_at, jnp.int32)


def _padded(
    where: str, targets: jax.Array, target_lengths: ArrayLike | Sequence[int], batch: int, blank: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the class ids of the targets (B, S), the target lengths (B,), and whether each length is valid (B,).

    After the end of each target, its row of class ids is filled with the blank.
    """
    if targets.ndim == 2 and targets.shape[0] == batch:
        size = targets.shape[1]
        counts = _lengths(where, "target_lengths", target_lengths, batch, size)
        fits = (counts >= 0) & (counts <= size)
    elif targets.ndim == 1:
        counts = _lengths(where, "target_lengths", target_lengths, batch, targets.size)
        size, total = targets.size, counts.sum()
        if checks.known(counts):
            known = np.asarray(counts)
            size = int(known.max())
            if known.sum() != targets.size:
                raise ValueError(
                    f"{where}: targets has the wrong size; expected {known.sum()}, the sum of target_lengths, got "
                    f"{targets.size}. Concatenate the targets without padding, or pass padded targets (batch, length)."
                )
        fits = (counts >= 0) & (total == targets.size)
        start = jnp.cumsum(counts) - counts
        places = start[:, None] + jnp.arange(size, dtype=start.dtype)
        targets = targets[jnp.clip(places, 0, max(targets.size - 1, 0))] if targets.size else places
    else:
        raise ValueError(
            f"{where}: targets has the wrong shape; expected ({batch}, length) or one dimension, got "
            f"{targets.shape}. Pad the targets of the batch, or concatenate them."
        )
    inside = jnp.arange(size, dtype=counts.dtype) < counts[:, None]
    return jnp.where(inside, targets, blank), counts, fits


@partial(jax.custom_jvp, nondiff_argnums=(4, 5))
def _loss(
    scores: jax.Array, ids: jax.Array, frames: jax.Array, counts: jax.Array, blank: int, zero_infinity: bool
) -> jax.Array:
    emitted = _emissions(scores, ids, blank)

    def step(walks: Walks, at: tuple[jax.Array, Walks]) -> tuple[Walks, jax.Array]:
        return _forward(walks, *at, ids, frames)

    walks, taken = lax.scan(step, _start(emitted), (_counted(scores), emitted))
    return _or_zero(-(_at_end(walks, counts) + taken.sum(0)), zero_infinity)


@_loss.defjvp
def _loss_jvp(blank, zero_infinity, primals, tangents):
    scores, ids, frames, counts = primals
    total, aligned = _alignment(scores, ids, frames, counts, blank)
    impossible = jnp.isneginf(total)
    slope = jnp.where(impossible[:, None], 0 if zero_infinity else jnp.nan, jnp.exp(scores) - aligned)
    slope = jnp.where(jnp.isnan(total)[:, None], jnp.nan, slope)
    slope = jnp.where(_counted(scores)[:, None, None] < frames[:, None], slope, 0)
    return _or_zero(-total, zero_infinity), (slope * tangents[0]).sum((0, 2))


def _or_zero(losses: jax.Array, zero_infinity: bool) -> jax.Array:
    return jnp.where(jnp.isposinf(losses), 0, losses) if zero_infinity else losses


def _alignment(
    scores: jax.Array, ids: jax.Array, frames: jax.Array, counts: jax.Array, blank: int
) -> tuple[jax.Array, jax.Array]:
    """Return two arrays: the log-probability of all alignments, and the probability that a frame belongs to a class.

    The first array has the shape (B,), and the second array has the shape (T, B, C). The probability of a class at a
    frame is the total probability of the alignments that assign this frame to this class.
    """
    emitted = _emissions(scores, ids, blank)
    time = _counted(scores)
    start = _start(emitted)
    end = _end(start, counts)

    def forward(walks: Walks, at: tuple[jax.Array, Walks]) -> tuple[Walks, tuple[jax.Array, Walks]]:
        walks, taken = _forward(walks, *at, ids, frames)
        return walks, (taken, walks)

    def backward(walks: Walks, at: tuple[jax.Array, Walks]) -> tuple[Walks, Walks]:
        time, (blanks, labels) = at
        last = (time >= frames - 1)[:, None]
        walks, _ = _near_zero(jax.tree.map(partial(jnp.where, last), end, _backward(walks, ids)))
        return (blanks + walks[0], labels + walks[1]), walks

    last, (taken, ended) = lax.scan(forward, start, (time, emitted))
    _, begun = lax.scan(backward, end, (time, emitted), reverse=True)
    # The probability of the walks through one position, divided by that of all walks. The subtracted numbers cancel.
    (blanks, labels), _ = _near_zero(jax.tree.map(jnp.add, ended, begun))
    blanks, labels = jnp.exp(blanks), jnp.exp(labels)
    through = (blanks.sum(2) + labels.sum(2))[:, :, None]
    through = jnp.where(through == 0, 1, through)
    same, rows = unchanged(scores), jnp.arange(ids.shape[0], dtype=ids.dtype)[:, None]
    aligned = jnp.zeros_like(scores).at[:, :, blank].set((blanks / through).sum(2), out_sharding=same)
    aligned = aligned.at[:, rows, ids].add(labels / through, out_sharding=same)
    return _at_end(last, counts) + taken.sum(0), aligned


def _counted(scores: jax.Array) -> jax.Array:
    return jnp.arange(len(scores), dtype=jnp.int32)


def _emissions(scores: jax.Array, ids: jax.Array, blank: int) -> Walks:
    """Return the log-probabilities of the blank (T, B, 1) and of the labels of the target (T, B, S) at each frame."""
    labels = jnp.take_along_axis(scores, jnp.clip(ids, 0, scores.shape[2] - 1)[None], axis=2)
    return scores[:, :, blank, None], labels


def _start(emitted: Walks) -> Walks:
    """Return the log-probabilities of all positions before the first frame, when every walk is at the first blank."""
    nowhere = jnp.full_like(emitted[1][0], -jnp.inf)
    first = jnp.zeros_like(emitted[0][0])
    return jnp.concatenate([first, nowhere], 1), nowhere


def _end(start: Walks, counts: jax.Array) -> Walks:
    """Return the log-probabilities of all positions after the last frame, when a walk is at the last blank or label."""
    blanks, labels = start
    last = counts[:, None] == jnp.arange(blanks.shape[1], dtype=counts.dtype)
    return jnp.where(last, 0, jnp.full_like(blanks, -jnp.inf)), jnp.where(last[:, 1:], 0, labels)


def _at_end(walks: Walks, counts: jax.Array) -> jax.Array:
    """Return, for each example, the log-probability of all walks that end at the last blank or at the last label."""
    blanks, labels = walks
    last = jnp.clip(counts[:, None], 0, labels.shape[1])
    ended = jnp.take_along_axis(jnp.pad(labels, ((0, 0), (1, 0)), constant_values=-jnp.inf), last, 1)
    return _log_sum(jnp.take_along_axis(blanks, last, 1), ended)[:, 0]


def _forward(
    walks: Walks, time: jax.Array, emitted: Walks, ids: jax.Array, frames: jax.Array
) -> tuple[Walks, jax.Array]:
    """Return the log-probabilities of all positions after one more frame, and the number subtracted for each example.

    The log-probabilities of an example that has no further frames stay unchanged.
    """
    blanks, labels = walks
    skipping = jnp.where(ids != _shifted(ids, 1, -1), _shifted(labels, 1), -jnp.inf)
    on_blanks = emitted[0] + _log_sum(blanks, jnp.pad(labels, ((0, 0), (1, 0)), constant_values=-jnp.inf))
    on_labels = emitted[1] + _log_sum(labels, blanks[:, :-1], skipping)
    on, taken = _near_zero((on_blanks, on_labels))
    going = time < frames
    return jax.tree.map(partial(jnp.where, going[:, None]), on, walks), jnp.where(going, taken, 0)


def _near_zero(walks: Walks) -> tuple[Walks, jax.Array]:
    """Subtract the largest log-probability of each example. Return the differences and the subtracted numbers.

    Without the subtraction, the log-probabilities would reach values of several hundred and lose precision.
    """
    largest = jnp.concatenate(walks, -1).max(-1)
    largest = jnp.where(jnp.isneginf(largest), 0, largest)
    return jax.tree.map(lambda x: x - largest[..., None], walks), largest


def _backward(walks: Walks, ids: jax.Array) -> Walks:
    """Return, for each position, the log-probability of the walks that begin at this position one frame earlier."""
    blanks, labels = walks
    skipping = jnp.where(ids != _shifted(ids, -1, -1), _shifted(labels, -1), -jnp.inf)
    from_blanks = _log_sum(blanks, jnp.pad(labels, ((0, 0), (0, 1)), constant_values=-jnp.inf))
    return from_blanks, _log_sum(labels, blanks[:, 1:], skipping)


def _shifted(x: jax.Array, by: int, fill: float = -jnp.inf) -> jax.Array:
    """Shift each row one place to the right (`by` = 1) or to the left (`by` = -1), and put `fill` in the free place."""
    if x.shape[1] == 0:
        return x
    edge = jnp.full_like(x[:, :1], fill)
    return jnp.concatenate([edge, x[:, :-1]] if by == 1 else [x[:, 1:], edge], 1)


def _log_sum(*terms: jax.Array) -> jax.Array:
    """Return the element-wise `log Σ exp(term)`. Where all terms are -inf, the result is -inf with gradient 0."""
    largest = terms[0]
    for term in terms[1:]:
        largest = jnp.maximum(largest, term)
    largest = lax.stop_gradient(jnp.where(jnp.isneginf(largest), 0, largest))
    total = sum((jnp.exp(term - largest) for term in terms[1:]), jnp.exp(terms[0] - largest))
    none = total == 0
    return jnp.where(none, -jnp.inf, jnp.log(jnp.where(none, 1, total)) + largest)
