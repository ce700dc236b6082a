"""`train.fit`: the page runs, resumption is bitwise, and torch's AdamW with groups, freezing and EMA gives the same."""

import itertools
import re
import signal
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from funcnet import functional as F
from funcnet import nn, optim, train, weights
from funcnet.data import TensorDataset
from funcnet.files import read_json
from tests.train.test_run import stopped_after

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text("utf-8")
MODEL, TRAINING, CROPS, SAMPLING, _ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CLOCK = ("examples_per_second", "data_wait_share")


@pytest.fixture
def standard():
    """optax.adamw divides floats by its integer count, which strict promotion refuses."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(scope="module")
def page():
    """The model and the data of the page."""
    names = {}
    exec(compile(MODEL, "training.md", "exec"), names)
    return names


def assert_same_bits(ours, theirs):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def timeless(rows):
    return [{name: value for name, value in row.items() if name not in CLOCK} for row in rows]


@pytest.mark.slow
@pytest.mark.usefixtures("standard")
def test_the_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    names = dict(page)
    exec(compile(TRAINING, "training.md", "exec"), names)
    assert len([line for line in TRAINING.splitlines() if line.strip()]) < 30
    fitted, net = names["fitted"], names["net"]
    assert [row["step"] for row in fitted.rows] == [1, 20, 40, 60]
    assert fitted.rows[-1]["eval_loss"] < 0.7 * fitted.rows[0]["loss"]
    assert 0 < fitted.rows[-1]["accuracy"] < 1
    start, _ = net.init(jax.random.key(0))
    assert_same_bits((fitted.params["wpe"], fitted.ema["wpe"]), (start["wpe"], start["wpe"]))
    files = {path.relative_to("runs/gpt").as_posix() for path in Path("runs/gpt").rglob("*")}
    assert {"model.safetensors", "ema/model.safetensors", "eval.json", "report.png", "metrics.jsonl"} <= files
    saved = weights.load("runs/gpt/ema/model.safetensors")
    np.testing.assert_array_equal(saved["head.weight"], fitted.ema["head"]["weight"])
    assert read_json(Path("runs/gpt/eval.json"))["loss"] == fitted.rows[-1]["eval_loss"]
    exec(compile(CROPS, "training.md", "exec"), names)
    first, later = ([batch["ids"] for batch in itertools.islice(names["crops"](step), 3)] for step in (0, 2))
    assert first[0].shape == (16, 33) and (first[2] == later[0]).all() and (first[0] != first[1]).any()
    traces = []
    names["net"] = SimpleNamespace(apply=lambda *inputs: traces.append(None) or net.apply(*inputs))
    exec(compile(SAMPLING, "training.md", "exec"), names)
    assert len(traces) == 1, "one program for all lengths"
    assert capsys.readouterr().out.splitlines()[-1].startswith("it w")
    again = train.fit(
        net, names["loss"], {"ids": page["rows"][50:]}, names["optimizer"], out="runs/gpt", steps=60, batch_size=16,
        evaluate_every=20, save_every=20, ema=0.9, resume=True,
    )  # fmt: skip
    assert "has finished; there is nothing left to do" in capsys.readouterr().out
    assert_same_bits((again.params, again.ema), (fitted.params, fitted.ema))


@pytest.mark.slow
@pytest.mark.usefixtures("standard")
@pytest.mark.parametrize(
    "how",
    [{}, {"devices": 8, "parallel": "shard_map", "accumulate": 2}],
    ids=["one device", "shard_map and accumulation"],
)
def test_stopped_and_resumed_it_ends_with_the_same_bits(page, tmp_path, how):
    net, rows = page["GPT"](len(page["letters"]), layers=1), page["rows"]

    def loss(model, batch, extra):
        logits, labels = model(batch["ids"][:, :-1]), batch["ids"][:, 1:]
        losses = F.cross_entropy(logits.swapaxes(1, 2), labels, reduction="none")
        return {"loss": losses, "above": losses - extra["baseline"]}

    def update_extra(state, metrics):
        return {"baseline": 0.5 * state.extra["baseline"] + 0.5 * metrics["loss"], "steps": state.extra["steps"] + 1}

    def run(folder):
        return train.fit(
            net, loss, {"ids": rows[50:]}, optax.adamw(1e-2), out=tmp_path / folder, steps=11, batch_size=16,
            validation={"ids": rows[:50]}, extra={"baseline": np.float32(0), "steps": np.int32(0)},
            update_extra=update_extra, ema=0.9, evaluate_ema=True, log_every=4, evaluate_every=6, save_every=3,
            resume=True, **how,
        )  # fmt: skip

    whole = run("whole")
    with stopped_after(7), pytest.raises(SystemExit) as stopped:
        run("cut")
    assert stopped.value.code == 128 + signal.SIGTERM
    cut = run("cut")
    assert [row["step"] for row in cut.rows] == [1, 4, 6, 8, 11]
    assert timeless(cut.rows) == timeless(whole.rows)
    assert_same_bits((cut.params, cut.state, cut.ema), (whole.params, whole.state, whole.ema))
    first, second = whole.rows[0], whole.rows[1]
    assert first["above"] == first["loss"] and second["above"] < second["loss"]


class Torch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3)
        self.frozen = torch.nn.Linear(4, 4)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return self.head(torch.tanh(self.norm(self.body(self.frozen(x)))))


class Ours(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 3)
        self.frozen = nn.Linear(4, 4)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return self.head(jnp.tanh(self.norm(self.body(self.frozen(x)))))


def batches(start):
    """Twenty batches with labels, of which -100 is not counted."""
    random = np.random.default_rng(0)
    made = [(random.normal(size=(16, 4)), random.integers(0, 3, 16), random.random(16) < 0.3) for _ in range(20)]
    for x, labels, ignored in made[start:]:
        yield {"x": x.astype(np.float32), "labels": np.where(ignored, -100, labels).astype(np.int32)}


def torchs(theirs, decay):
    """(losses, averaged model) after twenty steps of torch's AdamW with groups."""
    groups = [
        {"params": [theirs.body.weight, theirs.norm.weight], "lr": 1e-2, "weight_decay": 0.1},
        {"params": [theirs.body.bias, theirs.norm.bias], "lr": 1e-2, "weight_decay": 0.0},
        {"params": [*theirs.head.parameters(), *theirs.frozen.parameters()], "lr": 3e-2, "weight_decay": 0.5},
    ]
    optimizer = torch.optim.AdamW(groups)
    average = torch.optim.swa_utils.AveragedModel(
        theirs, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(decay)
    )
    losses = []
    for batch in batches(0):
        x, labels = torch.from_numpy(batch["x"]), torch.from_numpy(batch["labels"]).long()
        loss = torch.nn.functional.cross_entropy(theirs(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update_parameters(theirs)
        losses.append(loss.item())
    return losses, average.module


@pytest.mark.slow
@pytest.mark.usefixtures("standard")
@pytest.mark.parametrize(
    "how", [{}, {"devices": 4, "parallel": "pmap", "accumulate": 2}], ids=["one device", "pmap and accumulation"]
)
def test_groups_freezing_and_ema_are_torchs(tmp_path, how):
    torch.manual_seed(0)
    theirs, net = Torch(), Ours()
    start = net.load_state_dict(theirs.state_dict())
    groups = {
        "**": optax.adamw(1e-2, weight_decay=0.1),
        "**.bias": optax.adamw(1e-2, weight_decay=0),
        "head": optax.adamw(3e-2, weight_decay=0.5),
    }

    def loss(model, batch):
        return F.cross_entropy(model(batch["x"]), batch["labels"], reduction="none")

    fitted = train.fit(
        net, loss, batches, optim.param_groups(groups), out=tmp_path, steps=20, batch_size=16, start=start, ema=0.9,
        log_every=1, weight=lambda batch: batch["labels"] >= 0, **how,
    )  # fmt: skip
    losses, average = torchs(theirs, 0.9)
    np.testing.assert_allclose([row["loss"] for row in fitted.rows], losses, rtol=1e-5)
    for params, model in ((fitted.params, theirs), (fitted.ema, average)):
        ours = net.state_dict(params, fitted.state)
        for name, value in model.state_dict().items():
            np.testing.assert_allclose(ours[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    assert_same_bits(fitted.params["frozen"], start[0]["frozen"])


@pytest.mark.slow
@pytest.mark.usefixtures("standard")
def test_the_average_is_torchs(tmp_path):
    """With the same weights after every step, to rounding."""
    net = Ours()
    params, state = net.init(jax.random.key(0))
    theirs = Torch()
    theirs.load_state_dict({name: torch.tensor(np.asarray(x)) for name, x in net.state_dict(params, state).items()})
    average = torch.optim.swa_utils.AveragedModel(theirs, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))

    def objective(params, state, batch, *, training, rng):
        logits, state = net.apply(params, state, batch["x"])
        return {"fit": {"loss": F.cross_entropy(logits, batch["labels"], reduction="sum")}}, state

    optimizer = optax.adamw(1e-1)
    step = jax.jit(train.make_step(objective, lambda batch: {"fit": jnp.sum(batch["labels"] >= 0)}, optimizer))
    ours = train.create(params, state, optimizer, ema=0.99)
    for batch in batches(0):
        ours, _ = step(ours, batch, jax.random.key(0))
        sd = net.state_dict(ours.params, ours.state)
        theirs.load_state_dict({name: torch.tensor(np.asarray(value)) for name, value in sd.items()})
        average.update_parameters(theirs)
    ema = net.state_dict(ours.ema.params, ours.ema.state)
    for name, value in average.module.state_dict().items():
        np.testing.assert_allclose(ema[name], value, rtol=1e-6, atol=1e-6, err_msg=name)
    assert int(ours.ema.n_averaged) == int(average.n_averaged) == 20


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm, self.head = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, x, *, scale=1.0):
        return self.head(self.norm(self.fc(x * scale)))


@pytest.mark.slow
def test_batchnorm_is_synchronised_and_bfloat16_casts_what_the_net_receives(tmp_path):
    seen, rows = [], [batch | {"y": batch["x"][:, 0] * 1000} for batch in batches(0)]

    def loss(model, batch):
        out = model(batch["x"], scale=batch["x"][:, :1] ** 0)
        seen.append((out.dtype, batch["x"].dtype))
        return (out[:, 0].astype(jnp.float32) - batch["y"]) ** 2 / 1e6

    def run(name, **how):
        data = lambda start: iter(rows[start:])
        return train.fit(
            Normalised(), loss, data, optax.sgd(0.1), out=tmp_path / name, steps=5, batch_size=16, log_every=1, **how
        )

    one, eight = run("one"), run("eight", devices=8, parallel="shard_map")
    np.testing.assert_allclose([row["loss"] for row in eight.rows], [row["loss"] for row in one.rows], rtol=1e-4)
    np.testing.assert_allclose(
        eight.state["norm"]["running_mean"], one.state["norm"]["running_mean"], rtol=1e-4, atol=1e-6
    )
    assert int(one.state["norm"]["num_batches_tracked"]) == 5
    seen.clear()
    narrow = run("narrow", precision="bfloat16")
    assert set(seen) == {(jnp.dtype(jnp.bfloat16), jnp.dtype(jnp.float32))}
    assert {leaf.dtype for leaf in jax.tree.leaves(narrow.params)} == {jnp.dtype(jnp.float32)}
    np.testing.assert_allclose(narrow.rows[0]["loss"], one.rows[0]["loss"], rtol=2e-2)


def test_the_best_model_is_kept_and_validation_is_complete(tmp_path):
    """Seven rows on eight devices; the rate is so large that only the first evaluation is good."""
    data = {"x": np.linspace(-1, 1, 64, dtype=np.float32)[:, None], "y": np.zeros((64, 1), np.float32)}
    seven = {name: column[:7] for name, column in data.items()}

    def loss(model, batch):
        return {"loss": F.mse_loss(model(batch["x"]), batch["y"], reduction="none")}

    fitted = train.fit(
        nn.Linear(1, 1), loss, data, optax.sgd(lambda step: jnp.where(step < 2, 0.1, -1.0)), out=tmp_path, steps=6,
        batch_size=8, validation=seven, devices=8, evaluate_every=2, best=train.Best("loss", largest=False),
    )  # fmt: skip
    evaluated = {row["step"]: row["eval_loss"] for row in fitted.rows if "eval_loss" in row}
    assert min(evaluated, key=evaluated.get) == 2 and read_json(tmp_path / "eval.json")["step"] == 2
    found = np.mean((seven["x"] @ np.asarray(fitted.params["weight"]).T + np.asarray(fitted.params["bias"])) ** 2)
    np.testing.assert_allclose(evaluated[2], found, rtol=1e-5)


def linear(out, loss=None, **options):
    data = {"x": np.ones((8, 2), np.float32), "y": np.zeros((8, 1), np.float32)}
    loss = loss or (lambda model, batch: F.mse_loss(model(batch["x"]), batch["y"], reduction="none"))
    given = {"net": nn.Linear(2, 1), "data": data, "optimizer": optax.sgd(0.1), "steps": 2, "batch_size": 4} | options
    return train.fit(loss=loss, out=out, **given)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            lambda losses: losses.mean(),
            r"'loss' of loss\(model, batch\) is not an array of values; .* got a scalar\. Use",
        ),
        (
            lambda losses: {"loss": losses, "size": losses.sum()},
            r"'size' of loss\(model, batch\) is not an array .* The log shows the mean .* perplexity is the",
        ),
        (lambda losses: {"accuracy": losses}, r"returned no 'loss'; expected it in the dict, got \['accuracy'\]"),
        (lambda losses: {"loss": losses, "rows": losses[:, 0]}, r"'rows' .* expected \(\d, 1\), got \(\d,\)"),
        (lambda losses: None, r"is not an array of values"),
    ],
    ids=["scalar", "metric", "no loss", "shape", "nothing"],
)
def test_a_loss_that_cannot_be_averaged_is_refused(tmp_path, returned, message):
    def loss(model, batch):
        return returned(F.mse_loss(model(batch["x"]), batch["y"], reduction="none"))

    with pytest.raises(ValueError, match=f"train.fit: .*{message}"):
        linear(tmp_path / "run", loss)
    assert not (tmp_path / "run").exists(), "the corrected script can use the same folder"


