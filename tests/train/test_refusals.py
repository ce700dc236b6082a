"""Wrong and swapped arguments of training: each is refused at the door, by name, with what was expected and got."""

import dataclasses
import functools
import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import jax
import numpy as np
import optax
import pytest
import torch
from jax.sharding import PartitionSpec

from funcnet import functional as F
from funcnet import nn, optim, parallel, train
from funcnet.data import DataLoader, IterableDataset
from funcnet.optim import swa_utils
from funcnet.train.setting_types import check_types, plain
from tests.train import toy

X, Y = np.ones((8, 2), np.float32), np.zeros((8, 1), np.float32)
DATA = {"x": X, "y": Y}
NET = nn.Linear(2, 1)
PARAMS, STATE = NET.init(jax.random.key(0))
SGD = optax.sgd(0.1)


def loss(model, batch):
    return F.mse_loss(model(batch["x"]), batch["y"], reduction="none")


def batches(start_step):
    yield DATA


def swapped(batch, model):
    return loss(model, batch)


class Rows(IterableDataset):
    def __iter__(self):
        yield from ({"x": x, "y": y} for x, y in zip(X, Y, strict=True))


def items(**options):
    return DataLoader([{"x": x, "y": y} for x, y in zip(X, Y, strict=True)], 2, **options)


