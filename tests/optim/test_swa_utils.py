"""Averages of weights against torch.optim.swa_utils: EMA and SWA, buffers, files; statistics taken anew."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from funcnet import nn, tree
from funcnet.optim import swa_utils
from tests.tracing import traced

KEY = jax.random.key(0)


def make(library):
    return library.Sequential(library.Linear(3, 4), library.BatchNorm1d(4), library.Linear(4, 2))


def moved(theirs):
    """One step of any kind: every tensor moves."""
    with torch.no_grad():
        for tensor in (*theirs.parameters(), *theirs.buffers()):
            tensor.add_(torch.randn(tensor.shape).mul(3).to(tensor.dtype))
        theirs[1].running_var.abs_()


CASES = {
    "swa": (None, {}),
    "swa, buffers": (None, {}),
    "ema": (0.9, {"avg_fn": lambda: torch.optim.swa_utils.get_ema_avg_fn(0.9)}),
    "ema, multi, buffers": (0.75, {"multi_avg_fn": lambda: torch.optim.swa_utils.get_ema_multi_avg_fn(0.75)}),
}


@pytest.mark.parametrize("case", CASES)
def test_averages_are_torchs(case):
    torch.manual_seed(0)
    decay, theirs_fn = CASES[case]
    use_buffers = "buffers" in case
    model, net = make(torch.nn), make(nn)
    averaged = torch.optim.swa_utils.AveragedModel(
        model, use_buffers=use_buffers, **{name: fn() for name, fn in theirs_fn.items()}
    )
    avg_fn = None if decay is None else swa_utils.get_ema_avg_fn(decay)
    ours = swa_utils.AveragedModel.create(*net.load_state_dict(model.state_dict()), avg_fn, use_buffers)
    update, traces = traced(lambda average, params, state: average.update_parameters(params, state))
    for _ in range(4):
        moved(model)
        averaged.update_parameters(model)
        ours = update(ours, *net.load_state_dict(model.state_dict()))
        ours_sd, expected = ours.state_dict(net), averaged.state_dict()
        assert list(ours_sd) == list(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(ours_sd[name], value, rtol=1e-6, atol=1e-6, err_msg=name)
    assert len(traces) == 1
    fresh = torch.optim.swa_utils.AveragedModel(make(torch.nn))
    fresh.load_state_dict({name: torch.tensor(np.asarray(value)) for name, value in ours_sd.items()})
    back = swa_utils.AveragedModel.create(*net.init(KEY), avg_fn, use_buffers).load_state_dict(
        net, averaged.state_dict()
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6), back, ours)
    out, _ = net.apply(ours.params, ours.state, jnp.ones((2, 3)))
    expected = fresh.eval()(torch.ones(2, 3)).detach()
    assert bool(jnp.isfinite(out).all())
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_the_first_update_copies_and_what_was_given_stays_ones_own():
    params = {"weight": jnp.array([1.0, 2.0])}
    average = swa_utils.AveragedModel.create(params, {}, swa_utils.get_ema_avg_fn(0.999))
    once = average.update_parameters({"weight": jnp.array([5.0, 6.0])}, {})
    assert once.params["weight"].tolist() == [5, 6] and average.params["weight"].tolist() == [1, 2]
    params["weight"].delete()  # as a step that donates them does
    assert average.params["weight"].tolist() == [1, 2]


def test_averages_of_bfloat16_may_be_float32():
    params = {"weight": jnp.array([1.0], jnp.bfloat16)}
    fn = swa_utils.get_ema_avg_fn(0.999)
    wide = swa_utils.AveragedModel.create(tree.cast(params, jnp.float32), {}, fn)
    narrow = swa_utils.AveragedModel.create(params, {}, fn)
    for value in (1.0, 2.0):
        current = {"weight": jnp.array([value], jnp.bfloat16)}
        wide, narrow = wide.update_parameters(current, {}), narrow.update_parameters(current, {})
    np.testing.assert_allclose(wide.params["weight"], [1.001], rtol=1e-6)
    assert narrow.params["weight"].dtype == jnp.bfloat16 and narrow.params["weight"] == 1


@pytest.mark.parametrize("scan", [False, True])
def test_statistics_are_taken_anew_as_torch_takes_them(scan):
    torch.manual_seed(0)
    block = lambda library: library.Sequential(library.Linear(3, 3), library.BatchNorm1d(3, momentum=0.3))
    theirs = torch.nn.Sequential(block(torch.nn), block(torch.nn))
    net = nn.Repeat(block(nn), 2, scan=scan)
    params, state = net.load_state_dict(theirs.state_dict())
    batches = [np.random.default_rng(i).normal(size=(4 - i // 2, 3)).astype(np.float32) for i in range(3)]
    state = nn.utils.update_bn([(batch, None) for batch in batches], net, params, state)
    torch.optim.swa_utils.update_bn([torch.tensor(batch) for batch in batches], theirs)
    for name, value in net.state_dict(params, state).items():
        np.testing.assert_allclose(value, theirs.state_dict()[name], rtol=2e-5, atol=1e-6, err_msg=name)
    assert [m.momentum for m in net.modules() if hasattr(m, "momentum")] == [0.3] * (1 if scan else 2)


def test_statistics_with_dropout_need_a_key_and_without_batchnorm_nothing_is_read():
    net = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(2))
    params, state = net.init(KEY)
    with pytest.raises(ValueError, match="needs randomness"):
        nn.utils.update_bn([jnp.ones((3, 2))], net, params, state)
    assert nn.utils.update_bn([jnp.ones((3, 2))], net, params, state, KEY)["1"]["num_batches_tracked"] == 1
    plain = nn.InstanceNorm1d(2, track_running_stats=True)  # torch leaves these alone
    params, state = plain.init(KEY)
    assert nn.utils.update_bn(iter(()), plain, params, state) is state


def test_refusals_say_why():
    with pytest.raises(
        ValueError, match=r"get_ema_avg_fn: decay is out of range; expected a number from 0 to 1, got 1.5"
    ):
        swa_utils.get_ema_avg_fn(1.5)
    average = swa_utils.AveragedModel.create({}, {})
    with pytest.raises(ValueError, match=r"expected 'n_averaged' and 'module.…', got \['weight'\]"):
        average.load_state_dict(nn.ReLU(), {"weight": 0})