@pytest.mark.slow
def test_wrong_arguments_are_refused(tmp_path):
    frozen = nn.Linear(2, 1).requires_grad_(False)
    for options, message in [
        ({"steps": 0}, r"train.fit: steps is out of range; expected at least 1, got 0\.$"),
        ({"ema": 1.0}, r"train.fit: ema is out of range; expected from 0 to below 1, got 1.0"),
        ({"net": frozen}, r"Linear has no trainable parameter; expected at least one with requires_grad=True, got 2"),
        ({"evaluate_ema": True, "ema": 0.9}, "evaluate_ema needs validation data; expected validation=DATA, got None"),
        ({"evaluate_ema": True, "validation": {"x": np.ones(1)}}, "expected a decay rate as ema, got None"),
        ({"weight": lambda batch: np.ones(3)}, r"weight\(batch\) does not fit the losses; expected a shape that"),
        ({"optimizer": optim.param_groups({"bias": optax.sgd(0.1)})}, r"'weight' is in no group; expected a pattern"),
    ]:
        with pytest.raises(ValueError, match=message):
            linear(tmp_path / "run", **options)
        assert not (tmp_path / "run").exists()
    linear(tmp_path / "run")
    with pytest.raises(train.RunError, match=r"already contains a run; .* Pass resume=True to continue the run, or"):
        linear(tmp_path / "run")
    with pytest.raises(train.RunError, match=r"^train.fit: .* steps was 2, now 1\. .* or use another out\.$"):
        linear(tmp_path / "run", steps=1, resume=True)
    with pytest.raises(train.RunError, match=r"contains the run of another net; .* of this Sequential.*another out"):
        linear(tmp_path / "run", net=nn.Sequential(nn.Linear(2, 1)), resume=True)