# arguments of `train.fit` that are not like those of `test_wrong_arguments_of_fit`; what the message says
FIT = [
    ({"net": nn.Linear}, "net has the wrong type; expected a module, .* got the class Linear"),
    ({"net": loss, "loss": NET}, "net has the wrong type; expected a module, .* got the function loss"),
    ({"net": torch.nn.Linear(2, 1)}, "net has the wrong type; expected a module, .* got Linear"),
    ({"net": (PARAMS, STATE)}, "net has the wrong type; expected a module"),
    ({"loss": swapped}, r"loss takes its arguments in another order; expected loss\(model, batch\), got"),
    ({"loss": DATA, "data": loss}, r"loss has the wrong type; expected a function loss\(model, batch\), got a dict of"),
    (
        {"loss": lambda model: 0},
        r"loss takes the wrong arguments; expected a function loss\(model, batch\), got loss\(m",
    ),
    ({"loss": "mse"}, "loss has the wrong type; expected a function .* got 'mse'"),
    ({"extra": np.float32(1)}, r"loss takes the wrong arguments; expected a function loss\(model, batch, extra\), got"),
    (
        {"data": {"x": torch.ones(8, 2), "y": Y}},
        r"data\['x'\] has the wrong type; expected an array, got a torch tensor",
    ),
    ({"data": torch.ones(8, 2)}, r"data has the wrong type; expected a dict .* got a torch tensor float32\[8, 2\]"),
    ({"data": torch.utils.data.DataLoader(torch.ones(8, 2))}, "data has the wrong type; .* from funcnet.data import"),
    ({"data": (X, Y)}, "data is a tuple of arrays, which is not a dataset; expected a dict"),
    ({"data": {"x": [1.0, 2.0], "y": Y}}, r"data\['x'\] has the wrong type; expected an array, got \[1.0, 2.0\]"),
    ({"data": {"x": X, "y": Y[:4]}}, "data: ArrayDataset: arrays differ in length; expected equal lengths, got"),
    ({"data": {}}, "data: ArrayDataset: columns must be named; expected a dict .* got an empty dict"),
    ({"data": None}, "data has the wrong type; expected a dict of arrays, .* got None"),
    ({"data": "train.csv"}, "data has the wrong type; expected a dict of arrays, .* got 'train.csv'"),
    ({"data": 8}, "data has the wrong type; expected a dict of arrays, .* got 8"),
    ({"data": SGD, "optimizer": DATA}, "optimizer has the wrong type; expected an optax .* got a dict of an array"),
    ({"data": SGD}, "data has the wrong type; expected a dict of arrays, .* got "),
    ({"data": NET}, "data has the wrong type; expected a dict of arrays, .* got Linear"),
    ({"data": Rows}, r"data has the wrong type; .* got the class Rows\. Pass an instance of the class"),
    ({"data": batches(0)}, "data has the wrong type; .* can be read several times, .*Pass the function itself, data="),
    ({"data": iter([DATA])}, "data has the wrong type; .* can be read several times, got"),
    ({"data": lambda: iter([])}, r"data is a function with the wrong arguments; expected data\(start_step\)"),
    (
        {"data": lambda start_step: [np.ones(())]},
        r"data\(0\) returned no batch; expected an iterable of batches, .* got",
    ),
    ({"data": lambda start_step: ["ab"]}, r"data\(0\) returned no batch; .* got 'ab'"),
    (
        {"data": {"x": X, "y": Y, "name": np.array(["a"] * 8)}},
        "'name' of a batch has the wrong type; .* got an array <U1",
    ),
    ({"data": items(num_workers=2, in_order=False)}, "data: DataLoader: batches out of order have no .* got in_order="),
    ({"batch_size": 64}, "data: DataLoader: the dataset is smaller than one batch; expected at least 64 items, got"),
    ({"batch_size": "4"}, "batch_size has the wrong type; expected an int, got '4'"),
    ({"batch_size": 0}, "batch_size is out of range; expected at least 1, got 0"),
    ({"validation": X}, r"in the evaluation of the first batch of validation, float32\[4, 2\]"),
    (
        {"loss": lambda model, batch: model(batch["z"])},
        r"'z'.*in the check of the loss with the first batch, x: float32",
    ),
    (
        {"net": nn.Linear(3, 1)},
        r"expected \(\*, 3\), got \(.*in the check of the loss with the first batch",
    ),
    ({"validation": (X, Y)}, "validation is a tuple of arrays, which is not a dataset; expected a dict"),
    ({"validation": lambda start: []}, r"validation is a function with the wrong arguments; expected validation\(\)"),
    ({"validation": torch.utils.data.DataLoader(torch.ones(8, 2))}, "validation has the wrong type"),
    (
        {"optimizer": optax.sgd},
        "optimizer has the wrong type; expected an optax transformation, .* got the function sgd",
    ),
    (
        {"optimizer": torch.optim.SGD([torch.ones(1, requires_grad=True)])},
        "optimizer has the wrong type; expected an o",
    ),
    ({"optimizer": 1e-3}, "optimizer has the wrong type; expected an optax transformation, .* got 0.001"),
    ({"out": 5}, "out has the wrong type; expected a path, .* got 5"),
    ({"out": ""}, "out is empty; expected a path, .* got ''"),
    ({"steps": 1e1}, "steps has the wrong type; expected an int or None, got 10.0"),
    ({"steps": "10"}, "steps has the wrong type; expected an int or None, got '10'"),
    ({"steps": True}, "steps has the wrong type; expected an int or None, got True"),
    (
        {"steps": 2, "epochs": 3},
        "the length of the run is not clear; expected either steps or epochs, got steps=2 and e",
    ),
    ({"steps": None, "epochs": 2.5}, "epochs has the wrong type; expected an int or None, got 2.5"),
    ({"steps": None, "epochs": 0}, "epochs is out of range; expected at least 1, got 0"),
    ({"weight": np.ones(2)}, r"weight has the wrong type; expected a function weight\(batch\), got an array float64"),
    (
        {"weight": lambda batch, labels: 1},
        r"weight takes the wrong arguments; expected a function weight\(batch\), got",
    ),
    ({"schedule": 1e-3}, r"schedule has the wrong type; .* got 0.001. A constant learning rate needs no schedule"),
    ({"schedule": lambda: 1e-3}, r"schedule takes the wrong arguments; expected a function schedule\(step\), got"),
    ({"start": PARAMS}, r"start has the wrong type; expected a pair \(params, state\), .* got a dict"),
    ({"start": (PARAMS, STATE, STATE)}, r"start has the wrong type; expected a pair"),
    (
        {"start": nn.Linear(3, 1).init(jax.random.key(0))},
        r"'weight' has the wrong shape; expected \(1, 2\), got \(1, 3\)",
    ),
    ({"ema": "0.9"}, "ema has the wrong type; expected a number or None, got '0.9'"),
    ({"ema": 1.0}, "ema is out of range; expected from 0 to below 1, got 1.0"),
    ({"evaluate_ema": "yes"}, "evaluate_ema has the wrong type; expected True or False, got 'yes'"),
    (
        {"extra": {"a": "x"}, "loss": lambda m, b, e: 0},
        r"'extra\.a' cannot be saved; expected an array or a number, got str",
    ),
    (
        {"extra": [torch.ones(1)], "loss": lambda m, b, e: 0},
        r"'extra\.0' cannot be saved; expected an array .* got Tensor",
    ),
    (
        {"update_extra": lambda state, metrics: 1},
        "update_extra needs values to update; expected extra=VALUES, got None",
    ),
    (
        {"best": "loss", "validation": DATA},
        r"best has the wrong type; expected train.Best\('loss'\) or None, got 'loss'",
    ),
    ({"best": train.Best("loss")}, "best needs validation data; expected validation=DATA, got None"),
    (
        {"best": train.Best("accuracy"), "validation": DATA},
        "best names an unknown metric; expected one of loss, got 'acc",
    ),
    (
        {"metrics": lambda p, y: {}, "validation": DATA},
        r"metrics needs the outputs of the model; expected predict\(model",
    ),
    (
        {"predict": loss, "validation": DATA},
        "nothing uses predict; expected metrics or after_evaluation too, got neither",
    ),
    ({"predict": loss, "metrics": 3, "validation": DATA}, "metrics has the wrong type; expected a function .* got 3"),
    ({"after_evaluation": print}, "after_evaluation needs validation data; expected validation=DATA, got None"),
    (
        {"after_evaluation": lambda: 0, "validation": DATA},
        "after_evaluation takes the wrong arguments; expected a function",
    ),
    ({"resume": "no"}, "resume has the wrong type; expected True or False, got 'no'"),
    ({"seed": 1.5}, "seed has the wrong type; expected an int, got 1.5"),
    ({"seed": -1}, "seed is out of range; expected 0 to 2"),
    ({"accumulate": 3}, "batch_size: the batch does not divide evenly over 1 device x 3 micro-batches; expected a"),
    ({"log_every": 0}, "log_every is out of range; expected at least 1, got 0"),
    ({"evaluate_every": "step"}, "evaluate_every is unknown; expected an int or 'epoch', got 'step'"),
    ({"save_every": 2.5}, "save_every has the wrong type; expected an int or 'epoch', got 2.5"),
    ({"keep": 0}, "keep is out of range; expected at least 1, got 0"),
    ({"devices": "8"}, "devices has the wrong type; expected an int or None, got '8'"),
    ({"devices": jax.devices()}, "devices has the wrong type; expected an int or None, got "),
    ({"devices": 16, "batch_size": 16}, "devices 16: .* out of range; expected 1 to 8, got 16"),
    ({"devices": 2, "mesh": "data=2"}, "devices 2 and mesh data=2 are both given; expected one of them, got both"),
    ({"mesh": {"data": 8}}, r"mesh has the wrong type; expected a string or None, got \{'data': 8\}"),
    ({"mesh": "data"}, "mesh data: .* is not a mesh; expected axes with sizes, .* got 'data'"),
    (
        {"mesh": "model=2"},
        "mesh model=2: .* no array is sharded along the axis 'model'; expected the axes data, .* got",
    ),
    (
        {"mesh": "fsdp=8", "parallel": "shard_map"},
        "mesh fsdp=8: parallel shard_map shards only batches; expected a mesh",
    ),
    (
        {"shard": "**.weight=fsdp"},
        r"shard has the wrong type; expected a list of rules, .* got '\*\*.weight=fsdp'. Put it",
    ),
    ({"shard": ["weight"]}, "shard .*is not a sharding rule; expected PATTERN=AXES"),
    ({"parallel": "pmp"}, "parallel is unknown; expected 'jit' or 'shard_map' or 'pmap', got 'pmp'"),
    ({"precision": "float16"}, "precision is unknown; expected 'float32' or 'bfloat16', got 'float16'"),
    ({"precision": train.BFLOAT16}, "precision has the wrong type; expected 'float32' or 'bfloat16', got "),
    ({"rewind_above": "2"}, "rewind_above has the wrong type; expected a number, got '2'"),
    ({"nan_trace": 1}, "nan_trace has the wrong type; expected True or False, got 1"),
    ({"replay": 3}, "replay has the wrong type; expected a path, .* got 3"),
    (
        {"loss": nn.MSELoss()},
        r"loss is a function of funcnet, .* expected your own function loss\(model, batch\), got",
    ),
    (
        {"loss": functools.partial(F.mse_loss, reduction="none")},
        "loss is a function .* got the function mse_loss. For",
    ),
    ({"loss": optax.squared_error}, "loss is a function of optax, which does not accept a model and a batch; expected"),
    (
        {"optimizer": optax.lbfgs()},
        r"value_fn.*The step calls update\(grads, opt_state, params, value=loss\)\. An op",
    ),
    ({"optimizer": optax.lookahead(SGD, 5, 0.5)}, r"fast.*The step calls update\(grads, opt_state, params, value=loss"),
    (
        {"optimizer": optax.sgd(lambda step: 0.1 if step < 3 else 0.2)},
        "optimizer cannot be compiled; expected code",
    ),
    ({"schedule": lambda step: 0.1 if step < 3 else 0.2}, r"schedule cannot be compiled; .* boolean .* Use jnp\.where"),
    ({"schedule": lambda step: math.sin(step)}, r"schedule cannot be compiled; .* functions of jax\.numpy in place of"),
    (
        {"weight": lambda batch: np.maximum(batch["x"], 0)},
        "weight cannot be compiled; .* __array__",
    ),
    ({"weight": lambda batch: batch["z"]}, r"'z'.*in the argument weight of train\.fit"),
    (
        {"extra": 0, "update_extra": lambda state, metrics: int(metrics["loss"]), "loss": lambda m, b, e: loss(m, b)},
        "update_extra cannot be compiled; expected code that computes with jax.numpy",
    ),
    (
        {"extra": 10**30, "loss": lambda m, b, e: 0},
        "'extra' has a dtype that a checkpoint cannot store; .* got 10000",
    ),
    (
        {"predict": lambda model, batch: (model(batch["x"]), batch["y"]), "metrics": lambda o: {}, "validation": DATA},
        r"metrics does not fit predict; expected a function of 2 arguments, because .* a tuple of 2, got metrics\(o\)",
    ),
    (
        {"predict": lambda model, batch: model(batch["x"]), "metrics": lambda o, y: {}, "validation": DATA},
        r"metrics does not fit predict; expected a function of 1 argument, because .* one ndarray, got metrics\(o, y\)",
    ),
    (
        {"predict": lambda model, batch: model(batch["x"]), "metrics": lambda o: {"a": 1j}, "validation": DATA},
        "'a' of metrics is not a number; .* got 1j",
    ),
    (
        {"predict": lambda model, batch: model(batch["x"]), "metrics": lambda o: {"a": o.b}, "validation": DATA},
        r"no attribute 'b'.*in metrics, called with 0: float32\[8, 1\]",
    ),
    (
        {"optimizer": optim.param_groups({"bias": SGD})},
        "'weight' is in no group; expected a pattern for every parameter",
    ),
]


