"""AdaptiveLogSoftmaxWithLoss beside torch's: loss, gradients, log_prob, predict."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn, tree

X = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
TARGET = np.array([0, 3, 4, 9, 10, 19], np.int32)


def twins(**kwargs):
    torch.manual_seed(0)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0, **kwargs)
    ours = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0, **kwargs)
    return ours, *ours.load_state_dict(theirs.state_dict()), theirs


@pytest.mark.parametrize("target", [TARGET, TARGET % 4, TARGET % 10], ids=["all", "head", "no last cluster"])
def test_loss_and_gradients(target):
    """Clusters that no target is in have a gradient of 0."""
    ours, params, state, theirs = twins(head_bias=True)

    @jax.jit
    def run(params, x):
        (output, loss), _ = ours.apply(params, state, x, target)
        return 2 * loss + output[1], (output, loss)

    (_, (output, loss)), (slopes, of_x) = jax.value_and_grad(run, (0, 1), has_aux=True)(params, X)
    leaf = torch.tensor(X, requires_grad=True)
    expected = theirs(leaf, torch.tensor(target).long())
    (2 * expected.loss + expected.output[1]).backward()
    np.testing.assert_allclose(output, expected.output.detach(), rtol=1e-6)
    np.testing.assert_allclose(loss, expected.loss.item(), rtol=1e-6)
    np.testing.assert_allclose(of_x, leaf.grad, atol=1e-6)
    for name, parameter in theirs.named_parameters():
        want = 0 if parameter.grad is None else parameter.grad
        np.testing.assert_allclose(tree.flatten(slopes)[name], want, atol=1e-6, err_msg=name)


def test_log_prob_and_predict():
    ours, params, state, theirs = twins()
    apply = lambda x, method: ours.apply(params, state, x, method=method)[0]
    log_prob, best = jax.jit(lambda x: (apply(x, "log_prob"), apply(x, "predict")))(8 * X)
    np.testing.assert_allclose(log_prob, theirs.log_prob(torch.tensor(8 * X)).detach(), rtol=1e-5, atol=1e-5)
    assert best.tolist() == theirs.predict(torch.tensor(8 * X)).tolist()
    assert min(best) < 4 <= max(best)
    np.testing.assert_allclose(jnp.exp(log_prob).sum(1), 1, rtol=1e-5)


def test_without_a_batch():
    ours, params, state, theirs = twins()
    got, _ = jax.jit(lambda x: ours.apply(params, state, x, TARGET[4]))(X[0])
    want = theirs(torch.tensor(X[0]), torch.tensor(10))
    assert got.output.shape == got.loss.shape == () and abs(got.output / want.output.item() - 1) < 1e-6
    assert got.loss == -got.output


def test_an_id_out_of_range_is_seen_under_jit():
    ours, params, state, _ = twins()
    output, _ = jax.jit(lambda t: ours.apply(params, state, X[:3], t)[0])(jnp.array([20, -1, 0]))
    assert np.isnan(output).tolist() == [True, True, False]


def run(x, target):
    ours, params, state, _ = twins()
    return ours.apply(params, state, x, target)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, []), r"cutoffs do not split the classes; .* got \[\]"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [0, 5]), "cutoffs do not split the classes"),
        (
            lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 5]),
            "expected one or more integers from 1 to 19 in strictly increasing order",
        ),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [7, 5]), "cutoffs do not split the classes"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 20]), "expected one or more integers from 1 to 19"),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5.5]), "cutoffs do not split the classes"),
        (lambda: run(X, TARGET[:5]), r"the shapes of input and target do not match; .* got \(6, 8\) and \(5,\)"),
        (lambda: run(X[0], TARGET[:1]), "the shapes of input and target do not match"),
        (lambda: run(X, TARGET[:, None]), "the shapes of input and target do not match"),
        (
            lambda: run(X, TARGET + 1),
            "AdaptiveLogSoftmaxWithLoss: target is out of range; expected values from 0 to 19, got values from 1 to 20",
        ),
    ],
)
def test_refusals(call, text):
    with pytest.raises(ValueError, match=text):
        call()