def test_arguments_of_a_wrong_type_are_refused(tmp_path):
    x = np.ones((8, 2), np.float32)
    for options, message in [
        ({"net": nn.Linear}, r"net has the wrong type; expected a module, such as .*, got the class Linear"),
        ({"ema": True}, r"ema has the wrong type; expected a number or None, got True"),
        ({"optimizer": 1e-3}, r"optimizer has the wrong type; expected an optax transformation, .*, got 0\.001"),
        (
            {"schedule": 1e-3},
            r"schedule has the wrong type; expected a function schedule\(step\), .* needs no schedule",
        ),
        (
            {"data": lambda: iter([])},
            r"data is a function with the wrong arguments; expected data\(start_step\)",
        ),
        (
            {"validation": lambda start: []},
            r"validation .* expected validation\(\), .*, got validation\(start\)",
        ),
    ]:
        with pytest.raises(TypeError, match=f"^train.fit: {message}"):
            linear(tmp_path / "run", **options)
        assert not (tmp_path / "run").exists()
    for pair in ((x, x), [x, x[:, 0]]):
        with pytest.raises(TypeError, match=r"data is a (tuple|list) of arrays, .* or data.TensorDataset\(x, y\)"):
            linear(tmp_path / "run", data=pair)
    with pytest.raises(ValueError, match=r"data\(0\) returned no batch; .* got none"):
        linear(tmp_path / "run", data=lambda start: [])


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe, self.head = nn.Embedding(4, 2), nn.Embedding(3, 2), nn.Linear(2, 4, bias=False)
        self.wte.weight = self.head.weight
        self.wpe.requires_grad_(False)


