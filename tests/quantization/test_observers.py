"""Observers against torch.ao.quantization, NumPy's percentiles, and a search over all ranges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.ao import quantization as theirs

from funcnet.quantization import (
    HistogramObserver,
    MeanSquaredErrorObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    PercentileObserver,
    QParams,
    choose_qparams,
    dequantize,
    quantize,
)

ALL = [
    MinMaxObserver(),
    MovingAverageMinMaxObserver(),
    PercentileObserver(),
    MeanSquaredErrorObserver(),
    HistogramObserver(),
]


def batches(seed, shape=(20, 6, 5), count=6):
    rng = np.random.default_rng(seed)
    return [(rng.normal(0.3, 2.0 ** rng.uniform(-2, 3), shape)).astype(np.float32) for _ in range(count)]


def observed(observer, arrays):
    state = observer.init()
    update = jax.jit(observer.update)
    for array in arrays:
        state = update(state, array)
    return state


def check(qparams, observer, arrays):
    """Compare with a torch observer that sees the same arrays."""
    for array in arrays:
        observer(torch.from_numpy(array))
    scale, zero = observer.calculate_qparams()
    np.testing.assert_allclose(qparams.scale, scale.squeeze().numpy(), rtol=1e-6)
    np.testing.assert_array_equal(qparams.zero_point, zero.squeeze().numpy())


@pytest.mark.parametrize("symmetric", [False, True])
def test_extremes(symmetric):
    arrays = batches(0)
    scheme = torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine
    limits = (
        {"quant_min": -127, "quant_max": 127} if symmetric else {}
    )  # torch's own range of a symmetric int8 is 255 steps
    qparams = MinMaxObserver().qparams(observed(MinMaxObserver(), arrays), "int8", symmetric=symmetric)
    check(qparams, theirs.MinMaxObserver(dtype=torch.qint8, qscheme=scheme, **limits), arrays)
    averaging = MovingAverageMinMaxObserver(0.1)
    qparams = averaging.qparams(observed(averaging, arrays), "int8", symmetric=symmetric)
    check(qparams, theirs.MovingAverageMinMaxObserver(0.1, dtype=torch.qint8, qscheme=scheme, **limits), arrays)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_extremes_of_each_channel(axis):
    arrays = batches(1)
    settings = {"ch_axis": axis, "dtype": torch.quint8, "qscheme": torch.per_channel_affine}
    observer = MinMaxObserver(axis)
    check(observer.qparams(observed(observer, arrays), "uint8"), theirs.PerChannelMinMaxObserver(**settings), arrays)
    averaging = MovingAverageMinMaxObserver(0.2, axis)
    reference = theirs.MovingAveragePerChannelMinMaxObserver(0.2, **settings)
    check(averaging.qparams(observed(averaging, arrays), "uint8"), reference, arrays)


@pytest.mark.parametrize("observer", [MinMaxObserver(1), MovingAverageMinMaxObserver(0.3, 1)])
def test_the_state_keeps_its_shape_in_a_scan(observer):
    arrays = np.stack(batches(2))
    step = lambda state, x: (observer.update(state, x), None)
    state, _ = jax.lax.scan(step, observer.init(channels=6), arrays)
    for ours, right in zip(state, observed(observer, arrays), strict=True):
        np.testing.assert_allclose(ours, right, rtol=1e-6)


@pytest.mark.parametrize("percentile", [100.0, 99.9, 99.0, 90.0])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_percentiles_are_numpy_s_to_one_bin(percentile, scale):
    arrays = [array * np.float32(scale) for array in batches(3, (100, 30))]
    observer = PercentileObserver(percentile)
    qparams = observer.qparams(observed(observer, arrays), "uint8")
    everything = np.concatenate(arrays).ravel()
    low, high = np.percentile(everything.astype(np.float64), [100 - percentile, percentile])
    covered = qparams.scale * (np.array([0, 255]) - qparams.zero_point)
    bin_width = 2.0 ** (1 + np.ceil(np.log2(np.abs(everything).max()))) / 4096
    np.testing.assert_allclose(covered, [low, high], atol=1.2 * bin_width + 0.51 * qparams.scale)


def test_counts_stay_exact_while_the_range_grows():
    arrays = [np.float32(2.0**power) * batches(4)[0] for power in range(-30, 30, 7)]
    state = observed(PercentileObserver(), arrays)
    everything = np.concatenate(arrays).ravel()
    edges = np.ldexp(1 / 2048, int(state.exponent)) * np.arange(-2048, 2049)
    assert np.abs(everything).max() < edges[-1] <= 2 * np.abs(everything).max()
    right = np.histogram(everything, edges)[0]
    np.testing.assert_array_equal(state.counts, right)


def mean_squared_error(x, qparams):
    return float(np.mean((np.asarray(dequantize(quantize(x, qparams), qparams), np.float64) - x) ** 2))


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_no_range_of_a_grid_has_a_smaller_error(dtype, symmetric):
    """A Laplace distribution, twice as wide above 0, and 256 pairs of limits, judged on the values themselves."""
    x = np.random.default_rng(5).laplace(size=100_000).astype(np.float32)
    x = np.where(x < 0, x / 2, x)
    observer = MeanSquaredErrorObserver()
    state = observed(observer, [x[:40_000], x[40_000:]])
    ours = mean_squared_error(x, observer.qparams(state, dtype, symmetric=symmetric))
    shrink = np.linspace(1, 0.25, 16)
    pairs = [(x.min() * a, x.max() * b) for a in shrink for b in shrink]

    def error(low, high):
        qparams = choose_qparams(float(low), float(high), dtype, symmetric=symmetric)
        limits = np.iinfo(dtype)
        steps = np.clip(np.rint(x / qparams.scale) + qparams.zero_point, limits.min, limits.max)
        return np.mean((qparams.scale * (steps - qparams.zero_point) - x.astype(np.float64)) ** 2)

    best = min(error(*pair) for pair in pairs)
    assert ours <= 1.02 * best
    assert ours < 0.9 * error(x.min(), x.max()), "better than the extremes"


@pytest.mark.parametrize("observer", ALL, ids=lambda one: type(one).__name__)
def test_a_constant_tensor_and_an_empty_array(observer):
    state = observer.update(observer.init(), jnp.zeros((0, 3)))
    state = observer.update(state, jnp.full((4,), 2.5))
    qparams = observer.qparams(state, "int8")
    np.testing.assert_allclose(dequantize(quantize(jnp.full(1, 2.5), qparams), qparams), 2.5, rtol=1e-3)
    assert observer.qparams(observer.update(observer.init(), jnp.zeros(3))) == QParams(1.0, -128, "int8")


@pytest.mark.parametrize("observer", ALL, ids=lambda one: type(one).__name__)
def test_bad_calibrations(observer):
    name = type(observer).__name__
    for state in (observer.init(), observer.update(observer.init(), jnp.zeros(0))):
        with pytest.raises(ValueError, match=f"{name}: the calibration is empty; expected at least one value"):
            observer.qparams(state)
    for bad in (jnp.nan,) if name == "HistogramObserver" else (jnp.nan, jnp.inf):  # it ignores infinity, as torch
        with pytest.raises(ValueError, match=f"{name}: a value of the calibration is not finite"):
            observer.qparams(observer.update(observer.init(), jnp.array([1.0, bad])))
    with pytest.raises(TypeError, match=f"{name}: x does not hold real numbers"):
        observer.update(observer.init(), jnp.zeros(3, jnp.int32))


def test_bad_settings():
    with pytest.raises(ValueError, match="averaging_constant is out of range; expected above 0 and at most 1, got 0"):
        MovingAverageMinMaxObserver(0.0)
    with pytest.raises(ValueError, match="percentile is out of range; expected above 50 and at most 100, got 50"):
        PercentileObserver(50)
    with pytest.raises(ValueError, match="the axis does not exist"):
        MinMaxObserver(2).update(MinMaxObserver(2).init(), jnp.zeros((2, 2)))


@pytest.mark.parametrize("seed", range(4))
def test_the_default_observer_of_torch(seed):
    """It uses the integers 0 to 127 of uint8."""
    arrays = batches(10 + seed)
    qparams = MinMaxObserver().qparams(observed(MinMaxObserver(), arrays), "uint8", quant_min=0, quant_max=127)
    check(qparams, theirs.default_observer(), arrays)
    averaging = MovingAverageMinMaxObserver(0.01)
    qparams = averaging.qparams(observed(averaging, arrays), "uint8", quant_min=0, quant_max=127)
    check(qparams, theirs.MovingAverageMinMaxObserver(0.01, quant_min=0, quant_max=127), arrays)
    weights = MinMaxObserver(0)
    qparams = weights.qparams(observed(weights, arrays), "int8", symmetric=True, quant_min=-128, quant_max=127)
    check(qparams, theirs.default_per_channel_weight_observer(), arrays)


@pytest.mark.parametrize("observer", [PercentileObserver(99.0), MeanSquaredErrorObserver()])
def test_limits_of_the_integers(observer):
    x = np.random.default_rng(11).laplace(size=10_000).astype(np.float32)
    state = observed(observer, [x])
    qparams = observer.qparams(state, "uint8", quant_max=127)
    low, high = qparams.scale * (np.array([0, 127]) - qparams.zero_point)
    wide = observer.qparams(state, "uint8")
    assert wide.scale < qparams.scale
    assert low == pytest.approx(-high, rel=0.2)
