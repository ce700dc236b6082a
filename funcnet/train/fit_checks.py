"""Checks of the arguments of `fit`, and functions that make error messages of `fit`."""

import re
from collections.abc import Mapping

from funcnet import nn
from funcnet.arguments import boolean, expect, function, transformation
from funcnet.settings import check_ranges
from funcnet.train.fit_data import check_data, check_shared, is_function
from funcnet.train.fit_task import FitSettings, Plan
from funcnet.train.setting_types import check_types
from funcnet.train.storable import storable_leaves
from funcnet.train.task_interface import Best

__all__ = ["check_plan", "check_settings", "hidden_names", "in_python"]

WHERE = "train.fit"


def check_plan(plan: Plan) -> None:
    """Check the types of the arguments of `fit` that are objects or functions.

    Raises:
        TypeError: if an argument has the wrong type. The message says what to pass.
        ValueError: if arguments contradict each other.
    """
    expect(isinstance(plan.net, nn.Module), WHERE, "net", "a module, such as nn.Linear(2, 1)", plan.net)
    arguments = "model, batch" if plan.extra is None else "model, batch, extra"
    count = 2 if plan.extra is None else 3
    function(WHERE, "loss", plan.loss, f"loss({arguments})", count)
    transformation(WHERE, "optimizer", plan.optimizer)
    constant = "A constant learning rate needs no schedule."
    for name, form, size, advice in (
        ("weight", "weight(batch)", 1, ""),
        ("schedule", "schedule(step)", 1, constant),
        ("update_extra", "update_extra(train_state, metrics)", 2, ""),
        ("predict", f"predict({arguments})", count, ""),
        ("metrics", "metrics(outputs, labels)", None, ""),
        ("after_evaluation", "after_evaluation(evaluation)", 1, ""),
    ):
        if getattr(plan, name) is not None:
            function(WHERE, name, getattr(plan, name), form, size, advice=advice)
    boolean(WHERE, "evaluate_ema", plan.evaluate_ema)
    expect(plan.best is None or isinstance(plan.best, Best), WHERE, "best", "train.Best('loss') or None", plan.best)
    _check_start(plan.start)
    storable_leaves({"extra": plan.extra} if plan.extra is not None else {}, WHERE)
    check_data("data", plan.data, "data(start_step)", 0)
    if plan.validation is not None:
        check_data("validation", plan.validation, "validation()")
        check_shared(plan.data, plan.validation)
    _check_evaluation(plan)
    if plan.update_extra is not None and plan.extra is None:
        raise ValueError(f"{WHERE}: update_extra needs values to update; expected extra=VALUES, got None.")


def check_settings(settings: FitSettings, plan: Plan) -> None:
    """Check the arguments of `fit` that are numbers, strings or booleans.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if an argument is out of range, or arguments contradict each other.
    """
    check_types(settings, WHERE, str)
    check_ranges(settings, WHERE, str)
    steps, epochs = settings.steps, settings.epochs
    if (steps is None) == (epochs is None):
        got = "neither" if steps is None else f"steps={steps} and epochs={epochs}"
        raise ValueError(f"{WHERE}: the length of the run is not clear; expected either steps or epochs, got {got}.")
    by_epoch = {"epochs": epochs, "evaluate_every": settings.checkpoint.evaluate_every}
    by_epoch |= {"save_every": settings.checkpoint.save_every}
    for name, value in by_epoch.items():
        if is_function(plan.data) and (value == "epoch" or (name == "epochs" and value is not None)):
            raise ValueError(
                f"{WHERE}: {name}={value!r} needs data with epochs; expected data as a dict of arrays, a dataset or a "
                "DataLoader, got a function data(start_step), which has only steps."
            )
    if settings.buffers != "synced" and settings.device.parallel == "jit":
        raise ValueError(
            f"{WHERE}: buffers={settings.buffers!r} needs devices that compute their own buffers; expected "
            "parallel='shard_map' or 'pmap', got 'jit', which computes the buffers from the rows of all devices."
        )
    if plan.evaluate_ema and settings.ema is None:
        raise ValueError(f"{WHERE}: evaluate_ema needs averaged weights; expected a decay rate as ema, got None.")


def _check_evaluation(plan: Plan) -> None:
    needing = {
        "best": plan.best is not None,
        "evaluate_ema": plan.evaluate_ema,
        "metrics": plan.metrics is not None,
        "after_evaluation": plan.after_evaluation is not None,
    }
    if plan.validation is None and any(needing.values()):
        names = [name for name, is_given in needing.items() if is_given]
        verb = "need" if len(names) > 1 else "needs"
        raise ValueError(f"{WHERE}: {' and '.join(names)} {verb} validation data; expected validation=DATA, got None.")
    if plan.metrics is not None and plan.predict is None:
        raise ValueError(
            f"{WHERE}: metrics needs the outputs of the model; expected predict(model, batch), which returns them, got "
            "None."
        )
    if plan.predict is not None and plan.metrics is None and plan.after_evaluation is None:
        raise ValueError(f"{WHERE}: nothing uses predict; expected metrics or after_evaluation too, got neither.")


def _check_start(start: object) -> None:
    is_pair = isinstance(start, tuple | list) and len(start) == 2 and all(isinstance(one, Mapping) for one in start)
    advice = "Pass (params, {}) for a net without buffers." if isinstance(start, Mapping) else ""
    expect(start is None or is_pair, WHERE, "start", "a pair (params, state), as net.init returns it", start, advice)


def in_python(message: str) -> str:
    """Return an error message of a run in the terms of `fit`: with the prefix "train.fit", and with arguments instead
    of flags.

    >>> in_python("train.open_run: the folder is full; expected another one. Use another --out, or add --resume.")
    'train.fit: the folder is full; expected another one. Use another out, or add resume=True.'
    """
    message = re.sub(r"^train\.[\w.]+:", "train.fit:", message).replace("--resume", "resume=True")
    return re.sub(r"(?<![^\s(])--([a-z]+(?:-[a-z]+)*)\b", lambda flag: flag[1].replace("-", "_"), message)


def hidden_names(net: nn.Module) -> str:
    """Return sentences for an error message that name the parameters that the optimizer does not get, and say why.

    The sentences name at most three shared and three frozen parameters.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, bias=False))
    >>> net[1].weight = net[0].weight
    >>> _ = net[0].bias.requires_grad_(False)
    >>> hidden_names(net)
    " '1.weight' is shared with '0.weight'; use that name. '0.bias' is frozen; the optimizer does not get it."
    """
    first: dict[int, str] = {}
    leaves = list(net.named_parameters(remove_duplicate=False))
    pairs = [(name, first.setdefault(id(leaf), name)) for name, leaf in leaves]
    shared = [f" {name!r} is shared with {home!r}; use that name." for name, home in pairs if name != home]
    frozen = [f" {name!r} is frozen; the optimizer does not get it." for name, leaf in leaves if not leaf.requires_grad]
    return "".join(shared[:3] + frozen[:3])
