"""The choice of devices, and the errors if there are too few."""

import os
import subprocess
import sys

import jax
import pytest
from jax.sharding import AxisType

from funcnet import parallel


def run_python(code, **environment):
    clean = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"} | {"JAX_PLATFORMS": "cpu"} | environment
    return subprocess.run([sys.executable, "-c", code], env=clean, capture_output=True, text=True, timeout=120)


def test_the_first_devices_are_taken():
    assert parallel.select_devices(3) == jax.devices()[:3]
    assert len(parallel.select_devices()) == 8


@pytest.mark.parametrize("count", [0, 9])
def test_more_devices_than_there_are_is_an_error(count):
    with pytest.raises(
        ValueError,
        match=rf"parallel.select_devices: the number of CPU devices is out "
        rf"of range; expected 1 to 8, got {count}. Call",
    ):
        parallel.select_devices(count)


def test_no_virtual_devices_is_an_error():
    with pytest.raises(
        ValueError, match=r"parallel.use_virtual_cpu_devices: count is out of range; expected at least 1, got 0\.$"
    ):
        parallel.use_virtual_cpu_devices(0)


@pytest.mark.slow
def test_virtual_devices_before_and_after_jax_starts():
    code = """
from funcnet import parallel
import jax
parallel.use_virtual_cpu_devices(4)
assert len(parallel.select_devices(4)) == 4
parallel.use_virtual_cpu_devices(3)
try:
    parallel.use_virtual_cpu_devices(5)
except ValueError as error:
    print(error)
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    assert (
        "JAX has already started; expected 5 CPU devices, got 4. Call this function before the first array"
        in result.stdout
    )


def test_the_mesh_leaves_the_layout_of_intermediate_values_to_the_compiler():
    mesh = parallel.make_mesh({"data": 4})
    assert dict(mesh.shape) == {"data": 4}
    assert mesh.axis_types == (AxisType.Auto,)
