"""Measure the addition of 8 million int8 beside LiteRT's kernels, each on one thread of one core, in alternation.

    XLA_FLAGS=--xla_cpu_multi_thread_eigen=false python -m tests.quantization.addition_speed

The last line is the ratio to XNNPACK of the fastest rounds: other programs on the machine only ever make a
round slower.
"""

import os
import time

import jax
import jax.numpy as jnp
import numpy as np
from ai_edge_litert.interpreter import Interpreter

from funcnet.quantization import QParams, add
from tests.quantization.tflite_models import REFERENCE, XNNPACK, add_model

COUNT, ROUNDS = 8_000_000, 100


def litert(model, arrays, kernels):
    """Return a function that runs a model."""
    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=kernels, num_threads=1)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)
    return interpreter.invoke


def main() -> None:
    """Print the milliseconds of each kernel, and the ratio."""
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # runs on the calling thread, as LiteRT does
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    values = np.random.default_rng(0).integers(-128, 128, (2, COUNT)).astype(np.int8)
    qparams = QParams(0.02, 3, "int8"), QParams(0.05, -7, "int8"), QParams(0.06, 11, "int8")
    model = add_model((COUNT,), *qparams)
    arrays = [jnp.asarray(one) for one in values]
    compiled = {
        kernel: jax.jit(lambda a, b, kernel=kernel: add(a, b, *qparams, kernel=kernel))
        for kernel in ("reference", "xnnpack")
    }
    functions = {
        "LiteRT, reference": litert(model, values, REFERENCE),
        "funcnet, reference": lambda: compiled["reference"](*arrays).block_until_ready(),
        "LiteRT, XNNPACK": litert(model, values, XNNPACK),
        "funcnet, xnnpack": lambda: compiled["xnnpack"](*arrays).block_until_ready(),
    }
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for index in range(ROUNDS + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if index:  # the first round compiles
                seconds[name].append(time.perf_counter() - start)
    for name, each in seconds.items():
        quartiles = 1000 * np.quantile(each, [0, 0.25, 0.5, 0.75])
        print("{}: fastest {:.2f} ms, quartiles {:.2f}, {:.2f}, {:.2f}".format(name, *quartiles))
    print(f"ratio {min(seconds['funcnet, xnnpack']) / min(seconds['LiteRT, XNNPACK']):.3f}")


if __name__ == "__main__":
    main()