@pytest.mark.parametrize(
    ("options", "message"), FIT, ids=[f"{number} {next(iter(row[0]))}" for number, row in enumerate(FIT)]
)
def test_wrong_arguments_of_fit(options, message, tmp_path):
    given = {
        "net": NET,
        "loss": loss,
        "data": DATA,
        "optimizer": SGD,
        "out": tmp_path / "run",
        "steps": 2,
        "batch_size": 4,
    }
    with pytest.raises((TypeError, ValueError, LookupError, AttributeError)) as error:
        train.fit(**{**given, **options})
    text = "\n".join([str(error.value), *getattr(error.value, "__notes__", [])])
    assert re.search(message, text, re.DOTALL), text
    assert not (tmp_path / "run").exists(), "the corrected script can use the same folder"


@dataclasses.dataclass(frozen=True)
class Settings:
    run: train.RunSettings
    loop: train.LoopSettings = dataclasses.field(default_factory=lambda: train.LoopSettings(batch_size=2))
    device: train.DeviceSettings = dataclasses.field(default_factory=train.DeviceSettings)


class Half(train.Task):
    """A task whose constructor has forgotten the optimizer."""

    name, cadence = "half", train.Cadence(2)

    def __init__(self, settings, context):
        pass


OBJECTIVE, COUNTS = toy.make_objective(), toy.counts
LAYOUT = parallel.make_layout({"data": 1})
NOWHERE = Path("/nowhere/run")
OTHERS = {
    "task": [
        (
            lambda run: train.run_task(Settings(run), Half, where="x"),
            "open_task has the wrong type; expected a function",
        ),
        (
            lambda run: train.run_task(Half, run, where="x"),
            "settings has the wrong type; expected a dataclass with the fie",
        ),
        (lambda run: train.run_task(Half, {"steps": 2}, where="x"), "settings has the wrong type; .* got {'steps': 2}"),
        (
            lambda run: train.run_task(lambda one: 0, Settings(run), where="x"),
            "open_task takes the wrong arguments; expect",
        ),
        (
            lambda run: train.run_task(Half, Settings(run), where=3),
            "where has the wrong type; expected the name .* got 3",
        ),
        (
            lambda run: train.run_task(Half, Settings(run), where="x", free="steps"),
            "free has the wrong type; .* into a list",
        ),
        (
            lambda run: train.run_task(lambda s, c: 3, Settings(run), where="x"),
            "result of open_task .* a train.Task, got 3",
        ),
        (
            lambda run: train.run_task(Half, Settings(run), where="x"),
            "optimizer of the task has the wrong type; .* got None",
        ),
        (
            lambda run: train.run_task(Half, Settings(dataclasses.replace(run, seed=0.5)), where="x"),
            "x: --seed has the wrong type; expected an int, got 0.5",
        ),
        (
            lambda run: train.run_task(Half, Settings(dataclasses.replace(run, out=str(run.out))), where="x"),
            "x: --out has the wrong type; expected a path, got '",
        ),
        (
            lambda run: train.run_task(Half, Settings(run, device=train.DeviceSettings(mesh="data=2,x=3")), where="x"),
            "x: --mesh data=2,x=3: parallel.make_mesh|x: --mesh data=2,x=3: .*expected",
        ),
        (lambda run: train.open_layout(run, "x"), "device has the wrong type; expected DeviceSettings, got "),
    ],
    "step": [
        (
            lambda run: train.make_step(COUNTS, OBJECTIVE, SGD),
            "objective takes the wrong arguments; .* got objective.batch",
        ),
        (
            lambda run: train.make_step(OBJECTIVE, 3, SGD),
            r"counts has the wrong type; expected a function counts.* got 3",
        ),
        (
            lambda run: train.make_step(OBJECTIVE, COUNTS, optax.sgd),
            "optimizer has the wrong type; .* got the function sgd",
        ),
        (lambda run: train.make_step(OBJECTIVE, COUNTS, SGD, schedule=0.1), "schedule has the wrong type; .* got 0.1"),
        (
            lambda run: train.make_step(OBJECTIVE, COUNTS, SGD, accumulate=2.0),
            "accumulate has the wrong type; .* got 2.0",
        ),
        (lambda run: train.make_step(OBJECTIVE, COUNTS, SGD, accumulate=0), "accumulate is out of range; .* 1, got 0"),
        (lambda run: train.make_step(OBJECTIVE, COUNTS, SGD, precision="bfloat16"), "precision .* Use train.BFLOAT16"),
        (lambda run: train.make_step(OBJECTIVE, COUNTS, SGD, trainable=3), "trainable has the wrong type; .* got 3"),
        (
            lambda run: train.make_step(OBJECTIVE, COUNTS, SGD, buffers="last"),
            "unknown buffers; expected .* got 'last'",
        ),
        (lambda run: train.make_step(OBJECTIVE, COUNTS, SGD, metrics_as="mean"), "unknown metrics_as; .* got 'mean'"),
        (
            lambda run: train.make_step(OBJECTIVE, COUNTS, SGD, update_extra=3),
            "update_extra has the wrong type; .* got 3",
        ),
        (
            lambda run: train.make_eval_step(OBJECTIVE, None),
            "counts has the wrong type; expected a function .* got None",
        ),
        (
            lambda run: train.evaluate(lambda *a: {}, PARAMS, [1]),
            r"model has the wrong type; expected \(params, state\)",
        ),
        (lambda run: train.create(NET, STATE, SGD), "params has the wrong type; expected a nested dict .* got Linear"),
        (lambda run: train.create(PARAMS, SGD, STATE), "state has the wrong type; expected a nested dict of arrays"),
        (lambda run: train.create(PARAMS, STATE, 1e-3), "optimizer has the wrong type; .* got 0.001"),
        (
            lambda run: train.create(PARAMS, STATE, SGD, ema=2),
            "ema is out of range; expected a number from 0 to 1, got 2",
        ),
        (
            lambda run: train.create(PARAMS, STATE, SGD, extra={"a": "x"}),
            r"'extra\.a' cannot be saved; expected an array or a number, got str",
        ),
        (lambda run: train.Cadence(10.0), "total_steps has the wrong type; expected an int, got 10.0"),
        (
            lambda run: train.Cadence(10, evaluate_every="step"),
            "evaluate_every has the wrong type; .* 'epoch', got 'step'",
        ),
        (lambda run: train.Best("loss", patience=-1), "patience is out of range; expected at least 0, got -1"),
        (lambda run: train.Best(3), "metric has the wrong type; expected the name of a metric, .* got 3"),
        (lambda run: train.LoaderBatches([1, 2]), r"loader has the wrong type; expected a DataLoader .* got \[1, 2\]"),
        (
            lambda run: train.Precision(compute="float33"),
            "compute has the wrong type; expected a floating .* got 'float33'",
        ),
        (lambda run: train.read_metrics(3), "path has the wrong type; expected a path, .* got 3"),
        (lambda run: train.draw_report(run.out, [], "loss", title=""), "panels has the wrong type; .* got 'loss'"),
    ],
    "layout": [
        (lambda run: parallel.make_layout(8), r"mesh has the wrong type; expected a dict \{axis: size\}, .* got 8"),
        (lambda run: parallel.make_layout(["data"]), r"mesh has the wrong type; expected a dict .* got \['data'\]"),
        (lambda run: parallel.make_layout({"data": "8"}), "size of mesh axis 'data' has the wrong type; .* got '8'"),
        (lambda run: parallel.make_layout({"data": 2.0}), "size of mesh axis 'data' has the wrong type; .* got 2.0"),
        (lambda run: parallel.make_layout({"data": 0}), "size of mesh axis 'data' is out of range; expected .* got 0"),
        (
            lambda run: parallel.make_layout({2: "data"}),
            r"mesh has the wrong type; expected a dict .* got \{2: 'data'\}",
        ),
        (lambda run: parallel.make_layout({}), "mesh has no axis; expected at least one, .* got {}"),
        (
            lambda run: parallel.make_layout(LAYOUT.mesh),
            r"mesh has the wrong type; .* Pass its sizes, dict\(mesh.shape\)",
        ),
        (lambda run: parallel.make_layout("data=2", kind="ddp"), "unknown kind; expected 'pmap' or .* got 'ddp'"),
        (lambda run: parallel.make_layout("data=2", kind=None), "unknown kind; expected 'pmap' or .* got None"),
        (
            lambda run: parallel.make_layout("data=2", rules="fc=data"),
            "rules has the wrong type; .* Parse texts with paral",
        ),
        (
            lambda run: parallel.make_layout("data=2", rules={"fc": "data"}),
            r"rules\['fc'\] has the wrong type; .* got 'data'",
        ),
        (
            lambda run: parallel.make_layout("rows=2"),
            "no array is sharded along the axis 'rows'; expected the axes da",
        ),
        (
            lambda run: parallel.make_layout("fsdp=8", kind="shard_map"),
            "kind 'shard_map' shards only batches, along data",
        ),
        (lambda run: parallel.make_mesh("data=8"), "mesh has the wrong type; expected a dict .* got 'data=8'"),
        (
            lambda run: parallel.parse_mesh({"data": 8}),
            "text has the wrong type; expected a mesh such as .* got {'data': 8}",
        ),
        (
            lambda run: parallel.parse_rules("fc=data"),
            "texts has the wrong type; expected a list of rules, .* got 'fc=data'",
        ),
        (
            lambda run: LAYOUT.place({"x": torch.ones(2)}),
            r"place: 'x' has the wrong type; .* got a torch tensor",
        ),
        (lambda run: LAYOUT.place("abc"), "Layout.place: the tree has the wrong type; expected params, .* got 'abc'"),
        (lambda run: LAYOUT.replicate([torch.ones(2)]), r"Layout.replicate: '0' has the wrong type; .* with numpy\(\)"),
        (lambda run: LAYOUT.shard([1, 2]), r"Layout.shard: a leaf has no rows; expected arrays \(B, …\), got 1"),
        (lambda run: LAYOUT.shard({"x": np.array(["a"])}), "Layout.shard: 'x' has the wrong type; .* got an array <U1"),
        (lambda run: parallel.select_devices("2"), "count has the wrong type; expected an int, got '2'"),
        (
            lambda run: parallel.parallelize(LAYOUT, lambda s, b, k: s),
            "layout has the wrong type; expected a Layout, .* got",
        ),
        (
            lambda run: parallel.parallelize(lambda s, b, k: s, LAYOUT),
            r"step takes the wrong arguments; expected a function",
        ),
        (lambda run: parallel.check_batch_size("8", 2), "rows has the wrong type; expected an int, got '8'"),
        (
            lambda run: parallel.sharding_report(PARAMS, PARAMS),
            "shardings of 'weight' has the wrong type; .* got an array",
        ),
        (lambda run: LAYOUT.for_net(PARAMS), "net has the wrong type; expected a module, .* got a dict of an array"),
        (lambda run: LAYOUT.place(NET), "the tree has the wrong type; expected params, .* got Linear"),
        (lambda run: parallel.scatter(X, [0, 1], dim="0"), "dim has the wrong type; expected an int, got '0'"),
        (lambda run: parallel.gather(X, 0), "outputs has the wrong type; expected a list .* got an array float32"),
        (
            lambda run: parallel.data_parallel(PARAMS, NET, STATE, X),
            "net has the wrong type; expected a module, .* got a dict",
        ),
        (
            lambda run: parallel.count_collectives(len),
            "program has the wrong type; expected a compiled program, .* got <buil",
        ),
        (
            lambda run: parallel.join_processes("a:1", "2", 0, where="x"),
            "--num-processes has the wrong type; .* got '2'",
        ),
    ],
    "optim": [
        (
            lambda run: optim.param_groups([{"params": "**", "lr": 0.1}]),
            "groups has the wrong type; expected a dict .* got",
        ),
        (
            lambda run: optim.param_groups({"**": {"lr": 0.1}}),
            r"groups\['\*\*'\] has the wrong type; .* got \{'lr': 0.1\}",
        ),
        (lambda run: optim.param_groups({"**": 0.1}), r"groups\['\*\*'\] has the wrong type; .* got 0.1"),
        (
            lambda run: optim.param_groups({"**": optax.sgd}),
            r"groups\['\*\*'\] has the wrong type; .* got the function sgd",
        ),
        (
            lambda run: optim.param_groups({3: SGD}),
            "a key of groups has the wrong type; expected a name pattern .* got 3",
        ),
        (lambda run: optim.param_groups({}), "groups is empty; expected at least one group, got {}"),
        (lambda run: optim.param_groups(SGD), "groups has the wrong type; expected a dict .* got"),
        (lambda run: optim.param_groups(NET.named_parameters()), "groups has the wrong type; expected a dict .* got"),
        (
            lambda run: optim.bert_adamw(NET.named_parameters()),
            "learning_rate has the wrong type; .* The parameters are an",
        ),
        (
            lambda run: optim.bert_adamw("1e-3"),
            "learning_rate has the wrong type; expected a number or a .* got '1e-3'",
        ),
        (
            lambda run: optim.bert_adamw(PARAMS),
            "learning_rate has the wrong type; expected a number or a schedule, got a d",
        ),
        (
            lambda run: optim.bert_adamw(-1e-3),
            "learning_rate is out of range; expected a number of at least 0, got -0.001",
        ),
        (lambda run: optim.bert_adamw(float("nan")), "learning_rate is out of range; expected .* got nan"),
        (
            lambda run: optim.bert_adamw(lambda: 1e-3),
            r"learning_rate takes the wrong arguments; expected .* schedule\(step\)",
        ),
        (
            lambda run: optim.bert_adamw(1e-3, b1=(0.9, 0.99)),
            r"b1 has the wrong type; expected a number, got \(0.9, 0.99\)",
        ),
        (
            lambda run: optim.bert_adamw(1e-3, b2=1.0),
            "b2 is out of range; expected a number from 0 to below 1, got 1.0",
        ),
        (lambda run: optim.bert_adamw(1e-3, eps="1e-8"), "eps has the wrong type; expected a number, got '1e-8'"),
        (lambda run: optim.bert_adamw(1e-3, weight_decay=True), "weight_decay has the wrong type; .* got True"),
        (
            lambda run: optim.bert_adamw(1e-3, no_decay=5),
            "no_decay has the wrong type; expected a name pattern .* got 5",
        ),
        (
            lambda run: optim.bert_adamw(1e-3, rates={"**": "high"}),
            r"rates\['\*\*'\] has the wrong type; .* got 'high'",
        ),
        (lambda run: optim.bert_adamw(1e-3, max_norm=0), "max_norm is out of range; expected a number above 0, got 0"),
        (
            lambda run: optim.lamb("1e-3"),
            "learning_rate has the wrong type; expected a number or a schedule, got '1e-3'",
        ),
        (lambda run: optim.lamb(1e-3, use_nvlamb=1), "use_nvlamb has the wrong type; expected True or False, got 1"),
        (lambda run: optim.scale_by_layer_norms(5), "exempt has the wrong type; expected a name pattern .* got 5"),
        (lambda run: optim.scale_by_bert_adam("0.9"), "b1 has the wrong type; expected a number, got '0.9'"),
        (lambda run: optim.clip_by_global_norm(None), "max_norm has the wrong type; expected a number, got None"),
        (lambda run: optim.clip_by_global_norm(PARAMS), "max_norm has the wrong type; expected a number, got a dict"),
        (
            lambda run: optim.warmup_linear_decay(1e-3, 0.1, 100),
            "warmup_steps has the wrong type; expected an int, got 0.1",
        ),
        (
            lambda run: optim.warmup_linear_decay(10, 100, 1e-3),
            "total_steps has the wrong type; expected an int, got 0.001",
        ),
        (lambda run: optim.bert_schedule(1e-3, None, 5), "warmup_steps has the wrong type; expected an int, got None"),
        (
            lambda run: optim.bert_schedule(-1e-3, 1, 5),
            "peak is out of range; expected a number of at least 0, got -0.001",
        ),
        (
            lambda run: optim.lamb_schedule(1e-3, 1, 10, "half"),
            "power has the wrong type; expected a number, got 'half'",
        ),
        (lambda run: swa_utils.get_ema_avg_fn("0.9"), "decay has the wrong type; expected a number, got '0.9'"),
        (lambda run: swa_utils.AveragedModel.create(NET, STATE), "params has the wrong type; .* got Linear"),
        (lambda run: swa_utils.AveragedModel.create(PARAMS, STATE, 0.9), "avg_fn has the wrong type; .* got 0.9"),
        (
            lambda run: optim.from_torch([1], NET, {}),
            "state_dict is not the state of an optimizer; expected a dict .* got l",
        ),
    ],
}
CALLS = [(f"{kind} {number}", *row) for kind, rows in OTHERS.items() for number, row in enumerate(rows)]


