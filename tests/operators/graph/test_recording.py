"""The wrapper of the functions: it is invisible, and calls are recorded only while a graph is built."""

import inspect
import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as np

from funcnet import functional as F
from funcnet.functional.linear import linear
from funcnet.operators.graph import backward
from funcnet.operators.graph.recording import Recorder, recorded, recording

X, W = jnp.ones((2, 3)), jnp.ones((4, 3))


def test_the_wrapper_is_invisible():
    assert pickle.loads(pickle.dumps(F.linear)) is F.linear
    assert inspect.signature(F.linear) == inspect.signature(linear)
    assert F.linear.__doc__ == linear.__doc__ and F.linear.__name__ == "linear"
    assert inspect.unwrap(F.linear) is linear


def test_nothing_is_recorded_elsewhere():
    assert "recorded" not in str(jax.make_jaxpr(F.linear)(X, W))
    backward(F.linear)(X, W)
    assert "recorded" not in str(jax.make_jaxpr(F.linear)(X, W))


def test_another_thread_records_nothing():
    jaxprs = []

    def run(x, w):
        thread = threading.Thread(target=lambda: jaxprs.append(str(jax.make_jaxpr(F.linear)(X, W))))
        thread.start()
        thread.join()
        return F.linear(x, w)

    backward(run)(X, W)
    assert "recorded" not in jaxprs[0]


def test_an_array_that_is_passed_twice_remains_one():
    seen = []
    same = recorded(lambda a, b: seen.append(a is b) or a + b, name="same")

    def run(x):
        with recording(Recorder({"same": None}, {})):
            return same(x, x)

    jax.make_jaxpr(run)(X)
    assert seen == [True]


def test_calls_fall_apart_under_vmap_and_grad():
    mapped = backward(lambda x, w: jax.vmap(F.linear, (0, None))(x, w))(X, W)
    np.testing.assert_allclose(mapped.results, F.linear(X, W))
    assert "AddmmBackward0" not in [node.name for node in mapped]
    gradient = backward(lambda x: jax.grad(lambda y: F.silu(y).sum())(x))(X)
    np.testing.assert_allclose(gradient.results, jax.grad(lambda y: F.silu(y).sum())(X), rtol=1e-6)
