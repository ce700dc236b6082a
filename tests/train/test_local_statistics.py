"""BatchNorm with separate statistics on each of 8 devices, against 8 models in torch, one per device.

The models in torch have equal parameters, which move by the sum of their gradients. Before a step, all of them get the
buffers of the first model ("first", as `DistributedDataParallel` with `broadcast_buffers=True`), or the means of the
buffers ("averaged").

Letters: B rows, C channels, N devices.
"""

import copy

import jax
import numpy as np
import optax
import pytest
import torch

from funcnet import functional as F
from funcnet import nn, parallel, train, tree

N, ROWS, STEPS, RATE = 8, 4, 5, 0.1
FLOATS = ("running_mean", "running_var")


def network(nn, head):
    """Two BatchNorm layers; the second one sees values that depend on the parameters and on the first one."""
    return nn.Sequential(
        *(nn.BatchNorm2d(3), nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6, momentum=0.3), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), head),
    )


def batch_at(step):
    """A batch whose rows differ much between devices."""
    random = np.random.default_rng([3, step])
    shift = np.repeat(np.arange(N), ROWS)[:, None, None, None]
    x = random.normal(shift, 1 + shift, (N * ROWS, 3, 5, 5)).astype(np.float32)
    return {"x": x, "label": random.integers(0, 4, N * ROWS).astype(np.int32)}


def start():
    net = network(nn, nn.Linear(6, 4))
    return net, *net.init(jax.random.key(0))


def in_torch(buffers, accumulate):
    """(parameters, buffers, gradient norms) after the steps, by name."""
    net, params, state = start()
    first = network(torch.nn, torch.nn.Linear(6, 4))
    first.load_state_dict({name: torch.tensor(np.array(x)) for name, x in net.state_dict(params, state).items()})
    models, norms = [copy.deepcopy(first) for _ in range(N)], []
    for step in range(STEPS):
        for model in models:
            model.zero_grad()
        batch = {name: torch.tensor(value) for name, value in batch_at(step).items()}
        for rank, model in enumerate(models):
            x, label = (batch[name][rank * ROWS : (rank + 1) * ROWS] for name in ("x", "label"))
            for a in range(accumulate):
                logits = model(x[a::accumulate])
                loss = torch.nn.functional.cross_entropy(logits, label[a::accumulate].long(), reduction="sum")
                (loss / (N * ROWS)).backward()
        with torch.no_grad():
            gradients = [sum(parts) for parts in zip(*([p.grad for p in m.parameters()] for m in models), strict=True)]
            norms.append(float(torch.sqrt(sum((g**2).sum() for g in gradients))))
            for model in models:
                for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                    parameter -= RATE * gradient
            for owners in zip(*(model.buffers() for model in models), strict=True):
                mean = torch.stack(owners).mean(0) if owners[0].is_floating_point() else owners[0]
                value = owners[0].clone() if buffers == "first" else mean
                for owner in owners:
                    owner.copy_(value)
    return {name: value.numpy() for name, value in models[0].state_dict().items()}, norms


def here(kind, buffers, accumulate):
    net, params, state = start()
    layout, optimizer = parallel.make_layout({"data": N}, kind=kind), optax.sgd(RATE)

    def objective(params, state, batch, *, training, rng):
        logits, state = net.apply(params, state, batch["x"], training=training)
        return {"rows": {"loss": F.cross_entropy(logits, batch["label"], reduction="sum")}}, state

    counts = lambda batch: {"rows": batch["label"].shape[0]}
    step = train.make_step(objective, counts, optimizer, buffers=buffers, accumulate=accumulate)
    step = parallel.parallelize(step, layout)
    now, key, norms = layout.place(train.create(params, state, optimizer)), layout.place(jax.random.key(1)), []
    for number in range(STEPS):
        now, metrics = step(now, layout.shard(batch_at(number)), key)
        norms.append(float(metrics["grad_norm"]))
    parallel.check_replicated((now.params, now.state))
    return net.state_dict(*jax.device_get((now.params, now.state))), norms


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pmap", "shard_map"])
@pytest.mark.parametrize("buffers", ["first", "averaged"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_parameters_and_statistics_are_those_of_eight_models_in_torch(kind, buffers, accumulate):
    ours, norms = here(kind, buffers, accumulate)
    theirs, expected = in_torch(buffers, accumulate)
    np.testing.assert_allclose(norms, expected, rtol=1e-4)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-4, atol=1e-4 * np.abs(value).max(), err_msg=name)
    assert ours["0.num_batches_tracked"] == STEPS * accumulate


@pytest.mark.parametrize("kind", ["pmap", "shard_map"])
def test_the_first_statistics_are_those_of_batchnorm2d_on_the_rows_of_the_first_device(kind):
    ours, _ = here(kind, "first", 1)
    norm = torch.nn.BatchNorm2d(3)
    for step in range(STEPS):
        norm(torch.tensor(batch_at(step)["x"][:ROWS]))
    for name in FLOATS:
        np.testing.assert_allclose(ours[f"0.{name}"], norm.state_dict()[name], rtol=1e-5, atol=1e-6)
    averaged, _ = here(kind, "averaged", 1)
    assert all(np.abs(ours[f"0.{name}"] - averaged[f"0.{name}"]).max() > 1 for name in FLOATS)


def test_gradients_do_not_depend_on_the_choice_of_buffers():
    """In training mode, no output depends on the running statistics."""
    (ours, norms), (theirs, expected) = (here("shard_map", buffers, 1) for buffers in ("first", "averaged"))
    assert norms == expected
    net = start()[0]
    for name in tree.flatten(net.init(jax.random.key(0))[0]):
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("buffers", ["first", "averaged"])
def test_fit_has_the_statistics_of_eight_models_in_torch(buffers, tmp_path):
    net, *first = start()

    def loss(model, batch):
        return F.cross_entropy(model(batch["x"]), batch["label"], reduction="none")

    data = lambda step: map(batch_at, range(step, STEPS))
    options = {"steps": STEPS, "start": first, "devices": N, "parallel": "shard_map", "buffers": buffers}
    fitted = train.fit(net, loss, data, optax.sgd(RATE), out=tmp_path / "run", **options)
    ours, (theirs, _) = net.state_dict(fitted.params, fitted.state), in_torch(buffers, 1)
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-4, atol=1e-4 * np.abs(value).max(), err_msg=name)


def test_fit_needs_devices_with_their_own_statistics(tmp_path):
    message = r"buffers='first' needs devices that compute their own buffers; expected parallel='shard_map' or 'pmap', "
    net = start()[0]
    with pytest.raises(ValueError, match=message):
        train.fit(net, lambda model, batch: 0, batch_at(0), optax.sgd(1.0), out=tmp_path, steps=1, buffers="first")
    with pytest.raises(ValueError, match="buffers is unknown; expected 'synced' or 'averaged' or 'first', got 'last'"):
        train.fit(net, lambda model, batch: 0, batch_at(0), optax.sgd(1.0), out=tmp_path, steps=1, buffers="last")


def test_an_unknown_choice_is_an_error():
    with pytest.raises(ValueError, match=r"unknown buffers; expected 'synced' or 'averaged' or 'first', got 'last'\."):
        train.make_step(lambda *_, **__: None, lambda batch: {}, optax.sgd(0.1), buffers="last")
