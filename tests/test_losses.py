"""The losses of the heads: sums and numbers that add up over any division of a batch, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import losses

RANDOM = np.random.default_rng(0)
LOGITS = jnp.asarray(RANDOM.normal(size=(6, 4)), jnp.float32)
ONE, SEVERAL = jnp.array([0, 3, -100, 1, 2, 2]), jnp.asarray(RANDOM.integers(0, 2, (6, 4)), jnp.float32)
CASES = {
    "one class": (losses.cross_entropy, (LOGITS, ONE)),
    "numbers": (losses.regression, (LOGITS, SEVERAL)),
    "several classes": (losses.multi_label, (LOGITS, SEVERAL.at[2, 1].set(-100))),
    "both ends": (lambda *a, **k: losses.question_answering(*a, **k)[1], (LOGITS, LOGITS, ONE, ONE)),
}


@pytest.mark.parametrize("case", CASES)
def test_sums_and_numbers_add_up(case):
    """Of two parts with rows that fill them, as of the whole."""
    loss, given = CASES[case]
    whole = loss(*given)
    parts = [[jnp.concatenate([a[rows], a[:2]]) for a in given] for rows in (slice(0, 2), slice(2, 6))]
    masks = [jnp.arange(len(part[0])) < len(part[0]) - 2 for part in parts]
    summed = [
        sum(x) for x in zip(*(loss(*part, mask=mask) for part, mask in zip(parts, masks, strict=True)), strict=True)
    ]
    np.testing.assert_allclose(summed, whole, rtol=1e-6)
    assert whole.number == {"one class": 5, "numbers": 24, "several classes": 23, "both ends": 5}[case]


def test_nothing_that_counts_is_a_loss_of_zero_with_a_gradient_of_zero():
    nothing = jnp.full(6, losses.IGNORE)
    value, gradient = jax.value_and_grad(lambda x: losses.cross_entropy(x, nothing).mean)(LOGITS)
    assert value == 0 and not gradient.any()


def test_sums_are_float32_whatever_the_logits():
    for loss, given in CASES.values():
        half = loss(*(a.astype(jnp.bfloat16) if a is LOGITS else a for a in given))
        assert half.sum.dtype == half.number.dtype == jnp.float32
        assert half.sum == pytest.approx(float(loss(*given).sum), rel=0.05)


def test_ends_outside_of_the_sequence_count_for_nothing():
    """As in transformers, which however takes -100 for position 0."""
    starts = jnp.array([0, -100, 4, 3, -5, 7])
    start, end = losses.question_answering(LOGITS, LOGITS, starts, jnp.zeros(6, jnp.int32))
    expected = -jax.nn.log_softmax(LOGITS)
    assert (start.number, end.number) == (3, 6)
    np.testing.assert_allclose(start.sum, (expected[0, 0] + expected[3, 3] + expected[4, 0]) / 2, rtol=1e-6)
    np.testing.assert_allclose(end.mean, expected[:, 0].mean() / 2, rtol=1e-6)


def test_the_problem_type_chooses_the_loss():
    kinds = {"single_label_classification": ONE, "multi_label_classification": SEVERAL, "regression": SEVERAL}
    for (kind, labels), loss in zip(
        kinds.items(), (losses.cross_entropy, losses.multi_label, losses.regression), strict=True
    ):
        assert losses.sequence_classification(LOGITS, labels, kind) == loss(LOGITS, labels)
    assert losses.sequence_classification(LOGITS, ONE) == losses.cross_entropy(LOGITS, ONE)
    assert losses.sequence_classification(LOGITS, SEVERAL) == losses.multi_label(LOGITS, SEVERAL)
    one = LOGITS[:, :1]
    assert losses.sequence_classification(one, ONE) == losses.regression(one, ONE[:, None])


def test_labels_that_do_not_fit():
    for call, message in (
        (
            lambda: losses.cross_entropy(LOGITS, ONE[:5]),
            r"cross_entropy: labels does not match .* shape \(6,\), got \(5,\)",
        ),
        (lambda: losses.regression(LOGITS, ONE), r"regression: labels does not match .* shape \(6, 4\), got \(6,\)"),
        (lambda: losses.multi_label(LOGITS, ONE), r"multi_label: labels does not match .* shape \(6, 4\), got \(6,\)"),
        (
            lambda: losses.multi_label(LOGITS, SEVERAL, mask=SEVERAL),
            r"multi_label: mask does not match .* shape \(6,\), got \(6, 4\)",
        ),
        (lambda: losses.sequence_classification(LOGITS, ONE, "ranking"), "problem_type is unknown; .*got 'ranking'"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="labels must be class indices; expected integers, got float32"):
        losses.cross_entropy(LOGITS, ONE.astype(jnp.float32))