def test_a_group_for_a_tied_or_a_frozen_parameter_says_its_other_name(tmp_path):
    groups = optim.param_groups({"**": optax.sgd(0.1), "head": optax.sgd(0.2)})
    with pytest.raises(ValueError, match=r"matches nothing") as error:
        linear(tmp_path, net=Tied(), optimizer=groups)
    assert "'head.weight' is shared with 'wte.weight'; use that name." in str(error.value)
    assert "'wpe.weight' is frozen; the optimizer does not get it." in str(error.value)


@pytest.mark.slow
def test_a_finished_run_can_be_trained_longer(tmp_path, capsys):
    x, labels = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32), np.arange(16, dtype=np.int32) % 3

    def run(folder, steps, **how):
        return train.fit(
            Ours(), lambda model, batch: F.cross_entropy(model(batch["x"]), batch["labels"], reduction="none"),
            {"x": x, "labels": labels}, optax.sgd(0.1, momentum=0.9), out=tmp_path / folder, steps=steps,
            batch_size=4, resume=True, ema=0.5, **how,
        )  # fmt: skip

    run("longer", 3)
    capsys.readouterr()
    longer, whole = run("longer", 7, log_every=2), run("whole", 7)
    assert_same_bits((longer.params, longer.ema), (whole.params, whole.ema))
    assert [row["step"] for row in longer.rows] == [1, 3, 4, 6, 7]
    assert read_json(tmp_path / "longer" / "eval.json")["step"] == 7
    printed = capsys.readouterr().out
    assert "This process trained on 16 examples; " in printed and "This process trained on 28 examples; " in printed
    assert_same_bits(run("longer", 7).params, whole.params)
    assert "has finished; there is nothing left to do" in capsys.readouterr().out


