"""Which calls use kernels, and how they are turned off."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from funcnet import functional as F
from funcnet.operators import native
from funcnet.train.versions import versions

CODE = """
import sys
import jax, jax.numpy as jnp
from funcnet import functional as F
from funcnet.operators import native
run = jax.jit(lambda x, w: F.layer_norm(F.conv2d(x, w), (4,)))
print("@funcnet" in run.lower(jnp.ones((1, 2, 6, 6)), jnp.ones((3, 2, 3, 3))).as_text())
print(native.describe())
"""


def run(**variables):
    return subprocess.run(
        [sys.executable, "-c", CODE], env=os.environ | variables, capture_output=True, text=True, check=True
    )


@pytest.mark.slow
def test_off_by_a_variable():
    done = run(FUNCNET_NATIVE="0")
    assert done.stdout.splitlines() == ["False", "off"] and done.stderr == ""
    assert run(FUNCNET_NATIVE="1").stdout.splitlines()[0] == "True"


@pytest.mark.slow
def test_without_a_compiler_xla_computes_everything(tmp_path):
    done = run(CXX="/nowhere/g++", FUNCNET_CACHE=str(tmp_path))
    assert done.stdout.splitlines()[0] == "False"
    assert done.stderr.count("\n") == 2 and done.stderr.count("without kernels: /nowhere/g++ cannot be run") == 2


def test_a_context_turns_them_off_and_traces_again():
    run = jax.jit(lambda x: F.layer_norm(x, (4,)))
    x = jnp.ones((2, 4))
    assert "@funcnet" in run.lower(x).as_text()
    with native.allowed(False):
        assert "@funcnet" not in run.lower(x).as_text() and not native.is_on("kernels")
    assert "@funcnet" in run.lower(x).as_text()


def test_only_float32():
    assert native.is_used("kernels", np.zeros(2, np.float32))
    assert not native.is_used("kernels", np.zeros(2, np.float32), np.zeros(2, np.float16))


@pytest.mark.slow
def test_threads_that_come_first_together():
    code = """if True:
        from concurrent.futures import ThreadPoolExecutor
        import jax.numpy as jnp
        from funcnet import functional as F
        with ThreadPoolExecutor(8) as pool:
            run = lambda i: F.softmax(F.layer_norm(jnp.ones((2, 4)), (4,)), -1)
            print({float(y.sum()) for y in pool.map(run, range(8))})
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "{2.0}\n"


def test_runs_record_them():
    assert versions()["kernels"] == native.describe()
    assert all(one in native.describe() for one in ("normalisation", "convolutions"))
