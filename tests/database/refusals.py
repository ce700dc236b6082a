"""The databases' error inputs: refused here too, at the same moment, with a message that says where and why."""

import re
from typing import Any

import jax
import torch
from torch.testing._internal.common_modules import ModuleErrorEnum

from funcnet import functional as F
from funcnet import nn
from tests.database import convert
from tests.database.functions import FUNCTIONS
from tests.database.modules import LAYERS, MODULES, Result

_WITH_ERRORS = {name for name, info in MODULES.items() if info.module_error_inputs_func}
KNOWN = _WITH_ERRORS | {name for name, op in FUNCTIONS.items() if op.error_inputs_func}
OURS = re.compile(r"^[\w.]+( \([\w]+\))?: ", re.DOTALL)


def run(name: str, dtype: str = "float32", limit: int | None = None) -> Result:
    """All error inputs of a module or a function."""
    each = _modules(name) if name in _WITH_ERRORS else _functions(name)
    failures, count = [], 0
    for number, (said, failure) in enumerate(each):
        count += 1
        if failure:
            failures.append(f"{name} error input {number} (torch: {said!r}): {failure}")
    return Result(name, count, 0.0, tuple(failures))


def _modules(name: str) -> Any:
    info = MODULES[name]
    torch.manual_seed(0)
    with convert.remembering_arguments(*LAYERS):
        inputs = [
            (sample, training)
            for training in (True, False)
            for sample in info.module_error_inputs_func(
                info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
            )
        ]
    for sample, training in inputs:
        built, given = sample.module_error_input.constructor_input, sample.module_error_input.forward_input
        build = lambda built=built: getattr(nn, name)(*convert.ours(tuple(built.args)), **convert.ours(built.kwargs))
        if sample.error_on is ModuleErrorEnum.CONSTRUCTION_ERROR:
            yield sample.error_regex, refusal(build)
            continue
        try:
            net = build()
        except Exception as error:
            yield sample.error_regex, f"refused at construction, torch at the call: {error}"
            continue

        if not refused_by_torch(name, sample, training):
            continue

        def call(net: Any = net, given: Any = given, training: bool = training) -> Any:
            args, kwargs = convert.ours((tuple(given.args), dict(given.kwargs)))
            params, state = net.init(jax.random.key(0))
            return net.apply(params, state, *args, training=training, rng=jax.random.key(0), **kwargs)

        wide = any(getattr(leaf, "dtype", None) == torch.float64 for leaf in jax.tree.leaves(tuple(given.args)))
        with jax.enable_x64(wide):  # without, a float64 input is cut to float32 and fits
            said = refusal(call)
        yield sample.error_regex, said


def _functions(name: str) -> Any:
    op = FUNCTIONS[name]
    torch.manual_seed(0)
    function = getattr(F, name.split("/")[0])
    for error in op.error_inputs("cpu"):
        sample = error.sample_input

        def call(sample: Any = sample) -> Any:
            args, kwargs = convert.ours(((sample.input, *sample.args), dict(sample.kwargs)))
            return function(*args, **kwargs)

        yield error.error_regex, refusal(call)


def refused_by_torch(name: str, sample: Any, training: bool) -> bool:
    """The database says so of both modes; BatchNorm in eval takes eps=0."""
    built, given = sample.module_error_input.constructor_input, sample.module_error_input.forward_input
    try:
        MODULES[name].module_cls(*built.args, **built.kwargs).train(training)(*given.args, **given.kwargs)
    except Exception:
        return True
    return False


def refusal(call: Any) -> str | None:
    """None if `call` is refused as it should be, else what is wrong."""
    try:
        call()
    except (ValueError, TypeError) as error:
        if not OURS.match(str(error)):
            return f"{type(error).__name__} does not say where: {error}"[:300]
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    return "was accepted"