@pytest.mark.parametrize(("call", "message"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
def test_wrong_arguments_of_tasks_steps_layouts_and_optimizers(call, message, tmp_path):
    run = train.RunSettings(tmp_path / "run")
    with pytest.raises((TypeError, ValueError)) as error:
        call(run)
    text = str(error.value)
    assert re.search(message, text), text
    assert "expected" in text and "got" in text
    assert not run.out.exists()


@pytest.mark.slow
def test_numbers_of_numpy_and_lists_are_what_they_look_like(tmp_path):
    """What is not wrong stays allowed."""
    fitted = train.fit(
        NET, loss, DATA, optim.bert_adamw(np.float32(1e-3), no_decay=["bias"]), out=str(tmp_path / "run"),
        steps=np.int64(2), batch_size=np.int32(4), seed=np.int64(3), ema=np.float64(0.5), shard=[], devices=np.int8(1),
    )  # fmt: skip
    assert [row["step"] for row in fitted.rows] == [1, 2]
    layout = parallel.make_layout({"data": np.int64(2)}, rules={"fc": PartitionSpec()})
    assert layout.batch_axes == ("data",) and layout.batch_parts == 2
    optim.warmup_linear_decay(np.float64(0.1), np.int64(1), np.int32(10))
    injected = optax.inject_hyperparams(optim.bert_adamw)(learning_rate=1e-3, no_decay="bias")
    updates, _ = jax.jit(injected.update)(PARAMS, injected.init(PARAMS), PARAMS)
    assert set(updates) == {"weight", "bias"}


class Table(TypedDict):
    a: int


@dataclasses.dataclass
class Kinds:
    """The types of settings that a command of one's own may have."""

    pair: tuple[int, str] = (1, "a")
    noted: Annotated[tuple[int, ...], "note"] = (1, 2)
    bare: tuple = (1,)
    empty: tuple[()] = ()
    anything: Any = 3
    one_or_two: Literal[1, 2] = 1
    truth: Literal[True] = True
    maybe: Literal["a", None] = None
    table: Table = dataclasses.field(default_factory=lambda: Table(a=1))
    switch: bool = np.True_
    count: int | None = np.int64(3)
    scalar: int = dataclasses.field(default_factory=lambda: jax.numpy.int32(3))


def test_settings_of_any_type_are_accepted_and_plain():
    check_types(Kinds(), "mine")
    found = plain(Kinds())
    assert (type(found.switch), type(found.count), type(found.scalar)) == (bool, int, int)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pair": (1, 2)}, r"--pair has the wrong type; expected a tuple \(an int, a string\), got \(1, 2\)"),
        ({"pair": (1,)}, "--pair has the wrong type"),
        ({"noted": (1, "a")}, "--noted has the wrong type; expected a list of ints, got"),
        ({"one_or_two": 3}, "--one-or-two has the wrong type; expected 1 or 2, got 3"),
        ({"one_or_two": True}, "expected 1 or 2, got True"),
        ({"maybe": "b"}, "--maybe is unknown; expected 'a' or None, got 'b'"),
        ({"switch": 1}, "--switch has the wrong type; expected True or False, got 1"),
        ({"count": True}, "--count has the wrong type; expected an int or None, got True"),
    ],
)
def test_settings_of_another_type_are_named(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        check_types(Kinds(**change), "mine")


@pytest.mark.parametrize(
    "call",
    [
        lambda: optim.bert_adamw(np.float32(0.1), bias_correction=np.True_),
        lambda: optim.lamb(jax.numpy.float32(0.1), use_nvlamb=np.False_),
        lambda: optim.warmup_linear_decay(np.array(0.1), jax.numpy.int32(2), np.array(9)),
        lambda: train.Cadence(jax.numpy.int32(3), log_every=np.int64(1)),
        lambda: train.Best("loss", np.True_),
        lambda: parallel.make_mesh({"data": jax.numpy.int32(8)}),
    ],
)
def test_scalars_of_numpy_and_jax_are_numbers(call):
    call()
