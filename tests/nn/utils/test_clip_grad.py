"""Clipping of gradients against torch's."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn, optim

utils = nn.utils
INF = float("inf")
NORMS = [2.0, 1.0, 3.5, 0.5, INF, -INF, 0.0, -1.0, "inf"]


def gradients(scale=1.0, dtype=np.float32):
    draw = np.random.default_rng(0).normal
    return {"a": (scale * draw(size=(3, 4))).astype(dtype), "b": {"c": np.zeros(2, dtype), "d": dtype(scale * draw())}}


def torchs(tree):
    parameters = []
    for leaf in jax.tree.leaves(tree):
        parameter = torch.nn.Parameter(torch.zeros(np.shape(leaf), dtype=torch.tensor(leaf).dtype))
        parameter.grad = torch.tensor(leaf)
        parameters.append(parameter)
    return parameters


def same(ours, theirs, tolerance=1e-6):
    for leaf, parameter in zip(jax.tree.leaves(ours), theirs, strict=True):
        np.testing.assert_allclose(leaf, parameter.grad, rtol=tolerance, atol=1e-37)


@functools.cache
def clipped():
    """Clipping by every norm, in one program."""
    return jax.jit(lambda grads, max_norm: [utils.clip_grad_norm(grads, max_norm, norm_type) for norm_type in NORMS])


@pytest.mark.parametrize(("scale", "max_norm"), [(1.0, 1.0), (1.0, 1e3), (1e-15, 1.0), (3.0, 0.0)])
def test_norms_are_torchs(scale, max_norm):
    grads = gradients(scale)
    for norm_type, (ours, norm) in zip(NORMS, clipped()(grads, max_norm), strict=True):
        theirs = torchs(grads)
        expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
        np.testing.assert_allclose(norm, expected, rtol=2e-6)
        assert jax.tree.structure(ours) == jax.tree.structure(grads)
        same(ours, theirs, 1e-5)


def test_it_is_the_optax_form():
    grads = gradients(3.0)
    chain = optim.clip_by_global_norm(0.5, eps=1e-6)
    ours, _ = utils.clip_grad_norm(grads, 0.5)
    jax.tree.map(np.testing.assert_array_equal, ours, chain.update(grads, chain.init(grads))[0])


@pytest.mark.parametrize("bad", [INF, -INF, float("nan")])
@pytest.mark.parametrize("norm_type", [2.0, INF])
def test_what_is_not_finite(bad, norm_type):
    grads = gradients()
    grads["a"][1, 2] = bad
    theirs = torchs(grads)
    clipped, norm = utils.clip_grad_norm(jax.tree.map(jnp.asarray, grads), 1.0, norm_type)
    np.testing.assert_array_equal(norm, torch.nn.utils.clip_grad_norm_(theirs, 1.0, norm_type))
    same(clipped, theirs)
    with pytest.raises(
        ValueError, match=f"expected a finite norm of order {norm_type}, got {norm}. Set error_if_nonfinite=False"
    ):
        utils.clip_grad_norm(grads, 1.0, norm_type, error_if_nonfinite=True)
    with pytest.raises(ValueError, match="the value of the norm is not known under jit; expected error_if"):
        jax.jit(lambda g: utils.clip_grad_norm(g, 1.0, norm_type, error_if_nonfinite=True))(grads)
    assert utils.clip_grad_norm(gradients(), 1.0, norm_type, error_if_nonfinite=True)[1] > 0


def test_values_are_clipped_as_torch_clips():
    grads = gradients(2.0)
    grads["a"][0, :3] = INF, -INF, np.nan
    theirs = torchs(grads)
    torch.nn.utils.clip_grad_value_(theirs, 0.7)
    same(utils.clip_grad_value(grads, 0.7), theirs, 0)


def test_a_norm_that_is_known():
    grads = gradients(2.0)
    theirs = torchs(grads)
    torch.nn.utils.clip_grads_with_norm_(theirs, 1.0, torch.tensor(4.0))
    same(utils.clip_grads_with_norm(grads, 1.0, jnp.float32(4.0)), theirs)


def test_nothing_and_one_array_and_empty_ones():
    assert utils.clip_grad_norm({}, 1.0) == ({}, 0.0)
    array, norm = utils.clip_grad_norm(jnp.array([3.0, 4.0]), 10.0)
    assert array.tolist() == [3, 4] and norm == 5
    grads = {"none": jnp.zeros((0, 3)), "some": jnp.array([3.0])}
    for norm_type in (2.0, INF, 1.0):
        assert utils.get_total_norm(grads, norm_type) == 3


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precisions(dtype):
    grads = jax.tree.map(lambda g: jnp.asarray(g, dtype), gradients(100.0))
    clipped, norm = utils.clip_grad_norm(grads, 1.0)
    exact = np.sqrt(sum(np.sum(np.asarray(g, np.float64) ** 2) for g in jax.tree.leaves(grads)))
    np.testing.assert_allclose(norm, exact, rtol=1e-6)
    assert norm.dtype == jnp.float32 and all(g.dtype == dtype for g in jax.tree.leaves(clipped))
    theirs = [
        torch.nn.Parameter(torch.zeros(g.shape).to(getattr(torch, dtype.__name__))) for g in jax.tree.leaves(grads)
    ]
    for parameter, g in zip(theirs, jax.tree.leaves(grads), strict=True):
        parameter.grad = torch.tensor(np.asarray(g, np.float32)).to(parameter.dtype)
    torch.nn.utils.clip_grad_norm_(theirs, 1.0)
    for ours, parameter in zip(jax.tree.leaves(clipped), theirs, strict=True):
        np.testing.assert_allclose(
            np.asarray(ours, np.float32), parameter.grad.float(), rtol=3 * float(jnp.finfo(dtype).eps)
        )
    mixed = {"a": jnp.ones(2, dtype), "b": jnp.ones(2)}
    assert utils.get_total_norm(mixed).dtype == jnp.float32 and utils.clip_grad_norm(mixed, 1.0)[0]["a"].dtype == dtype
