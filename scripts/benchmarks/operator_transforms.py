"""Which of JAX's transformations a C++ kernel supports: as an operator of funcnet, and by JAX's own ways.

    python scripts/benchmarks/operator_transforms.py

The kernel scales the rows of an array, forward and backward. It needs a C++ compiler. Prints a table: `yes`, or the
first words of the error.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.custom_partitioning import SdyShardingRule, custom_partitioning

from funcnet import operators
from funcnet.table import text
from tests.operators.samples import SAMPLES

X, W = np.linspace(-1, 1, 8 * 4, dtype=np.float32).reshape(8, 4), np.arange(1, 5, dtype=np.float32)
MESH = jax.make_mesh((8,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
Kernel = Callable[[Any, Any], Any]


def foreign(x: Any, w: Any) -> Any:
    made = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.ffi.ffi_call("test_scale", made, vmap_method="broadcast_all")(x, w, factor=np.float64(1.5))


def with_vjp(kernel: Kernel) -> Kernel:
    made = jax.custom_vjp(kernel)
    made.defvjp(
        lambda x, w: (kernel(x, w), (x, w)),
        lambda kept, grad: (kernel(grad, kept[1]), (grad * kept[0] * 1.5).reshape(-1, 4).sum(0)),
    )
    return made


def partitioned() -> Kernel:
    def partition(mesh: Any, arguments: Any, result: Any) -> Any:
        rows = jax.NamedSharding(mesh, jax.P("rows"))
        return mesh, foreign, rows, (rows, jax.NamedSharding(mesh, jax.P()))

    made = custom_partitioning(foreign)
    made.def_partition(
        partition=partition,
        sharding_rule=SdyShardingRule(operand_mappings=(("i", "j"), ("j",)), result_mappings=(("i", "j"),)),
    )
    return made


def cells(kernel: Kernel) -> dict[str, Callable[[], Any]]:
    """Return {transformation: function that applies it and compares the values}."""
    plain = lambda x, w: x * w * 1.5
    total = lambda function: lambda x, w: jnp.sin(function(x, w)).sum()

    def same(make: Callable[[Kernel], Any]) -> Callable[[], Any]:
        return lambda: jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5), make(kernel), make(plain))

    def sharded() -> None:
        x = jax.device_put(X, jax.NamedSharding(MESH, jax.P("rows")))
        program = jax.jit(kernel).lower(x, W).compile()
        found = re.findall("all-gather|all-reduce|all-to-all|collective-permute", program.as_text())
        np.testing.assert_allclose(program(x, W), plain(X, W), rtol=2e-5)
        if found:
            raise RuntimeError(f"{len(found)} collectives")

    def exported() -> None:
        disabled = [jax.export.DisabledSafetyCheck.custom_call("test_scale")]
        jax.export.export(jax.jit(kernel), platforms=("cpu", "cuda", "tpu"), disabled_checks=disabled)(X, W)

    shards = lambda function: jax.jit(
        jax.shard_map(function, mesh=MESH, in_specs=(jax.P("rows"), jax.P()), out_specs=jax.P("rows"))
    )
    second = lambda function: jax.grad(lambda x, w: jnp.sin(jax.grad(total(function))(x, w)).sum())
    return {
        "eager": same(lambda function: function(X, W)),
        "jit": same(lambda function: jax.jit(function)(X, W)),
        "grad": same(lambda function: jax.grad(total(function), (0, 1))(X, W)),
        "jvp": same(lambda function: jax.jvp(function, (X, W), (X, W))),
        "grad of grad": same(lambda function: second(function)(X, W)),
        "vmap": same(lambda function: jax.vmap(function, (0, None))(X, W)),
        "nested vmap": same(lambda function: jax.vmap(jax.vmap(function, (0, None)), (1, None))(X[:, None], W)),
        "grad of vmap": same(lambda function: jax.grad(total(jax.vmap(function, (0, None))), (0, 1))(X, W)),
        "jit on 8 shards, 0 collectives": sharded,
        "shard_map": same(lambda function: shards(function)(X, W)),
        "export for cpu, cuda, tpu": exported,
    }


def tried(run: Callable[[], Any]) -> str:
    try:
        run()
    except Exception as error:
        return str(error).strip().splitlines()[0][:48]
    return "yes"


def main() -> None:
    assert SAMPLES  # compiles and registers the kernel
    kernels = {
        "operator": operators.get("test::scale"),
        "ffi_call": foreign,
        "custom_vjp": with_vjp(foreign),
        "custom_partitioning": partitioned(),
        "custom_vjp of it": with_vjp(partitioned()),
    }
    columns = {name: {cell: tried(run) for cell, run in cells(kernel).items()} for name, kernel in kernels.items()}
    rows = [[cell, *(found[cell] for found in columns.values())] for cell in columns["operator"]]
    print(text([["", *columns], *rows], left=1 + len(columns)))


if __name__ == "__main__":
    main()