@pytest.mark.slow
def test_batches_and_validation_from_functions_and_from_a_dataset_of_tuples(tmp_path, capsys):
    def loss(model, batch):
        x, y = batch
        return F.mse_loss(model(x), y, reduction="none")

    x, y = np.ones((8, 2), np.float32), np.zeros((8, 1), np.float32)
    parts = lambda: iter([(x[:4], y[:4]), (x[4:], y[4:])])
    run = linear(
        tmp_path / "functions", loss, data=lambda start: parts(), validation=parts, batch_size=32, ema=0.5,
        evaluate_ema=True, evaluate_every=1,
    )  # fmt: skip
    assert "averaged weights, held-out loss" in capsys.readouterr().out
    result = read_json(tmp_path / "functions" / "eval.json")
    assert result["weights"] == "averaged" and result["loss"] == run.rows[-1]["eval_loss"]
    assert read_json(tmp_path / "functions" / "run.json")["config"]["batch_size"] == 4
    dataset = TensorDataset(x, y)
    again = linear(tmp_path / "dataset", loss, data=dataset, validation=dataset, accumulate=2)
    np.testing.assert_allclose(again.params["weight"], run.params["weight"], rtol=1e-6)


def test_a_loss_that_is_nan_at_once_points_to_the_data(tmp_path):
    data = {"x": np.full((8, 2), np.nan, np.float32), "y": np.zeros((8, 1), np.float32)}
    with pytest.raises(train.RunError, match=r"^train.fit: loss at step 1; .* got nan\. Look for ids .*nn.checked"):
        linear(tmp_path, data=data)


@pytest.mark.slow
@pytest.mark.usefixtures("standard")
def test_a_mesh_with_sharded_parameters_gives_the_numbers_of_one_device(tmp_path, capsys):
    """The last batch of the validation does not divide evenly."""
    random = np.random.default_rng(0)
    x = random.standard_normal((64, 16)).astype(np.float32)
    data = {"x": x, "y": (x @ random.standard_normal((16, 4))).astype(np.float32)}

    def trained(mesh, **more):
        net = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 4))
        loss = lambda model, batch: F.mse_loss(model(batch["x"]), batch["y"], reduction="none")
        part = {name: rows[:13] for name, rows in data.items()}
        options = {"steps": 12, "batch_size": 16, "validation": part, "evaluate_every": 6, "log_every": 1}
        return train.fit(net, loss, data, optax.adam(1e-2), out=tmp_path / mesh, mesh=mesh, **options, **more)

    one, many = trained("data=1"), trained("data=2,fsdp=2,tensor=2", shard=["3.bias=-"])
    assert "0.weight" in capsys.readouterr().out  # the table of shardings
    for name in ("loss", "eval_loss"):
        ours, theirs = ([row[name] for row in run.rows if name in row] for run in (many, one))
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), many.params, one.params)
