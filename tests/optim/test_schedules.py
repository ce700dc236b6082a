"""The schedules against transformers' and against Google's published rule."""

import jax
import numpy as np
import pytest
import torch
import transformers

from funcnet import optim

CASES = [(10, 100), (0, 10), (1, 7), (5, 5), (99, 100)]


@pytest.mark.parametrize(("warmup", "total"), CASES)
def test_the_default_is_transformers_linear_schedule(warmup, total):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)
    theirs = transformers.get_linear_schedule_with_warmup(optimizer, warmup, total)
    ours = optim.warmup_linear_decay(1e-3, warmup, total)
    for step in range(total + 5):
        np.testing.assert_allclose(ours(step), theirs.get_last_lr()[0], rtol=1e-6, atol=1e-12, err_msg=f"step {step}")
        optimizer.step()
        theirs.step()


@pytest.mark.parametrize(("warmup", "total"), CASES)
def test_berts_is_googles_rule(warmup, total):
    ours = jax.jit(optim.bert_schedule(1e-4, warmup, total))
    for step in range(total + 5):
        decayed = 1e-4 * (1 - min(step, total) / total)  # polynomial_decay, power 1, end 0, from step 0
        rate = 1e-4 * step / warmup if step < warmup else decayed
        np.testing.assert_allclose(ours(step), rate, rtol=1e-6, atol=1e-12, err_msg=f"step {step}")


def test_berts_jumps_where_the_warm_up_ends_and_the_default_does_not():
    jumping, smooth = optim.bert_schedule(1.0, 10, 100), optim.warmup_linear_decay(1.0, 10, 100)
    np.testing.assert_allclose([jumping(10), smooth(10)], [0.9, 1.0], rtol=1e-6)


@pytest.mark.parametrize("make", [optim.bert_schedule, optim.warmup_linear_decay])
@pytest.mark.parametrize(("warmup", "total"), [(11, 10), (-1, 10), (0, 0)])
def test_impossible_steps_are_refused(make, warmup, total):
    text = (
        f"optim.{make.__name__}: the numbers of steps are out of range; expected 0 "
        f"<= warmup_steps <= total_steps .*got warmup_steps={warmup}"
    )
    with pytest.raises(ValueError, match=text):
        make(1.0, warmup, total)
