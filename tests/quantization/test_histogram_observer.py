"""The histogram observer beside torch's: counts, limits and parameters of random data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.ao import quantization as theirs

from funcnet.quantization import HistogramObserver

DTYPES = {"int8": torch.qint8, "uint8": torch.quint8}
KINDS = {
    "normal": lambda rng, size: rng.normal(rng.normal(), 10 ** rng.uniform(-2, 2), size),
    "long tails": lambda rng, size: rng.laplace(size=size) * 10 ** rng.uniform(-1, 1),
    "after ReLU": lambda rng, size: np.maximum(rng.normal(size=size), 0),
    "one outlier": lambda rng, size: np.append(rng.normal(size=size), 1000 * rng.normal()),
    "a constant": lambda rng, size: np.full(size, rng.normal()),
}


def observed(observer, arrays):
    state, update = observer.init(), jax.jit(observer.update)
    for array in arrays:
        state = update(state, array)
    return state


def in_torch(observer, arrays):
    for array in arrays:
        observer(torch.from_numpy(array))
    return observer


def arrays_of(kind, seed):
    """One to four arrays, whose ranges differ."""
    rng = np.random.default_rng([6, seed])
    sizes = rng.choice([1, 30, 3000], rng.integers(1, 5))
    return [np.asarray(KINDS[kind](rng, size), np.float32) for size in sizes]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 30))])
def test_counts_and_parameters_are_torch_s(kind, dtype, seed):
    arrays = arrays_of(kind, seed)
    state, theirs_ = (
        observed(HistogramObserver(), arrays),
        in_torch(theirs.HistogramObserver(dtype=DTYPES[dtype]), arrays),
    )
    np.testing.assert_array_equal([state.min, state.max], [theirs_.min_val, theirs_.max_val])
    np.testing.assert_allclose(state.counts, theirs_.histogram, rtol=1e-6)
    (scale,), (zero,) = theirs_.calculate_qparams()
    ours = HistogramObserver().qparams(state, dtype)
    if state.min == state.max == 0:  # torch's scale is its smallest one, 1.2e-7
        assert (ours.scale, ours.zero_point) == (1.0, zero.item())
        return
    assert (ours.scale, ours.zero_point) == (pytest.approx(scale.item(), rel=1e-6), zero.item())


@pytest.mark.parametrize("symmetric", [False, True])
def test_limits_and_symmetry(symmetric):
    arrays, limits = arrays_of("long tails", 0), {"quant_min": -100, "quant_max": 90}
    scheme = torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine
    reference = in_torch(theirs.HistogramObserver(512, torch.qint8, scheme, **limits), arrays)
    observer = HistogramObserver(512)
    ours = observer.qparams(observed(observer, arrays), "int8", symmetric=symmetric, **limits)
    (scale,), (zero,) = reference.calculate_qparams()
    assert (ours.scale, ours.zero_point) == (pytest.approx(scale.item(), rel=1e-6), zero.item())


def test_infinity_is_ignored_as_in_torch():
    array = np.array([1.0, -np.inf, 0.5, np.inf, -2.0], np.float32)
    with pytest.warns(UserWarning, match="inf detected"):
        reference = in_torch(theirs.HistogramObserver(), [array])
    state = observed(HistogramObserver(), [array])
    np.testing.assert_array_equal(state.counts, reference.histogram)
    nothing = observed(HistogramObserver(), [np.array([np.inf], np.float32), np.zeros(0, np.float32)])
    with pytest.raises(ValueError, match=r"the calibration is empty; expected at least one value, got none\."):
        HistogramObserver().qparams(nothing)


def test_bad_input():
    with pytest.raises(ValueError, match=r"HistogramObserver: bins is out of range; expected at least 1, got 0\."):
        HistogramObserver(0)
    with pytest.raises(TypeError, match=r"HistogramObserver: x does not hold real numbers; .* got int32\."):
        HistogramObserver().update(HistogramObserver().init(), jnp.arange(3))
    state = observed(HistogramObserver(), [np.array([1.0, np.nan], np.float32)])
    with pytest.raises(ValueError, match=r"a value of the calibration is not finite; expected numbers, got NaN\."):
        HistogramObserver().qparams(state)
